"""Decisions: what a search tells its driver to do, and what the driver reports back.

Here: the records alone. Not here: how one follows from the other (search.py).
A driver carries out decisions in their order, after it has committed the search that came with
them, and repeats those of `standing_decisions` after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tao_automl.trial import Curve, Params


@dataclass(frozen=True)
class StartTrial:
    """Submit the first job of a trial.

    `params` are written over the spec; a key that is absent stays as the spec has it. `epochs`:
    train so many in total; None: as many as the spec says. With `parent` the job starts from the
    checkpoint that trial `parent` had after exactly `parent_epochs` epochs.
    """

    trial: int
    params: Params
    rung: int = 0
    epochs: int | None = None
    parent: int | None = None
    parent_epochs: int | None = None


@dataclass(frozen=True)
class PromoteTrial:
    """Submit a further job of a trial: from its checkpoint of exactly `from_epochs` epochs on, to
    `epochs` in total. Report Outcome.UNAVAILABLE where that checkpoint is not there.
    """

    trial: int
    params: Params
    rung: int
    epochs: int
    from_epochs: int


@dataclass(frozen=True)
class StopTrial:
    """Let the trial's job save and end, then report Outcome.STOPPED. Where it has ended by itself
    meanwhile, report that instead.
    """

    trial: int
    reason: str


@dataclass(frozen=True)
class AskModel:
    """Ask a language model, and give its text back as Known.answer, or Known.model_failure when it
    could not be asked. `messages` are those of an OpenAI-compatible chat, without any secret. It is
    decided anew by each `advance` until it has an answer; one question at a time is enough.
    """

    messages: tuple[Mapping[str, str], ...]


class EndStatus(str, Enum):
    """How a search ends."""

    COMPLETE = "complete"  # all that was asked for was done, or a budget is used up
    STOPPED = "stopped"  # someone stopped it
    ERROR = "error"  # it makes no sense to go on; the reason says why


@dataclass(frozen=True)
class EndSearch:
    """The search is over: nothing runs, nothing more will be decided until it is extended."""

    status: EndStatus
    reason: str = ""


Decision = StartTrial | PromoteTrial | StopTrial | AskModel | EndSearch


class Outcome(str, Enum):
    """How a trial's job ended, as the driver sees it."""

    COMPLETE = "complete"  # with `values`; one that is missing or not finite makes it a failure
    FAILED = "failed"  # the program failed; what the platform did is the engine's to retry
    STOPPED = "stopped"  # it was told to end early
    UNAVAILABLE = "unavailable"  # a promotion could not start: the trial stays what it was


@dataclass(frozen=True)
class TrialReport:
    """The end of the job that trains trial `trial` to rung `rung`.

    It may be reported any number of times, in any order: what is known already changes nothing.
    """

    trial: int
    rung: int
    outcome: Outcome
    values: Mapping[str, float] | None = None  # metric -> value, at the rung's end or best so far
    reason: str = ""  # why it failed, for people
    rule: str = ""  # of the diagnosis: three first trials that fail by one rule end the search
    reported: tuple[str, ...] = ()  # metrics that were seen, where the one that counts was not
    curve: Curve = ()
    feedback: str = ""  # what a language model should know of a result, without any secret


@dataclass(frozen=True)
class TrialProgress:
    """The curve so far of a trial that runs, for early stops."""

    trial: int
    curve: Curve


@dataclass(frozen=True)
class Known:
    """Everything that a driver has learnt since the last call. Known() is nothing new.

    `free` is how many more trials may start now; None: as many as `max_concurrent` leaves. The sums
    count all jobs, running and failed ones as well.
    """

    reports: tuple[TrialReport, ...] = ()
    progress: tuple[TrialProgress, ...] = ()
    answer: str | None = None  # of the language model, to the newest AskModel
    model_failure: str = ""  # why it could not be asked, without any secret
    gpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    stop: str = ""  # someone wants the search to end, and says why
    free: int | None = None
