"""Algorithms: what each name means, as a schedule (how long trials run) and a sampler (with which
values), and the choice of `auto`.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tao_automl.decisions import EndStatus, Known
from tao_automl.propose import language
from tao_automl.propose.draw import stream_seed, uniform_params
from tao_automl.rungs import full, halving, population
from tao_automl.rungs.step import New, Step
from tao_automl.settings import AUTO, SearchSettings, mistake
from tao_automl.space.space import Space
from tao_automl.state import Closing, Dialogue, Search
from tao_automl.trial import Params
from tao_sdk.model.errors import MissingExtra, install_command

Sampler = Callable[[Search, New, int], "Params | None"]
TRIES = 3  # of a sampler that proposes what was tried already, before chance does it
RANDOM_TRIES = 200
MISTAKES = 3  # of a language model, in one proposal


@dataclass(frozen=True)
class Algorithm:
    """`sampler` names a row of SAMPLERS; it is what trials say they were proposed by."""

    next_step: Callable[[Search], Step]
    sampler: str
    has_rungs: bool = False


@dataclass(frozen=True)
class Home:
    """Where a sampler is, and the packages of the extra `automl` that it needs."""

    module: str  # of propose/
    function: str = "draw"
    needs: tuple[str, ...] = ()


RANDOM, LANGUAGE, GAUSSIAN = "random", "llm", "gp"
SAMPLERS: Mapping[str, Home] = {
    RANDOM: Home("random"),
    "grid": Home("grid"),
    "qmc": Home("even"),
    GAUSSIAN: Home("gaussian", needs=("numpy",)),
    "tpe": Home("library", "draw_tpe", ("optuna", "numpy")),
    "bohb": Home("library", "draw_bohb", ("optuna", "numpy")),
    "nsga2": Home("library", "draw_nsga2", ("optuna", "numpy")),
    "cmaes": Home("covariance", needs=("cmaes", "numpy")),
    "de": Home("evolution"),
    "pbt": Home("perturb"),
}
TABLE: Mapping[str, Algorithm] = {
    "bayesian": Algorithm(full.next_step, GAUSSIAN),
    "bfbo": Algorithm(full.next_of_batch, GAUSSIAN),
    "random": Algorithm(full.next_step, RANDOM),
    "grid": Algorithm(full.next_step, "grid"),
    "qmc": Algorithm(full.next_step, "qmc"),
    "tpe": Algorithm(full.next_step, "tpe"),
    "motpe": Algorithm(full.next_step, "tpe"),
    "nsga2": Algorithm(full.next_step, "nsga2"),
    "cmaes": Algorithm(full.next_step, "cmaes"),
    "de": Algorithm(full.next_step, "de"),
    "asha": Algorithm(halving.next_of_asha, RANDOM, has_rungs=True),
    "hyperband": Algorithm(halving.next_of_hyperband, RANDOM, has_rungs=True),
    "hyperband_es": Algorithm(halving.next_of_hyperband, RANDOM, has_rungs=True),
    "bohb": Algorithm(halving.next_of_hyperband, "bohb", has_rungs=True),
    "dehb": Algorithm(halving.next_of_hyperband, "de", has_rungs=True),
    "pbt": Algorithm(population.next_step, "pbt", has_rungs=True),
    "llm": Algorithm(full.next_step, LANGUAGE),
    "autoresearch": Algorithm(full.next_step, LANGUAGE),
    "hybrid": Algorithm(full.next_step, LANGUAGE),
}

MANY_TRIALS = 200  # from here on a Gaussian process leaves out what it should know
WIDE = 20  # columns from which distances say little
ENOUGH_FOR_RUNGS = 40  # configurations from which early ranks are worth more than full trainings


@dataclass(frozen=True)
class Proposal:
    """The values of the next trial; or a question to a language model; or why there are none."""

    search: Search
    params: Params | None = None
    proposed_by: str = ""
    question: tuple[Mapping[str, str], ...] | None = None
    closing: Closing | None = None


def next_step(search: Search) -> Step:
    """What the schedule of the search's algorithm wants next."""
    return TABLE[search.settings.algorithm].next_step(search)


def chosen(settings: SearchSettings, space: Space) -> str:
    """The algorithm, `auto` replaced by what it picks, the first that holds:

    - several goals: motpe
    - no more configurations than trials: grid
    - rungs can be trained (`epochs_key`) and there are 40 trials or more: asha where 8 or more
      run at once, else bohb
    - more than 200 trials, or more than 20 coordinates: tpe
    - else bayesian
    """
    if settings.algorithm != AUTO:
        return settings.algorithm
    trials = settings.most_trials
    if len(settings.goals) > 1:
        return "motpe"
    if space.count is not None and space.count <= trials:
        return "grid"
    if settings.epochs_key and trials >= ENOUGH_FOR_RUNGS:
        return "asha" if settings.concurrency >= 8 else "bohb"
    if trials > MANY_TRIALS or space.width > WIDE:
        return "tpe"
    return "bayesian"


