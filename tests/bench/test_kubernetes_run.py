"""A small run of the bench's Kubernetes group on the tests' cluster."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.goals import GOALS

from support.kubernetes import kube_here

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def figures() -> list[dict[str, Any]]:
    kube_here.cluster().has_python_image()
    command = [sys.executable, "-m", "bench", "--quick", "--alone", "--json", "--only"]
    answer = subprocess.run(
        [*command, "kubernetes"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    [group] = json.loads(answer.stdout)["groups"]
    return group["figures"]


@pytest.mark.kubernetes
def test_every_goal_of_kubernetes_has_its_figure(figures: list[dict[str, Any]]) -> None:
    wanted = {key for key in GOALS if key.startswith("kubernetes.")}
    assert wanted <= {figure["key"] for figure in figures}


@pytest.mark.kubernetes
def test_requests_to_a_cluster_are_as_few_as_they_should_be(
    figures: list[dict[str, Any]],
) -> None:
    by = {figure["key"]: figure for figure in figures}
    for key in ("kubernetes.cancel.requests", "kubernetes.status", "kubernetes.logs.memory"):
        assert by[key]["met"] is True, by[key]["result"]


@pytest.mark.kubernetes
def test_the_page_has_the_figures_of_kubernetes(figures: list[dict[str, Any]]) -> None:
    page = without_numbers((ROOT / "docs" / "performance.md").read_text(encoding="utf-8"))
    for figure in figures:
        assert without_numbers(f"| {figure['title']} |") in page
        assert without_numbers(f"- **{figure['title']}**: {figure['meaning']}") in page


def without_numbers(text: str) -> str:
    return re.sub(r"[\d,]+", "N", text)
