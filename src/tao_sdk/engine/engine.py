"""The Engine: the objects that all parts of a job's life share. It does nothing itself."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from tao_sdk.backends.contract import AnyBackend
from tao_sdk.engine import lease
from tao_sdk.engine.places import Places
from tao_sdk.model.job import Endpoint, Job
from tao_sdk.model.plan import Ref
from tao_sdk.model.secrets import Redactor
from tao_sdk.model.settings import Settings
from tao_sdk.model.turns import Turns
from tao_sdk.store import Store


@dataclass
class Engine:
    """One store, the backends of its jobs, and the name under which this process holds leases."""

    settings: Settings
    store: Store
    process: str = field(default_factory=lease.this_process)
    # job -> when a look last read its results
    results_read_at: dict[str, float] = field(default_factory=dict[str, float])
    log_turns: Turns[str] = field(default_factory=Turns[str])  # jobs whose logs a look reads
    rank_turns: Turns[str] = field(default_factory=Turns[str])  # jobs whose ranks' logs it copies
    # job -> the newest `seen_at` that was reported
    newest_told_look: dict[str, datetime] = field(default_factory=dict[str, datetime])
    # job -> when its submit can continue
    submit_due_at: dict[str, float] = field(default_factory=dict[str, float])
    # ended job -> when its release can be tried again
    release_due_at: dict[str, float] = field(default_factory=dict[str, float])
    # ended job -> how often its release has failed
    release_tries: dict[str, int] = field(default_factory=dict[str, int])
    # the job whose row was written last, or was about to be when the caller was interrupted
    last_written_job: str = ""
    # where jobs live
    _backends: dict[Endpoint, AnyBackend] = field(default_factory=dict[Endpoint, AnyBackend])

    @cached_property
    def places(self) -> Places:
        return Places(self.settings, self.store, self._backends)

    @property
    def owner(self) -> str:
        """The name under which this thread holds leases. A watcher thus keeps off a submit of its
        own process.
        """
        return f"{self.process}.{threading.get_ident()}"

    def backend(self, platform: str, endpoint: str = "") -> AnyBackend:
        """Return the backend of a platform or of a named endpoint; with `endpoint`, the backend
        that the jobs of that endpoint live on.

        Raises Unreachable for an endpoint to which no settings lead any more.
        """
        return self.places.at(platform, endpoint) if endpoint else self.places.named(platform)

    def close(self) -> None:
        """Let go of every backend's connections."""
        self.places.close()

    def backend_of(self, job: Job) -> AnyBackend:
        """Return the job's backend. Raises StoreError for a job that another program has
        started.
        """
        return self.backend(
            job.platform, job.endpoint or self.store.attempt(job.id).attempt.endpoint
        )

    def ref_of(self, job: Job) -> Ref | None:
        """The ref of the job's newest attempt, or None while its submit is not confirmed."""
        return self.store.attempt(job.id).ref

    def take_lease(self, name: str, seconds: float) -> bool:
        """Take a lease for this thread, until it is given back or `seconds` have passed."""
        return lease.take(self.store, name, self.owner, seconds)

    def kept_lease(self, name: str, seconds: float) -> AbstractContextManager[None]:
        """Keep renewing the lease that this thread has taken, until the block ends."""
        return lease.kept(self.store, name, self.owner, seconds)

    def give_back(self, name: str) -> None:
        self.store.release_lease(name, self.owner)

    def keep_watch(self, name: str, seconds: float) -> bool:
        """Take or renew an endpoint's watch for this process, whichever of its threads looks."""
        return lease.take(self.store, name, self.process, seconds)

    def leave_watch(self, name: str) -> None:
        self.store.release_lease(name, self.process)

    def redactor(self, job: Job) -> Redactor:
        return Redactor.of_values(self.store.keyring.load(job.id).values())
