"""CMA-ES, of the package `cmaes`, without a memory: its distribution follows from the trials.

The results are told to it anew for each proposal, in the order of their trials, a generation at a
time. Choices are coordinates of the unit cube as numbers are.
"""

# What its packages' stubs leave unknown is of no use to a reader.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import math

from tao_automl.propose.evidence import evidence_of
from tao_automl.rungs.step import New
from tao_automl.space.space import Space
from tao_automl.state import Search
from tao_automl.trial import Params

SPREAD = 0.25  # of the first generation, in units of the cube
MOST_GENERATION = 8  # members of a generation where trials are few


def draw(search: Search, step: New, seed: int) -> Params:  # noqa: ARG001  of full trainings
    import cmaes
    import numpy as np

    width = max(search.space.width, 2)  # the package knows no line: a coordinate is added to one
    observed = evidence_of(search, most=None).observed
    centre = np.array(first_centre(search, width))
    bounds = np.array([[0.0, 1.0]] * width)
    size = generation_size(search.space, search.settings.most_trials)
    optimizer = cmaes.CMA(
        mean=centre,
        sigma=SPREAD,
        bounds=bounds,
        seed=seed,
        population_size=size,
    )
    for start in range(0, len(observed) - size + 1, size):
        generation = observed[start : start + size]
        optimizer.tell([(np.resize(one.point, width), one.loss) for one in generation])
    return search.space.decode(optimizer.ask().tolist()[: search.space.width])


def generation_size(space: Space, trials: int) -> int:
    """4 + 3 ln(width) as usual; less where the trials would not be enough for a few generations."""
    usual = 4 + math.floor(3 * math.log(max(space.width, 1)))
    return max(4, min(usual, MOST_GENERATION if trials < 100 else usual))


def first_centre(search: Search, width: int) -> list[float]:
    """Where it begins: the spec as it stands, where that is a point; else the middle."""
    defaults = search.space.encode(search.space.defaults())
    if defaults is not None and search.settings.first_as_is and len(defaults) == width:
        return defaults
    return [0.5] * width
