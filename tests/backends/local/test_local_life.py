"""A local job from start to end, as the backend sees it: it runs, ends as its command does, and
leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from support.machine import Machine, all_processes, until
from tao_sdk.backends.contract import LogRequest
from tao_sdk.backends.local import logs
from tao_sdk.backends.local.options import LocalOptions
from tao_sdk.backends.local.supervision.supervisor_start import SOURCE
from tao_sdk.engine.rules import RULES, diagnose
from tao_sdk.model.observation import Phase
from tao_sdk.model.plan import Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.model.rule import first_match
from tao_sdk.model.spec import JobSpec
from tao_sdk.payload.prepared_job import pack_spec

ODD = "a b\t'q' \"d\" $HOME $(id) `id` \\ ; & | < > * ? [x] {y} ~ # ! % ü 日本 \n second line"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "phase", "code"),
    [
        ("true", Phase.SUCCEEDED, 0),
        ("exit 3", Phase.FAILED, 3),
        ("exit 137", Phase.FAILED, 137),
        ("kill -KILL $$", Phase.FAILED, 137),
        ("kill -TERM $$", Phase.FAILED, 143),
        ("no-such-program", Phase.FAILED, 127),
    ],
)
def test_a_job_ends_as_its_command_does(
    machine: Machine, command: str, phase: Phase, code: int
) -> None:
    ended = machine.end(machine.submit(command))
    assert (ended.phase, ended.exit_code) == (phase, code)
    assert ended.started_at and ended.ended_at and ended.started_at <= ended.ended_at


def test_a_failure_is_told_in_words(machine: Machine) -> None:
    assert machine.end(machine.submit("exit 3")).reason == "exit code 3"
    assert machine.end(machine.submit("kill -SEGV $$")).reason == "ended by SIGSEGV"
    assert machine.end(machine.submit("true")).reason == ""


def test_a_running_job_is_running_since_it_started(machine: Machine) -> None:
    ref = machine.submit("sleep 300")
    seen = until(lambda: s if (s := machine.see(ref)).phase is Phase.RUNNING else None)
    assert seen.started_at is not None
    assert seen.raw == "running"


def test_a_stopped_job_is_paused_and_can_be_canceled(machine: Machine) -> None:
    ref = machine.submit("echo begun; exec sleep 300")
    machine.says(ref, b"begun")
    os.kill(machine.identity(ref, "process").pid, signal.SIGSTOP)
    until(lambda: machine.see(ref).phase is Phase.PAUSED)
    assert machine.cancels(ref, timedelta(seconds=10))
    assert machine.see(ref).exit_code == 143


def test_a_stopped_process_is_explained_with_the_command_that_lets_it_go_on(
    machine: Machine,
) -> None:
    ref = machine.submit("echo begun; exec sleep 300")
    machine.says(ref, b"begun")
    pid = machine.identity(ref, "process").pid
    os.kill(pid, signal.SIGSTOP)
    until(lambda: machine.see(ref).phase is Phase.PAUSED)
    found = diagnose(machine.backend.evidence(ref))
    assert found.reason_code is Reason.PROCESS_STOPPED
    assert str(pid) in found.what
    assert f"kill -CONT {pid}" in found.next


TRAINER = "import os, time; print('trainer', os.getpid(), flush=True); time.sleep(300)"


def pids_named(machine: Machine, ref: Ref, number: int) -> list[int]:
    """The ids that so many trainers have printed."""
    until(lambda: machine.printed(ref).count(b"\n") == number)
    return [int(line.split()[-1]) for line in machine.printed(ref).splitlines()]


@pytest.mark.slow
def test_a_job_is_paused_while_everything_in_it_waits_for_stopped_processes(
    machine: Machine,
) -> None:
    ref = machine.submit(f'for n in 1 2; do python3 -c "{TRAINER}" & done; wait')
    first, second = pids_named(machine, ref, 2)
    os.kill(first, signal.SIGSTOP)
    assert machine.see(ref).phase is Phase.RUNNING  # the other one goes on
    os.kill(second, signal.SIGSTOP)
    paused = until(lambda: seen if (seen := machine.see(ref)).phase is Phase.PAUSED else None)
    assert set(paused.stopped_pids) == {first, second}
    assert str(first) in paused.reason and str(second) in paused.reason
    assert paused.reason_code is Reason.PROCESS_STOPPED
    os.kill(second, signal.SIGCONT)
    until(lambda: machine.see(ref).phase is Phase.RUNNING)


@pytest.mark.slow
def test_a_job_runs_on_while_only_the_shell_around_its_program_is_stopped(
    machine: Machine,
) -> None:
    ref = machine.submit(f'python3 -c "{TRAINER}"; true')
    (trainer,) = pids_named(machine, ref, 1)
    shell = machine.identity(ref, "process").pid
    os.kill(shell, signal.SIGSTOP)
    until(lambda: machine.backend.activity(ref).stopped_pids == (shell,))
    assert machine.see(ref).phase is Phase.RUNNING
    os.kill(trainer, signal.SIGSTOP)
    paused = until(lambda: seen if (seen := machine.see(ref)).phase is Phase.PAUSED else None)
    assert set(paused.stopped_pids) == {shell, trainer}


def test_children_that_wait_for_a_stopped_process_do_not_hide_it(machine: Machine) -> None:
    ref = machine.submit(f'python3 -c "import os; os.fork(); {TRAINER}"; true')
    pids = pids_named(machine, ref, 2)
    parent = next(pid for pid in pids if parent_of(pid) not in pids)
    os.kill(parent, signal.SIGSTOP)
    paused = until(lambda: seen if (seen := machine.see(ref)).phase is Phase.PAUSED else None)
    assert paused.stopped_pids == (parent,)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


LAUNCHER = """
import signal, subprocess, sys
trainer = subprocess.Popen([sys.executable, sys.argv[1]], process_group=0)
signal.signal(signal.SIGTERM, lambda *_: trainer.terminate())
print(trainer.pid, flush=True)
trainer.wait()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="subprocess has no process_group")
def test_a_stopped_trainer_in_a_group_of_its_own_saves_when_its_job_is_canceled(
    machine: Machine, tmp_path: Path
) -> None:
    launcher, program = tmp_path / "launcher.py", tmp_path / "saves.py"
    launcher.write_text(LAUNCHER)
    program.write_text(SAVES)
    ref = machine.submit(f"exec {sys.executable} {launcher} {program}")
    machine.says(ref, b"up")
    pid = int(next(line for line in machine.printed(ref).split() if line.isdigit()))
    os.kill(pid, signal.SIGSTOP)
    until(lambda: machine.see(ref).phase is Phase.PAUSED)
    assert machine.cancels(ref, timedelta(seconds=20))
    assert machine.log(ref).endswith(b"asked\nsaved\n")


