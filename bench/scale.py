"""Scale: how much of everything a run measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    rounds: int  # of what takes tens of milliseconds and more
    log_megabytes: int
    jobs: int
    looks: int  # how often a listing is made in one round
    events: int  # recorded in one round


FULL = Scale(rounds=15, log_megabytes=150, jobs=10_000, looks=200, events=5_000)
QUICK = Scale(rounds=2, log_megabytes=2, jobs=200, looks=20, events=200)
