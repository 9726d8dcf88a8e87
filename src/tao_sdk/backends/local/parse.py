"""From what lies in a job's folder, and what the kernel says about its processes, to an Observation. Pure.

there is an exit record                        it ended as the record says
the supervisor lives, the job has begun        running
the supervisor lives                           pending: it waits for GPUs, or is about to start
the supervisor is gone, the job lives          running, unsupervised
neither lives, and there was one               ended unseen: the job's own manifest decides, else failed
there was neither                              pending: submit has not been finished
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any

from tao_sdk.backends.local.facts import Gpu
from tao_sdk.backends.outcome import json_object
from tao_sdk.model.diagnosis import NodeEvent
from tao_sdk.model.observation import Observation, Outcome, Phase
from tao_sdk.model.units import format_duration


class Life(Enum):
    """What became of a recorded process."""

    NEVER = "never"  # there is no record
    TAKEN = "taken"  # there is no record yet, but someone is about to start it
    ALIVE = "alive"
    STOPPED = "stopped"  # by SIGSTOP
    GONE = "gone"
    RESTARTED = "restarted"  # the machine has been, since
    ELSEWHERE = "elsewhere"  # it was in another container of this machine, which has stopped

    @property
    def living(self) -> bool:
        return self in (Life.TAKEN, Life.ALIVE, Life.STOPPED)


@dataclass(frozen=True)
class Seen:
    """All that there is to see of one attempt."""

    supervisor: Life = Life.NEVER
    process: Life = Life.NEVER
    pid: int = 0
    supervisor_pid: int = 0
    started: float | None = None  # seconds since the epoch
    waiting: str = ""
    exit: Mapping[str, Any] | None = None
    outcome: Outcome | None = None  # what the job's manifest says, looked at when nothing else knows

    @property
    def supervised(self) -> bool:
        """Whether a supervisor has taken charge and said so."""
        return self.supervisor.living and self.supervisor is not Life.TAKEN


LOST = {
    Life.GONE: (
        "its supervisor was killed; the exit code is not known",
        "its supervisor was killed before the job started",
    ),
    Life.RESTARTED: ("the machine was restarted while the job ran", "the machine was restarted before the job started"),
    Life.ELSEWHERE: ("its container was stopped while the job ran", "its container was stopped before the job started"),
}


def observation(seen: Seen) -> Observation:
    if seen.exit is not None:
        return ended(seen.exit)
    if seen.process.living:
        return running(seen)
    if seen.supervisor.living:
        return between(seen)
    if seen.process is Life.NEVER and seen.supervisor is Life.NEVER:
        return Observation(Phase.PENDING, "submit has not been finished")
    return lost(seen)


def between(seen: Seen) -> Observation:
    """Before the job, or after it: the supervisor is busy, unless someone has stopped it."""
    stopped = f"its supervisor is stopped; kill -CONT {seen.supervisor_pid}" if seen.supervisor is Life.STOPPED else ""
    if seen.process is Life.NEVER:
        return Observation(Phase.PENDING, "waiting" if seen.waiting else "starting", reason=stopped or seen.waiting)
    return Observation(Phase.RUNNING, "its last processes are ending", reason=stopped, started_at=moment(seen.started))


def running(seen: Seen) -> Observation:
    phase, word = (Phase.PAUSED, "stopped") if seen.process is Life.STOPPED else (Phase.RUNNING, "running")
    alone = "" if seen.supervisor.living else ", its supervisor was killed"
    return Observation(phase, f"{word}, process {seen.pid}{alone}", started_at=moment(seen.started))


def lost(seen: Seen) -> Observation:
    """Nobody saw the end. The manifest did, if the command had ended by then."""
    started = moment(seen.started)
    if seen.outcome is not None and seen.outcome.whole:
        code = seen.outcome.exit_code
        phase = Phase.SUCCEEDED if code == 0 else Phase.FAILED
        return Observation(
            phase, f"exit code {code}, by its manifest", code, "" if code == 0 else f"exit code {code}", started
        )
    began = seen.process is not Life.NEVER
    reason = LOST[seen.process if began else seen.supervisor][0 if began else 1]
    return Observation(Phase.FAILED, "no exit record", reason=reason, started_at=started)


def ended(record: Mapping[str, Any]) -> Observation:
    code: int | None = record["exit_code"]
    number = int(record["signal"])
    phase = (
        Phase.CANCELED
        if record["canceled"]
        else Phase.SUCCEEDED
        if code == 0 and not record["time_limit"]
        else Phase.FAILED
    )
    return Observation(
        phase,
        raw=f"ended by {signal_name(number)}"
        if number
        else "not started"
        if record["started"] is None
        else words_for(code),
        exit_code=code,
        reason="" if phase is Phase.SUCCEEDED else why(record, code, number),
        started_at=moment(record["started"]),
        ended_at=moment(record["ended"]),
    )


def why(record: Mapping[str, Any], code: int | None, number: int) -> str:
    if record["trouble"]:
        return f"it could not be started: {record['trouble']}"
    if record["canceled"]:
        return "canceled"
    if record["time_limit"]:
        return f"time limit of {format_duration(timedelta(seconds=record['time_limit']))} reached"
    if number == signal.SIGKILL and record["oom_kills"]:
        return "the machine ran out of memory (oom) and the kernel ended it"
    told = ", its supervisor was told to end" if record["told_to_end"] else ""
    if record["started"] is None:
        return f"not started{told}"
    return (f"ended by {signal_name(number)}" if number else words_for(code)) + told


def canceled(started: float | None, ended_at: float) -> dict[str, Any]:
    """The record of a job that was ended without its supervisor."""
    return {
        "exit_code": None, "signal": 0, "canceled": True, "time_limit": 0, "told_to_end": False, "trouble": "",
        "oom_kills": 0, "started": started, "ended": ended_at,
    }  # fmt: skip


def events(seen: Observation, record: Mapping[str, Any] | None) -> tuple[NodeEvent, ...]:
    """What the machine did to the job, under names that a program can test."""
    found: list[NodeEvent] = []
    if record and record["oom_kills"] and record["signal"] == signal.SIGKILL:
        found.append(
            NodeEvent(
                "OOMKilled", f"the kernel ended {record['oom_kills']} process(es) for want of memory while the job ran"
            )
        )
    if record and record["told_to_end"]:
        found.append(
            NodeEvent("SupervisorTerminated", "something other than a cancel told the job's supervisor to end")
        )
    found += [NodeEvent(name, seen.reason) for name, reasons in LOST_EVENTS.items() if seen.reason in reasons]
    return tuple(found)


LOST_EVENTS = {
    "SupervisorKilled": LOST[Life.GONE],
    "MachineRestarted": LOST[Life.RESTARTED],
    "ContainerStopped": LOST[Life.ELSEWHERE],
}


def words_for(code: int | None) -> str:
    return "the exit code is not known" if code is None else f"exit code {code}"


def signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)


EXIT_RECORD: Mapping[str, tuple[type, ...]] = {
    "exit_code": (int, type(None)), "signal": (int,), "canceled": (bool,), "time_limit": (int, float),
    "told_to_end": (bool,), "trouble": (str,), "oom_kills": (int,), "started": (int, float, type(None)),
    "ended": (int, float),
}  # fmt: skip
LARGEST = 1e11  # as a time, the year 5138: no clock and no counter shows more


def exit_record(text: str) -> Mapping[str, Any] | None:
    """The record that the supervisor wrote; None for one that a crash of the machine, or somebody, has spoilt."""
    record = json_object(text)
    fits = record is not None and all(
        name in record and isinstance(record[name], kinds) and is_plausible(record[name])
        for name, kinds in EXIT_RECORD.items()
    )
    return record if fits else None


def log_is_cut(text: str) -> bool:
    """Whether an exit record says that the job's log had no room at some time."""
    return (exit_record(text) or {}).get("log_cut") is True


def is_plausible(value: Any) -> bool:
    return not isinstance(value, (int, float)) or abs(value) < LARGEST


QUERY = ["--query-gpu=index,uuid,name,memory.total,memory.used", "--format=csv,noheader"]


def gpus(text: str) -> tuple[Gpu, ...]:
    """The lines that nvidia-smi prints for QUERY: `0, GPU-1f..., NVIDIA H200, 143771 MiB, 4 MiB`."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    return tuple(
        Gpu(int(row[0]), row[1], row[2], mebibytes(row[3]), mebibytes(row[4]))
        for row in rows
        if len(row) == 5 and row[0].isdigit()
    )


def mebibytes(cell: str) -> int:
    number = cell.partition(" ")[0]
    return int(number) if number.isdigit() else 0
