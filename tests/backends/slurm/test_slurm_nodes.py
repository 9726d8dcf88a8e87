"""Jobs of several nodes: they find each other under both sets of names, and end as one."""

from __future__ import annotations

import json

import jax_here
import pytest
from cluster_here import Cluster
from cluster_images import PYTHON

from tao_sdk.client import Client
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

# A process group over sockets, as torch.distributed's store makes one: rank 0 listens at MASTER_ADDR:MASTER_PORT, each rank
# hands in a number, and every rank gets the sum.
PROCESS_GROUP = """
import json, os, socket, time
rank, nodes = int(os.environ["NODE_RANK"]), int(os.environ["WORLD_SIZE"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
mine = 10 ** rank
if rank == 0:
    server = socket.create_server(("", address[1]))
    others = [server.accept()[0] for _ in range(nodes - 1)]
    total = mine + sum(int(each.recv(100)) for each in others)
    for each in others:
        each.sendall(str(total).encode())
else:
    for _ in range(200):
        try:
            peer = socket.create_connection(address)
            break
        except OSError:
            time.sleep(0.05)
    peer.sendall(str(mine).encode())
    total = int(peer.recv(100))
names = ("WORLD_SIZE NNODES NODE_RANK MASTER_ADDR NUM_GPU_PER_NODE NPROC_PER_NODE SLURM_JOB_NAME SLURM_NTASKS SLURM_PROCID "
         "RANK LOCAL_RANK CUDA_VISIBLE_DEVICES TAO_JOB_ID")
said = {name: os.environ.get(name) for name in names.split()}
print(json.dumps({"total": total, "node": os.environ["SLURMD_NODENAME"], **said}))
"""


# The same with what trains: every process adds what all have.
JAX = """
import os
import jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
address = os.environ["MASTER_ADDR"] + ":" + os.environ["MASTER_PORT"]
jax.distributed.initialize(address, int(os.environ["WORLD_SIZE"]), int(os.environ["NODE_RANK"]))
from jax.experimental import multihost_utils
numbers = multihost_utils.process_allgather(jax.numpy.array([10 ** jax.process_index()]))
print("sum", int(numbers.sum()), "of", jax.process_count())
"""


def ranks(client: Client, job_id: str, count: int) -> list[dict[str, str]]:
    return [json.loads(b"".join(client.follow_logs(job_id, rank=rank, follow=False))) for rank in range(count)]


@pytest.fixture
def command() -> str:
    return f"exec python3 - <<'END'\n{PROCESS_GROUP}END\n"


def test_two_nodes_form_a_process_group_and_each_rank_has_its_place(
    client: Client, cluster: Cluster, command: str
) -> None:
    spec = JobSpec(image=PYTHON, command=command, num_nodes=2, gpu_count=2)
    job = client.submit(spec, "slurm").job
    assert client.wait(job.id, timeout=90).status is Status.COMPLETE, client.get_job_logs(job.id)
    first, second = ranks(client, job.id, 2)
    assert (first["total"], second["total"]) == (11, 11)
    assert [first["node"], second["node"]] == cluster.place.nodes[:2]
    assert first["MASTER_ADDR"] == second["MASTER_ADDR"] == first["node"]
    assert [(each["WORLD_SIZE"], each["NNODES"], each["NODE_RANK"]) for each in (first, second)] == [
        ("2", "2", "0"), ("2", "2", "1")
    ]  # fmt: skip
    assert [(each["NUM_GPU_PER_NODE"], each["NPROC_PER_NODE"]) for each in (first, second)] == [("2", "2")] * 2
    assert [each["CUDA_VISIBLE_DEVICES"] for each in (first, second)] == ["0,1"] * 2


