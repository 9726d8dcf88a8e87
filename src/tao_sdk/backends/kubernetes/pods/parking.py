"""Parking: a job with room for only some ranks gives back its nodes until all ranks find room.

To park is to suspend the Job, so that it holds no node; later it is resumed. Any client may repeat
either step. Here: when to do them, and the logs of the deleted pods. Not here: the observation of
such a job (parse.py).
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from tao_sdk.backends.contract import LogChunk, LogRequest
from tao_sdk.backends.kubernetes import look, parse
from tao_sdk.backends.kubernetes.cluster.nodes import list_nodes, with_use
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.job.checks import fits_now
from tao_sdk.backends.kubernetes.look import jobs_path, patch_job
from tao_sdk.backends.kubernetes.parse import Object, Seen
from tao_sdk.backends.kubernetes.pods.kept_log import KeptLogs, LogCopy
from tao_sdk.backends.kubernetes.pods.logs import Position, moment_of
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import TaoError
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Ref
from tao_sdk.transports.kube import Kube, ignored

LOG_SECONDS = 10.0  # to finish copying the logs of the deleted pods
LONGEST_REST = 30.0  # seconds; a parked job may run again after this time at the latest
NODES_SECONDS = 5.0  # between two looks at all nodes and pods of the cluster
MALFORMED = (KeyError, TypeError, ValueError)  # somebody has written into the Job
FILL_SECONDS = 60.0  # beyond its gang timeout: another job's ranks may still find room then


# When


class Parking:
    """Parks and resumes the jobs of one cluster, for one client."""

    def __init__(self, kube: Kube, logs: ParkedLogs) -> None:
        self.kube, self.logs = kube, logs
        self._nodes_at = -NODES_SECONDS  # time of the last look at the nodes

    def attend(self, observed: Mapping[Ref, Observation]) -> None:
        """Park the jobs whose ranks have waited too long for others. Resume one job that fits."""
        waiting = [ref for ref, seen in observed.items() if seen.phase is Phase.PENDING]
        parked: list[Seen] = []
        for ref in filter(is_gang, waiting):
            with suppress(TaoError, *MALFORMED):  # the next look tries again
                parked += park_overdue(self.kube, self.logs, ref)
        if parked and time.monotonic() - self._nodes_at >= NODES_SECONDS:
            self._nodes_at = time.monotonic()
            with suppress(TaoError, *MALFORMED):
                resume_first(self.kube, parked)


def is_gang(ref: Ref) -> bool:
    return bool(ref.details.get("gang_timeout"))


def park_overdue(kube: Kube, logs: ParkedLogs, ref: Ref) -> list[Seen]:
    """Park the job if its ranks have waited too long. Return it if it was parked already."""
    seen = look.see(kube, ref)
    if seen is None:
        return []
    if parse.is_parked(seen.job):
        return [seen]
    since = parse.held_since(seen)
    if since and (utc_now() - since).total_seconds() >= parse.patience(seen):
        park(kube, logs, ref, seen)
    return []


def park(kube: Kube, logs: ParkedLogs, ref: Ref, seen: Seen) -> None:
    """Suspend the Job, and copy its pods' logs. The cluster deletes its pods, and counts none of
    them as failed.
    """
    if change(kube, seen.job, {names.PARKED_AT: utc_now().isoformat()}, suspend=True):
        logs.keep(kube, ref, [pod for pod in seen.pods if parse.may_have_log(pod)])


def resume_first(kube: Kube, parked: Sequence[Seen]) -> None:
    """Resume the oldest job whose ranks all find room. Only one at a time: it takes a while until
    its pods show on their nodes.
    """
    rested = sorted(filter(has_rested, parked), key=age_of)
    if not rested or any(another_fills(kube, seen.job) for seen in rested):
        return
    nodes, _ = with_use(kube, list_nodes(kube), "")
    for seen in rested:
        if not seen.pods and fits_now(seen.job, nodes):
            change(kube, seen.job, {names.PARKED_AT: None}, suspend=False)
            return


def age_of(seen: Seen) -> str:
    return str(seen.job["metadata"].get("creationTimestamp"))


def has_rested(seen: Seen) -> bool:
    """True once the Job's rest is over. The rest differs from job to job, so that two jobs parked
    at the same time do not take each other's room again.
    """
    since = parse.parked_at(seen.job)
    if since is None or since > utc_now():  # by another clock
        return True
    return utc_now() - since >= rest_of(seen.job)


def rest_of(job: Object) -> timedelta:
    """The time for which the Job stays parked: from zero to LONGEST_REST, or to the gang timeout if
    that is shorter.
    """
    notes = parse.part(job["metadata"], "annotations")
    number = zlib.crc32(f"{job['metadata']['uid']} {notes.get(names.PARKED_AT)}".encode())
    longest = min(LONGEST_REST, parse.gang_timeout(job))
    return timedelta(seconds=longest * (number % 1000) / 1000)


def another_fills(kube: Kube, job: Object) -> bool:
    """True while another such job of the namespace was resumed and not all its ranks run."""
    jobs = look.items(kube, jobs_path(job["metadata"]["namespace"]), labelSelector=names.OURS)
    return any(map(is_filling, jobs))


def is_filling(job: Object) -> bool:
    """True for a Job whose ranks are finding their nodes. A Job that nobody watches stops counting
    FILL_SECONDS after its gang timeout.
    """
    status = job["status"]
    began = parse.moment(status.get("startTime"))
    if names.GANG_TIMEOUT not in parse.part(job["metadata"], "annotations") or began is None:
        return False
    if job["spec"].get("suspend") or any(parse.condition(job, end) for end in parse.ENDS):
        return False
    lasted = (utc_now() - began).total_seconds()
    is_late = lasted > parse.gang_timeout(job) + FILL_SECONDS
    return int(status.get("ready") or 0) < int(job["spec"].get("completions") or 1) and not is_late


def change(kube: Kube, job: Object, notes: Mapping[str, str | None], suspend: bool) -> bool:
    """Change the Job. True if that worked; False if it is gone or no longer as it was seen."""
    version = job["metadata"]["resourceVersion"]
    noted = {"resourceVersion": version, "annotations": notes}
    with ignored(404, 409):
        patch_job(kube, job, noted, {"suspend": suspend})
        return True
    return False


# The logs of parked jobs


class ParkedLogs:
    """Copies of the logs of pods that parking deleted, one for each rank and parking."""

    def __init__(self, folder: Path) -> None:
        self.copies = KeptLogs(folder)

    def keep(self, kube: Kube, ref: Ref, pods: Sequence[Object]) -> None:
        """Copy the logs to their ends. Lines that come after LOG_SECONDS may be lost."""
        give_up = time.monotonic() + LOG_SECONDS
        copies = [self._begin(kube, ref, pod) for pod in pods]
        for copy in copies:
            copy.join(max(give_up - time.monotonic(), 0))

    def _begin(self, kube: Kube, ref: Ref, pod: Object) -> LogCopy:
        earlier = self.keys(ref, parse.rank_of(pod))
        number = int(earlier[-1][-3:]) + 1 if earlier else 0
        key = f"{ref.unique_id}-{number:03}"
        return self.copies.begin(kube, pod, key)

    def keys(self, ref: Ref, rank: int) -> list[str]:
        """The keys of the copies of a rank's logs, the oldest first."""
        found = self.copies.folder.glob(f"{ref.unique_id[:64]}-???-{rank}.*")
        return sorted({path.stem.removesuffix(f"-{rank}") for path in found})

    def read(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        """The logs of the rank's earlier pods, from the cursor on; for a tail, only the last pod's.
        The last chunk's cursor continues in the log of the newer pod.
        """
        keys = self.keys(ref, request.rank)
        for key in keys if request.tail is None else keys[-1:]:
            if not self.copies.finish(key, request.rank, seconds=0.0):
                continue
            begun = self.copies.first_moment(key, request.rank)
            request = replace(request, cursor=cursor_in(request.cursor, begun))
            for chunk in self.copies.read(key, request.rank, request):
                yield chunk
                request = replace(request, cursor=chunk.cursor)

    def forget(self, ref: Ref) -> None:
        self.copies.forget(ref.unique_id)


def cursor_in(cursor: str, begun: datetime | None) -> str:
    """The cursor for a log that began at `begun`; "" if the cursor is of an earlier pod's log."""
    last = moment_of(Position.parse(cursor).last)
    return "" if last and begun and last < begun else cursor
