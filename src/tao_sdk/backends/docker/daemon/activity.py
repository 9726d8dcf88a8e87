"""Activity: what a running container's processes do now, by the daemon's answers. Read-only.

Not here: whether the job runs at all (containers/life/observing.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tao_sdk.backends.containers.parse import moment
from tao_sdk.model.activity import Activity, MainProcess
from tao_sdk.model.printable import printable
from tao_sdk.transports.dockerd import Daemon
from tao_sdk.transports.process_tree import SHELLS, STOPPED

COLUMNS = "pid,stat,cputimes,wchan:32,comm"  # of `ps`, which the daemon runs on its machine
NAME_LENGTH = 64  # the most characters of a name to show
NO_WAIT = ("-", "0")  # in `ps`: the process waits in no kernel function
NANOSECONDS = 1e9


class Member(NamedTuple):
    """One process of the container. The pid is the one on the daemon's machine."""

    pid: int
    state: str
    cpu_seconds: int
    waits_in: str
    name: str


def look_into(daemon: Daemon, container: str, is_here: bool) -> Activity:
    """Return what the container's processes do. Takes a second or two.

    `is_here`: the daemon runs on this machine. Raises DaemonError, Unreachable.
    """
    members = list_members(daemon, container)
    stats = daemon.ask("GET", f"/containers/{container}/stats", stream="false")
    return Activity(
        cpu_cores=cores_used(stats),
        cpu_seconds=float(sum(member.cpu_seconds for member in members)),
        main=main_process(members, is_here),
        stopped_pids=stopped_pids(members),
        enter=f"docker exec -it {container} sh",
    )


def list_members(daemon: Daemon, container: str) -> list[Member]:
    """The container's processes, parents before their children."""
    told = daemon.ask("GET", f"/containers/{container}/top", ps_args=f"-eo {COLUMNS}")
    rows: Sequence[Sequence[str]] = told.get("Processes") or []
    return [read_member(row) for row in rows]


def read_member(row: Sequence[str]) -> Member:
    pid, state, seconds, waits_in, name = row
    return Member(
        int(pid),
        state[:1],
        int(seconds) if seconds.isdigit() else 0,
        "" if waits_in in NO_WAIT else shown_text(waits_in),
        shown_text(name),
    )


def main_process(members: Sequence[Member], is_here: bool) -> MainProcess | None:
    """The process with the most CPU time, the last of equals. Shells count only if alone."""
    programs = [each for each in members if each.name not in SHELLS] or members
    if not programs:
        return None
    chosen = max(reversed(programs), key=lambda each: each.cpu_seconds)
    can_be_seen = is_here and comm_here(chosen.pid) == chosen.name
    return MainProcess(
        chosen.pid,
        chosen.name,
        chosen.state,
        "" if chosen.state == "R" else chosen.waits_in,
        can_be_seen and chosen.name.startswith("python"),
    )


def stopped_pids(members: Sequence[Member]) -> tuple[int, ...]:
    return tuple(member.pid for member in members if member.state == STOPPED)


def comm_here(pid: int) -> str:
    """The name of the process with this pid on this machine; "" if there is none.

    The daemon may number its processes differently.
    """
    try:
        return shown_text(Path(f"/proc/{pid}/comm").read_text(errors="replace"))
    except OSError:
        return ""


def cores_used(stats: Mapping[str, Any]) -> float | None:
    """CPU cores used between the daemon's two readings; None if the answer lacks them."""
    now, before = moment(stats.get("read")), moment(stats.get("preread"))
    used = nanoseconds_used(stats, "cpu_stats"), nanoseconds_used(stats, "precpu_stats")
    if now is None or before is None or used[0] is None or used[1] is None or now <= before:
        return None
    seconds = (now - before).total_seconds()
    return round(max(used[0] - used[1], 0) / NANOSECONDS / seconds, 2)


def nanoseconds_used(stats: Mapping[str, Any], name: str) -> int | None:
    part: Mapping[str, Any] = stats.get(name) or {}
    usage: Mapping[str, Any] = part.get("cpu_usage") or {}
    total: Any = usage.get("total_usage")
    return total if isinstance(total, int) else None


def shown_text(text: str) -> str:
    return printable(text.strip())[:NAME_LENGTH]
