"""Settings: everything that a search can be told, under all the names it has, with defaults.

Here: SearchSettings and how it is read. A field is declared once, with its kind and its other
names; that serves the `search:` block, the documented `automl_settings` and JSON alike. Not here:
the parameters that are searched (space/). No secret is kept: `llm_api_key` is known, checked and
left out.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar, cast

from tao_automl.near import near_name
from tao_automl.trial import MAXIMIZE, MINIMIZE, Objective
from tao_sdk.model.errors import UsageError
from tao_sdk.model.metric_names import smaller_is_better
from tao_sdk.model.units import parse_duration

T = TypeVar("T")
DEFAULT_METRIC = "loss"
AUTO = "auto"

# Every algorithm, with its other names. What each does: algorithms.py.
ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "bayesian": ("b", "gp"),
    "bfbo": (),
    "hyperband": ("h",),
    "hyperband_es": ("hes",),
    "asha": (),
    "bohb": (),
    "dehb": (),
    "pbt": (),
    "llm": (),
    "hybrid": (),
    "autoresearch": (),
    "random": (),
    "grid": (),
    "tpe": (),
    "cmaes": ("cma-es", "cma_es"),
    "motpe": (),
    "nsga2": ("nsgaii", "nsga-ii"),
    "qmc": (),
    "de": (),
    AUTO: (),
}


class SettingError(UsageError):
    """A setting that is unknown, or has a value that it cannot have. `field` is its name."""

    code = "automl.setting"


@dataclass(frozen=True)
class Kind:
    """How a value is read. `read` raises ValueError or TypeError for what is not allowed."""

    allowed: str  # ends the sentence "`max_trials` must be ..."
    read: Callable[[Any], Any]


def whole(least: int) -> Kind:
    def read(value: Any) -> int:
        if isinstance(value, bool) or int(value) != float(value) or int(value) < least:
            raise ValueError
        return int(value)

    return Kind(f"a whole number from {least} on", read)


def number(low: float = -math.inf, high: float = math.inf, open_low: bool = False) -> Kind:
    def read(value: Any) -> float:
        found = float(value)
        too_low = found <= low if open_low else found < low
        if isinstance(value, bool) or not math.isfinite(found) or too_low or found > high:
            raise ValueError
        return found

    return Kind(range_words(low, high, open_low), read)


def range_words(low: float, high: float, open_low: bool) -> str:
    """`a number above 0`, `a number from 0 to 1`, `a number`."""
    if low == -math.inf:
        return "a number"
    if high == math.inf:
        return f"a number {'above' if open_low else 'from'} {low:g}{'' if open_low else ' on'}"
    return f"a number from {low:g} to {high:g}"


def one_of(*words: str) -> Kind:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return Kind("one of " + ", ".join(words), read)


def _read_flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "yes": True, "false": False, "no": False}[str(value).lower()]


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _read_seconds(value: Any) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return parse_duration(value).total_seconds()
    return cast(float, number(0, open_low=True).read(value))


def _read_algorithm(value: Any) -> str:
    word = str(value).lower()
    for name, others in ALGORITHMS.items():
        if word == name or word in others:
            return name
    raise ValueError(word)


def _read_starts(value: Any) -> tuple[dict[str, Any], ...]:
    if isinstance(value, Mapping):
        value = [value]
    return tuple(dict(cast("Mapping[str, Any]", one)) for one in value)


def _read_texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(map(_read_text, value))


FLAG = Kind("true or false", _read_flag)
TEXT = Kind("a text", _read_text)
TEXTS = Kind("a text or a list of texts", _read_texts)
SECONDS = Kind("a duration such as 45m, 4h or 1h30m, or a number of seconds", _read_seconds)
STARTS = Kind("a list of mappings from keys to values", _read_starts)
ALGORITHM = Kind("one of " + ", ".join(ALGORITHMS), _read_algorithm)
FRACTION = number(0, 1)
POSITIVE = number(0, open_low=True)
ANY = Kind("anything", lambda value: value)


def setting(default: T, kind: Kind, *names: str) -> T:
    """A field of SearchSettings with its other names. None as the default allows None."""
    metadata = {"kind": kind, "names": names}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class SearchSettings:
    """What a search was told. Frozen; `read_settings` makes one, and refuses what it cannot be.

    `automl_NAME` is another name of every field NAME that has no such name of its own.
    """

    # what is searched for, and how
    algorithm: str = setting("bayesian", ALGORITHM, "automl_algorithm")
    objectives: tuple[Objective, ...] = (Objective(DEFAULT_METRIC, MINIMIZE),)
    metric_at: str = setting("last", one_of("last", "best"))  # of a rung's epochs
    seed: int | None = setting(None, whole(0))  # None: the driver draws one and keeps it
    start: tuple[Mapping[str, Any], ...] = setting((), STARTS, "automl_start")
    warm_start: tuple[str, ...] = setting((), TEXTS, "warm_start_from")  # ids of searches
    first_as_is: bool = setting(True, FLAG)  # the first trial is the spec as it stands

    # how much
    max_trials: int = setting(
        20, whole(1), "automl_max_recommendations", "max_recommendations", "num_recommendations",
        "automl_max_trials",
    )  # fmt: skip
    max_experiments: int | None = setting(None, whole(1))  # the same bound, of language models
    max_concurrent: int | None = setting(None, whole(1))  # None: the driver knows the place
    max_jobs: int | None = setting(None, whole(1))
    max_gpu_hours: float | None = setting(None, POSITIVE)
    max_wall_time: float | None = setting(None, SECONDS)  # seconds
    stop_poor: bool = setting(False, FLAG)  # stop a trial that is worse than most were by then

    # rungs
    epochs_key: str = setting("", TEXT)  # the key of the spec that says how long to train
    max_epochs: int = setting(27, whole(1))
    min_epochs: int = setting(1, whole(1), "epoch_multiplier")  # of the first rung
    reduction_factor: int = setting(3, whole(2))
    min_top_configs: int | None = setting(None, whole(1))  # asha: enough on the last rung
    early_stop_threshold: float = setting(0.1, FRACTION)
    min_early_stop_epochs: int = setting(3, whole(1))
    kde_samples: int = setting(64, whole(1))
    top_n_percent: float = setting(15.0, number(0, 100, open_low=True))
    min_points_in_model: int | None = setting(None, whole(2))

    # population
    population_size: int = setting(10, whole(2))
    max_generations: int = setting(20, whole(1))
    eval_interval: int = setting(10, whole(1))  # epochs of a generation
    perturbation_factor: float = setting(1.2, number(1, open_low=True))
    mutation_factor: float = setting(0.5, number(0, 2, open_low=True))
    crossover_prob: float = setting(0.5, FRACTION)

    # language models; the key is the environment's, or the caller's, and is never kept
    llm_endpoint: str = setting("", TEXT, "base_url")
    llm_model: str = setting("", TEXT, "model")
    llm_temperature: float = setting(0.7, number(0, 2))
    llm_max_tokens: int = setting(4096, whole(1))
    llm_analysis_interval: int = setting(5, whole(1))
    hybrid_enable_llm_range_narrowing: bool = setting(False, FLAG)
    research_program: str = setting("", ANY)

    # the driver's and the runner's
    delete_intermediate_ckpt: bool = setting(False, FLAG)
    checkpoint_retention_strategy: str = setting("auto", one_of("auto", "best", "terminal"))
    retain_failed_artifacts: bool = setting(True, FLAG)
    override_automl_disabled_params: bool = setting(False, FLAG)
    train_sample_count: int | None = setting(
        None, whole(1), "num_train_samples", "train_samples", "dataset_size"
    )
    run_baseline: bool = setting(True, FLAG)
    baseline_metric: float | None = setting(None, number())
    baseline_record_path: str = setting("", TEXT)
    run_final_evaluation: bool = setting(True, FLAG)
    final_evaluation: Any = setting(None, ANY)
    final_evaluation_metric: float | None = setting(None, number())
    final_evaluation_record_path: str = setting("", TEXT)
    reuse_best_metric_for_final_evaluation: bool = setting(False, FLAG)
    evaluation_records_dir: str = setting("", TEXT)
    session_id: str = setting("", TEXT)
    experiment_id: str = setting("", TEXT)

    @property
    def goals(self) -> tuple[Objective, ...]:
        """The objectives that have a direction; one at least."""
        return tuple(objective for objective in self.objectives if objective.is_goal)

    @property
    def most_trials(self) -> int:
        """The bound on the number of configurations, whatever the algorithm."""
        return min(self.max_trials, self.max_experiments or self.max_trials)

    @property
    def concurrency(self) -> int:
        """How many trials may run at once; 1 where nobody has said."""
        return self.max_concurrent or 1

    @property
    def keeps_curves(self) -> bool:
        """True where early stops compare curves, so results have them."""
        return self.stop_poor or self.algorithm == "hyperband_es"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; `settings_from_json` gives the same settings back."""
        values = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        values["objectives"] = [objective.to_json() for objective in self.objectives]
        values["start"] = [dict(one) for one in self.start]
        values["warm_start"] = list(self.warm_start)
        return values


