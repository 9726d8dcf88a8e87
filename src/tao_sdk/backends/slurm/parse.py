"""Parse: squeue's and sacct's answers -> our observations. Pure.

squeue is asked before sacct and wins over it: the controller knows of a requeue at once, the
accounting later. In sacct's answer the job's own row decides. The rows of its steps can show an OOM
that the job's row does not. The accounting learns of a job step by step, and late at a busy site:
for moments its rows lack a name, a start or an end that squeue already shows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from tao_sdk.model import words
from tao_sdk.model.machines import Machines, gres_gpus, image_archs, most_gpus
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
# sacct's states of a job that the controller may be about to start again.
MAY_RESTART = frozenset({"NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REQUEUED"})
REASONS: Mapping[str, Reason] = {
    "TIMEOUT": Reason.TIME_LIMIT,
    "OUT_OF_MEMORY": Reason.OUT_OF_MEMORY,
    "NODE_FAIL": Reason.NODE_FAILED,
    "BOOT_FAIL": Reason.BOOT_FAILED,
    "DEADLINE": Reason.DEADLINE,
    "PREEMPTED": Reason.PREEMPTED,
    "CANCELLED": Reason.CANCELED,
}
# The command ended by itself. If SLURM ended the job, the exit code is not the command's.
COMMAND_ENDS = frozenset({"FAILED", "LAUNCH_FAILED", "OUT_OF_MEMORY"})
# States of a job after an OOM of a step. Other states have a cause of their own.
OOM_RESULTS = frozenset({"FAILED", "TIMEOUT"})
NO_REASON = ("", "None")
NOT_EXECUTED = "0:53"  # the exit code of a job whose script could not be started
LAUNCH_FAILURES = ("JobLaunchFailure", "launch_failed_requeued_held")
KILLED = 137
NEVER = "DependencyNeverSatisfied"
CODES_IN_QUEUE = {"COMPLETED": 0, "OUT_OF_MEMORY": KILLED}  # squeue has no exit codes
SQUEUE_FIELDS = ("%i", "%T", "%r", "%S", "%e", "%N", "%j")  # in the order of QueueRow
# In the order of AccountRow.
SACCT_FIELDS = "JobID,JobIDRaw,State,ExitCode,Reason,Start,End,NodeList,JobName,DerivedExitCode"
ACCOUNTING_DISABLED = "accounting storage is disabled"
UNNAMED = "allocation"  # sacct's name for a job as long as the accounting has no name
# How long to wait for the accounting after a failure: only the accounting has its code and cause.
ACCOUNTING_DELAY = timedelta(seconds=60)


@dataclass(frozen=True)
class QueueRow:
    """squeue's row of a job."""

    id: str
    state: str
    reason: str
    start: str
    end: str
    nodes: str
    name: str

    @property
    def raw(self) -> str:
        """`RUNNING on node1`."""
        if not self.nodes:
            return self.state
        return f"{self.state} on {self.nodes}"


@dataclass(frozen=True)
class AccountRow:
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
    def state_word(self) -> str:
        """`CANCELLED` of "CANCELLED by 1001"."""
        return self.state.split(" ")[0].rstrip("+")

    @property
    def has_begun(self) -> bool:
        """True if it has had nodes. (A job that never began may have its end time as start.)"""
        return self.nodes not in ("", "None assigned")

    @property
    def raw(self) -> str:
        """`COMPLETED on node1`."""
        if not self.has_begun:
            return self.state
        return f"{self.state} on {self.nodes}"


@dataclass(frozen=True)
class JobAccount:
    """sacct's rows of one job: the job's own row, and the rows of its steps."""

    job: AccountRow
    steps: tuple[AccountRow, ...] = ()


@dataclass(frozen=True)
class Answers:
    """The answers of squeue and sacct from one exec."""

    queue: Mapping[str, QueueRow] | None  # job id -> row; None: squeue did not answer
    accounting: Mapping[str, JobAccount] | None  # job id -> rows; None: sacct did not answer
    trouble: str = ""  # the error of the one that did not answer
    keeps_accounts: bool = True  # False: the site has no accounting, so ignore sacct's silence
    now: datetime | None = None  # by the cluster's clock


# Asking


def squeue_command(ids: Sequence[str]) -> str:
    """One query for any number of jobs.

    squeue fails for a forgotten id, but only if it is the only id.
    """
    return (
        f"timeout 25 squeue --noheader --states=all --format='{'|'.join(SQUEUE_FIELDS)}' "
        f"--jobs={','.join(ids)}"
    )


