"""A program that knows JSON, exit codes and `next`, and no sentence."""

from __future__ import annotations

import shlex

import pytest

from support.tao_command import Ran, Tao

pytestmark = pytest.mark.slow


def do_next(tao: Tao, ran: Ran) -> Ran:
    """Run what an error says to run next."""
    words = shlex.split(ran.error["next"])
    assert words[0] == "tao", ran.err
    return tao(*words[1:])


def test_what_an_error_says_to_do_next_can_be_done_as_it_stands(tao: Tao) -> None:
    job = tao.run_detached("until [ -e done ]; do sleep 0.1; done")
    assert job in do_next(tao, tao("status", "--json", "no-such-job")).out
    assert do_next(tao, tao("ls", "--json", "--nonsense")).code == 0
    given_up = tao("wait", "--json", "--timeout", "0s", job)
    assert (given_up.code, given_up.error["code"]) == (5, "wait.timeout")
    tao.write("done", "")
    assert do_next(tao, given_up).code == 0


def test_the_exit_code_and_the_last_line_tell_how_a_job_ended(tao: Tao) -> None:
    ran = tao("run", "--json", "--gpus", "0", "--", "exit 3")
    assert (ran.code, ran.json_lines[-1]["status"], ran.json_lines[-1]["exit_code"]) == (
        1,
        "Error",
        3,
    )
    assert tao("why", "--json", ran.json_lines[-1]["id"]).json["diagnosis"]["retryable"] is False
