"""Waiting: jobs and events again and again, as often as is polite to ask, until all have ended.

A further attempt that is due meanwhile is started here if no other process watches.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from tao_sdk.client.background import BackgroundWatch
from tao_sdk.engine import cancel
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.waiting import Waiting
from tao_sdk.model.errors import JobNotFound, UsageError, WaitTimeout, join_sentences
from tao_sdk.model.job import Event, Job
from tao_sdk.model.reasons import Reason

EVENTS_SECONDS = 1.0  # between looks into the store for new events


@dataclass(frozen=True)
class Follower:
    """Follows jobs and events. `fire` calls the due callbacks of the jobs that it gets, and returns
    the jobs.
    """

    engine: Engine
    background: BackgroundWatch
    fire: Callable[[list[Job]], list[Job]]

    def follow_jobs(self, ids: Sequence[str], timeout: float | None) -> Iterator[list[Job]]:
        """The jobs as they now are, until all have ended. Raises WaitTimeout after `timeout`
        seconds, UsageError.
        """
        give_up_at = time.monotonic() + timeout_seconds(timeout)
        with closing(Waiting(self.engine)) as waiting, self.background.carrying() as carry:
            jobs = [self.engine.store.get(self.engine.store.resolve(job)) for job in ids]
            jobs = self.fire(waiting.look(jobs, give_up_at - time.monotonic()))
            yield jobs
            while any(not job.status.terminal for job in jobs):
                if time.monotonic() >= give_up_at:
                    raise gave_up(jobs, timeout)
                if any(needs_watcher(self.engine, job) for job in jobs):
                    carry()
                waiting.rest(jobs, give_up_at - time.monotonic())
                jobs = self.fire(waiting.look(jobs, give_up_at - time.monotonic()))
                yield jobs

    def follow_events(self, job_id: str | None, since: int) -> Iterator[Event]:
        """Yield the events after number `since`: of one job until it has ended, of all jobs (None)
        without end.
        """
        with closing(Waiting(self.engine)) as waiting, self.background.carrying() as carry:
            while True:
                has_ended = self._look_for_end(job_id, waiting, carry)
                for event in self.engine.store.events(job_id, since):
                    since = event.seq
                    yield event
                if has_ended:
                    return
                time.sleep(EVENTS_SECONDS)

    def _look_for_end(
        self, job_id: str | None, waiting: Waiting, carry: Callable[[], None]
    ) -> bool:
        """Look if it is time to. True if the job has ended, or was forgotten; for all jobs always
        False.
        """
        store = self.engine.store
        try:
            jobs = store.live() if job_id is None else [store.get(job_id)]
            seen = self.fire(waiting.look(jobs))
        except JobNotFound:  # forgotten meanwhile, or its submit was refused
            return job_id is not None
        if any(needs_watcher(self.engine, job) for job in seen):
            carry()
        return job_id is not None and all(job.status.terminal for job in seen)


def timeout_seconds(timeout: float | None) -> float:
    """The timeout as seconds; infinite for None. Raises UsageError if it is no number."""
    try:
        seconds = math.inf if timeout is None else float(timeout)
    except (TypeError, ValueError):
        seconds = math.nan
    if math.isnan(seconds):
        what = f"timeout is {timeout!r}; it must be a number of seconds, or None."
        raise UsageError(what, "", "For no limit leave it out.")
    return seconds


def needs_watcher(engine: Engine, job: Job) -> bool:
    """True for a job that goes on only if some process acts for it."""
    return job.waits_for_next_attempt or cancel.is_unsent(engine, job)


def unseen_words(jobs: Sequence[Job]) -> str:
    """Say why some of the jobs may be further than is known; "" if all were seen."""
    unseen = [job.message for job in jobs if job.reason_code is Reason.NOT_SEEN]
    return join_sentences(*(f"Not{words[3:]}" for words in dict.fromkeys(unseen)))


def gave_up(jobs: Sequence[Job], timeout: float | None) -> WaitTimeout:
    live = [job for job in jobs if not job.status.terminal]
    standing = ", ".join(f"{job.id} ({job.status})" for job in live)
    again = f"tao wait {' '.join(job.id for job in live)}"
    return WaitTimeout(
        f"Not ended after {timeout_seconds(timeout):g} s: {standing}.",
        unseen_words(live),
        f"{'They go' if len(live) > 1 else 'It goes'} on. To wait again:",
        again,
    )
