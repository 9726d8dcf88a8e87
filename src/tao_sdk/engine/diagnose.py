"""Diagnose: gather the evidence of a job's newest attempt, and find the rule that explains it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tao_sdk.backends.contract import AnyBackend, LogRequest, TellsActivity
from tao_sdk.engine import rules
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.full_disk import full_disks
from tao_sdk.engine.kept_log import kept_log
from tao_sdk.engine.own_modules import own_module
from tao_sdk.model.activity import Activity
from tao_sdk.model.checkpoints import is_crash
from tao_sdk.model.diagnosis import Diagnosis, ErrClass, Evidence
from tao_sdk.model.errors import PathNotFound, TaoError, Unreachable, join_sentences
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.plan import Ref
from tao_sdk.model.progress import not_finite_words
from tao_sdk.model.progress_reader import ProgressReader
from tao_sdk.model.reasons import Reason
from tao_sdk.model.status import Status
from tao_sdk.model.words import Why
from tao_sdk.runner.events import EventFilter

TAIL_BYTES = 64 * 1024
TAIL_LINES = 1000
LONGEST_LINE = 1000  # characters of one line that are shown

FOLLOWS = "The next attempt is started by a watcher: tao watch."
OVER = "Submit it again once that is mended."
LOOK_AGAIN = "Look again, which finishes a submit that was cut short: tao status {job}"
_SENT_FILE = re.compile(r"/[^\n\"'()]*?/work/([^\n\"'():,]+)")  # the job's copy of a file
# With these reason codes, no backend has said yet why the job is Pending.
UNTOLD = (
    None,
    Reason.SUBMITTING,
    Reason.SUBMITTED,
    Reason.STARTING,
    Reason.ATTEMPT_STARTED,
    Reason.START_UNKNOWN,
    Reason.SUBMIT_BROKEN,
    Reason.NOT_SEEN,
    Reason.NOT_FOUND,
)
WELL = (Status.COMPLETE, Status.CANCELED, Status.RUNNING)


def diagnose(engine: Engine, job: Job) -> Diagnosis | None:
    """Why the job waits or failed, and what to do; None for a job that is well."""
    if job.status in WELL:
        return None
    diagnosis = told_at_the_end(engine, job) or explain(engine, job)
    diagnosis = name_not_finite(diagnosis, job)
    if job.waits_for_next_attempt:
        return replace(diagnosis, next=FOLLOWS)  # submitting it by hand as well would make two jobs
    return diagnosis


def find_cause(engine: Engine, job: Job) -> Diagnosis | None:
    """Why the job failed, or why it is Pending where its backend has named a reason; else None."""
    if job.status is Status.ERROR:
        return diagnose(engine, job)
    if job.status is not Status.PENDING or job.reason_code in UNTOLD:
        return None
    return diagnose(engine, job)


def stored(diagnosis: Diagnosis, attempt: int) -> dict[str, Any]:
    """The event data that stores a diagnosis. Its evidence may be gone by the time somebody
    asks.
    """
    return {**diagnosis.to_json(), "attempt": attempt}


def told_at_the_end(engine: Engine, job: Job) -> Diagnosis | None:
    """Return the diagnosis that was stored when the job, or its newest attempt, failed. None if
    there is none, or if the job is neither failed nor waiting for its next attempt.
    """
    if job.status is not Status.ERROR and not job.waits_for_next_attempt:
        return None
    event = engine.store.last_event(job.id, "diagnosis")
    if event is None or event.data["attempt"] != job.attempt:
        return None
    return Diagnosis.from_json(event.data)


def known_cause(engine: Engine, job: Job) -> str:
    """Return the stored cause of the failure, in one line; "" if no rule explained it. Asks no
    backend.
    """
    diagnosis = told_at_the_end(engine, job)
    if diagnosis is None:
        return ""
    diagnosis = name_not_finite(diagnosis, job)
    if diagnosis.rule == rules.NOTHING_KNOWN:
        return ""
    return diagnosis.what.partition("\n")[0]


def name_not_finite(diagnosis: Diagnosis, job: Job) -> Diagnosis:
    """Add to a failed job's diagnosis the metrics that were NaN at its end, and since when.

    If no other cause is known, they are the cause.
    """
    words = not_finite_words(job.progress)
    if job.status is not Status.ERROR or not words:
        return diagnosis
    if diagnosis.rule == rules.NOTHING_KNOWN:
        return rules.not_finite(words, diagnosis)
    if diagnosis.rule == rules.NAN_LOSS:
        return replace(diagnosis, what=f"{diagnosis.what} ({words})")
    return replace(diagnosis, why="\n".join(filter(None, [diagnosis.why, f"Its {words}."])))


def explain(engine: Engine, job: Job) -> Diagnosis:
    """Diagnose the newest attempt from its evidence. If no rule fits, return "nothing known" with
    the log's last lines.
    """
    evidence = gather(engine, job)
    if evidence is None:
        return not_started(job)
    return rule_found(engine, job, evidence)


def explain_refusal(engine: Engine, job: Job, error: TaoError) -> Diagnosis:
    """Diagnose an attempt from the error with which the backend refused it."""
    return rule_found(engine, job, Evidence.of_refusal(error))


def rule_found(engine: Engine, job: Job, evidence: Evidence) -> Diagnosis:
    """Return the diagnosis of the first rule that fits, with secret values redacted. The backend's
    rules come before the engine's.
    """
    backend = engine.backend_of(job)
    evidence = replace(evidence, unused_fields=backend.capabilities.unused_fields)
    diagnosis = backend.diagnose(evidence) or rules.diagnose(evidence)
    return with_own_files(diagnosis, evidence.files).redacted(engine.redactor(job))


def with_own_files(diagnosis: Diagnosis, files: Collection[str]) -> Diagnosis:
    """Return the diagnosis with each sent file under the path that the user gave. The path of the
    job's copy, `/results/.../work/train.py`, says nothing to people.
    """

    def own_name(found: re.Match[str]) -> str:
        return found[1] if found[1] in files else found[0]

    return replace(
        diagnosis,
        what=_SENT_FILE.sub(own_name, diagnosis.what),
        why=_SENT_FILE.sub(own_name, diagnosis.why),
    )


def activity(engine: Engine, job: Job) -> Activity | None:
    """Return what a running job does now; None if it is not running, or its backend cannot tell."""
    if job.status is not Status.RUNNING:
        return None
    try:
        ref, backend = engine.ref_of(job), engine.backend_of(job)
        if ref is None or not isinstance(backend, TellsActivity):
            return None
        return backend.activity(ref)
    except TaoError:
        return None


@dataclass(frozen=True)
class LogEnd:
    """The end of a job's log: the command's own output, and the runner's events in it."""

    text: str = ""
    events: tuple[dict[str, Any], ...] = ()


