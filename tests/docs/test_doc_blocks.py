"""Every block of the documentation does what the page says: run in order, in a folder like a fresh
clone's.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clone import Clone, assert_printed, fresh_clone
from support.dockerd import dockerd_here
from support.pages import PAGES, PYTHON, SHELL, SHOWN, Block, blocks
from tao_sdk.client.job_file import read_job_file


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Clone]:
    with fresh_clone(tmp_path) as clone:
        yield clone


ON_DOCKER = {"docker.md"}
PAGES_TO_RUN = [
    pytest.param(page, id=page.name, marks=[pytest.mark.docker] if page.name in ON_DOCKER else [])
    for page in PAGES
]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES_TO_RUN)
def test_a_page_does_what_it_says(page: Path, clone: Clone) -> None:
    if page.name in ON_DOCKER:
        clone.environ["DOCKER_HOST"] = dockerd_here.daemon().host
    printed = ""
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if block.printed:
            assert_printed(block.text, printed, where)
        elif block.runnable and not block.why_not_run:
            ran = clone.run(block)
            printed = ran.stdout
            assert ran.returncode == 0, (
                f"{where} ended with {ran.returncode}:\n{block.text}---\n{printed}"
            )


ALL = [(page, block) for page in PAGES for block in blocks(page)]


def place(value: object) -> str:
    return (
        value.name
        if isinstance(value, Path)
        else str(value.line)
        if isinstance(value, Block)
        else ""
    )


@pytest.mark.slow
@pytest.mark.parametrize(("page", "block"), ALL, ids=place)
def test_a_block_can_be_read(page: Path, block: Block, tmp_path: Path) -> None:
    """What is not run is at least parsed, and every block names its language."""
    assert block.language in SHELL | PYTHON | SHOWN, (
        f"{page.name}:{block.line} names no language that is known"
    )
    if block.language in PYTHON:
        ast.parse(block.text)
    elif block.language in SHELL:
        checked = subprocess.run(["bash", "-n", "-c", block.text], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
    elif block.language == "yaml":
        import yaml

        for part in yaml.safe_load_all(block.text):
            if isinstance(part, dict) and "inputs" in part:
                (tmp_path / "job.yaml").write_text(
                    yaml.safe_dump({"command": "x", "inputs": part["inputs"]})
                )
                read_job_file(tmp_path / "job.yaml")


def test_a_mark_gives_its_reason() -> None:
    for page in PAGES:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if "not run here" in line and line.startswith("<!--"):
                assert re.fullmatch(r"<!-- not run here: .{8,} -->", line), f"{page.name}:{number}"