def test_what_a_command_leaves_running_ends_with_it(machine: Machine) -> None:
    ref = machine.submit("sleep 300 & (sleep 300; true) & set -m; sleep 300 & echo left")
    assert machine.end(ref).exit_code == 0
    assert machine.processes(ref) == []


SAVES = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
print("up", flush=True)
signal.pause()
time.sleep(0.7)
print("saved", flush=True)
"""


@pytest.mark.slow
def test_a_program_that_outlives_its_shell_is_asked_once_and_given_the_grace(
    machine: Machine, tmp_path: Path
) -> None:
    program = tmp_path / "saves.py"
    program.write_text(SAVES)
    ref = machine.submit(f"{sys.executable} {program} & wait")
    machine.says(ref, b"up")
    assert machine.cancels(ref, timedelta(seconds=10))
    assert machine.log(ref) == b"up\nasked\nsaved\n"


@pytest.mark.slow
def test_a_time_limit_ends_the_job_and_says_so(machine: Machine) -> None:
    ref = machine.submit(
        "trap 'echo told; exit 0' TERM; echo begun; sleep 300 & wait",
        time_limit=timedelta(seconds=5),
    )
    ended = machine.end(ref)
    assert (ended.phase, ended.reason) == (Phase.FAILED, "time limit of 5s reached")
    assert machine.log(ref) == b"begun\ntold\n"
    assert machine.processes(ref) == []


def test_the_command_starts_where_the_job_was_submitted_with_an_empty_input(
    machine: Machine,
) -> None:
    assert machine.log(machine.submit("pwd; cat; echo end")) == f"{Path.cwd()}\nend\n".encode()


def test_the_command_gets_only_the_descriptors_it_needs(machine: Machine, tmp_path: Path) -> None:
    with (tmp_path / "secret file of the client").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        listed = machine.log(machine.submit("ls -l /proc/self/fd | sed 's/.*-> //'")).decode()
    assert "secret file" not in listed
    own = {
        line
        for line in listed.split("\n")
        if line and not line.startswith(("total", "/dev/null", "/proc", "pipe:"))
    }
    folder = f"{machine.state}/local/"
    assert all(line.startswith(folder) and line.endswith(("/log", "/lock")) for line in own)


def test_signals_that_python_or_the_client_ignore_are_as_a_shell_expects_them(
    machine: Machine,
) -> None:
    """SIGPIPE above all: `yes | head` must end by it. The client may have been started by nohup."""
    before = (
        signal.signal(signal.SIGHUP, signal.SIG_IGN),
        signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )
    try:
        ref = machine.submit("grep -E 'Sig(Ign|Blk)' /proc/self/status")
    finally:
        signal.signal(signal.SIGHUP, before[0])
        signal.signal(signal.SIGCHLD, before[1])
    masks = [int(line.split()[1], 16) for line in machine.log(ref).decode().splitlines()]
    the_c_librarys_own = 1 << 31 | 1 << 32  # signals 32 and 33, which no program can set
    assert [mask & ~the_c_librarys_own for mask in masks] == [0, 0]


def test_command_environment_and_folders_may_hold_anything(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path.cwd() / ODD.replace("/", "")
    folder.mkdir()
    monkeypatch.chdir(folder)
    command = f"printf %s \"$ODD\"; printf '%s' '|ü'; printf '|%s' \"$PWD\" # {ODD}"
    log = machine.log(machine.submit(command, env_vars={"ODD": ODD}))
    assert log.startswith(f"{ODD}|ü|{folder}".encode())


def test_a_very_long_command_is_run(machine: Machine) -> None:
    ref = machine.submit(f"# {'x' * 300_000}\necho end")
    assert machine.log(ref) == b"end\n"


def test_an_environment_too_large_for_the_kernel_is_told(machine: Machine) -> None:
    ended = machine.end(machine.submit("true", env_vars={"BIG": "x" * 200_000}))
    assert (ended.phase, ended.exit_code) == (Phase.FAILED, 127)
    assert "it could not be started" in ended.reason
    assert "Argument list too long" in ended.reason


def test_a_folder_that_vanished_before_the_start_is_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    plan = machine.plan("true")
    gone.rmdir()
    monkeypatch.chdir(tmp_path)
    ended = machine.end(machine.start(plan))
    assert str(gone) in ended.reason
    assert "No such file or directory" in ended.reason


def test_a_secret_reaches_the_command_and_lies_nowhere(machine: Machine) -> None:
    secret = f"hidden-{os.getpid()}-value"
    digest = hashlib.sha256(secret.encode()).hexdigest()
    command = "printf %s $API_KEY | sha256sum; sleep 300"
    ref = machine.submit(command, given={"API_KEY": secret}, env_vars={"API_KEY": secret})
    machine.says(ref, digest.encode())
    seen = [pid for pid in all_processes() if secret.encode() in arguments(pid)]
    assert seen == []
    assert [
        path
        for path in machine.state.rglob("*")
        if path.is_file() and secret.encode() in path.read_bytes()
    ] == []


def arguments(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_nothing_of_a_job_can_be_read_by_others(machine: Machine) -> None:
    ref = machine.submit("echo private; sleep 300")
    machine.says(ref, b"private")
    paths = [machine.state, *machine.state.rglob("*")]
    assert len(paths) > 8
    assert [path for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_the_supervisor_holds_nothing_of_the_client(machine: Machine) -> None:
    ref = machine.submit("sleep 300", env_vars={"API_KEY": "hidden"}, given={"API_KEY": "hidden"})
    pid = machine.identity(ref, "supervisor").pid
    folder = machine.folder(ref).path
    ours = {"/dev/null", f"{folder}/lock", f"{folder}/trouble"}
    until(
        lambda: opened(pid) <= ours
    )  # a pipe to the child it starts, and what it looks at, are open for a moment
    assert os.getsid(pid) != os.getsid(0)
    assert b"hidden" not in Path(f"/proc/{pid}/environ").read_bytes()


def opened(pid: int) -> set[str]:
    """What a process has open now."""
    found = set[str]()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(str(fd.readlink()))
    return found


def test_the_supervisor_starts_without_heavy_imports() -> None:
    """Each would be time that every submit takes, and memory that every job holds."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import tao_sdk.backends.local.supervision.fork_server; "
        "print(*sys.modules)"
    )
    argv = [sys.executable, "-I", "-S", "-c", script, str(SOURCE)]
    loaded = set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())
    assert "tao_sdk.backends.local.supervision.fork_server" in loaded
    heavy = {
        "argparse",
        "contextlib",
        "dataclasses",
        "inspect",
        "json",
        "pathlib",
        "re",
        "shutil",
        "subprocess",
        "typing",
    }
    assert loaded & heavy == set()


