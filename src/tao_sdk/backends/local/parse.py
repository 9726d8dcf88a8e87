"""Parse: from a job's folder, and the kernel's view of its processes, to an Observation.

Pure. The facts, and what they mean:

    an exit record                       it ended as the record says
    the supervisor, and a begun job      running
    the supervisor alone                 pending: it waits for GPUs, or is about to start
    a job without its supervisor         running, unsupervised
    a begun job, neither lives           ended unseen: the job's own manifest decides, else failed
    nothing                              pending: submit has not been finished
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING, Any

from tao_sdk.backends.local.facts import Gpu
from tao_sdk.backends.outcome import json_object
from tao_sdk.model import words
from tao_sdk.model.observation import Observation, Outcome, Phase
from tao_sdk.model.reasons import Reason
from tao_sdk.model.units import format_duration
from tao_sdk.model.words import UNEXPLAINED, Why

if TYPE_CHECKING:
    from tao_sdk.model.activity import GpuUse
    from tao_sdk.model.diagnosis import NodeEvent

NAMED_PIDS = 16  # the most pids in a message
KILLED = 128 + signal.SIGKILL  # the exit code of a shell or the runner if its command was killed


class Life(Enum):
    """The state of a recorded process."""

    NEVER = "never"  # there is no record
    TAKEN = "taken"  # there is no record yet, but someone is about to start it
    ALIVE = "alive"
    STOPPED = "stopped"  # by SIGSTOP
    GONE = "gone"
    RESTARTED = "restarted"  # the machine was restarted since
    ELSEWHERE = "elsewhere"  # it was in another container of this machine, which has stopped

    @property
    def living(self) -> bool:
        return self in (Life.TAKEN, Life.ALIVE, Life.STOPPED)


@dataclass(frozen=True)
class Seen:
    """Everything visible of one attempt."""

    supervisor: Life = Life.NEVER
    process: Life = Life.NEVER
    pid: int = 0
    supervisor_pid: int = 0
    # the stopped processes that everything else of the job waits for
    stopped_pids: tuple[int, ...] = ()
    started: float | None = None  # seconds since the epoch
    waiting: str = ""
    exit: Mapping[str, Any] | None = None
    # from the job's manifest; read only if nothing else shows the end
    outcome: Outcome | None = None

    @property
    def supervised(self) -> bool:
        """True if a supervisor lives and has written its identity."""
        return self.supervisor.living and self.supervisor is not Life.TAKEN


LOST = {
    Life.GONE: Reason.SUPERVISOR_LOST,
    Life.RESTARTED: Reason.MACHINE_RESTARTED,
    Life.ELSEWHERE: Reason.CONTAINER_STOPPED,
}


def observation(seen: Seen) -> Observation:
    if seen.exit is not None:
        return ended_observation(seen.exit)
    if seen.process.living:
        return running_observation(seen)
    if seen.supervisor.living:
        if seen.process is Life.NEVER:
            return waiting_observation(seen)
        return ending_observation(seen)
    if seen.process is Life.NEVER and seen.supervisor is Life.NEVER:
        return Observation(Phase.PENDING, "submit has not been finished")
    return lost_observation(seen)


def waiting_observation(seen: Seen) -> Observation:
    """The observation before the job's start. Somebody may have stopped the supervisor."""
    reason = waiting_reason(seen)
    stopped_pids = (seen.supervisor_pid,) if seen.supervisor is Life.STOPPED else ()
    return Observation(
        Phase.PENDING,
        "waiting" if seen.waiting else "starting",
        reason=reason.text,
        reason_code=reason.code,
        stopped_pids=stopped_pids,
    )


def ending_observation(seen: Seen) -> Observation:
    """The observation after the end of the job's first process, while the supervisor ends the rest.

    Somebody may have stopped the supervisor.
    """
    reason = waiting_reason(seen)
    return Observation(
        Phase.RUNNING,
        "its last processes are ending",
        reason=reason.text,
        started_at=moment_of(seen.started),
        reason_code=reason.code,
    )


def waiting_reason(seen: Seen) -> Why:
    """The reason why a job that does not run waits."""
    if seen.supervisor is Life.STOPPED:
        return words.why(Reason.SUPERVISOR_STOPPED, pid=seen.supervisor_pid)
    if seen.waiting and seen.process is Life.NEVER:
        return words.why(Reason.GPUS_BUSY, what=seen.waiting)
    return UNEXPLAINED


