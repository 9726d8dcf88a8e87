"""Artifacts: metrics that a training writes into its results and not into its log.

Here: which files are read, and what they say. Not here: the log (tao_sdk/model/progress_reader.py),
and what a metric means for a trial (job_report.py).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from tao_automl.trial import is_finite
from tao_sdk.model.errors import PathNotFound
from tao_sdk.model.progress_reader import ProgressReader

if TYPE_CHECKING:
    from tao_sdk.backends.contract import Files, FileStat
    from tao_sdk.client import Client
    from tao_sdk.model.job import Job
    from tao_sdk.model.progress import Progress

STATUS = "status.json"  # a line of JSON for each epoch
SCORES = ("metrics.json", "best_score.json")  # one mapping each
LARGEST = 4 * 1024 * 1024  # bytes that are read at once; of a file of scores, at all


def status_progress(client: Client, job: Job) -> Progress | None:
    """What the status.json of a job's results says, whatever its log says. None where there is
    none. Raises Unreachable.
    """
    for files, stat in files_named(client, job, STATUS):
        reader, offset = ProgressReader(), 0
        while offset < stat.size and (data := files.read(stat.path, offset, LARGEST)):
            reader.feed(data)
            offset += len(data)
        return reader.progress
    return None


def scores_of(client: Client, job: Job) -> dict[str, float]:
    """The numbers of metrics.json and best/best_score.json among a job's results, by their names.
    Of one name the newest file counts, and in it the outermost. Raises Unreachable.
    """
    found: dict[str, float] = {}
    for name in SCORES:
        for files, stat in files_named(client, job, name):
            for metric, value in numbers_in(files.read(stat.path, 0, LARGEST)):
                found.setdefault(metric, value)
    return found


def files_named(client: Client, job: Job, name: str) -> Iterator[tuple[Files, FileStat]]:
    """The files of that name among a job's results, the newest first, with what reads them."""
    from tao_sdk.engine.bucket_files import files_of

    try:
        files = files_of(client.engine, job)
        stats = [stat for stat in client.results(job.id).files if basename(stat.path) == name]
        for stat in sorted(stats, key=lambda stat: stat.mtime, reverse=True):
            yield files, stat
    except PathNotFound:
        return


def basename(path: str) -> str:
    return path.rpartition("/")[2]


def numbers_in(data: bytes) -> Iterator[tuple[str, float]]:
    """The finite numbers of a JSON mapping, and of the mappings in it, by their own names: those
    of the outermost mapping first.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return
    pending: deque[Any] = deque([content])
    while pending:
        node = pending.popleft()
        if not isinstance(node, Mapping):
            continue
        for name, value in cast("Mapping[str, Any]", node).items():
            if is_finite(value):
                yield name, float(value)
            else:
                pending.append(value)
