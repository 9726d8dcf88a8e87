"""An end that nobody saw is told as what it was: the supervisor killed, the machine restarted, a
container stopped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.machine import Machine, until
from tao_sdk.backends.local import parse
from tao_sdk.backends.local.job.folder import take_lock
from tao_sdk.backends.local.parse import Life, Seen
from tao_sdk.backends.local.supervision.supervisor import count_oom_kills, memory_counters
from tao_sdk.backends.outcome import parse_manifest
from tao_sdk.model.observation import Outcome, Phase
from tao_sdk.model.plan import Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.transports import process


def test_a_job_goes_on_without_its_supervisor(machine: Machine, tmp_path: Path) -> None:
    go = tmp_path / "go"
    ref = machine.submit(f"echo one; until [ -e {go} ]; do sleep 0.05; done; echo two")
    machine.says(ref, b"one")
    machine.kill_supervisor(ref)
    seen = machine.see(ref)
    assert seen.phase is Phase.RUNNING
    assert "supervisor was killed" in seen.raw
    go.touch()
    assert machine.log(ref) == b"one\ntwo\n"
    ended = machine.see(ref)
    assert (ended.phase, ended.exit_code) == (Phase.FAILED, None)
    assert ended.reason == "its supervisor was killed; the exit code is not known"


def test_a_job_that_is_about_to_begin_is_not_lost_with_its_supervisor(machine: Machine) -> None:
    """Between the fork and the job's first word of itself, only its lock tells that it is there."""
    plan = machine.plan("echo never")
    machine.backend.stage(plan)
    ref = machine.backend.find(plan.attempt)
    assert ref
    folder = machine.folder(ref)
    died = subprocess.Popen(["true"])
    folder.put_file("supervisor", str(process.identify(died.pid)))
    died.wait()
    lock = take_lock(folder.file_path("lock"))
    assert lock is not None
    assert machine.see(ref).phase is Phase.PENDING
    os.close(lock)
    assert machine.see(ref).reason == "its supervisor was killed before the job started"


def test_what_the_command_left_behind_still_runs_without_a_supervisor(
    machine: Machine, tmp_path: Path
) -> None:
    over, go = tmp_path / "over", tmp_path / "go"
    command = (
        f"(until [ -e {go} ]; do sleep 0.05; done; echo late) & until [ -e "
        f"{over} ]; do sleep 0.05; done"
    )
    ref = machine.submit(command)
    leader = machine.identity(ref, "process")
    machine.kill_supervisor(ref)
    over.touch()
    until(lambda: not leader.alive)
    assert machine.see(ref).phase is Phase.RUNNING
    go.touch()
    assert machine.log(ref) == b"late\n"


@pytest.mark.parametrize(("code", "phase"), [(0, Phase.SUCCEEDED), (3, Phase.FAILED)])
def test_the_jobs_own_manifest_decides_when_nobody_saw_the_end(
    machine: Machine, code: int, phase: Phase
) -> None:
    ref = unseen(machine, json.dumps({"attempt": 1, "whole": True, "exit_code": code}))
    seen = machine.see(ref)
    assert (seen.phase, seen.exit_code) == (phase, code)
    assert machine.backend.outcome(ref) == Outcome(True, code)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"attempt": 2, "whole": True, "exit_code": 0}),
        json.dumps({"attempt": 1, "whole": False, "exit_code": 0}),
        json.dumps({"attempt": 1, "whole": True}),
        '{"attempt": 1, "who',
        "[]",
    ],
)
def test_another_attempts_or_an_unfinished_manifest_decides_nothing(
    machine: Machine, text: str
) -> None:
    assert (
        machine.see(unseen(machine, text)).reason
        == "its supervisor was killed; the exit code is not known"
    )


def unseen(machine: Machine, manifest: str) -> Ref:
    """A job that has ended, after its supervisor, leaving this manifest."""
    ref = machine.submit(
        f"mkdir -p $TAO_RESULTS_DIR/.tao; printf %s '{manifest}' > "
        "$TAO_RESULTS_DIR/.tao/manifest.json; kill -KILL $PPID"
    )
    leader, supervisor = machine.identity(ref, "process"), machine.identity(ref, "supervisor")
    until(lambda: not leader.alive and not supervisor.alive)
    return ref


