"""Status query: how a search of a workspace stands, asked from any process, also while it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tao_automl.recommendation import Recommendation, Record, recommendations_of
from tao_automl.sessions import find_session
from tao_automl.state import Search, best_trial, counts
from tao_automl.workspace import find_run, read_search
from tao_sdk.model.errors import StoreError, TaoError, UsageError


def query_status(workspace_path: str | os.PathLike[str]) -> dict[str, Any]:
    """How the newest search below a workspace stands: experiment_id, progress, best,
    recommendations, active_jobs, seed, status, message. Where there is none, `error` alone says so.

    The workspace is that of an AutoML object, the folder `run_<timestamp>` of an AutoMLRunner, or
    the folder above it. Nothing is changed, and no platform is asked.
    """
    workspace = Path(workspace_path)
    try:
        return session_status(workspace)
    except UsageError:
        pass
    try:
        return run_status(find_run(workspace))
    except UsageError:
        return {"error": f"No AutoML state found at {workspace}"}
    except (StoreError, TaoError) as error:
        return {"error": str(error)}


def session_status(workspace: Path) -> dict[str, Any]:
    """The status of the newest search by ask and tell. Raises UsageError where there is none."""
    session = find_session(workspace)
    try:
        kept = session.load()
    finally:
        session.close()
    if kept is None:
        raise UsageError(f"{session.path} holds no search.")
    return status_of(session.name, kept.search, kept.records)


def run_status(folder: Path) -> dict[str, Any]:
    """The status of a run, as the store has it."""
    from tao_automl.drive import jobs_of
    from tao_automl.job_records import records_of
    from tao_automl.store import SearchStore
    from tao_sdk.client.opening import open_client

    known = read_search(folder)
    with open_client(known.get("store"), begins=False) as client:
        stored = SearchStore(client.store).get(known["id"])
        records = records_of(stored, jobs_of(client, stored.id), {})
    return status_of(stored.id, stored.search, records)


def status_of(name: str, search: Search, records: Mapping[int, Record]) -> dict[str, Any]:
    found = recommendations_of(search, records)
    best = found[trial.number] if (trial := best_trial(search)) else None
    return {
        "experiment_id": name,
        "status": search.status_name,
        "message": search.closing_reason,
        "seed": search.seed,
        "progress": progress_json(search, best),
        "best": best.to_json() if best else {},
        "recommendations": [rec.to_json() for rec in found.values()],
        "active_jobs": active_jobs(list(found.values()), search),
    }


def progress_json(search: Search, best: Recommendation | None) -> dict[str, Any]:
    """completed (those that failed or were canceled as well), succeeded, failed, pending, total,
    best_metric, best_rec_id, algorithm.
    """
    found = counts(search)
    return {
        "completed": found["total"] - found["running"],
        "succeeded": found["complete"],
        "failed": found["failed"],
        "pending": found["running"],
        "total": max(search.settings.most_trials, found["total"]),
        "best_metric": best.result if best else None,
        "best_rec_id": best.id if best else None,
        "algorithm": search.settings.algorithm,
    }


def active_jobs(recs: Sequence[Recommendation], search: Search) -> list[dict[str, Any]]:
    return [
        {"rec_id": rec.id, "job_id": rec.job_id, "updated_at": rec.last_modified}
        for rec in recs
        if rec.job_id and search.trial(rec.id).is_running
    ]
