"""Keys that a user sets where the bank has no schema: a mistyped one is told, a new one is taken."""

from __future__ import annotations

import pytest

from tao_sdk.model.errors import SpecError
from tao_sdk.model.settings import Settings
from tao_sdk.skills.bank import PACKAGED, Bank
from tao_sdk.skills.known_keys import is_near
from tao_sdk.skills.model_job import ModelChoices, ModelJob, prepare_model_job
from tao_sdk.skills.names import load_named

BANK = Bank(PACKAGED, "this package")
DATA = {"train": "s3://b/train"}


def segformer(**values: int) -> ModelJob:
    skill = load_named(BANK, "segformer")
    return prepare_model_job(
        BANK, skill, "train", ModelChoices(DATA, values), Settings({"HOME": "/nowhere"})
    )


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("train.num_epoch", "train.num_epochs"),
        ("trian.num_epochs", "train.num_epochs"),
        ("train.numgpus", "train.num_gpus"),
        ("dataset.segment.rootdir", "dataset.segment.root_dir"),
    ],
)
def test_a_key_that_is_nearly_one_of_the_skill_is_an_error(key: str, meant: str) -> None:
    with pytest.raises(SpecError, match=f"Did you mean {meant}?") as told:
        segformer(**{key: 3})
    assert told.value.field == f"set.{key}"


def test_new_keys_are_one_warning_and_known_ones_none() -> None:
    job = segformer(**{"bogus.key": 1, "train.optim.momentum": 2})
    assert job.spec.specs is not None
    assert job.spec.specs["bogus"] == {"key": 1}
    (warning,) = job.warnings
    assert warning.startswith("bogus.key, train.optim.momentum: not among the keys")
    assert segformer(**{"num_epochs": 3, "train.num_gpus": 2, "train.gpu_ids": 2}).warnings == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [("train_data", "test_data"), ("val_data_sources", "train_data_sources"), ("lr", "lr_drop")],
)
def test_names_that_differ_in_a_word_are_two_names(one: str, other: str) -> None:
    assert not is_near(one, other)
