"""A job that runs and does nothing: what it waits for, and how it is ended."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from support.tao_command import Tao
from tao_sdk.model.clock import from_iso, utc_now

pytestmark = pytest.mark.slow


def test_why_shows_what_a_running_job_printed_last(tao: Tao) -> None:
    os.mkfifo(tao.home / "never")
    job = tao.run_detached(
        "for n in 1 2 3 4; do echo step $n; done; printf 'waiting for \\033[31mdata'; cat never"
    )
    tao.until("data", "logs", job)
    told = tao("why", job).out
    assert told.startswith("Running for ")
    assert "It printed last:\n  | step 3\n  | step 4\n  | waiting for data\n" in told
    assert f"Follow it: tao logs -f {job}" in told
    assert tao("cancel", job, "--grace", "1s").code == 0
    assert "printed last" not in tao("why", job).out


def test_why_says_that_a_running_job_has_printed_nothing(tao: Tao) -> None:
    job = tao.run_detached("sleep 60")
    tao.until("Running", "status", job)
    assert "It has printed nothing yet." in tao("why", job).out
    assert tao("why", "--json", job).json["diagnosis"] is None


def test_why_of_a_stopped_job_says_once_that_it_is_paused_and_how_it_goes_on(tao: Tao) -> None:
    job = tao.run_detached("echo pid $$; exec sleep 60")
    tao.until("pid", "logs", job)
    pid = int(tao("logs", job).out.split()[1])
    os.kill(pid, signal.SIGSTOP)
    tao.until("Paused", "status", job)
    told = tao("why", job).out
    assert told.lower().count("paused") == 1
    assert told.startswith("Paused: ")  # not for how long: the job began to run before that
    assert f"kill -CONT {pid}" in told
    assert f"tao cancel {job}" in told
    os.kill(pid, signal.SIGCONT)
    tao.until("Running", "status", job)
    assert tao("cancel", job, "--grace", "1s").code == 0


TRAINER = "import os, time; print('trainer', os.getpid(), flush=True); time.sleep(60)"


def test_a_trainer_that_somebody_stopped_is_told_below_the_runner_and_the_shell(tao: Tao) -> None:
    job = tao.run_detached(f'python3 -c "{TRAINER}"; echo over')
    tao.until("trainer", "logs", job)
    pid = int(tao("logs", job).out.split()[1])
    os.kill(pid, signal.SIGSTOP)
    tao.until("Paused", "status", job)
    assert f"process {pid} is stopped (SIGSTOP)" in tao("ls").out
    assert f"kill -CONT {pid}" in tao("why", job).out
    assert tao("why", "--json", job).json["reason_code"] == "process_stopped"
    os.kill(pid, signal.SIGCONT)
    tao.until("Running", "status", job)
    assert tao("cancel", job, "--grace", "1s").code == 0


EPOCHS = (
    "import os, time; print('pid', os.getpid()); "
    "[(print(f'epoch {n}/9999 loss 0.1', flush=True), time.sleep(0.3)) for n in range(1, 9999)]"
)


def test_a_paused_job_stands_still_and_has_no_time_left(tao: Tao) -> None:
    job = tao.run_detached(f'exec python3 -c "{EPOCHS}"')
    tao.until("ETA", "status", job)
    pid = int(tao("logs", job).out.split()[1])
    os.kill(pid, signal.SIGSTOP)
    tao.until("Paused", "status", job)
    for told in (tao("status", job).out, tao("ls").out):
        assert "stands still" in told
        assert "ETA" not in told
    assert tao("status", "--json", job).json["progress"]["eta_seconds"] is None
    os.kill(pid, signal.SIGCONT)
    tao.until("ETA", "status", job)
    assert tao("cancel", job, "--grace", "1s").code == 0


def test_why_of_a_silent_job_says_since_when_and_what_its_process_waits_in(tao: Tao) -> None:
    hang = "import os, time; print('epoch 2/10 loss 0.1', flush=True); time.sleep(900)"
    job = tao.run_detached(f'echo epoch 1/10 loss 0.2; python3 -c "{hang}"; true')
    tao.until("epoch 2/10", "logs", job)
    tao.until("2/10", "status", job)
    told = tao("why", job).out
    assert re.search(r"Its log last grew \d+[smh] ago, at \d{4}-", told)
    assert re.search(
        r"Its newest epoch is 2/10, told \d+[smh] ago, at \d{4}-\S+ \S+ or earlier", told
    )
    assert "It uses " in told and " of CPU time." in told
    pid = tao("why", "--json", job).json["activity"]["process"]["pid"]
    assert b"time.sleep(900)" in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert f"See where its Python code is: py-spy dump --pid {pid}" in told
    assert f"Its process {pid} (python" in told
    assert tao("cancel", job, "--grace", "1s").code == 0
    assert tao("why", "--json", job).json["activity"] is None


def test_why_says_how_the_program_is_installed_that_shows_python_code(tao: Tao) -> None:
    job = tao.run_detached("exec python3 -c 'import time; print(1, flush=True); time.sleep(900)'")
    tao.until("1", "logs", job)
    tao.until("py-spy dump", "why", job)
    hint = f"py-spy is not installed: {sys.executable} -m pip install py-spy"
    places = f"{tao.env['PATH']}:{Path(sys.executable).parent}"
    is_here = shutil.which("py-spy", path=places) is not None
    assert (hint in tao("why", job).out) is not is_here
    program = tao.write("bin/py-spy", "#!/bin/sh\n")
    program.chmod(0o755)
    path = f"{program.parent}:{tao.env['PATH']}"
    assert "not installed" not in tao("why", job, PATH=path).out
    assert tao("cancel", job, "--grace", "1s").code == 0


def test_why_in_json_tells_when_the_log_and_the_epochs_fell_silent(tao: Tao) -> None:
    began = utc_now()
    job = tao.run_detached("echo epoch 1/10 loss 0.2; sleep 60")
    tao.until("1/10", "status", job)
    told = tao("why", "--json", job).json
    changed_at = from_iso(told["activity"]["log_changed_at"])
    epoch_at = from_iso(told["epoch_told_at"])
    assert changed_at and epoch_at
    assert began - timedelta(seconds=1) <= epoch_at <= changed_at <= utc_now()
    assert tao("cancel", job, "--grace", "1s").code == 0


def test_why_names_a_stopped_process_beside_others_that_run(tao: Tao) -> None:
    job = tao.run_detached(f'python3 -c "{TRAINER}" & sleep 60; wait')
    tao.until("trainer", "logs", job)
    pid = int(tao("logs", job).out.split()[1])
    os.kill(pid, signal.SIGSTOP)
    tao.until(f"some of its processes: kill -CONT {pid}", "why", job)
    assert tao("why", "--json", job).json["activity"]["stopped_pids"] == [pid]
    assert tao("why", job).out.startswith("Running for ")
    assert tao("cancel", job, "--grace", "1s").code == 0
