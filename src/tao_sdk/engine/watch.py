"""Watch: the loop that looks, retries, delivers hooks, and so carries jobs to their end.

One process acts for an endpoint at a time: the one that holds its lease. Others only look at the store.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from tao_sdk.engine import hooks, progress
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.look import Looked, look
from tao_sdk.engine.resubmit import resubmit
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import TaoError
from tao_sdk.model.job import Job

log = logging.getLogger("tao_sdk.watch")
SLOWEST_SECONDS = 60.0
LEASE_SECONDS = 60.0
Endpoint = tuple[str, str]


@dataclass
class Pace:
    """How often one endpoint is looked at: as often as is polite, and ever less while nothing changes."""

    seconds: float
    next_look: float = 0.0
    wait: float = 0.0

    def looked(self, changed: bool) -> None:
        slowest = min(SLOWEST_SECONDS, 10 * self.seconds)
        self.wait = self.seconds if changed or not self.wait else min(self.wait * 1.5, slowest)
        self.next_look = time.monotonic() + self.wait


@dataclass
class Watcher:
    """Carries the live jobs of a store to their end, from a thread of a client or as `tao watch`."""

    engine: Engine
    callbacks: hooks.Callbacks = field(default_factory=hooks.Callbacks)
    stop: threading.Event = field(default_factory=threading.Event)
    _paces: dict[Endpoint, Pace] = field(default_factory=dict[Endpoint, Pace])
    _retry_at: dict[tuple[str, int], datetime] = field(default_factory=dict[tuple[str, int], datetime])

    def run(self) -> None:
        """Until no job is live, or `stop` is set. One of the two places that catch everything: a watcher must go on."""
        self.deliver()
        while not self.stop.is_set():
            try:
                live = self.pass_once()
            except TaoError as error:
                log.warning("watching goes on after: %s", error)
                live = True
            except Exception:
                log.exception("watching goes on after an unexpected error")
                live = True
            if not live:
                return
            self.stop.wait(0.2)

    def pass_once(self) -> bool:
        """Look at every endpoint whose turn it is. True while a job is live."""
        jobs = self.engine.store.live()
        groups: dict[Endpoint, list[Job]] = defaultdict(list)
        for job in jobs:
            groups[job.platform, self.engine.store.attempt(job.id).attempt.endpoint].append(job)
        for endpoint, group in groups.items():
            if self._our_turn(endpoint):
                self._attend(endpoint, group)
        self._fire_callbacks()
        return bool(self.engine.store.live())

    def _our_turn(self, endpoint: Endpoint) -> bool:
        if endpoint not in self._paces:
            seconds = self.engine.backend(*endpoint).capabilities.poll_seconds
            self._paces[endpoint] = Pace(seconds)
        if time.monotonic() < self._paces[endpoint].next_look:
            return False
        return self.engine.take_lease("watch:" + "/".join(endpoint), LEASE_SECONDS)

    def _attend(self, endpoint: Endpoint, jobs: list[Job]) -> None:
        before = {job.id: job.standing for job in jobs}
        looked = look(self.engine, jobs)
        for one in looked:
            self._act(one)
        self.deliver()
        self._paces[endpoint].looked(any(one.job.standing != before[one.job.id] for one in looked))

    def _act(self, looked: Looked) -> None:
        job = looked.job
        if looked.retry_at is not None and utc_now() >= self._retry_at.setdefault(
            (job.id, job.attempt), looked.retry_at
        ):
            job = resubmit(self.engine, job)
        if job.started is not None and (hooks.wants_epochs(job) or self.callbacks.want_epochs(job.id)):
            progress.scan(self.engine, job)

    def _fire_callbacks(self) -> None:
        for job_id in list(self.callbacks.of_job):
            self.callbacks.fire(self.engine, self.engine.store.get(job_id))

    def deliver(self) -> None:
        """Commands and webhooks that are due, those included that were when the last watcher ended."""
        for job_id in self.engine.store.jobs_with_undelivered(hooks.DUE, hooks.DONE):
            hooks.deliver(self.engine, job_id)
