"""Kubernetes jobs: what a look at many running jobs asks and takes, and what a watcher asks.

Their pods run on nodes that the tests simulate: so many real containers would not fit.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from bench.cluster import IMAGE, Cluster, beside_logs
from bench.contenders import ours
from bench.figure import Figure, count, ratio
from bench.folder import ROOT
from bench.many_jobs import look_at_all, processor_seconds
from bench.rounds import command_seconds, interleaved, seconds_of
from bench.scale import Scale
from tao_sdk.backends.kubernetes.options import KubernetesOptions
from tao_sdk.client import Client
from tao_sdk.engine.watch import Watcher
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.plan import Attempt
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

NODES = ("bench-1", "bench-2")
LABEL = {"bench": "simulated"}
FEW, ROUNDS = 20, 4
LIVES = {"simulated/seconds": "36000"}
STATE = "many"


def figures(cluster: Cluster, scale: Scale) -> Iterator[Figure]:
    few, many = min(FEW, scale.watched_jobs), scale.watched_jobs
    with simulated_nodes(cluster), cluster.open_client(STATE) as client:
        start_jobs(cluster, client, range(few))
        yield listing(cluster, scale, few, "kubernetes.ls")
        start_jobs(cluster, client, range(few, many))
        yield from looks(cluster, client, many)
        yield listing(cluster, scale, many, "kubernetes.ls.many")
        yield watching(cluster, client, scale)
        cluster.clear()


@contextmanager
def simulated_nodes(cluster: Cluster) -> Generator[None]:
    """Nodes that run nothing, and say of every pod that it runs."""
    place = cluster.place
    file = cluster.folder / "nodes.json"
    file.write_text(json.dumps({name: {"labels": LABEL} for name in NODES}))
    with socket.create_server((place.here, 0)) as probe:
        port = str(probe.getsockname()[1])
    program = [sys.executable, "-m", "support.kubernetes.simulated_nodes"]
    process = subprocess.Popen(
        [*program, place.server, str(place.pki), place.here, port, str(file)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        stderr=subprocess.DEVNULL,
    )
    try:
        cluster.wait_for(lambda: all(is_ready(cluster, name) for name in NODES))
        yield
    finally:
        process.terminate()
        process.wait()
        for name in NODES:
            cluster.api.ask("DELETE", f"/api/v1/nodes/{name}")


def is_ready(cluster: Cluster, node: str) -> bool:
    nodes = cluster.api.get("/api/v1/nodes")["items"]
    conditions = [
        (each["type"], each["status"])
        for found in nodes
        if found["metadata"]["name"] == node
        for each in found["status"].get("conditions", ())
    ]
    return ("Ready", "True") in conditions


def start_jobs(cluster: Cluster, client: Client, numbers: range) -> None:
    """Jobs with these numbers. Returns when all that there are run."""
    backend = client.engine.backend("kubernetes")
    spec = JobSpec(name="many", image=IMAGE, command="sleep 3600", gpu_count=0)
    job, options = (
        PreparedJob(spec, spec.command),
        KubernetesOptions(node_selector=LABEL, annotations=LIVES),
    )
    facts = backend.survey(job, options)
    for number in numbers:
        attempt = Attempt(
            f"many-{number:010d}", 1, "kubernetes", backend.endpoint, client.store.store_id
        )
        plan = backend.plan(job, options, facts, attempt)
        row = Job(id=attempt.job_id, name="many", platform="kubernetes", image=IMAGE, gpu_count=0)
        client.store.add(row, AttemptRow(attempt, plan.to_json()))
        client.store.confirm(backend.submit(plan, {}))
    cluster.wait_for(lambda: len(client.list_jobs(statuses=[Status.RUNNING])) == numbers.stop)


def looks(cluster: Cluster, client: Client, jobs: int) -> Iterator[Figure]:
    seconds = list[float]()
    requests = cluster.requests_of(lambda: seconds.append(seconds_of(client.list_jobs)))
    yield count(
        "kubernetes.status",
        f"kubernetes: status of {jobs:,} jobs",
        f"Requests of one look at {jobs:,} running jobs. Besides, one log is read where nobody watches.",
        len(of_all_jobs(requests)),
        seconds[0],
    )


def of_all_jobs(requests: list[str]) -> list[str]:
    """Without those for the log of one job, and for the pod whose log it is."""
    return [request for request in beside_logs(requests) if "tao-sdk-job-id" not in request]


def listing(cluster: Cluster, scale: Scale, jobs: int, key: str) -> Figure:
    state = ["--state-file", str(cluster.state_file(STATE))]
    environ = ours().variables(**cluster.environ)
    tao = [ours().script("tao"), *state, "ls", "--platform", "kubernetes"]
    kubectl = [cluster.kubectl, "get", "jobs"]
    found = interleaved(
        {
            "ours": lambda: command_seconds(tao, environ),
            "kubectl": lambda: command_seconds(kubectl, environ),
        },
        min(scale.rounds, ROUNDS),
    )
    title = f"kubernetes: `tao ls` of {jobs:,} running jobs"
    return ratio(
        key,
        title,
        "From the start of the command to its end, all jobs looked at. Nobody watches them, so a few "
        "logs are read. More than half of it is the start of Python and of the command, as of a list "
        "of no jobs.",
        found["ours"],
        found["kubectl"],
        "`kubectl get jobs`",
    )


def watching(cluster: Cluster, client: Client, scale: Scale) -> Figure:
    watcher = Watcher(client.engine)
    look_at_all(watcher)
    used = list[float]()
    requests = cluster.requests_of(
        lambda: used.append(processor_seconds(watcher, scale.watched_seconds))
    )
    return count(
        "kubernetes.watch",
        f"kubernetes: watch {scale.watched_jobs:,} idle jobs",
        f"Requests of a watcher in {scale.watched_seconds:.0f} s, beside those that read logs "
        f"({len(requests) - len(of_all_jobs(requests)):,}). *measured* is the processor's time.",
        len(of_all_jobs(requests)),
        used[0],
    )
