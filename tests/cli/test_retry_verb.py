"""`tao retry`: what it prints, and what it refuses."""

from __future__ import annotations

import pytest

from support.tao_command import Ended, Tao

FAILS_ONCE = "echo attempt $TAO_ATTEMPT; [ $TAO_ATTEMPT = 2 ]"


def test_a_failed_job_is_tried_again_and_watched_to_its_end(tao: Tao) -> None:
    job = tao.run_detached(FAILS_ONCE, "--name", "stumbles")
    assert tao("wait", job).code == 1
    ran = tao("retry", "stumbles", "--json")
    assert ran.code == 0, ran.err
    last = ran.json_lines[-1]
    assert (last["id"], last["status"], last["attempt"]) == (job, "Complete", 2)
    assert tao("logs", job).out == "attempt 1\nattempt 2\n"


def test_a_live_job_is_refused_with_the_command_that_ends_it(tao: Tao) -> None:
    job = tao.run_detached("sleep 60")
    ran = tao("retry", job)
    assert (ran.code, ran.out) == (2, "")
    assert f"End it first: tao cancel {job}" in ran.err


def test_anew_makes_a_new_job_of_the_same(tao: Tao) -> None:
    job = tao.run_detached("echo $TAO_ATTEMPT; exit 3", "--name", "same")
    assert tao("wait", job).code == 1
    ran = tao("retry", job, "--anew", "--detach", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["id"] != job
    assert (ran.json["name"], ran.json["attempt"]) == ("same", 1)
    assert tao("wait", ran.json["id"]).code == 1
    assert tao("status", job, "--json").json["attempt"] == 1


@pytest.mark.parametrize("named", ["none-such", ""])
def test_what_is_no_job_is_not_found(ended: Ended, named: str) -> None:
    assert ended.tao("retry", named).code == 3
