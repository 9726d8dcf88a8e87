"""Queue: the jobs ahead of a waiting job, and the idle nodes elsewhere. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tao_sdk.model.diagnosis import NodeEvent

SHOWN_IDS = 8
FIELDS = 5  # in a line of scripts/evidence.sh: id|state|mine|partitions|reason
# A job that waits for one of these reasons holds nobody up.
PASSED_OVER = re.compile(r"JobHeld|Dependency|BeginTime|.*held|QOS|Assoc|Partition")
HELD_UP_BY_JOBS = re.compile(r"QOS|Assoc|Resources")
HELD_UP_BY_NODES = re.compile(r"Priority|Resources|ReqNodeNotAvail|Partition")
NONE_AHEAD = (
    "squeue shows no job ahead of it now: SLURM has not looked at it again yet, or hides other "
    "users' jobs"
)


@dataclass(frozen=True)
class QueuedJob:
    """A job in the queue, of this user or of another."""

    id: str
    state: str
    is_mine: bool
    partitions: frozenset[str]
    backend_words: str  # squeue's reason

    def may_block(self, other: QueuedJob) -> bool:
        """True if it waits for nodes of a partition that the other job waits for too."""
        if self.state != "PENDING" or PASSED_OVER.match(self.backend_words):
            return False
        return not self.partitions.isdisjoint(other.partitions)


def read_queue(text: str) -> list[QueuedJob]:
    """The jobs in squeue's lines, in squeue's order, which is by priority."""
    rows = (line.split("|", FIELDS - 1) for line in text.splitlines())
    return [queued_job(cells) for cells in rows if len(cells) == FIELDS]


def queued_job(cells: Sequence[str]) -> QueuedJob:
    job_id, state, mine, partitions, reason = cells
    return QueuedJob(job_id, state, mine == "mine", frozenset(partitions.split(",")), reason)


def waiting_events(reason: str, job_id: str, queue: str, idle: str) -> Iterator[NodeEvent]:
    """Yield events that say what holds a waiting job up, and where nodes are idle.

    `reason`: squeue's reason for the job. `queue` and `idle`: squeue's and sinfo's lines.
    """
    jobs = read_queue(queue)
    if reason.startswith("Priority"):
        yield from priority_events(job_id, jobs)
    elif HELD_UP_BY_JOBS.match(reason):
        yield from running_events(jobs)
    if HELD_UP_BY_NODES.match(reason):
        yield from idle_events(idle)


def priority_events(job_id: str, jobs: Sequence[QueuedJob]) -> Iterator[NodeEvent]:
    """The jobs ahead of a job. If squeue shows none, the user's running jobs."""
    ids = [job.id for job in jobs]
    if job_id not in ids:
        return
    place = ids.index(job_id)
    ahead = [job for job in jobs[:place] if job.may_block(jobs[place])]
    if ahead:
        yield NodeEvent("Ahead", describe_ahead(ahead, jobs[place]))
        return
    yield NodeEvent("Ahead", NONE_AHEAD)
    yield from running_events(jobs)


def describe_ahead(ahead: Sequence[QueuedJob], job: QueuedJob) -> str:
    """`3 jobs are ahead of it in polar: 12, 14, 15, of which yours: 14`."""
    where = ", ".join(sorted(job.partitions))
    text = f"{count_jobs(len(ahead))} ahead of it in {where}: {list_ids(ahead)}"
    mine = [other for other in ahead if other.is_mine]
    if not mine:
        return text
    return f"{text}, of which yours: {list_ids(mine)}"


def count_jobs(number: int) -> str:
    """`1 job is`, `2 jobs are`."""
    if number == 1:
        return "1 job is"
    return f"{number} jobs are"


def running_events(jobs: Sequence[QueuedJob]) -> Iterator[NodeEvent]:
    running = [job for job in jobs if job.is_mine and job.state == "RUNNING"]
    if running:
        yield NodeEvent("Running", f"Your running jobs: {list_ids(running)}")


def idle_events(idle: str) -> Iterator[NodeEvent]:
    nodes = idle_nodes(idle)
    if nodes:
        yield NodeEvent("Idle", f"Idle nodes: {', '.join(nodes)}")


def idle_nodes(text: str) -> list[str]:
    """`3 in polar` for each of sinfo's lines `polar 3`."""
    rows = [line.split() for line in text.splitlines()]
    return [f"{row[1]} in {row[0]}" for row in rows if len(row) == 2]


def list_ids(jobs: Sequence[QueuedJob]) -> str:
    """The first ids, separated by commas."""
    ids = ", ".join(job.id for job in jobs[:SHOWN_IDS])
    if len(jobs) > SHOWN_IDS:
        return f"{ids} and more"
    return ids