def running_observation(seen: Seen) -> Observation:
    """The observation of a job with a living process.

    Somebody may have stopped the process, and its supervisor may be gone. Its pid is not told: it
    is the runner's or a shell's, and not the program's.
    """
    orphaned = "" if seen.supervisor.living else ", its supervisor was killed"
    started = moment_of(seen.started)
    stopped_pids = (seen.pid,) if seen.process is Life.STOPPED else seen.stopped_pids
    if not stopped_pids:
        return Observation(Phase.RUNNING, f"running{orphaned}", started_at=started)
    return Observation(
        Phase.PAUSED,
        f"stopped{orphaned}",
        reason=stopped_words(stopped_pids),
        reason_code=Reason.PROCESS_STOPPED,
        started_at=started,
        stopped_pids=stopped_pids,
    )


def stopped_words(pids: Sequence[int]) -> str:
    """A sentence that names the stopped processes, at most NAMED_PIDS of them."""
    if len(pids) == 1:
        return words.sentence(Reason.PROCESS_STOPPED, pid=pids[0])
    named = ", ".join(map(str, pids[:NAMED_PIDS]))
    if len(pids) > NAMED_PIDS:
        named = f"{named} and {len(pids) - NAMED_PIDS} more"
    return words.sentence(Reason.PROCESS_STOPPED, "several", pids=named)


def lost_observation(seen: Seen) -> Observation:
    """The observation of a job whose end no supervisor recorded.

    The job's manifest has its end if the command had ended by then.
    """
    started = moment_of(seen.started)
    if seen.outcome is not None and seen.outcome.whole:
        return manifest_observation(seen.outcome.exit_code, started)
    reason = lost_reason(seen)
    return Observation(
        Phase.FAILED,
        "no exit record",
        reason=reason.text,
        started_at=started,
        reason_code=reason.code,
    )


def lost_reason(seen: Seen) -> Why:
    if seen.process is Life.NEVER:
        return words.why(LOST[seen.supervisor], "unstarted")
    return words.why(LOST[seen.process])


def manifest_observation(code: int | None, started: datetime | None) -> Observation:
    raw = f"exit code {code}, by its manifest"
    if code == 0:
        return Observation(Phase.SUCCEEDED, raw, code, started_at=started)
    reason = words.why(Reason.EXIT_CODE, code=code)
    return Observation(Phase.FAILED, raw, code, reason.text, started, reason_code=reason.code)


def ended_observation(record: Mapping[str, Any]) -> Observation:
    phase = ended_phase(record)
    reason = UNEXPLAINED if phase is Phase.SUCCEEDED else end_reason(record)
    return Observation(
        phase,
        raw=how_it_ended(record).text,
        exit_code=record["exit_code"],
        reason=reason.text,
        started_at=moment_of(record["started"]),
        ended_at=moment_of(record["ended"]),
        reason_code=reason.code,
    )


def ended_phase(record: Mapping[str, Any]) -> Phase:
    if record["canceled"]:
        return Phase.CANCELED
    if record["exit_code"] == 0 and not record["time_limit"]:
        return Phase.SUCCEEDED
    return Phase.FAILED


def how_it_ended(record: Mapping[str, Any]) -> Why:
    if record["signal"]:
        return words.why(Reason.SIGNAL, signal=signal_name(int(record["signal"])))
    if record["started"] is None:
        return words.why(Reason.NOT_STARTED, "unstarted")
    if record["exit_code"] is None:
        return words.why(Reason.EXIT_UNKNOWN)
    return words.why(Reason.EXIT_CODE, code=record["exit_code"])


def end_reason(record: Mapping[str, Any]) -> Why:
    """Why the job did not succeed."""
    if record["trouble"]:
        return words.why(Reason.NOT_STARTED, what=record["trouble"])
    if record["canceled"]:
        return words.why(Reason.CANCELED)
    if record["time_limit"]:
        limit = format_duration(timedelta(seconds=record["time_limit"]))
        return words.why(Reason.TIME_LIMIT, limit=limit)
    if record["oom_kills"] and was_killed(record):
        return words.why(Reason.OUT_OF_MEMORY)
    end = how_it_ended(record)
    if record["told_to_end"]:
        return words.why(Reason.SUPERVISOR_TOLD_TO_END, what=end.text)
    return end


def was_killed(record: Mapping[str, Any]) -> bool:
    """True if SIGKILL ended the command, by the signal or by a shell's or the runner's code."""
    return record["signal"] == signal.SIGKILL or record["exit_code"] == KILLED


def canceled_record(started: float | None, ended_at: float) -> dict[str, Any]:
    """The exit record of a canceled job that ended without its supervisor."""
    return {
        "exit_code": None, "signal": 0, "canceled": True, "time_limit": 0, "told_to_end": False,
        "trouble": "",
        "oom_kills": 0, "started": started, "ended": ended_at,
    }  # fmt: skip