def log_end(engine: Engine, job: Job) -> LogEnd:
    """Return the end of the newest attempt's log, with secret values redacted; empty if the log
    cannot be read now.
    """
    ref = engine.ref_of(job)
    if ref is None:
        return LogEnd()
    try:
        text, events = read_tail(engine, engine.backend_of(job), ref)
    except TaoError:
        return LogEnd()
    return LogEnd(engine.redactor(job)(text), events)


def lost_results(engine: Engine, job: Job, end: LogEnd | None = None) -> str:
    """Return the runner's newest message about results that it could not save.

    "" if there is no such message, or the log cannot be read now.
    """
    for event in reversed((end or log_end(engine, job)).events):
        if event["event"] == "failed" and event.get("code") == "output.lost":
            words = join_sentences(*(str(event.get(part) or "") for part in ("what", "why")))
            return engine.redactor(job)(words)
    return ""


def failure_while_ending(job: Job, end: LogEnd) -> str:
    """Describe how a program failed after it was told to end: `exit code 1, ValueError: no room`.

    "" if no failure is known: the exit code is not a crash's, and the log does not end in a
    traceback.
    """
    if not was_told_to_end(job):
        return ""
    error = rules.error_at_end(end.text)
    if not is_crash(job.exit_code):
        return error
    return ", ".join(filter(None, [f"exit code {job.exit_code}", error or last_words(end.text)]))


def last_words(log_tail: str) -> str:
    """Return the last line of the log, which may be an error. "" if the line reports an epoch or a
    step: then a later error has not reached the log.
    """
    line = rules.last_line(log_tail)
    reader = ProgressReader()
    reader.feed(line.encode() + b"\n")
    return "" if reader.progress.is_counted else line


def was_told_to_end(job: Job) -> bool:
    """True if the job has ended after a cancel or by its time limit."""
    return job.status is Status.CANCELED or job.reason_code is Reason.TIME_LIMIT


