"""Job records: what the jobs of a search say of its trials, beside their numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tao_automl.recommendation import RUNNING, Record
from tao_automl.stored import StoredSearch
from tao_automl.template import RUNG_LABEL, TRIAL_LABEL
from tao_sdk.model.clock import to_iso

if TYPE_CHECKING:
    from tao_sdk.model.job import Job


def records_of(
    stored: StoredSearch, jobs: Sequence[Job], feedback: Mapping[int, Any]
) -> dict[int, Record]:
    """What is known of each trial beside its numbers."""
    began = to_iso(stored.created) or ""
    found = {
        trial.number: Record(began, began, feedback=feedback.get(trial.number))
        for trial in stored.search.trials
    }
    for job in jobs:
        number = int(job.labels.get(TRIAL_LABEL, 0))
        if number not in found:
            continue  # of an evaluation
        record = found[number]
        found[number] = replace(
            record,
            created_on=(to_iso(job.created) or began) if not record.jobs else record.created_on,
            last_modified=to_iso(job.ended or job.created) or began,
            status=RUNNING,
            jobs={**record.jobs, job.labels[RUNG_LABEL]: job.id},
        )
    return found
