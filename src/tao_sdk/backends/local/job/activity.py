"""Activity: what a running attempt's processes do now, by /proc. Read-only.

Not here: whether the attempt runs at all (sight.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from tao_sdk.backends.local.job.folder import Folder
from tao_sdk.model.activity import Activity, MainProcess
from tao_sdk.model.printable import printable
from tao_sdk.transports.process_tree import STOPPED, ProcessTree

MEASURED_SECONDS = 0.5  # between the two reads of the CPU time
NAME_LENGTH = 64  # the most characters of a name or path to show
GROUP, USER_TICKS, SYSTEM_TICKS = 2, 11, 12  # fields of /proc/<pid>/stat, counted from the state

# The system calls in which a process waits, by machine and number.
SYSTEM_CALLS: Mapping[str, Mapping[int, str]] = {
    "x86_64": {
        0: "read", 1: "write", 7: "poll", 23: "select", 35: "nanosleep", 42: "connect",
        43: "accept", 45: "recvfrom", 47: "recvmsg", 61: "wait4", 73: "flock", 202: "futex",
        230: "clock_nanosleep", 232: "epoll_wait", 247: "waitid", 257: "openat",
        270: "pselect6", 271: "ppoll", 281: "epoll_pwait", 288: "accept4",
    },
    "aarch64": {
        63: "read", 64: "write", 73: "ppoll", 72: "pselect6", 101: "nanosleep", 203: "connect",
        202: "accept", 207: "recvfrom", 212: "recvmsg", 260: "wait4", 32: "flock", 98: "futex",
        115: "clock_nanosleep", 22: "epoll_pwait", 95: "waitid", 56: "openat", 242: "accept4",
    },
}  # fmt: skip


class Member(NamedTuple):
    """One process of the job."""

    pid: int
    state: str
    group: int
    cpu_seconds: float


def look_at(folder: Folder) -> Activity:
    """Return what the folder's attempt does now. Takes MEASURED_SECONDS."""
    leader = folder.read_identity("process")
    changed_at = log_changed_at(folder)
    if leader is None or not leader.alive:
        return Activity(changed_at)
    before = {member.pid: member for member in living_members(leader.pid)}
    began = time.monotonic()
    time.sleep(MEASURED_SECONDS)
    after = living_members(leader.pid)
    seconds = time.monotonic() - began
    used = sum(
        member.cpu_seconds - before[member.pid].cpu_seconds
        for member in after
        if member.pid in before
    )
    return Activity(
        changed_at,
        cpu_cores=round(max(used, 0.0) / seconds, 2),
        cpu_seconds=round(sum(member.cpu_seconds for member in after), 2),
        main=main_process(leader.pid, after),
        stopped_pids=tuple(member.pid for member in after if member.state == STOPPED),
    )


def log_changed_at(folder: Folder) -> datetime | None:
    """The time at which the job last printed; None if it has printed nothing."""
    try:
        stat = Path(folder.file_path("log")).stat()
    except OSError:
        return None
    return datetime.fromtimestamp(stat.st_mtime, timezone.utc) if stat.st_size else None


def living_members(leader: int) -> list[Member]:
    """The living processes of the job, parents before their children."""
    found = (read_member(pid) for pid in ProcessTree().list_family(leader))
    return [each for each in found if each is not None]


def read_member(pid: int) -> Member | None:
    fields = read_file(pid, "stat").rpartition(") ")[2].split()
    if len(fields) <= SYSTEM_TICKS:
        return None
    ticks = int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])
    return Member(pid, fields[0], int(fields[GROUP]), ticks / os.sysconf("SC_CLK_TCK"))


def main_process(leader: int, family: Sequence[Member]) -> MainProcess | None:
    """The process with the most CPU time in whole seconds, the last of equals.

    The runner's group, the first one, counts only if it is alone: it is not the command.
    """
    commands = [each for each in family if each.group != leader] or family
    if not commands:
        return None
    chosen = max(reversed(commands), key=lambda each: int(each.cpu_seconds))
    return MainProcess(
        chosen.pid,
        shown_text(read_file(chosen.pid, "comm")),
        chosen.state,
        "" if chosen.state == "R" else waits_in(chosen.pid),
        read_link(chosen.pid, "exe").rpartition("/")[2].startswith("python"),
    )


def waits_in(pid: int) -> str:
    """The kernel function in which a process waits. If the kernel hides it, the system call."""
    function = read_file(pid, "wchan").strip()
    if function not in ("", "0"):
        return shown_text(function)
    words = read_file(pid, "syscall").split()
    calls = SYSTEM_CALLS.get(os.uname().machine, {})
    if not words or not words[0].isdigit():
        return ""
    call = calls.get(int(words[0]), "")
    return f"{call} of {read_from(pid, words[1])}" if call in ("read", "write") else call


def read_from(pid: int, descriptor: str) -> str:
    """The file behind a system call's descriptor (hexadecimal); `a file` if not known."""
    return shown_text(read_link(pid, f"fd/{int(descriptor, 16)}")) or "a file"


def read_file(pid: int, name: str) -> str:
    """The text of a file in /proc/<pid>; "" if it is gone or not readable."""
    try:
        with Path(f"/proc/{pid}/{name}").open("rb") as file:
            return file.read(4096).decode("utf-8", "replace")
    except OSError:
        return ""


def read_link(pid: int, name: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/{name}").readlink())
    except OSError:
        return ""


def shown_text(text: str) -> str:
    return printable(text.strip())[:NAME_LENGTH]
