"""Words: the one place where a Reason becomes a sentence for people. No decision depends on these
sentences.

A sentence may use facts by their names. Messages are these sentences; if a backend has its own
words for a reason, they are shown unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tao_sdk.model.reasons import Reason


class Why(NamedTuple):
    """A reason and its sentence."""

    code: Reason | None
    text: str


UNEXPLAINED = Why(None, "")

SENTENCES: Mapping[Reason, str] = {
    Reason.SUBMITTING: "submitting",
    Reason.SUBMITTED: "submitted",
    Reason.STARTING: "{step}",
    Reason.ATTEMPT_STARTED: "attempt {attempt}",
    Reason.START_UNKNOWN: "not known whether it started ({what}); looking will tell",
    Reason.SUBMIT_BROKEN: (
        "its submit met an error that nobody foresaw ({what}); looking will tell whether it runs"
    ),
    Reason.NEXT_ATTEMPT: "attempt {attempt} waits for a watcher: tao watch",
    Reason.NOT_SEEN: "not seen now: {what}",
    Reason.NOT_FOUND: "not found at the last look; looking once more",
    Reason.REMOVED_OUTSIDE: "removed outside",
    Reason.TOLD_BY_RECORD: "ended; the backend no longer has it, its outcome record does",
    Reason.REFUSED: "{what}",
    Reason.RUNNER_FAILED: "{what}",
    Reason.CANCELING: "canceling",
    Reason.CANCEL_FAILED: "it was to end and could not be told so ({what}): tao cancel {job}",
    Reason.CANCELED: "canceled",
    Reason.GRACE_OVER: "killed after its grace of {grace}",
    Reason.NEVER_STARTED: "canceled before it started",
    Reason.EXIT_CODE: "exit code {code}",
    Reason.SIGNAL: "ended by {signal}",
    Reason.EXIT_UNKNOWN: "the exit code is not known",
    Reason.TIME_LIMIT: "time limit of {limit} reached",
    Reason.OUT_OF_MEMORY: "the machine ran out of memory (oom) and the kernel ended it",
    Reason.NOT_STARTED: "it could not be started: {what}",
    Reason.QUEUED: "{what}",
    Reason.GPUS_BUSY: "{what}",
    Reason.PROCESS_STOPPED: "process {pid} is stopped (SIGSTOP)",
    Reason.SUPERVISOR_STOPPED: "its supervisor is stopped; kill -CONT {pid}",
    Reason.SUPERVISOR_TOLD_TO_END: "{what}, its supervisor was told to end",
    Reason.SUPERVISOR_LOST: "its supervisor was killed; the exit code is not known",
    Reason.MACHINE_RESTARTED: "the machine was restarted while the job ran",
    Reason.CONTAINER_STOPPED: "its container was stopped while the job ran",
    Reason.DAEMON_ERROR: "{what}",
    Reason.PULL_FAILED: "{what}",
    Reason.NODE_FAILED: "node failed",
    Reason.BOOT_FAILED: "the node could not be started",
    Reason.DEADLINE: "its deadline has passed",
    Reason.PREEMPTED: "preempted by a job of higher priority",
    Reason.SCRIPT_NOT_STARTED: "SLURM could not start its script on the node",
    Reason.NOT_LAUNCHED: (
        "SLURM could not launch it ({what}): a folder or file that it "
        "needs is not there for the node"
    ),
    Reason.SCRIPT_KILLED: "the batch script was killed",
    Reason.CONVERSION_FAILED: (
        "the conversion of the image, for which it waited, has failed ({what})"
    ),
    Reason.STATUS_FILE_FAILED: "the training's status.json says {what}",
    Reason.CAUSE_NOT_TOLD_YET: "SLURM says {what}, and its accounting has not told why yet",
    Reason.QUEUE_REASON: "{what}",
    Reason.EVICTED: "its pod was evicted from node {node}: {what}",
    Reason.NODE_REFUSED: "node {node} did not take its pod: {what}",
    Reason.PREPARING: "{what}",
}

# Other sentences for a reason, by the name of the place that uses them.
IN_PLACE: Mapping[tuple[Reason, str], str] = {
    (Reason.SUPERVISOR_LOST, "unstarted"): "its supervisor was killed before the job started",
    (Reason.MACHINE_RESTARTED, "unstarted"): "the machine was restarted before the job started",
    (Reason.CONTAINER_STOPPED, "unstarted"): "its container was stopped before the job started",
    (Reason.NOT_STARTED, "unstarted"): "not started",
    (Reason.NOT_STARTED, "entrypoint"): (
        "the image's ENTRYPOINT ended without running the command: {entrypoint}"
    ),
    (Reason.PROCESS_STOPPED, "several"): "processes {pids} are stopped (SIGSTOP)",
    (Reason.OUT_OF_MEMORY, "docker"): "OOMKilled: the container ran out of its memory",
    (Reason.OUT_OF_MEMORY, "docker, in part"): (
        "OOMKilled: the container ran out of its memory and lost a process, and the command went on"
    ),
    (Reason.OUT_OF_MEMORY, "slurm"): "out of memory (OOM): the command was killed",
    (Reason.OUT_OF_MEMORY, "kubernetes"): "OOMKilled: the pod ran out of its memory",
    (Reason.NOT_STARTED, "kubernetes"): "it could not be started on node {node}: {what}",
    (Reason.NODE_FAILED, "kubernetes"): "node {node} was lost while the job ran",
    (Reason.EVICTED, "gone"): "its pod was taken away, and its exit code with it: {what}",
    (Reason.EXIT_UNKNOWN, "gone"): "its pod is gone, and its exit code with it: {what}",
    (Reason.REMOVED_OUTSIDE, "ttl"): (
        "its record was removed by the cluster (TTL) before anyone looked"
    ),
    (Reason.TIME_LIMIT, "kubernetes"): "its deadline in the cluster has passed",
    (Reason.TIME_LIMIT, "slurm"): "time limit reached",
    (Reason.TIME_LIMIT, "slurm, ours"): "time limit reached: the command was asked to end",
    (Reason.QUEUED, "slurm"): "{what}; {start}",
    (Reason.QUEUED, "start"): "expected to start {start} UTC",
    (Reason.SCRIPT_KILLED, "signal"): "the batch script was killed (signal {signal})",
}


def sentence(reason: Reason, place: str = "", **facts: object) -> str:
    """The sentence for a reason: its own, or the one for that place."""
    return IN_PLACE.get((reason, place), SENTENCES[reason]).format(**facts)


def why(reason: Reason, place: str = "", **facts: object) -> Why:
    """The reason with its sentence."""
    return Why(reason, sentence(reason, place, **facts))
