"""Supervisors are forked by one small server of the client, which leaves nothing behind."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.machine import Machine, all_processes, until
from tao_sdk.backends.local.supervision import fork_server
from tao_sdk.model.observation import Phase
from tao_sdk.model.plan import Ref


def supervisor_of(machine: Machine, ref: Ref) -> int:
    return machine.identity(ref, "supervisor").pid


def program_started(pid: int) -> str:
    """When the memory of a process was filled by exec: where its heap begins differs each time."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return next(line.partition("-")[0] for line in maps if line.endswith("[heap]"))


def test_jobs_that_are_submitted_one_after_the_other_share_one_python(machine: Machine) -> None:
    refs = [machine.submit("sleep 300") for _ in range(4)]
    pids = {supervisor_of(machine, ref) for ref in refs}
    assert len(pids) == 4
    assert len({program_started(pid) for pid in pids}) == 1
    assert len({os.getsid(pid) for pid in pids}) == 4


@pytest.mark.slow
def test_a_server_ends_when_it_has_nothing_to_do_and_leaves_no_child_of_ours(
    machine: Machine,
) -> None:
    first = machine.submit("sleep 300")
    until(lambda: not machine.fork_servers())
    assert defunct_children() == []
    second = machine.submit("exit 3")
    assert machine.end(second).exit_code == 3
    until(lambda: machine.see(first).phase is Phase.RUNNING)


def defunct_children() -> list[str]:
    """Children of ours that have ended and that nobody has asked for."""
    stats = [stat_of(pid) for pid in all_processes()]
    ours = ["Z", str(os.getpid())]
    return [stat for stat in stats if stat.rpartition(")")[2].split()[:2] == ours]


def stat_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return ""


def seen_server(machine: Machine) -> tuple[list[str], int, Path, bytes] | None:
    """What a server has open, its session, folder and environment; None if it has ended: it does
    so after a second with nothing to do.
    """
    machine.submit("sleep 300")
    try:
        [pid] = machine.fork_servers()
        opened = [fd.readlink() for fd in Path(f"/proc/{pid}/fd").iterdir()]
        kinds = sorted(str(target).partition(":")[0] for target in opened)
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        seen = kinds, os.getsid(pid), Path(f"/proc/{pid}/cwd").readlink(), environ
    except (OSError, ValueError):
        return None
    return seen if kinds else None


def test_a_server_has_nothing_of_the_client_but_its_pipes(machine: Machine) -> None:
    read_end, write_end = os.pipe()
    os.set_inheritable(read_end, True)
    opened, session, folder, environ = until(lambda: seen_server(machine))
    assert opened == ["/dev/null", "pipe", "pipe"]
    assert session != os.getsid(0)
    assert folder == Path("/")
    assert environ in (b"", b"LC_CTYPE=C.UTF-8\0")
    os.close(read_end)
    os.close(write_end)


def test_a_server_that_was_killed_is_replaced(machine: Machine) -> None:
    machine.submit("sleep 300")
    for pid in machine.fork_servers():
        os.kill(pid, signal.SIGKILL)
    assert machine.end(machine.submit("exit 3")).exit_code == 3


def test_a_closed_client_leaves_no_server(machine: Machine) -> None:
    ref = machine.submit("sleep 300")
    machine.backend.close()
    until(lambda: not machine.fork_servers())
    until(lambda: machine.see(ref).phase is Phase.RUNNING)


def test_submits_side_by_side_have_a_server_each(machine: Machine) -> None:
    plans = [machine.plan("exit 3") for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        refs = list(pool.map(machine.start, plans))
    assert [machine.end(ref).exit_code for ref in refs] == [3] * 6


@pytest.mark.slow
def test_a_fork_of_the_client_has_servers_of_its_own(machine: Machine) -> None:
    machine.submit("sleep 300")
    child = os.fork()
    if child == 0:
        os._exit(0 if machine.submit("sleep 300").ready else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert machine.end(machine.submit("exit 3")).exit_code == 3


def test_each_job_has_the_environment_of_its_own_message(machine: Machine) -> None:
    refs = [machine.submit('echo "$WORD"', env_vars={"WORD": word}) for word in ("one", "two")]
    for ref in refs:
        machine.end(ref)
    assert [machine.log(ref) for ref in refs] == [b"one\n", b"two\n"]


@pytest.mark.parametrize("content", [b"", b"\0", b"x" * 300_000], ids=["none", "a NUL", "much"])
def test_what_goes_through_a_pipe_arrives_whole_or_not_at_all(content: bytes) -> None:
    read_end, write_end = os.pipe()
    sender = threading.Thread(target=fork_server.send_message, args=(write_end, content))
    sender.start()
    assert fork_server.receive_message(read_end) == content
    sender.join()
    os.write(write_end, b"\0\0\0")
    os.close(write_end)
    assert fork_server.receive_message(read_end) is None
    os.close(read_end)
