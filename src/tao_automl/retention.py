"""Retention: the checkpoints of a search that nothing needs any more, and their removal.

Only where the search asks for it (`automl_delete_intermediate_ckpt`), when it is Complete: then no
rung and no member of a population goes on from one. Not here: what a checkpoint is
(tao_sdk/model/checkpoints.py).
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tao_automl.settings import SearchSettings
from tao_automl.state import Search, best_trial, front
from tao_automl.stored import StoredSearch
from tao_automl.template import RUNG_LABEL, TRIAL_LABEL
from tao_automl.trial import Objective, Trial, TrialStatus
from tao_sdk.model.errors import PathNotFound, TaoError

if TYPE_CHECKING:
    from tao_sdk.client import Client, Results
    from tao_sdk.model.checkpoints import Checkpoint
    from tao_sdk.model.job import Job

log = logging.getLogger(__name__)
BEST, TERMINAL = "best", "terminal"  # strategies; `auto` is both


def remove_checkpoints(client: Client, stored: StoredSearch, jobs: Iterable[Job]) -> None:
    """Remove the checkpoints that nothing needs: all but those of the best trial and of the front,
    and of failed trials where the search retains them. What is not on this machine stays.
    """
    for job in jobs:
        try:
            results = client.results(job.id)
            for checkpoint in needless(stored, job, results):
                remove_here(results, checkpoint)
        except TaoError as error:
            log.warning("the checkpoints of %s stay: %s", job.id, error)


def needless(stored: StoredSearch, job: Job, results: Results) -> list[Checkpoint]:
    """The checkpoints of a job that nothing needs; none of a job of no trial."""
    search, settings = stored.search, stored.search.settings
    if TRIAL_LABEL not in job.labels:
        return []
    trial = search.trial(int(job.labels[TRIAL_LABEL]))
    if trial.status is TrialStatus.FAILED and settings.retain_failed_artifacts:
        return []
    if not is_wanted(search, trial, job):
        return results.checkpoints
    kept = kept_paths(results, settings)
    if not kept:
        return []  # which of them the trial's model is cannot be told
    return [one for one in results.checkpoints if one.path not in kept and not one.exported]


def is_wanted(search: Search, trial: Trial, job: Job) -> bool:
    """True for the newest rung of the best trial and of those of the front."""
    wanted = {one.number for one in (best_trial(search), *front(search)) if one}
    if trial.number not in wanted:
        return False
    return int(job.labels[RUNG_LABEL]) == trial.results[-1].rung


def kept_paths(results: Results, settings: SearchSettings) -> set[str]:
    """The checkpoints of a trial that is wanted; empty if none of them is known for certain."""
    best = {path for path in (measured_best(results, settings.goals[0]), results.best) if path}
    terminal = {path for path in (last_written(results), results.newest) if path}
    by_strategy = {BEST: best or terminal, TERMINAL: terminal or best}
    return by_strategy.get(settings.checkpoint_retention_strategy, best | terminal)


def measured_best(results: Results, goal: Objective) -> str | None:
    """The checkpoint of the epoch that was best by the search's own metric, or None."""
    measured = [entry for entry in results.progress.history if goal.metric in entry.metrics]
    if not measured:
        return None
    best = min(measured, key=lambda entry: goal.loss(entry.metrics[goal.metric]))
    try:
        return results.of_epoch(best.epoch).path
    except PathNotFound:
        return None


def last_written(results: Results) -> str | None:
    """The newest checkpoint called `last` or `latest`, where it is newer than every other one."""
    trained = [one for one in results.checkpoints if not one.exported]
    newest = max(trained, key=lambda one: one.mtime, default=None)
    if newest is None or not newest.is_latest:
        return None
    return newest.path


def remove_here(results: Results, checkpoint: Checkpoint) -> None:
    """Remove a checkpoint, if the files of this machine at its path are those that the platform
    sees there: of the same size and time.
    """
    files = [
        stat
        for stat in results.files
        if stat.path == checkpoint.path or stat.path.startswith(f"{checkpoint.path}/")
    ]
    if not files or not all(is_here(stat.path, stat.size, stat.mtime) for stat in files):
        log.warning("%s stays: it is not on this machine", checkpoint.path)
        return
    path = Path(checkpoint.path)
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        log.warning("%s stays: %s", path, error.strerror)


def is_here(path: str, size: int, mtime: float) -> bool:
    try:
        seen = Path(path).stat()
    except OSError:
        return False
    return seen.st_size == size and abs(seen.st_mtime - mtime) < 1e-3
