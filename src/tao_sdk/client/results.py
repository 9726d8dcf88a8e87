"""Results: where a job's outputs are, what is there, which checkpoint is the best and which the newest, and a copy here."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tao_sdk.backends.contract import Files, FileStat, MiB
from tao_sdk.backends.outcome import read_manifest
from tao_sdk.engine.bucket_files import files_of, in_bucket
from tao_sdk.engine.engine import Engine
from tao_sdk.model import checkpoints
from tao_sdk.model.errors import PathNotFound, SpecError, TaoError, UsageError
from tao_sdk.model.job import Job
from tao_sdk.model.progress import Progress
from tao_sdk.model.spec import stored_spec
from tao_sdk.payload import schemes
from tao_sdk.payload.declared import named_outputs
from tao_sdk.runner.entry import apart, cut
from tao_sdk.runner.local import path_of
from tao_sdk.runner.tree import growing

FETCHERS = 8  # files of a bucket that are copied at once
PIECE = 8 * MiB  # of a file that is read at once
TRIES = 3  # at a file that changes while it is copied
CLOCK_SECONDS = 1e-3  # a time that was written down is read again as exactly as this


class NotWritten(TaoError):
    """The copies cannot be written where they were wanted. What was copied before is whole, and stays."""

    code = "results.not_written"


@dataclass(frozen=True)
class Results:
    """What a job left behind. `best` and `newest` are paths of checkpoints as the backend sees them, or None.

    `elsewhere` are the addresses and absolute paths that the spec names for outputs: nothing below them is in `files`.
    """

    dir: str
    files: tuple[FileStat, ...]
    best: str | None
    newest: str | None
    progress: Progress
    manifest: Mapping[str, Any] | None
    elsewhere: tuple[str, ...] = ()

    @property
    def checkpoints(self) -> list[checkpoints.Checkpoint]:
        """All of them, the least trained first; one that was still being written, for all that is known, is not complete."""
        files = [(stat.path, stat.size, stat.mtime) for stat in self.files]
        return checkpoints.checkpoints(files, self.dir, self.manifest)


def results(engine: Engine, job: Job) -> Results:
    """What is below the results directory; empty where the job has written nothing yet."""
    files = files_of(engine, job)
    found = left_behind(files, job.results_dir)
    progress = Progress.from_json(job.progress)
    manifest = read_manifest(files, job.results_dir)
    chosen = checkpoints.choose(
        [(stat.path, stat.size, stat.mtime) for stat in found], job.results_dir, manifest, progress
    )
    return Results(job.results_dir, tuple(found), chosen.best, chosen.newest, progress, manifest, named_elsewhere(job))


def named_elsewhere(job: Job) -> tuple[str, ...]:
    """Where the spec says that outputs go, other than below the results; nothing of a job that another SDK stored."""
    try:
        named = named_outputs(stored_spec(job.spec))
    except SpecError:
        return ()
    return tuple(each for each in named if not each.startswith(job.results_dir.rstrip("/") + "/"))


def left_behind(files: Files, results_dir: str) -> list[FileStat]:
    """All files of the results; none where the job has written nothing yet."""
    try:
        return list(walk(files, results_dir))
    except PathNotFound:
        return []


def walk(files: Files, path: str, real: str = "", above: frozenset[str] = frozenset()) -> Iterator[FileStat]:
    """Every file below `path`, folder by folder, sorted. What vanishes meanwhile is left out.

    `real` is the folder that the path leads to; a link to one of those `above` would go round in a circle.
    """
    real = real or path
    for stat in sorted(files.list(path), key=lambda stat: stat.path):
        if not stat.is_dir:
            yield stat
            continue
        there = stat.leads_to or f"{real}/{stat.path.rpartition('/')[2]}"
        if there not in above | {real}:
            with suppress(PathNotFound):
                yield from walk(files, stat.path, there, above | {real})


def unheard(*_: object) -> None:
    """For a caller who does not ask to be told."""


def fetch(
    engine: Engine,
    job: Job,
    into: Path,
    on_file: Callable[[str, int], None] | None,
    on_skip: Callable[[str, str], None] | None,
) -> list[Path]:
    """Copy the results below `into`, each under a temporary name until it is whole. A whole copy is not copied again.

    What is no file (any more) costs only itself: `on_skip` is called with its name, and why.
    """
    files = files_of(engine, job)
    found = left_behind(files, job.results_dir)
    told, skipped = on_file or unheard, on_skip or unheard

    def copied(stat: FileStat) -> Path | PathNotFound:
        target = into / relative(stat.path, job.results_dir)
        try:
            if not _is_whole(target, stat):
                with writing(into):
                    _copy(files, stat, target)
        except PathNotFound as gone:
            return gone
        return target

    with ThreadPoolExecutor(FETCHERS if in_bucket(job.results_dir) else 1) as pool:
        paths: list[Path] = []
        for stat, copy in zip(found, pool.map(copied, found), strict=True):
            name = relative(stat.path, job.results_dir)
            if isinstance(copy, PathNotFound):
                skipped(name, copy.what)
                continue
            paths.append(copy)
            told(name, stat.size)
    return paths


def relative(path: str, folder: str) -> str:
    """The path below the results. Raises TaoError for one that is not."""
    below = os.path.relpath(path, folder)
    if below.split("/")[0] == "..":
        raise TaoError(f"{path} lies outside the results.", "", "")
    return below


def _is_whole(target: Path, stat: FileStat) -> bool:
    try:
        there = target.stat()
    except OSError:
        return False
    return there.st_size == stat.size and _same_time(there.st_mtime, stat.mtime)


@contextmanager
def writing(into: Path) -> Generator[None]:
    """Raises NotWritten where the folder `into` takes nothing more."""
    try:
        yield
    except PathNotFound:
        raise
    except OSError as error:
        why = f"{error.filename or into}: {error.strerror}."
        raise NotWritten(f"The results could not be copied into {into}.", why, "Mend that, and fetch again.") from error


def _copy(files: Files, stat: FileStat, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{apart(target.name, cut(target.name))}.{os.getpid()}.part")
    try:
        stat = _written(files, stat, partial)
        os.utime(partial, (stat.mtime, stat.mtime))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _written(files: Files, stat: FileStat, partial: Path) -> FileStat:
    """Write one version of it, and say which; of what only grows, as far as it was. A live job replaces its files."""
    for _ in range(TRIES):
        with partial.open("wb") as out:
            while data := files.read(stat.path, out.tell(), PIECE):
                out.write(data)
            at_once = out.tell() == stat.size <= PIECE
        was, stat = stat, stat if at_once else files.stat(stat.path)
        if growing(stat.path) or (was.size == stat.size and _same_time(was.mtime, stat.mtime)):
            return stat
    raise PathNotFound(f"{stat.path} changes while it is copied.", "", "Fetch again.")


def _same_time(one: float, other: float) -> bool:
    """As exact as both are: some disks and answers know whole seconds only."""
    whole = one == int(one) or other == int(other)
    return int(one) == int(other) if whole else abs(one - other) < CLOCK_SECONDS


def backend_path(uri: str) -> str:
    """The path of a file://, lustre:// or slurm:// address; a plain path and s3:// as they are. Raises UsageError for others."""
    if not uri or "\0" in uri:
        raise UsageError(f"{uri!r} is no path.", "", "Name a file or a folder; . is the current one.")
    scheme, separator, _ = uri.partition("://")
    if not separator:
        return uri
    try:
        schemes.check(uri, "The path")
    except SpecError as error:
        raise UsageError(error.what, error.why, error.next) from error
    if in_bucket(uri):
        return uri
    if schemes.is_here(uri):
        return "/" + path_of(uri).lstrip("/")
    raise UsageError(f"{scheme}:// cannot be looked at yet.", "", "Give a path, s3://, file:// or lustre://.")
