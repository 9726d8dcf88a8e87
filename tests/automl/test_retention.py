"""Retention: which checkpoints of an ended search are needed no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from tao_automl.retention import needless
from tao_automl.search import create_search
from tao_automl.settings import read_settings
from tao_automl.space.search_block import read_parameters
from tao_automl.stored import StoredSearch
from tao_automl.template import Template
from tao_automl.trial import RungResult, Trial, TrialStatus
from tao_sdk import JobSpec
from tao_sdk.backends.contract import FileStat
from tao_sdk.client.results import Results
from tao_sdk.model.checkpoints import choose_checkpoints
from tao_sdk.model.clock import utc_now
from tao_sdk.model.job import Job
from tao_sdk.model.progress import Progress
from tao_sdk.model.progress_reader import ProgressReader
from tao_sdk.model.status import Status

# The reader's own metric is the accuracy: best in epoch 3. The loss is best in epoch 2.
LOG = b"""epoch 1/4 loss 0.9 accuracy 0.1
epoch 2/4 loss 0.1 accuracy 0.2
epoch 3/4 loss 0.8 accuracy 0.9
epoch 4/4 loss 0.7 accuracy 0.3
"""
EPOCHS = [f"model_epoch_{epoch:03}.pth" for epoch in (1, 2, 3, 4)]


def searched(**settings: Any) -> StoredSearch:
    """A search of two trials, of which the first is the best."""
    space = read_parameters({"{lr}": {"min": 0.1, "max": 0.9}})
    search = create_search(read_settings({"metric": "loss", **settings}), space, seed=1)
    for number, loss in ((1, 0.1), (2, 0.2)):
        result = RungResult(0, None, {"loss": loss})
        trial = Trial(number, {"{lr}": 0.5}, TrialStatus.COMPLETE, results=(result,))
        search = search.with_trial(trial)
    return StoredSearch("s-abcdefghij", "s", search, Template(JobSpec(command="x"), "local"))


def results_of(names: Sequence[str]) -> Results:
    """The results of a job that wrote these files, one after the other."""
    files = tuple(
        FileStat(f"/r/train/{name}", False, 10, float(second))
        for second, name in enumerate(names, 1)
    )
    stats = [(stat.path, stat.size, stat.mtime) for stat in files]
    chosen = choose_checkpoints(stats, "/r", None, read_log(), settled=1e9)
    return Results("/r", files, chosen.best, chosen.newest, read_log(), None, settled=1e9)


def read_log() -> Progress:
    reader = ProgressReader()
    reader.feed(LOG)
    return reader.progress


def job_of(**labels: str) -> Job:
    return Job(
        id="t-abcdefghij", name="t", platform="local", status=Status.COMPLETE, created=utc_now(),
        labels=labels,
    )  # fmt: skip


BEST_TRIAL = {"tao-trial": "1", "tao-rung": "0"}


def removed(names: Sequence[str], labels: dict[str, str], **settings: Any) -> list[str]:
    found = needless(searched(**settings), job_of(**labels), results_of(names))
    return sorted(PurePosixPath(one.path).name for one in found)


@pytest.mark.parametrize(
    ("names", "strategy", "gone"),
    [
        (["last.ckpt"], "auto", []),
        (["latest.pth"], "best", []),
        (["model.onnx", *EPOCHS], "auto", [EPOCHS[0]]),
        ([*EPOCHS, "model.engine"], "best", [EPOCHS[0], EPOCHS[3]]),
        (EPOCHS, "terminal", EPOCHS[:3]),
        ([EPOCHS[1], "last.ckpt"], "terminal", []),
        ([*EPOCHS[:2], "last.ckpt"], "auto", [EPOCHS[0]]),
    ],
)
def test_the_model_of_the_best_trial_stays_whatever_its_files_are_called(
    names: list[str], strategy: str, gone: list[str]
) -> None:
    """And the checkpoint of the epoch that the search's own metric calls the best."""
    assert removed(names, BEST_TRIAL, checkpoint_retention_strategy=strategy) == gone


def test_the_checkpoints_of_another_trial_go_and_those_of_another_job_stay() -> None:
    assert removed(EPOCHS, {"tao-trial": "2", "tao-rung": "0"}) == EPOCHS
    assert removed(EPOCHS, {}) == []
    search = searched()
    failed = replace(search.search.trial(2), status=TrialStatus.FAILED, results=())
    search = search.with_search(search.search.with_trial(failed))
    job = job_of(**{"tao-trial": "2", "tao-rung": "0"})
    assert needless(search, job, results_of(EPOCHS)) == []
