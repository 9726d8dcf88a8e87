"""Look: ask the backends for the state of jobs, one query per endpoint, and store what follows.

Looking never acts: a failed attempt that is worth a retry is reported as due, and only a watcher
starts it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tao_sdk.backends.asking import ask_side_by_side
from tao_sdk.backends.contract import AnyBackend, MiB
from tao_sdk.engine import hooks, progress
from tao_sdk.engine.bucket_files import outcome_in_bucket
from tao_sdk.engine.drain import drain
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.grace import with_grace_over
from tao_sdk.engine.letting_go import let_go_jobs
from tao_sdk.engine.retry import RetryPolicy, wait_before
from tao_sdk.engine.side_by_side import all_answers
from tao_sdk.engine.submit import settle
from tao_sdk.model import words
from tao_sdk.model.clock import to_iso
from tao_sdk.model.diagnosis import Diagnosis
from tao_sdk.model.errors import JobNotFound, Refused, TaoError
from tao_sdk.model.job import AttemptRow, Endpoint, Job
from tao_sdk.model.observation import Observation, Outcome, Phase
from tao_sdk.model.plan import Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.model.status import LOOKS_BEFORE_GONE, Standing, Status, advance
from tao_sdk.store import NewEvent

END_SECONDS = 1.0  # for reading the rest of the log of a job that has just ended
MOST_KEPT = 64 * MiB  # of each rank's log, copied at the end of a job
SEEN_AGAIN = timedelta(seconds=30)  # how often a look without news is written to the store

Groups = dict[Endpoint, list[tuple[Job, AttemptRow]]]


@dataclass(frozen=True)
class Looked:
    """A job after a look, and when its failed newest attempt is to be tried again, or None."""

    job: Job
    retry_at: datetime | None = None


def look(engine: Engine, jobs: Iterable[Job]) -> list[Looked]:
    """Look at the live jobs among `jobs`. Return every job as it is now, in the order given. Then
    give back what those of them have rented that have ended.
    """
    jobs = list(jobs)
    looked = {job.id: Looked(job) for job in jobs}
    for one in _look_at_all(engine, _by_endpoint(engine, jobs)):
        looked[one.job.id] = replace(one, job=_never_earlier(engine, one.job))
    rented = [one.job.id for one in looked.values() if one.job.is_still_rented]
    for job_id in let_go_jobs(engine, rented):
        looked[job_id] = Looked(_as_stored(engine, looked[job_id].job))
    return [looked[job.id] for job in jobs]


def _look_at_all(engine: Engine, groups: Groups) -> Iterator[Looked]:
    """Look at endpoints side by side, so that a slow or silent one holds up no other."""
    for looked in ask_side_by_side(
        lambda place: _look_at_endpoint(engine, *place, groups[place]), list(groups)
    ):
        yield from looked


def _never_earlier(engine: Engine, job: Job) -> Job:
    """The job, with a `seen_at` no earlier than this process has reported before. Not every look is
    written to the store.
    """
    last_told = engine.newest_told_look.get(job.id)
    if last_told is not None and (job.seen_at is None or job.seen_at < last_told):
        return replace(job, seen_at=last_told)
    if job.seen_at is not None:
        engine.newest_told_look[job.id] = job.seen_at
    return job


def _by_endpoint(engine: Engine, jobs: Sequence[Job]) -> Groups:
    live = [job for job in jobs if not job.status.terminal and not job.imported_from]
    rows = engine.store.newest_attempts([job.id for job in live])
    groups: Groups = defaultdict(list)
    for job in live:
        if row := rows.get(job.id):  # else it was removed meanwhile
            groups[job.platform, row.attempt.endpoint].append((job, row))
    return groups


def _look_at_endpoint(
    engine: Engine, platform: str, endpoint: str, group: list[tuple[Job, AttemptRow]]
) -> list[Looked]:
    try:
        backend = engine.backend(platform, endpoint)
    except TaoError as error:
        # another endpoint, a library or a credential that is not here: its jobs cannot be seen
        return [Looked(_unseen(engine, job, error)) for job, _ in group]
    places = _all_settled(engine, group)
    try:
        seen = backend.observe([ref for _, ref in places if ref])
    except TaoError as error:  # this endpoint's jobs alone cannot be seen
        return [Looked(_unseen(engine, job, error)) for job, _ in group]
    judged = _judge_ended(engine, backend, places, seen)
    return [
        judged.get(job.id) or _judge_one(engine, backend, job, ref, seen) for job, ref in places
    ]


def _judge_ended(
    engine: Engine,
    backend: AnyBackend,
    places: Sequence[tuple[Job, Ref | None]],
    seen: Mapping[Ref, Observation],
) -> dict[str, Looked]:
    """Judge the jobs that have ended, by id, as many at once as the backend has readers: each needs
    its log and its evidence.
    """
    ended = [(job, ref) for job, ref in places if ref and seen[ref].phase.ended]
    judged = all_answers(
        lambda place: _judge_one(engine, backend, *place, seen),
        ended,
        backend.capabilities.readers,
    )
    return {job.id: looked for (job, _), looked in zip(ended, judged, strict=True)}


def _judge_one(
    engine: Engine,
    backend: AnyBackend,
    job: Job,
    ref: Ref | None,
    seen: Mapping[Ref, Observation],
) -> Looked:
    if ref is None:
        return _without_place(engine, job)
    return judge(engine, backend, job, ref, seen[ref])


def _without_place(engine: Engine, job: Job) -> Looked:
    """Judge a job that has no place to look at. If its newest attempt was refused, another may be
    due.
    """
    now = _as_stored(engine, job)
    return Looked(now, now.next_attempt_at)


def _as_stored(engine: Engine, job: Job) -> Job:
    """The job as the store has it. The given one if its row is gone: the job was removed, or its
    submit was refused.
    """
    try:
        return engine.store.get(job.id)
    except JobNotFound:
        return job


def _all_settled(
    engine: Engine, group: Sequence[tuple[Job, AttemptRow]]
) -> list[tuple[Job, Ref | None]]:
    """Return each job with its ref. Finishes submits that were cut short, several at a time."""
    if all(_is_settled(row) for _, row in group):
        return [(job, row.ref) for job, row in group]
    refs = all_answers(lambda pair: _settled(engine, *pair), group)
    return [(job, ref) for (job, _), ref in zip(group, refs, strict=True)]


def _is_settled(row: AttemptRow) -> bool:
    return row.ref is not None and row.ref.ready


def _settled(engine: Engine, job: Job, row: AttemptRow) -> Ref | None:
    """Return the attempt's ref, and finish a submit that was cut short. None while there is nothing
    to look at.
    """
    if _is_settled(row):
        return row.ref
    if job.waits_for_next_attempt:  # it was refused, and is not handed over again
        return None
    try:
        return engine.store.attempt(job.id).ref if settle(engine, job) else None
    except Refused as error:
        refused_attempt(engine, job, error)
    except JobNotFound:  # removed meanwhile
        return None
    except TaoError as error:
        _unseen(engine, job, error)
    return None


def _unseen(engine: Engine, job: Job, error: TaoError) -> Job:
    seen = Observation(Phase.UNREACHABLE, "", reason=error.what)
    return _write(engine, job, seen, advance(job.standing, seen))


def refused(engine: Engine, job: Job, error: TaoError, why: Diagnosis | None = None) -> Job:
    """Store that the job has ended because the backend refused its newest attempt, with the
    diagnosis `why` if a rule explained it.
    """
    from tao_sdk.engine.rules import NOTHING_KNOWN

    seen = _refusal(error)
    explained = why if why and why.rule != NOTHING_KNOWN else None
    return _write(engine, job, seen, advance(job.standing, seen), explained)


def _refusal(error: TaoError) -> Observation:
    return Observation(Phase.FAILED, error.what, reason=str(error), reason_code=error.reason_code)


def refused_attempt(engine: Engine, job: Job, error: TaoError) -> Job:
    """Store that the backend refused the newest attempt. Another attempt follows if retries are
    left, else the job ends.
    """
    from tao_sdk.engine import diagnose

    why = diagnose.explain_refusal(engine, job, error)
    if not policy_of(engine.backend_of(job), job).again(job.attempt, why, job.cancel_asked):
        return refused(engine, job, error, why)
    seen = _refusal(error)
    return _write(engine, job, seen, _waiting(job, job.standing, seen), why)


def _waiting(job: Job, standing: Standing, seen: Observation) -> Standing:
    """The standing of a job that waits for its next attempt.

    The next attempt is due `wait_before` seconds after the last one ended, or after the look that
    first saw its end.
    """
    following = job.attempt + 1
    due = (seen.ended_at or seen.seen_at) + timedelta(seconds=wait_before(following))
    waits = replace(standing, status=Status.PENDING, next_attempt_at=due)
    return waits.with_reason(words.why(Reason.NEXT_ATTEMPT, attempt=following))


def judge(
    engine: Engine,
    backend: AnyBackend,
    job: Job,
    ref: Ref,
    seen: Observation,
    *,
    own_end: bool = False,
) -> Looked:
    """Store what follows from one observation of a job's newest attempt. An error concerns this job
    alone.

    `own_end`: the command may have ended by itself, although a cancel was requested.
    """
    try:
        return _judge(engine, backend, job, ref, without_refuted_reason(job, seen), own_end)
    except JobNotFound:  # removed meanwhile
        return Looked(job)
    except TaoError as error:  # the record of its end, its log, or the evidence could not be read
        return Looked(_unseen(engine, job, error))


def without_refuted_reason(job: Job, seen: Observation) -> Observation:
    """Return the observation, without a reason for the job's absence that the last look refutes."""
    if seen.phase is not Phase.ABSENT or seen.ended_by is None:
        return seen
    is_refuted = job.seen_at is not None and job.seen_at > seen.ended_by
    if job.absent_looks:  # the first look that missed the job has decided this
        is_refuted = job.reason_code is Reason.NOT_FOUND
    return replace(seen, reason="") if is_refuted else seen