@pytest.fixture
def small(machine: Machine) -> Iterator[Machine]:
    """The machine, with one MiB for its state."""
    if os.geteuid() != 0:
        pytest.skip("a full disk needs root: a small tmpfs is mounted")
    machine.state.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(machine.state)], check=True
    )
    yield machine
    machine.clear()
    subprocess.run(["umount", "-l", str(machine.state)], check=True)


def test_a_job_whose_log_had_no_room_is_explained(small: Machine) -> None:
    ref = small.submit("head -c 4000000 /dev/zero; exit 1")
    assert small.end(ref).exit_code == 1
    found = first_match(RULES, small.backend.evidence(ref))
    assert found is not None
    assert (found.rule, str(small.state) in found.cause) == ("disk_full", True)


def test_a_log_that_had_no_room_says_so_at_its_end(small: Machine) -> None:
    ref = small.submit("head -c 4000000 /dev/zero; true")
    assert small.end(ref).phase is Phase.SUCCEEDED
    chunks = list(small.backend.logs(ref, LogRequest()))
    log = b"".join(chunk.data for chunk in chunks)
    assert log.endswith(b"\0" + logs.CUT)
    assert log.count(logs.CUT) == 1
    again = [list(small.backend.logs(ref, LogRequest(cursor=chunk.cursor))) for chunk in chunks]
    assert [each[-1].data for each in again[:-1]] == [logs.CUT] * (len(chunks) - 1)
    assert again[-1] == []


