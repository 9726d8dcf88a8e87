"""AutoML: how near to the best each algorithm comes in so many trials or epochs, beside random
search, Optuna's own samplers and Nevergrad's NGOpt; and what a suggestion costs.

Every figure is over several seeds, the same in every run. A regret is how far the best that was
found is above the least there is. Medians are over seeds, means over functions are geometric.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from statistics import median
from typing import Any

from bench.automl_functions import CURVE_PARAMETERS, CURVES, FUNCTIONS, Function, LearningCurve
from bench.contenders import NEVERGRAD
from bench.figure import Figure, per_item, spread
from bench.folder import ROOT
from bench.rivals import Rivals
from bench.rounds import ContenderFailed
from bench.scale import Scale
from tao_automl.decisions import Known, Outcome, PromoteTrial, StartTrial, TrialReport
from tao_automl.search import advance, create_search
from tao_automl.settings import read_settings
from tao_automl.space.parameter import Choice, Range
from tao_automl.space.search_block import read_parameters
from tao_automl.state import Search, best_trial

MAX_EPOCHS = 27
LEAST_REGRET = 1e-4  # nobody needs to be nearer
BLACK_BOX = ("bayesian", "bfbo", "tpe", "cmaes", "de", "qmc")
WITH_RUNGS = ("asha", "hyperband", "bohb", "dehb", "pbt", "bayesian")
OPTUNA = {"Optuna TPE": "TPESampler", "Optuna CMA-ES": "CmaEsSampler"}
NEVERGRAD_ROW = "Nevergrad NGOpt"
RANDOM = "random"

Regrets = Mapping[str, Sequence[float]]  # function -> the regret of each seed


def figures(scale: Scale, rivals: Rivals) -> Iterator[Figure]:
    chance = black_box(RANDOM, scale)
    found = {name: black_box(name, scale) for name in (*BLACK_BOX, *OPTUNA)}
    if regrets := nevergrad_regrets(scale, rivals):
        found[NEVERGRAD_ROW] = regrets
    for name, regrets in found.items():
        yield over_random(name, regrets, chance)
    for function in FUNCTIONS:
        yield over_tpe(function.name, found["bayesian"], found["Optuna TPE"])
    yield from curve_figures(scale)
    yield from cost_figures(scale)


def black_box(name: str, scale: Scale) -> Regrets:
    """The regrets of an algorithm of ours, or of Optuna's, on each function."""
    run = optuna_regret if name in OPTUNA else our_regret
    return {
        function.name: [
            run(name, function, seed, scale.automl_trials) for seed in range(scale.automl_seeds)
        ]
        for function in FUNCTIONS
    }


