"""Job end: what can be shown of a job that has ended, as far as it can be seen from here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tao_sdk.engine.bucket_files import files_of, in_bucket
from tao_sdk.engine.curve_file import leave_curve
from tao_sdk.model.errors import PathNotFound, TaoError, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.progress import Progress
from tao_sdk.model.reasons import Reason
from tao_sdk.model.status import Status

if TYPE_CHECKING:
    from tao_sdk.client.client import Client
    from tao_sdk.client.results import Results

_INTO_TEE = re.compile(r"\|&?\s*tee\b")


@dataclass(frozen=True)
class SeenResults:
    """What the job left: None where it cannot be seen from here now. `refusal` says why it is not
    to be looked at.
    """

    results: Results | None = None
    refusal: str = ""


def results_of(client: Client, job: Job) -> SeenResults:
    try:
        return SeenResults(client.results(job.id))
    except Unreachable:
        return SeenResults()
    except PathNotFound as error:
        return SeenResults(refusal=str(error))


def has_results_folder(client: Client, job: Job) -> bool:
    """False where the folder of the results is not there.

    A place that costs a question is not asked: there, a job that has run is taken to have one.
    """
    if not job.results_dir:
        return False
    if in_bucket(job.results_dir):
        return job.started is not None
    try:
        if client.engine.backend_of(job).capabilities.files_seconds:
            return job.started is not None
        files_of(client.engine, job).stat(job.results_dir)
    except PathNotFound:
        return False
    except TaoError:
        return True
    return True


def pipe_words(job: Job) -> str:
    """What the signal did to a command that pipes into tee; "" for any other job.

    tee ends at once, and the program fails at the next line that it prints.
    """
    command = str(job.spec.get("command", ""))
    told_to_end = job.status is Status.CANCELED or job.reason_code is Reason.TIME_LIMIT
    if not told_to_end or "trap" in command or not _INTO_TEE.search(command):
        return ""
    return (
        "The signal ended tee too, so the program may have failed before it saved. The job's log "
        "has all output without tee. To keep tee: "
        "trap : TERM; PROGRAM | (trap '' TERM; exec tee FILE)"
    )


def curve_of(job: Job, progress: Progress) -> Path | None:
    """The file with the job's curve, written now unless it is there. None where the results are
    elsewhere.
    """
    return leave_curve(job, progress)
