"""Watch: the loop that looks, retries, sends cancels again and delivers hooks, until all jobs have
ended.

One process acts for an endpoint at a time: the one that holds its lease. Others only read the
store.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from tao_sdk.engine import cancel, hooks, lease, progress, reading
from tao_sdk.engine.drain import keep_ranks
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.letting_go import let_go_ended
from tao_sdk.engine.listening import Listener, Worth
from tao_sdk.engine.look import Looked, look
from tao_sdk.engine.pace import Pace
from tao_sdk.engine.retry import is_due
from tao_sdk.engine.side_by_side import side_by_side, submits_at_once
from tao_sdk.engine.waiting import polite_seconds
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import JobNotFound, StoreError, TaoError
from tao_sdk.model.job import Endpoint, Job
from tao_sdk.model.reasons import Reason

log = logging.getLogger("tao_sdk.watch")
LEASE_SECONDS = 60.0
TURN_SECONDS = 0.2
LAST_WORK_SECONDS = 5.0
LAST_LOOK_SECONDS = 0.5
MOST_NAMED = 5  # jobs in one warning


@dataclass
class Watcher:
    """Carries the live jobs of a store to their end, from a thread of a client or as `tao watch`.

    Every endpoint, the deliveries and the callbacks have a thread of their own, so that one that
    hangs holds up no other.
    """

    engine: Engine
    callbacks: hooks.Callbacks = field(default_factory=hooks.Callbacks)
    stop: threading.Event = field(default_factory=threading.Event)
    poll_seconds: float | None = None  # None: as often as each backend says is polite
    _paces: dict[Endpoint, Pace] = field(default_factory=dict[Endpoint, Pace])
    _listeners: dict[Endpoint, Listener] = field(default_factory=dict[Endpoint, Listener])
    # endpoint -> why it cannot be used, as last logged
    _away: dict[Endpoint, str] = field(default_factory=dict[Endpoint, str])
    _busy: dict[str, threading.Thread] = field(default_factory=dict[str, threading.Thread])
    _starting: threading.Lock = field(default_factory=threading.Lock)
    # threads that finish their work before the watcher ends
    _acting: set[threading.Thread] = field(default_factory=set[threading.Thread])
    _saw_live_jobs: bool = False  # in the last turn

    def run(self) -> None:
        """Run until no job is live and nothing is due, or `stop` is set. Then give up the leases,
        so that another process may watch.
        """
        try:
            self._run()
        finally:
            for listener in list(self._listeners.values()):
                listener.close()
            for endpoint in list(self._paces):
                # if this fails, the lease expires
                self._safely(partial(self.engine.leave_watch, lease.of_watch(endpoint)))

    def _run(self) -> None:
        self._work("deliveries", self.deliver)
        while not self.stop.is_set():
            self._safely(self.pass_once)
            self.stop.wait(TURN_SECONDS)
            if self._nothing_is_live() and not self._still_busy():
                self._safely(self.deliver)
                self._safely(self.fire_callbacks)
                return
        self._finish_work()

    def _nothing_is_live(self) -> bool:
        if self._saw_live_jobs:  # the next turn sees whether they have ended
            return False
        try:
            store = self.engine.store
            return not store.live_endpoints() and not store.rented_after_end()
        except StoreError:  # the next turn says so, and goes on
            return False

    def _finish_work(self) -> None:
        """Wait for threads to finish what they have begun (a claimed callback, a delivery, a new
        attempt), unless they hang. A thread that only looks gets less time: its endpoint may not
        answer.
        """
        began = time.monotonic()
        with self._starting:
            begun = list(self._busy.values())
        for thread in begun:
            patience = LAST_WORK_SECONDS if thread in self._acting else LAST_LOOK_SECONDS
            thread.join(max(0.0, began + patience - time.monotonic()))

    @contextmanager
    def _begun_work(self) -> Generator[None]:
        """Mark this thread's work: the watcher lets it finish before it ends, unless it hangs."""
        thread = threading.current_thread()
        self._acting.add(thread)
        try:
            yield
        finally:
            self._acting.discard(thread)

    def pass_once(self) -> None:
        """Start work on every endpoint whose turn it is, on the places that ended jobs still rent,
        and on the callbacks.
        """
        endpoints = self.engine.store.live_endpoints()
        rented = self.engine.store.rented_after_end()
        self._saw_live_jobs = bool(endpoints or rented)
        if rented:
            self._work("rented places", partial(let_go_ended, self.engine))
        for endpoint in endpoints:
            if self._is_due(endpoint) or self._listeners[endpoint].tells:
                self._work("/".join(endpoint), partial(self._attend, endpoint))
        if self.callbacks.of_job:
            self._work("callbacks", self.fire_callbacks)

    def _is_due(self, endpoint: Endpoint) -> bool:
        return endpoint not in self._paces or self._paces[endpoint].is_due()

    def _work(self, name: str, task: Callable[[], object]) -> None:
        """Run the task in the thread of that name, unless it is still busy with the last one."""
        with self._starting:
            thread = self._busy.get(name)
            if thread is None or not thread.is_alive():
                thread = threading.Thread(
                    target=self._safely, args=(task,), name=f"tao-watch {name}", daemon=True
                )
                thread.start()
                self._busy[name] = thread

    def _safely(self, task: Callable[[], object]) -> None:
        """Run a task and log its errors. A watcher must go on, so this is one of the few places
        that catch everything.
        """
        try:
            task()
        except TaoError as error:
            if not self.stop.is_set():  # after that, the store may close during a slow look
                log.warning("watching goes on after: %s", error)
        except Exception:
            log.exception("watching goes on after an unexpected error")

    def _still_busy(self) -> bool:
        with self._starting:
            return any(thread.is_alive() for thread in self._busy.values())

    def _attend(self, endpoint: Endpoint) -> None:
        """Look at the endpoint's jobs when a look is due, or as soon as there is news of them."""
        listener = self._listeners.setdefault(endpoint, Listener(self.engine, endpoint))
        if not self._is_due(endpoint) and not listener.hears(TURN_SECONDS):
            return
        polite = self.poll_seconds or polite_seconds(self.engine, endpoint)
        pace = self._paces.setdefault(endpoint, Pace.of_watcher(polite))
        changed = False
        try:
            if self._is_here(endpoint) and self.engine.keep_watch(
                lease.of_watch(endpoint), LEASE_SECONDS
            ):
                jobs = self.engine.store.live_at(endpoint)
                worth = listener.worth_a_look(jobs, self._wants_epochs)
                changed = self._look_and_act(worth)
        finally:
            pace.looked(changed)

    def _is_here(self, endpoint: Endpoint) -> bool:
        """True if the endpoint's backend can be used from here. If not, other watchers have its
        jobs, and one warning names them.
        """
        try:
            self.engine.backend(*endpoint)
        except TaoError as error:
            if self._away.get(endpoint) != str(error):
                log.warning(
                    "watching goes on without %s: %s",
                    shortened(self.engine.store.live_at(endpoint)),
                    error,
                )
            self._away[endpoint] = str(error)
            return False
        self._away.pop(endpoint, None)
        return True

    def _look_and_act(self, worth: Worth) -> bool:
        """Look at the jobs and act on what is due. True if anything changed. An error of one job
        blocks no other.
        """
        before = {job.id: job.standing for job in worth.look}
        looked = look(self.engine, worth.look)
        due = {one.job.id: one.job for one in looked if is_retry_due(one)}
        with self._begun_work():
            self._safely(partial(self._resubmit_all, list(due.values())))
            self._send_cancels([one.job for one in looked])
        self._read([*(one.job for one in looked if one.job.id not in due), *worth.read])
        self._work("deliveries", self.deliver)
        return any(one.job.standing != before[one.job.id] for one in looked)

    def _resubmit_all(self, jobs: Sequence[Job]) -> None:
        """Start the next attempts of jobs of one endpoint. An error of one job blocks no other, and
        no attempt begins once `stop` is set.
        """
        if not jobs:
            return
        capabilities = self.engine.backend_of(jobs[0]).capabilities
        most = submits_at_once(capabilities, [job.gpu_count for job in jobs])
        side_by_side(lambda job: self._safely(partial(self._resubmit, job)), jobs, most)

    def _send_cancels(self, jobs: Sequence[Job]) -> None:
        """Send the cancels that could not reach the backend before."""
        for job in jobs:
            was_seen = job.reason_code is not Reason.NOT_SEEN
            if was_seen and not self.stop.is_set() and cancel.is_unsent(self.engine, job):
                self._safely(partial(cancel.send_again, self.engine, job))

    def _resubmit(self, job: Job) -> None:
        from tao_sdk.engine.resubmit import resubmit

        if not self.stop.is_set():
            resubmit(self.engine, job)

    def _read(self, jobs: Sequence[Job]) -> None:
        """Read the new part of the logs: every epoch if a hook waits for it, else what time
        allows.
        """
        for job in jobs:
            if job.started is not None and self._wants_epochs(job):
                self._safely(partial(progress.scan, self.engine, job))
        others = [job for job in jobs if not self._wants_epochs(job)]
        self._safely(partial(reading.read, self.engine, others))
        self._safely(partial(keep_ranks, self.engine, jobs, progress.MOST_AT_ONCE))

    def _wants_epochs(self, job: Job) -> bool:
        return hooks.wants_epochs(job) or self.callbacks.want_epochs(job.id)

    def fire_callbacks(self) -> None:
        with self._begun_work():
            for job_id in list(self.callbacks.of_job):
                self._safely(partial(self._fire, job_id))

    def _fire(self, job_id: str) -> None:
        try:
            job = self.engine.store.get(job_id)
        except JobNotFound:
            self.callbacks.of_job.pop(job_id, None)
        else:
            self.callbacks.fire(self.engine, job)

    def deliver(self) -> None:
        """Deliver the commands and webhooks that are due, including those that the last watcher
        left.
        """
        with self._begun_work():
            for job_id in hooks.undelivered(self.engine):
                self._safely(partial(self._deliver, job_id))

    def _deliver(self, job_id: str) -> None:
        if self.engine.take_lease(name := f"hooks:{job_id}", hooks.DELIVERY_SECONDS * 2):
            try:
                hooks.deliver(self.engine, job_id)
            finally:
                self.engine.give_back(name)


def is_retry_due(looked: Looked) -> bool:
    """True if the job's next attempt is due now."""
    return looked.retry_at is not None and is_due(looked.retry_at, utc_now())


def shortened(jobs: Sequence[Job]) -> str:
    """The ids of the first MOST_NAMED jobs, and how many more there are."""
    more = f" and {len(jobs) - MOST_NAMED} more" if len(jobs) > MOST_NAMED else ""
    return ", ".join(job.id for job in jobs[:MOST_NAMED]) + more
