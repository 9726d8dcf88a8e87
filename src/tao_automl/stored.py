"""StoredSearch: a search as the store has it, with what its driver needs to go on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from tao_automl.state import Search, best_trial, counts
from tao_automl.template import Template
from tao_sdk.model.clock import utc_now


@dataclass(frozen=True)
class StoredSearch:
    """A search with its id. `revision` grows with every change; a save is a compare-and-set on it.

    `seconds` is how long it has been driven so far. `again` has the trials that were ended when the
    search was stopped, and the attempt that their jobs had then: they run first when it goes on.
    """

    id: str
    name: str
    search: Search
    template: Template
    created: datetime = field(default_factory=utc_now)
    ended: datetime | None = None
    seconds: float = 0.0
    round: int = 1  # how often it was opened
    stop_asked: str = ""  # why somebody wants it to end
    again: Mapping[int, int] = field(default_factory=dict[int, int])
    needs_caller: bool = False  # a caller's functions measure its trials: no watcher has them
    revision: int = 0

    @property
    def status(self) -> str:
        return self.search.status_name

    @property
    def message(self) -> str:
        """Why it ended, or where it stands."""
        if self.search.ended:
            return self.search.ended.reason
        if self.search.closing_reason:
            return self.search.closing_reason
        found = counts(self.search)
        return f"{found['total']} of {self.search.settings.most_trials} trials"

    @property
    def has_result(self) -> bool:
        return best_trial(self.search) is not None

    def with_search(self, search: Search) -> StoredSearch:
        """The same with the search as it is now; it has ended when that has."""
        ended = (self.ended or utc_now()) if search.ended else None
        return replace(self, search=search, ended=ended)
