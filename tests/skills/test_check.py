"""What a check of a whole bank finds."""

from __future__ import annotations

import pytest

from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.settings import Settings
from tao_sdk.skills.check import check_bank, has_errors
from tao_sdk.skills.errors import SkillError
from tao_sdk.skills.names import load_named, summaries

from .conftest import GOOD, MakeBank

A, B = "tao-train-a/references/skill_info.yaml", "tao-train-b/references/skill_info.yaml"


def one(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def test_a_bank_in_which_all_is_well_has_no_findings(
    make_bank: MakeBank, settings: Settings
) -> None:
    assert check_bank(make_bank({A: GOOD}), settings) == (1, [])


def test_one_bad_file_is_told_and_the_others_are_checked(
    make_bank: MakeBank, settings: Settings
) -> None:
    bad = GOOD.replace("mode: config", "mode: x").replace("toy", "bad")
    bank = make_bank({A: bad, B: GOOD}, "images: {tao_toolkit: {toy: a/b, bad: c/d}}\n")
    count, findings = check_bank(bank, settings)
    assert (count, has_errors(findings)) == (2, True)
    assert f"{bank.skills / A}:6:5: actions.train.mode is 'x'" in one(findings).what


def test_a_template_and_a_schema_that_cannot_be_read_are_told(
    make_bank: MakeBank, settings: Settings
) -> None:
    files = {
        A: GOOD + "spec_templates: {train: a.yaml, evaluate: b.yaml}\n",
        "tao-train-a/references/a.yaml": "- 1\n",
        "tao-train-a/schemas/train.schema.json": '{"maximum": NaN}',
        "tao-train-a/schemas/good.schema.json": '{"maximum": "inf"}',
    }
    _, findings = check_bank(make_bank(files), settings)
    told = "\n".join(finding.what for finding in findings)
    assert "a.yaml: a template is a mapping; this is a list" in told
    assert "there is no template b.yaml" in told
    assert "train.schema.json: NaN is not a finite number" in told
    assert len(findings) == 3


def test_a_file_for_jobs_that_cannot_be_read_is_told(
    make_bank: MakeBank, settings: Settings
) -> None:
    bank = make_bank({A: GOOD + "files: {a: ../../../../secret, b: gone.py}\n"})
    _, findings = check_bank(bank, settings)
    outside, gone = (finding.what for finding in findings)
    assert "this leads out of the skill bank" in outside
    assert "gone.py: cannot be read: No such file" in gone


def test_a_folder_that_was_half_copied_is_told(make_bank: MakeBank, settings: Settings) -> None:
    bank = make_bank({A: GOOD, "tao-train-b/references/notes.txt": ""})
    _, findings = check_bank(bank, settings)
    assert "tao-train-b has neither SKILL.md nor references/skill_info.yaml" in one(findings).what
    with pytest.raises(SkillError, match="tao-train-b: this has neither SKILL.md") as told:
        load_named(bank, "b")
    assert told.value.next == "Copy the bank again, whole."
    problems = [each.problem for each in summaries(bank)]
    assert (problems[0], "has neither SKILL.md" in problems[1]) == ("", True)


def test_a_bank_without_a_skill_is_told(make_bank: MakeBank, settings: Settings) -> None:
    count, findings = check_bank(make_bank({}), settings)
    assert (count, one(findings).code) == (0, "skill_bank.empty")


@pytest.mark.parametrize(
    ("first", "second", "severity"),
    [
        ("name: a\nnetwork_arch: same\n", "name: b\nnetwork_arch: same\n", Severity.WARNING),
        ("name: a\naliases: [Same]\n", "name: b\naliases: [same]\n", Severity.ERROR),
        ("name: same\n", "name: same\n", Severity.ERROR),
        ("name: a\n", "name: tao-train-a\n", Severity.ERROR),
    ],
)
def test_two_skills_under_one_name_are_told(
    make_bank: MakeBank, settings: Settings, first: str, second: str, severity: Severity
) -> None:
    _, findings = check_bank(make_bank({A: first, B: second}), settings)
    finding = one(findings)
    assert finding.severity is severity
    assert "means 2 skills" in finding.what
    assert A in finding.why and B in finding.why


def test_an_image_key_that_stands_for_nothing_is_told_once(
    make_bank: MakeBank, settings: Settings
) -> None:
    bank = make_bank({A: "name: a\ncontainer_image: x.y\n", B: "name: b\ncontainer_image: x.y\n"})
    _, findings = check_bank(bank, settings)
    assert one(findings).what == f"{bank.root / 'versions.yaml'} has no image x.y."
    assert one(findings).why == "Skills that need it: a, b."


def test_a_bank_without_a_list_of_images_is_told(make_bank: MakeBank, settings: Settings) -> None:
    bank = make_bank({A: GOOD})
    (bank.root / "versions.yaml").unlink()
    _, findings = check_bank(bank, settings)
    assert "has no versions.yaml" in one(findings).what
    assert not has_errors(findings)


def test_a_folder_whose_name_cannot_be_typed_is_told_without_its_control_characters(
    make_bank: MakeBank, settings: Settings
) -> None:
    bank = make_bank({A: GOOD, "x\x1b[2J/SKILL.md": ""})
    count, findings = check_bank(bank, settings)
    assert (count, one(findings).code) == (1, "skill.name")
    assert "\x1b" not in one(findings).text


def test_folders_that_are_linked_in_a_circle_end(make_bank: MakeBank, settings: Settings) -> None:
    bank = make_bank({A: GOOD})
    (bank.skills / "loop").symlink_to(bank.skills)
    (bank.skills / "self").symlink_to(bank.skills / "self")
    count, _ = check_bank(bank, settings)
    assert count == 2


def test_a_list_of_models_that_does_not_fit_their_files_is_told(
    make_bank: MakeBank, settings: Settings
) -> None:
    listed = '{"models": {"tao-train-a": {"actions": ["train", "prune"]}, "x": [], "y": {}}}'
    files = {f"models/{A}": GOOD, "models/schemas.manifest.json": listed}
    _, findings = check_bank(make_bank(files), settings)
    assert "lists prune of tao-train-a" in one(findings).what
    _, findings = check_bank(make_bank({"models/schemas.manifest.json": "[]"}), settings)
    assert "a list of models is a mapping" in one(findings).what
