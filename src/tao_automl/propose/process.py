"""The Gaussian process itself: kernel, fit, mean and deviation, expected improvement. numpy alone.

Its lengths, scale and noise are the most likely ones under broad priors, found by following the
sign of the gradient with steps that adapt (Rprop), which needs no line search.
"""

# What numpy's stubs leave unknown is of no use to a reader.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MOST_FITTED = 60  # points that its lengths are fitted to: the best ones and their nearest
FIT_STEPS = 40
JITTER = 1e-6
LENGTH = (math.log(0.5), 1.0)  # mean and deviation of a length's logarithm, for one column
SCALE = (0.0, 0.7)  # of the logarithm of the variance
NOISE = (-7.0, 2.0)  # of the logarithm of the noise's variance
ROOT = math.sqrt(5)
FAR = -5.0  # deviations below which the improvement has an approximation of its own

_erfc = np.frompyfunc(math.erfc, 1, 1)


@dataclass(frozen=True)
class Process:
    """A fitted process: the points it knows, as features, and their values."""

    inside: Array
    values: Array
    lengths: Array  # of each feature
    variance: float
    noise: float
    inverse: Array  # of the Cholesky factor of the covariance
    weights: Array  # the covariance's inverse times the values

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Mean and deviation at points."""
        between = self.variance * matern(scaled(points, self.inside, self.lengths))
        left = self.variance - ((between @ self.inverse.T) ** 2).sum(axis=1)
        return between @ self.weights, np.sqrt(np.maximum(left, 1e-12))

    def with_points(self, points: Array, values: Array) -> Process:
        """The same model with more points that it is thought to know."""
        inside = np.vstack([self.inside, points])
        found = replace(self, inside=inside, values=np.concatenate([self.values, values]))
        return solved_process(found)


def solved_process(process: Process) -> Process:
    distances = scaled(process.inside, process.inside, process.lengths)
    covariance = process.variance * matern(distances)
    covariance[np.diag_indices_from(covariance)] += process.noise + JITTER
    inverse = np.linalg.inv(np.linalg.cholesky(covariance))
    weights = inverse.T @ (inverse @ process.values)
    return replace(process, inverse=inverse, weights=weights)


def fitted_process(inside: Array, values: Array, owners: NDArray[np.intp]) -> Process:
    """The process of these points."""
    few = telling(inside, values, MOST_FITTED)
    found = most_likely(columns_apart(inside[few], owners), values[few])
    lengths, (variance, noise) = np.exp(found[:-2]), np.exp(found[-2:])
    return given_process(inside, values, lengths[owners], noise, variance)


def given_process(
    inside: Array, values: Array, lengths: Array, noise: float, variance: float = 1.0
) -> Process:
    """The process of these points with a length for each feature."""
    empty = np.empty(0)
    return solved_process(Process(inside, values, lengths, variance, noise, empty, empty))


def telling(inside: Array, values: Array, most: int) -> NDArray[np.intp]:
    """The places of the best half of `most` points and of those that are nearest to the best."""
    order = np.argsort(values, kind="stable")
    if len(order) <= most:
        return np.sort(order)
    best, rest = order[: most // 2], order[most // 2 :]
    away = ((inside[rest] - inside[order[0]]) ** 2).sum(axis=1)
    nearest = rest[np.argsort(away, kind="stable")[: most - most // 2]]
    return np.sort(np.concatenate([best, nearest]))


def columns_apart(inside: Array, owners: NDArray[np.intp]) -> Array:
    """Squared distances of all pairs, for each column by itself."""
    apart = (inside[:, None, :] - inside[None, :, :]) ** 2
    found = np.zeros((int(owners.max()) + 1, len(inside), len(inside)))
    for feature, owner in enumerate(owners):
        found[owner] += apart[:, :, feature]
    return found


def most_likely(apart: Array, values: Array) -> Array:
    """The logarithms of lengths, variance and noise."""
    means, deviations = priors(len(apart))
    found, step = means.copy(), np.full(len(means), 0.3)
    before = np.zeros(len(means))
    best, least = found, math.inf
    for _ in range(FIT_STEPS):
        cost, slope = cost_and_slope(found, apart, values, means, deviations)
        if cost < least:
            best, least = found.copy(), cost
        turned = np.sign(slope) * np.sign(before)
        step = np.clip(np.where(turned < 0, step * 0.5, step * 1.2), 1e-3, 1.0)
        found = found - np.sign(slope) * step
        before = slope
    return best


def priors(columns: int) -> tuple[Array, Array]:
    """Means and deviations of the logarithms. With more columns lengths are longer: distances are,
    too.
    """
    length = LENGTH[0] + 0.5 * math.log(columns)
    means = np.array([*[length] * columns, SCALE[0], NOISE[0]])
    return means, np.array([*[LENGTH[1]] * columns, SCALE[1], NOISE[1]])


def cost_and_slope(
    found: Array, apart: Array, values: Array, means: Array, deviations: Array
) -> tuple[float, Array]:
    """The negative logarithm of the posterior, and its gradient."""
    columns, count = len(apart), len(values)
    inverse_squares = np.exp(-2 * found[:columns])
    variance, noise = np.exp(found[columns:])
    distances = np.tensordot(inverse_squares, apart, axes=1)
    kernel = variance * matern(distances)
    covariance = kernel + (noise + JITTER) * np.eye(count)
    lower = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(covariance)
    weights = inverse @ values
    pull = inverse - np.outer(weights, weights)
    away = (found - means) / deviations
    cost = values @ weights / 2 + np.log(np.diag(lower)).sum() + (away**2).sum() / 2
    by_distance = pull * variance * matern_slope(distances)
    by_length: Any = -np.tensordot(apart, by_distance, axes=2) * inverse_squares
    by_scale = [(pull * kernel).sum() / 2, np.trace(pull) * noise / 2]
    slope: Any = np.concatenate([by_length, np.array(by_scale)])
    return float(cost), slope + away / deviations


def scaled(first: Array, second: Array, lengths: Array) -> Array:
    """Squared distances of all pairs, each feature in units of its length."""
    one, other = first / lengths, second / lengths
    found = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2 * one @ other.T
    return np.maximum(found, 0.0)


def matern(distances: Array) -> Array:
    """Matern 5/2 of squared distances."""
    root = ROOT * np.sqrt(distances)
    return (1 + root + root**2 / 3) * np.exp(-root)


def matern_slope(distances: Array) -> Array:
    """Its derivative by the squared distance."""
    root = ROOT * np.sqrt(distances)
    return -5 / 6 * (1 + root) * np.exp(-root)


def log_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """The logarithm of the expected improvement below `best`, exact enough where it is tiny."""
    away = (best - mean) / deviation
    near = np.maximum(away, FAR)
    density = np.exp(-(near**2) / 2) / math.sqrt(2 * math.pi)
    below: Any = _erfc(-near / math.sqrt(2))
    exact = np.log(density + near * below.astype(float) / 2)
    far = np.minimum(away, FAR)
    tail = (
        -(far**2) / 2 - math.log(math.sqrt(2 * math.pi)) + np.log1p(-3 / far**2) - 2 * np.log(-far)
    )
    return np.where(away > FAR, exact, tail) + np.log(deviation)


def log_below(away: Array) -> Array:
    """The logarithm of the normal distribution function, exact enough where it is tiny."""
    near: Any = _erfc(-np.maximum(away, FAR) / math.sqrt(2))
    far = np.minimum(away, FAR)
    tail = -(far**2) / 2 - math.log(math.sqrt(2 * math.pi)) - np.log(-far) + np.log1p(-1 / far**2)
    return np.where(away > FAR, np.log(near.astype(float) / 2), tail)
