"""squeue's and sacct's words -> what they mean to us. Pure.

squeue is asked before sacct and counts more: the controller knows of a requeue at once, the
accounting later. Of sacct's rows the job's own decides; its steps tell of an OOM that the job's
does not. The accounting hears of a job bit by bit, and at a busy site late: for moments its rows
lack a name, a start or the end that squeue shows already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from tao_sdk.backends.outcome import json_object
from tao_sdk.model import words
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.reasons import Reason
from tao_sdk.model.words import UNEXPLAINED, Why

# States -> ours. Source: slurm.h job_states, and what 22.05.8 printed.
PHASES: Mapping[str, Phase] = {
    "PENDING": Phase.PENDING,
    "CONFIGURING": Phase.PENDING,
    "REQUEUED": Phase.PENDING,
    "REQUEUE_FED": Phase.PENDING,
    "REQUEUE_HOLD": Phase.PENDING,
    "RESV_DEL_HOLD": Phase.PENDING,
    "SPECIAL_EXIT": Phase.PENDING,
    "RUNNING": Phase.RUNNING,
    "COMPLETING": Phase.RUNNING,  # the command has ended, the nodes still clear up
    "RESIZING": Phase.RUNNING,
    "SIGNALING": Phase.RUNNING,
    "STAGE_OUT": Phase.RUNNING,
    "SUSPENDED": Phase.PAUSED,
    "STOPPED": Phase.PAUSED,
    "COMPLETED": Phase.SUCCEEDED,
    "FAILED": Phase.FAILED,
    "BOOT_FAIL": Phase.FAILED,
    "DEADLINE": Phase.FAILED,
    "LAUNCH_FAILED": Phase.FAILED,
    "NODE_FAIL": Phase.FAILED,
    "OUT_OF_MEMORY": Phase.FAILED,
    "RECONFIG_FAIL": Phase.FAILED,
    "TIMEOUT": Phase.FAILED,
    "CANCELLED": Phase.CANCELED,
    "PREEMPTED": Phase.CANCELED,
    "REVOKED": Phase.CANCELED,
}
# What sacct says of a job that the controller may be about to start again.
PERHAPS_AGAIN = frozenset({"NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REQUEUED"})
REASONS: Mapping[str, Reason] = {
    "TIMEOUT": Reason.TIME_LIMIT,
    "OUT_OF_MEMORY": Reason.OUT_OF_MEMORY,
    "NODE_FAIL": Reason.NODE_FAILED,
    "BOOT_FAIL": Reason.BOOT_FAILED,
    "DEADLINE": Reason.DEADLINE,
    "PREEMPTED": Reason.PREEMPTED,
}
# Ends of the command itself. Where SLURM has ended a job its exit code is not the command's.
OWN_ENDS = frozenset({"FAILED", "LAUNCH_FAILED", "OUT_OF_MEMORY"})
OOM_BEHIND = frozenset(
    {"FAILED", "TIMEOUT"}
)  # what an OOM of a step leads to; other ends have a cause of their own
NO_EXEC = "0:53"
LAUNCH_FAILURES = ("JobLaunchFailure", "launch_failed_requeued_held")
KILLED = 137
NEVER = "DependencyNeverSatisfied"
SQUEUE = ("%i", "%T", "%r", "%S", "%e", "%N", "%j")  # id, state, reason, start, end, nodes, name
SACCT = "JobID,JobIDRaw,State,ExitCode,Reason,Start,End,NodeList,JobName,DerivedExitCode"
DISABLED = "accounting storage is disabled"
UNNAMED = "allocation"  # what sacct calls a job of which the accounting has heard, but not its name
PATIENCE = timedelta(
    seconds=60
)  # for so long a failure waits for the accounting, which alone has its code and cause


@dataclass(frozen=True)
class Queued:
    """squeue's row of a job."""

    id: str
    state: str
    reason: str
    start: str
    end: str
    nodes: str
    name: str


