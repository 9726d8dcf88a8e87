"""Findings: what mends them, for people and for programs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tao_sdk.backends.docker.daemon.doctor import CONFIGURE
from tao_sdk.model.errors import TaoError, install_command
from tao_sdk.model.finding import Finding, Severity


@pytest.mark.parametrize(
    "command", [CONFIGURE, install_command("docker"), "export SLURM_ACCOUNT=vision"]
)
def test_a_command_that_mends_it_is_what_comes_next(command: str) -> None:
    told = Finding(Severity.ERROR, "x", "It is broken.", command=command).to_json()
    assert (told["next"], told["fix"], told["hint"]) == (command, command, "")


@pytest.mark.parametrize("advice", ["Ask the site.", "export HF_TOKEN=...", "Run: chmod 600 .env"])
def test_words_are_a_hint_whatever_they_look_like(advice: str) -> None:
    told = Finding(Severity.ERROR, "x", "It is broken.", "", advice).to_json()
    assert (told["next"], told["fix"], told["hint"]) == ("", "", advice)


def test_words_before_a_command_are_the_hint_beside_it() -> None:
    finding = Finding(
        Severity.ERROR, "x", "It is broken.", "", "Export NGC_KEY, or run:", "docker login nvcr.io"
    )
    told = finding.to_json()
    assert (told["next"], told["hint"]) == (
        "docker login nvcr.io",
        "Export NGC_KEY, or run: docker login nvcr.io",
    )
    assert replace(finding, severity=Severity.WARNING).to_json() == {**told, "severity": "warning"}


def test_an_error_and_its_finding_say_the_same() -> None:
    error = TaoError("It is live.", "It runs.", "End it first:", "tao cancel a-1")
    told = Finding.of_error(error).to_json()
    assert (told["next"], told["hint"]) == (error.to_json()["next"], error.to_json()["hint"])
    assert (told["what"], told["evidence"]) == ("It is live.", "It runs.")


def test_the_documents_names_are_read_as_ever() -> None:
    finding = Finding(Severity.ERROR, "x", "It is broken.", "It has no key.", "Export NGC_KEY.")
    assert (finding.evidence, finding.fix) == ("It has no key.", "Export NGC_KEY.")


def test_nothing_mends_what_is_well() -> None:
    told = Finding(Severity.OK, "x", "It is well.").to_json()
    assert (told["next"], told["fix"], told["hint"]) == ("", "", "")