@pytest.mark.slow
def test_a_log_whose_disk_was_full_for_a_while_says_so_at_its_end(small: Machine) -> None:
    filler = small.state / "filler"
    command = f"head -c 4000000 /dev/zero > {filler}; echo lost; sleep 2.5; rm {filler}; echo kept"
    assert small.log(small.submit(command)).endswith(b"kept\n" + logs.CUT)


@pytest.mark.slow
def test_a_job_whose_folder_is_gone_is_still_ended_by_its_time_limit(machine: Machine) -> None:
    ref = machine.submit("sleep 300", time_limit=timedelta(seconds=2))
    leader = machine.identity(ref, "process")
    shutil.rmtree(machine.folder(ref).path)
    until(lambda: not leader.alive)


def test_a_log_that_had_room_ends_as_the_job_did(small: Machine) -> None:
    assert small.log(small.submit("head -c 500000 /dev/zero; printf end"))[-4:] == b"\0end"


def test_released_jobs_leave_their_results_and_nothing_else(machine: Machine) -> None:
    ref = machine.submit('echo kept > "$TAO_RESULTS_DIR/result"')
    machine.end(ref)
    machine.backend.release(ref)
    machine.backend.release(ref)
    assert machine.see(ref).phase is Phase.ABSENT
    assert machine.backend.find(ref.attempt) is None
    assert list((machine.state / "local").iterdir()) == [machine.state / "local" / ".aside"]
    assert Path(ref.details["results_dir"], "result").read_text() == "kept\n"