@dataclass(frozen=True)
class Row:
    """sacct's row of a job or a step."""

    id: str
    raw_id: str
    state: str
    exit: str
    reason: str
    start: str
    end: str
    nodes: str
    name: str
    derived: str

    @property
    def word(self) -> str:
        """`CANCELLED` of "CANCELLED by 1001"."""
        return self.state.split(" ")[0].rstrip("+")

    @property
    def has_begun(self) -> bool:
        """Whether it has had nodes. Of one that never began, the start may be the end's time for a
        while.
        """
        return self.nodes not in ("", "None assigned")


@dataclass(frozen=True)
class Accounted:
    """sacct's rows of one job: its own, and its steps'."""

    job: Row
    steps: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Seen:
    """One look at a cluster. None for squeue or sacct that did not answer; what it said instead is
    in `trouble`.
    """

    queue: Mapping[str, Queued] | None
    accounting: Mapping[str, Accounted] | None
    trouble: str = ""
    accounts: bool = True  # False: the site keeps no accounts, so sacct's silence means nothing
    now: datetime | None = None  # by the cluster's clock


@dataclass(frozen=True)
class Record:
    """What an attempt itself has left: the batch script's record, TAO's own last word, the
    manifest.
    """

    exit_code: int | None = None
    time_limit: bool = False
    tao_status: str = ""
    tao_message: str = ""
    whole: bool = False  # whether it tells the end of the attempt that was asked for
    begun: bool = False  # whether its batch script has run


def squeue_command(ids: Sequence[str]) -> str:
    """One query for any number of jobs. It fails for an id that it has forgotten only when that is
    asked for alone.
    """
    return (
        f"timeout 25 squeue --noheader --states=all --format='{'|'.join(SQUEUE)}' "
        f"--jobs={','.join(ids)}"
    )


def sacct_command(ids: Sequence[str]) -> str:
    return f"timeout 25 sacct --noheader --parsable2 --format={SACCT} --jobs={','.join(ids)}"


def queue(rc: int, text: str, said: str) -> Mapping[str, Queued] | None:
    """Id -> row; None when the controller did not answer. An id it has forgotten is no row."""
    if rc != 0 and "Invalid job id" not in said:
        return None
    rows = (line.split("|") for line in text.splitlines())
    return {cells[0]: Queued(*cells) for cells in rows if len(cells) == len(SQUEUE)}


def accounting(rc: int, text: str) -> Mapping[str, Accounted] | None:
    """Id -> rows, the job's own first."""
    if rc != 0:
        return None
    found: dict[str, Accounted] = {}
    for cells in (line.split("|") for line in text.splitlines()):
        if len(cells) != SACCT.count(",") + 1:
            continue
        row = Row(*cells)
        job = row.id.partition(".")[0]
        if "." not in row.id:
            found[job] = Accounted(row)
        elif job in found:
            found[job] = replace(found[job], steps=(*found[job].steps, row))
    return found


def seen(answers: Mapping[str, tuple[int, str, str]]) -> Seen:
    """A look, from the exit code, the output and the words of squeue and sacct."""
    rc, text, said = answers["squeue"]
    in_queue = queue(rc, text, said)
    rc_a, text_a, said_a = answers["sacct"]
    trouble = said if in_queue is None else said_a
    now = moment(answers["now"][1]) if "now" in answers else None
    return Seen(in_queue, accounting(rc_a, text_a), last_line(trouble), DISABLED not in said_a, now)


