"""Waiting: look again and again at the same jobs, at each endpoint as often as is polite there.

Questions of several threads about single jobs share a look: those that come during one share the
next.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tao_sdk.backends.contract import Capabilities
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.listening import Listener, Worth, first_heard
from tao_sdk.engine.pace import Pace
from tao_sdk.model.errors import TaoError
from tao_sdk.model.job import Endpoint, Job
from tao_sdk.transports.silence import within

Looking = Callable[[Engine, Sequence[Job]], Sequence[Job]]
NEVER = float("inf")
SHORTEST_LOOK = 2.0  # least seconds for a place to answer, so that haste does not make it silent


@dataclass
class Waiting:
    """The looks of somebody who waits for jobs to change."""

    engine: Engine
    _paces: dict[Endpoint, Pace] = field(default_factory=dict[Endpoint, Pace])
    _listeners: dict[Endpoint, Listener] = field(default_factory=dict[Endpoint, Listener])

    def look(self, jobs: Sequence[Job], longest: float = NEVER) -> list[Job]:
        """Return the jobs as they are now, with their progress. A job comes from the store if its
        endpoint is not due for a look, or has not answered after `longest` seconds.
        """
        with within(max(longest, SHORTEST_LOOK)):
            return self._look(jobs)

    def _look(self, jobs: Sequence[Job]) -> list[Job]:
        from tao_sdk.engine.look import look  # the first output of `tao run` does not need it
        from tao_sdk.engine.reading import read

        live = [job for job in jobs if not job.status.terminal]
        due = {endpoint_of(job) for job in jobs if self.pace(endpoint_of(job)).is_due()}
        asked = [job for job in live if endpoint_of(job) in due]
        now = {job.id: self.engine.store.get(job.id) for job in live}
        known = [now[job.id] for job in asked]
        worth = self._worth_a_look(known)
        looked = [one.job for one in look(self.engine, worth.look)]
        for seen in read(self.engine, [*looked, *worth.read]):
            now[seen.id] = seen
        changed = {endpoint_of(job) for job in asked if now[job.id].standing != job.standing}
        for endpoint in due:
            self.pace(endpoint).looked(endpoint in changed)
        return [now.get(job.id, job) for job in jobs]

    def _worth_a_look(self, jobs: Sequence[Job]) -> Worth:
        groups: dict[Endpoint, list[Job]] = defaultdict(list)
        for job in jobs:
            groups[endpoint_of(job)].append(job)
        worth = [
            self._listener(endpoint).worth_a_look(group, nothing_more)
            for endpoint, group in groups.items()
        ]
        return Worth(
            look=[job for each in worth for job in each.look],
            read=[job for each in worth for job in each.read],
        )

    def _listener(self, endpoint: Endpoint) -> Listener:
        return self._listeners.setdefault(endpoint, Listener(self.engine, endpoint))

    def rest(self, jobs: Sequence[Job], longest: float = NEVER) -> None:
        """Wait until one of the jobs is due for a look, there is news of them, or `longest` seconds
        have passed.
        """
        seconds = max(0.0, min(self.pause(jobs), longest))
        live = {endpoint_of(job) for job in jobs if not job.status.terminal}
        telling = [listener for listener in map(self._listener, live) if listener.tells]
        if not telling:
            time.sleep(seconds)
            return
        for listener in first_heard(telling, seconds):
            self.pace(listener.endpoint).next_look = time.monotonic()

    def close(self) -> None:
        """Stop waiting, and close the backends' news."""
        for listener in self._listeners.values():
            listener.close()

    def pause(self, jobs: Sequence[Job]) -> float:
        """The seconds until the next look at one of the live jobs."""
        live = [self.pace(endpoint_of(job)).next_look for job in jobs if not job.status.terminal]
        return max(0.0, min(live, default=NEVER) - time.monotonic())

    def pace(self, endpoint: Endpoint) -> Pace:
        if endpoint not in self._paces:
            self._paces[endpoint] = Pace.of_waiting(polite_seconds(self.engine, endpoint))
        return self._paces[endpoint]


def nothing_more(_: Job) -> bool:
    """False: somebody who waits wants to know only of changes."""
    return False


def endpoint_of(job: Job) -> Endpoint:
    """The job's platform and endpoint. The endpoint is empty for another SDK's job, which only that
    SDK can look at.
    """
    return job.platform, job.endpoint


def polite_seconds(engine: Engine, endpoint: Endpoint) -> float:
    """The seconds between two looks that are polite at this endpoint."""
    try:
        return engine.backend(*endpoint).capabilities.poll_seconds
    except TaoError:  # it cannot be asked from here at all
        return Capabilities.poll_seconds


class SharedLooks:
    """Lets several threads with questions about one endpoint's jobs share a look. All questions
    that come during a look are answered by the next one. No look answers a question that came after
    it began.
    """

    def __init__(self, engine: Engine, look: Looking) -> None:
        self._engine, self._look = engine, look
        self._turns = threading.Condition()
        self._waiting: dict[Endpoint, Round] = {}  # the look that has not begun
        self._going_on: set[Endpoint] = set()

    def look(self, job: Job) -> Job:
        """Return the job as it is now, or was during this call."""
        endpoint = endpoint_of(job)
        with self._turns:
            mine = self._waiting.setdefault(endpoint, Round())
            mine.jobs[job.id] = job
            while endpoint in self._going_on and not mine.over:
                self._turns.wait()
            if not mine.over:
                self._going_on.add(endpoint)
                del self._waiting[endpoint]
        if not mine.over:
            self._carry_out(endpoint, mine)
        if job.id in mine.found:
            return mine.found[job.id]
        return self.look(job)  # another thread's look has failed: ask by ourselves

    def _carry_out(self, endpoint: Endpoint, mine: Round) -> None:
        try:
            mine.found = {job.id: job for job in self._look(self._engine, list(mine.jobs.values()))}
        finally:
            with self._turns:
                mine.over = True
                self._going_on.discard(endpoint)
                self._turns.notify_all()


@dataclass
class Round:
    """One look for all questions that come before it begins."""

    jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    found: dict[str, Job] = field(default_factory=dict[str, Job])
    over: bool = False
