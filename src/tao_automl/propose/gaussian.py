"""The point that promises most, by a Gaussian process over the unit cube.

The process (process.py) is Matern 5/2 with a length for each column; a point is judged by the
logarithm of its expected improvement, over sampled and refined candidates. What runs is filled in
with the model's own mean, so that parallel trials differ. Where trials fail is learnt by a second
process, whose probability of success weights the improvement; a failure is never a loss. Whole
numbers are snapped and choices one-hot, for the models as for the candidates.

Not here: which numbers count (evidence.py).
"""

# What numpy's stubs leave unknown is of no use to a reader.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tao_automl.propose.even import even_params
from tao_automl.propose.evidence import Evidence, evidence_of
from tao_automl.propose.process import (
    Array,
    Process,
    fitted_process,
    given_process,
    log_below,
    log_improvement,
    scaled,
)
from tao_automl.rungs.step import New
from tao_automl.space.parameter import Column
from tao_automl.space.space import Space
from tao_automl.state import Search
from tao_automl.trial import Params

SAMPLED, AROUND = 512, 256  # candidates: anywhere, and around the best observations
REFINED = 5  # of the candidates, whose surroundings are looked at
UNLIKELY = math.log(0.4)  # success less likely than this is tried only where nothing else is left
LAST_RESORT = 1e6  # what that costs
FAILURE = -2.0  # what a place of failure is to the model of success; a success, and the unknown, 0
NEIGHBOUR = 0.3  # its lengths, per square root of the columns: so far a failure tells
DOUBT = 0.01  # variance of what it is told: a program may also fail by accident
SAME = 1e-9  # squared distance of equal points


def draw(search: Search, step: New, seed: int) -> Params:  # noqa: ARG001  rungs are of no concern
    """The values that promise most; evenly spread ones while too little is known."""
    evidence = evidence_of(search)
    if is_early(search, evidence):
        return even_params(search.space, search.seed, search.draws)
    chance = np.random.default_rng(seed)
    model = Surrogate.of(search.space, evidence, single_losses(search, evidence, chance))
    return search.space.decode(model.best_point(chance, best_mean=begins_batch(search)).tolist())


def is_early(search: Search, evidence: Evidence) -> bool:
    """True while fewer trials than a handful, or than parameters, have been started."""
    start = min(max(4, search.space.width + 1), 8)
    return len(evidence.observed) < 3 or len(evidence.observed) + len(evidence.pending) < start


def begins_batch(search: Search) -> bool:
    """True for the first of a batch of bfbo: the best first, as the model has it."""
    size = search.settings.concurrency
    is_first = len(search.trials) % size == 0
    return search.settings.algorithm == "bfbo" and size > 1 and is_first


def single_losses(search: Search, evidence: Evidence, chance: np.random.Generator) -> Array:
    """One number for each observation. Several goals are weighted by chance, anew for each
    proposal, so that the whole front is found.
    """
    if len(search.settings.goals) == 1:
        return np.array([one.loss for one in evidence.observed])
    losses = np.array([one.losses for one in evidence.observed])
    spread = np.maximum(np.ptp(losses, axis=0), 1e-12)
    scaled = (losses - losses.min(axis=0)) / spread
    weights = np.array([goal.weight for goal in search.settings.goals])
    weights = weights * chance.dirichlet(np.ones(len(weights)))
    weighted = scaled * weights / weights.sum()
    return weighted.max(axis=1) + 0.05 * weighted.sum(axis=1)


def squeezed(losses: Array) -> Array:
    """The losses with mean 0 and spread 1; the bad ones close together, as how bad they are is of
    no interest.
    """
    middle = np.median(losses)
    scale = max(float(middle - losses.min()), 1e-12)
    found = (losses - middle) / scale
    found = np.where(found > 0, np.log1p(np.maximum(found, 0)), found)
    return (found - found.mean()) / max(float(found.std()), 1e-9)


def features(columns: Sequence[Column], points: Array) -> tuple[Array, NDArray[np.intp]]:
    """Points as the model sees them, and which column each feature is of."""
    parts: list[Array] = []
    owners: list[int] = []
    for place, column in enumerate(columns):
        part = column_features(column, points[:, place])
        parts.append(part)
        owners.extend([place] * part.shape[1])
    return np.hstack(parts), np.array(owners, dtype=np.intp)


def column_features(column: Column, units: Array) -> Array:
    """A number as it is, snapped to the middle of its cell; a choice as one of so many switches."""
    if not column.uppers:
        return units[:, None]
    cells = np.searchsorted(np.array(column.uppers), units, side="right")
    cells = np.minimum(cells, len(column.uppers) - 1)
    if column.is_ordered:
        return np.array([column.middle(cell) for cell in range(len(column.uppers))])[cells][:, None]
    return np.eye(len(column.uppers))[cells] / math.sqrt(2)


