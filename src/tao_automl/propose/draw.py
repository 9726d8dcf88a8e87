"""Draw: the one source of randomness of a search. Each draw is a stream of its own, made of the
search's seed and the number of draws before, so every process draws the same.
"""

from __future__ import annotations

import hashlib
from random import Random

from tao_automl.space.space import Space
from tao_automl.trial import Params


def stream_seed(seed: int, draw: int) -> int:
    """The seed of stream number `draw`: 32 bits, the same in every process."""
    digest = hashlib.sha256(f"{seed}/{draw}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def uniform_params(space: Space, seed: int) -> Params:
    """Values by chance: each parameter evenly over its range, on its scale."""
    chance = Random(seed)
    return space.decode([chance.random() for _ in range(space.width)])
