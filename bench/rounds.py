"""Rounds: contenders measured in turn, so that what else the machine does meets them all alike."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from bench.folder import ROOT

T = TypeVar("T")
PATIENCE_SECONDS = 120  # the most that one program may take for one measurement


class ContenderFailed(Exception):
    """A contender did not do what was to be measured, or not in time."""


def refuse(_name: str, failure: ContenderFailed) -> None:
    """Every contender of this figure is needed."""
    raise failure


def nobody(_found: Mapping[str, Sequence[object]]) -> Collection[str]:
    return ()


def interleaved(
    contenders: Mapping[str, Callable[[], T]],
    rounds: int,
    leave_out: Callable[[str, ContenderFailed], None] = refuse,
    beaten: Callable[[Mapping[str, list[T]]], Collection[str]] = nobody,
) -> dict[str, list[T]]:
    """What each gave in each round. A round that does not count comes first, and each begins with
    another contender.

    One that fails is told to `leave_out`, and is not in the result. Those that `beaten` names after
    a round run no more, and have fewer values.
    """
    found: dict[str, list[T]] = {name: [] for name in contenders}
    running = list(contenders)
    for number in (0, *range(rounds)):
        for name in rotated(running, number):
            try:
                found[name].append(contenders[name]())
            except ContenderFailed as failure:
                leave_out(name, failure)
                running.remove(name)
                del found[name]
        out = beaten(found)
        running = [name for name in running if name not in out]
    return {name: values[1:] for name, values in found.items()}


def rotated(names: Sequence[str], by: int) -> list[str]:
    start = by % len(names)
    return [*names[start:], *names[:start]]


def seconds_of(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def command_seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """From its start to its end. Raises ContenderFailed, with what it said."""
    return seconds_of(lambda: output_of(command, environment))


def output_of(
    command: Sequence[str], environment: Mapping[str, str], seconds: float = PATIENCE_SECONDS
) -> str:
    """What it printed. Raises ContenderFailed when it fails, or has not ended after `seconds`: then
    it and its children are killed.
    """
    with subprocess.Popen(
        command,
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, complaint = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise ContenderFailed(f"it had not ended after {seconds:.0f} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise ContenderFailed(f"it ended with {process.returncode}: {complaint.strip()[-1000:]}")
    return printed
