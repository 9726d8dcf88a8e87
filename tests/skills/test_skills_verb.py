"""`tao skills`: what it prints, and its exit codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.tao_command import Ran

from .conftest import GOOD, MakeBank

INFO = "tao-train-toy/references/skill_info.yaml"
Typed = Callable[..., Ran]


def test_the_skills_of_the_packaged_bank_are_listed(typed: Typed) -> None:
    ran = typed("skills")
    assert (ran.code, ran.out) == (0, typed("skills", "ls").out)
    assert "tao-train-dino" in ran.out
    assert "named by this package" in ran.err


def test_skills_of_one_kind_are_listed(typed: Typed) -> None:
    kinds = {
        each["kind"] for each in typed("skills", "--kind", "platform", "--json").json["skills"]
    }
    assert kinds == {"platform"}


def test_a_list_as_json_has_the_bank_and_its_skills(typed: Typed, make_bank: MakeBank) -> None:
    bank = make_bank({INFO: GOOD})
    listed = typed("skills", "ls", "--skill-bank", str(bank.root), "--json").json
    assert listed == {
        "schema": 1,
        "bank": {
            "path": str(bank.root),
            "named_by": "--skill-bank",
            "versions": str(bank.root / "versions.yaml"),
        },
        "skills": [
            {
                "name": "tao-train-toy",
                "kind": "model",
                "network_arch": "toynet",
                "aliases": [],
                "actions": ["train"],
                "container_image": "tao_toolkit.toy",
                "file": str(bank.skills / INFO),
                "problem": "",
            }
        ],
    }


def test_a_skill_is_shown_with_its_image_and_actions(typed: Typed, make_bank: MakeBank) -> None:
    bank = make_bank({INFO: GOOD})
    ran = typed("skills", "show", "toy", "--skill-bank", str(bank.root))
    assert ran.code == 0
    assert "tao_toolkit.toy = registry.example/toy:1" in ran.out
    assert "toynet train -e {config_path}" in ran.out
    assert "train.pretrained (file, optional)" in ran.out


def test_a_skill_as_json_has_all_that_its_file_says(typed: Typed, make_bank: MakeBank) -> None:
    bank = make_bank({INFO: GOOD + "spec_templates: {train: a.yaml}\nautoml_enabled: true\n"})
    skill = typed("skills", "show", "toy", "--json", "--skill-bank", str(bank.root)).json
    assert skill["actions"]["train"]["mode"] == "config"
    assert skill["actions"]["train"]["outputs"] == {
        "results_dir": {"key": "results_dir", "type": "folder", "optional": False}
    }
    assert skill["images"] == {"tao_toolkit.toy": "registry.example/toy:1"}
    assert skill["spec_templates"] == {"train": "a.yaml"}
    assert skill["automl_enabled"] is True


def test_an_image_key_that_stands_for_nothing_is_said(typed: Typed, make_bank: MakeBank) -> None:
    bank = make_bank({INFO: GOOD}, versions="images: {other: {one: a/b}}\n")
    ran = typed("skills", "show", "toy", "--skill-bank", str(bank.root))
    assert "tao_toolkit.toy stands for no image" in ran.out


def test_an_error_as_json_has_file_line_and_key(typed: Typed, make_bank: MakeBank) -> None:
    bank = make_bank({INFO: GOOD.replace("mode: config", "mode: x")})
    error = typed("skills", "show", "toy", "--json", "--skill-bank", str(bank.root)).error
    assert (error["code"], error["key"], error["line"]) == (
        "skill.invalid",
        "actions.train.mode",
        6,
    )
    assert error["file"].endswith(INFO)


def test_a_check_ends_with_2_where_a_skill_cannot_be_used(
    typed: Typed, make_bank: MakeBank
) -> None:
    bank = make_bank({INFO: GOOD})
    good = typed("skills", "check", str(bank.root))
    assert (good.code, good.out) == (0, "1 skill checked: 0 errors, 0 warnings.\n")
    make_bank({INFO: GOOD.replace("    mode: config\n", "")})
    bad = typed("skills", "check", str(bank.root))
    assert bad.code == 2
    assert "1 error, 0 warnings" in bad.out
    assert "invalid metadata of skill toy" in bad.out
    checked = typed("skills", "check", str(bank.root), "--json").json
    assert [each["code"] for each in checked["findings"]] == ["skill.invalid"]


def test_the_bank_is_installed_and_used(typed: Typed, tmp_path: Path) -> None:
    ran = typed("skills", "install", "--for", "claude", "--json")
    home = tmp_path / "own-home"
    assert [each["folder"] for each in ran.json["folders"]] == [
        str(home / "tao-skills-external"),
        str(home / ".claude" / "skills"),
    ]
    assert (home / ".claude/skills/tao-run-on-slurm/SKILL.md").is_file()
    assert "named by ~/tao-skills-external" in typed("skills").err


def test_a_bank_in_another_folder_is_said_how_to_use(typed: Typed, tmp_path: Path) -> None:
    ran = typed("skills", "install", "bank")
    assert f"export TAO_SKILL_BANK_PATH={tmp_path / 'bank'}" in ran.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["show"], "show takes the name of a skill"),
        (["ls", "dino"], "tao skills show dino"),
        (["show", "dinno"], "Did you mean dino?"),
        (["remove"], "task is 'remove'; it must be ls, show, check or install."),
        (["show", "dino", "--kind", "model"], "tao skills ls"),
        (["ls", "--for", "claude"], "tao skills install"),
        (["install", "bank", "--for", "nobody"], "Known are: claude, codex"),
        (["ls", "--skill-bank", "nowhere"], "There is no skill bank at"),
        (["check", "."], "it has no folder skills"),
    ],
)
def test_a_mistake_says_what_to_type_instead(typed: Typed, args: list[str], words: str) -> None:
    ran = typed("skills", *args)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_an_unknown_agent_is_refused_before_anything_is_written(
    typed: Typed, tmp_path: Path
) -> None:
    typed("skills", "install", "bank", "--for", "nobody")
    assert not (tmp_path / "bank").exists()


def test_words_of_a_bank_reach_no_terminal_with_control_characters(
    typed: Typed, make_bank: MakeBank
) -> None:
    bank = make_bank({INFO: 'network_arch: "a\\x1b[2Jb"\nactions: {"\\x1b[1m": {}}\n'})
    for task in (["ls"], ["show", "toy"], ["check"]):
        ran = typed("skills", *task, "--skill-bank", str(bank.root))
        assert "\x1b" not in ran.out + ran.err
