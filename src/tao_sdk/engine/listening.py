"""Listening: choose the live jobs that are worth a look, so that no backend is asked while nothing
happens.

A backend reports the attempts that may have changed. A job that is not running, or is in doubt, is
always worth a look. News may get lost, so now and then all jobs get a look: the more jobs there
are, the less often.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from tao_sdk.backends.news import News, NoNews
from tao_sdk.engine.engine import Engine
from tao_sdk.model.errors import TaoError
from tao_sdk.model.job import Endpoint, Job
from tao_sdk.model.plan import Ref
from tao_sdk.model.status import Status

WHOLE_SECONDS = 60.0  # least pause between looks at all jobs, whatever the news say
LONGEST_WHOLE_SECONDS = 600.0
JOB_SECONDS = 0.25  # of that pause for each job: a look at one takes about 2 ms, most of it writing
TURN_SECONDS = 0.2  # until a thread that listens sees that another has heard something
MOST_THREADS = 8  # that listen at once; with more endpoints, a thread hears several in turn


@dataclass(frozen=True)
class Worth:
    """Live jobs that may have changed. `look`: look at them. `read`: read only their logs."""

    look: list[Job]
    read: list[Job]


class Listener:
    """The news of one endpoint. For one thread at a time."""

    def __init__(self, engine: Engine, endpoint: Endpoint) -> None:
        self._engine, self.endpoint = engine, endpoint
        self._news: News | None = None
        self._refs: dict[str, Ref] = {}  # job -> the ref of its newest attempt
        self._heard: set[Ref] = set()  # attempts with news that no look has followed
        self._next_whole_look = 0.0

    @property
    def tells(self) -> bool:
        """True if the backend can tell that nothing has changed."""
        return self._news is not None and self._news.tells

    def hears(self, seconds: float) -> bool:
        """Wait up to `seconds` for news of the jobs of the last `worth_a_look`. True if there is
        some.
        """
        if self._news is not None and self.tells and not self._heard:
            self._heard.update(self._news.changed(list(self._refs.values()), seconds))
        return bool(self._heard)

    def worth_a_look(self, jobs: Sequence[Job], is_eager: Callable[[Job], bool]) -> Worth:
        """Return the jobs that may have changed. `is_eager` is True for a job that gets a look in
        any case.
        """
        self._remember(jobs)
        news = self._listen()
        calm = {job.id: self._refs[job.id] for job in jobs if self._is_calm(job)}
        changed = {*self._heard, *news.changed(list(self._refs.values()), 0)}
        grown = set(news.grown(list(calm.values())))
        self._heard.clear()
        if self._is_time_for_all(len(jobs)):
            return Worth(list(jobs), [])
        quiet = {
            job.id
            for job in jobs
            if job.id in calm and not is_eager(job) and calm[job.id] not in changed
        }
        return Worth(
            look=[job for job in jobs if job.id not in quiet],
            read=[job for job in jobs if job.id in quiet and calm[job.id] in grown],
        )

    def close(self) -> None:
        if self._news is not None:
            self._news.close()

    def _listen(self) -> News:
        if self._news is None:
            try:
                self._news = self._engine.backend(*self.endpoint).news()
            except TaoError:  # it cannot be used from here; the look says so
                return NoNews()
        return self._news

    def _remember(self, jobs: Sequence[Job]) -> None:
        """Remember the refs of the jobs. Only those of new jobs, and refs that may have changed,
        are read from the store.
        """
        self._refs = {
            job.id: ref
            for job in jobs
            if (ref := self._refs.get(job.id)) and ref.attempt.number == job.attempt and ref.ready
        }
        rows = self._engine.store.newest_attempts(
            [job.id for job in jobs if job.id not in self._refs]
        )
        self._refs.update({job_id: row.ref for job_id, row in rows.items() if row.ref is not None})

    def _is_calm(self, job: Job) -> bool:
        """True if the job runs and nothing about it is in doubt."""
        ref = self._refs.get(job.id)
        is_placed = ref is not None and ref.ready
        is_in_doubt = job.reason_code or job.absent_looks or job.cancel_asked
        return is_placed and job.status is Status.RUNNING and not is_in_doubt

    def _is_time_for_all(self, jobs: int) -> bool:
        now = time.monotonic()
        if self.tells and now < self._next_whole_look:
            return False
        self._next_whole_look = now + whole_pause(jobs)
        return True


def whole_pause(jobs: int) -> float:
    """The seconds between two looks at all of `jobs` jobs."""
    return min(max(WHOLE_SECONDS, jobs * JOB_SECONDS), LONGEST_WHOLE_SECONDS)


def first_heard(listeners: Sequence[Listener], seconds: float) -> list[Listener]:
    """Listen to several endpoints at once. Return those with news as soon as there is some; none
    after `seconds`.
    """
    if len(listeners) == 1:
        return [one for one in listeners if one.hears(seconds)]
    over, give_up_at = threading.Event(), time.monotonic() + seconds
    groups = [listeners[number::MOST_THREADS] for number in range(MOST_THREADS)]
    with ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="tao-listen") as pool:
        try:
            hear = partial(hear_in_turn, give_up_at=give_up_at, over=over)
            answers = list(pool.map(hear, filter(None, groups)))
        finally:
            over.set()  # else Ctrl-C would wait for the threads
    return [one for heard in answers for one in heard]


def hear_in_turn(
    listeners: Sequence[Listener], give_up_at: float, over: threading.Event
) -> list[Listener]:
    """Listen to one after the other until one has news, until `give_up_at` (of time.monotonic), or
    until `over`: another group has news.
    """
    while not over.is_set() and time.monotonic() < give_up_at:
        turn = min(TURN_SECONDS, give_up_at - time.monotonic()) / len(listeners)
        heard = [one for one in listeners if one.hears(max(0.0, turn))]
        if heard:
            over.set()
            return heard
    return []
