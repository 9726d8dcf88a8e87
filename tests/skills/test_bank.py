"""Which bank is used, and where its skills are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tao_sdk.model.settings import Settings
from tao_sdk.skills.bank import PACKAGED, choose_bank
from tao_sdk.skills.errors import BankError, BankNotFound
from tao_sdk.skills.images import image_if_known, resolve_bank_image

from .conftest import GOOD, MakeBank

Flat, Grouped = "tao-train-toy/references/skill_info.yaml", "models/tao-train-toy/skill_info.yaml"


def folder_of_bank(path: Path) -> Path:
    (path / "skills").mkdir(parents=True)
    return path


def test_the_bank_that_is_named_is_taken_first(tmp_path: Path, settings: Settings) -> None:
    named, variable = folder_of_bank(tmp_path / "named"), folder_of_bank(tmp_path / "variable")
    usual = folder_of_bank(settings.home / "tao-skills-external")
    around = replace(settings, environ={**settings.environ, "TAO_SKILL_BANK_PATH": str(variable)})
    assert choose_bank(named, around).root == named
    assert choose_bank(None, around).root == variable
    assert choose_bank(None, settings).root == usual


def test_the_packaged_bank_is_taken_where_there_is_no_other(settings: Settings) -> None:
    assert choose_bank(None, settings).root == PACKAGED


@pytest.mark.parametrize("variable", ["/nowhere/bank", "~nobody-of-that-name/bank"])
def test_a_named_bank_that_is_not_there_is_no_reason_to_take_another(
    settings: Settings, variable: str
) -> None:
    around = replace(settings, environ={**settings.environ, "TAO_SKILL_BANK_PATH": variable})
    with pytest.raises(BankNotFound, match="TAO_SKILL_BANK_PATH names it"):
        choose_bank(None, around)


def test_an_empty_usual_folder_is_said_and_not_passed_over(settings: Settings) -> None:
    (settings.home / "tao-skills-external").mkdir()
    with pytest.raises(BankError, match="has no folder skills"):
        choose_bank(None, settings)


def test_naming_the_folder_of_skills_says_which_folder_is_meant(
    tmp_path: Path, settings: Settings
) -> None:
    bank = folder_of_bank(tmp_path / "bank")
    with pytest.raises(BankError, match=f"Name the folder above it: {bank}"):
        choose_bank(bank / "skills", settings)


@pytest.mark.parametrize("path", [Flat, Grouped])
def test_both_layouts_are_read(make_bank: MakeBank, path: str) -> None:
    bank = make_bank({path: GOOD})
    assert [(entry.name, entry.kind) for entry in bank.entries()] == [("tao-train-toy", "model")]


def test_the_group_of_a_skill_says_its_kind(make_bank: MakeBank) -> None:
    bank = make_bank(
        {f"{group}/tao-{group}/SKILL.md": "" for group in ("platform", "data", "core")}
    )
    kinds = {entry.name: entry.kind for entry in bank.entries()}
    assert kinds == {"tao-platform": "platform", "tao-data": "data", "tao-core": "core"}


def test_a_skill_may_be_called_like_a_group(make_bank: MakeBank) -> None:
    bank = make_bank({"data/references/skill_info.yaml": GOOD})
    assert [entry.name for entry in bank.entries()] == ["data"]


def test_a_side_file_is_a_skill_of_its_own(make_bank: MakeBank) -> None:
    side = "tao-train-toy/references/tao-deploy-toy.skill_info.yaml"
    bank = make_bank({Flat: GOOD, side: GOOD})
    assert [(entry.name, entry.is_side) for entry in bank.entries()] == [
        ("tao-train-toy", False),
        ("tao-deploy-toy", True),
    ]


def test_an_image_key_is_read_in_the_banks_own_list(
    make_bank: MakeBank, settings: Settings
) -> None:
    bank = make_bank({Flat: GOOD})
    assert resolve_bank_image(bank, "tao_toolkit.toy", settings) == "registry.example/toy:1"
    assert resolve_bank_image(bank, "ubuntu:22.04", settings) == "ubuntu:22.04"


def test_a_bank_without_a_list_of_images_takes_none_from_another(
    make_bank: MakeBank, settings: Settings
) -> None:
    bank = make_bank({Flat: GOOD})
    (bank.root / "versions.yaml").unlink()
    with pytest.raises(BankError, match=r"has no versions.yaml.*export TAO_VERSIONS_FILE="):
        resolve_bank_image(bank, "tao_toolkit.pyt", settings)
    assert image_if_known(bank, "tao_toolkit.pyt", settings) == ""


def test_a_list_of_images_that_is_named_holds_for_every_bank(
    make_bank: MakeBank, settings: Settings, tmp_path: Path
) -> None:
    own = tmp_path / "versions.yaml"
    own.write_text("images: {tao_toolkit: {toy: own/toy:2}}\n")
    around = replace(settings, environ={**settings.environ, "TAO_VERSIONS_FILE": str(own)})
    assert resolve_bank_image(make_bank({Flat: GOOD}), "tao_toolkit.toy", around) == "own/toy:2"