def _judge(
    engine: Engine, backend: AnyBackend, job: Job, ref: Ref, seen: Observation, own_end: bool
) -> Looked:
    if seen.phase.ended and job.waits_for_next_attempt:
        return _still_waiting(engine, job, seen)
    if _looks_again_too_soon(backend, job, seen):
        return Looked(job)
    standing, why = _conclude(engine, backend, job, ref, seen, own_end)
    if policy_of(backend, job).again(job.attempt, why, job.cancel_asked):
        written = _write(engine, job, seen, _waiting(job, standing, seen))
        return Looked(written, written.next_attempt_at)
    if standing.status.terminal and _is_worth_reading(backend, job, standing):
        scanned = _read_to_end(engine, job)  # first, so that its epochs are reported before its end
        if (scanned.standing, scanned.attempt) != (job.standing, job.attempt):
            return Looked(scanned)
        job = scanned
    after = _write(engine, job, seen, standing, why)
    if after.status.terminal:
        _keep_what_goes(engine, backend, after)
    return Looked(after)


def _conclude(
    engine: Engine, backend: AnyBackend, job: Job, ref: Ref, seen: Observation, own_end: bool
) -> tuple[Standing, Diagnosis | None]:
    """Return (the standing that follows from an observation, the diagnosis if the job has
    failed).
    """
    outcome = _recorded_end(engine, backend, job, ref, seen)
    before = replace(job.standing, cancel_asked=job.cancel_asked and not own_end)
    standing = advance(before, seen, outcome)
    if standing.status is not Status.ERROR:
        return with_grace_over(engine, job, seen, standing), None
    why = _why(engine, backend, job, standing)
    if own_end and policy_of(backend, job).again(job.attempt, why):
        # it was not over: without the cancel, another attempt would have followed
        return advance(job.standing, seen, outcome), None
    if why and why.by_runner:
        standing = standing.with_reason(words.why(Reason.RUNNER_FAILED, what=why.what))
    return standing, why


