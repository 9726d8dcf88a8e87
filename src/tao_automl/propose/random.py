"""Random search: each parameter evenly over its range, on its own scale."""

from __future__ import annotations

from tao_automl.propose.draw import uniform_params
from tao_automl.rungs.step import New
from tao_automl.state import Search
from tao_automl.trial import Params


def draw(search: Search, step: New, seed: int) -> Params:  # noqa: ARG001  every sampler is asked alike
    return uniform_params(search.space, seed)
