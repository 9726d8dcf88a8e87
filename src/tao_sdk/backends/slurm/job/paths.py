"""Paths of a job's files on the cluster, and the name of an attempt's SLURM job. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tao_sdk.model.plan import Attempt


@dataclass(frozen=True)
class JobHome:
    """The folders in which to look for a job, and whether the cluster has sacct."""

    base: str
    results_root: str = ""
    accounting: bool = False

    def attempt_paths(self, attempt: Attempt) -> Paths:
        return Paths(self.base, attempt.job_id, attempt.number)


class Paths:
    """The paths of an attempt's files on the cluster."""

    def __init__(self, base: str, job_id: str, number: int) -> None:
        self.base = base
        self.job = f"{base}/jobs/{job_id}"
        self.attempt = f"{self.job}/attempts/{number}"
        self.grace_file = f"{self.attempt}/grace"  # written by a cancel
        self.killed_file = f"{self.attempt}/killed"  # written by a cancel after its grace
        # a link that a submit makes, to the log of the image's conversion
        self.conversion_log = f"{self.attempt}/image.log"
        self.logs = f"{self.job}/slurm-logs/attempt-{number}"
        self.script = f"{self.job}/sbatch/job_{job_id}.sbatch"


def job_name(attempt: Attempt) -> str:
    """The name of an attempt's SLURM job. It serves to find the job without its id."""
    return f"{attempt.job_id}.{attempt.number}"


def sbatch_command(at: Paths, attempt: Attempt) -> list[str]:
    """The sbatch command that submits an attempt's batch script."""
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
