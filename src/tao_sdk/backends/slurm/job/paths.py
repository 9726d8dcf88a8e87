"""Paths: where on the cluster a job's files lie, and the name by which SLURM knows an attempt.
Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from tao_sdk.model.plan import Attempt


@dataclass(frozen=True)
class JobHome:
    """Where to look for a job: below which folders, and whether sacct can be asked."""

    base: str
    results_root: str = ""
    accounting: bool = False

    def attempt_paths(self, attempt: Attempt) -> Paths:
        return Paths(self.base, attempt.job_id, attempt.number)


class Paths:
    """Where an attempt's files lie on the cluster."""

    def __init__(self, base: str, job_id: str, number: int) -> None:
        self.base = base
        self.job = f"{base}/jobs/{job_id}"
        self.attempt = f"{self.job}/attempts/{number}"
        self.grace_file = f"{self.attempt}/grace"  # written by a cancel
        self.killed_file = f"{self.attempt}/killed"  # written by one whose grace was over
        self.logs = f"{self.job}/slurm-logs/attempt-{number}"
        self.script = f"{self.job}/sbatch/job_{job_id}.sbatch"


def job_name(attempt: Attempt) -> str:
    """The name of an attempt's SLURM job, by which it can be found without its id."""
    return f"{attempt.job_id}.{attempt.number}"


def sbatch_command(at: Paths, attempt: Attempt) -> list[str]:
    """The call of sbatch that hands an attempt's batch script over."""
    return [
        "sbatch",
        "--parsable",
        "--export=ALL",
        f"--job-name={job_name(attempt)}",
        f"--comment=tao:{attempt.store_id}",
        f"--output={at.logs}/slurm.out",
        f"--error={at.logs}/slurm.err",
        "--open-mode=append",
        at.script,
    ]