def test_the_place_for_results_is_there_and_goes_when_nothing_was_written(machine: Machine) -> None:
    ref = machine.submit("test -d $TAO_RESULTS_DIR && echo there")
    assert machine.log(ref) == b"there\n"
    assert not Path(ref.details["results_dir"]).exists()


def test_a_job_runs_where_no_results_can_be_written(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ref = machine.submit(
        "echo ran", env_vars={"TAO_RESULTS_ROOT": str(tmp_path / "file" / "below")}
    )
    assert machine.log(ref) == b"ran\n"
    assert machine.see(ref).phase is Phase.SUCCEEDED


def test_releasing_a_running_job_ends_it_first(machine: Machine) -> None:
    ref = machine.submit("sleep 300")
    until(lambda: machine.processes(ref))
    machine.backend.release(ref)
    assert machine.processes(ref) == []


def test_many_jobs_are_observed_without_starting_a_program(machine: Machine) -> None:
    ref = machine.submit("sleep 300")
    until(lambda: machine.see(ref).phase is Phase.RUNNING)
    others = [replace(ref, attempt=machine.plan("true").attempt) for _ in range(300)]
    with programs_started() as started:
        seen = machine.backend.observe([ref, *others])
    assert started == []
    assert seen[ref].phase is Phase.RUNNING
    assert {seen[other].phase for other in others} == {Phase.ABSENT}


@contextlib.contextmanager
def programs_started() -> Iterator[list[str]]:
    """How this process starts others meanwhile, one entry each time."""
    started: list[str] = []
    listening = True

    def hear(event: str, _: object) -> None:  # a hook stays for good
        if listening and event in ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.system"):
            started.append(event)

    sys.addaudithook(hear)
    yield started
    listening = False


def test_a_program_that_is_started_is_noticed() -> None:
    with programs_started() as started:
        subprocess.run(["true"], check=True)
    assert started[:1] == ["subprocess.Popen"]


def test_a_job_of_another_machine_is_out_of_reach_not_gone(machine: Machine) -> None:
    ref = machine.submit("sleep 300")
    elsewhere = replace(ref, endpoint="another-machine")
    seen = machine.see(elsewhere)
    assert seen.phase is Phase.UNREACHABLE
    assert "another-machine" in seen.reason


def test_two_attempts_of_a_job_do_not_meet(machine: Machine) -> None:
    plan = machine.plan("echo $TAO_ATTEMPT; exit 1")
    first = machine.start(plan)
    machine.end(first)
    spec = JobSpec(command="echo $TAO_ATTEMPT", gpu_count=0)
    job = pack_spec(spec)
    facts = machine.backend.survey(job, LocalOptions())
    second = machine.start(
        machine.backend.plan(job, LocalOptions(), facts, replace(plan.attempt, number=2))
    )
    assert (machine.log(first), machine.log(second)) == (b"1\n", b"2\n")