def _recorded_end(
    engine: Engine, backend: AnyBackend, job: Job, ref: Ref, seen: Observation
) -> Outcome | None:
    """Read the job's end from a record outside its place, once the place has lost the job."""
    if seen.phase is not Phase.ABSENT or job.absent_looks + 1 < LOOKS_BEFORE_GONE:
        return None
    return backend.outcome(ref) or outcome_in_bucket(engine, job)


def _keep_what_goes(engine: Engine, backend: AnyBackend, job: Job) -> None:
    """Copy the log of an ended job if its place would lose it. Release the place if the plan says
    so.
    """
    if engine.store.attempt(job.id).plan.get("release_when_over"):
        _let_go(engine, backend, job)
    elif backend.capabilities.log_goes:
        _keep_log(engine, job)


def _still_waiting(engine: Engine, job: Job, seen: Observation) -> Looked:
    """Return a job that still waits for its next attempt. Restores that message if the job could
    not be seen meanwhile.
    """
    if job.reason_code is Reason.NEXT_ATTEMPT:
        return Looked(job, job.next_attempt_at)
    waits = job.standing.with_reason(words.why(Reason.NEXT_ATTEMPT, attempt=job.attempt + 1))
    written = _write(engine, job, seen, waits)
    return Looked(written, written.next_attempt_at)


def _read_to_end(engine: Engine, job: Job) -> Job:
    """Read the log of an ended job, and return the job. Unless hooks wait for its epochs, a long
    log is read in part and the next look reads the rest.
    """
    if hooks.wants_epochs(job):
        return progress.scan_ended(engine, job, math.inf)
    return progress.scan_ended(engine, job, progress.MOST_AT_ONCE, END_SECONDS)


def _keep_log(engine: Engine, job: Job) -> None:
    """Copy the job's log, so that it outlives its place. A copy that fails now is tried again
    before the release.
    """
    with suppress(TaoError):
        drain(engine, job, engine.store.attempt(job.id), MOST_KEPT)


