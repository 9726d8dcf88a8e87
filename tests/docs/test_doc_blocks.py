"""Every block of the documentation does what the page says: run in order, in a folder like a fresh
clone's.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.dockerd import dockerd_here
from support.pages import PAGES, PYTHON, ROOT, SHELL, SHOWN, Block, blocks
from tao_sdk import Client
from tao_sdk.client.job_file import read_job_file
from tao_sdk.model.settings import Settings

BLOCK_SECONDS = 60
SECRETS = re.compile(r"KEY|TOKEN|SECRET|PASSWORD")


@dataclass(frozen=True)
class Clone:
    """Where a page is tried out: the examples of a clone, a home and a state
    directory of its own.
    """

    folder: Path
    environ: dict[str, str]

    def run(self, block: Block) -> subprocess.CompletedProcess[str]:
        python = str(Path(self.environ["VIRTUAL_ENV"]) / "bin" / "python")
        command = ["bash", "-euo", "pipefail", "-c"] if block.language in SHELL else [python, "-c"]
        return subprocess.run(
            [*command, block.text],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BLOCK_SECONDS,
        )

    def client(self) -> Client:
        return Client(settings=Settings(self.environ))


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Clone]:
    folder, home = tmp_path / "clone", tmp_path / "home"
    shutil.copytree(ROOT / "examples", folder / "examples")
    do_not_dawdle(folder / "examples" / "digits" / "spec.yaml")
    home.mkdir()
    venv = Path(sys.prefix)
    kept = {name: value for name, value in os.environ.items() if not SECRETS.search(name)}
    kept = {
        name: value
        for name, value in kept.items()
        if not name.startswith(("TAO_", "XDG_", "PYTEST_", "S3_"))
    }
    clone = Clone(
        folder,
        {
            **kept,
            "HOME": str(home),
            "PATH": f"{venv}/bin:{os.environ['PATH']}",
            "VIRTUAL_ENV": str(venv),
            "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
            "COLUMNS": "100",
        },
    )
    yield clone
    with clone.client() as client:
        for job in client.list_jobs():
            client.cancel_job(job.id, grace=1)
            client.remove(job.id)


def do_not_dawdle(spec: Path) -> None:
    """An epoch of the example takes longer than it must, so that people can watch it learn; here
    nobody does.
    """
    text = spec.read_text(encoding="utf-8")
    spec.write_text(
        re.sub(r"seconds_per_epoch: [\d.]+", "seconds_per_epoch: 0", text), encoding="utf-8"
    )


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


def assert_printed(shown: str, printed: str, where: str) -> None:
    """Every line that the page shows was printed, in this order; numbers, times and ids may be
    others.
    """
    lines = iter([masked(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        if line.strip() in ("", "..."):
            continue
        assert masked(line) in lines, (
            f"{where} shows a line that is not printed here:\n{line}\n---\n{printed}"
        )


def masked(line: str) -> str:
    line = re.sub(r"(?<=-)[a-z0-9]{10}\b", "ID", line)
    return " ".join(re.sub(r"\d+", "N", line).split())


ALL = [(page, block) for page in PAGES for block in blocks(page)]


def place(value: object) -> str:
    return (
        value.name
        if isinstance(value, Path)
        else str(value.line)
        if isinstance(value, Block)
        else ""
    )


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
