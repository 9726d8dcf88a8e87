"""`tao doctor host`: what the set-up script sees of this machine, as findings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from support.advice import check_advice
from support.tao_command import Tao
from tao_sdk.client.host_findings import host_findings, read_findings
from tao_sdk.model.gpu_host import SCRIPT


def test_the_doctor_says_what_the_script_says(tao: Tao) -> None:
    script = subprocess.run(
        ["bash", SCRIPT, "--json"], env=tao.env, capture_output=True, text=True
    ).stdout
    told = tao("doctor", "host", "--json")
    findings = [{"platform": "host", **each} for each in json.loads(script)["findings"]]
    assert told.json["findings"] == findings
    assert told.code == (0 if json.loads(script)["ready"] else 2)


def test_the_doctor_looks_at_a_host_for_docker_or_kubernetes(tao: Tao) -> None:
    told = tao("doctor", "host", "--platform", "kubernetes", "--json")
    assert "host.kubernetes" in {each["code"] for each in told.json["findings"]}
    assert (
        "not for slurm" in tao("doctor", "host", "--platform", "slurm", "--json").error["message"]
    )
    assert tao("doctor", "host", "--fix", "--json").error["next"] == "tao doctor host"


def test_the_flags_of_the_scripts_check_are_the_doctors(tao: Tao, tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 590.44.01\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    path = f"{tmp_path}:{tao.env['PATH']}"
    severities = [
        {each["code"]: each["severity"] for each in told.json["findings"]}
        for told in (
            tao("doctor", "host", *flags, "--json", NVIDIA_CUDA_RELEASE="99.0", PATH=path)
            for flags in ([], ["--with-cuda"], ["--strict"])
        )
    ]
    assert [each["host.driver"] for each in severities] == ["ok", "ok", "error"]
    assert [each["host.cuda"] for each in severities] == ["ok", "error", "error"]
    refused = tao("doctor", "local", "--strict", "--json")
    assert (refused.code, refused.error["next"]) == (2, "tao doctor host --strict")


def test_a_host_that_cannot_be_checked_is_a_finding(tao: Tao, tmp_path: Path) -> None:
    told = tao("doctor", "host", "--json", PATH=str(tmp_path))
    assert [each["code"] for each in told.json["findings"]] == ["host.not_checked"]


def test_its_advice_is_as_that_of_every_doctor(tao: Tao) -> None:
    check_advice(host_findings("docker", tao.env))
    check_advice(host_findings("kubernetes", tao.env))
    check_advice(host_findings("docker", {"PATH": "/nowhere"}))


def test_a_script_that_says_something_else_has_no_findings() -> None:
    for text in ("", "[]", "{}", '{"findings": [{}]}', '{"findings": [{"severity": "x"}]}'):
        assert read_findings(text) == []
