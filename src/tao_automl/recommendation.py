"""Recommendations: the trials of a search under their documented names, for ask and tell.

Here: Recommendation, and the Record of what a search itself does not keep. Not here: where they
come from (automl.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tao_automl.state import Search
from tao_automl.trial import Trial, TrialStatus

PENDING, STARTED, RUNNING, CANCELING = "pending", "started", "running", "canceling"
SUCCESS, FAILURE, CANCELED = "success", "failure", "canceled"
STATUSES: Mapping[TrialStatus, str] = {
    TrialStatus.COMPLETE: SUCCESS,
    TrialStatus.FAILED: FAILURE,
    TrialStatus.STOPPED: CANCELED,
}


@dataclass(frozen=True)
class Record:
    """What is kept of a recommendation beside its trial."""

    created_on: str  # ISO 8601
    last_modified: str
    status: str = PENDING  # while its trial runs: pending, started or running
    jobs: Mapping[str, str] = field(default_factory=dict[str, str])  # rung, as text -> job id
    best_epoch: int | None = None
    feedback: Any = None  # plain JSON
    adjustments: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        known = dict(data)
        known["adjustments"] = tuple(known["adjustments"])
        return cls(**known)


class Recommendation(Mapping[str, Any]):
    """One configuration to train: a mapping from the dotted keys of the spec to their values.

    `id` is the number of the trial, from 1 on; a trial that trains further keeps it. With
    `resume_from_epoch` it goes on from the checkpoint that job `resume_from_job_id` had after so
    many epochs; `early_stop_epoch` is how many it trains in total. `result` and
    `objective_values` are as reported, None and empty before, and where it failed.
    """

    def __init__(self, identifier: int, specs: dict[str, Any], metric: str) -> None:
        self.id = identifier
        self.specs = specs
        self.metric = metric
        self.job_id: str | None = None
        self.status = PENDING
        self.result: float | None = None
        self.objective_values: dict[str, float] = {}
        self.objective_score: float | None = None
        self.best_epoch_number: int | None = None
        self.resume_from_job_id: str | None = None
        self.resume_from_epoch: int | None = None
        self.resume_from_step: int | None = None
        self.early_stop_epoch: int | None = None
        self.failure_reason: str | None = None
        self.proposed_by = ""
        self.adjustments: list[Mapping[str, Any]] = []
        self.feedback: Any = None
        self.created_on = ""
        self.last_modified = ""
        self.keep_job: Callable[[str], None] | None = None  # of the search that it belongs to

    def __getitem__(self, key: str) -> Any:
        return self.specs[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.specs)

    def __len__(self) -> int:
        return len(self.specs)

    def __bool__(self) -> bool:
        """True also where nothing differs from the spec."""
        return True

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return (
            f"Recommendation(id={self.id}, status={self.status!r}, result={self.result}, "
            f"specs={self.specs})"
        )

    def assign_job_id(self, job_id: str) -> None:
        """Say which job trains it. It is kept at once."""
        self.job_id = job_id
        if self.keep_job:
            self.keep_job(job_id)

    def to_json(self) -> dict[str, Any]:
        """As `get_status` lists it."""
        return {
            "rec_id": self.id,
            "specs": dict(self.specs),
            "job_id": self.job_id,
            "status": self.status,
            "metric_value": self.result,
            "objective_score": self.objective_score,
            "objective_values": dict(self.objective_values),
            "failure_reason": self.failure_reason,
            "adjustments": list(self.adjustments),
            "feedback": self.feedback,
            "proposed_by": self.proposed_by,
            "created_on": self.created_on,
            "last_modified": self.last_modified,
        }


def empty_recommendation(search: Search, trial: Trial) -> Recommendation:
    return Recommendation(trial.number, dict(trial.params), search.settings.goals[0].metric)


def recommendations_of(search: Search, records: Mapping[int, Record]) -> dict[int, Recommendation]:
    """Every trial of a search as a recommendation, by its number."""
    found: dict[int, Recommendation] = {}
    for trial in search.trials:
        rec = found[trial.number] = empty_recommendation(search, trial)
        fill_recommendation(rec, search, trial, records)
    return found


def fill_recommendation(
    found: Recommendation, search: Search, trial: Trial, records: Mapping[int, Record]
) -> None:
    """Write what is known of a trial into its recommendation."""
    record = records[trial.number]
    found.specs = specs_of(search, trial)
    found.job_id = record.jobs.get(str(trial.rung)) or newest_job(record, trial)
    found.status = status_of(trial, record)
    found.early_stop_epoch = trial.epochs
    found.failure_reason = trial.reason or None
    found.proposed_by = trial.proposed_by
    found.best_epoch_number = record.best_epoch
    found.feedback = record.feedback
    found.adjustments = list(record.adjustments)
    found.created_on, found.last_modified = record.created_on, record.last_modified
    fill_result(found, search, trial)
    fill_start(found, search, trial, records)


def specs_of(search: Search, trial: Trial) -> dict[str, Any]:
    """Its values, and how many epochs it trains where that is not the spec's to say."""
    specs = dict(trial.params)
    if search.settings.epochs_key and trial.epochs is not None:
        specs[search.settings.epochs_key] = trial.epochs
    return specs


def status_of(trial: Trial, record: Record) -> str:
    if trial.status in STATUSES:
        return STATUSES[trial.status]
    return CANCELING if trial.stopping else record.status


def newest_job(record: Record, trial: Trial) -> str | None:
    """The job of the last rung that had one, for a trial that does not run."""
    if trial.is_running:
        return None
    return record.jobs[max(record.jobs, key=int)] if record.jobs else None


def fill_result(found: Recommendation, search: Search, trial: Trial) -> None:
    """Its newest numbers. One that has failed or was stopped has none."""
    found.result, found.objective_score, found.objective_values = None, None, {}
    if not trial.is_usable:
        return
    last = trial.results[-1]
    found.objective_values = dict(last.values)
    found.result = last.values[found.metric]
    several = len(search.settings.goals) > 1
    found.objective_score = search.merit(trial, last).loss if several else found.result


def fill_start(
    found: Recommendation, search: Search, trial: Trial, records: Mapping[int, Record]
) -> None:
    """The checkpoint that it goes on from: its own of the rung before, or that of its parent."""
    found.resume_from_job_id, found.resume_from_epoch = None, None
    before = trial.rung - 1
    source = source_of(search, trial)
    result = source.result(before) if source else None
    if source is None or result is None:
        return
    found.resume_from_epoch = result.epochs
    found.resume_from_job_id = records[source.number].jobs.get(str(before))


def source_of(search: Search, trial: Trial) -> Trial | None:
    """The trial whose checkpoint this one goes on from; None where it starts anew."""
    if trial.result(trial.rung - 1):
        return trial
    if trial.parent is None:
        return None
    return search.trial(trial.parent)