def restart(machine: Machine, ref: Ref, boot: str = "the-boot-before") -> None:
    """Make the records of a job those of a boot that is over."""
    for name in ("supervisor", "process"):
        path = Path(machine.folder(ref).path, name)
        if path.exists():
            pid, start, _, space = path.read_text().split()
            path.write_text(f"{pid} {start} {boot} {space}")


def test_a_restart_of_the_machine_is_told_even_if_the_ids_are_used_again(machine: Machine) -> None:
    ref = machine.submit("sleep 300")
    process = machine.identity(ref, "process")
    machine.kill_supervisor(ref)
    restart(machine, ref)
    seen = machine.see(ref)
    assert process.alive
    assert (seen.phase, seen.reason) == (
        Phase.FAILED,
        "the machine was restarted while the job ran",
    )
    assert machine.backend.evidence(ref).events[0].node_event_name == "MachineRestarted"
    os.killpg(process.pid, signal.SIGKILL)


def test_a_restart_before_the_start_is_told_apart(machine: Machine) -> None:
    machine.has_gpus(1)
    machine.submit("sleep 300", gpu_count=1)
    waiting = machine.submit("true", gpu_count=1)
    machine.kill_supervisor(waiting)
    restart(machine, waiting)
    assert machine.see(waiting).reason == "the machine was restarted before the job started"


def test_an_exit_record_that_a_power_cut_emptied_counts_as_none(machine: Machine) -> None:
    ref = machine.submit("exit 3")
    machine.end(ref)
    Path(machine.folder(ref).path, "exit").write_text("")
    restart(machine, ref)
    assert machine.see(ref).reason == "the machine was restarted while the job ran"


@pytest.mark.parametrize(
    ("seen", "phase", "words"),
    [
        (Seen(), Phase.PENDING, "submit has not been finished"),
        (Seen(supervisor=Life.TAKEN), Phase.PENDING, "starting"),
        (Seen(supervisor=Life.ALIVE), Phase.PENDING, "starting"),
        (Seen(supervisor=Life.STOPPED, supervisor_pid=7), Phase.PENDING, "kill -CONT 7"),
        (
            Seen(supervisor=Life.STOPPED, process=Life.GONE, supervisor_pid=7),
            Phase.RUNNING,
            "kill -CONT 7",
        ),
        (
            Seen(supervisor=Life.ALIVE, waiting="waits for 2 free GPUs"),
            Phase.PENDING,
            "waits for 2 free GPUs",
        ),
        (Seen(supervisor=Life.ALIVE, process=Life.ALIVE, pid=7), Phase.RUNNING, "running"),
        (Seen(supervisor=Life.ALIVE, process=Life.STOPPED, pid=7), Phase.PAUSED, "stopped"),
        (Seen(supervisor=Life.ALIVE, process=Life.GONE), Phase.RUNNING, "ending"),
        (Seen(supervisor=Life.GONE, process=Life.ALIVE), Phase.RUNNING, "supervisor was killed"),
        (Seen(supervisor=Life.GONE), Phase.FAILED, "killed before the job started"),
        (Seen(supervisor=Life.GONE, process=Life.GONE), Phase.FAILED, "exit code is not known"),
        (
            Seen(supervisor=Life.ELSEWHERE, process=Life.ELSEWHERE),
            Phase.FAILED,
            "its container was stopped while the job ran",
        ),
        (
            Seen(supervisor=Life.RESTARTED, process=Life.RESTARTED, outcome=Outcome(True, 0)),
            Phase.SUCCEEDED,
            "by its manifest",
        ),
    ],
)
def test_every_combination_has_its_words(seen: Seen, phase: Phase, words: str) -> None:
    observed = parse.observation(seen)
    assert observed.phase is phase
    assert words in f"{observed.raw} {observed.reason}"
    assert "process 7" not in observed.raw, "that is the runner, and not the program"