def sacct_command(ids: Sequence[str]) -> str:
    """One query for any number of jobs."""
    return f"timeout 25 sacct --noheader --parsable2 --format={SACCT_FIELDS} --jobs={','.join(ids)}"


# Reading the answers


def read_answers(texts: Mapping[str, tuple[int, str, str]]) -> Answers:
    """`texts`: squeue, sacct and now -> exit code, output, error text."""
    queue_code, queue_text, queue_error = texts["squeue"]
    account_code, account_text, account_error = texts["sacct"]
    queue = read_squeue(queue_code, queue_text, queue_error)
    return Answers(
        queue=queue,
        accounting=read_sacct(account_code, account_text),
        trouble=last_line(queue_error if queue is None else account_error),
        keeps_accounts=ACCOUNTING_DISABLED not in account_error,
        now=read_time(texts["now"][1]) if "now" in texts else None,
    )


def read_squeue(code: int, text: str, error: str) -> Mapping[str, QueueRow] | None:
    """Job id -> row; None if the controller did not answer. A forgotten job has no row."""
    if code != 0 and "Invalid job id" not in error:
        return None
    rows = (line.split("|") for line in text.splitlines())
    return {cells[0]: QueueRow(*cells) for cells in rows if len(cells) == len(SQUEUE_FIELDS)}


def read_sacct(code: int, text: str) -> Mapping[str, JobAccount] | None:
    """Job id -> rows; None if the accounting did not answer. A job's own row comes first."""
    if code != 0:
        return None
    accounts: dict[str, JobAccount] = {}
    for cells in (line.split("|") for line in text.splitlines()):
        if len(cells) == len(SACCT_FIELDS.split(",")):
            add_row(accounts, AccountRow(*cells))
    return accounts


def add_row(accounts: dict[str, JobAccount], row: AccountRow) -> None:
    """Add the row of a job, or of a step of a job that is there."""
    job_id, dot, _ = row.id.partition(".")
    if not dot:
        accounts[job_id] = JobAccount(row)
    elif job_id in accounts:
        account = accounts[job_id]
        accounts[job_id] = replace(account, steps=(*account.steps, row))


def last_line(text: str) -> str:
    """The last line that is not blank; `no answer` if there is none."""
    lines = text.strip().splitlines() or ["no answer"]
    return lines[-1].strip()


# From the answers to an observation


def build_observation(id: str, name: str, answers: Answers, resumes: bool = False) -> Observation:
    """Build the observation of the job `id` from the answers.

    The job must have the name `name`, because SLURM reuses ids. `resumes`: a preempted job goes on
    in a new SLURM job.
    """
    queued = find_queued(id, name, answers)
    account = find_account(id, name, answers)
    if queued is not None and not state_phase(queued.state).ended:
        return queued_observation(queued)
    if account is not None and has_surely_ended(account, answers):
        return ended_in_accounts(account, resumes)
    if queued is None:
        return unended_observation(answers, account)
    if awaits_cause(queued, answers):
        return without_cause(queued)
    return ended_in_queue(queued, resumes)


def find_queued(id: str, name: str, answers: Answers) -> QueueRow | None:
    """squeue's row of the job; None if another job has its id now."""
    row = (answers.queue or {}).get(id)
    if row is None or row.name != name:
        return None
    return row


def find_account(id: str, name: str, answers: Answers) -> JobAccount | None:
    """sacct's rows of the job; None if another job has its id now."""
    account = (answers.accounting or {}).get(id)
    if account is None or account.job.name not in (name, UNNAMED):
        return None
    return account


def has_surely_ended(account: JobAccount, answers: Answers) -> bool:
    """True if the accounting has an end that the controller cannot take back.

    Only squeue knows of a requeue at once. If it did not answer, the end is not sure for a job that
    the controller may have started again.
    """
    if not state_phase(account.job.state_word).ended:
        return False
    return answers.queue is not None or account.job.state_word not in MAY_RESTART


def awaits_cause(row: QueueRow, answers: Answers) -> bool:
    """True if a failure's code and cause are on their way to the accounting. squeue has neither."""
    if row.state != "FAILED" or not answers.keeps_accounts:
        return False
    end = read_time(row.end)
    if answers.now is None or end is None:
        return False
    return answers.now - end < ACCOUNTING_DELAY


def without_cause(row: QueueRow) -> Observation:
    """A failed job without a known cause. It counts as running until the accounting has one."""
    raw = f"{row.state} on {row.nodes}"
    observed = Observation(Phase.RUNNING, raw, started_at=read_time(row.start))
    return with_reason(observed, words.why(Reason.CAUSE_NOT_TOLD_YET, what=row.state))


