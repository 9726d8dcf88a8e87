"""The job of a trial: how values go into it."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tao_automl.template import Rung, with_checkpoint, with_epochs, with_params
from tao_sdk.model.spec import JobSpec


def test_what_stands_in_a_value_is_no_placeholder_of_the_command() -> None:
    spec = JobSpec(command="printf '%s|' {a} {b}")
    values = {"{a}": "x {b}", "{b}": "; echo taken"}
    command = with_params(spec, values).command
    run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert run.stdout == "x {b}|; echo taken|"


@pytest.mark.parametrize(
    ("interval", "epochs", "expected"),
    [
        (1, 9, 1),
        (10, 9, 1),
        (2, 6, 2),
        (6, 9, 3),
        (9, 27, 9),
        (27, 9, 9),
        (0, 9, 0),
        (None, 9, None),
    ],
)
def test_the_last_epoch_of_a_rung_has_a_checkpoint_and_a_validation(
    interval: int | None, epochs: int, expected: int | None
) -> None:
    train = {"num_epochs": 100, "checkpoint_interval": interval, "validation_interval": interval}
    spec = with_epochs(JobSpec(command="true", specs={"train": train}), "train.num_epochs", epochs)
    assert spec.specs is not None
    assert spec.specs["train"] == {
        "num_epochs": epochs, "checkpoint_interval": expected, "validation_interval": expected,
    }  # fmt: skip
    same = with_epochs(JobSpec(command="true", specs={"train": train}), "train.num_epochs", None)
    assert same.specs == {"train": train}


KEY = "train.resume_training_checkpoint_path"


@pytest.mark.parametrize(
    ("switch", "expected"),
    [({"resume": False}, {"resume": True}), ({"resume": True}, {"resume": True}),
     ({"resume": ""}, {"resume": ""}), ({}, {})],
)  # fmt: skip
def test_a_switch_beside_the_resume_key_is_turned_on_with_it(switch: Any, expected: Any) -> None:
    """Some networks need both; a `train.resume` that is a path is left alone."""
    train = {"resume_training_checkpoint_path": None, **switch}
    rung = Rung(1, 3, "/results/model_epoch_002.pth")
    spec = with_checkpoint(JobSpec(command="true", specs={"train": train}), KEY, rung)
    assert spec.specs is not None
    assert spec.specs["train"] == {
        "resume_training_checkpoint_path": "/results/model_epoch_002.pth", **expected,
    }  # fmt: skip
    assert spec.inputs == {KEY: {"type": "file"}}
    anew = with_checkpoint(JobSpec(command="true", specs={"train": train}), KEY, Rung())
    assert anew.specs == {"train": train}