def test_being_killed_while_memory_ran_out_is_told_as_that() -> None:
    record = {
        **parse.canceled_record(1.0, 2.0),
        "canceled": False,
        "exit_code": 137,
        "signal": 9,
        "oom_kills": 1,
    }
    seen = parse.observation(Seen(exit=record))
    assert (seen.phase, seen.exit_code) == (Phase.FAILED, 137)
    assert "out of memory" in seen.reason
    assert [event.node_event_name for event in parse.node_events(seen, record)] == ["OOMKilled"]


def test_evidence_says_what_a_job_waits_for(machine: Machine) -> None:
    machine.has_gpus(1)
    holder = machine.submit("sleep 300", gpu_count=1)
    waiting = machine.submit("true", gpu_count=1)
    until(lambda: machine.see(waiting).reason)
    evidence = machine.backend.evidence(waiting)
    assert (evidence.phase, evidence.reason) == (
        "pending",
        f"waits for 1 free GPU (held by {holder.attempt.job_id})",
    )
    assert machine.backend.diagnose(evidence) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"exit_code": "3"},
        {"signal": None},
        {"started": 1e300},
        {"ended": float("nan")},
        {"ended": float("-inf")},
        {"time_limit": 1e300},
        {"exit_code": 2**70},
    ],
)
def test_an_exit_record_that_makes_no_sense_decides_nothing(
    machine: Machine, change: dict[str, Any]
) -> None:
    ref = machine.submit("true")
    until(lambda: machine.see(ref).phase.ended)
    path = Path(machine.folder(ref).file_path("exit"))
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    until(
        lambda: machine.see(ref).phase is not Phase.RUNNING
    )  # its supervisor may be there for a moment more
    assert machine.see(ref).reason == "its supervisor was killed; the exit code is not known"


@pytest.mark.parametrize("code", [-1, 256, 2**70, 1.5])
def test_an_exit_code_that_no_process_can_have_is_not_known(code: float) -> None:
    assert parse_manifest(
        json.dumps({"attempt": 1, "whole": True, "exit_code": code}), 1
    ) == Outcome(False, None)


@pytest.mark.parametrize(
    ("groups", "counters"),
    [
        ("0::/user.slice/a.scope\n", ["/sys/fs/cgroup/user.slice/a.scope/memory.events"]),
        (
            "4:cpu,memory:/box\n0::/\n",
            ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/box/memory.oom_control"],
        ),
        ("1:cpu:/\n", []),
        ("", []),
    ],
)
def test_the_kernel_is_asked_for_kills_in_the_jobs_own_control_group(
    groups: str, counters: list[str]
) -> None:
    assert memory_counters(groups) == counters


def test_the_kernels_count_of_kills_is_read_in_each_of_its_forms(tmp_path: Path) -> None:
    file = tmp_path / "memory.events"
    assert count_oom_kills(str(file)) is None
    for text, count in (
        ("low 0\noom 3\noom_kill 2\noom_group_kill 1\n", 2),  # version 2
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n", 4),  # version 1
        ("oom_kill_disable 0\nunder_oom 0\n", None),  # a kernel before 4.13
        ("", None),
    ):
        file.write_text(text)
        assert count_oom_kills(str(file)) == count


def test_a_shell_that_tells_of_a_killed_command_while_memory_ran_out_is_believed() -> None:
    """The runner and a shell end with 137 themselves: no signal ended them."""
    record = {
        **parse.canceled_record(1.0, 2.0),
        "canceled": False,
        "exit_code": 137,
        "oom_kills": 1,
    }
    seen = parse.observation(Seen(exit=record))
    assert seen.reason_code is Reason.OUT_OF_MEMORY
    assert [event.node_event_name for event in parse.node_events(seen, record)] == ["OOMKilled"]
    by_hand = {**record, "oom_kills": 0}
    assert parse.observation(Seen(exit=by_hand)).reason_code is not Reason.OUT_OF_MEMORY