def test_jax_forms_a_process_group_on_two_nodes_with_nothing_but_the_jobs_variables(
    client: Client, cluster: Cluster
) -> None:
    command = (
        f"export PYTHONPATH={jax_here.place(cluster)} JAX_PLATFORMS=cpu\nexec {jax_here.PYTHON} - <<'END'\n{JAX}END\n"
    )
    spec = JobSpec(command=command, num_nodes=2, gpu_count=0, memory="8g")
    job = client.submit(spec, "slurm", {"container_runtime": "none"}).job
    assert client.wait(job.id, timeout=120).status is Status.COMPLETE, client.get_job_logs(job.id)
    said = [b"".join(client.follow_logs(job.id, rank=rank, stream="stdout", follow=False)) for rank in (0, 1)]
    assert [each.splitlines()[-1] for each in said] == [b"sum 11 of 2"] * 2


def test_nothing_of_slurm_makes_lightning_believe_that_srun_started_its_ranks(client: Client, command: str) -> None:
    """It looks for SLURM_NTASKS beside a job's name that is not `bash` or `interactive`."""
    job = client.submit(JobSpec(image=PYTHON, command=command, num_nodes=2, gpu_count=0), "slurm").job
    assert client.wait(job.id, timeout=90).status is Status.COMPLETE
    for each in ranks(client, job.id, 2):
        assert each["SLURM_JOB_NAME"] == "bash"
        assert [each[name] for name in ("SLURM_NTASKS", "SLURM_PROCID", "RANK", "LOCAL_RANK")] == [None] * 4


def test_a_rank_that_fails_ends_the_others_and_gives_the_job_its_code(client: Client) -> None:
    command = "if [ $NODE_RANK = 1 ]; then echo broken >&2; exit 9; fi; sleep 300"
    job = client.submit(JobSpec(image=PYTHON, command=command, num_nodes=2, gpu_count=0), "slurm").job
    assert client.wait(job.id, timeout=90).status is Status.ERROR
    assert client.get_job(job.id).exit_code == 9
    assert b"broken" in b"".join(client.follow_logs(job.id, rank=1, follow=False))


def test_the_code_of_a_job_is_that_of_the_rank_that_was_killed_first(client: Client) -> None:
    """srun has the signal for its code with which it then ended the others; of codes above 128 SLURM keeps the signal."""
    ends = {"kill -KILL $$": 137, "kill -SEGV $$": 139, "exit 137": 137}
    jobs = {
        end: client.submit(
            JobSpec(image=PYTHON, command=f"[ $NODE_RANK = 0 ] || {end}; sleep 300", num_nodes=2, gpu_count=0, cpus=1),
            "slurm",
        ).job.id
        for end in ends
    }
    client.wait_all(list(jobs.values()), timeout=90)
    assert {end: client.get_job(job).exit_code for end, job in jobs.items()} == ends


@pytest.mark.parametrize(("gpus", "port"), [(8, "29500"), (2, None)])
def test_the_port_is_the_usual_one_on_whole_nodes_and_the_jobs_own_on_shared_ones(
    client: Client, gpus: int, port: str | None
) -> None:
    command = 'echo "$MASTER_PORT $SLURM_JOB_ID"'
    job = client.submit(JobSpec(image=PYTHON, command=command, num_nodes=2, gpu_count=gpus), "slurm").job
    assert client.wait(job.id, timeout=90).status is Status.COMPLETE
    seen, slurm_id = client.get_job_logs(job.id).split()
    assert seen == (port or str(15000 + int(slurm_id) % 17000))


def test_the_callers_own_port_is_kept(client: Client) -> None:
    spec = JobSpec(
        image=PYTHON, command="echo $MASTER_PORT", num_nodes=2, gpu_count=0, env_vars={"MASTER_PORT": "31000"}
    )
    job = client.submit(spec, "slurm").job
    assert client.wait(job.id, timeout=90).status is Status.COMPLETE
    assert client.get_job_logs(job.id) == "31000\n"


def test_more_gpus_than_a_node_has_are_spread_evenly_over_the_fewest_nodes(client: Client) -> None:
    job = client.submit(JobSpec(image=PYTHON, command="echo $NNODES x $NUM_GPU_PER_NODE", gpu_count=12), "slurm").job
    assert client.wait(job.id, timeout=90).status is Status.COMPLETE
    assert client.get_job_logs(job.id) == "2 x 6\n"
