"""A new machine: what is missing here, and whether this job could run, before it is started."""

from __future__ import annotations

import pytest

from support.tao_command import Tao

pytestmark = pytest.mark.slow


def test_doctor_says_what_this_machine_has_and_what_would_stop_a_job(tao: Tao) -> None:
    asked = tao("doctor", "local")
    assert asked.code == 0
    assert "Jobs find python3" in asked.out
    assert tao("init").code == 0
    assert tao("doctor", "job.yaml").code == 0
    tao.write("typo.yaml", "comand: 'true'\n")
    refused = tao("doctor", "typo.yaml")
    assert refused.code == 2
    assert "Did you mean command?" in refused.out + refused.err


def test_each_finding_of_this_machine_that_is_not_well_says_what_mends_it(tao: Tao) -> None:
    findings = tao("doctor", "local", "--json").json["findings"]
    assert findings
    not_well = [finding for finding in findings if finding["severity"] != "ok"]
    assert all(finding["next"] or finding["hint"] for finding in not_well)


def test_a_platform_that_is_not_built_or_does_not_answer_is_told_apart(tao: Tao) -> None:
    assert "not part of this version" in tao("doctor", "brev").out
    nowhere = {"DOCKER_HOST": "tcp://127.0.0.1:9"}
    ran = tao("doctor", "docker", **nowhere)
    assert ran.code != 0
    assert "127.0.0.1:9" in ran.out + ran.err
    assert tao("run", "--platform", "docker", "--image", "x", "--", "true", **nowhere).code == 4