@dataclass(frozen=True)
class Surrogate:
    """The fitted model, and all that candidates are compared with."""

    space: Space
    process: Process
    best: float  # the least mean at a known point
    leaders: Array  # points of the best observations
    known: Array  # features of everything that was tried
    success: Process | None  # of what failed and what did not; None without a failure

    @classmethod
    def of(cls, space: Space, evidence: Evidence, losses: Array) -> Surrogate:
        columns = space.columns
        points = np.array([one.point for one in evidence.observed])
        inside, owners = features(columns, points)
        process = fitted_process(inside, squeezed(losses), owners)
        pending = tried(columns, [point for point, _ in evidence.pending], inside.shape[1])
        if len(pending):
            process = process.with_points(pending, process.predict(pending)[0])
        failed = tried(columns, failures(evidence), inside.shape[1])
        within = inside[[one.violation == 0 for one in evidence.observed]]
        return cls(
            space,
            process,
            float(process.predict(process.inside)[0].min()),
            points[np.argsort(losses, kind="stable")[:REFINED]],
            np.vstack([inside, pending, failed]),
            success_process(within, failed),
        )

    def score(self, points: Array, best_mean: bool) -> Array:
        """What each point promises; minus infinity for one that was tried already."""
        inside, _ = features(self.space.columns, settled(self.space, points))
        mean, deviation = self.process.predict(inside)
        promise = -mean if best_mean else log_improvement(mean, deviation, self.best)
        if self.success:
            success = log_success(self.success, inside)
            promise = promise + success - np.where(success < UNLIKELY, LAST_RESORT, 0.0)
        ones = np.ones(inside.shape[1])
        return np.where(scaled(inside, self.known, ones).min(axis=1) < SAME, -np.inf, promise)

    def best_point(self, chance: np.random.Generator, best_mean: bool) -> Array:
        width = self.space.width
        centres = self.leaders[chance.integers(len(self.leaders), size=AROUND)]
        spread = 10.0 ** chance.uniform(-2.5, -0.5, size=(AROUND, 1))
        around = moved(chance, centres, spread)
        points = np.vstack([chance.random((SAMPLED, width)), around])
        scores = self.score(points, best_mean)
        for spread in (0.1, 0.03, 0.01, 0.003):
            order = np.argsort(-scores, kind="stable")[:REFINED]
            points, scores = points[order], scores[order]
            further = moved(chance, np.repeat(points, 20, axis=0), spread)
            points = np.vstack([points, further])
            scores = np.concatenate([scores, self.score(further, best_mean)])
        return points[int(np.argmax(scores))]


def success_process(within: Array, failed: Array) -> Process | None:
    """The model of where trials fail, of given lengths: there is too little to fit them to."""
    if not len(failed):
        return None
    values = np.concatenate([np.zeros(len(within)), np.full(len(failed), FAILURE)])
    width = within.shape[1]
    lengths = np.full(width, NEIGHBOUR * math.sqrt(width))
    return given_process(np.vstack([within, failed]), values, lengths, DOUBT)


def log_success(success: Process, inside: Array) -> Array:
    """The logarithm of the probability of success at points."""
    mean, deviation = success.predict(inside)
    return log_below((mean - FAILURE / 2) / deviation)


def settled(space: Space, points: Array) -> Array:
    """The points as those of trials are: a half where a parameter does not apply. Only where some
    are conditional, as it takes its time.
    """
    if not any(parameter.parents for parameter in space.parameters):
        return points
    found = [space.encode(space.decode(point)) for point in points.tolist()]
    return np.array([point or old for point, old in zip(found, points.tolist(), strict=True)])


def failures(evidence: Evidence) -> list[tuple[float, ...]]:
    """Where trials failed, or broke a limit."""
    return [*evidence.failed, *(one.point for one in evidence.observed if one.violation > 0)]


def tried(columns: Sequence[Column], points: Sequence[tuple[float, ...]], width: int) -> Array:
    if not points:
        return np.empty((0, width))
    return features(columns, np.array(points))[0]


def moved(chance: np.random.Generator, points: Array, spread: Any) -> Array:
    """The points, each moved in some of its coordinates; what would leave the cube stays at its
    bound.
    """
    moves = chance.normal(size=points.shape) * spread
    some = chance.random(points.shape) < max(0.3, 2 / points.shape[1])
    jumps = chance.random(points.shape) < 0.03
    found = np.where(jumps, chance.random(points.shape), points + moves * some)
    return np.clip(found, 0.0, 1.0)
