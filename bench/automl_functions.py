"""Functions that searches are measured on: six black boxes and two learning curves. Pure.

They are made like trainings: rates over decades, whole numbers, choices, and parameters that play
together. A smaller value is better; `least` is the smallest there is, found by long searches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Params = Mapping[str, Any]
UNIT = {"min": 0.0, "max": 1.0}
RATE = {"min": 1e-6, "max": 1e-1}


@dataclass(frozen=True)
class Function:
    """A black box over the parameters of a `search:` block."""

    name: str
    parameters: Mapping[str, Any]
    value: Callable[[Params], float]
    least: float = 0.0


def decades(value: float, best: float) -> float:
    """How many powers of ten lie between a value and the best one."""
    return math.log10(value) - math.log10(best)


def lr3(params: Params) -> float:
    """A rate that plays together with the momentum; above a limit a training gets much worse."""
    effective = params["lr"] / (1 - params["momentum"])
    loss = 0.25 * decades(effective, 0.02) ** 2 + 0.03 * decades(params["decay"], 1e-4) ** 2
    if effective > 0.1:
        loss += 1.5 * decades(effective, 0.1)
    return loss + 0.3 * (params["momentum"] - 0.9) ** 2


def train5(params: Params) -> float:
    """The best rate grows with the batch; dropout is worth more the more layers there are."""
    best_rate = 1e-3 * math.sqrt(params["batch"] / 32)
    loss = 0.15 * abs(decades(params["lr"], best_rate)) ** 1.5
    loss += 0.02 * (params["layers"] - 5) ** 2 / (1 + params["dropout"])
    loss += 0.6 * (params["dropout"] - 0.05 * params["layers"]) ** 2
    return loss + 0.02 * decades(params["decay"], 1e-3) ** 2 + 0.03 * (params["batch"] != 64)


WEIGHTS = (1.0, 1.2, 3.0, 3.2)
SLOPES = (
    (10, 3, 17, 3.5, 1.7, 8),
    (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8),
    (17, 8, 0.05, 10, 0.1, 14),
)
CENTRES = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def hartmann(params: Params) -> float:
    """The function of that name over six numbers: several valleys."""
    point = [params[f"x{place}"] for place in range(6)]
    total = 0.0
    for weight, slopes, centre in zip(WEIGHTS, SLOPES, CENTRES, strict=True):
        away = sum(s * (x - c) ** 2 for s, x, c in zip(slopes, point, centre, strict=True))
        total -= weight * math.exp(-away)
    return total


def branin(params: Params) -> float:
    """Branin, moved and lifted by a choice of four; three valleys are equally deep in each."""
    moves = {"a": (0.0, 0.0), "b": (1.0, 1.0), "c": (-1.0, 2.0), "d": (0.5, 4.0)}
    move, lift = moves[params["kind"]]
    x, y = params["x"] + move, params["y"]
    b, c = 5.1 / (4 * math.pi**2), 5 / math.pi
    bowl = (y - b * x**2 + c * x - 6) ** 2
    return math.log1p(bowl + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10 + lift)


def rosenbrock(params: Params) -> float:
    """A bent valley over seven numbers, and a choice that lifts it."""
    point = [params[f"x{place}"] for place in range(7)]
    steps = itertools.pairwise(point)
    total = sum(100 * (after - before**2) ** 2 + (1 - before) ** 2 for before, after in steps)
    return math.log10(1 + total + {"a": 0, "b": 30, "c": 100}[params["kind"]])


def twelve(params: Params) -> float:
    """Twelve parameters of every kind, of which some matter much and some hardly."""
    loss = 0.1 * decades(params["lr"], 3e-3) ** 2 + 0.02 * decades(params["decay"], 1e-4) ** 2
    loss += 0.02 * decades(params["eps"], 1e-7) ** 2 / 4
    loss += 0.5 * (params["dropout"] - 0.2) ** 2 + 0.3 * (params["momentum"] - 0.9) ** 2
    loss += 0.01 * (params["layers"] - 6) ** 2 + 0.02 * decades(params["hidden"], 256) ** 2
    loss += {"adam": 0.0, "sgd": 0.15, "lamb": 0.05}[params["optimizer"]]
    loss += {"relu": 0.05, "gelu": 0.0, "tanh": 0.2}[params["activation"]]
    loss += 0.05 * (params["mixup"] - 0.3 * params["dropout"]) ** 2
    return loss + 0.1 * (not params["norm"]) + 0.02 * abs(params["warmup"] - 4)


DECAY = {"min": 1e-7, "max": 1e-1}
FUNCTIONS: Sequence[Function] = (
    Function("lr3", {"lr": RATE, "momentum": {"min": 0.0, "max": 0.99}, "decay": DECAY}, lr3),
    Function(
        "train5",
        {
            "lr": RATE,
            "batch": {"choices": [8, 16, 32, 64, 128, 256], "ordered": True},
            "layers": {"min": 1, "max": 12},
            "dropout": {"min": 0.0, "max": 0.7},
            "decay": DECAY,
        },
        train5,
    ),
    Function("hartmann6", {f"x{place}": UNIT for place in range(6)}, hartmann, -3.32237),
    Function(
        "branin4+cat",
        {
            "x": {"min": -5.0, "max": 10.0},
            "y": {"min": 0.0, "max": 15.0},
            "kind": ["a", "b", "c", "d"],
        },
        branin,
        math.log1p(0.397887),
    ),
    Function(
        "rosen8+cat",
        {**{f"x{place}": {"min": -2.0, "max": 2.0} for place in range(7)}, "kind": ["a", "b", "c"]},
        rosenbrock,
    ),
    Function(
        "twelve",
        {
            "lr": RATE,
            "decay": DECAY,
            "eps": {"min": 1e-9, "max": 1e-4},
            "dropout": {"min": 0.0, "max": 0.8},
            "momentum": {"min": 0.5, "max": 0.99},
            "mixup": UNIT,
            "layers": {"min": 1, "max": 12},
            "hidden": {"min": 16, "max": 1024},
            "warmup": {"min": 0, "max": 10},
            "optimizer": ["adam", "sgd", "lamb"],
            "activation": ["relu", "gelu", "tanh"],
            "norm": [True, False],
        },
        twelve,
    ),
)
CURVE_PARAMETERS: Mapping[str, Any] = {
    "lr": RATE,
    "decay": DECAY,
    "momentum": {"min": 0.0, "max": 0.99},
    "layers": {"min": 1, "max": 8},
    "optimizer": ["adam", "sgd"],
}


@dataclass(frozen=True)
class LearningCurve:
    """A loss that falls with the epochs. A high rate falls faster, by `lead`, from `start` above its
    end: with much of both the ranks of early epochs mislead.
    """

    name: str
    lead: float
    start: float

    def value(self, params: Params, epochs: int) -> float:
        speed = 0.25 + self.lead * (math.log10(params["lr"]) + 4) / 5
        return curve_end(params) + self.start * math.exp(-max(speed, 0.05) * epochs**0.8)


def curve_end(params: Params) -> float:
    """Where a training ends."""
    loss = 0.2 * decades(params["lr"], 1e-3) ** 2 + 0.02 * decades(params["decay"], 1e-4) ** 2
    loss += 0.4 * (params["momentum"] - 0.85) ** 2 + 0.02 * (params["layers"] - 5) ** 2
    return loss + {"adam": 0.0, "sgd": 0.1}[params["optimizer"]]


CURVES: Sequence[LearningCurve] = (
    LearningCurve("mild", 0.05, 1.5),
    LearningCurve("misleading", 0.7, 8.0),
)