FIELDS: Mapping[str, dataclasses.Field[Any]] = {
    one.name: one for one in dataclasses.fields(SearchSettings)
}
# Names that make up the objectives, and one that is a secret.
OBJECTIVE_NAMES = (
    "metric", "direction", "metric_weight", "metric_scale", "objectives", "multi_objective",
    "include_latency", "latency_objective", "latency_metric", "latency_direction",
    "latency_weight", "latency_scale",
)  # fmt: skip
SECRET_NAMES = ("llm_api_key", "api_key")


def _names_of(name: str) -> tuple[str, ...]:
    if name == "objectives":
        return (name,)
    return (name, f"automl_{name}", *FIELDS[name].metadata["names"])


# every name that a setting has -> its field
NAMES: Mapping[str, str] = {other: name for name in FIELDS for other in _names_of(name)}


def read_settings(given: Mapping[str, Any]) -> SearchSettings:
    """The settings of a mapping from names to values. None as a value is as good as absent.

    Raises SettingError for a name that is unknown (with the nearest one), for two names of one
    setting that disagree, and for a value that is not allowed.
    """
    values: dict[str, Any] = {}
    for name, value in given.items():
        check_name(name)
        if value is None or name in OBJECTIVE_NAMES or name in SECRET_NAMES:
            continue
        keep_value(values, NAMES[name], name, read_value(NAMES[name], name, value))
    values["objectives"] = read_objectives(given)
    return SearchSettings(**values)


