"""Views: a kept search with its jobs, as it is shown and as JSON. Asks no platform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tao_automl import template
from tao_automl.decisions import Known
from tao_automl.drive import gpu_seconds, is_driven, jobs_of
from tao_automl.report.view import SearchView, view_of
from tao_automl.reports import limit_reached
from tao_automl.state import best_trial
from tao_automl.stored import StoredSearch
from tao_automl.template import Rung, values_of
from tao_sdk.model.clock import to_iso
from tao_sdk.model.errors import PathNotFound, TaoError

if TYPE_CHECKING:
    from tao_sdk.client import Client
    from tao_sdk.model.job import Job

NEXT_TRIALS = 10  # whose cost is estimated


def view_of_stored(client: Client, stored: StoredSearch) -> SearchView:
    """The search with the jobs of its trials, and when each trial ended."""
    jobs = jobs_of_trials(jobs_of(client, stored.id))
    names = {number: [job.id for job in found] for number, found in jobs.items()}
    ended = {
        number: (found[-1].ended - stored.created).total_seconds()
        for number, found in jobs.items()
        if found[-1].ended
    }
    return view_of(stored.search, stored.id, stored.name, names, ended)


def jobs_of_trials(jobs: list[Job]) -> dict[int, list[Job]]:
    """The jobs of each trial, by its number. A job of no trial, such as the final evaluation's, is
    left out.
    """
    found: dict[int, list[Job]] = {}
    for job in jobs:
        if template.TRIAL_LABEL in job.labels:
            found.setdefault(int(job.labels[template.TRIAL_LABEL]), []).append(job)
    return found


def status_json(client: Client, stored: StoredSearch) -> dict[str, Any]:
    """What `tao automl status --json` prints."""
    found = view_of_stored(client, stored).to_json()
    if found["best"]:
        found["best"]["checkpoint"] = checkpoint_of(client, found["best"]["job"])
        found["best"]["spec"] = best_spec(stored)
    return {
        **found,
        "platform": stored.template.platform,
        "created": to_iso(stored.created),
        "ended": to_iso(stored.ended),
        "driven": is_driven(client, stored.id),
        "budget": budget_of(stored, jobs_of(client, stored.id)),
    }


def checkpoint_of(client: Client, job_id: str | None) -> str | None:
    """The path of a job's best checkpoint; None where it has none or its place cannot be asked."""
    if job_id is None:
        return None
    try:
        return client.results(job_id).best
    except (PathNotFound, TaoError):
        return None


def best_spec(stored: StoredSearch) -> dict[str, Any] | None:
    """The specs (else the args) of the job with the best trial's values; what is neither, such as a
    variable of the environment, is in its params.
    """
    best = best_trial(stored.search)
    if best is None:
        return None
    spec = template.trial_spec(
        stored.template, stored.id, best.number, best.params, Rung(best.rung, best.epochs)
    )
    return dict(values_of(spec)) or None


def budget_of(stored: StoredSearch, jobs: list[Job]) -> dict[str, Any]:
    """What the search has used, its limits, and what the next trials would cost at that rate."""
    settings = stored.search.settings
    used = sum(map(gpu_seconds, jobs))
    trials = len(stored.search.trials)
    known = Known(gpu_seconds=used, wall_seconds=stored.seconds)
    no_more_jobs = settings.max_jobs is not None and stored.search.jobs >= settings.max_jobs
    return {
        "used_up": no_more_jobs or bool(limit_reached(stored.search, known)),
        "jobs": stored.search.jobs,
        "gpu_seconds": used,
        "seconds": stored.seconds,
        "max_jobs": settings.max_jobs,
        "max_gpu_hours": settings.max_gpu_hours,
        "max_wall_time": settings.max_wall_time,
        "next_10_trials": {
            "gpu_seconds": used / trials * NEXT_TRIALS,
            "seconds": stored.seconds / trials * NEXT_TRIALS,
        }
        if trials
        else None,
    }


def row_json(client: Client, stored: StoredSearch) -> dict[str, Any]:
    """What `tao automl ls --json` says of a search."""
    found = view_of(stored.search, stored.id, stored.name)
    return {
        "id": stored.id,
        "name": stored.name,
        "status": stored.status,
        "message": stored.message,
        "algorithm": found.algorithm,
        "metric": found.goal.metric,
        "direction": found.goal.direction,
        "counts": found.counts,
        "best": found.best.value if found.best else None,
        "created": to_iso(stored.created),
        "ended": to_iso(stored.ended),
        "driven": is_driven(client, stored.id),
    }
