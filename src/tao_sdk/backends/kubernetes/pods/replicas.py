"""Replicas: the ranks of an attempt, with or without a pod, why each does not run, and since when
those that run are silent.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tao_sdk.backends.kubernetes import parse
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.parse import Object, Seen
from tao_sdk.backends.kubernetes.pods.logs import PodLog
from tao_sdk.model.activity import Activity
from tao_sdk.model.replica import Replica
from tao_sdk.transports.kube import Kube

Issue = tuple[str, str]  # (reason, message)
NO_ISSUE: Issue = ("", "")
FAILED_POD = "Failed"
MOST_PODS = 8  # whose logs are looked at


def replicas_of(seen: Seen) -> Sequence[Replica]:
    """One replica for each rank, in order."""
    pods = {parse.rank_of(pod): pod for pod in seen.pods}
    ranks = sorted({*range(seen.ranks), *pods})
    return [
        replica_of_pod(rank, pods[rank]) if rank in pods else without_pod(rank, seen)
        for rank in ranks
    ]


def replica_of_pod(rank: int, pod: Object) -> Replica:
    reason, message = issue_of_pod(pod)
    done = parse.terminated(pod)
    return Replica(
        rank=rank,
        name=str(pod["metadata"]["name"]),
        node=str(pod["spec"].get("nodeName") or ""),
        phase=str(pod["status"].get("phase") or "Pending"),
        issue_reason=reason,
        issue_message=message,
        restarts=restarts_of(pod),
        exit_code=int(done["exitCode"]) if "exitCode" in done else None,
    )


def issue_of_pod(pod: Object) -> Issue:
    """Why the pod does not run; NO_ISSUE if it runs or has succeeded."""
    if parse.disruption(pod) or pod["status"].get("reason"):
        return disruption_issue(pod)
    if done := parse.terminated(pod):
        return failure_issue(done)
    if parse.has_begun(pod):
        return NO_ISSUE
    reason, message = parse.readiness_issue(pod)
    if not pod["spec"].get("nodeName"):
        return "Pending", message  # the documents' word for a pod that no node takes
    return reason, message


def disruption_issue(pod: Object) -> Issue:
    found = parse.disruption(pod) or {}
    reason = pod["status"].get("reason") or found.get("reason") or FAILED_POD
    return str(reason), parse.pod_words(pod) or str(found.get("message") or "")


def failure_issue(done: Object) -> Issue:
    """Why a container failed; NO_ISSUE for exit code 0. The message of a container that began is
    the end of its log, and is left out.
    """
    code = int(done.get("exitCode") or 0)
    if code == 0:
        return NO_ISSUE
    reason = str(done.get("reason") or FAILED_POD)
    if reason in parse.NOT_BEGUN:
        return reason, str(done.get("message") or "")
    return reason, f"exit code {code}"


def without_pod(rank: int, seen: Seen) -> Replica:
    """A rank whose pod has not been created, or has been deleted."""
    said = parse.observation(seen)
    if said.phase.ended:
        return Replica(rank, "", "", "Unknown", "Deleted", "its pod is gone")
    if seen.pods:
        return Replica(rank, "", "", "Pending", "Pending", "its pod has not been created")
    return Replica(rank, "", "", "Pending", said.raw, said.reason)


def restarts_of(pod: Object) -> int:
    statuses = pod["status"].get("containerStatuses") or ()
    return sum(int(status.get("restartCount") or 0) for status in statuses)


def look_into(kube: Kube, namespace: str, pods: Sequence[Object], context: str) -> Activity:
    """Return what the cluster tells of the pods that run. `context`: of the kubeconfig; "" in a
    pod. Raises Unreachable.
    """
    running = [pod for pod in pods if parse.runs_undisturbed(pod)][:MOST_PODS]
    if not running:
        return Activity()
    times = [log_of(kube, namespace, pod).last_line_at() for pod in running]
    return Activity(
        log_changed_at=max((time for time in times if time is not None), default=None),
        enter=enter_command(namespace, running[0]["metadata"]["name"], context),
    )


def log_of(kube: Kube, namespace: str, pod: Object) -> PodLog:
    return PodLog(kube, namespace, pod["metadata"]["name"], has_ended=lambda: False)


def enter_command(namespace: str, pod: str, context: str) -> str:
    """The command that opens a shell beside the job's processes."""
    where = ["--context", context] if context else []
    words = ["kubectl", "exec", "-it", *where, "-n", namespace, pod, "-c", names.CONTAINER]
    return shlex.join([*words, "--", "/bin/sh"])
