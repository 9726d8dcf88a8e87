"""Algorithms: what each name means, as a schedule (how long trials run) and a sampler (with which
values), and the choice of `auto`.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tao_automl.decisions import EndStatus, Known
from tao_automl.propose.draw import stream_seed, uniform_params
from tao_automl.rungs import full, halving, population
from tao_automl.rungs.step import New, Step
from tao_automl.settings import AUTO, SearchSettings, mistake
from tao_automl.space.space import Space, signature
from tao_automl.state import Closing, Search
from tao_automl.trial import Params
from tao_sdk.model.errors import MissingExtra, install_command

Sampler = Callable[[Search, New, int], "Params | None"]
RANDOM = "random"
TRIES = 3  # of a sampler that proposes what was tried already, before chance does it
RANDOM_TRIES = 200


@dataclass(frozen=True)
class Algorithm:
    """`sampler` is a module of propose/, with `draw(search, step, seed)`."""

    next_step: Callable[[Search], Step]
    sampler: str
    needs: tuple[str, ...] = ()  # packages of the extra `automl`
    has_rungs: bool = False


OPTUNA = ("optuna", "numpy")
TABLE: Mapping[str, Algorithm] = {
    "random": Algorithm(full.next_step, RANDOM),
    "asha": Algorithm(halving.next_of_asha, RANDOM, has_rungs=True),
    "hyperband": Algorithm(halving.next_of_hyperband, RANDOM, has_rungs=True),
    "hyperband_es": Algorithm(halving.next_of_hyperband, RANDOM, has_rungs=True),
    "pbt": Algorithm(population.next_step, RANDOM, has_rungs=True),
}


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


def chosen(settings: SearchSettings, space: Space) -> str:  # noqa: ARG001
    """The algorithm, `auto` replaced by what it picks."""
    if settings.algorithm != AUTO:
        return settings.algorithm
    return RANDOM


def check(settings: SearchSettings, space: Space) -> None:  # noqa: ARG001
    """Raises SettingError for an algorithm that cannot do this search, MissingExtra for one whose
    packages are not installed.
    """
    algorithm = TABLE[settings.algorithm]
    missing = [name for name in algorithm.needs if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"{settings.algorithm} needs {' and '.join(missing)}, which is not installed.",
            next="Run:",
            command=install_command("automl"),
        )
    if len(settings.goals) > 1 and algorithm.sampler == "cmaes":
        raise mistake("algorithm", "cmaes searches one objective.", "Use motpe or nsga2.")


def propose(search: Search, step: New, known: Known) -> Proposal:  # noqa: ARG001
    """The values of a new trial: unlike those of every trial before, as long as there are any."""
    tried = {signature(trial.params) for trial in search.trials}
    draw = sampler_of(search, step)
    for attempt in range(TRIES):
        params = draw(search, step, stream_seed(search.seed, search.draws + attempt))
        if params is not None and signature(params) not in tried:
            drawn = replace(search, draws=search.draws + attempt + 1)
            return Proposal(drawn, params, TABLE[search.settings.algorithm].sampler)
    return by_chance(replace(search, draws=search.draws + TRIES), tried)


def by_chance(search: Search, tried: set[str]) -> Proposal:
    """Any configuration that was not tried; the end of the search where none is left."""
    for attempt in range(RANDOM_TRIES):
        params = uniform_params(search.space, stream_seed(search.seed, search.draws + attempt))
        if signature(params) not in tried:
            return Proposal(replace(search, draws=search.draws + attempt + 1), params, RANDOM)
    reason = f"all {len(tried)} configurations of its space have been tried"
    return Proposal(search, closing=Closing(EndStatus.COMPLETE, reason))


def sampler_of(search: Search, step: New) -> Sampler:  # noqa: ARG001
    name = TABLE[search.settings.algorithm].sampler
    return importlib.import_module(f"tao_automl.propose.{name}").draw