def with_reason(observed: Observation, reason: Why) -> Observation:
    return replace(observed, reason=reason.text, reason_code=reason.code)


def unended_observation(answers: Answers, account: JobAccount | None) -> Observation:
    """A job without a known end: squeue or sacct did not answer, or neither has the job."""
    raw = account.job.state if account else ""
    if answers.queue is None:
        return Observation(Phase.UNREACHABLE, raw, reason=f"SLURM's controller: {answers.trouble}")
    if answers.accounting is None and answers.keeps_accounts:
        return Observation(Phase.UNREACHABLE, raw, reason=f"SLURM's accounting: {answers.trouble}")
    if account is None:
        return Observation(Phase.ABSENT, "SLURM does not know it")
    return Observation(Phase.ABSENT, f"squeue has forgotten it; sacct says {raw}")


def state_phase(state: str) -> Phase:
    """The phase of a SLURM state; UNKNOWN for one that is not in the table."""
    return PHASES.get(state, Phase.UNKNOWN)


# A job in the queue


def queued_observation(row: QueueRow) -> Observation:
    """A job that squeue shows and that has not ended."""
    if state_phase(row.state) is Phase.PENDING:
        return with_reason(pending_observation(row), why_pending(row))
    started_at = read_time(row.start)
    return Observation(
        state_phase(row.state), row.raw, started_at=started_at, backend_words=row.state
    )


def pending_observation(row: QueueRow) -> Observation:
    """A waiting job, with squeue's own reason and its estimate of the start."""
    if row.reason in NO_REASON:
        return Observation(Phase.PENDING, row.raw, backend_words=row.state)
    start = read_time(row.start)
    return Observation(Phase.PENDING, row.raw, backend_words=row.reason, expected_start=start)


def why_pending(row: QueueRow) -> Why:
    """`Resources; expected to start 2026-11-21 14:20 UTC`."""
    if row.reason in NO_REASON:
        return UNEXPLAINED
    start = read_time(row.start)
    if start is None:
        return words.why(Reason.QUEUED, what=row.reason)
    return words.why(Reason.QUEUED, "slurm", what=row.reason, start=describe_start(start))


def describe_start(start: datetime) -> str:
    """`expected to start 2026-11-21 14:20 UTC`."""
    return words.sentence(Reason.QUEUED, "start", start=f"{start:%Y-%m-%d %H:%M}")


def ended_in_queue(row: QueueRow, resumes: bool) -> Observation:
    """A job that has ended and that only squeue knows.

    squeue shows an ended job for a while, without its exit code. For a job that never began, it
    shows the end time as the start.
    """
    if row.reason == NEVER:
        return given_up(row.state)
    observed = Observation(
        phase=ended_phase(row.state, resumes),
        raw=row.raw,
        exit_code=CODES_IN_QUEUE.get(row.state),
        started_at=read_time(row.start) if row.nodes else None,
        ended_at=read_time(row.end),
        backend_words=row.state,
    )
    reason = why_ended(row.state, None, row.reason, "")
    return with_queue_reason(with_reason(observed, reason), row.reason)


# A job in the accounting


def ended_in_accounts(account: JobAccount, resumes: bool) -> Observation:
    """The observation of an ended job, by its rows in the accounting."""
    job = account.job
    if is_given_up(job):
        return given_up(job.state)
    if was_not_started(account):
        return never_started(job)
    word = end_word(account)
    code = exit_code(job.exit)
    if word == "OUT_OF_MEMORY":
        code = KILLED
    observed = Observation(
        phase=ended_phase(word, resumes),
        raw=job.raw,
        exit_code=code if is_commands_code(word, code) else None,
        started_at=read_time(job.start) if job.has_begun else None,
        ended_at=read_time(job.end),
        backend_words=word,
    )
    reason = why_ended(word, code, job.reason, job.exit)
    return with_queue_reason(with_reason(observed, reason), job.reason)


def end_word(account: JobAccount) -> str:
    """The job's state; OUT_OF_MEMORY if a step ran out of memory and the job failed."""
    word = account.job.state_word
    if word in OOM_RESULTS and any(step.state_word == "OUT_OF_MEMORY" for step in account.steps):
        return "OUT_OF_MEMORY"
    return word


