"""What doctor makes of findings. What each platform finds stands with the tests of its backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_sdk import Client
from tao_sdk.client.doctor import (
    error_finding,
    install_commands,
    new_findings,
    package_findings,
    platform_findings,
    ready_platforms,
)
from tao_sdk.model.errors import TaoError, Unreachable
from tao_sdk.model.finding import Finding, Severity


def finding(code: str, command: str = "", severity: Severity = Severity.ERROR) -> Finding:
    return Finding(severity, code, f"What {code} is.", command=command)


def test_what_is_wrong_with_the_platform_is_not_said_of_the_job_again() -> None:
    platform = [
        finding("extra.missing", "pip install x"),
        finding("disk.full", severity=Severity.WARNING),
    ]
    of_job = [finding("extra.missing"), finding("other", "pip install x"), finding("disk.full")]
    assert [each.code for each in new_findings(of_job, platform)] == ["disk.full"]


def test_a_platform_with_warnings_alone_is_ready() -> None:
    findings = {
        "local": [finding("slow", severity=Severity.WARNING)],
        "docker": [finding("down")],
        "slurm": [],
    }
    assert ready_platforms(findings) == ["local", "slurm"]


def test_only_what_installs_into_this_python_is_run_by_us() -> None:
    assert install_commands(
        [finding("extra.missing", "pip install x"), finding("down", "sudo start")]
    ) == ["pip install x"]


def test_the_command_that_mends_an_error_stands_alone_and_an_unreachable_place_keeps_its_sentence() -> (
    None
):
    assert error_finding(TaoError("A.", "", "Then this:", "b c")).next == "b c"
    assert error_finding(Unreachable("A.", "", "Check it:", "b c")).next == "Check it: b c"


def test_a_published_automl_beside_this_package_is_found_with_the_command_that_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(package_findings()) == []
    installed = tmp_path / "nvidia_tao_automl-7.2.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: nvidia-tao-automl\nVersion: 7.2.0\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with Client(tmp_path / "jobs.db") as client:
        found = platform_findings(client, "local")[0]
    assert (found.severity, found.what) == (
        Severity.WARNING,
        "nvidia-tao-automl 7.2.0 is installed.",
    )
    assert "pip uninstall --yes nvidia-tao-automl" in found.command
    assert "nvidia-tao-sdk>=8" in found.command
