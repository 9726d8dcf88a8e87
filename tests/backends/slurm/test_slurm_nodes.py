"""Jobs of several nodes: they find each other under both sets of names, and end as one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from support.cluster import cluster_here, jax_here
from support.cluster.cluster_here import Cluster
from support.cluster.cluster_images import PYTHON
from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

# A process group over sockets, as torch.distributed's store makes one: rank 0 listens at
# MASTER_ADDR:MASTER_PORT, each rank hands in a number, and every rank gets the sum.
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
    for _ in range(1200):
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


GROUP = f"exec python3 - <<'END'\n{PROCESS_GROUP}END\n"
PORT = 'echo "$MASTER_PORT $SLURM_JOB_ID"'
ENDS = {"kill -KILL $$": 137, "kill -SEGV $$": 139, "exit 137": 137}
JOBS: dict[str, dict[str, Any]] = {
    "group": {"command": GROUP, "gpu_count": 2},
    "no_gpus": {"command": GROUP},
    "fails": {"command": "if [ $NODE_RANK = 1 ]; then echo broken >&2; exit 9; fi; sleep 300"},
    **{end: {"command": f"[ $NODE_RANK = 0 ] || {end}; sleep 300"} for end in ENDS},
    "port_of_whole_nodes": {"command": PORT, "gpu_count": 8},
    "port_of_the_job": {"command": PORT, "gpu_count": 2},
    "port_of_the_caller": {"command": PORT, "env_vars": {"MASTER_PORT": "31000"}},
    "spread": {"command": "echo $NNODES x $NUM_GPU_PER_NODE", "gpu_count": 12, "num_nodes": None},
}


@dataclass
class Told:
    """Jobs of two nodes, all of which have ended."""

    client: Client
    jobs: dict[str, Job]

    def log(self, name: str, rank: int = 0) -> str:
        return b"".join(
            self.client.follow_logs(self.jobs[name].id, rank=rank, follow=False)
        ).decode()

    def ranks(self, name: str) -> tuple[dict[str, str], dict[str, str]]:
        assert self.jobs[name].status is Status.COMPLETE, self.log(name)
        return json.loads(self.log(name, 0)), json.loads(self.log(name, 1))


@pytest.fixture(scope="module")
def told(lasting_client: Client) -> Told:
    """Those that want whole nodes come last: the others would wait for them."""
    ids: dict[str, str] = {}
    for name in sorted(JOBS, key=lambda name: JOBS[name].get("gpu_count", 0)):
        spec = JobSpec(**{"image": PYTHON, "num_nodes": 2, "gpu_count": 0, "cpus": 1, **JOBS[name]})
        ids[name] = lasting_client.submit(spec, "slurm").job.id
    ended = lasting_client.wait_all(list(ids.values()), timeout=300)
    return Told(lasting_client, dict(zip(ids, ended, strict=True)))


def test_two_nodes_form_a_process_group_and_each_rank_has_its_place(told: Told) -> None:
    first, second = told.ranks("group")
    assert (first["total"], second["total"]) == (11, 11)
    assert [first["node"], second["node"]] == cluster_here.cluster().place.nodes[:2]
    assert first["MASTER_ADDR"] == second["MASTER_ADDR"] == first["node"]
    assert [(each["WORLD_SIZE"], each["NNODES"], each["NODE_RANK"]) for each in (first,
         second)] == [
        ("2", "2", "0"), ("2", "2", "1")
    ]  # fmt: skip
    assert [(each["NUM_GPU_PER_NODE"], each["NPROC_PER_NODE"]) for each in (first, second)] == [
        ("2", "2")
    ] * 2
    assert [len(each["CUDA_VISIBLE_DEVICES"].split(",")) for each in (first, second)] == [2, 2]


def test_jax_forms_a_process_group_on_two_nodes_with_nothing_but_the_jobs_variables(
    client: Client, cluster: Cluster
) -> None:
    command = (
        f"export PYTHONPATH={jax_here.place(cluster)} JAX_PLATFORMS=cpu\nexec {jax_here.PYTHON} "
        f"- <<'END'\n{JAX}END\n"
    )
    spec = JobSpec(command=command, num_nodes=2, gpu_count=0, memory="8g")
    job = client.submit(spec, "slurm", {"container_runtime": "none"}).job
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE, client.get_job_logs(job.id)
    said = [
        b"".join(client.follow_logs(job.id, rank=rank, stream="stdout", follow=False))
        for rank in (0, 1)
    ]
    assert [each.splitlines()[-1] for each in said] == [b"sum 11 of 2"] * 2


def test_nothing_of_slurm_makes_lightning_believe_that_srun_started_its_ranks(told: Told) -> None:
    """It looks for SLURM_NTASKS beside a job's name that is not `bash` or `interactive`."""
    for each in told.ranks("no_gpus"):
        assert each["SLURM_JOB_NAME"] == "bash"
        assert [each[name] for name in ("SLURM_NTASKS", "SLURM_PROCID", "RANK", "LOCAL_RANK")] == [
            None
        ] * 4


def test_a_rank_that_fails_ends_the_others_and_gives_the_job_its_code(told: Told) -> None:
    assert (told.jobs["fails"].status, told.jobs["fails"].exit_code) == (Status.ERROR, 9)
    assert "broken" in told.log("fails", 1)


def test_the_code_of_a_job_is_that_of_the_rank_that_was_killed_first(told: Told) -> None:
    """srun has the signal for its code with which it then ended the others; of codes above 128
    SLURM keeps the signal.
    """
    assert {end: told.jobs[end].exit_code for end in ENDS} == ENDS


def test_the_port_is_the_usual_one_on_whole_nodes_the_jobs_own_on_shared_ones_and_the_callers_where_there_is_one(
    told: Told,
) -> None:
    ports = {name: told.log(name).split() for name in JOBS if name.startswith("port")}
    slurm_id = int(ports["port_of_the_job"][1])
    assert {name: port for name, (port, _) in ports.items()} == {
        "port_of_whole_nodes": "29500", "port_of_the_job": str(15000 + slurm_id % 17000),
        "port_of_the_caller": "31000"
    }  # fmt: skip


def test_more_gpus_than_a_node_has_are_spread_evenly_over_the_fewest_nodes(told: Told) -> None:
    assert told.log("spread") == "2 x 6\n"