def check_name(name: str) -> None:
    if name in NAMES or name in OBJECTIVE_NAMES or name in SECRET_NAMES:
        return
    raise mistake(
        name,
        f"unknown setting {name!r}.",
        near_name(name, [*NAMES, *OBJECTIVE_NAMES, *SECRET_NAMES]),
    )


def read_value(name: str, called: str, value: Any) -> Any:
    kind: Kind = FIELDS[name].metadata["kind"]
    try:
        return kind.read(value)
    except (ValueError, TypeError, KeyError, OverflowError):
        next = near_name(str(value), ALGORITHMS) if kind is ALGORITHM else ""
        what = f"{called} is {value!r}; it must be {kind.allowed}."
        raise mistake(called, what, next) from None


def keep_value(values: dict[str, Any], name: str, called: str, value: Any) -> None:
    if name in values and values[name] != value:
        what = f"{called} says {value!r}, and another name of the same setting {values[name]!r}."
        raise mistake(called, what, f"Keep one of {', '.join(_names_of(name))}.")
    values[name] = value


def mistake(name: str, what: str, next: str = "", why: str = "") -> SettingError:
    error = SettingError(what, why, next)
    error.field = name
    return error


def read_objectives(given: Mapping[str, Any]) -> tuple[Objective, ...]:
    """What is searched for: `objectives`, else `metric` and its direction; with the latency where
    it is asked for. Raises SettingError.
    """
    listed = given.get("objectives")
    objectives = listed_objectives(listed) if listed else (main_objective(given),)
    if given.get("include_latency") or given.get("latency_objective"):
        objectives = (*objectives, latency_objective(given))
    check_objectives(objectives)
    return objectives


