"""Many short jobs while the cluster breaks: every status is right in the end, and nothing ran that
was not asked for.

`make soak` runs a thousand; `make test` a few.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.cluster.cluster_here import SHARED, Cluster, until
from tao_sdk.client import Client
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

JOBS = int(os.environ.get("TAO_SOAK_JOBS") or "24")
FAILS_EVERY = 4
LOST = f"{SHARED}/soak-lost"  # the job that loses its node has begun
LONG = 4 if JOBS < 100 else 60  # its seconds
PATIENCE = 600 + JOBS * 3  # seconds; only against waiting for ever


def code(number: int) -> int:
    return 3 if number % FAILS_EVERY == 0 else 0


@contextmanager
def breaking(steps: dict[int, Callable[[], None]]) -> Iterator[Callable[[int], None]]:
    """Calls each step in a thread of its own once so many jobs are submitted, and waits for all of
    them at the end.
    """
    threads: list[threading.Thread] = []

    def reached(number: int) -> None:
        if number in steps:
            threads.append(threading.Thread(target=steps[number]))
            threads[-1].start()

    yield reached
    for each in threads:
        each.join()


def lose_node(cluster: Cluster) -> None:
    """Its daemon is killed while the job that takes long runs there, and starts again once the
    controller has noticed.
    """
    node = cluster.place.nodes[3]
    until(cluster.path(LOST).exists, PATIENCE)
    cluster.kill_node(node)
    if JOBS < 100:
        cluster.fail_node(node)
    else:
        until(
            lambda: (
                "down" in cluster.ask("sinfo", "-h", "-n", node, "-p", "grizzly", "-o", "%T").stdout
            )
        )
    cluster.start_node(node)


def lose_login_node(cluster: Cluster) -> None:
    with cluster.login_node_down("login1"):
        threading.Event().wait(3 if JOBS < 100 else 20)


def submit(client: Client, number: int, node: str = "") -> str:
    """On `node` it lasts until that can be lost under it: the controller takes a silent one for
    dead after a while.
    """
    command = (
        f"{f'touch {LOST}; sleep {LONG}; ' if node else ''}echo $TAO_JOB_ID >> "
        f"{SHARED}/soak/{number}; exit {code(number)}"
    )
    spec = JobSpec(
        name="soak", command=command, gpu_count=0, cpus=1, labels={"number": str(number)}
    )
    for _ in range(20):
        try:
            options = {"container_runtime": "none", "partition": "grizzly", "nodelist": node}
            return client.submit(spec, "slurm", options).job.id
        except Unreachable:
            # nothing was started, or it is in doubt and belongs to a job that is counted below
            continue
    raise AssertionError(f"job {number} could not be handed over")


def sessions(cluster: Cluster, host: str) -> int:
    return (
        (cluster.folder / "log" / f"sshd-{host}.out")
        .read_text(errors="replace")
        .count("Starting session")
    )


def slurm_jobs(cluster: Cluster) -> Counter[str]:
    """How many SLURM jobs of each name there ever were."""
    names = cluster.ask("sacct", "-XnP", "-a", "-S", "now-1days", "-o", "JobName").stdout.split()
    return Counter(name for name in names if name.startswith("soak-"))


def test_every_job_has_its_status_and_ran_once_whatever_broke(
    cluster: Cluster, surroundings: dict[str, str], tmp_path: Path
) -> None:
    cluster.login(f"rm -rf {SHARED}/soak {LOST}; mkdir -p {SHARED}/soak")
    settings = Settings({**surroundings, "SLURM_HOSTNAME": "login1,login2"})
    controller, other_login = cluster.running["slurmctld"].pid, sessions(cluster, "login2")
    steps: dict[int, Callable[[], None]] = {
        JOBS // 4: lambda: lose_node(cluster),
        JOBS // 2: cluster.restart_controller,
        JOBS * 3 // 4: lambda: lose_login_node(cluster),
    }
    with (
        Client(settings=settings, watch=True, poll_interval=2) as client,
        breaking(steps) as reached,
    ):
        for number in range(JOBS):
            reached(number)
            submit(client, number, cluster.place.nodes[3] if number == JOBS // 4 else "")
        jobs = client.list_jobs(look=False)
        ended = {
            job.labels["number"]: job
            for job in client.wait_all([job.id for job in jobs], timeout=PATIENCE)
        }
    wrong = [
        (number, job.status.value, job.message)
        for number, job in ended.items()
        if (job.status, job.exit_code)
        != ((Status.ERROR, 3) if code(int(number)) else (Status.COMPLETE, 0))
    ]
    assert wrong == []
    assert sorted(ended, key=int) == [str(number) for number in range(JOBS)]
    assert len(jobs) == JOBS
    assert (
        "NODE_FAIL" in cluster.ask("sacct", "-XnPD", "-a", "-S", "now-1days", "-o", "State").stdout
    ), "no job lost its node"
    assert cluster.running["slurmctld"].pid != controller
    assert sessions(cluster, "login2") > other_login, "nobody had to use the other login node"
    ids = {job.id for job in jobs}
    until(
        lambda: {name.partition(".")[0] for name in slurm_jobs(cluster)} == ids
    )  # sacct's list lags behind
    assert [name for name, count in slurm_jobs(cluster).items() if count > 1] == [], (
        "SLURM had a job twice"
    )
    ran = {
        each.name: set(each.read_text().split())
        for each in cluster.path(f"{SHARED}/soak").iterdir()
    }
    assert ran == {number: {job.id} for number, job in ended.items()}
