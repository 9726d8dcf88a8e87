"""Findings: what mends them, for people and for programs."""

from __future__ import annotations

import pytest

from tao_sdk.backends.docker.doctor import TOOLKIT
from tao_sdk.model.errors import install_command
from tao_sdk.model.finding import Finding, Severity

COMMANDS = [
    TOOLKIT,
    install_command("docker"),
    "docker login nvcr.io -u '$oauthtoken'",
    "export SLURM_ACCOUNT=vision",
    "docker network create tao",
    "tao doctor docker",
]


@pytest.mark.parametrize("fix", COMMANDS)
def test_a_command_that_mends_it_is_what_comes_next(fix: str) -> None:
    told = Finding(Severity.ERROR, "x", "It is broken.", fix=fix).to_json()
    assert (told["next"], told["fix"], told["hint"]) == (fix, fix, "")


@pytest.mark.parametrize("fix", ["Ask the site.", "export HF_TOKEN=...", "Use --qos long, or short."])
def test_what_is_no_command_is_a_hint(fix: str) -> None:
    told = Finding(Severity.ERROR, "x", "It is broken.", fix=fix).to_json()
    assert (told["next"], told["fix"], told["hint"]) == ("", "", fix)


def test_a_command_within_the_advice_comes_next_beside_the_words() -> None:
    told = Finding(Severity.ERROR, "x", "It is broken.", fix="Export NGC_KEY, or run: docker login nvcr.io").to_json()
    assert (told["next"], told["hint"]) == ("docker login nvcr.io", "Export NGC_KEY, or run: docker login nvcr.io")


def test_nothing_mends_what_is_well() -> None:
    told = Finding(Severity.OK, "x", "It is well.").to_json()
    assert (told["next"], told["fix"], told["hint"]) == ("", "", "")
