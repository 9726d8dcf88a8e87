"""The pages of the packaged skill bank, which agents read: their blocks run in an installed bank,
and what they point to is there.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clone import Clone, assert_printed, fresh_clone
from support.pages import BANK, BANK_PAGES, PYTHON, ROOT, SHELL, SHOWN, Block, blocks, links
from tao_sdk.cli.verbs import VERBS
from tao_sdk.model.credentials import KNOWN_NAMES
from tao_sdk.model.settings import Settings
from tao_sdk.skills.installing import install_bank

MOST_LINES = 120
JOB = "command: echo hello\ngpu_count: 0\n"  # the user's own job file
MACHINE = "it depends on the machine; tests/skills runs it in the root of another"
DAEMON = "it needs a daemon; tests/backends/docker runs such jobs on one"
CLUSTER = "it needs a cluster; tests/backends runs such jobs on one"
ANOTHER_MACHINE = "it needs a machine of the user's"
# page -> beginning of a block ("" for every block) -> why it is parsed, and not run
NOT_RUN = {
    "tao-setup-nvidia-gpu-host/SKILL.md": {"": MACHINE},
    "tao-run-on-local-docker/SKILL.md": {"": DAEMON},
    "tao-run-on-kubernetes/SKILL.md": {"": CLUSTER},
    "tao-run-on-slurm/SKILL.md": {"": CLUSTER},
    "tao-run-on-slurm/references/ssh-setup.md": {"": CLUSTER},
    "tao-run-on-slurm/references/slurm-storage.md": {"": CLUSTER},
    "tao-run-on-brev/SKILL.md": {"export DOCKER_HOST": ANOTHER_MACHINE},
    "tao-run-on-lepton/SKILL.md": {"": CLUSTER},
    "tao-train-digits/SKILL.md": {"tao run --model digits --action train --platform": DAEMON},
}
ALL = [(page, block) for page in BANK_PAGES for block in blocks(page)]
RUNNABLE = [(page, block) for page, block in ALL if block.runnable]


def name_of(page: Path) -> str:
    """The page below its group, such as tao-run-on-slurm/references/ssh-setup.md."""
    return page.relative_to(BANK / "skills").as_posix().split("/", 1)[1]


def why_not_run(page: Path, block: Block) -> str:
    reasons = NOT_RUN.get(name_of(page), {})
    return next((why for begin, why in reasons.items() if block.text.startswith(begin)), "")


def is_run(page: Path) -> bool:
    return any(block.runnable and not why_not_run(page, block) for block in blocks(page))


# Blocks


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed") / "bank"
    return install_bank(folder, Settings({"HOME": "/nowhere"})).folder


@pytest.fixture
def user(tmp_path: Path, bank: Path) -> Iterator[Clone]:
    """The surroundings of an agent: a folder with a job file, and an installed bank."""
    with fresh_clone(tmp_path) as clone:
        clone.environ["TAO_SKILL_BANK_PATH"] = str(bank)
        (clone.folder / "job.yaml").write_text(JOB)
        yield clone


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in BANK_PAGES if is_run(page)], ids=name_of)
def test_a_page_of_the_bank_does_what_it_says(page: Path, user: Clone, bank: Path) -> None:
    printed = ""
    for block in blocks(bank / page.relative_to(BANK)):
        where = f"{name_of(page)}:{block.line}"
        if block.printed:
            assert_printed(block.text, printed, where)
        elif block.runnable and not why_not_run(page, block):
            ran = user.run(block)
            printed = ran.stdout
            assert ran.returncode == 0, f"{where} ended with {ran.returncode}:\n{printed}"


def test_every_block_can_be_read_and_every_reason_is_of_one() -> None:
    used = {name: set[str]() for name in NOT_RUN}
    for page, block in ALL:
        where = f"{name_of(page)}:{block.line}"
        assert block.language in SHELL | PYTHON | SHOWN, where
        if block.language in SHELL:
            read = subprocess.run(["bash", "-n", "-c", block.text], capture_output=True, text=True)
            assert read.returncode == 0, f"{where}: {read.stderr}"
        elif block.language in PYTHON:
            ast.parse(block.text)
        begins = NOT_RUN.get(name_of(page), {})
        used[name_of(page)] = used.get(name_of(page), set()) | {
            begin for begin in begins if block.text.startswith(begin)
        }
    assert {name: used[name] for name in NOT_RUN} == {name: set(NOT_RUN[name]) for name in NOT_RUN}


def test_what_a_block_exports_is_read_by_this_package() -> None:
    known = {*KNOWN_NAMES, "SSH_AUTH_SOCK", "KUBECONFIG", "PATH"}
    for page, block in RUNNABLE:
        for line in re.findall(r"^export (.+)", block.text, re.MULTILINE):
            names = set(re.findall(r"(?:^| )(\w+)=", line))
            assert names and names <= known, f"{name_of(page)}:{block.line}: {line}"


def test_a_script_that_a_page_calls_lies_beside_it_and_has_these_flags() -> None:
    calls = {
        (page.parent, script, flags)
        for page in BANK_PAGES
        for script, flags in re.findall(r"\bbash (scripts/\S+)([^`\n]*)", page.read_text())
    }
    assert calls
    for folder, script, flags in calls:
        shown = subprocess.run(["bash", folder / script, "--help"], capture_output=True, text=True)
        assert shown.returncode == 0
        assert not set(re.findall(r"--[a-z-]+", flags)) - set(
            re.findall(r"--[a-z-]+", shown.stdout)
        )


# Words


def test_a_page_is_short() -> None:
    for page in BANK_PAGES:
        assert page.name == "SKILL.md" or len(page.read_text().splitlines()) <= MOST_LINES, page


def test_the_page_of_automl_names_its_verb() -> None:
    text = (BANK / "skills/applications/tao-run-automl/SKILL.md").read_text()
    assert "automl" in VERBS
    assert "tao automl run" in text
    assert "not in this version" not in text


# Pointers


def test_what_a_page_points_to_is_in_its_skill_or_beside_it() -> None:
    """An agent gets the folders of skills side by side, and nothing else of the bank."""
    for page in BANK_PAGES:
        skills = next(parent for parent in page.parents if (parent / "SKILL.md").exists()).parent
        for line, target in links(page):
            there = (page.parent / target).resolve()
            is_there = there.is_file() and there.is_relative_to(skills)
            assert is_there, f"{name_of(page)}:{line}: {target}"


def test_every_page_beside_a_text_is_pointed_to() -> None:
    pointed = {(page.parent / target).resolve() for page in BANK_PAGES for _, target in links(page)}
    assert not [
        name_of(page) for page in BANK_PAGES if page.name != "SKILL.md" and page not in pointed
    ]


def test_a_skill_that_a_page_names_is_in_the_bank() -> None:
    there = {path.parent.name for path in BANK_PAGES if path.name == "SKILL.md"}
    for page in BANK_PAGES:
        named = set(re.findall(r"\btao-(?:run|setup|launch)-[a-z-]*[a-z]", page.read_text()))
        assert named <= there, name_of(page)


def test_a_page_that_an_error_or_a_document_names_is_there() -> None:
    """`SKILL.md` is any skill's."""
    named = {
        (path, name)
        for path in sorted((ROOT / "src").rglob("*.py"))
        if ".md" in path.read_text(encoding="utf-8")
        for text in texts_of(path)
        for name in re.findall(r"[\w.-][\w./-]*\.md\b", text)
    }
    lost = [each for each in named if each[1] != "SKILL.md" and not (ROOT / each[1]).is_file()]
    assert not lost
    document = (ROOT / "tests/documents/slurm/ssh.sh").read_text()
    [page] = re.findall(r"references/\S+\.md", document)
    assert (BANK / "skills/platform/tao-run-on-slurm" / page).is_file()


def texts_of(path: Path) -> Iterator[str]:
    """The texts of a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