def nevergrad_regrets(scale: Scale, rivals: Rivals) -> Regrets | None:
    """Those of Nevergrad's NGOpt, which runs in an environment of its own; None where it cannot."""
    environment = rivals.environment(NEVERGRAD)
    if environment is None:
        return None
    arguments = [str(scale.automl_seeds), str(scale.automl_trials)]
    answer = subprocess.run(
        [environment.python, "-m", "bench.nevergrad_search", *arguments],
        cwd=ROOT, env=environment.variables(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if answer.returncode:
        failure = ContenderFailed(answer.stderr.strip()[-500:])
        rivals.leave_out_of("regret over that of random search")(NEVERGRAD_ROW, failure)
        return None
    found: Mapping[str, Sequence[float]] = json.loads(answer.stdout)
    return {key: [max(one, LEAST_REGRET) for one in regrets] for key, regrets in found.items()}


def our_regret(name: str, function: Function, seed: int, trials: int) -> float:
    settings = {"algorithm": name, "metric": "loss", "max_trials": trials, "first_as_is": False}
    search = create_search(read_settings(settings), space_of(function.name), seed)
    values: list[float] = []
    known = Known()
    while not (answer := advance(search, known)).search.is_over:
        search = answer.search
        start = answer.decisions[0]
        assert isinstance(start, StartTrial)
        values.append(function.value(start.params))
        known = Known((TrialReport(start.trial, 0, Outcome.COMPLETE, {"loss": values[-1]}),))
    return max(min(values) - function.least, LEAST_REGRET)


@cache
def space_of(name: str) -> Any:
    return read_parameters(next(one.parameters for one in FUNCTIONS if one.name == name))


def optuna_regret(name: str, function: Function, seed: int, trials: int) -> float:
    """Optuna as people use it: its sampler as it stands, its own distributions."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = getattr(optuna.samplers, OPTUNA[name])(seed=seed)
        study = optuna.create_study(sampler=sampler)
        study.optimize(lambda trial: function.value(suggested(trial, function)), n_trials=trials)
    return max(study.best_value - function.least, LEAST_REGRET)


def suggested(trial: Any, function: Function) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for parameter in space_of(function.name).parameters:
        if isinstance(parameter, Choice):
            values[parameter.key] = trial.suggest_categorical(parameter.key, parameter.options)
        elif isinstance(parameter, Range) and parameter.is_int:
            low, high = int(parameter.low), int(parameter.high)
            values[parameter.key] = trial.suggest_int(
                parameter.key, low, high, log=parameter.is_log
            )
        else:
            ends = (parameter.low, parameter.high)
            values[parameter.key] = trial.suggest_float(parameter.key, *ends, log=parameter.is_log)
    return values


def over_random(name: str, regrets: Regrets, chance: Regrets) -> Figure:
    """The geometric mean over the functions of median over random's median."""
    ratios = {key: median(regrets[key]) / median(chance[key]) for key in regrets}
    return Figure(
        f"automl.{name.replace(' ', '_')}",
        f"{name}: regret over that of random search",
        "After as many trials. The ratio of the median regrets on each function; the result is their mean.",
        spread(list(ratios.values()), "times"),
        spread([geometric_mean(ratios.values())], "times"),
    )


def over_tpe(function: str, ours: Regrets, theirs: Regrets) -> Figure:
    return Figure(
        f"automl.over_tpe.{function}",
        f"bayesian on {function}: regret over that of Optuna's TPE",
        "The median regret of both over the seeds, and their ratio.",
        spread(ours[function], "regret"),
        spread([median(ours[function]) / median(theirs[function])], "times"),
        spread(theirs[function], "regret"),
        "Optuna TPE",
    )


def geometric_mean(values: Any) -> float:
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def curve_figures(scale: Scale) -> Iterator[Figure]:
    for curve in CURVES:
        chance = curve_regrets(RANDOM, curve, scale)
        for name in WITH_RUNGS:
            regrets = curve_regrets(name, curve, scale)
            yield Figure(
                f"automl.{curve.name}.{name}",
                f"{name}, a {curve.name} curve: regret over that of random search",
                f"After {scale.automl_epochs} epochs in all, of the trial that would be named best, "
                f"at {MAX_EPOCHS} epochs.",
                spread(regrets, "regret"),
                spread([median(regrets) / median(chance)], "times"),
                spread(chance, "regret"),
                "random search, full trainings",
            )


def curve_regrets(name: str, curve: LearningCurve, scale: Scale) -> list[float]:
    return [
        curve_regret(name, curve, seed, scale.automl_epochs) for seed in range(scale.automl_seeds)
    ]


def curve_regret(name: str, curve: LearningCurve, seed: int, budget: int) -> float:
    """Four workers of equal speed, until the epochs are used up."""
    settings = {
        "algorithm": name, "metric": "loss", "max_trials": 10_000, "max_concurrent": 4,
        "first_as_is": False, "population_size": 10,
    }  # fmt: skip
    search = create_search(read_settings(settings), read_parameters(CURVE_PARAMETERS), seed)
    live: list[tuple[float, Any, int]] = []  # when it ends, its decision, its epochs
    now = spent = 0.0
    known = Known()
    while True:
        free = None if spent < budget else 0  # what has begun ends
        answer = advance(search, replace(known, free=free))
        search = answer.search
        for decision in answer.decisions:
            if isinstance(decision, (StartTrial, PromoteTrial)):
                total, trained = decision.epochs or MAX_EPOCHS, trained_before(decision)
                live.append((now + total - trained, decision, total))
                spent += total - trained
        if not live:
            break
        live.sort(key=lambda one: (one[0], one[1].trial))
        now, decision, total = live.pop(0)
        loss = curve.value(decision.params, total)
        known = Known(
            (TrialReport(decision.trial, decision.rung, Outcome.COMPLETE, {"loss": loss}),)
        )
    return max(named_loss(search, curve) - least_of(curve), LEAST_REGRET)


def trained_before(decision: StartTrial | PromoteTrial) -> int:
    """The epochs that its checkpoint has."""
    if isinstance(decision, PromoteTrial):
        return decision.from_epochs
    return decision.parent_epochs or 0


def named_loss(search: Search, curve: LearningCurve) -> float:
    best = best_trial(search)
    return curve.value(best.params, MAX_EPOCHS) if best else math.inf


@cache
def least_of(curve: LearningCurve) -> float:
    """The least at the last epoch, by a fine look around where trainings end best."""
    chance = random.Random(1)
    space = read_parameters(CURVE_PARAMETERS)
    best, least = [0.5] * space.width, math.inf
    for step in range(4_000):
        reach = 0.5 if step < 1_500 else 0.05
        point = [min(max(unit + chance.gauss(0, reach), 0), 1) for unit in best]
        value = curve.value(space.decode(point), MAX_EPOCHS)
        if value < least:
            best, least = point, value
    return least


def cost_figures(scale: Scale) -> Iterator[Figure]:
    """What one more suggestion takes when there are very many trials."""
    for name, title in (("random", "advance itself"), ("bayesian", "bayesian"), ("tpe", "tpe")):
        search = after_many(name, scale.automl_many)
        seconds = [
            processor_seconds(lambda found=search: advance(found)) for _ in range(scale.rounds)
        ]
        yield per_item(
            f"automl.cost.{name}",
            f"a suggestion after {scale.automl_many:,} trials, {title}",
            "Processor time of one call of advance that starts one trial.",
            seconds,
        )


def after_many(name: str, trials: int) -> Search:
    """A search that has so many trials, all by chance, and room for one."""
    settings = {"algorithm": RANDOM, "metric": "loss", "max_trials": trials, "first_as_is": False}
    function = FUNCTIONS[-1]
    search = create_search(read_settings(settings), space_of(function.name), 1)
    known = Known()
    while not (answer := advance(search, known)).search.is_over:
        search = answer.search
        start = answer.decisions[0]
        assert isinstance(start, StartTrial)
        loss = function.value(start.params)
        known = Known((TrialReport(start.trial, 0, Outcome.COMPLETE, {"loss": loss}),))
    more = replace(search.settings, algorithm=name, max_trials=trials + 1)
    return replace(answer.search, settings=more, closing=None, ended=None)


def processor_seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started
