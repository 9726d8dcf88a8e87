"""Turns: choose who comes next, where only a few can be asked at a time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


def costs_one(_: object) -> int:
    """Return 1: all keys cost the same."""
    return 1


@dataclass
class Turns(Generic[Key]):
    """The round in which each key last had its turn."""

    _last: dict[Key, int] = field(default_factory=dict[Key, int])
    _round: int = 0

    def take(
        self, keys: Iterable[Key], most: int, cost: Callable[[Key], int] = costs_one
    ) -> list[Key]:
        """Return the keys whose last turn is longest ago: as many as cost `most` together, and at
        least one. Keys that had no turn come first, in the order given.
        """
        self._round += 1
        chosen: list[Key] = []
        left = most
        for key in sorted(keys, key=lambda key: self._last.get(key, 0)):
            left -= cost(key)
            if left < 0 and chosen:
                break
            chosen.append(key)
        self._last.update(dict.fromkeys(chosen, self._round))
        return chosen
