"""Lost nodes: the log and the Job of an attempt whose node no longer answers.

Not here: the end of such an attempt (parse.py), and the forced deletion of its pods (ending.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from tao_sdk.backends.contract import LogChunk, LogRequest
from tao_sdk.backends.kubernetes import look, parse
from tao_sdk.backends.kubernetes.parse import Object
from tao_sdk.backends.kubernetes.pods.ending import delete_job
from tao_sdk.model.errors import TaoError, Unreachable
from tao_sdk.model.plan import Attempt
from tao_sdk.transports.kube import Kube

TRIES = 2  # to read a log; each may last as long as a request to a silent server
GONE = "gone"  # the cursor after the line that says that the rest is gone
LOST = "tao: {what} of rank {rank} is lost with its node {node}, which does not answer\n"


def read_log(
    kube: Kube, pod: Object, request: LogRequest, read: Callable[[LogRequest], Iterator[LogChunk]]
) -> Iterator[LogChunk]:
    """The pod's log, by `read`. If its node is lost, a last line says that the rest is gone.

    Raises Unreachable if the log cannot be read and the cluster has not given up the node.
    """
    for _ in range(TRIES):
        try:
            for chunk in read(request):
                yield chunk
                request = replace(request, cursor=chunk.cursor, tail=None)
            return
        except Unreachable:
            if not is_lost(kube, pod):
                raise
    what = "the rest of the log" if request.cursor else "the log"
    words = LOST.format(what=what, rank=request.rank, node=parse.node_of(pod))
    yield LogChunk(words.encode(), GONE)


def is_lost(kube: Kube, pod: Object) -> bool:
    """True if the cluster, queried now, has given up the pod with its node."""
    metadata = pod["metadata"]
    now = look.get(kube, look.core_path(metadata["namespace"], "pods", metadata["name"]))
    return now is not None and is_on_lost_node(now)


def is_on_lost_node(pod: Object) -> bool:
    return parse.has_lost_its_node(pod) and not parse.terminated(pod)


def remove_stuck_job(kube: Kube, namespace: str, attempt: Attempt) -> None:
    """Delete the Job of a replaced attempt if it waits for a lost node: its TTL would never begin.
    A Job that cannot be deleted stays until the job is removed.
    """
    with suppress(TaoError):
        job = look.find_job(kube, namespace, attempt)
        if job is None or job["metadata"].get("deletionTimestamp") or has_settled(job):
            return
        pods = look.pods_of(kube, namespace, attempt, job)
        if any(map(is_on_lost_node, pods)):
            delete_job(kube, job, "Background")


def has_settled(job: Object) -> bool:
    """True if the Job waits for no pod to end."""
    ends = ("Failed", "Complete")
    return any(parse.condition(job, name) for name in ends)
