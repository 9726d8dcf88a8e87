"""A spec against the schema of its action."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tao_sdk.model.errors import SpecError
from tao_sdk.model.settings import Settings
from tao_sdk.skills.errors import SkillError
from tao_sdk.skills.model_job import ModelChoices, prepare_model_job
from tao_sdk.skills.names import load_named
from tao_sdk.skills.schema import check_spec

from .conftest import GOOD, MakeBank

SCHEMA = {
    "type": "object",
    "properties": {
        "epochs": {"type": "int", "minimum": 1, "maximum": "inf"},
        "lr": {"type": "float", "minimum": 0, "maximum": 1.0},
        "fast": {"type": "bool"},
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "slow": {"type": "string", "pattern": "^(a+)+$"},
        "kind": {"type": "categorical", "enum": ["adam", "sgd"]},
        "sizes": {"type": "list_2"},
        "model": {"type": "collection", "properties": {"depth": {"type": "ordered_int"}}},
        "odd": ["not", "a", "schema"],
        "port": {"type": "int", "minimum": 49152, "default": 18888},
        "loss": {"type": "categorical", "enum": ["mse", "cross_entropy"], "default": "KL"},
        "workers": {"type": "int", "minimum": 2, "default": True},
    },
}


@pytest.mark.parametrize(
    "spec",
    [
        {"epochs": 10**9, "lr": 0.5, "fast": True, "name": "abc", "kind": "sgd", "sizes": [1, 2]},
        {"epochs": 3.0, "lr": 1, "model": {"depth": 3}, "odd": 1},
        {"epochs": None, "name": "", "model": {}},
        {"port": 18888, "loss": "KL"},  # its own defaults, outside of its own limits
    ],
)
def test_a_spec_that_fits_has_no_mistakes(spec: dict[str, Any]) -> None:
    checked = check_spec(SCHEMA, spec)
    assert (checked.errors, checked.warnings) == ([], [])


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"epochs": "ten"}, "epochs is 'ten'; it must be a whole number"),
        ({"epochs": True}, "epochs is True; it must be a whole number"),
        ({"epochs": 1.5}, "epochs is 1.5; it must be a whole number"),
        ({"epochs": 0}, "epochs is 0, below 1"),
        ({"lr": 2}, "lr is 2, above 1"),
        ({"lr": float("nan")}, "lr is nan; it must be a number"),
        ({"fast": 1}, "fast is 1; it must be true or false"),
        ({"name": "A1"}, "It must match ^[a-z]+$"),
        ({"kind": "adma"}, "It must be one of adam, sgd"),
        ({"sizes": 3}, "sizes is 3; it must be a list"),
        ({"model": {"depht": 3}}, "Did you mean model.depth?"),
        ({"port": 18887}, "port is 18887, below 49152"),
        ({"workers": 1}, "workers is 1, below 2"),
        ({"model": {"depth": "x"}}, "model.depth is 'x'"),
    ],
)
def test_a_value_that_the_schema_does_not_allow_is_told(spec: dict[str, Any], words: str) -> None:
    (mistake,) = check_spec(SCHEMA, spec).errors
    assert words in str(mistake)


def test_a_value_that_is_still_open_is_no_mistake() -> None:
    assert check_spec(SCHEMA, {"epochs": "???", "model": {"depth": "???"}}).errors == []


def test_a_new_key_is_a_warning() -> None:
    checked = check_spec(SCHEMA, {"brand_new": 1, "model": {"other": 1}})
    assert checked.errors == []
    assert checked.warnings == [
        "brand_new is not in the schema.",
        "model.other is not in the schema.",
    ]


def test_a_pattern_that_would_search_for_years_is_not_searched() -> None:
    assert check_spec(SCHEMA, {"slow": "a" * 60 + "!"}).errors == []


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"properties": {"a": {"type": [1]}}}])
def test_a_schema_that_says_nothing_allows_everything(schema: dict[str, Any]) -> None:
    assert check_spec(schema, {"a": 1, "b": {"c": 1}}).errors == []


def test_a_job_of_a_model_is_checked_against_the_schema_of_its_action(
    make_bank: MakeBank, settings: Settings
) -> None:
    files = {
        "tao-train-toy/references/skill_info.yaml": GOOD,
        "tao-train-toy/schemas/train.schema.json": json.dumps(SCHEMA),
    }
    bank = make_bank(files)
    skill = load_named(bank, "toy")
    needed = {"dataset.sources[0].image_dir": "/data/images"}
    job = prepare_model_job(
        bank, skill, "train", ModelChoices(values={**needed, "epochs": 3}), settings
    )
    assert job.warnings == ("dataset is not in the schema.",)
    wanted = ModelChoices(values={**needed, "epochs": 0, "lr": 7})
    with pytest.raises(SpecError, match=r"epochs is 0, below 1\..*lr is 7, above 1"):
        prepare_model_job(bank, skill, "train", wanted, settings)


def test_a_schema_that_is_no_mapping_is_an_error_with_its_file(
    make_bank: MakeBank, settings: Settings
) -> None:
    path = "tao-train-toy/schemas/train.schema.json"
    bank = make_bank({"tao-train-toy/references/skill_info.yaml": GOOD, path: "[]"})
    wanted = ModelChoices(values={"dataset.sources[0].image_dir": "/data/images"})
    with pytest.raises(SkillError, match=f"{path}.*a schema is a mapping; this is a list"):
        prepare_model_job(bank, load_named(bank, "toy"), "train", wanted, settings)
