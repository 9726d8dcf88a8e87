"""What a workspace says of its jobs, as observations. Pure.

Here: states, counts and the last line of a log. Not here: what is asked (look.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, cast

from tao_sdk.backends.lepton.facts import Group, Node, Shape
from tao_sdk.model import words
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.reasons import Reason
from tao_sdk.model.replica import Replica
from tao_sdk.model.units import format_duration
from tao_sdk.model.words import UNEXPLAINED, Why

Object = Mapping[str, Any]

# The states of LeptonJobState (leptonai 0.47.1). No job of ours asks for the retries that
# Restarting and PendingRetry tell of.
PHASES: Mapping[str, Phase] = {
    "Awaiting": Phase.PENDING,
    "Queueing": Phase.PENDING,
    "Starting": Phase.PENDING,
    "PendingRetry": Phase.PENDING,
    "Restarting": Phase.PENDING,
    "Running": Phase.RUNNING,
    "Stopping": Phase.RUNNING,
    "Terminating": Phase.RUNNING,
    "Completed": Phase.SUCCEEDED,
    "Failed": Phase.FAILED,
    "Stopped": Phase.CANCELED,
    "Deleting": Phase.ABSENT,
    "Deleted": Phase.ABSENT,
    "UNK": Phase.UNREACHABLE,  # comes for up to a minute on healthy jobs, and says nothing
}
ARCHIVED = "Archived"
UNKNOWN_NOW = "the workspace does not know its state now (UNK)"
ENDING = "it has ended; the end of its log is on its way"
READY = "Ready"
# Readiness reasons of a replica whose program has not begun.
NOT_BEGUN = ("InProgress", "NoCapacity", "WaitingForCapacity", "ConfigError", "Queueing")


@dataclass(frozen=True)
class RankEnd:
    """The last line of one rank's log. `limit`: its time limit in seconds, if that ended it."""

    time_ns: int
    code: int
    limit: int = 0


@dataclass(frozen=True)
class JobEnd:
    """What the logs say of the end of a job. `is_whole`: no more of them will come."""

    ranks: Sequence[RankEnd] = field(default_factory=tuple[RankEnd, ...])
    is_whole: bool = False

    @property
    def first_failure(self) -> RankEnd | None:
        """The end of the rank that failed first: the workspace then ends the others."""
        failed = [rank for rank in self.ranks if rank.code]
        return min(failed, key=lambda rank: rank.time_ns, default=None)


def part(owner: Object, name: str) -> Object:
    """A part of an object; empty if it is missing or null."""
    return owner.get(name) or {}


def job_id(job: Object) -> str:
    return str(job["metadata"]["id"])


def nodes_of(job: Object) -> int:
    return int(part(job, "spec").get("completions") or 1)


def secrets_of(job: Object, prefix: str) -> int | None:
    """How many workspace secrets of this prefix the job names; None if its variables, of which
    every job of ours has some, are not told.
    """
    variables = part(job, "spec").get("envs")
    if not variables:
        return None
    values = [part(one, "value_from") for one in variables]
    return sum(str(value.get("secret_name_ref") or "").startswith(prefix) for value in values)


def state_of(job: Object) -> str:
    """The state of a job. An archived job has the state that its counts tell: the archive is where
    every ended job goes.
    """
    status = part(job, "status")
    state = str(status.get("state") or "")
    if state != ARCHIVED:
        return state
    if part(job, "spec").get("stopped"):
        return "Stopped"
    if int(status.get("succeeded") or 0) >= nodes_of(job):
        return "Completed"
    return "Failed" if status.get("failed") else "Stopped"


def phase_of(job: Object) -> Phase:
    """The phase of a job's state; UNKNOWN for a word of a later release."""
    return PHASES.get(state_of(job), Phase.UNKNOWN)


def created_at(job: Object) -> float:
    """When the job was created, in seconds since the epoch; 0 if that is not told."""
    status, metadata = part(job, "status"), part(job, "metadata")
    return float(status.get("creation_time") or 0) or float(metadata.get("created_at") or 0) / 1000


def ended_at(job: Object) -> datetime | None:
    seconds = part(job, "status").get("completion_time")
    return datetime.fromtimestamp(float(seconds), timezone.utc) if seconds else None


def observation(job: Object, end: JobEnd = JobEnd(is_whole=True)) -> Observation:
    """The observation of a job. It has ended only once its log is whole."""
    raw, phase = str(part(job, "status").get("state") or ""), phase_of(job)
    if phase is Phase.UNREACHABLE:
        return Observation(phase, raw, reason=UNKNOWN_NOW)
    if not phase.ended:
        return explained(Observation(phase, raw), why_alive(job, phase))
    if not end.is_whole:
        return Observation(Phase.RUNNING, raw, reason=ENDING)
    failure = end.first_failure
    seen = Observation(phase, raw, exit_code(phase, failure), ended_at=ended_at(job))
    return explained(seen, why_ended(phase, failure))


def exit_code(phase: Phase, failure: RankEnd | None) -> int | None:
    """The exit code of the command; None if no log tells it."""
    if phase is Phase.SUCCEEDED:
        return 0
    return failure.code if failure else None


def explained(seen: Observation, why: Why) -> Observation:
    return Observation(
        seen.phase,
        seen.raw,
        seen.exit_code,
        reason=why.text,
        reason_code=why.code,
        ended_at=seen.ended_at,
    )


