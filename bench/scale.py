"""Scale: how much of everything a run measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    rounds: int  # of what takes tens of milliseconds and more
    log_megabytes: int
    progress_lines: int  # of each kind of log
    jobs: int
    looks: int  # how often a listing is made in one round
    events: int  # recorded in one round
    s3_rounds: int
    s3_megabytes: int  # of the large object
    s3_files: int  # of 256 KiB
    s3_memory_megabytes: int
    many_jobs: int  # that are submitted and canceled
    watched_jobs: int
    automl_seeds: int
    automl_trials: int
    automl_epochs: int  # in all, of a search with rungs
    automl_many: int  # trials after which a suggestion is timed
    watched_seconds: float  # longer than 30, after which a look that found nothing is written down


FULL = Scale(
    rounds=15,
    log_megabytes=150,
    progress_lines=100_000,
    jobs=10_000,
    looks=200,
    events=5_000,
    s3_rounds=5,
    s3_megabytes=512,
    s3_files=1_000,
    s3_memory_megabytes=5_120,
    many_jobs=200,
    watched_jobs=1_000,
    automl_seeds=10,
    automl_trials=30,
    automl_epochs=540,
    automl_many=1_000,
    watched_seconds=65.0,
)
QUICK = Scale(
    rounds=1,
    log_megabytes=2,
    progress_lines=5_000,
    jobs=200,
    looks=20,
    events=200,
    s3_rounds=2,
    s3_megabytes=64,
    s3_files=100,
    s3_memory_megabytes=512,
    many_jobs=4,
    watched_jobs=4,
    automl_seeds=1,
    automl_trials=6,
    automl_epochs=60,
    automl_many=60,
    watched_seconds=1.0,
)
