"""Cancel: end jobs, wherever they are in their lives, and keep their logs.

Many jobs are ended in one go: each backend is asked once for all of its jobs. A cancel that could
not be sent to its backend is stored, and a watcher carries it out.
"""

from __future__ import annotations

import copy
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from tao_sdk.backends.contract import AnyBackend, CancelAnswer
from tao_sdk.engine.drain import drain
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.grace import ASKED, grace_of
from tao_sdk.engine.letting_go import let_go_jobs
from tao_sdk.engine.look import judge, look, without_refuted_reason
from tao_sdk.engine.side_by_side import side_by_side
from tao_sdk.engine.submit import GRACE, change, note, settle
from tao_sdk.model import words
from tao_sdk.model.errors import CredentialError, JobNotFound, TaoError, Unreachable
from tao_sdk.model.job import Endpoint, Job
from tao_sdk.model.observation import Observation
from tao_sdk.model.plan import Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.store import NewEvent

SETTLE_SECONDS = 5.0  # for a submit under way, and for a job that is gone to be known as gone
KILL_SECONDS = 5.0  # beyond the grace, for a job that was only told to end
LOOK_SECONDS = 0.1  # between looks for an end

UNSENT = "cancel-unsent"  # the event of a cancel that could not be sent to the backend

Answers = dict[str, bool | TaoError]


@dataclass(frozen=True)
class Target:
    """A live job that is to end, and the ref of its newest attempt."""

    job: Job
    ref: Ref
    own_end: bool  # it may have ended by itself: it waited for no further attempt
    may_be_gone: bool  # and its place may have removed it since: this is its first cancel

    @property
    def endpoint(self) -> Endpoint:
        return self.job.platform, self.job.endpoint or self.ref.endpoint


def cancel_all(engine: Engine, job_ids: Sequence[str], grace: timedelta) -> Answers:
    """End the jobs in one go. Idempotent.

    The answer of a job is True if it is over, by this or before; False if its end could not be seen
    in time; or its error: JobNotFound, Unreachable, Refused in the backend's words.
    """
    try:
        answers = _end_all(engine, job_ids, grace)
    except KeyboardInterrupt:  # nobody knows which cancels were sent
        for job_id in job_ids:
            _write_unsent(engine, job_id, "interrupted")
        raise
    answers = {job_id: _or_unsent(engine, job_id, answer) for job_id, answer in answers.items()}
    rented = engine.store.rented_after_end()
    let_go_jobs(engine, [job_id for job_id in rented if job_id in answers])
    return answers


def _or_unsent(engine: Engine, job_id: str, answer: bool | TaoError) -> bool | TaoError:
    """Return the answer. If it is that the cancel could not be sent, store that and return a copy
    of the error with advice: other jobs may have the same error.
    """
    if not isinstance(answer, (Unreachable, CredentialError)):
        return answer
    if not _write_unsent(engine, job_id, answer.what):
        return answer
    error = copy.copy(answer)
    error.add_advice(
        "The cancel is written down. To carry it out as soon as that answers:", f"tao wait {job_id}"
    )
    return error


def _write_unsent(engine: Engine, job_id: str, why: str) -> bool:
    """Store that the cancel could not be sent. False if none was requested, or the job is over or
    gone.
    """
    try:
        job = engine.store.get(job_id)
    except JobNotFound:
        return False
    if job.status.terminal or not job.cancel_asked:
        return False
    engine.store.record([NewEvent(job_id, UNSENT, raw=why)])
    note(engine, job, words.why(Reason.CANCEL_FAILED, what=why, job=job_id))
    return True


def is_unsent(engine: Engine, job: Job) -> bool:
    """True for a live job whose newest cancel could not be sent."""
    if not job.cancel_asked or job.status.terminal:
        return False
    asked = engine.store.last_event(job.id, ASKED)
    unsent = engine.store.last_event(job.id, UNSENT)
    return unsent is not None and (asked is None or asked.seq < unsent.seq)


def send_again(engine: Engine, job: Job) -> None:
    """Carry out a cancel that could not be sent, with the grace of the request. Only the watcher
    calls this.
    """
    grace = grace_of(engine.store.last_event(job.id, ASKED))
    cancel_all(engine, [job.id], GRACE if grace is None else grace)


def _end_all(engine: Engine, job_ids: Sequence[str], grace: timedelta) -> Answers:
    found = side_by_side(lambda job_id: _target(engine, job_id, grace), job_ids)
    targets = [target for target in found if isinstance(target, Target)]
    answers: Answers = {
        job_id: target
        for job_id, target in zip(job_ids, found, strict=True)
        if not isinstance(target, Target)
    }
    groups: dict[Endpoint, list[Target]] = defaultdict(list)
    for target in targets:
        groups[target.endpoint].append(target)
    ended = side_by_side(lambda group: _end_group(engine, group, grace), list(groups.values()))
    for group, group_answers in zip(groups.values(), ended, strict=True):
        answers.update(_of_each(group, group_answers))
    return answers


