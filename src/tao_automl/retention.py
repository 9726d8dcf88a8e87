"""Retention: the checkpoints of a search that nothing needs any more, and their removal.

Only where the search asks for it (`automl_delete_intermediate_ckpt`), when it is Complete: then no
rung and no member of a population goes on from one. Not here: what a checkpoint is
(tao_sdk/model/checkpoints.py).
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tao_automl.state import best_trial, front
from tao_automl.stored import StoredSearch
from tao_automl.template import RUNG_LABEL, TRIAL_LABEL
from tao_automl.trial import TrialStatus
from tao_sdk.model.errors import TaoError

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


def needless(stored: StoredSearch, job: Job, results: Results) -> Iterator[Checkpoint]:
    """The checkpoints of a job that nothing needs."""
    search, settings = stored.search, stored.search.settings
    trial = search.trial(int(job.labels[TRIAL_LABEL]))
    if trial.status is TrialStatus.FAILED and settings.retain_failed_artifacts:
        return
    wanted = {one.number for one in (best_trial(search), *front(search)) if one}
    is_newest = int(job.labels[RUNG_LABEL]) == trial.results[-1].rung if trial.results else False
    kept: set[str | None] = set()
    if trial.number in wanted and is_newest:
        kept = kept_paths(results, settings.checkpoint_retention_strategy)
    yield from (one for one in results.checkpoints if one.path not in kept)


def kept_paths(results: Results, strategy: str) -> set[str | None]:
    """The checkpoints of a trial that is wanted."""
    by_strategy: dict[str, set[str | None]] = {
        BEST: {results.best or results.newest},
        TERMINAL: {results.newest or results.best},
    }
    return by_strategy.get(strategy, {results.best, results.newest})


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
