"""Notes: facts about a job that its status and its diagnosis do not show.

For example: a canceled program was killed in the middle of a save; a pipe hid a failure, or holds
back a program's output; a job is Complete and its loss is NaN.
"""

from __future__ import annotations

from pathlib import Path

from tao_sdk.engine import rules
from tao_sdk.engine.diagnose import log_end, was_told_to_end
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.grace import longer_grace
from tao_sdk.model.errors import join_sentences
from tao_sdk.model.job import Job
from tao_sdk.model.progress import NOT_FINITE_ADVICE, not_finite_words
from tao_sdk.model.reasons import Reason
from tao_sdk.model.status import Status
from tao_sdk.payload.pipelines import (
    Hiding,
    ReadScript,
    cut_by_signal,
    hidden_exit_code,
    holding_filter,
)

LONGEST_SCRIPT = 64 * 1024  # bytes of a script that is read
LINES_BEHIND = 5  # that commands print after a failed program

TEE_WORDS = (
    "The signal ended tee too, so the program may have failed before it saved. The job's log "
    "has all output without tee. To keep tee: "
    "trap : TERM; PROGRAM | (trap '' TERM; exec tee FILE)"
)
GRACE_WORDS = (
    "The command had not ended when its grace was over, so it was killed: what it was saving may "
    "be cut off. Next time, --grace {grace} gives it longer."
)
MEMORY_WORDS = (
    "The memory ran out and the kernel killed a process of the job. The command went on without it "
    "and ended well, so its results may not be whole. Give it more: --memory 64g"
)


def notes(engine: Engine, job: Job) -> list[str]:
    """Return the notes on a job, each a sentence or more. Most jobs have none."""
    if job.status is Status.RUNNING:
        found = [held_back_note(engine, job)]
    elif job.status is Status.COMPLETE:
        found = [memory_note(job), hidden_failure_note(engine, job), not_finite_note(job)]
    else:
        found = [grace_note(engine, job), tee_note(engine, job)]
    return [note for note in found if note]


def grace_note(engine: Engine, job: Job) -> str:
    """Advice for a job that was killed when its grace was over; "" for any other."""
    grace = longer_grace(engine, job)
    return GRACE_WORDS.format(grace=grace) if grace else ""


def tee_note(engine: Engine, job: Job) -> str:
    """Say what the signal did to a job that pipes into tee; "" for any other.

    tee ends at once, and the program fails at the next line that it prints.
    """
    if not was_told_to_end(job) or job.started is None:
        return ""
    if not cut_by_signal(command_of(job), script_reader(engine, job)):
        return ""
    return TEE_WORDS


def memory_note(job: Job) -> str:
    """Advice for a Complete job that lost a process to the kernel's OOM killer; "" for any
    other.
    """
    return MEMORY_WORDS if job.reason_code is Reason.OUT_OF_MEMORY else ""


def hidden_failure_note(engine: Engine, job: Job) -> str:
    """The error that ended a program of a Complete job, and how to make such a failure count."""
    hiding = hidden_exit_code(command_of(job), script_reader(engine, job))
    if hiding is None:
        return ""
    error = rules.fatal_error(log_end(engine, job).text, 0 if hiding.by_pipe else LINES_BEHIND)
    if not error:
        return ""
    failure = f"{hiding.program} seems to have failed: {error}"
    return join_sentences(failure, hidden_words(hiding))


def hidden_words(hiding: Hiding) -> str:
    """Say whose exit code the job has, and how to make a failure count."""
    whose = f"The job is Complete, for its exit code is that of {hiding.last}."
    if hiding.by_pipe:
        return f"{whose} For a failure to count, begin the command with: set -o pipefail;"
    if hiding.in_background:
        return f"{whose} For a failure to count: {hiding.program} ... & wait $!"
    return f"{whose} For a failure to count: {hiding.program} ... && {hiding.last} ..."


def not_finite_note(job: Job) -> str:
    """Name the metrics of a Complete job that are NaN, since when, and what to do."""
    words = not_finite_words(job.progress)
    return f"Its {words}. {NOT_FINITE_ADVICE}" if words else ""


def held_back_note(engine: Engine, job: Job) -> str:
    """Name a filter in a running job's command that buffers the output, and the option
    against it.
    """
    found = holding_filter(command_of(job), script_reader(engine, job))
    if found is None:
        return ""
    program, option = found
    return (
        f"{program} in the command keeps some thousand characters before it prints them. To see "
        f"each line at once: {option}"
    )


def command_of(job: Job) -> str:
    return str(job.spec.get("command", ""))


def script_reader(engine: Engine, job: Job) -> ReadScript:
    """Return a function that reads a script of the job's command on this machine, in its present
    form.
    """
    folders = (engine.store.attempt(job.id, job.attempt).start_folder, ".")

    def read(path: str) -> str:
        for folder in dict.fromkeys(folders):
            text = text_of(Path(folder, path))
            if text:
                return text
        return ""

    return read


def text_of(path: Path) -> str:
    """A script's text; "" if it is not a file, is too long or cannot be read."""
    try:
        if not path.is_file() or path.stat().st_size > LONGEST_SCRIPT:
            return ""
        with path.open(errors="replace") as file:
            return file.read(LONGEST_SCRIPT)  # the file may have grown meanwhile
    except (OSError, ValueError):
        return ""
