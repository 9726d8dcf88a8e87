"""Activity: what a running job does now, as far as its backend can tell. It helps with a job that
may hang.

Not here: how it is found out (backends/*/job/activity.py) and how it is shown (cli/show.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tao_sdk.model.clock import to_iso

# A kernel function or system call begins like this -> what the process waits for.
WAITS: Mapping[str, str] = {
    "futex": "a lock or another thread",
    "pipe": "a pipe",
    "anon_pipe": "a pipe",
    "wait_for_partner": "the other end of a pipe",
    "hrtimer_nanosleep": "the end of its own sleep",
    "nanosleep": "the end of its own sleep",
    "clock_nanosleep": "the end of its own sleep",
    "do_wait": "a child process",
    "kernel_wait": "a child process",
    "wait4": "a child process",
    "waitid": "a child process",
    "ep_poll": "an event of a file, a socket or a timer",
    "epoll": "an event of a file, a socket or a timer",
    "do_poll": "an event of a file, a socket or a timer",
    "poll": "an event of a file, a socket or a timer",
    "ppoll": "an event of a file, a socket or a timer",
    "do_select": "an event of a file, a socket or a timer",
    "select": "an event of a file, a socket or a timer",
    "pselect": "an event of a file, a socket or a timer",
    "inet_csk_accept": "a connection to it",
    "accept": "a connection to it",
    "inet_wait_for_connect": "a server to answer",
    "connect": "a server to answer",
    "sk_wait_data": "data from a socket",
    "wait_woken": "data from a socket",
    "unix_stream": "data from a socket",
    "recv": "data from a socket",
    "rpc_wait": "an NFS server",
    "nfs": "an NFS server",
    "request_wait_answer": "a FUSE file system",
    "fuse": "a FUSE file system",
    "folio_wait": "a disk",
    "wait_on_page": "a disk",
    "io_schedule": "a disk",
    "jbd2": "a disk",
    "flock": "a file lock",
    "locks_lock": "a file lock",
    "openat": "a file to be opened",
    "read": "data to read",
    "write": "room to write",
}
STATES: Mapping[str, str] = {
    "R": "runs",
    "S": "sleeps",
    "D": "waits for a device or a file system and cannot be interrupted (state D)",
    "T": "is stopped (SIGSTOP)",
    "t": "is held by a debugger",
}


@dataclass(frozen=True)
class MainProcess:
    """The process that does the job's work: the one that has used most CPU time."""

    pid: int
    name: str
    state: str  # the kernel's letter
    waits_in: str = ""  # a kernel function or system call; "" where it does not wait or tell
    is_python: bool = False

    @property
    def waits_for(self) -> str:
        """Say in words what the process waits for; "" if that is not known."""
        fitting = [words for start, words in WAITS.items() if self.waits_in.startswith(start)]
        if not fitting:
            return ""
        return fitting[0]

    @property
    def command(self) -> str:
        """The command that shows where its Python code is; "" if there is none."""
        if not self.is_python:
            return ""
        return f"py-spy dump --pid {self.pid}"

    def to_json(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "name": self.name,
            "state": self.state,
            "waits_in": self.waits_in,
            "waits_for": self.waits_for,
            "command": self.command,
        }


@dataclass(frozen=True)
class GpuUse:
    """The present use of a GPU of the job, by any program."""

    index: int
    percent: int | None  # of the time in which a kernel ran; None where the driver cannot tell
    memory_mib: int

    def to_json(self) -> dict[str, Any]:
        return {"index": self.index, "percent": self.percent, "memory_mib": self.memory_mib}


@dataclass(frozen=True)
class Activity:
    """The facts from one look into a running attempt. An unknown value is None."""

    log_changed_at: datetime | None = None
    cpu_cores: float | None = None  # used while it was looked at
    cpu_seconds: float | None = None  # used by the processes that live, since they began
    main: MainProcess | None = None
    stopped_pids: tuple[int, ...] = ()  # while others of the job can run
    gpus: tuple[GpuUse, ...] = ()
    enter: str = ""  # the command that opens a shell beside the job's processes

    def to_json(self) -> dict[str, Any]:
        """The object `activity` of `tao why --json` (docs/json.md)."""
        return {
            "log_changed_at": to_iso(self.log_changed_at),
            "cpu_cores": self.cpu_cores,
            "cpu_seconds": self.cpu_seconds,
            "process": self.main.to_json() if self.main else None,
            "stopped_pids": list(self.stopped_pids),
            "gpus": [gpu.to_json() for gpu in self.gpus],
            "enter": self.enter,
        }
