"""Race: ours beside the best of several rivals. A rival that cannot be the best any more runs no
further round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from statistics import median

from bench.rounds import ContenderFailed, interleaved

OURS = "ours"
BEATEN = 1.5  # times the seconds of the fastest rival
ROUNDS_TO_BE_BEATEN = 2  # the first of them is the one that does not count


@dataclass(frozen=True)
class Race:
    """Seconds of each round, of us and of the best rival."""

    ours: list[float]
    best: str
    theirs: list[float]


def race(
    contenders: Mapping[str, Callable[[], float]],
    rounds: int,
    leave_out: Callable[[str, ContenderFailed], None],
) -> Race | None:
    """None when no rival went through all rounds."""
    found = interleaved(contenders, rounds, leave_out, beaten)
    whole = {
        name: seconds for name, seconds in found.items() if name != OURS and len(seconds) == rounds
    }
    if not whole:
        return None
    best = min(whole, key=lambda name: median(whole[name]))
    return Race(found[OURS], best, whole[best])


def beaten(found: Mapping[str, list[float]]) -> Collection[str]:
    """The rivals whose best round is far from that of the fastest rival, after a round or two."""
    fastest = {
        name: min(seconds)
        for name, seconds in found.items()
        if name != OURS and len(seconds) >= ROUNDS_TO_BE_BEATEN
    }
    limit = BEATEN * min(fastest.values(), default=0)
    return [name for name, seconds in fastest.items() if seconds > limit]