def check(settings: SearchSettings) -> None:
    """Raises SettingError for an algorithm that cannot do this search, MissingExtra for one whose
    packages are not installed.
    """
    for sampler in samplers_of(settings):
        check_packages(settings.algorithm, SAMPLERS[sampler].needs)
    if len(settings.goals) > 1 and settings.algorithm == "cmaes":
        raise mistake("algorithm", "cmaes searches one objective.", "Use motpe or nsga2.")
    if settings.hybrid_enable_llm_range_narrowing:
        what = "hybrid_enable_llm_range_narrowing is not in this version."
        raise mistake("hybrid_enable_llm_range_narrowing", what, "Leave it out.")


def samplers_of(settings: SearchSettings) -> list[str]:
    """The rows of SAMPLERS that a search may use."""
    if settings.algorithm == "hybrid":
        return [GAUSSIAN]
    sampler = TABLE[settings.algorithm].sampler
    return [] if sampler == LANGUAGE else [sampler]


def check_packages(algorithm: str, needs: tuple[str, ...]) -> None:
    missing = [name for name in needs if importlib.util.find_spec(name) is None]
    if missing:
        what = f"{algorithm} needs {' and '.join(missing)}, which is not installed."
        raise MissingExtra(what, next="Run:", command=install_command("automl"))


def propose(search: Search, step: New, known: Known) -> Proposal:
    """The values of a new trial: unlike those of every trial before, as long as there are any."""
    sampler = sampler_of(search)
    if sampler == LANGUAGE:
        return by_language_model(search, known)
    count = search.space.count
    if count is not None and len(search.trials) >= count:
        return exhausted(search)
    draw = loaded(SAMPLERS[sampler])
    for attempt in range(TRIES):
        params = draw(search, step, stream_seed(search.seed, search.draws + attempt))
        if params is not None and is_new(search, params):
            drawn = replace(search, draws=search.draws + attempt + 1)
            return Proposal(drawn, params, sampler)
    if sampler == "grid":
        return exhausted(search)
    return by_chance(replace(search, draws=search.draws + TRIES))


def is_new(search: Search, params: Params) -> bool:
    """True for values that no trial has had."""
    return all(trial.params != params for trial in search.trials)


def sampler_of(search: Search) -> str:
    """The sampler whose turn it is: hybrid asks the language model for every other trial."""
    if search.settings.algorithm == "hybrid" and len(search.trials) % 2 == 0:
        return GAUSSIAN
    return TABLE[search.settings.algorithm].sampler


def loaded(home: Home) -> Sampler:
    module = importlib.import_module(f"tao_automl.propose.{home.module}")
    return getattr(module, home.function)


def by_chance(search: Search) -> Proposal:
    """Any configuration that was not tried; the end of the search where none is left."""
    for attempt in range(RANDOM_TRIES):
        params = uniform_params(search.space, stream_seed(search.seed, search.draws + attempt))
        if is_new(search, params):
            return Proposal(replace(search, draws=search.draws + attempt + 1), params, RANDOM)
    return exhausted(search)


def exhausted(search: Search) -> Proposal:
    reason = f"all {len(search.trials)} configurations have been tried"
    return Proposal(search, closing=Closing(EndStatus.COMPLETE, reason))


def by_language_model(search: Search, known: Known) -> Proposal:
    """Its answer, where it is one; else the question, with what was wrong. After MISTAKES it is the
    end of the search: chance never takes its place.
    """
    dialogue = search.dialogue
    mistakes = dialogue.mistakes
    if dialogue.is_asked and known.answer is not None:
        try:
            found = language.read_answer(search, known.answer)
        except language.AnswerMistake as wrong:
            mistakes = (*mistakes, str(wrong))
        else:
            notes = found.notes or dialogue.notes
            answered = replace(search, dialogue=Dialogue(notes=notes))
            return Proposal(answered, found.params, LANGUAGE)
    elif dialogue.is_asked and known.model_failure:
        mistakes = (*mistakes, known.model_failure)
    search = replace(search, dialogue=replace(dialogue, is_asked=True, mistakes=mistakes))
    if len(mistakes) >= MISTAKES:
        reason = f"the language model gave no usable answer {MISTAKES} times: {mistakes[-1]}"
        return Proposal(search, closing=Closing(EndStatus.ERROR, reason))
    return Proposal(search, question=language.question(search))
