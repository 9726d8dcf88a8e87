"""Job end: the facts to show of a job that has ended, as far as they can be seen from here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tao_sdk.backends.contract import why_lost
from tao_sdk.engine.bucket_files import files_of, in_bucket
from tao_sdk.engine.curve_file import leave_curve
from tao_sdk.model.errors import PathNotFound, TaoError, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.progress import Progress

if TYPE_CHECKING:
    from tao_sdk.client.client import Client
    from tao_sdk.client.results import Results


@dataclass(frozen=True)
class SeenResults:
    """The results that a job left; None if they cannot be seen from here now. `refusal` says why
    they must not be looked at.
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
    """False if the folder of the results is not there.

    A place that costs a question is not asked: a job that has run there is taken to have a folder.
    """
    if not job.results_dir:
        return False
    if in_bucket(job.results_dir):
        return job.started is not None
    try:
        return _is_there(client, job)
    except PathNotFound:
        return False
    except TaoError:
        return True


def _is_there(client: Client, job: Job) -> bool:
    files = files_of(client.engine, job)
    if why_lost(files, job.results_dir):
        return False
    if client.engine.backend_of(job).capabilities.files_seconds:
        return job.started is not None
    files.stat(job.results_dir)
    return True


def curve_of(job: Job, progress: Progress) -> Path | None:
    """The file with the job's curve, written now if it is not there. None if the results are
    elsewhere.
    """
    return leave_curve(job, progress)
