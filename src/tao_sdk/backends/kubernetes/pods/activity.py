"""Activity: when the pods of a running attempt last printed, and the command that looks into one.

Here: what the API tells for the price of a line of each log. Not here: what a container's processes
do; that would have to run a program in it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tao_sdk.backends.kubernetes import parse
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.parse import Object
from tao_sdk.backends.kubernetes.pods.logs import PodLog
from tao_sdk.model.activity import Activity
from tao_sdk.transports.kube import Kube

MOST_PODS = 8  # whose logs are looked at


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