def node_events(seen: Observation, record: Mapping[str, Any] | None) -> Iterator[NodeEvent]:
    """Yield the machine's effects on the job, under names that a program can test."""
    from tao_sdk.model.diagnosis import NodeEvent

    if record is not None:
        yield from recorded_events(record)
    if name := LOST_EVENTS.get(seen.reason_code):
        yield NodeEvent(name, seen.reason)


def recorded_events(record: Mapping[str, Any]) -> Iterator[NodeEvent]:
    """Yield events from the exit record: kills by the kernel, or by something outside."""
    from tao_sdk.model.diagnosis import NodeEvent

    if record["oom_kills"] and was_killed(record):
        yield NodeEvent(
            "OOMKilled",
            f"the kernel ended {record['oom_kills']} process(es) for want "
            "of memory while the job ran",
        )
    if record["told_to_end"]:
        yield NodeEvent(
            "SupervisorTerminated",
            "something other than a cancel told the job's supervisor to end",
        )


LOST_EVENTS: Mapping[Reason | None, str] = {
    Reason.SUPERVISOR_LOST: "SupervisorKilled",
    Reason.MACHINE_RESTARTED: "MachineRestarted",
    Reason.CONTAINER_STOPPED: "ContainerStopped",
}


def signal_name(number: int) -> str:
    if number not in set(signal.Signals):
        return f"signal {number}"
    return signal.Signals(number).name


def moment_of(seconds: float | None) -> datetime | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc)


EXIT_RECORD: Mapping[str, tuple[type, ...]] = {
    "exit_code": (int, type(None)), "signal": (int,), "canceled": (bool,),
    "time_limit": (int, float),
    "told_to_end": (bool,), "trouble": (str,), "oom_kills": (int,),
    "started": (int, float, type(None)),
    "ended": (int, float),
}  # fmt: skip
LARGEST = 1e11  # as a time, the year 5138; no clock and no counter shows more


def exit_record(text: str) -> Mapping[str, Any] | None:
    """Read the exit record. None if it is missing or damaged by a crash or by somebody."""
    record = json_object(text)
    if record is None:
        return None
    for name, kinds in EXIT_RECORD.items():
        if name not in record or not is_plausible(record[name], kinds):
            return None
    return record


def log_is_cut(text: str) -> bool:
    """True if an exit record says that the job's log had no disk space at some time."""
    return (exit_record(text) or {}).get("log_cut") is True


def is_plausible(value: Any, kinds: tuple[type, ...]) -> bool:
    """True for a value of one of the kinds. A number must be one that a clock or counter shows."""
    if not isinstance(value, kinds):
        return False
    return not isinstance(value, (int, float)) or abs(value) < LARGEST


QUERY = ["--query-gpu=index,uuid,name,memory.total,memory.used", "--format=csv,noheader"]


def read_gpus(text: str) -> tuple[Gpu, ...]:
    """Read nvidia-smi's lines for QUERY, such as `0, GPU-1f..., NVIDIA H200, 143771 MiB, 4 MiB`."""
    gpus: list[Gpu] = []
    for index, uuid, name, memory, used in read_rows(text, 5):
        mebibytes = leading_number(memory) or 0
        gpus.append(Gpu(int(index), uuid, name, mebibytes, leading_number(used) or 0))
    return tuple(gpus)


def read_rows(text: str, columns: int) -> list[list[str]]:
    """The cells of nvidia-smi's lines with `columns` columns and a number in the first one."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    return [row for row in rows if len(row) == columns and row[0].isdigit()]


USE_QUERY = [
    "--query-gpu=index,uuid,utilization.gpu,memory.used",
    "--format=csv,noheader",
]


def gpu_uses(text: str) -> dict[str, GpuUse]:
    """`index:uuid` -> use, from nvidia-smi's lines for USE_QUERY.

    Such a line is `0, GPU-1f..., 35 %, 1234 MiB`.
    """
    from tao_sdk.model.activity import GpuUse

    uses: dict[str, GpuUse] = {}
    for index, uuid, share, memory in read_rows(text, 4):
        use = GpuUse(int(index), leading_number(share), leading_number(memory) or 0)
        uses[f"{index}:{uuid}"] = use
    return uses


def leading_number(cell: str) -> int | None:
    """The number in `35 %` or `4 MiB`; None for `[N/A]`."""
    number = cell.partition(" ")[0]
    if not number.isdigit():
        return None
    return int(number)