def gather(engine: Engine, job: Job) -> Evidence | None:
    """Gather the newest attempt's evidence, including its log tail. None if the attempt never got a
    place to look at.
    """
    ref = engine.ref_of(job)
    if ref is None:
        return None
    backend = engine.backend_of(job)
    evidence = backend.evidence(ref)
    text, events = read_tail(engine, backend, ref)
    row = engine.store.attempt(job.id, job.attempt)
    log_tail = f"{evidence.log_tail}\n{text}".strip("\n")
    evidence = replace(with_job(evidence, job, row), log_tail=log_tail, runner=events)
    evidence = replace(evidence, own_module=module_not_sent(evidence, row.start_folder))
    if backend.capabilities.shared_filesystem and rules.FULL_DISK(evidence):
        return replace(evidence, full_disks=full_disks(job, row.start_folder))
    return evidence


def with_job(evidence: Evidence, job: Job, row: AttemptRow) -> Evidence:
    """Fill the gaps in a backend's evidence from the store. `row` is the newest attempt."""
    files = tuple(str(path) for path in job.spec.get("files", ()))
    why = Why(job.reason_code, job.message)
    if evidence.reason:
        why = Why(evidence.reason_code, evidence.reason)
    return replace(
        evidence,
        job_id=job.id,
        phase=evidence.phase or job.status.value,
        exit_code=job.exit_code if evidence.exit_code is None else evidence.exit_code,
        reason=why.text,
        reason_code=why.code,
        limits={**row.plan.get("limits", {}), **limits_of(job)},
        files=files,
        inputs=paths_of_inputs(job),
        start_folder="" if files else row.start_folder,  # with files it is the job's own
    )


def paths_of_inputs(job: Job) -> tuple[str, ...]:
    """The paths of the inputs inside the job; () if the specs or arguments key them."""
    if job.spec.get("specs") is not None or job.spec.get("args") is not None:
        return ()
    return tuple(map(str, job.spec.get("inputs") or ()))


def module_not_sent(evidence: Evidence, start_folder: str) -> str:
    """Return the user's module that the program could not import, if it lies in the folder where
    `tao run` was typed or in the current folder; else "".
    """
    error = rules.module_error(evidence)
    folders = dict.fromkeys([start_folder or ".", "."])
    return own_module(error, evidence.files, folders) if error else ""


def limits_of(job: Job) -> dict[str, str]:
    """The requested memory, shm_size and time_limit, as the user wrote them."""
    return {
        name: str(job.spec[name])
        for name in ("memory", "shm_size", "time_limit")
        if job.spec.get(name)
    }


def read_tail(
    engine: Engine, backend: AnyBackend, ref: Ref
) -> tuple[str, tuple[dict[str, Any], ...]]:
    """Return (the end of the command's own output, the runner's events in it)."""
    events = EventFilter()
    data = bytearray()
    all_events: list[dict[str, Any]] = []
    for chunk in _tail_chunks(engine, backend, ref):
        output, new_events = events.feed(chunk)
        data += output
        all_events += [{"event": event.name, **event.facts} for event in new_events]
        del data[:-TAIL_BYTES]
    data += events.close()
    lines = bytes(data[-TAIL_BYTES:]).decode("utf-8", "replace").splitlines()
    return "\n".join(map(shortened, lines)), tuple(all_events)


def shortened(line: str) -> str:
    """Shorten a very long line to its start and its end."""
    half = LONGEST_LINE // 2
    return line if len(line) <= LONGEST_LINE else f"{line[:half]} … {line[-half:]}"


def _tail_chunks(engine: Engine, backend: AnyBackend, ref: Ref) -> Iterator[bytes]:
    """Yield the log tail in chunks, because one line may be as long as the log. If the backend has
    lost the log or cannot be reached, read rank 0's copy.
    """
    try:
        for chunk in backend.logs(ref, LogRequest(tail=TAIL_LINES)):
            yield chunk.data
    except (PathNotFound, Unreachable):
        kept = kept_log(
            engine, engine.store.attempt(ref.attempt.job_id, ref.attempt.number), rank=0
        )
        if kept is not None:
            yield kept.read(max(0, kept.size() - TAIL_BYTES), TAIL_BYTES)


def not_started(job: Job) -> Diagnosis:
    """The diagnosis of a job whose newest attempt has no place to look at."""
    return Diagnosis(
        what=job.message or "The job has not been started.",
        err_class=ErrClass.INFRA,
        next=OVER if job.status.terminal else LOOK_AGAIN.format(job=job.id),
        rule="not_started",
        reason_code=job.reason_code,
    )
