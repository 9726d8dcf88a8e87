"""Cancel ends a job at every stage of its life, from any process, and says True
once that was seen.
"""

from __future__ import annotations

import os
import random
import shlex
import signal
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.machine import Machine, until
from tao_sdk.backends.contract import cancel_one
from tao_sdk.model.observation import Phase
from tao_sdk.model.plan import Ref

pytestmark = pytest.mark.slow
GRACE = timedelta(seconds=10)


def test_a_running_job_is_asked_to_end_and_keeps_its_exit_code(machine: Machine) -> None:
    ref = machine.submit("trap 'echo saved; exit 7' TERM; echo up; sleep 300 & wait")
    machine.says(ref, b"up")
    assert machine.cancels(ref, GRACE)
    seen = machine.see(ref)
    assert (seen.phase, seen.exit_code, seen.reason) == (Phase.CANCELED, 7, "canceled")
    assert machine.log(ref) == b"up\nsaved\n"
    assert machine.processes(ref) == []


SAVING = """
import signal, sys, time
def save(*_):
    time.sleep(0.2)
    sys.exit(int(sys.argv[1]))
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize(
    "command", ["{0}", "true && {0}", "{0}\necho next", "(cd . && {0}; echo next)", "{0} | tee log"]
)
@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_of_a_program_that_ended_by_itself_is_the_jobs(
    machine: Machine, tmp_path: Path, command: str, code: int
) -> None:
    """The shell that started it dies of the signal and tells nothing."""
    program = tmp_path / "saving.py"
    program.write_text(SAVING)
    words = shlex.join([sys.executable, "-I", str(program), str(code)])
    ref = machine.submit(command.format(words))
    machine.says(ref, b"up")
    assert machine.cancels(ref, GRACE)
    seen = machine.see(ref)
    assert (seen.phase, seen.exit_code) == (Phase.CANCELED, code)
    assert b"next" not in machine.log(ref)


HELPED = """
import os, signal, time
trainer = os.getpid()
if os.fork() == 0:
    signal.signal(signal.SIGTERM, lambda *_: None)
    while os.getppid() == trainer:
        time.sleep(0.01)
    os._exit(0)
