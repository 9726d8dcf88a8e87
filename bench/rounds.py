"""Rounds: contenders measured in turn, so that what else the machine does meets them all alike."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def interleaved(contenders: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """What each gave in each round. A round that does not count comes first, and each begins with
    another contender.
    """
    found: dict[str, list[T]] = {name: [] for name in contenders}
    for measure in contenders.values():
        measure()
    for number in range(rounds):
        for name in rotated(list(contenders), number):
            found[name].append(contenders[name]())
    return found


def rotated(names: Sequence[str], by: int) -> list[str]:
    start = by % len(names)
    return [*names[start:], *names[:start]]


def seconds_of(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def command_seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """From its start to its end. Raises CalledProcessError, with what it said, when it fails."""
    return seconds_of(
        lambda: subprocess.run(command, env=environment, capture_output=True, check=True)
    )
