"""What is known of a running job, taken from recorded bytes: no job runs here, and nothing is
drawn.
"""

from __future__ import annotations

import json
from dataclasses import replace

from tao_sdk.client.scene import Scene
from tao_sdk.model.job import Job
from tao_sdk.model.log_reading import LogReading
from tao_sdk.model.progress import Progress
from tao_sdk.model.status import Status

DIGITS = Job(
    id="digits-7f3k2q9d1x", name="digits", platform="local", status=Status.RUNNING,
    spec={"inputs": {"/data": "s3://b/x"}},
)  # fmt: skip


def event(name: str, **facts: object) -> bytes:
    return b"@tao " + json.dumps({"event": name, "time": 1.0, **facts}).encode() + b"\n"


def test_a_scene_knows_the_stages_that_have_work_and_their_sizes() -> None:
    scene = Scene(DIGITS)
    scene.take_log(event("stage", stage="files") + event("stage", stage="inputs"))
    assert scene.stages == {"inputs": ""}
    scene.take_log(event("fetched", what="inputs", bytes=300_000) + event("stage", stage="command"))
    assert (scene.stages, scene.stage) == ({"inputs": "0.3 MB", "command": ""}, "command")


def test_a_scene_keeps_the_end_of_the_log_without_events_and_escape_codes() -> None:
    scene = Scene(DIGITS)
    scene.take_log(event("stage", stage="command") + b"\x1b[31mred\x1b[0m\nhalf")
    assert list(scene.log_tail) == ["red"]
    scene.end_log()
    assert list(scene.log_tail) == ["red", "half"]


def test_a_new_attempt_forgets_the_stages_and_transfers_of_the_last() -> None:
    scene = Scene(DIGITS)
    scene.take_log(event("stage", stage="inputs") + event("transfer", stage="inputs", bytes=1000))
    assert scene.transfers == {"inputs": "1.0 kB"}
    scene.take_job(replace(DIGITS, attempt=2))
    assert (scene.stages, scene.transfers, scene.attempt) == ({}, {}, 2)


def test_a_new_attempt_begins_at_its_own_first_epoch() -> None:
    scene = Scene(DIGITS)
    scene.take_log(b"epoch 3/5 loss 0.6\n")
    scene.take_job(replace(DIGITS, attempt=2, reading=LogReading(Progress(epoch=3), attempt=1)))
    assert scene.progress.epoch == 0
    assert [each.epoch for each in scene.take_log(b"epoch 1/5 loss 0.8\n")] == [1]
    assert scene.progress.epoch == 1


def test_an_epoch_that_only_the_status_file_tells_is_told_once() -> None:
    scene = Scene(DIGITS)
    known = replace(DIGITS, reading=LogReading(file_progress=Progress(epoch=3)))
    assert [progress.epoch for progress in scene.take_job(known)] == [3]
    assert scene.take_job(known) == []


def test_the_lines_of_a_program_that_are_no_progress_are_kept_once() -> None:
    scene = Scene(DIGITS)
    scene.take_log(
        event("stage", stage="command")
        + b"\x1b[33mWARNING: 3 images are broken\x1b[0m\n"
        + b"Epoch 1/3\n"
        + b"10/20 [====>.....] - loss: 0.50\r20/20 [==========] - loss: 0.40 - acc: 0.90\n"
        + b"  5%|5    | 1/20 [00:01<00:19]\r100%|5555| 20/20 [00:20<00:00]\n"
        + b"step 100/200 loss 0.3\n"
        + b"epoch 1/3  loss 0.4\n"
        + b"class  precision  recall\ncat  0.91  0.88\n\nsaved to out/model_1.pt\nhalf a li"
    )
    assert scene.take_own_lines() == [
        "WARNING: 3 images are broken",
        "class  precision  recall",
        "cat  0.91  0.88",
        "saved to out/model_1.pt",
    ]
    assert not scene.has_left_out
    scene.take_log(b"ne\n")
    assert scene.take_own_lines() == ["half a line"]


def test_of_very_many_lines_at_once_the_last_are_kept_and_it_is_known_that_others_are_not() -> None:
    scene = Scene(DIGITS)
    scene.take_log(b"".join(b"noise %d\n" % number for number in range(20_000)))
    lines = scene.take_own_lines()
    assert (len(lines), lines[-1], scene.has_left_out) == (40, "noise 19999", True)
