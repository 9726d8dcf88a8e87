"""Cancel: end jobs, wherever they are in their lives, and keep their logs.

Many jobs are ended in one go: each backend is asked once for all of its jobs. A cancel that its
backend could not be told of is written down, and a watcher carries it out.
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

SETTLE_SECONDS = 5.0  # for a submit that goes on, and for what is gone to be known as gone
KILL_SECONDS = 5.0  # beyond the grace, for what was only told to end
LOOK_SECONDS = 0.1  # between looks for an end

UNSENT = "cancel-unsent"  # the event of an end that was asked for: the backend could not be told

Answers = dict[str, bool | TaoError]


@dataclass(frozen=True)
class Target:
    """A live job that is to end, and where its newest attempt lives."""

    job: Job
    ref: Ref
    own_end: bool  # it may have ended by itself: no further attempt was waited for
    may_be_gone: bool  # and its place may have removed it since: no cancel was asked for before

    @property
    def endpoint(self) -> Endpoint:
        return self.job.platform, self.job.endpoint or self.ref.endpoint


def cancel_all(engine: Engine, job_ids: Sequence[str], grace: timedelta) -> Answers:
    """End the jobs in one go. Idempotent.

    Of each job True when it is over, by this or before it; False when that could not be seen in
    time; or the error that it met: JobNotFound, Unreachable, Refused in the backend's words.
    """
    try:
        answers = _end_all(engine, job_ids, grace)
    except KeyboardInterrupt:  # nobody knows which of them were told
        for job_id in job_ids:
            _write_unsent(engine, job_id, "interrupted")
        raise
    return {job_id: _or_unsent(engine, job_id, answer) for job_id, answer in answers.items()}


def _or_unsent(engine: Engine, job_id: str, answer: bool | TaoError) -> bool | TaoError:
    """The answer; of a cancel that could not be sent, the error with what follows. The error may be
    that of other jobs, too.
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
    """Write down that the backend could not be told. False where no end was asked for, or the job
    is over.
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
    """True for a job that is to end and whose backend could not be told so."""
    if not job.cancel_asked or job.status.terminal:
        return False
    asked = engine.store.last_event(job.id, ASKED)
    unsent = engine.store.last_event(job.id, UNSENT)
    return unsent is not None and (asked is None or asked.seq < unsent.seq)


def send_again(engine: Engine, job: Job) -> None:
    """Carry out a cancel that could not be sent, with the grace that was asked for. Call it as the
    watcher only.
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
    """What is to be ended. Without a place to end it at, whether the job is over."""
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
    """Write down that the job is to end, before anything is ended: a crash now still tells why."""
    engine.store.record([NewEvent(job.id, ASKED, data={"grace": grace.total_seconds()})])
    return change(engine, job.id, _to_be_canceled)


def _to_be_canceled(job: Job) -> Job:
    asked = replace(job, cancel_asked=True, next_attempt_at=None)
    return asked.with_reason(words.why(Reason.CANCELING))


def _place(engine: Engine, job: Job) -> Ref | None:
    """Where the newest attempt lives. None when it never started, which is its end, or its submit
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
    """Write down what the backend saw at the end of one job. True if the job is over by that."""
    if isinstance(answer, TaoError):
        raise answer
    now = engine.store.get(target.job.id)
    looked = judge(engine, backend, now, target.ref, answer, own_end=target.own_end)
    if target.may_be_gone and _had_ended(now, answer) and not looked.job.status.terminal:
        again = backend.observe([target.ref])[target.ref]
        looked = judge(engine, backend, looked.job, target.ref, again, own_end=True)
    return looked.job.status.terminal


def _had_ended(job: Job, answer: Observation) -> bool:
    """True if the place had removed the job because it had ended, before the cancel."""
    return answer.ended_by is not None and without_refuted_reason(job, answer).reason != ""


def _seen_over(engine: Engine, job_ids: Sequence[str], give_up_at: float) -> Answers:
    """True for each job that a look sees ended before `give_up_at`.

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
