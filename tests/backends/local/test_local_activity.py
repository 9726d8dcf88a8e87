"""What a running local job does now: its CPU use, and what its process waits in."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from support.machine import Machine, until
from tao_sdk.backends.local.parse import gpu_uses
from tao_sdk.model.activity import GpuUse, MainProcess

pytestmark = pytest.mark.slow


def test_a_job_that_computes_uses_cpu_and_one_that_sleeps_uses_none(machine: Machine) -> None:
    busy = machine.submit(f"echo on; {sys.executable} -c 'while True: pass'; true")
    idle = machine.submit("echo on; sleep 300; true")
    for ref in (busy, idle):
        machine.says(ref, b"on")
    computing = until(lambda: seen if (seen := machine.backend.activity(busy)).cpu_cores else None)
    until(lambda: (seen := machine.backend.activity(busy).main) and seen.is_python)
    sleeping = until(
        lambda: seen if (seen := machine.backend.activity(idle)).cpu_cores == 0 else None
    )
    assert computing.cpu_seconds and computing.log_changed_at
    assert sleeping.main and sleeping.main.name == "sleep" and sleeping.main.command == ""


def test_a_process_that_reads_from_an_empty_pipe_waits_for_it(machine: Machine) -> None:
    os.mkfifo("never")
    keep = os.open("never", os.O_RDWR)  # so that the open does not wait
    ref = machine.submit("echo on; cat never; true")
    machine.says(ref, b"on")
    until(lambda: (seen := machine.backend.activity(ref).main) and seen.name == "cat")
    main = until(
        lambda: seen if (seen := machine.backend.activity(ref).main) and seen.waits_in else None
    )
    assert "pipe" in main.waits_in or str(Path("never").resolve()) in main.waits_in
    assert main.waits_for in ("a pipe", "data to read")
    os.close(keep)


def test_the_process_with_the_most_cpu_time_is_the_main_one(machine: Machine) -> None:
    child = "import os, time; print('child', os.getpid(), flush=True); time.sleep(300)"
    main = (
        "import os, subprocess, sys, time; end = time.process_time() + 2\n"
        "while time.process_time() < end: pass\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}]).wait()"
    )
    Path("main.py").write_text(main)
    ref = machine.submit(f"{sys.executable} main.py; true")
    machine.says(ref, b"child")
    child_pid = int(machine.printed(ref).split()[1])
    seen = machine.backend.activity(ref).main
    assert seen and seen.pid != child_pid
    assert b"main.py" in Path(f"/proc/{seen.pid}/cmdline").read_bytes()


def test_a_job_that_has_printed_nothing_has_no_time_of_its_log(machine: Machine) -> None:
    ref = machine.submit("sleep 300")
    machine.identity(ref, "process")
    assert machine.backend.activity(ref).log_changed_at is None


def test_stopped_processes_are_named_while_others_go_on(machine: Machine) -> None:
    ref = machine.submit("sleep 300 & echo $!; sleep 301; wait")
    machine.says(ref, b"\n")
    pid = int(machine.printed(ref))
    os.kill(pid, signal.SIGSTOP)
    until(lambda: machine.backend.activity(ref).stopped_pids == (pid,))


def test_a_state_of_the_kernel_is_told_in_words() -> None:
    waits = {
        "futex_wait_queue": "a lock or another thread",
        "anon_pipe_read": "a pipe",
        "rpc_wait_bit_killable": "an NFS server",
        "folio_wait_bit_common": "a disk",
        "something_new": "",
    }
    for function, words in waits.items():
        assert MainProcess(7, "python3", "S", function).waits_for == words


def test_the_use_of_the_gpus_that_the_job_holds_is_told(machine: Machine) -> None:
    machine.has_gpus(2)
    ref = machine.submit("sleep 300", gpu_count=1)
    held = until(lambda: [n for n in (0, 1) if machine.holder(n) == ref.attempt.job_id] or None)[0]
    uses = [f"{n}, {uuid}, {n + 30} %, {n + 500} MiB" for n, uuid in enumerate(machine.gpus)]
    machine.program("nvidia-smi", "".join(f"echo '{line}'\n" for line in uses))
    assert machine.backend.activity(ref).gpus == (GpuUse(held, held + 30, held + 500),)


def test_a_gpu_whose_use_the_driver_cannot_tell_has_its_memory_alone() -> None:
    assert gpu_uses("0, GPU-1, [N/A], 12 MiB\nbroken") == {"0:GPU-1": GpuUse(0, None, 12)}
