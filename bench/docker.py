"""Docker: what our job costs over a raw container of the same daemon, from its start to its log and
its end.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import many
from bench.arrival import arrival, arriving_job
from bench.containers import IMAGE, Containers, container, daemon_here
from bench.contenders import Missing, ours
from bench.figure import Figure, count, growth, more_seconds, ratio
from bench.folder import scratch
from bench.logs import read_by, reader, whole, written_log
from bench.rivals import Rivals
from bench.rounds import interleaved, seconds_of
from bench.scale import Scale
from tao_sdk.backends.this_machine import this_machine
from tao_sdk.client import Client
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.model.settings import Settings
from tao_sdk.model.status import Status
from tao_sdk.store import Store

API = "`create` and `start` of the API"
SAVES = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"


def figures(scale: Scale, rivals: Rivals) -> Iterator[Figure]:
    yield from statuses(scale)
    try:
        daemon = daemon_here()
    except Missing as reason:
        rivals.missing["Docker"] = str(reason)
        print(
            f"\n!!! NOT MEASURED: there is no Docker here; its rows are left out.\n{reason}\n",
            file=sys.stderr,
        )
        return
    with scratch() as folder, Containers(daemon, folder) as containers:
        containers.ended(containers.submit("true", keep_results=False))
        yield from submits(containers, scale)
        yield from first_instructions(containers, scale)
        yield from cancels(containers, scale)
        yield from logs(containers, scale)


def submits(containers: Containers, scale: Scale) -> Iterator[Figure]:
    keeper = containers.submit("sleep 3600")  # so that the network stays
    network = containers.network_of(keeper)
    contenders = {
        "ours": lambda: seconds_of(lambda: containers.submit("true", env_vars={"WHO": "bench"})),
        "raw": lambda: seconds_of(lambda: containers.start("true", network)),
    }
    found = interleaved(contenders, scale.rounds)
    containers.clear()
    meaning = (
        "From the call to a started container, checked, planned and written down. Both sides "
        "keep their connection."
    )
    yield ratio("docker.submit", "docker: submit", meaning, found["ours"], found["raw"], API)


def first_instructions(containers: Containers, scale: Scale) -> Iterator[Figure]:
    keeper = containers.submit("sleep 3600")
    network, folder = containers.network_of(keeper), containers.folder
    fifo = folder / "first"
    os.mkfifo(fifo)
    spec = arriving_job(IMAGE, fifo)
    bind = [{"Type": "bind", "Source": str(folder), "Target": str(folder)}]
    found = interleaved(
        {
            "ours": lambda: arrival(fifo, lambda: containers.client.submit(spec, "docker")),
            "raw": lambda: arrival(fifo, lambda: containers.start(f"echo > {fifo}", network, bind)),
        },
        scale.rounds,
    )
    containers.clear()
    meaning = (
        "From the call to the first thing that the user's command does: what our checks before the start and our program "
        "in the container take, which writes the spec and keeps the outputs. (nvidia-tao-sdk 7.2.0 took 640 ms more.)"
    )
    title = "docker: to the first instruction, over a container without us"
    yield more_seconds("docker.first_instruction", title, meaning, found["ours"], found["raw"], API)


def cancels(containers: Containers, scale: Scale) -> Iterator[Figure]:
    def ready() -> Job:
        job = containers.submit(SAVES)
        containers.wait_for(job, "ready")
        return job

    def ours() -> float:
        job = ready()
        return seconds_of(lambda: containers.client.cancel_job(job.id))

    def raw() -> float:
        job = ready()
        return seconds_of(
            lambda: containers.daemon.ask("POST", f"/containers/{container(job)}/stop", t=10)
        )

    found = interleaved({"ours": ours, "raw": raw}, scale.rounds)
    containers.clear()
    meaning = (
        "Of a job that ends when it is told to, its end seen and written down. (nvidia-tao-sdk "
        "7.2.0 took 10.2 s.)"
    )
    yield ratio(
        "docker.cancel", "docker: cancel", meaning, found["ours"], found["raw"], "`stop` of the API"
    )


def logs(containers: Containers, scale: Scale) -> Iterator[Figure]:
    log = written_log(containers.folder / "log", scale.log_megabytes)
    mounts = [f"{containers.folder}:{containers.folder}:ro"]
    job = containers.submit(f"cat {log}", mounts=mounts)
    long, short = containers.ended(job), containers.ended(containers.submit("true"))
    state, environ = containers.state_file, {"DOCKER_HOST": containers.daemon.address.url}
    docker = ["docker", "-H", containers.daemon.address.url, "logs", container(job)]
    commands = {"ours": reader("client", state, long), "docker": docker}
    readings = interleaved(
        {name: whole(each, log, environ) for name, each in commands.items()}, min(scale.rounds, 5)
    )
    seconds = {name: [reading.seconds for reading in each] for name, each in readings.items()}
    meaning = (
        f"A log of {scale.log_megabytes} MB, from the start of the "
        "program to its last byte in a pipe."
    )
    title = "docker: `Client.follow_logs`"
    yield ratio(
        "docker.logs.time",
        f"{title}, time",
        meaning,
        seconds["ours"],
        seconds["docker"],
        "`docker logs`",
    )
    contenders = {
        name: read_by(reader("client", state, each), environ)
        for name, each in (("l", long), ("s", short))
    }
    found = interleaved(contenders, min(scale.rounds, 3))
    peaks = {name: [reading.peak for reading in each] for name, each in found.items()}
    meaning = (
        f"The most memory that reading {scale.log_megabytes} MB takes, more than reading an empty log. "
        "(nvidia-tao-sdk 7.2.0 took 616 MB.)"
    )
    what = "an empty log, read alike"
    yield growth("docker.logs.memory", f"{title}, memory", meaning, peaks["l"], peaks["s"], what)


def statuses(scale: Scale) -> Iterator[Figure]:
    """Of jobs that all run: the daemon is one that only knows them, and counts."""
    jobs = min(scale.jobs, 1000)
    with scratch() as folder, tempfile.TemporaryDirectory() as short:
        path = Path(short) / "docker.sock"
        environ = {**ours().variables(), "DOCKER_HOST": f"unix://{path}"}
        endpoint = f"unix://{path} on {this_machine()}"
        with Store.open(folder / "jobs.db") as store:
            attempts = [stored(store, number, endpoint) for number in range(jobs)]
        with (
            many.Many(path, attempts) as daemon,
            Client(folder / "jobs.db", settings=Settings(environ)) as client,
        ):
            running = client.list_jobs(
                statuses=[Status.RUNNING]
            )  # the first look connects, and sees that they run
            if len(running) != jobs:
                raise RuntimeError(
                    f"{len(running)} of {jobs} jobs run: {client.list_jobs(limit=1)[0].message}"
                )
            daemon.asked.clear()
            seconds = seconds_of(client.list_jobs)
            meaning = f"Questions to the daemon for one look at {jobs:,} running jobs."
            # What is new in their logs is read besides, for at most a second.
            looks = [path for path in daemon.asked if path.startswith("/containers/json")]
            yield count(
                "docker.status", f"docker: status of {jobs:,} jobs", meaning, len(looks), seconds
            )
            daemon.shutdown()


def stored(store: Store, number: int, endpoint: str) -> Attempt:
    """A job that was submitted to the daemon that only knows jobs."""
    attempt = Attempt(f"train-{number:010d}", 1, "docker", endpoint, store.store_id)
    job = Job(
        id=attempt.job_id, name="train", platform="docker", image="tao-test-python", gpu_count=0
    )
    store.add(job, AttemptRow(attempt, {"request": {}}))
    store.confirm(
        Ref("docker", endpoint, "", f"tao-job-{job.id}", many.unique_id(attempt), attempt)
    )
    return attempt