def last_line(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no answer"


def observation(id: str, name: str, look: Seen, resumes: bool = False) -> Observation:
    """What a look says of the job `id`, which has to have the name `name`: ids are used again,
    names are not.
    """
    queued = named(look.queue.get(id) if look.queue else None, name)
    accounted = look.accounting.get(id) if look.accounting else None
    if accounted is not None and accounted.job.name not in (name, UNNAMED):
        accounted = None
    if queued is not None and not phase(queued.state).ended:
        return in_queue(queued)
    doubtful = look.queue is None and accounted is not None and accounted.job.word in PERHAPS_AGAIN
    if accounted is not None and phase(accounted.job.word).ended and not doubtful:
        return ended(accounted, resumes)
    if queued is not None:
        return in_doubt(queued) if is_untold(queued, look) else ended_in_queue(queued, resumes)
    return unseen(look, accounted)


def is_untold(row: Queued, look: Seen) -> bool:
    """Whether a failure's code and cause are still on their way to the accounting: squeue has
    neither.
    """
    end = moment(row.end)
    recent = look.now is not None and end is not None and look.now - end < PATIENCE
    return row.state == "FAILED" and look.accounts and recent


def in_doubt(row: Queued) -> Observation:
    seen = Observation(Phase.RUNNING, f"{row.state} on {row.nodes}", started_at=moment(row.start))
    return explained(seen, words.why(Reason.CAUSE_NOT_TOLD_YET, what=row.state))


def explained(seen: Observation, reason: Why) -> Observation:
    return replace(seen, reason=reason.text, reason_code=reason.code)


def unseen(look: Seen, accounted: Accounted | None) -> Observation:
    """No end is known: squeue or sacct did not answer, or neither has the job any more."""
    raw = accounted.job.state if accounted else ""
    if look.queue is None:
        return Observation(Phase.UNREACHABLE, raw, reason=f"SLURM's controller: {look.trouble}")
    if look.accounting is None and look.accounts:
        return Observation(Phase.UNREACHABLE, raw, reason=f"SLURM's accounting: {look.trouble}")
    if accounted is None:
        return Observation(Phase.ABSENT, "SLURM does not know it")
    return Observation(Phase.ABSENT, f"squeue has forgotten it; sacct says {raw}")


def named(row: Queued | None, name: str) -> Queued | None:
    return row if row is not None and row.name == name else None


def phase(state: str) -> Phase:
    """SLURM's state in our words; UNKNOWN for one that is not in the table, which people see as it
    is.
    """
    return PHASES.get(state, Phase.UNKNOWN)


def in_queue(row: Queued) -> Observation:
    raw = f"{row.state} on {row.nodes}" if row.nodes else row.state
    if phase(row.state) is Phase.PENDING:
        return explained(pending(row, raw), why_pending(row))
    return Observation(phase(row.state), raw, started_at=moment(row.start), backend_words=row.state)


def pending(row: Queued, raw: str) -> Observation:
    """A waiting job, with squeue's own reason and its estimate of the start."""
    if row.reason in ("", "None"):
        return Observation(Phase.PENDING, raw, backend_words=row.state)
    return Observation(
        Phase.PENDING, raw, backend_words=row.reason, expected_start=moment(row.start)
    )


def why_pending(row: Queued) -> Why:
    """`Resources; expected to start 2026-11-21 14:20 UTC`."""
    if row.reason in ("", "None"):
        return UNEXPLAINED
    start = moment(row.start)
    if start is None:
        return words.why(Reason.QUEUED, what=row.reason)
    return words.why(Reason.QUEUED, "slurm", what=row.reason, start=expected(start))


def expected(start: datetime) -> str:
    """`expected to start 2026-11-21 14:20 UTC`."""
    return words.sentence(Reason.QUEUED, "start", start=f"{start:%Y-%m-%d %H:%M}")


def ended(accounted: Accounted, resumes: bool) -> Observation:
    job, word = accounted.job, accounted.job.word
    if is_given_up(job):
        return given_up(job.state)
    if was_not_started(accounted):
        unstarted = Observation(
            Phase.FAILED, f"{job.state} on {job.nodes}", ended_at=moment(job.end)
        )
        return explained(unstarted, words.why(Reason.SCRIPT_NOT_STARTED))
    oom = word in OOM_BEHIND and any(step.word == "OUT_OF_MEMORY" for step in accounted.steps)
    word = "OUT_OF_MEMORY" if oom else word
    code = KILLED if word == "OUT_OF_MEMORY" else exit_code(job.exit)
    told = word == "COMPLETED" or (word in OWN_ENDS and bool(code))
    raw = f"{job.state} on {job.nodes}" if job.has_begun else job.state
    seen = Observation(
        phase=ended_phase(word, resumes),
        raw=raw,
        exit_code=code if told else None,
        started_at=moment(job.start) if job.has_begun else None,
        ended_at=moment(job.end),
        backend_words=word,
    )
    return with_slurms_words(explained(seen, why(word, code, job.reason, job.exit)), job.reason)


def with_slurms_words(seen: Observation, reason: str) -> Observation:
    return replace(seen, backend_words=reason) if seen.reason_code is Reason.QUEUE_REASON else seen


def is_given_up(job: Row) -> bool:
    """Whether SLURM itself has ended a job that had not begun. Of one that a person canceled it
    says "CANCELLED by" and an id.
    """
    return job.state == "CANCELLED" and not job.has_begun


def was_not_started(accounted: Accounted) -> bool:
    """Whether the exit code is not the script's, but what SLURM says where a node has refused to
    start it.

    A node does so when it was lost and is back with what it ran: SLURM has that ended there, and
    starts the job again at once.
    """
    batch = next((step for step in accounted.steps if step.name == "batch"), None)
    never_ran = batch is not None and phase(batch.word).ended and batch.exit in ("", "0:0")
    return accounted.job.word == "FAILED" and never_ran and bool(exit_code(accounted.job.exit))


def given_up(raw: str) -> Observation:
    seen = Observation(Phase.FAILED, raw, backend_words=NEVER)
    return explained(seen, words.why(Reason.CONVERSION_FAILED, what=NEVER))


def ended_phase(word: str, resumes: bool) -> Phase:
    """Preempted is canceled, unless the job said that it goes on in a new SLURM job."""
    return Phase.FAILED if word == "PREEMPTED" and resumes else phase(word)


def ended_in_queue(row: Queued, resumes: bool) -> Observation:
    """Without accounting: squeue still shows it for a while, and has no exit code."""
    if row.reason == NEVER:
        return given_up(row.state)
    seen = Observation(
        phase=ended_phase(row.state, resumes),
        raw=f"{row.state} on {row.nodes}" if row.nodes else row.state,
        exit_code=CODES_IN_QUEUE.get(row.state),
        started_at=moment(row.start)
        if row.nodes
        else None,  # squeue gives one that never began its end's time
        ended_at=moment(row.end),
        backend_words=row.state,
    )
    return with_slurms_words(explained(seen, why(row.state, None, row.reason, "")), row.reason)


CODES_IN_QUEUE = {"COMPLETED": 0, "OUT_OF_MEMORY": KILLED}  # squeue has no exit codes


def why(word: str, code: int | None, reason: str, exit: str) -> Why:
    if word in ("COMPLETED", "CANCELLED"):
        return UNEXPLAINED  # why it waited before it was canceled is no reason
    if word in REASONS:
        return words.why(REASONS[word], "slurm")
    launch_failed = reason in LAUNCH_FAILURES
    if exit == NO_EXEC or (launch_failed and not has_ended_by_signal(exit)):
        return words.why(Reason.NOT_LAUNCHED, what=reason if launch_failed else exit)
    if word == "FAILED" and has_ended_by_signal(
        exit
    ):  # of the command's own end the script makes an exit code
        return words.why(Reason.SCRIPT_KILLED, "signal", signal=exit[2:])
    if word == "FAILED" and code is not None:
        return words.why(Reason.EXIT_CODE, code=code)
    return in_slurms_words(reason)


def in_slurms_words(reason: str) -> Why:
    if reason in ("", "None", "NonZeroExitCode"):
        return UNEXPLAINED
    return words.why(Reason.QUEUE_REASON, what=reason)


def has_ended_by_signal(exit: str) -> bool:
    return exit.startswith("0:") and exit != "0:0"


def exit_code(text: str) -> int | None:
    """`3:0` -> 3, `0:9` -> 137 (128 + the signal)."""
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if match is None:
        return None
    code, signal = int(match[1]), int(match[2])
    return 128 + signal if signal and not code and signal < 65 else code


def moment(text: str) -> datetime | None:
    """SLURM's time, asked for in UTC; None for Unknown, N/A, None."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return None


# What an attempt itself has left


def record(
    exit_text: str, status_text: str, manifest_text: str, number: int, begun: bool = False
) -> Record:
    """The batch script's record, the last line of TAO's status.json, and the manifest, as far as
    they are of this attempt.
    """
    texts = (exit_text, manifest_text, last_status(status_text))
    left, manifest, status = (json_object(text) or {} for text in texts)
    own = left.get("attempt") == number
    kept = manifest.get("attempt") == number and manifest.get("whole") is True
    code = left.get("exit_code") if own else manifest.get("exit_code") if kept else None
    return Record(
        exit_code=code if isinstance(code, int) else None,
        time_limit=own and left.get("time_limit") is True,
        tao_status=str(status.get("status", "")).upper(),
        tao_message=str(status.get("message", "")),
        whole=own or kept,
        begun=begun,
    )


def last_status(text: str) -> str:
    lines = [line for line in text.splitlines() if '"status"' in line]
    return lines[-1] if lines else ""


def with_record(seen: Observation, left: Record) -> Observation:
    """The end as the attempt itself tells it: its exit code, our time limit, and TAO's last word on
    success.
    """
    if left.time_limit and seen.phase is Phase.FAILED:
        return explained(replace(seen, exit_code=124), words.why(Reason.TIME_LIMIT, "slurm, ours"))
    if (
        seen.reason_code is Reason.NOT_LAUNCHED and left.begun and seen.exit_code is None
    ):  # squeue has one word for both
        return explained(seen, words.why(Reason.SCRIPT_KILLED))
    if seen.phase is Phase.SUCCEEDED and left.tao_status in TAO_FAILURES:
        return explained(replace(seen, phase=Phase.FAILED), tao_failure(left))
    if (
        seen.phase is Phase.FAILED and left.exit_code
    ):  # of a code above 128, SLURM keeps what is above
        return with_exit_code(seen, left.exit_code)
    if seen.phase is Phase.ABSENT and left.whole and left.exit_code is not None:
        return from_record(left)
    return seen


TAO_FAILURES = ("FAILURE", "FAILED", "ERROR")  # what status.json says of a training that has failed


def tao_failure(left: Record) -> Why:
    what = f"{left.tao_status}: {left.tao_message}" if left.tao_message else left.tao_status
    return words.why(Reason.STATUS_FILE_FAILED, what=what)


def with_exit_code(seen: Observation, code: int) -> Observation:
    """The exit code is the record's; a reason that says more than a code stays."""
    if seen.reason_code in (None, Reason.EXIT_CODE):
        return explained(replace(seen, exit_code=code), words.why(Reason.EXIT_CODE, code=code))
    return replace(seen, exit_code=code)


def from_record(left: Record) -> Observation:
    """How a job ended that SLURM has forgotten, by what it has written down itself."""
    raw = "by its own record"
    if left.exit_code == 0 and left.tao_status not in TAO_FAILURES:
        reason = words.why(Reason.TIME_LIMIT, "slurm") if left.time_limit else UNEXPLAINED
        return explained(Observation(Phase.SUCCEEDED, raw, 0), reason)
    failed = Observation(Phase.FAILED, raw, left.exit_code)
    if left.time_limit:
        return explained(failed, words.why(Reason.TIME_LIMIT, "slurm"))
    return explained(failed, words.why(Reason.EXIT_CODE, code=left.exit_code))