def _is_worth_reading(backend: AnyBackend, job: Job, standing: Standing) -> bool:
    """True if the log, and the status file among the results, are read now.

    For a canceled job that is so only if its files are cheap to look into or hooks wait for them.
    """
    cheap = not backend.capabilities.files_seconds and not job.results_at
    return cheap or standing.status is not Status.CANCELED or hooks.wants_epochs(job)


def _looks_again_too_soon(backend: AnyBackend, job: Job, seen: Observation) -> bool:
    """True if the last look also missed the job, and was too recent: one lag may explain both."""
    if seen.phase is not Phase.ABSENT or not job.absent_looks or job.seen_at is None:
        return False
    return apart(seen, job.seen_at) < timedelta(seconds=backend.capabilities.lag_seconds)


def apart(seen: Observation, last: datetime) -> timedelta:
    """The time between two looks, never negative: the clock may have been set back between them."""
    return abs(seen.seen_at - last)


def _let_go(engine: Engine, backend: AnyBackend, job: Job) -> None:
    """Copy the job's log, then remove the job at the backend. If either fails now, `tao gc` does it
    later.
    """
    row = engine.store.attempt(job.id)
    try:
        drain(engine, job, row)
        if row.ref is not None:
            backend.release(row.ref)
    except TaoError:
        return


def policy_of(backend: AnyBackend, job: Job) -> RetryPolicy:
    asked = job.spec.get("retries")
    budget = backend.capabilities.retries if asked is None else int(asked)
    return RetryPolicy(budget + job.asked_retries)


def _why(engine: Engine, backend: AnyBackend, job: Job, standing: Standing) -> Diagnosis | None:
    """Return why the job failed. None if the evidence cannot be read and no retry depends on it;
    raises TaoError if one does.
    """
    from tao_sdk.engine import diagnose

    try:
        return diagnose.explain(engine, _with_standing(job, standing))
    except TaoError:
        if policy_of(backend, job).budget >= job.attempt:
            raise
        return None


def _write(
    engine: Engine, job: Job, seen: Observation, standing: Standing, why: Diagnosis | None = None
) -> Job:
    """Store the new standing. If another process was first, its standing stays and is returned."""
    after = _after(job, seen, standing)
    if standing == job.standing and not _worth_writing(job, seen):
        return after
    events: list[NewEvent] = []
    if standing.status is not job.status:
        events.append(
            NewEvent(job.id, "status", standing.status, seen.raw, {"message": standing.message})
        )
    if why:
        from tao_sdk.engine import diagnose

        events.append(NewEvent(job.id, "diagnosis", data=diagnose.stored(why, job.attempt)))
    if standing.status is not job.status:
        events.extend(hooks.due(after))
    written = engine.store.update(after, events)
    if written is None:
        return _as_stored(engine, job)
    if written.status.terminal:
        engine.store.keyring.forget(job.id)
    return written


def _worth_writing(job: Job, seen: Observation) -> bool:
    looked = seen.phase is not Phase.UNREACHABLE
    return looked and (job.seen_at is None or apart(seen, job.seen_at) > SEEN_AGAIN)


def _after(job: Job, seen: Observation, standing: Standing) -> Job:
    return replace(
        _with_standing(job, standing),
        started=_earliest_start(job.started, seen),
        attempt_started=_attempt_started(job, seen),
        ended=(seen.ended_at or seen.seen_at) if standing.status.terminal else None,
        seen_at=job.seen_at if seen.phase is Phase.UNREACHABLE else seen.seen_at,
    )


def _with_standing(job: Job, standing: Standing) -> Job:
    return replace(
        job,
        status=standing.status,
        message=standing.message,
        exit_code=standing.exit_code,
        absent_looks=standing.absent_looks,
        reason_code=standing.reason_code,
        next_attempt_at=standing.next_attempt_at,
    )


def _attempt_started(job: Job, seen: Observation) -> str:
    """The time when a further attempt began, as ISO 8601; "" if unknown. "" also for the first
    attempt, whose start is in `started`.
    """
    if job.attempt == 1:
        return ""
    return to_iso(_earliest_start(job.newest_start, seen)) or ""


def _earliest_start(known: datetime | None, seen: Observation) -> datetime | None:
    """The time when the attempt began: the backend's, which may come late, else that of the first
    look that saw it.
    """
    known_starts = [moment for moment in (known, seen.started_at) if moment is not None]
    if not known_starts and seen.phase in (Phase.RUNNING, Phase.PAUSED, Phase.SUCCEEDED):
        return seen.seen_at
    return min(known_starts, default=None)
