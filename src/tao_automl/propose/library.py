"""Samplers of Optuna, without a memory: a study is made anew from the trials for each proposal.

TPE (with its form for several objectives) and NSGA-II see the unit cube: numbers as numbers from 0
to 1, choices as categories, what runs as running trials. A failed or stopped trial is not told to
them. They ask for each column in turn, so what does not apply is not drawn.
"""

# What its packages' stubs leave unknown is of no use to a reader.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

from tao_automl.propose.draw import uniform_params
from tao_automl.propose.evidence import Evidence, Observed, Point, evidence_of, telling_rung
from tao_automl.rungs import halving
from tao_automl.rungs.step import New
from tao_automl.space.space import Space
from tao_automl.state import Search
from tao_automl.trial import Params

if TYPE_CHECKING:
    import optuna

STARTUP = 10  # trials before a model says anything
CHANCE_SHARE = 3  # of BOHB's proposals, one in so many is by chance
GENERATION = "NSGAIISampler:generation"  # where Optuna keeps the generation of a trial


def draw_tpe(search: Search, step: New, seed: int) -> Params:  # noqa: ARG001  of full trainings
    return tpe_params(search, evidence_of(search), seed)


def draw_bohb(search: Search, step: New, seed: int) -> Params:  # noqa: ARG001  rungs share a model
    """TPE on the highest rung that has enough results, and a part by chance."""
    enough = points_needed(search)
    rungs = range(len(halving.levels(search.settings)))
    evidence = evidence_of(search, telling_rung(search, rungs, enough))
    if len(evidence.observed) < enough or seed % CHANCE_SHARE == 0:
        return uniform_params(search.space, seed)
    return tpe_params(search, evidence, seed)


def points_needed(search: Search) -> int:
    """How many results a model needs: one more than parameters, unless the settings say."""
    wanted = search.settings.min_points_in_model
    return wanted if wanted is not None else len(search.space.parameters) + 1


def tpe_params(search: Search, evidence: Evidence, seed: int) -> Params:
    import optuna

    settings = search.settings
    is_rungs = settings.algorithm == "bohb"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # remarks on experimental arguments
        sampler = optuna.samplers.TPESampler(
            seed=seed,
            n_startup_trials=1 if is_rungs else min(STARTUP, 1 + settings.most_trials // 3),
            n_ei_candidates=settings.kde_samples,
            multivariate=True,
            group=True,
            constant_liar=True,
        )
    return asked(search, evidence, sampler)


def draw_nsga2(search: Search, step: New, seed: int) -> Params:  # noqa: ARG001  of full trainings
    import optuna

    size = max(2, min(search.settings.population_size, search.settings.most_trials // 2))
    sampler = optuna.samplers.NSGAIISampler(seed=seed, population_size=size)
    return asked(search, evidence_of(search, most=None), sampler, population=size)


def asked(
    search: Search, evidence: Evidence, sampler: optuna.samplers.BaseSampler, population: int = 0
) -> Params:
    """What a sampler proposes after this evidence."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space, goals = search.space, len(search.settings.goals)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(
            sampler=sampler, directions=[optuna.study.StudyDirection.MINIMIZE] * goals
        )
        study.add_trials(told(search, evidence, population))
        trial = study.ask()
        return space.decode_by(lambda column: suggested(trial, space, column))


def suggested(trial: optuna.trial.Trial, space: Space, place: int) -> float:
    """The coordinate that a trial of Optuna gets in a column."""
    column = space.columns[place]
    if column.is_ordered:
        return trial.suggest_float(f"x{place}", 0.0, 1.0)
    cells = list(range(len(column.uppers)))
    return column.middle(trial.suggest_categorical(f"x{place}", cells))


def told(search: Search, evidence: Evidence, population: int) -> list[optuna.trial.FrozenTrial]:
    """The trials of a study: those with a result, in their order, and those that run."""
    import optuna

    known = [
        frozen_trial(search, one.point, one.params, one, place // population if population else 0)
        for place, one in enumerate(evidence.observed)
    ]
    state = optuna.trial.TrialState.RUNNING
    running = [
        optuna.trial.create_trial(state=state, **coordinates(search.space, point, params))
        for point, params in evidence.pending
    ]
    return [*known, *running]


def frozen_trial(
    search: Search, point: Point, params: Params, one: Observed, generation: int
) -> optuna.trial.FrozenTrial:
    import optuna

    has_limits = any(not objective.is_goal for objective in search.settings.objectives)
    return optuna.trial.create_trial(
        values=list(one.losses),
        system_attrs={GENERATION: generation},
        constraints={"limits": one.violation} if has_limits or one.violation else None,
        **coordinates(search.space, point, params),
    )


def coordinates(space: Space, point: Point, params: Params) -> dict[str, Any]:
    """The columns that apply, and their distributions, in Optuna's terms."""
    values: dict[str, float] = {}
    distributions: dict[str, Any] = {}
    for place, (column, counts) in enumerate(
        zip(space.columns, space.applying(params), strict=True)
    ):
        if not counts:
            continue
        name = f"x{place}"
        values[name] = point[place] if column.is_ordered else column.cell(point[place])
        distributions[name] = distribution(0 if column.is_ordered else len(column.uppers))
    return {"params": values, "distributions": distributions}


@cache
def distribution(cells: int) -> Any:
    """Of so many cells without an order; 0: of the numbers from 0 to 1."""
    import optuna

    if cells:
        return optuna.distributions.CategoricalDistribution(list(range(cells)))
    return optuna.distributions.FloatDistribution(0.0, 1.0)
