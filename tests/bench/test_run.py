"""A run of the bench, small and alone: every figure comes out, and its goals are those of the
table.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from bench.__main__ import GROUPS
from bench.contenders import Contender, Environment
from bench.goals import GOALS
from bench.rivals import Rivals

from support.dockerd import dockerd_here

ROOT = Path(__file__).parents[2]
ELSEWHERE = "kubernetes"  # the group that test_kubernetes_run.py runs
NEEDS_OTHERS = {"start.help", *(key for key in GOALS if key.startswith(("s3.", ELSEWHERE)))}


def needs_docker(key: str) -> bool:
    return key.startswith("docker.") and key != "docker.status"


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """What it printed, and the page it wrote. It finds the daemon of the tests
    where they have one.
    """
    with suppress(pytest.skip.Exception):
        dockerd_here.daemon()
    page = tmp_path_factory.mktemp("page") / "performance.md"
    command = [sys.executable, "-m", "bench", "--quick", "--alone", "--json", "--write", str(page)]
    command += [f"--only={group}" for group in GROUPS if group != ELSEWHERE]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout), page.read_text(encoding="utf-8")


def by_key(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {figure["key"]: figure for figure in figures(run)}


def figures(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [figure for group in run["groups"] for figure in group["figures"]]


def not_compared(run: dict[str, Any]) -> list[str]:
    return [title for group in run["groups"] for title in group["not_compared"]]


def test_every_goal_has_its_figure(small_run: tuple[dict[str, Any], str]) -> None:
    wanted = set(GOALS) - NEEDS_OTHERS
    if "Docker" in not_compared(small_run[0]):
        wanted = {key for key in wanted if not needs_docker(key)}
    assert wanted <= set(by_key(small_run[0]))


def test_nothing_is_said_of_packages_that_were_not_measured(
    small_run: tuple[dict[str, Any], str],
) -> None:
    assert not NEEDS_OTHERS & set(by_key(small_run[0]))
    assert not [key for key in by_key(small_run[0]) if "published" in key]


def test_every_round_gave_something(small_run: tuple[dict[str, Any], str]) -> None:
    for figure in figures(small_run[0]):
        assert figure["measured"]["median"] > 0, figure["key"]
        assert (
            figure["measured"]["low"] <= figure["measured"]["median"] <= figure["measured"]["high"]
        ), figure["key"]


def test_a_job_of_local_files_fits_its_size_a_log_its_memory_and_a_look_at_many_jobs_one_question(
    small_run: tuple[dict[str, Any], str],
) -> None:
    by = by_key(small_run[0])
    for key in ("entrypoint.bytes", "logs.client.memory", "logs.command.memory", "docker.status"):
        assert by[key]["met"] is True, by[key]["result"]


def test_the_page_has_a_row_and_a_meaning_for_each_figure_and_says_how_it_was_made(
    small_run: tuple[dict[str, Any], str],
) -> None:
    run, page = small_run
    for figure in figures(run):
        assert f"| {figure['title']} |" in page
        assert f"- **{figure['title']}**: {figure['meaning']}" in page
    assert "python -m bench --write docs/performance.md" in page
    for group in run["groups"]:
        assert f"| {group['group']} | {group['machine']['moment']} |" in page
        assert group["machine"]["processor"] in page


def test_the_page_in_the_docs_has_the_figures_that_the_bench_makes(
    small_run: tuple[dict[str, Any], str],
) -> None:
    written = without_numbers((ROOT / "docs" / "performance.md").read_text(encoding="utf-8"))
    for figure in figures(small_run[0]):
        assert without_numbers(f"| {figure['title']} |") in written
        assert without_numbers(f"- **{figure['title']}**: {figure['meaning']}") in written


def without_numbers(text: str) -> str:
    return re.sub(r"[\d,]+", "N", text)


class Unobtainable(Contender):
    def environment(self) -> Environment:
        from bench.contenders import told

        told([sys.executable, "-c", "raise SystemExit('no such package')"])
        raise AssertionError("an installer that fails is not believed")


def test_a_package_that_cannot_be_had_is_told_loudly_and_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rivals = Rivals()
    absent = Unobtainable("absent", "1.0", ("absent==1.0",))
    assert rivals.environment(absent) is None
    assert rivals.environment(absent) is None
    assert rivals.missing == {"absent 1.0": "no such package"}
    assert capsys.readouterr().err.count("NOT COMPARED: absent 1.0") == 1