print("up", flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize("command", ["{0}", "true && {0}\necho next", "exec {0}"])
def test_a_program_that_the_signal_ended_is_not_excused_by_its_helpers(
    machine: Machine, tmp_path: Path, command: str
) -> None:
    program = tmp_path / "helped.py"
    program.write_text(HELPED)
    ref = machine.submit(command.format(shlex.join([sys.executable, "-I", str(program)])))
    machine.says(ref, b"up")
    assert machine.cancels(ref, GRACE)
    seen = machine.see(ref)
    assert (seen.phase, seen.exit_code) == (Phase.CANCELED, 143)


SLOW_TO_SAVE = """
import signal, sys, time
def save(*_):
    time.sleep(2)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize("command", ["{0}", "true && {0}\ntrue", "exec {0}"])
def test_a_program_has_all_the_grace_that_the_cancel_gives_it(
    machine: Machine, tmp_path: Path, command: str
) -> None:
    """Also where its shell ends at once, and more than a job has by itself."""
    program = tmp_path / "slow.py"
    program.write_text(SLOW_TO_SAVE)
    plan = machine.plan(command.format(shlex.join([sys.executable, "-I", str(program)])))
    hurried = replace(plan, request=replace(plan.request, grace=0.2))
    ref = machine.start(hurried)
    machine.says(ref, b"up")
    assert machine.cancels(ref, timedelta(seconds=60))
    assert machine.log(ref) == b"up\nsaved\n"


def test_a_job_that_ignores_the_signal_is_killed_after_the_grace_and_not_before(
    machine: Machine,
) -> None:
    ref = machine.submit("trap '' TERM; echo deaf; while :; do sleep 0.02; done")
    machine.says(ref, b"deaf")
    begun = time.monotonic()
    assert machine.cancels(ref, timedelta(seconds=0.5))
    assert time.monotonic() - begun >= 0.5
    seen = machine.see(ref)
    assert (seen.phase, seen.exit_code) == (Phase.CANCELED, 137)
    assert machine.processes(ref) == []


def test_children_in_groups_of_their_own_end_too(machine: Machine) -> None:
    ref = machine.submit("set -m; (trap '' TERM; sleep 300; sleep 300) & sleep 300 & echo up; wait")
    machine.says(ref, b"up")
    assert machine.cancels(ref, timedelta(seconds=0.2))
    assert machine.processes(ref) == []


LAUNCHER = """
import signal, subprocess, sys, time
worker = subprocess.Popen(["/bin/sh", "-c", sys.argv[1]], start_new_session=True)
def end(*_):
    if sys.argv[2] == "leaves":
        sys.exit(7)
signal.signal(signal.SIGTERM, end)
while True:
    time.sleep(0.1)
"""
DEAF = "trap '' TERM; (echo up; sleep 300; sleep 300) & while :; do sleep 0.02; done"


@pytest.mark.parametrize("launcher", ["leaves", "stays"])
@pytest.mark.parametrize("supervised", [True, False], ids=["supervised", "alone"])
def test_workers_in_sessions_of_their_own_end_with_their_launcher(
    machine: Machine, tmp_path: Path, launcher: str, supervised: bool
) -> None:
    """As torchrun starts its workers; when it is killed, or does not wait for them, they would keep
    the GPU's memory.
    """
    program = tmp_path / "launcher.py"
    program.write_text(LAUNCHER)
    ref = machine.submit(shlex.join([sys.executable, str(program), DEAF, launcher]))
    machine.says(ref, b"up")
    if not supervised:
        machine.kill_supervisor(ref)
    assert machine.cancels(ref, timedelta(seconds=0.5))
    assert machine.see(ref).phase is Phase.CANCELED
    until(lambda: machine.processes(ref) == [])


def test_a_second_cancel_can_only_shorten_the_grace(machine: Machine) -> None:
    ref = machine.submit("trap '' TERM; echo deaf; while :; do sleep 0.02; done")
    machine.says(ref, b"deaf")
    machine.folder(ref).put_file("cancel", "300")
    os.kill(machine.identity(ref, "supervisor").pid, signal.SIGTERM)
    time.sleep(0.2)
    assert machine.see(ref).phase is Phase.RUNNING
    assert machine.cancels(ref, timedelta(0))
    assert machine.see(ref).phase is Phase.CANCELED


def test_a_job_is_canceled_from_another_process(machine: Machine) -> None:
    ref = machine.submit("sleep 300")
    pid = os.fork()
    if pid == 0:
        os._exit(0 if cancel_one(machine.client(), ref, GRACE).phase.over else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert machine.see(ref).phase is Phase.CANCELED


@pytest.mark.slow
def test_a_job_can_be_canceled_at_any_instant_after_submit(machine: Machine) -> None:
    chance = random.Random(3)
    for _ in range(25):
        ref = machine.submit("sleep 300")
        time.sleep(chance.uniform(0, 0.02))
        assert machine.cancels(ref, GRACE)
        assert machine.see(ref).phase is Phase.CANCELED
        assert machine.processes(ref) == []


@pytest.mark.parametrize("stopped", [False, True], ids=["hangs", "stopped"])
@pytest.mark.parametrize("supervised", [True, False], ids=["supervised", "alone"])
def test_a_job_that_hangs_before_its_command_has_begun_is_canceled(
    machine: Machine, stopped: bool, supervised: bool
) -> None:
    """A log that nobody can open stands for a file system that does not answer."""
    ref = hanging(machine, stopped=stopped)
    if not supervised:
        machine.kill_supervisor(ref)
    assert machine.cancels(ref, timedelta(seconds=3))
    assert machine.see(ref).phase is Phase.CANCELED
    assert not machine.identity(ref, "process").alive


@pytest.mark.slow
def test_a_job_that_hangs_before_its_command_has_begun_is_ended_by_its_time_limit(
    machine: Machine,
) -> None:
    ref = hanging(machine, time_limit=timedelta(seconds=1))
    assert machine.end(ref).reason == "time limit of 1s reached"


def hanging(machine: Machine, *, stopped: bool = False, **spec: Any) -> Ref:
    plan = machine.plan("echo started", **spec)
    machine.backend.stage(plan)
    log = machine.folder_of(plan) / "log"
    log.unlink()
    os.mkfifo(log)
    ref = machine.start(plan)
    leader = machine.identity(ref, "process")
    until(lambda: leader.state == "S")
    if stopped:
        os.kill(leader.pid, signal.SIGSTOP)
        until(lambda: leader.state == "T")
    return ref


def test_a_job_that_waits_for_a_gpu_is_canceled_and_never_starts(machine: Machine) -> None:
    machine.has_gpus(1)
    machine.submit("sleep 300", gpu_count=1)
    waiting = machine.submit("echo started", gpu_count=1)
    until(lambda: machine.see(waiting).reason)
    assert machine.cancels(waiting, GRACE)
    seen = machine.see(waiting)
    assert (seen.phase, seen.raw, seen.exit_code, seen.started_at) == (
        Phase.CANCELED,
        "not started",
        None,
        None,
    )
    assert machine.log(waiting) == b""


def test_a_job_whose_submit_was_cut_short_is_canceled_and_cannot_be_started_any_more(
    machine: Machine,
) -> None:
    plan = machine.plan("echo started")
    machine.backend.stage(plan)
    ref = machine.backend.find(plan.attempt)
    assert ref is not None
    assert machine.see(ref).phase is Phase.PENDING
    assert machine.cancels(ref, GRACE)
    assert machine.see(ref).phase is Phase.CANCELED
    machine.start(plan)
    assert machine.see(ref).phase is Phase.CANCELED
    assert machine.log(ref) == b""


@pytest.mark.parametrize("deaf", [False, True])
def test_a_job_that_lost_its_supervisor_is_canceled_all_the_same(
    machine: Machine, deaf: bool
) -> None:
    ref = machine.submit(
        f"trap '{'' if deaf else 'echo saved; exit 7'}' TERM; echo up; sleep "
        "300 & while :; do sleep 0.02; done"
    )
    machine.says(ref, b"up")
    machine.kill_supervisor(ref)
    assert machine.see(ref).phase is Phase.RUNNING
    assert machine.cancels(ref, timedelta(seconds=0.5 if deaf else 10))
    assert machine.see(ref).phase is Phase.CANCELED
    assert machine.processes(ref) == []
    assert (b"saved" in machine.log(ref)) is not deaf


def test_canceling_what_is_over_is_true_and_changes_nothing(machine: Machine) -> None:
    ref = machine.submit("exit 3")
    before = machine.end(ref)
    assert machine.cancels(ref, GRACE)
    after = machine.see(ref)
    assert (after.phase, after.exit_code, after.ended_at) == (
        before.phase,
        before.exit_code,
        before.ended_at,
    )
    machine.backend.release(ref)
    assert machine.cancels(ref, GRACE)


def test_a_job_that_was_lost_is_not_canceled_afterwards(machine: Machine) -> None:
    ref = machine.submit("sleep 300")
    leader = machine.identity(ref, "process")
    machine.kill_supervisor(ref)
    os.killpg(leader.pid, signal.SIGKILL)
    until(lambda: machine.see(ref).phase is Phase.FAILED)
    assert machine.cancels(ref, GRACE)
    assert machine.see(ref).reason == "its supervisor was killed; the exit code is not known"


def test_a_job_that_ended_by_itself_before_the_signal_is_not_canceled(machine: Machine) -> None:
    """The command has ended, what it left running has not: it is cleared up, and a cancel only
    hurries that.
    """
    ref = machine.submit(
        "(trap '' TERM; echo deaf; while :; do sleep 0.02; done) & sleep 0.3; exit 5"
    )
    leader = machine.identity(ref, "process")
    until(lambda: not leader.alive)
    assert machine.cancels(ref, timedelta(0))
    seen = machine.see(ref)
    assert (seen.phase, seen.exit_code) == (Phase.FAILED, 5)
    assert machine.processes(ref) == []


def test_a_supervisor_that_someone_else_tells_to_end_ends_the_job_and_it_is_no_cancel(
    machine: Machine,
) -> None:
    ref = machine.submit("sleep 300")
    os.kill(machine.identity(ref, "supervisor").pid, signal.SIGTERM)
    ended = machine.end(ref)
    assert (ended.phase, ended.exit_code) == (Phase.FAILED, 143)
    assert ended.reason == "ended by SIGTERM, its supervisor was told to end"


@pytest.mark.slow
def test_cancel_says_false_when_the_end_was_not_seen_in_time(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tao_sdk.backends.local.backend.MARGIN", timedelta(seconds=-9.8))
    ref = machine.submit("trap 'sleep 1; exit 7' TERM; echo slow; sleep 300 & wait")
    machine.says(ref, b"slow")
    assert machine.cancels(ref, GRACE) is False
    assert machine.end(ref).phase is Phase.CANCELED


def test_a_job_whose_supervisor_was_stopped_is_canceled_all_the_same(machine: Machine) -> None:
    ref = machine.submit("sleep 300")
    os.kill(machine.identity(ref, "supervisor").pid, signal.SIGSTOP)
    assert machine.cancels(ref, GRACE)
    assert machine.see(ref).phase is Phase.CANCELED


def test_a_client_that_is_process_1_of_a_container_can_cancel(machine: Machine) -> None:
    """Nobody reaps the dead there, so they stay as zombies; they must not count as running."""
    import subprocess

    script = (
        "import os, sys; sys.path[:0] = sys.argv[2:]\n"
        "from datetime import timedelta; from pathlib import Path; from support.machine import Machine\n"
        "assert os.getpid() == 1\n"
        "m = Machine(Path(sys.argv[1]) / 'inside')\n"
        "r = m.submit('sleep 300 & sleep 300')\n"
        "assert m.cancels(r, timedelta(seconds=10)), 'not canceled'\n"
        "print(m.see(r).phase.value, m.see(m.submit('true')).phase.value in ('running', 'succeeded', 'pending'))\n"
    )
    argv = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        sys.executable,
        "-c",
        script,
        str(machine.root),
        *sys.path,
    ]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode and "unshare" in done.stderr:
        pytest.skip(f"needs the right to make a pid namespace: {done.stderr.strip()}")
    assert done.stdout == "canceled True\n", done.stderr
