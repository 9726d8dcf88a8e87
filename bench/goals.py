"""Goals: the one table of what each figure should be. A figure that is not named here has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KIB, MIB = 1024, 1024 * 1024
WAYS, KINDS, SCHEMES = ("down", "up"), ("large", "small"), ("http", "https")

AUTOML_FUNCTIONS = ("lr3", "train5", "hartmann6", "branin4+cat", "rosen8+cat", "twelve")


@dataclass(frozen=True)
class Goal:
    """A bound on a figure's result, in the result's own unit."""

    limit: float
    at_least: bool = False  # else at most

    def met_by(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


GOALS: Mapping[str, Goal] = {
    "start.help": Goal(0.8),
    "start.first_words": Goal(0.3),
    "entrypoint.bytes": Goal(48 * KIB),
    "entrypoint.first_instruction": Goal(2.5),
    "logs.client.memory": Goal(16 * MIB),
    "logs.command.memory": Goal(16 * MIB),
    "docker.submit": Goal(1.15),
    "docker.first_instruction": Goal(0.16),
    "docker.cancel": Goal(1.5),
    "docker.logs.time": Goal(1.5),
    "docker.logs.memory": Goal(16 * MIB),
    "docker.status": Goal(1),
    "kubernetes.submit": Goal(1.3),
    "kubernetes.first_instruction": Goal(0.25),
    "kubernetes.cancel": Goal(1.2),
    "kubernetes.cancel.requests": Goal(4),
    "kubernetes.logs.time": Goal(1.5),
    "kubernetes.logs.memory": Goal(16 * MIB),
    "kubernetes.ls": Goal(1.5),
    "kubernetes.status": Goal(3),
    # two watches begin with two requests each; until they tell, everything is looked at
    "kubernetes.watch": Goal(8),
    **{
        f"s3.{way}.{kind}.{scheme}": Goal(1 / 0.9)
        for way in WAYS
        for kind in KINDS
        for scheme in SCHEMES
    },
    **{f"s3.{way}.{kind}.http.published": Goal(1 / 5) for way in WAYS for kind in KINDS},
    **{f"s3.inputs.{kind}.{scheme}": Goal(1 / 0.9) for kind in KINDS for scheme in SCHEMES},
    "s3.down.memory": Goal(100 * MIB),
    "s3.up.memory": Goal(100 * MIB),
    "progress.step": Goal(5e-6),
    "progress.epoch": Goal(5e-6),
    "many.plan": Goal(0.005),
    "many.submit": Goal(1.2),
    "many.watcher": Goal(0.02),
    "automl.bayesian": Goal(0.45),
    **{f"automl.over_tpe.{name}": Goal(1.1) for name in AUTOML_FUNCTIONS},
    **{f"automl.mild.{name}": Goal(1) for name in ("asha", "hyperband", "bohb")},
    "automl.cost.random": Goal(0.005),
    "automl.cost.bayesian": Goal(0.1),
    "automl.cost.tpe": Goal(0.1),
    "store.list": Goal(2),
    "store.events": Goal(2),
    "store.events.rate": Goal(10_000, at_least=True),
}