def is_commands_code(word: str, code: int | None) -> bool:
    """True if the exit code is the command's own, and not one that SLURM's kill caused."""
    return word == "COMPLETED" or (word in COMMAND_ENDS and bool(code))


def with_queue_reason(observed: Observation, reason: str) -> Observation:
    """Keep SLURM's reason as its own words if nothing else is known."""
    if observed.reason_code is Reason.QUEUE_REASON:
        return replace(observed, backend_words=reason)
    return observed


def is_given_up(job: AccountRow) -> bool:
    """True if SLURM itself ended a job that had not begun.

    For a job that a person canceled, SLURM says "CANCELLED by" and an id.
    """
    return job.state == "CANCELLED" and not job.has_begun


def given_up(raw: str) -> Observation:
    observed = Observation(Phase.FAILED, raw, backend_words=NEVER)
    return with_reason(observed, words.why(Reason.CONVERSION_FAILED, what=NEVER))


def was_not_started(account: JobAccount) -> bool:
    """True if a node refused to start the script, so that the exit code is not the script's.

    This happens on a node that was lost and comes back with its old job: SLURM ends that job there,
    and starts it again at once.
    """
    batch = next((step for step in account.steps if step.name == "batch"), None)
    if batch is None or account.job.state_word != "FAILED":
        return False
    never_ran = state_phase(batch.state_word).ended and batch.exit in ("", "0:0")
    return never_ran and bool(exit_code(account.job.exit))


def never_started(job: AccountRow) -> Observation:
    observed = Observation(Phase.FAILED, f"{job.state} on {job.nodes}", ended_at=read_time(job.end))
    return with_reason(observed, words.why(Reason.SCRIPT_NOT_STARTED))


def ended_phase(word: str, resumes: bool) -> Phase:
    """A preempted job is canceled, unless it goes on in a new SLURM job."""
    if word == "PREEMPTED" and resumes:
        return Phase.FAILED
    return state_phase(word)


# Why it ended


def why_ended(word: str, code: int | None, reason: str, exit: str) -> Why:
    """`reason` and `exit`: SLURM's own words for both. `code`: the exit code, read from `exit`."""
    if word == "COMPLETED":
        return UNEXPLAINED  # the reason says why it waited before
    if word in REASONS:
        return words.why(REASONS[word], "slurm")
    failed_launch = launch_failure(reason, exit)
    if failed_launch:
        return words.why(Reason.NOT_LAUNCHED, what=failed_launch)
    if word == "FAILED" and has_ended_by_signal(exit):
        # The signal hit the batch script: the script turns a signal of the command into a code.
        return words.why(Reason.SCRIPT_KILLED, "signal", signal=exit.removeprefix("0:"))
    if word == "FAILED" and code is not None:
        return words.why(Reason.EXIT_CODE, code=code)
    return in_slurms_words(reason)


def launch_failure(reason: str, exit: str) -> str:
    """SLURM's words for a script that it could not start; "" if the script started."""
    if reason in LAUNCH_FAILURES:
        was_killed = has_ended_by_signal(exit) and exit != NOT_EXECUTED
        return "" if was_killed else reason
    if exit == NOT_EXECUTED:
        return exit
    return ""


def in_slurms_words(reason: str) -> Why:
    if reason in (*NO_REASON, "NonZeroExitCode"):
        return UNEXPLAINED
    return words.why(Reason.QUEUE_REASON, what=reason)


def has_ended_by_signal(exit: str) -> bool:
    return exit.startswith("0:") and exit != "0:0"


def exit_code(text: str) -> int | None:
    """The exit code of `3:0`, as in a shell: `0:9` is 137 (128 + the signal). None if invalid."""
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if match is None:
        return None
    code, signal = int(match[1]), int(match[2])
    if code == 0 and 0 < signal < 65:
        return 128 + signal
    return code


def read_time(text: str) -> datetime | None:
    """Parse SLURM's time, which is in UTC. None for Unknown, N/A, None."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return None


# The answer to scripts/machines.sh


def read_machines(text: str) -> Machines:
    """Read lines of a word and a value. They do not include GPU memory or GPU architecture."""
    facts = [line.partition(" ") for line in text.splitlines()]
    values = {word: value for word, _, value in facts}
    gpus = most_gpus(gres_gpus(value) for word, _, value in facts if word == "gres")
    free = values.get("free", "")
    return Machines(
        tuple(gpus),
        "sinfo does not answer on the login node." if "gres" not in values else "",
        image_archs([values.get("arch", "")]),
        free=int(free) * 1024 if free.isdigit() and len(free) < 16 else None,
    )
