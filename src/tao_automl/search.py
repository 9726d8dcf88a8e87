"""What a search does next: `advance`, the one function that changes a Search. Pure.

Here: the order of things: reports first, then early stops, then ends and budgets, then new jobs.
Not here: which trial goes on (rungs/), with which values (propose/), and who carries it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tao_automl import algorithms, reports
from tao_automl.decisions import (
    AskModel,
    Decision,
    EndSearch,
    EndStatus,
    Known,
    PromoteTrial,
    StartTrial,
    StopTrial,
)
from tao_automl.propose.first import first_params
from tao_automl.rungs.step import New, Pause, Promote
from tao_automl.settings import SearchSettings
from tao_automl.space.space import Space
from tao_automl.state import Closing, Dialogue, Search, best_trial
from tao_automl.trial import Params, Prior, Trial, TrialStatus


@dataclass(frozen=True)
class Advance:
    """What follows: commit `search` first, then carry out `decisions` in their order.

    `changed` are the trials that are new or differ from those of the search before.
    """

    search: Search
    decisions: tuple[Decision, ...] = ()
    changed: tuple[Trial, ...] = ()


def create_search(
    settings: SearchSettings, space: Space, seed: int, prior: Iterable[Prior] = ()
) -> Search:
    """A search that has done nothing yet. `auto` becomes the algorithm that it picks.

    Raises SettingError for an algorithm that cannot search this space, SpaceError for a
    configuration of `settings.start` that is not in it.
    """
    settings = replace(settings, algorithm=algorithms.chosen(settings, space))
    algorithms.check(settings)
    starts = tuple(space.check(start) for start in settings.start)
    return Search(replace(settings, start=starts), space, seed, prior=tuple(prior))


def advance(search: Search, known: Known = Known()) -> Advance:  # noqa: B008  it is frozen
    """The search after what is `known`, and what to do now. Pure: no clock, no I/O, and no
    randomness but that of `search.seed`.

    It decides nothing twice: a driver that was killed before it committed the answer asks again
    and gets the same; one that was killed after it finds what to repeat in `standing_decisions`.
    Reports of trials that are known already are ignored, in any order. A search that is over
    takes reports and decides nothing; `extend` opens it again.

    Raises KeyError for a report of a trial that the search does not have.
    """
    after = reports.with_reports(search, known)
    if after.is_over:
        return answer(search, after, [])
    after = closed(after, known)
    after, stops = with_stops(after, known)
    after, starts = with_starts(after, known)
    after, ends = with_end(after)
    return answer(search, after, [*stops, *starts, *ends])


def answer(before: Search, after: Search, decisions: list[Decision]) -> Advance:
    old = before.trials
    changed = tuple(
        trial
        for place, trial in enumerate(after.trials)
        if place >= len(old) or trial is not old[place]
    )
    return Advance(after, tuple(decisions), changed)


def closed(search: Search, known: Known) -> Search:
    """The search with the reason why nothing new starts, where there is one now."""
    if known.stop:
        return replace(search, closing=Closing(EndStatus.STOPPED, known.stop))
    if search.closing:
        return search
    closing = reports.closing_of(search, known)
    return replace(search, closing=closing) if closing else search


def with_stops(search: Search, known: Known) -> tuple[Search, list[Decision]]:
    """Trials that run and shall end early."""
    decisions: list[Decision] = []
    for number, reason in reports.stops_of(search, known):
        search = search.with_trial(replace(search.trial(number), stopping=reason))
        decisions.append(StopTrial(number, reason))
    return search, decisions


def with_starts(search: Search, known: Known) -> tuple[Search, list[Decision]]:
    """New jobs, as many as there is room for."""
    decisions: list[Decision] = []
    room = free_places(search, known)
    while len(decisions) < room and not search.closing:
        search, decision = next_job(search, known)
        if decision is None:
            break
        decisions.append(decision)
        if isinstance(decision, AskModel):
            break
        known = replace(known, answer=None, model_failure="")  # each is good for one trial
    return search, decisions


def free_places(search: Search, known: Known) -> int:
    if known.free is not None:
        return known.free
    return search.settings.concurrency - len(search.running)


def next_job(search: Search, known: Known) -> tuple[Search, Decision | None]:
    """The next job, if one can start now."""
    limit = search.settings.max_jobs
    if limit is not None and search.jobs >= limit:
        reason = f"its limit of {limit} jobs is reached"
        return replace(search, closing=Closing(EndStatus.COMPLETE, reason)), None
    step = algorithms.next_step(search)
    if isinstance(step, Promote):
        return promoted(search, step)
    if isinstance(step, New):
        return with_new_trial(search, step, known)
    if step is Pause.DONE and not search.running:
        return finished(search), None
    return search, None


def finished(search: Search) -> Search:
    """Nothing is left to do: with a result it is complete, without one it has failed."""
    if best_trial(search):
        return replace(search, closing=Closing(EndStatus.COMPLETE, ""))
    reason = reports.nothing_succeeded(search)
    return replace(search, closing=Closing(EndStatus.ERROR, reason))


def promoted(search: Search, step: Promote) -> tuple[Search, Decision]:
    trial = search.trial(step.trial)
    further = replace(trial, status=TrialStatus.RUNNING, rung=step.rung, epochs=step.epochs)
    search = replace(search.with_trial(further), jobs=search.jobs + 1)
    return search, standing_decision(search, further)


def with_new_trial(search: Search, step: New, known: Known) -> tuple[Search, Decision | None]:
    """The next configuration: the spec itself, what the user wants tried, then what is proposed."""
    if (first := first_params(search)) and step.parent is None:
        return started(search, step, *first)
    found = algorithms.propose(search, step, known)
    if found.question is not None:
        return found.search, AskModel(found.question)
    if found.params is None:
        return replace(found.search, closing=found.closing), None
    return started(found.search, step, found.params, found.proposed_by)


def started(search: Search, step: New, params: Params, proposed_by: str) -> tuple[Search, Decision]:
    trial = Trial(
        number=len(search.trials) + 1,
        params=params,
        rung=step.rung,
        epochs=step.epochs,
        proposed_by=proposed_by,
        bracket=step.bracket,
        parent=step.parent,
    )
    if step.replaces is not None:
        search = search.with_trial(replaced(search.trial(step.replaces), trial))
    search = replace(search.with_trial(trial), jobs=search.jobs + 1, dialogue=settled(search))
    return search, standing_decision(search, trial)


def settled(search: Search) -> Dialogue:
    """The talk with a language model when its question has been answered."""
    return Dialogue(notes=search.dialogue.notes)


def replaced(trial: Trial, by: Trial) -> Trial:
    reason = f"its place is taken by trial {by.number}, a copy of trial {by.parent}"
    return replace(trial, status=TrialStatus.STOPPED, reason=reason)


def with_end(search: Search) -> tuple[Search, list[Decision]]:
    """A search that is closing ends when nothing runs; one that is stopped ends at once, and what
    ran is started again when it goes on.
    """
    closing = search.closing
    if closing is None:
        return search, []
    if search.running and closing.status is not EndStatus.STOPPED:
        return search, []
    return replace(search, ended=closing), [EndSearch(closing.status, closing.reason)]


def standing_decisions(search: Search) -> tuple[Decision, ...]:
    """What was decided and is not known to be over, to be repeated after a crash: the job of each
    trial that runs, and the stops. A driver leaves out what it has done already.

    The question to a language model is not among them: `advance` asks it again.
    """
    starts = [standing_decision(search, trial) for trial in search.running]
    stops = [StopTrial(one.number, one.stopping) for one in search.running if one.stopping]
    return (*starts, *stops)


def standing_decision(search: Search, trial: Trial) -> Decision:
    """The decision that started the newest job of a trial."""
    if trial.results:
        trained, wanted = trial.results[-1].epochs or 0, trial.epochs or 0
        return PromoteTrial(trial.number, trial.params, trial.rung, wanted, trained)
    start = StartTrial(trial.number, trial.params, trial.rung, trial.epochs)
    if trial.parent is None:
        return start
    copied = search.trial(trial.parent).result(trial.rung - 1)
    return replace(start, parent=trial.parent, parent_epochs=copied.epochs if copied else None)


def extend(search: Search, settings: SearchSettings | None = None) -> Search:
    """The search opened again: with more trials or larger budgets where `settings` say so, else to
    go on after a stop or an error, whose failures are not held against it. Its algorithm,
    objectives and space stay.
    """
    kept = search.settings
    if settings:
        kept = replace(settings, algorithm=kept.algorithm, objectives=kept.objectives)
    return replace(
        search,
        settings=kept,
        closing=None,
        ended=None,
        dialogue=settled(search),
        forgiven=len(search.trials),
    )
