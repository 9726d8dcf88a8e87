"""Waiting: looking again and again at the same jobs, at each endpoint as often as is polite there.

Single questions that come one after another share a look as well: whoever asks a thousand jobs how they are, one by
one, asks their backend a few times, not a thousand.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tao_sdk.backends.contract import Capabilities
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.look import look
from tao_sdk.engine.pace import Pace
from tao_sdk.model.errors import StoreError, TaoError
from tao_sdk.model.job import Endpoint, Job

SHARED_SECONDS = 1.0  # a look this young answers the next question too, where one costs more than a moment
NEVER = float("inf")


@dataclass
class Waiting:
    """Somebody who waits for jobs to change."""

    engine: Engine
    _endpoints: dict[str, Endpoint] = field(default_factory=dict[str, Endpoint])
    _paces: dict[Endpoint, Pace] = field(default_factory=dict[Endpoint, Pace])

    def look(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs as they now are: seen where it is time to look again, remembered elsewhere."""
        due = {endpoint for endpoint in map(self.endpoint, jobs) if self.pace(endpoint).is_due()}
        asked = [job for job in jobs if self.endpoint(job) in due and not job.status.terminal]
        seen = {one.job.id: one.job for one in look(self.engine, [self.engine.store.get(job.id) for job in asked])}
        changed = {self.endpoint(job) for job in asked if seen[job.id].standing != job.standing}
        for endpoint in due:
            self.pace(endpoint).looked(endpoint in changed)
        return [seen.get(job.id) or (job if job.status.terminal else self.engine.store.get(job.id)) for job in jobs]

    def pause(self, jobs: Sequence[Job]) -> float:
        """Seconds until one of those that have not ended is to be looked at again."""
        live = [self.pace(self.endpoint(job)).next_look for job in jobs if not job.status.terminal]
        return max(0.0, min(live, default=NEVER) - time.monotonic())

    def pace(self, endpoint: Endpoint) -> Pace:
        if endpoint not in self._paces:
            self._paces[endpoint] = Pace.of_waiting(polite_seconds(self.engine, endpoint))
        return self._paces[endpoint]

    def endpoint(self, job: Job) -> Endpoint:
        if job.id not in self._endpoints:
            self._endpoints[job.id] = endpoint_of(self.engine, job)
        return self._endpoints[job.id]


def endpoint_of(engine: Engine, job: Job) -> Endpoint:
    try:
        return job.platform, engine.store.attempt(job.id).attempt.endpoint
    except StoreError:  # another SDK's job, which only it can look at
        return job.platform, ""


def polite_seconds(engine: Engine, endpoint: Endpoint) -> float:
    """How often looking there is polite."""
    try:
        return engine.backend(*endpoint).capabilities.poll_seconds
    except TaoError:  # it cannot be asked from here at all
        return Capabilities.poll_seconds


@dataclass
class SharedLooks:
    """Single questions: one that comes soon after another at the same endpoint is answered for all jobs there at once."""

    engine: Engine
    _last: dict[Endpoint, tuple[float, frozenset[str]]] = field(
        default_factory=dict[Endpoint, tuple[float, frozenset[str]]]
    )

    def look(self, job: Job) -> Job:
        """The job as it was at most a moment ago."""
        if job.status.terminal:
            return job
        endpoint = endpoint_of(self.engine, job)
        then, seen = self._last.get(endpoint, (-NEVER, frozenset[str]()))
        recent = time.monotonic() - then < min(SHARED_SECONDS, polite_seconds(self.engine, endpoint) / 2)
        if recent and job.id in seen:
            return job
        jobs = self.engine.store.live_at(endpoint) if recent else [job]
        found = {one.job.id: one.job for one in look(self.engine, jobs)}
        self._last[endpoint] = time.monotonic(), frozenset(found)
        return found.get(job.id) or self.engine.store.get(job.id)