def listed_objectives(listed: Any) -> tuple[Objective, ...]:
    if isinstance(listed, (str, Mapping)):
        listed = [listed]
    return tuple(map(one_objective, listed))


def one_objective(given: Any) -> Objective:
    """`accuracy`, or `{metric: latency, at_most: 20}`. A limit without a direction is no goal."""
    entry: Mapping[str, Any] = {"metric": given} if isinstance(given, str) else given
    if not isinstance(cast(Any, entry), Mapping) or not isinstance(entry.get("metric"), str):
        what = f"an objective is {given!r}; it must name its metric."
        raise mistake("objectives", what, "Write {metric: accuracy}.")
    for name in entry:
        if name not in OBJECTIVE_KINDS:
            next = near_name(name, OBJECTIVE_KINDS)
            raise mistake("objectives", f"unknown key {name!r} of an objective.", next)
    values = {
        name: read_objective_value(name, value)
        for name, value in entry.items()
        if value is not None
    }
    if "direction" not in values and not {"at_most", "at_least"} & values.keys():
        values["direction"] = direction_of(values["metric"])
    return Objective(**values)


OBJECTIVE_KINDS: Mapping[str, Kind] = {
    "metric": TEXT,
    "direction": one_of(MINIMIZE, MAXIMIZE),
    "weight": number(0),
    "scale": POSITIVE,
    "at_most": number(),
    "at_least": number(),
}


def read_objective_value(name: str, value: Any, called: str = "") -> Any:
    kind = OBJECTIVE_KINDS[name]
    try:
        return kind.read(value)
    except (ValueError, TypeError, OverflowError):
        called = called or f"objectives: {name}"
        raise mistake(called, f"{called} is {value!r}; it must be {kind.allowed}.") from None


def main_objective(given: Mapping[str, Any]) -> Objective:
    return named_objective(given, given.get("metric") or DEFAULT_METRIC, "", "metric_")


def latency_objective(given: Mapping[str, Any]) -> Objective:
    metric = given.get("latency_metric") or "latency"
    return named_objective(given, metric, "latency_", "latency_")


def named_objective(
    given: Mapping[str, Any], metric: Any, before_direction: str, before_numbers: str
) -> Objective:
    """An objective of separate settings: `metric_weight`, `latency_direction` ..."""
    called = {
        "direction": f"{before_direction}direction",
        "weight": f"{before_numbers}weight",
        "scale": f"{before_numbers}scale",
    }
    metric = read_objective_value("metric", metric, f"{before_direction}metric")
    values: dict[str, Any] = {
        name: read_objective_value(name, given[other], other)
        for name, other in called.items()
        if given.get(other) is not None
    }
    values.setdefault("direction", direction_of(metric))
    return Objective(metric, **values)


def direction_of(metric: str) -> str:
    """By the words of its name: `val_loss` is minimized, `answer_accuracy` maximized."""
    return MINIMIZE if smaller_is_better(metric) else MAXIMIZE


def check_objectives(objectives: Iterable[Objective]) -> None:
    objectives = tuple(objectives)
    names = [objective.metric for objective in objectives]
    if len(set(names)) < len(names):
        raise mistake("objectives", f"one metric stands twice in {', '.join(names)}.")
    if not any(objective.is_goal for objective in objectives):
        what = "every objective is a limit alone."
        raise mistake("objectives", what, "Give one of them a direction: minimize or maximize.")


def settings_from_json(data: Mapping[str, Any]) -> SearchSettings:
    """The settings that `to_json` gave. A field that is missing has its default."""
    known = {name: value for name, value in data.items() if name in FIELDS}
    known["objectives"] = tuple(map(Objective.from_json, data["objectives"]))
    known["start"] = tuple(known.get("start", ()))
    known["warm_start"] = tuple(known.get("warm_start", ()))
    return SearchSettings(**known)
