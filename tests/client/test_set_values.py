"""`--set KEY=VALUE`: where a key leads, and what is said where it leads nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from tao_sdk.client.set_values import with_values
from tao_sdk.model.errors import SpecError, UsageError
from tao_sdk.model.spec import JobSpec

SPECS: dict[str, Any] = {
    "train": {"lr": 0.01, "epochs": 3, "optim": {"name": "sgd"}, "steps": [1, 2]},
    "seed": 1,
    "eval": None,
    "model": {"learning_rate": 0.1, "wd": 0},
}


def set_in_specs(*typed: str) -> Any:
    return with_values(JobSpec(command="x", specs=SPECS), typed).spec.specs


@pytest.mark.parametrize(
    ("typed", "value"),
    [("0.1", 0.1), ("1e-05", 1e-05), ("yes", True), ("null", None), ("", None), ("a b", "a b"), ("'7'", "7"),
     ("[1, 2]", [1, 2]), ("a=b", "a=b"), ("x#y", "x#y")],
)  # fmt: skip
def test_a_value_is_read_as_in_yaml(typed: str, value: object) -> None:
    assert set_in_specs(f"train.optim.name={typed}")["train"]["optim"]["name"] == value


@pytest.mark.parametrize(
    ("typed", "number"), [("train.lr=abc", "0.01"), ("seed=a b", "1"), ("model.wd=''", "0")]
)
def test_a_text_in_the_place_of_a_number_is_refused_with_that_number(
    typed: str, number: str
) -> None:
    with pytest.raises(UsageError, match="is a text") as refused:
        set_in_specs(typed)
    assert refused.value.why == f"{number} stood there."


@pytest.mark.parametrize(
    ("typed", "value"),
    [("null", None), ("true", True), ("'7'", "7"), ("${train.base_lr}", "${train.base_lr}"),
     ("[0.1, 0.2]", [0.1, 0.2])],
)  # fmt: skip
def test_what_can_become_a_number_or_is_no_text_takes_its_place(typed: str, value: object) -> None:
    assert set_in_specs(f"train.lr={typed}")["train"]["lr"] == value


def test_a_text_takes_the_place_of_what_is_no_number() -> None:
    assert set_in_specs("eval=all")["eval"] == "all"
    assert set_in_specs("train.steps=all")["train"]["steps"] == "all"
    with_flag = with_values(JobSpec(command="x", args={"amp": True}), ["amp=auto"])
    assert with_flag.spec.args == {"amp": "auto"}


def test_numbers_with_commas_in_the_place_of_a_number_are_refused_with_what_to_write() -> None:
    with pytest.raises(UsageError, match="is a text") as refused:
        set_in_specs("train.lr=0.1,0.2")
    assert "--set 'train.lr=[0.1, 0.2]'" in refused.value.next
    assert "for value in" in refused.value.next


def test_everything_else_stays_and_the_last_of_several_wins() -> None:
    changed = set_in_specs("train.lr=1", "seed=2", "train.lr=3", "train.optim={name: adam}")
    assert changed == {
        **SPECS,
        "train": {**SPECS["train"], "lr": 3, "optim": {"name": "adam"}},
        "seed": 2,
    }
    assert SPECS["train"]["lr"] == 0.01


def test_a_key_that_is_new_below_a_mapping_is_added_with_a_note() -> None:
    done = with_values(
        JobSpec(command="x", specs=SPECS), ["train.warmup.ratio=0.1", "eval.batch=2"]
    )
    assert done.spec.specs["train"]["warmup"] == {"ratio": 0.1}  # pyright: ignore[reportOptionalSubscript]
    assert done.spec.specs["eval"] == {"batch": 2}  # pyright: ignore[reportOptionalSubscript]
    assert done.notes == (
        "train.warmup.ratio is new: train had no warmup.",
        "eval.batch is new: eval had no batch.",
    )


def test_the_note_of_a_new_key_names_the_one_further_below() -> None:
    done = with_values(JobSpec(command="x", specs={"train": {"optim": {"lr": 1}}}), ["train.lr=2"])
    assert done.notes == (
        "train.lr is new: train had no lr. There is train.optim.lr, which stays as it was.",
    )


def test_a_key_that_only_begins_like_another_is_new() -> None:
    done = with_values(
        JobSpec(command="x", specs={"optim": {"lr_scheduler": "cosine"}}), ["optim.lr=2"]
    )
    assert done.spec.specs == {"optim": {"lr_scheduler": "cosine", "lr": 2}}


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("trian.lr=1", "Did you mean train.lr?"),
        ("train.epoch=1", "Did you mean train.epochs?"),
        ("lr=1", "Did you mean train.lr?"),
        ("optim.name=x", "Did you mean train.optim.name?"),
        ("model.lr=1", "Did you mean model.learning_rate?"),
        ("model.lr.warmup=1", "Did you mean model.learning_rate.warmup?"),
        ("model.weight_decay=1", "Did you mean model.wd?"),
        ("model.rate=1", "Did you mean model.learning_rate?"),
        ("nothing.like.it=1", "Known are: train, seed, eval, model."),
        ("train=1", "it is a mapping"),
        ("train.lr.x=1", "train.lr is a number"),
        ("train.steps.0=1", "train.steps is a list"),
        ("train..lr=1", "a part of the key is empty"),
        ("train.lr", "it must be KEY=VALUE"),
        ("=1", "it must be KEY=VALUE"),
        ("train.lr=[", "this is not YAML"),
        ("train.lr=.nan", "not a finite number"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can(typed: str, told: str) -> None:
    with pytest.raises((UsageError, SpecError), match=told.replace("?", r"\?")):
        set_in_specs(typed)


def test_args_are_set_by_name() -> None:
    done = with_values(
        JobSpec(command="x", args={"lr": 1, "data.path": "a"}), ["lr=2", "data.path=b"]
    )
    assert done.spec.args == {"lr": 2, "data.path": "b"}
    with pytest.raises(UsageError, match="Known are: lr"):
        with_values(JobSpec(command="x", args={"lr": 1}), ["momentum=2"])


def test_a_job_without_specs_and_args_has_nothing_to_set() -> None:
    with pytest.raises(UsageError, match="neither") as told:
        with_values(JobSpec(command="x"), ["lr=3 4"])
    assert "--args 'lr=3 4'" in told.value.next


def test_numbers_with_commas_are_one_text_and_the_note_says_what_to_write_instead() -> None:
    job = JobSpec(command="x", args={"lr": None, "names": "a"})
    done = with_values(job, ["lr=0.1,0.2", "names=a,b"])
    assert done.spec.args == {"lr": "0.1,0.2", "names": "a,b"}
    assert len(done.notes) == 1
    assert "lr is the one text '0.1,0.2'" in done.notes[0]
    assert "--set 'lr=[0.1, 0.2]'" in done.notes[0]
    assert "for value in" in done.notes[0]
    assert with_values(job, ["lr=[0.1, 0.2]"]).notes == ()
