"""Which skill a word means."""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_sdk.skills import bank_file
from tao_sdk.skills.errors import SkillNotFound
from tao_sdk.skills.names import find_entry, load_named, summaries

from .conftest import GOOD, MakeBank

INFO = "references/skill_info.yaml"
SIDE = "models/tao-train-toy-net/references/tao-deploy-toy-net.skill_info.yaml"


@pytest.fixture
def read_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of a bank that are read from now on."""
    read: list[str] = []
    original = bank_file.read_bank_bytes

    def note(root: Path, path: Path, largest: int = bank_file.LARGEST) -> bytes:
        read.append(str(path.relative_to(root)))
        return original(root, path, largest)

    monkeypatch.setattr(bank_file, "read_bank_bytes", note)
    return read


def sixty(more: dict[str, str] | None = None) -> dict[str, str]:
    files = {
        f"models/tao-train-net{number}/{INFO}": GOOD.replace("toy", f"n{number}")
        for number in range(60)
    }
    return files | (more or {})


@pytest.mark.parametrize("name", ["tao-train-net7", "net7", "NET7"])
def test_a_skill_of_sixty_is_loaded_by_reading_one_file(
    make_bank: MakeBank, read_files: list[str], name: str
) -> None:
    bank = make_bank(sixty())
    assert load_named(bank, name).network_arch == "n7net"
    assert read_files == [f"skills/models/tao-train-net7/{INFO}"]


def test_a_list_of_sixty_skills_reads_each_file_once(
    make_bank: MakeBank, read_files: list[str]
) -> None:
    bank = make_bank(sixty())
    assert len(list(summaries(bank))) == len(read_files) == len(set(read_files)) == 60


def test_a_list_says_what_a_file_says(make_bank: MakeBank) -> None:
    text = GOOD + "aliases: [Toy 1, toy/one]\ntype: data\nnotes: [actions, name]\n"
    (found,) = summaries(make_bank({f"tao-train-toy/{INFO}": text}))
    assert (found.name, found.kind, found.network_arch) == ("toy", "data", "toynet")
    assert (found.actions, found.aliases) == (("train",), ("Toy 1", "toy/one"))
    assert (found.container_image, found.problem) == ("tao_toolkit.toy", "")


@pytest.mark.parametrize("name", ["tao-train-toy-net", "toy-net", "toy_net", "toynet", "Toy One"])
def test_a_skill_has_several_names(make_bank: MakeBank, name: str) -> None:
    text = GOOD + "aliases: [toy one]\n"
    bank = make_bank({f"models/tao-train-toy-net/{INFO}": text, SIDE: GOOD})
    assert find_entry(bank, name).name == "tao-train-toy-net"


@pytest.mark.parametrize("name", ["tao-deploy-toy-net", "toy-net-deploy", "toy_net-deploy"])
def test_the_side_file_of_a_skill_has_names_of_its_own(make_bank: MakeBank, name: str) -> None:
    bank = make_bank({f"models/tao-train-toy-net/{INFO}": GOOD, SIDE: GOOD})
    assert find_entry(bank, name).name == "tao-deploy-toy-net"


def test_a_word_that_means_two_skills_names_both(make_bank: MakeBank) -> None:
    bank = make_bank({f"tao-train-a/{INFO}": GOOD, f"tao-train-b/{INFO}": GOOD})
    with pytest.raises(SkillNotFound, match="several skills: tao-train-a, tao-train-b"):
        load_named(bank, "toynet")


def test_a_folder_that_two_groups_have_means_neither(make_bank: MakeBank) -> None:
    bank = make_bank({f"models/x/{INFO}": GOOD, f"data/x/{INFO}": GOOD})
    with pytest.raises(SkillNotFound, match="several skills"):
        load_named(bank, "x")


def test_an_unknown_name_says_which_is_meant_and_which_bank_was_asked(make_bank: MakeBank) -> None:
    bank = make_bank(sixty())
    with pytest.raises(SkillNotFound, match=r"Did you mean net\d+\?.*tao skills ls") as told:
        load_named(bank, "nett7")
    assert str(bank.root) in told.value.why


@pytest.mark.parametrize(
    "name", ["../../etc", "/etc/passwd", "", ".", "a\0b", "\x1b[2J", "x" * 5000]
)
def test_a_name_is_never_a_path(make_bank: MakeBank, name: str) -> None:
    bank = make_bank({f"tao-train-toy/{INFO}": GOOD})
    with pytest.raises(SkillNotFound) as told:
        load_named(bank, name)
    assert "\x1b" not in str(told.value)


def test_a_skill_of_words_alone_says_where_they_are(make_bank: MakeBank) -> None:
    bank = make_bank({"core/tao-launch/SKILL.md": "---\nname: tao-launch\n---\n"})
    with pytest.raises(SkillNotFound, match="has no skill_info.yaml") as told:
        load_named(bank, "tao-launch")
    assert told.value.next.endswith("tao-launch/SKILL.md")


def test_a_file_that_cannot_be_read_does_not_hide_the_others(make_bank: MakeBank) -> None:
    files = {
        f"tao-train-a/{INFO}": "a: [\n",
        f"tao-train-b/{INFO}": "\t",
        f"tao-train-c/{INFO}": GOOD,
        f"tao-train-d/{INFO}": "- a\n",
    }
    bank = make_bank(files)
    (bank.skills / "tao-train-b" / INFO).write_bytes(b"\xff")
    problems = {each.entry.name: bool(each.problem) for each in summaries(bank)}
    assert problems == dict(zip(problems, (True, True, False, True), strict=True))
    assert load_named(bank, "toynet").name == "toy"
