"""What the store keeps of the reading of a log: as it was, also when an earlier
version wrote it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from tao_sdk.model.job import Job
from tao_sdk.model.log_reading import FilePlace, LogReading
from tao_sdk.model.pace import Pace
from tao_sdk.model.progress import Best, EpochMetrics, Progress
from tao_sdk.model.status import Status

NOON = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
BY_LOG = Progress(
    3,
    9,
    {"loss": 0.5},
    Best(2, "loss", 0.4),
    None,
    (EpochMetrics(2, {"loss": 0.4}),),
    ("wer",),
    True,
)
BY_FILE = Progress(4, 9, {"val_loss": 0.6})

# what versions before this one stored
EARLIER = {
    "epoch": 3, "epochs": 9, "metrics": {"loss": 0.5}, "best_epoch": 2, "best_metric": "loss",
    "best_value": 0.4,
    "eta_seconds": None, "history": [{"epoch": 2, "metrics": {"loss": 0.4}}], "not_finite": ["wer"],
    "counts_from_zero": True, "attempt": 1, "cursor": "120", "rest": b"epoch 4".hex(),
    "as_of": "2026-11-22T12:00:00.000Z",
    "whole": False, "pace": [[1, 5.0], [3, 9.0]], "status_file": {"path": "", "offset": 0},
}  # fmt: skip


@pytest.mark.parametrize(
    "reading",
    [
        LogReading(),
        LogReading(
            BY_LOG, Progress(), 3, 1, "120", b"epoch 4 \xff", NOON, False, Pace((1, 5.0), (3, 9.0))
        ),
        LogReading(Progress(), BY_FILE, 4, 2, "7", status_file=FilePlace("/r/status.json", 80)),
    ],
)
def test_a_reading_comes_back_as_it_was_stored(reading: LogReading):
    assert LogReading.from_json(json.loads(json.dumps(reading.to_json()))) == reading


def test_a_job_without_a_status_file_has_its_progress_read_once():
    stored = LogReading(BY_LOG, as_of=NOON).to_json()
    first, second = LogReading.from_json(stored), LogReading.from_json(stored)
    assert first.log_progress == BY_LOG
    assert first.file_progress is second.file_progress


def test_a_reading_that_an_earlier_version_stored_goes_on():
    assert LogReading.from_json(EARLIER) == LogReading(
        BY_LOG, Progress(), 3, 1, "120", b"epoch 4", NOON, False, Pace((1, 5.0), (3, 9.0))
    )


def test_what_an_earlier_version_read_of_a_status_file_is_still_shown():
    reading = LogReading.from_json(
        {**EARLIER, "status_file": {"path": "/r/status.json", "offset": 80}}
    )
    assert reading.progress == replace(BY_LOG, as_of=NOON)
    assert reading.log_progress == Progress()


def test_the_log_is_believed_before_the_status_file_once_it_names_an_epoch():
    assert LogReading(Progress(0, metrics={"loss": 2.0}), BY_FILE).progress == BY_FILE
    assert LogReading(BY_LOG, BY_FILE).progress == BY_LOG


def test_the_progress_of_a_job_has_the_estimated_time_left_and_the_stored_one_has_not():
    reading = LogReading(Progress(4, 9), pace=Pace((2, 0.0), (4, NOON.timestamp())), as_of=NOON)
    job = Job("digits-a1", "digits", "local", Status.RUNNING, reading=reading)
    assert job.progress.eta_seconds == pytest.approx(NOON.timestamp() / 2 * 5, abs=0.1)
    assert job.progress.as_of == NOON
    assert "eta_seconds" in job.to_json()["progress"]
    assert job.reading.to_json()["eta_seconds"] is None


@pytest.mark.parametrize("told", [None, 13.0], ids=["estimated", "told by the job"])
def test_a_job_has_no_time_left_once_its_next_epoch_is_overdue(told):
    began = NOON.timestamp()
    pace = Pace((1, began), (3, began + 60))  # 30 s an epoch

    def time_left(seconds):
        reading = LogReading(
            Progress(3, 10, eta_seconds=told), pace=pace, as_of=NOON + timedelta(seconds=seconds)
        )
        return Job("digits-a1", "digits", "local", Status.RUNNING, reading=reading).progress

    assert time_left(60 + 30).eta_seconds
    assert time_left(60 + 61).eta_seconds is None
    assert time_left(60 + 61).to_json()["eta_seconds"] is None


@pytest.mark.parametrize(("seconds", "silent"), [(90, None), (121, 61)])
def test_a_job_tells_for_how_long_it_is_silent_once_its_next_epoch_is_overdue(seconds, silent):
    began = NOON.timestamp()
    pace = Pace((1, began), (3, began + 60))
    as_of = NOON + timedelta(seconds=seconds)
    reading = LogReading(Progress(3, 10), pace=pace, as_of=as_of)
    job = Job("digits-a1", "digits", "local", Status.RUNNING, reading=reading)
    assert job.silent_seconds == silent


def test_a_pause_of_a_few_seconds_between_short_epochs_does_not_hide_the_time_left():
    assert not Pace((1, 0.0), (101, 10.0)).is_overdue(None, 15.0)
    assert Pace((1, 0.0), (101, 10.0)).is_overdue(None, 21.0)
