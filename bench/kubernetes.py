"""Kubernetes: what our job costs over the bare requests, over the same pod without us, and over
kubectl, on a real cluster.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

from bench import kubernetes_jobs
from bench.arrival import arrival, arriving_job
from bench.bare_requests import Request, recorded
from bench.cluster import IMAGE, Cluster, beside_logs, cluster_here
from bench.contenders import Missing, ours
from bench.figure import Figure, count, growth, more_seconds, ratio
from bench.folder import scratch
from bench.logs import reader, reading_of, whole, whole_reading, written_log
from bench.rivals import Rivals
from bench.rounds import command_seconds, interleaved, seconds_of
from bench.scale import Scale
from tao_sdk.model.job import Job
from tao_sdk.model.spec import mint_id

ROUNDS, LOG_ROUNDS = 5, 2  # at most: each waits for real pods, or reads a long log
LONG_GRACE = 120  # seconds; a pod that ends late in its grace costs one request more
SAVES = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"


def figures(scale: Scale, rivals: Rivals) -> Iterator[Figure]:
    try:
        with cluster_here() as place, scratch() as folder, Cluster(place, folder) as cluster:
            yield from submits(cluster, scale)
            yield from first_instructions(cluster, scale)
            yield from cancels(cluster, scale)
            yield from logs(cluster, scale)
            yield from kubernetes_jobs.figures(cluster, scale)
    except Missing as reason:
        rivals.missing["Kubernetes"] = str(reason)
        print(
            f"\n!!! NOT MEASURED: there is no Kubernetes here; its rows are left out.\n{reason}\n",
            file=sys.stderr,
        )


def submits(cluster: Cluster, scale: Scale) -> Iterator[Figure]:
    """Each job has ended before the next is submitted."""
    with recorded(cluster.client.engine.backend("kubernetes").kube) as requests:
        first = cluster.submit("true", env_vars={"WHO": "bench"})
    cluster.wait_for_end(first.id)
    found = interleaved(
        {"ours": lambda: submit(cluster), "bare": lambda: repeat(cluster, requests, first)},
        min(scale.rounds, ROUNDS),
    )
    cluster.clear()
    meaning = (
        f"From the call to a Job that runs, checked, planned and written down: {len(requests)} "
        "requests. Both sides keep their connections."
    )
    against = "the same requests, one after the other"
    yield ratio(
        "kubernetes.submit", "kubernetes: submit", meaning, found["ours"], found["bare"], against
    )


def submit(cluster: Cluster) -> float:
    jobs: list[Job] = []
    seconds = seconds_of(lambda: jobs.append(cluster.submit("true", env_vars={"WHO": "bench"})))
    cluster.wait_for_end(jobs[0].id)
    return seconds


def repeat(cluster: Cluster, requests: list[Request], first: Job) -> float:
    job_id = mint_id("bench")
    uid = cluster.api.get(f"{cluster.jobs}/tao-job-{first.id}")["metadata"]["uid"]
    seconds = seconds_of(lambda: cluster.api.repeat(requests, {first.id: job_id}, uid))
    cluster.wait_for_end(job_id)
    return seconds


def first_instructions(cluster: Cluster, scale: Scale) -> Iterator[Figure]:
    folder = cluster.folder
    fifo = folder / "first"
    os.mkfifo(fifo)
    spec = arriving_job(IMAGE, fifo)
    planned = cluster.client.plan(spec, "kubernetes").plan.request.job
    pod = pod_without_us(planned["spec"]["template"]["spec"], f"echo > {fifo}")

    def by_us() -> float:
        jobs: list[Job] = []
        seconds = arrival(fifo, lambda: jobs.append(cluster.client.submit(spec, "kubernetes").job))
        cluster.wait_for_end(jobs[0].id)
        return seconds

    def bare() -> float:
        body = {"metadata": {"name": mint_id("bare")}, "spec": pod}
        path = f"{cluster.core}/pods"
        seconds = arrival(fifo, lambda: cluster.api.ask("POST", path, body))
        name = f"{path}/{body['metadata']['name']}"
        cluster.wait_for(lambda: cluster.api.get(name)["status"]["phase"] == "Succeeded")
        return seconds

    found = interleaved({"ours": by_us, "bare": bare}, min(scale.rounds, ROUNDS))
    cluster.clear()
    meaning = (
        "From the call to the first thing that the user's command does: what our checks before the start, the cluster's "
        "Job and our program in the container take, which writes the spec and keeps the outputs."
    )
    yield more_seconds(
        "kubernetes.first_instruction",
        "kubernetes: to the first instruction, over the same pod without us",
        meaning,
        found["ours"],
        found["bare"],
        "the creation of the pod through the API",
    )


def pod_without_us(pod: dict[str, Any], command: str) -> dict[str, Any]:
    """The pod of a job of ours with a command that nobody has wrapped."""
    [container] = pod["containers"]
    bare = {**container, "command": ["/bin/bash", "-c", command]}
    bare.pop("args", None)
    return {**pod, "containers": [bare]}


def cancels(cluster: Cluster, scale: Scale) -> Iterator[Figure]:
    def ready() -> Job:
        job = cluster.submit(SAVES)
        cluster.wait_for_line(job.id, "ready")
        return job

    def by_client() -> float:
        job = ready()
        return seconds_of(lambda: cluster.client.cancel_job(job.id))

    def by_tao() -> float:
        state = ("--state-file", str(cluster.state_file("state")))
        command = [ours().script("tao"), *state, "cancel", ready().id]
        return command_seconds(command, ours().variables(**cluster.environ))

    def by_kubectl() -> float:
        name = f"job/tao-job-{ready().id}"
        command = [cluster.kubectl, "delete", name, "--cascade=foreground", "--wait"]
        return command_seconds(command, ours().variables(**cluster.environ))

    found = interleaved(
        {"client": by_client, "tao": by_tao, "kubectl": by_kubectl}, min(scale.rounds, ROUNDS)
    )
    against = "`kubectl delete --cascade=foreground --wait`"
    yield ratio(
        "kubernetes.cancel",
        "kubernetes: cancel",
        "Of a job that ends when it is told to, its end seen and written down and its log kept to "
        "the last word, by a client that is open. The start of kubectl is included.",
        found["client"],
        found["kubectl"],
        against,
    )
    yield ratio(
        "kubernetes.cancel.command",
        "kubernetes: `tao cancel`",
        "The same, from the start of the command.",
        found["tao"],
        found["kubectl"],
        against,
    )
    job = ready()
    seconds = list[float]()
    requests = cluster.requests_of(
        lambda: seconds.append(
            seconds_of(lambda: cluster.client.cancel_job(job.id, grace=LONG_GRACE))
        )
    )
    cluster.clear()
    yield count(
        "kubernetes.cancel.requests",
        "kubernetes: cancel, requests",
        "Of a job of one pod, beside the one that follows its log.",
        len(beside_logs(requests)),
        seconds[0],
    )


def logs(cluster: Cluster, scale: Scale) -> Iterator[Figure]:
    """Each time read by a client that has kept nothing of it."""
    log = written_log(cluster.folder / "log", scale.log_megabytes)
    mounts = [f"{cluster.folder}:{cluster.folder}:ro"]
    long = ended(cluster, f"cat {log}; sleep 2", mounts)  # a node may still write a log
    short = ended(cluster, "true", mounts)
    read_long, read_short = fresh_reader(cluster, long), fresh_reader(cluster, short)
    kubectl = [cluster.kubectl, "logs", f"job/tao-job-{long}"]
    found = interleaved(
        {
            "ours": lambda: whole_reading(read_long(), log, cluster.environ),
            "kubectl": whole(kubectl, log, cluster.environ),
            "short": lambda: reading_of(read_short(), cluster.environ),
        },
        min(scale.rounds, LOG_ROUNDS),
    )
    seconds = {name: [reading.seconds for reading in each] for name, each in found.items()}
    peaks = {name: [reading.peak for reading in each] for name, each in found.items()}
    megabytes = scale.log_megabytes
    title = "kubernetes: `Client.follow_logs`"
    yield ratio(
        "kubernetes.logs.time",
        f"{title}, time",
        f"A log of {megabytes} MB, from the start of the program to its last byte in a pipe.",
        seconds["ours"],
        seconds["kubectl"],
        "`kubectl logs`",
    )
    yield growth(
        "kubernetes.logs.memory",
        f"{title}, memory",
        f"The most memory that reading {megabytes} MB takes, more than reading an empty log.",
        peaks["ours"],
        peaks["short"],
        "an empty log, read alike",
    )


def ended(cluster: Cluster, command: str, mounts: list[str]) -> str:
    """The id of a job whose end is stored, and of whose log nothing was read."""
    job_id = cluster.submit(command, mounts=mounts).id
    cluster.wait_for_end(job_id)
    cluster.client.get_job_status(job_id)
    return job_id


def fresh_reader(cluster: Cluster, job_id: str) -> Callable[[], list[str]]:
    """What reads the job's log with a copy of the store as it is now."""
    kept = cluster.folder / f"kept-{job_id}"
    shutil.copytree(cluster.state_file("state").parent, kept)

    def command() -> list[str]:
        copy = cluster.folder / "fresh"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(kept, copy)
        return reader("client", copy / "jobs.db", job_id)

    return command