def why_alive(job: Object, phase: Phase) -> Why:
    """Why the job waits, or which of its nodes are missing."""
    state, nodes = state_of(job), nodes_of(job)
    if phase is Phase.PENDING:
        return words.why(Reason.QUEUED, what=WAITS.get(state, f"{state} in the workspace"))
    up = int(part(job, "status").get("ready") or 0)
    if state == "Running" and up < nodes:
        return Why(None, f"{up} of {nodes} nodes are up")
    return UNEXPLAINED


WAITS: Mapping[str, str] = {
    "Queueing": "it waits in the workspace's queue for nodes",
    "Starting": "its nodes prepare it: they pull the image and mount its volumes",
    "Awaiting": "it waits for its time",
}


def why_ended(phase: Phase, failure: RankEnd | None) -> Why:
    """Why the attempt ended; UNEXPLAINED for a success."""
    if phase is Phase.SUCCEEDED:
        return UNEXPLAINED
    if phase is Phase.CANCELED:
        return words.why(Reason.CANCELED)
    if failure is None:
        return words.why(Reason.EXIT_UNKNOWN)
    if failure.limit:
        limit = format_duration(timedelta(seconds=failure.limit))
        return words.why(Reason.TIME_LIMIT, limit=limit)
    return words.why(Reason.EXIT_CODE, code=failure.code)


# Logs

Line = tuple[int, str]  # nanoseconds since the epoch, text


def log_lines(answer: Any) -> dict[int, list[Line]]:
    """The lines of each stream of an answer of /logs, in the answer's order."""
    streams = cast("Sequence[Object]", part(part(answer or {}, "data"), "result") or ())
    return {
        number: [(int(time_ns), str(text)) for time_ns, text in stream.get("values") or ()]
        for number, stream in enumerate(streams)
    }


def all_lines(answer: Any) -> list[Line]:
    """The lines of all streams of an answer: of one, where one replica was asked for."""
    return [line for lines in log_lines(answer).values() for line in lines]


def rank_end(line: Line, mark: str) -> RankEnd | None:
    """The end that a line tells; None for any other line."""
    time_ns, text = line
    if not text.startswith(f"{mark} "):
        return None
    code, _, limit = text.removeprefix(f"{mark} ").strip().partition(" ")
    if not code.isdigit() or (limit and not limit.isdigit()):
        return None
    return RankEnd(time_ns, int(code), int(limit or 0))


def rank_ends(answer: Any, mark: str) -> list[RankEnd]:
    """The newest end in each stream of an answer whose newest lines come first."""
    found = (
        next((end for line in lines if (end := rank_end(line, mark))), None)
        for lines in log_lines(answer).values()
    )
    return [end for end in found if end is not None]


# Replicas


def own_id(replica: Object) -> str:
    """The id of a replica, which stands in one of two places."""
    return str(part(replica, "metadata").get("id") or replica.get("id") or "")


def replica_id(replicas: Iterable[Object], job: str, rank: int) -> str:
    """The newest replica of a rank; "" if there is none."""
    ids = [own_id(one) for one in replicas]
    return next((one for one in reversed(ids) if one.startswith(f"{job}-{rank}-")), "")


def has_run(replica: Object) -> bool:
    """False for a replica that has not begun, by what the workspace says of it."""
    return part(part(replica, "status"), "readiness_issue").get("reason") not in NOT_BEGUN


def replica_of(found: Object, rank: int) -> Replica:
    status = part(found, "status")
    issue, node = part(status, "readiness_issue"), part(status, "node")
    reason = str(issue.get("reason") or "")
    return Replica(
        rank=rank,
        name=own_id(found),
        node=str(node.get("name") or node.get("id") or ""),
        phase=reason or "Unknown",
        issue_reason="" if reason == READY else reason,
        issue_message=str(issue.get("message") or ""),
    )


def replicas_of(found: Sequence[Object], job: str, nodes: int) -> list[Replica]:
    """The replica of each rank, in order; a rank without one is left out."""
    by_id = {own_id(one): one for one in found}
    ids = [(rank, replica_id(found, job, rank)) for rank in range(nodes)]
    return [replica_of(by_id[name], rank) for rank, name in ids if name]


# What the workspace has


def shape(found: Object) -> Shape:
    spec = part(found, "spec")
    return Shape(
        id=str(found["metadata"]["id"]),
        group=str(spec.get("node_group_id") or ""),
        gpus=int(spec.get("accelerator_num") or 0),
        cpus=float(spec.get("cpu") or 0),
        memory_mib=int(spec.get("memory_in_mb") or 0),
        gpu_type=str(spec.get("accelerator_type") or ""),
    )


def node(found: Object) -> Node:
    spec = part(found, "spec")
    gpu = part(part(spec, "resource"), "gpu")
    workloads = part(found, "status").get("workloads") or ()
    holders = [
        f"{one.get('name')} ({float(one['gpu_count']):g})"
        for one in workloads
        if one.get("gpu_count")
    ]
    return Node(
        name=str(found["metadata"].get("id") or found["metadata"].get("name")),
        gpus=int(gpu.get("total") or 0),
        used=int(gpu.get("allocated") or 0),
        usable=not spec.get("unschedulable"),
        holders=tuple(holders),
    )


def group(found: Object) -> Group:
    """A node group without its nodes. As far as known, its volumes may be used from their top."""
    metadata = found["metadata"]
    volumes = part(found, "spec").get("volumes") or ()
    return Group(
        id=str(metadata["id"]),
        name=str(metadata.get("name") or metadata["id"]),
        volumes={str(one["name"]): "/" for one in volumes if one.get("from") in ("nfs", None)},
    )
