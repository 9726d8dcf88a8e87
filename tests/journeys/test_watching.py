"""Leaving a job and coming back to it from another terminal, without its id at hand."""

from __future__ import annotations

import signal

import pytest

from support.tao_command import Tao

pytestmark = pytest.mark.slow


def test_attach_without_a_job_shows_the_newest_to_its_end(tao: Tao) -> None:
    tao.run_detached("echo older", "--name", "older")
    job = tao.run_detached(
        "echo epoch 1/2 loss 2.0; sleep 1; echo epoch 2/2 loss 1.0", "--name", "newer"
    )
    ran = tao("attach")
    assert ran.code == 0
    assert f"{job}, the newest job." in ran.err
    assert "epoch 2/2  loss 1.000" in ran.out


def test_a_job_goes_on_when_its_terminal_is_closed_and_is_found_by_its_name(tao: Tao) -> None:
    running = tao.start(
        "run", "--gpus", "0", "--name", "left", "--", "echo begun; sleep 2; echo over"
    )
    assert running.stdout is not None
    tao.until("Running", "ls")
    running.send_signal(signal.SIGHUP)
    running.wait(timeout=300)
    ran = tao("attach", "left")
    assert (ran.code, "✓ Complete" in ran.out) == (0, True)


def test_attach_where_there_is_no_job_says_how_to_start_one(tao: Tao) -> None:
    tao("ls")
    ran = tao("attach")
    assert ran.code == 3
    assert "Start one: tao run" in ran.err
