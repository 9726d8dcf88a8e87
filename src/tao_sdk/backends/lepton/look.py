"""Look: what a workspace is asked about jobs.

A constant number of lists for any number of jobs, and one more question for each job that is not in
them, or has newly ended: the workspace tells no exit code, the last line of the log does.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

from tao_sdk.backends.asking import ask_side_by_side
from tao_sdk.backends.lepton import parse
from tao_sdk.backends.lepton.job import names
from tao_sdk.backends.lepton.parse import JobEnd, Object, RankEnd
from tao_sdk.backends.lepton.workspace.site import CHECK_WORKSPACE, PING
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.transports.rest import AnswerTooLarge, Rest, RestRefusal

# Jobs in one list: as many as the workspace gives, and fewer where they are large. Each number
# divides the one before, so that a smaller page begins where a larger one would have.
PAGES = (500, 250, 125, 25, 5, 1)
ALIVE, ALL = "alive_only", "alive_and_archive"
END_TIME = timedelta(seconds=30)  # how long the last lines of a log may be on their way
UNSTARTED_TIME = timedelta(seconds=2)  # the same, of a job of which no replica is known
CREATE_SECONDS, CREATE_LEAST = 60.0, 10.0  # for the answer to a create: the most, the least
END_LINES = 100  # lines that look like the last one


class Look:
    """The jobs of one workspace, and the ends that were read of them. Safe to use from several
    threads.
    """

    def __init__(self, rest: Rest) -> None:
        self.rest = rest
        self._ends: dict[str, JobEnd] = {}  # by job id; only those that are whole
        self._ends_seen: dict[str, float] = {}  # job id -> the time.monotonic() of the first look
        self._created: dict[Attempt, Object] = {}  # by this client, which lists may still lack

    def list_jobs(self, mode: str, selector: str) -> Iterator[Object]:
        """All jobs that a label selects. Raises RestRefusal, Unreachable."""
        begin, sizes = 0, list(PAGES)
        while True:
            try:
                found = self._page_of_jobs(mode, selector, begin, sizes[0])
            except AnswerTooLarge:
                if len(sizes) == 1:
                    raise
                del sizes[0]
                continue
            yield from found
            if len(found) < sizes[0]:
                return
            begin += sizes[0]

    def _page_of_jobs(self, mode: str, selector: str, begin: int, size: int) -> Sequence[Object]:
        page = begin // size + 1
        params = {"job_query_mode": mode, "query": selector, "page": page, "page_size": size}
        return listed(self.rest, self.rest.ask("GET", "/jobs", params=params), "jobs")

    def find(self, attempt: Attempt) -> Object | None:
        """The attempt's job; None if a list has none that is not being deleted."""
        return min(self._jobs_with_labels(attempt), key=parse.created_at, default=None)

    def has_jobs(self, job_id: str) -> bool:
        """True if a list has a job of one of ours, whatever became of it."""
        return any(self.list_jobs(ALL, names.selector(names.JOB_ID, job_id)))

    def job_ids(self, ref: Ref) -> Sequence[str]:
        """The attempt's job, and every other one that a list has of it: a create of which nothing
        was heard may have made one.
        """
        listed_ids = [parse.job_id(job) for job in self._jobs_with_labels(ref.attempt)]
        return [ref.native_id, *(one for one in listed_ids if one != ref.native_id)]

    def _jobs_with_labels(self, attempt: Attempt) -> list[Object]:
        selector = names.selector(names.JOB_ID, attempt.job_id)
        return [
            job
            for job in self.list_jobs(ALL, selector)
            if names.is_of(job, attempt) and parse.phase_of(job) is not Phase.ABSENT
        ]

    def created_here(self, attempt: Attempt) -> Object | None:
        """The job that this client has created of the attempt; None if it has not, or if the job is
        gone.
        """
        job = self._created.get(attempt)
        return self.job(parse.job_id(job)) if job is not None else None

    def create(self, attempt: Attempt, body: Object) -> Object:
        """Create the attempt's job. Never twice without a look: a second request makes a second
        job. So the answer is waited for as long as this thread may ask, and there must be time.
        """
        answer = self.rest.ask("POST", "/jobs", body, read=CREATE_SECONDS, least=CREATE_LEAST)
        self._created[attempt] = job = one_job(self.rest, answer)
        return job

    def job(self, job_id: str) -> Object | None:
        """One job; None if there is none of this id. Raises RestRefusal, Unreachable."""
        try:
            answer = self.rest.ask("GET", f"/jobs/{job_id}", params={"job_query_mode": ALL})
            return one_job(self.rest, answer)
        except RestRefusal as refused:
            if refused.status != 404:
                raise
        self._ask_workspace()
        return None

    def _ask_workspace(self) -> None:
        """Raise Unreachable if the workspace itself is refused: a proxy, and a gateway that does
        not know the workspace, say 404 too, and then nothing is known about a job.
        """
        try:
            self.rest.ask("GET", PING)
        except RestRefusal as refused:
            if refused.status == 401:
                raise
            what = f"{self.rest.server.name} cannot be asked: {refused.what}"
            raise Unreachable(what, refused.why, CHECK_WORKSPACE) from refused

    def replicas(self, job_id: str) -> Sequence[Object]:
        params = {"job_query_mode": ALL}
        answer = self.rest.ask("GET", f"/jobs/{job_id}/replicas", params=params)
        return listed(self.rest, answer, "replicas")

    def observed(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        """The observation of each attempt. Raises RestRefusal, Unreachable."""
        jobs = self._jobs_of(refs)
        found = [(ref, jobs[ref.native_id]) for ref in refs if ref.native_id in jobs]
        seen = ask_side_by_side(lambda one: self.observation(*one), found)
        told = {ref: one for (ref, _), one in zip(found, seen, strict=True)}
        return {ref: told.get(ref, Observation(Phase.ABSENT, "")) for ref in refs}

    def _jobs_of(self, refs: Sequence[Ref]) -> Mapping[str, Object]:
        """The jobs by id. One that is not in the list of those outside the archive is asked for."""
        jobs: dict[str, Object] = {}
        for store in sorted({ref.attempt.store_id for ref in refs}):
            for job in self.list_jobs(ALIVE, names.selector(names.STORE, store)):
                jobs.setdefault(parse.job_id(job), job)
        missing = [ref.native_id for ref in refs if ref.native_id not in jobs]
        for job in filter(None, ask_side_by_side(self.job, missing)):
            jobs[parse.job_id(job)] = job
        return jobs

    def observation(self, ref: Ref, job: Object) -> Observation:
        """The observation of one attempt. UNREACHABLE if the end of its log cannot be read now."""
        if not parse.phase_of(job).ended:
            return parse.observation(job)
        try:
            return parse.observation(job, self.end_of(ref.attempt, job))
        except (RestRefusal, Unreachable) as error:
            return Observation(Phase.UNREACHABLE, "", reason=error.what)

    def end_of(self, attempt: Attempt, job: Object) -> JobEnd:
        """What the logs say of the end of a job that has ended; nothing where the workspace refuses
        them. Raises RestRefusal for the token, Unreachable.
        """
        job_id = parse.job_id(job)
        known = self._ends.get(job_id)
        if known is not None:
            return known
        mark = names.end_mark(attempt)
        ends: list[RankEnd] = []
        with no_answer_if_refused():
            answer = self.rest.ask("GET", "/logs", params=end_query(job, mark))
            ends = parse.rank_ends(answer, mark)
        whole = len(ends) >= parse.nodes_of(job) or self._is_over_long(job, bool(ends))
        end = JobEnd(tuple(ends), whole)
        if whole:
            self._ends[job_id] = end
        return end

    def _is_over_long(self, job: Object, has_ends: bool) -> bool:
        """True if the job ended so long ago that no line of its log is on its way any more."""
        age = self._time_since_end(job)
        if age > END_TIME:
            return True
        if age < UNSTARTED_TIME or has_ends:
            return False
        return not self._has_begun(job)

    def _time_since_end(self, job: Object) -> timedelta:
        """How long ago the job ended, by the workspace's clock. Where it does not tell, since this
        client first saw the end.
        """
        ended = parse.ended_at(job)
        if ended is not None:
            return utc_now() + self.rest.clock_ahead - ended
        first_seen = self._ends_seen.setdefault(parse.job_id(job), time.monotonic())
        return timedelta(seconds=time.monotonic() - first_seen)

    def _has_begun(self, job: Object) -> bool:
        """False if no replica has begun its program, as far as the workspace tells."""
        with no_answer_if_refused():
            return any(map(parse.has_run, self.replicas(parse.job_id(job))))
        return True


@contextmanager
def no_answer_if_refused() -> Generator[None]:
    """Go on without an answer that the workspace refuses, unless it refuses the token."""
    try:
        yield
    except RestRefusal as refused:
        if refused.status == 401:
            raise


def end_query(job: Object, mark: str) -> Mapping[str, Any]:
    return {
        "job": parse.job_id(job),
        "start": start_ns(parse.created_at(job)),
        "q": mark,
        "direction": "backward",
        "limit": max(END_LINES, 2 * parse.nodes_of(job)),
        "job_query_mode": ALL,
    }


def start_ns(created: float) -> int:
    """A time before the first line of a job's log, in nanoseconds; never 0, which is refused."""
    return max(int((created - 60) * 1_000_000_000), 1)


def listed(rest: Rest, answer: Any, key: str) -> Sequence[Object]:
    """The objects of a list, bare or under its key: the workspace has both. Raises Unreachable for
    an answer that has no list: nothing follows from it.
    """
    found = told_list(answer, key)
    if found is None:
        raise rest.not_understood(f"It has no list of {key}.")
    return found


NOTHING = object()  # stands for a key that is not there; null stands for an empty list


def told_list(answer: Any, key: str) -> Sequence[Object] | None:
    """As `listed`, but None for an answer that has no list."""
    if isinstance(answer, Mapping):
        mapping = cast("Mapping[str, Any]", answer)
        answer = mapping.get(key, NOTHING)
    if answer is None:
        return ()
    return cast("Sequence[Object]", answer) if isinstance(answer, list) else None


def one_job(rest: Rest, answer: Any) -> Object:
    """The answer, if it is a job. Raises Unreachable."""
    if isinstance(answer, Mapping):
        job = cast("Object", answer)
        if parse.part(job, "metadata").get("id"):
            return job
    raise rest.not_understood("It is no job.")