def _of_each(group: Sequence[Target], answers: Answers | TaoError) -> Answers:
    if isinstance(answers, TaoError):  # the endpoint was not reached at all
        return {target.job.id: answers for target in group}
    return answers


def _target(engine: Engine, job_id: str, grace: timedelta) -> Target | bool:
    """Return the target of a cancel. If there is no place to end the job at, return True if it is
    over, else False.
    """
    before = engine.store.get(job_id)
    if before.status.terminal:
        return True
    job = ask(engine, before, grace)
    ref = _place(engine, job)
    if ref is None:
        return engine.store.get(job_id).status.terminal
    may_have_ended = not before.waits_for_next_attempt and not before.cancel_asked
    return Target(job, ref, own_end=not before.waits_for_next_attempt, may_be_gone=may_have_ended)


def ask(engine: Engine, job: Job, grace: timedelta = GRACE) -> Job:
    """Store the cancel request before anything is ended: after a crash it still says why."""
    engine.store.record([NewEvent(job.id, ASKED, data={"grace": grace.total_seconds()})])
    return change(engine, job.id, _to_be_canceled)


def _to_be_canceled(job: Job) -> Job:
    asked = replace(job, cancel_asked=True, next_attempt_at=None)
    return asked.with_reason(words.why(Reason.CANCELING))


def _place(engine: Engine, job: Job) -> Ref | None:
    """The ref of the newest attempt. None if it never started, which is its end, or if its submit
    still goes on.
    """
    wait_until = time.monotonic() + SETTLE_SECONDS
    while (ref := engine.ref_of(job)) is None:
        settle(engine, job, ends=False)
        if engine.store.get(job.id).status.terminal or time.monotonic() > wait_until:
            return engine.ref_of(job)
        time.sleep(0.05)
    return ref


def _end_group(engine: Engine, group: Sequence[Target], grace: timedelta) -> Answers:
    """End the jobs of one endpoint."""
    give_up_at = time.monotonic() + grace.total_seconds() + KILL_SECONDS
    backend = engine.backend(*group[0].endpoint)
    unkept = _unkept_logs(engine, backend, group)
    ending = [target for target in group if target.job.id not in unkept]
    said = backend.cancel([target.ref for target in ending], grace)
    judged = _judge_all(engine, backend, ending, said)
    unsure = [target for target in ending if judged[target.job.id] is False]
    if any(_is_over(said[target.ref]) for target in unsure):
        give_up_at = max(give_up_at, time.monotonic() + SETTLE_SECONDS)
    late = _seen_over(engine, [target.job.id for target in unsure], give_up_at)
    return {**unkept, **judged, **late}


def _unkept_logs(engine: Engine, backend: AnyBackend, group: Sequence[Target]) -> Answers:
    """Copy the logs that would go with their jobs. A job whose log cannot be copied is not ended:
    the error is its answer.
    """
    if backend.capabilities.keeps_logs:
        return {}
    drained = side_by_side(
        lambda one: drain(engine, one.job, engine.store.attempt(one.job.id)), group
    )
    return {
        one.job.id: error
        for one, error in zip(group, drained, strict=True)
        if isinstance(error, TaoError)
    }


def _is_over(answer: CancelAnswer) -> bool:
    return not isinstance(answer, TaoError) and answer.phase.over


def _judge_all(
    engine: Engine,
    backend: AnyBackend,
    group: Sequence[Target],
    said: Mapping[Ref, CancelAnswer],
) -> Answers:
    judged = side_by_side(lambda one: _judge(engine, backend, one, said[one.ref]), group)
    return {one.job.id: answer for one, answer in zip(group, judged, strict=True)}


def _judge(engine: Engine, backend: AnyBackend, target: Target, answer: CancelAnswer) -> bool:
    """Store what follows from the backend's answer to a cancel. True if the job is over now. Raises
    the answer if it is an error.
    """
    if isinstance(answer, TaoError):
        raise answer
    now = engine.store.get(target.job.id)
    looked = judge(engine, backend, now, target.ref, answer, own_end=target.own_end)
    if target.may_be_gone and _had_ended(now, answer) and not looked.job.status.terminal:
        again = backend.observe([target.ref])[target.ref]
        looked = judge(engine, backend, looked.job, target.ref, again, own_end=True)
    return looked.job.status.terminal


def _had_ended(job: Job, answer: Observation) -> bool:
    """True if the place had removed the job before the cancel, because it had ended."""
    return answer.ended_by is not None and without_refuted_reason(job, answer).reason != ""


def _seen_over(engine: Engine, job_ids: Sequence[str], give_up_at: float) -> Answers:
    """Return True for each job that a look sees ended before `give_up_at`, else False.

    The look itself finds the outcome of an attempt that is gone, and judges a job anew that was
    changed meanwhile.
    """
    left = list(job_ids)
    while left and time.monotonic() < give_up_at:
        seen = look(engine, [engine.store.get(job_id) for job_id in left])
        left = [one.job.id for one in seen if not one.job.status.terminal]
        if left:
            time.sleep(LOOK_SECONDS)
    return {job_id: job_id not in left for job_id in job_ids}
