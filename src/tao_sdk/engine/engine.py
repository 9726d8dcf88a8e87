"""The Engine: what every part of a job's life needs to hand; it does nothing itself."""

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
    """One store, the backends that its jobs live on, and who we are when we hold a lease."""

    settings: Settings
    store: Store
    process: str = field(default_factory=lease.this_process)
    file_looks: dict[str, float] = field(
        default_factory=dict[str, float]
    )  # job -> when its results were looked into
    log_turns: Turns[str] = field(default_factory=Turns[str])  # jobs whose logs a look reads
    rank_turns: Turns[str] = field(default_factory=Turns[str])  # ... of whose ranks it keeps logs
    told_seen: dict[str, datetime] = field(
        default_factory=dict[str, datetime]
    )  # job -> the newest "seen at" that was told
    submit_again: dict[str, float] = field(
        default_factory=dict[str, float]
    )  # job -> when its submit can get further
    last_kept: str = (
        ""  # the job whose row was written last, or was about to be when the caller was interrupted
    )
    _backends: dict[Endpoint, AnyBackend] = field(
        default_factory=dict[Endpoint, AnyBackend]
    )  # where jobs live

    @cached_property
    def places(self) -> Places:
        return Places(self.settings, self.store, self._backends)

    @property
    def owner(self) -> str:
        """Who we are when we hold a lease: this thread, so that a watcher keeps off a submit of its
        own process.
        """
        return f"{self.process}.{threading.get_ident()}"

    def backend(self, platform: str, endpoint: str = "") -> AnyBackend:
        """The backend of that platform, or of the endpoint of that name; with `endpoint`, the one
        that its jobs live on.

        Raises Unreachable for an endpoint to which nothing leads any more.
        """
        return self.places.at(platform, endpoint) if endpoint else self.places.named(platform)

    def close(self) -> None:
        """Let go of every backend's connections."""
        self.places.close()

    def backend_of(self, job: Job) -> AnyBackend:
        """Raises StoreError for a job that another program has started."""
        return self.backend(
            job.platform, job.endpoint or self.store.attempt(job.id).attempt.endpoint
        )

    def ref_of(self, job: Job) -> Ref | None:
        """Where the job's newest attempt lives, or None while its submit is not confirmed."""
        return self.store.attempt(job.id).ref

    def take_lease(self, name: str, seconds: float) -> bool:
        """For this thread, until it is given back or `seconds` have passed."""
        return lease.take(self.store, name, self.owner, seconds)

    def kept_lease(self, name: str, seconds: float) -> AbstractContextManager[None]:
        """The lease that this thread has taken, renewed for as long as what is done
        within goes on.
        """
        return lease.kept(self.store, name, self.owner, seconds)

    def give_back(self, name: str) -> None:
        self.store.release_lease(name, self.owner)

    def keep_watch(self, name: str, seconds: float) -> bool:
        """The watch of an endpoint is this process', whichever of its threads looks."""
        return lease.take(self.store, name, self.process, seconds)

    def leave_watch(self, name: str) -> None:
        self.store.release_lease(name, self.process)

    def redactor(self, job: Job) -> Redactor:
        return Redactor.of_values(self.store.keyring.load(job.id).values())
