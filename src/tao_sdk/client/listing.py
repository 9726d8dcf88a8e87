"""Listing: the jobs of the store that a query means, in its order, and the names that config.yaml
has for their places.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

from tao_sdk.backends.by_name import is_known, platform_name, unknown
from tao_sdk.engine.engine import Engine
from tao_sdk.model.errors import JobNotFound, UsageError
from tao_sdk.model.job import Job
from tao_sdk.model.ranking import in_order
from tao_sdk.model.status import Status

LookAt = Callable[[Sequence[Job]], Sequence[Job]]


@dataclass(frozen=True)
class JobQuery:
    """A filter for the list of jobs. Empty fields narrow nothing."""

    statuses: Collection[Status | str] = ()
    place: str = ""  # the name of a platform or an endpoint
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    parent: str | None = None
    limit: int | None = None
    sort: str = "created"

    def __post_init__(self) -> None:
        if not isinstance(self.labels, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            what = f"labels is {self.labels!r}; it must be a mapping of names to values."
            raise UsageError(what, "", "Write labels={'name': 'value'}.")
        if self.limit is not None and not is_count(self.limit):
            why = "It is how many jobs are wanted at most."
            raise UsageError(f"limit is {self.limit!r}.", why, "For all, leave it out.")

    @property
    def read_statuses(self) -> list[Status]:
        """The statuses of the query. Raises UsageError for a word that is no status."""
        named = [self.statuses] if isinstance(self.statuses, str) else self.statuses or ()
        return [read_status(status) for status in named]


def is_count(value: Any) -> bool:
    """True for a whole number of 0 or more."""
    return isinstance(value, Integral) and int(value) >= 0


def list_jobs(engine: Engine, query: JobQuery, look_at: LookAt | None) -> list[Job]:
    """The jobs that the query means. `look_at` is called first with the live ones at its place."""
    statuses = query.read_statuses
    platform, endpoint = read_place(engine, query.place)
    seen = list[Job]()
    if look_at:
        from tao_sdk.engine.letting_go import let_go_ended

        seen = look_at(live_jobs(engine, platform, endpoint))
        let_go_ended(engine)
    # the first by another order may be the oldest
    limit = query.limit if query.sort == "created" else None
    stored = engine.store.list(
        statuses=statuses,
        platform=platform,
        endpoint=endpoint,
        labels=query.labels,
        parent=parent_id(engine, query.parent),
        limit=limit,
    )
    newer = {(job.id, job.revision): job for job in seen}  # a look without news is not stored
    jobs = [newer.get((job.id, job.revision), job) for job in stored]
    # jobs of the published SDK may have run on a platform that is gone
    if platform and not jobs and not is_known(platform):
        raise unknown(query.place, list(engine.places.endpoints))
    return named_jobs(engine, in_order(jobs, query.sort)[: query.limit])


def named_jobs(engine: Engine, jobs: Sequence[Job]) -> list[Job]:
    """The jobs, each with config.yaml's name for the place where it lives."""
    if not engine.places.endpoints:
        return list(jobs)
    places = {(job.platform, job.endpoint) for job in jobs}
    names = {place: engine.places.name_of(*place) for place in places}
    return [replace(job, endpoint_name=names[job.platform, job.endpoint]) for job in jobs]


def live_jobs(engine: Engine, platform: str | None, endpoint: str | None) -> list[Job]:
    if platform is None or endpoint is None:
        return engine.store.live(platform)
    return engine.store.live_at((platform, endpoint))


def read_place(engine: Engine, place: str) -> tuple[str | None, str | None]:
    """The platform and the endpoint that a name means; None for all."""
    if place in engine.places.endpoints:
        backend = engine.backend(place)
        return backend.platform, backend.endpoint
    return platform_name(place) or None, None


def parent_id(engine: Engine, parent: str | None) -> str | None:
    """The id of the parent. If it has been forgotten since, the given text is taken for its id."""
    if not parent:
        return parent
    try:
        return engine.store.resolve(parent)
    except JobNotFound:
        return parent


def read_status(name: Status | str) -> Status:
    """A status by its name in any case. Raises UsageError that names the status that was meant, or
    all statuses.
    """
    try:
        return Status(str(name).capitalize())
    except ValueError:
        raise UsageError(f"invalid status: {name!r}", "", status_advice(name)) from None


def status_advice(name: object) -> str:
    from tao_sdk.client.status_words import meant_status

    meant = meant_status(name) if isinstance(name, str) else None
    if meant:
        return f"Did you mean {meant.value!r}?"
    return f"Known are: {', '.join(status.value for status in Status)}"
