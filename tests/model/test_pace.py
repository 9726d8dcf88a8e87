"""The time left, told at each line of a log whose lines have their times, beside the time that
really was left then.

The logs (recorded/pace) are of programs that name their epochs in different ways. A line is
`SECONDS TEXT`.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import pytest

from tao_sdk.model.pace import LivePace, Pace
from tao_sdk.model.progress_reader import ProgressReader

RECORDED = Path(__file__).parents[1] / "recorded" / "pace"
LOGS = sorted(path.name for path in RECORDED.glob("*.txt"))
GROWING = "short-first-epochs.txt"  # nobody can know that its epochs become longer
LEAST_SHARE = 0.8  # of what came, that may be told


class Told(NamedTuple):
    at: float
    left: float | None  # as told
    came: float  # until the last epoch ended


def recorded_lines(name: str) -> list[tuple[float, bytes]]:
    rows = (line.partition(" ") for line in (RECORDED / name).read_text().splitlines())
    return [(float(at), text.encode() + b"\n") for at, _, text in rows]


def followed(name: str, after: float = 0.0) -> list[Told]:
    """What was told at each line by who followed the log from `after` seconds on."""
    reader, lines = ProgressReader(), recorded_lines(name)
    end = lines[-1][0]
    reader.feed(b"".join(text for at, text in lines if at < after))
    told: list[Told] = []
    for at, pieces in groupby(lines, key=itemgetter(0)):
        if at >= after:
            reader.feed(b"".join(text for _, text in pieces), at)
            told.append(Told(at, reader.progress.eta_seconds, end - at))
    return told


def looked_at(name: str, every: float) -> list[Told]:
    """What was told by looks `every` so many seconds, of a job that began at 0."""
    reader, pace, lines = ProgressReader(), Pace(), recorded_lines(name)
    end, now, look_before = lines[-1][0], 0.0, None
    told: list[Told] = []
    while now < end:
        previous, now = now, now + every
        reader.feed_epochs(b"".join(text for at, text in lines if previous < at <= now))
        pace = pace.add_look(reader.progress.epoch, now, look_before, reader.is_running)
        look_before = now
        told.append(Told(now, pace.seconds_left(reader.progress.epochs, 0.0, now), end - now))
    return told


def too_low(told: list[Told]) -> list[Told]:
    return [one for one in told if one.left is not None and one.left < LEAST_SHARE * one.came - 1]


@pytest.mark.parametrize("name", [name for name in LOGS if name != GROWING])
def test_the_time_left_is_never_far_too_low(name: str) -> None:
    assert too_low(followed(name)) == []


@pytest.mark.parametrize("name", [name for name in LOGS if name != GROWING])
@pytest.mark.parametrize("after", [10.0, 17.3, 30.0, 40.9])
def test_who_attaches_to_a_running_job_is_not_told_far_too_little(name: str, after: float) -> None:
    assert too_low(followed(name, after)) == []


@pytest.mark.parametrize("name", [name for name in LOGS if name != GROWING])
@pytest.mark.parametrize("every", [1.0, 5.0, 11.0])
def test_looks_far_apart_do_not_tell_far_too_little(name: str, every: float) -> None:
    assert too_low(looked_at(name, every)) == []


@pytest.mark.parametrize("name", LOGS)
def test_the_time_left_is_known_before_half_the_job_is_over_and_near_what_comes(name: str) -> None:
    told = followed(name)
    end = told[-1].at
    later = [one for one in told if end / 2 < one.at < 0.9 * end]
    assert all(one.left is not None and one.left <= 1.6 * one.came + 2 for one in later)


def test_epochs_that_become_longer_are_followed_soon() -> None:
    told = followed(GROWING)
    assert too_low([one for one in told if one.at > told[-1].at / 2]) == []


def test_an_epoch_that_is_late_takes_nothing_from_those_after_it() -> None:
    pace = LivePace(None)
    pace.estimate_left(1, 9, None, 0.0)
    told = pace.estimate_left(2, 8, None, 10.0)
    assert told == 80.0
    assert pace.estimate_left(2, 8, told, 15.0) == 75.0
    assert pace.estimate_left(2, 8, 75.0, 60.0) == 70.0


def test_two_looks_shortly_after_one_another_do_not_measure_an_epoch() -> None:
    """The first look comes at the end of the fifth epoch of ten minutes, the next in the sixth."""
    pace = Pace().add_look(5, 3599.0).add_look(6, 3601.0, look_before=3599.0)
    assert pace.seconds_left(10, 600.0, 3601.0) == pytest.approx(4 * 500, abs=10)
