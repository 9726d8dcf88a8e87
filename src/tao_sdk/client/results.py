"""Results: the place of a job's outputs, its files, the best and the newest checkpoint, and a copy
here.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any, cast

from tao_sdk.backends.below import Below, LeadsOut, Spot
from tao_sdk.backends.by_name import platform_of_scheme
from tao_sdk.backends.contract import Files, FileStat, MiB, next_data, why_lost
from tao_sdk.backends.outcome import read_manifest
from tao_sdk.backends.this_machine import room_left
from tao_sdk.engine import diagnose
from tao_sdk.engine.bucket_files import files_of, in_bucket, sweep
from tao_sdk.engine.curve_file import CURVE, LEAST_EPOCHS, write_curve
from tao_sdk.engine.engine import Engine
from tao_sdk.model import checkpoints
from tao_sdk.model.curve_svg import curve_svg
from tao_sdk.model.errors import PathNotFound, SpecError, TaoError, Unreachable, UsageError
from tao_sdk.model.job import Job
from tao_sdk.model.prepared_job import lies_in
from tao_sdk.model.progress import Progress
from tao_sdk.model.spec import stored_spec
from tao_sdk.model.status import Status
from tao_sdk.model.units import format_size
from tao_sdk.net.address import path_of
from tao_sdk.net.file_names import apart, cut
from tao_sdk.payload import schemes
from tao_sdk.payload.declared import read_data, resume_key_of
from tao_sdk.runner.outputs.tree import is_growing

FETCHERS = 8  # files of a bucket that are copied at once
PIECE = 8 * MiB  # bytes of a file read at once
HOLE = 256 * 1024  # zeros in a row that are left out of a copy
ZEROS = bytes(HOLE)
PART = re.compile(r"(\..*\.)([0-9]+)\.part", re.DOTALL)  # the start by `part_of`, a process id
MORE_ROOM = "Free space there, fetch into a larger disk, or copy less:"
TRIES = 3  # at a file that changes while it is copied
NAMED = 12  # checkpoints that an error names
NAMES_SEARCHED = 1000  # files among which a wrong pattern is looked for
NAMES_SHOWN = 3  # names in an error
DEEPEST = 100  # folders in one another
FULL = (errno.ENOSPC, errno.EDQUOT)
UNNAMEABLE = (
    errno.ENAMETOOLONG,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.EILSEQ,
    errno.EINVAL,
)
UNPACKING = 5.0  # seconds from a job's start in which its files are written
CLOCK_SECONDS = 1e-3  # a time that was written down is read again as exactly as this


class NotWritten(TaoError):
    """The copies cannot be written to their folder. Files that were copied before are whole, and
    stay.
    """

    code = "results.not_written"


@dataclass(frozen=True)
class Results:
    """The results of a job. `best` and `newest` are paths of checkpoints as the backend sees them,
    or None.

    `elsewhere` are the addresses and absolute paths that the spec names for outputs: nothing below
    them is in `files`.
    """

    dir: str
    files: tuple[FileStat, ...]
    best: str | None
    newest: str | None
    progress: Progress
    manifest: Mapping[str, Any] | None
    elsewhere: tuple[str, ...] = ()
    settled: float = (
        0.0  # without a manifest, what was written before is whole: seconds since the epoch
    )
    lost: str = ""  # the job's report of results that it could not keep
    inputs: tuple[str, ...] = ()  # paths below `dir` under which inputs of the job lie
    unreadable: tuple[str, ...] = ()  # folders below `dir` that could not be looked into
    not_kept: str = ""  # why nothing in `dir` outlives the job, and what would keep it

    @property
    def unsent(self) -> list[str]:
        """Names of files that the job had not sent when it was over; at most 100 of them."""
        names: Any = (self.manifest or {}).get("unsent")
        return (
            [str(name) for name in cast(list[Any], names)[:100]] if isinstance(names, list) else []
        )

    @property
    def checkpoints(self) -> list[checkpoints.Checkpoint]:
        """All checkpoints, the least trained first. A checkpoint that may still have been in
        writing is not complete.
        """
        files = written_files(self.files, self.inputs, self.dir)
        found = checkpoints.list_checkpoints(files, self.dir, self.manifest, self.settled)
        return checkpoints.with_epochs(found, self.progress)

    @property
    def can_be_fetched(self) -> bool:
        """True if there is a file to copy, or a curve to write beside the copies."""
        return bool(self.files) or len(self.progress.history) >= LEAST_EPOCHS

    def of_epoch(self, epoch: int) -> checkpoints.Checkpoint:
        """The checkpoint of an epoch, counted from 1. Raises PathNotFound, which lists the
        checkpoints.
        """
        return self._checkpoint(epoch, epoch)

    def of_shown_epoch(self, number: int) -> checkpoints.Checkpoint:
        """The checkpoint of an epoch by the number that the job's log gives it. If the log names no
        epoch, by the number in the checkpoint's name. Raises PathNotFound.
        """
        names_from_zero = checkpoints.counts_from_zero(self.checkpoints, self.progress)
        from_zero = self.progress.counts_from_zero if self.progress.epoch else names_from_zero
        return self._checkpoint(number + 1 if from_zero else number, number)

    def shown_epoch(self, checkpoint: checkpoints.Checkpoint) -> int | None:
        """The number that `of_shown_epoch` takes for a checkpoint; None if no epoch is known."""
        if checkpoint.epoch is None:
            return None
        if not self.progress.epoch:
            return checkpoint.epoch
        names_from_zero = checkpoints.counts_from_zero(self.checkpoints, self.progress)
        return self.progress.shown_epoch(checkpoint.epoch + names_from_zero)

    def _checkpoint(self, epoch: int, shown: int) -> checkpoints.Checkpoint:
        known_checkpoints = self.checkpoints
        checkpoint = checkpoints.of_epoch(known_checkpoints, epoch, self.progress)
        if checkpoint is None:
            names = [relative(each.path, self.dir) for each in known_checkpoints]
            raise no_checkpoint(shown, names)
        return checkpoint


def no_checkpoint(epoch: int, names: Sequence[str]) -> PathNotFound:
    """The error for an epoch without a checkpoint. `names` are the names of all checkpoints."""
    what, command = f"There is no checkpoint of epoch {epoch}.", "tao results JOB"
    if not names:
        return PathNotFound(what, "The job has no checkpoints.", "What it left:", command)
    there = "There are" if len(names) <= NAMED else f"There are {len(names)}, the last of them"
    return PathNotFound(what, f"{there}: {', '.join(names[-NAMED:])}.", "All of them:", command)


def results(engine: Engine, job: Job) -> Results:
    """Read what is below the results directory; empty if the job has written nothing yet."""
    files = files_of(engine, job)
    unreadable: list[str] = []
    result_files = without_inputs(job, left_behind(files, job.results_dir, unreadable.append))
    progress = job.progress
    manifest = read_manifest(files, job.results_dir)
    end = diagnose.log_end(engine, job) if is_cut(job, manifest) else diagnose.LogEnd()
    settled = settled_at(job, bool(diagnose.failure_while_ending(job, end)))
    inputs = (*input_places(job), *unchanged_files(job, result_files))
    choice = checkpoints.choose_checkpoints(
        written_files(result_files, inputs, job.results_dir),
        job.results_dir,
        manifest,
        progress,
        settled,
    )
    sweep(engine, job)
    return Results(
        job.results_dir, tuple(result_files), choice.best, choice.newest, progress, manifest,
        named_elsewhere(job), settled,
        diagnose.lost_results(engine, job, end), inputs, tuple(unreadable),
        why_lost(files, job.results_dir),
    )  # fmt: skip


def settled_at(job: Job, failed: bool) -> float:
    """The time before which a file must be written to count as whole, without a manifest; 0 while
    the job may still write. `failed`: the job failed while it was ending, whatever its exit code.
    """
    if not job.status.terminal or job.ended is None:
        return 0.0
    exit_code = checkpoints.FAILED if failed else job.exit_code
    asked = diagnose.was_told_to_end(job)
    return checkpoints.settled_at(job.ended.timestamp(), exit_code, asked)


def is_cut(job: Job, manifest: Mapping[str, Any] | None) -> bool:
    """True if the job was over before it had accounted for all its results."""
    return (
        job.status in (Status.CANCELED, Status.ERROR) and (manifest or {}).get("whole") is not True
    )


def written_files(
    files: Sequence[FileStat], inputs: Sequence[str], root: str
) -> list[tuple[str, int, float]]:
    """The (path, size, mtime) of each file that is no input of the job, each once."""
    return [
        (stat.path, stat.size, stat.mtime)
        for stat in without_originals(files, root)
        if not any(lies_in(stat.path, place) for place in inputs)
    ]


def without_originals(files: Sequence[FileStat], root: str) -> Iterator[FileStat]:
    """The files, except files in the work folder that were copied to the results as outputs."""
    sizes = {stat.path: stat.size for stat in files}
    work = f"{work_folder(root)}/"
    for stat in files:
        copy = f"{root.rstrip('/')}/{stat.path.removeprefix(work)}"
        if not stat.path.startswith(work) or sizes.get(copy) != stat.size:
            yield stat


def work_folder(root: str) -> str:
    """The folder below its results in which a job with files starts."""
    return f"{root.rstrip('/')}/work"


def input_places(job: Job) -> tuple[str, ...]:
    """Paths below the results under which inputs lie: a job with files starts in `work`."""
    try:
        data = read_data(stored_spec(job.spec))
    except SpecError:
        return ()
    work = work_folder(job.results_dir)
    places = [posixpath.join(work, each.target) for each in data.inputs if each.target]
    return tuple(place for place in places if lies_in(place, job.results_dir))


def without_inputs(job: Job, files: Sequence[FileStat]) -> list[FileStat]:
    """The files, without inputs that the job did not change, also if it keeps them as outputs. Such
    a file has the name of an input and is older than the job.

    An input that has the time of its download is not known to be unchanged, and stays.
    """
    names = input_file_names(job)
    if not names or job.started is None:
        return list(files)
    began = job.started.timestamp()

    def is_unchanged_input(stat: FileStat) -> bool:
        below_results = relative(stat.path, job.results_dir).split("/")
        return 0 < stat.mtime < began and not names.isdisjoint(below_results)

    return [stat for stat in files if not is_unchanged_input(stat)]


def input_file_names(job: Job) -> set[str]:
    """The last names of the input paths in the job."""
    try:
        data = read_data(stored_spec(job.spec))
    except SpecError:
        return set()
    return {posixpath.basename(each.target.rstrip("/")) for each in data.inputs if each.target}


def unchanged_files(job: Job, files: Iterable[FileStat]) -> Iterator[str]:
    """Paths of the files that travelled with the job and that it has not written since."""
    carried = {posixpath.join(work_folder(job.results_dir), name) for name in names_carried(job)}
    began = job.newest_start or job.started
    for stat in files:
        if stat.path in carried and (not began or stat.mtime < began.timestamp() + UNPACKING):
            yield stat.path


def names_carried(job: Job) -> list[str]:
    """The paths in the job of the files that travelled with it."""
    names: Any = job.spec.get("files") or ()
    return [str(name) for name in cast(Iterable[Any], names)]


def input_names(job: Job) -> list[str]:
    """The keys of all inputs that do not travel with the job."""
    try:
        spec = stored_spec(job.spec)
        return [each.key for each in read_data(spec).inputs if each.path not in spec.files]
    except SpecError:
        return []


def begins_anew(job: Job) -> bool:
    """True if a further attempt gets no checkpoint. False also if its stored spec is unclear."""
    try:
        return not resume_key_of(stored_spec(job.spec))
    except SpecError:
        return False


def named_elsewhere(job: Job) -> tuple[str, ...]:
    """The output places in the spec that are not below the results. Empty for a job that another
    SDK stored.
    """
    try:
        named = read_data(stored_spec(job.spec)).outputs
    except SpecError:
        return ()
    return tuple(each for each in named if not each.startswith(job.results_dir.rstrip("/") + "/"))


def left_behind(
    files: Files, results_dir: str, on_unreadable: Callable[[str], None]
) -> list[FileStat]:
    """All files of the results; none if the job has written nothing yet. Raises LeadsOut for
    results that are a link.
    """
    try:
        return list(walk(files, results_dir, on_unreadable))
    except LeadsOut:
        raise
    except PathNotFound:
        return []


def walk(files: Files, path: str, on_unreadable: Callable[[str], None]) -> Iterator[FileStat]:
    """Yield every file below `path`, folder by folder, sorted. A file that vanishes meanwhile is
    left out. A folder that may not be read is reported, and left out.

    A link to a folder above itself would go round in a circle, and is not entered. Nor are folders
    deeper than DEEPEST.
    """
    ahead = _Folder(path, path).entries(files)
    while ahead:
        stat, folder = ahead.pop()
        if not stat.is_dir:
            yield stat
        elif below := folder.entered(stat):
            try:
                ahead += below.entries(files)
            except PathNotFound:
                continue
            except Unreachable as error:
                refuse_unless_forbidden(error)
                on_unreadable(stat.path)


def refuse_unless_forbidden(error: Unreachable) -> None:
    """Raise the error again, unless it says that this user may not look there."""
    if not isinstance(error.__cause__, PermissionError):
        raise error


@dataclass(frozen=True)
class _Folder:
    """A folder of a walk. `real` is the folder that `path` leads to, `above` are the folders on the
    way to it.
    """

    path: str
    real: str
    above: frozenset[str] = frozenset()

    def entered(self, stat: FileStat) -> _Folder | None:
        real = stat.leads_to or f"{self.real}/{stat.path.rpartition('/')[2]}"
        above = self.above | {self.real}
        return None if real in above or len(above) > DEEPEST else _Folder(stat.path, real, above)

    def entries(self, files: Files) -> list[tuple[FileStat, _Folder]]:
        """The entries of the folder, sorted by name, the last first."""
        inside = sorted(files.list(self.path), key=lambda stat: stat.path, reverse=True)
        return [(stat, self) for stat in inside]


def unheard(*_: object) -> None:
    """Do nothing: the callback of a caller that gives none."""


def fetch(
    engine: Engine,
    job: Job,
    into: Path,
    on_file: Callable[[str, int], None] | None,
    on_skip: Callable[[str, str], None] | None,
    only: Sequence[str] = (),
) -> list[Path]:
    """Copy the results below `into`, each under a temporary name until it is whole. A whole copy is
    not copied again.

    With `only`, copy the files that fit any of the patterns. Raises PathNotFound if none does.

    A path that is no file (any more), or can be none here, is skipped alone: `on_skip` is called
    with its name, and why.
    """
    files = files_of(engine, job)
    tell_copied, tell_skipped = on_file or unheard, on_skip or unheard

    def skip_folder(path: str) -> None:
        tell_skipped(relative(path, job.results_dir), "The folder cannot be looked into.")

    all_files = without_inputs(job, left_behind(files, job.results_dir, skip_folder))
    wanted_files = chosen(all_files, job, only)
    with writing(into):
        into.mkdir(parents=True, exist_ok=True)
    names = {relative(stat.path, job.results_dir): stat for stat in wanted_files}
    remove_remains(into, names)
    refuse_too_large(into, names, job.id)
    folders = {
        above
        for stat in wanted_files
        for above in folders_above(relative(stat.path, job.results_dir))
    }

    def copied(stat: FileStat) -> PathNotFound | None:
        name = relative(stat.path, job.results_dir)
        try:
            refuse_unnameable(name, folders)
            with writing(into, name, stat.size, job.id):
                _renew(files, stat, Below(str(into), follow=True), name)
        except PathNotFound as gone:
            return gone
        except Unreachable as error:
            refuse_unless_forbidden(error)
            return PathNotFound(error.what)
        return None

    with ThreadPoolExecutor(FETCHERS if in_bucket(job.results_dir) else 1) as pool:
        paths: list[Path] = []
        for stat, failure in zip(wanted_files, pool.map(copied, wanted_files), strict=True):
            name = relative(stat.path, job.results_dir)
            if failure:
                tell_skipped(name, failure.what)
                continue
            paths.append(into / name)
            tell_copied(name, stat.size)
    return paths


def add_curve(into: Path, copied: Sequence[Path], progress: Progress) -> None:
    """Write the curve of the training beside the copies, unless the job left one of its own or has
    no curve yet.
    """
    if len(progress.history) < LEAST_EPOCHS or into / CURVE in copied:
        return
    with writing(into):
        write_curve(into, curve_svg(progress), renew=True)


def chosen(all_files: list[FileStat], job: Job, only: Sequence[str]) -> list[FileStat]:
    """The files that fit any of the patterns; all files if there is no pattern. Raises PathNotFound
    if no file fits.
    """
    chosen_files = [
        stat
        for stat in all_files
        if any(fits(relative(stat.path, job.results_dir), pattern) for pattern in only)
    ]
    if only and not chosen_files:
        names = [relative(stat.path, job.results_dir) for stat in all_files]
        what = f"No file of the results fits {' or '.join(only)}."
        why = why_nothing_fits(names, only)
        raise PathNotFound(what, why, "List them:", f"tao results {job.id} --json")
    return chosen_files if only else all_files


def why_nothing_fits(names: Sequence[str], only: Sequence[str]) -> str:
    """Say what a pattern is, and which files there are: those with near names, else the first
    ones.
    """
    if not names:
        return "Nothing has been written there yet."
    written = [name for name in names if not name.startswith(".tao/")]  # by the job's command
    searched = (written or names)[:NAMES_SEARCHED]
    near_names = [near for pattern in only for near in get_close_matches(pattern, searched)]
    shown = ", ".join((near_names or searched)[:NAMES_SHOWN])
    return (
        f"A pattern is of names, such as '*.pth' or 'train/*'. There are: {shown}{more_of(names)}."
    )


def more_of(names: Sequence[str]) -> str:
    """`, ... (28 files)` if there are more than are shown."""
    return f", ... ({len(names)} files)" if len(names) > NAMES_SHOWN else ""


def fits(name: str, pattern: str) -> bool:
    """True if the name fits the pattern. `*.pth` fits a name in any folder; `train/*.pth` and
    `./last.pth` fit a path below the results; a folder fits all files in it.
    """
    paths = [name, *folders_above(name)] if "/" in pattern else name.split("/")
    pattern = pattern.removeprefix("./").rstrip("/")
    return any(fnmatchcase(path, pattern) for path in paths)


def relative(path: str, folder: str) -> str:
    """The path below the results, as it is written. An object's path may have empty parts, and
    dots.
    """
    return path.removeprefix(folder.rstrip("/")).removeprefix("/")


def folders_above(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


def refuse_unnameable(name: str, folders: Set[str]) -> None:
    """Raise PathNotFound for an object whose name no file here can have."""
    if any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name:
        raise PathNotFound("invalid file name: it has an empty part, . or ..")
    if name in folders:
        raise PathNotFound("name taken: a folder of the same name is copied")


def _renew(files: Files, stat: FileStat, into: Below, name: str) -> None:
    """Copy a file unless there is a whole copy. Raises PathNotFound if it, or its copy, can be no
    file; OSError.
    """
    try:
        if not _is_whole(into, name, stat):
            _copy(files, stat, into, name)
    except OSError as error:
        if isinstance(error, PathNotFound) or error.errno not in UNNAMEABLE:
            raise
        raise PathNotFound(f"invalid file name here: {error.strerror}") from error


def _is_whole(into: Below, name: str, stat: FileStat) -> bool:
    try:
        with into.at(name) as spot:
            there = spot.seen
    except FileNotFoundError:
        return False
    return there.st_size == stat.size and _same_time(there.st_mtime, stat.mtime) and not spot.is_dir


def remove_remains(into: Path, names: Iterable[str]) -> None:
    """Remove the temporary files that killed fetches left of these files."""
    mine = {(name.rpartition("/")[0], part_of(name)) for name in names}
    for folder in {folder for folder, _ in mine}:
        with suppress(OSError), Below(str(into), follow=True).at(folder) as spot:
            for left in listed(spot):
                found = PART.fullmatch(left)
                if found and (folder, found[1]) in mine and not is_alive(int(found[2])):
                    os.unlink(left, dir_fd=spot.folder)


def listed(spot: Spot) -> list[str]:
    """The names in a folder."""
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=spot.folder)
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    finally:
        os.close(folder)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def refuse_too_large(into: Path, names: Mapping[str, FileStat], job_id: str) -> None:
    """Raise NotWritten if the disk of `into` has no room for the files that are still to copy."""
    free = room_left(str(into))
    if sum(map(room_for, names.values())) <= free:
        return
    below = Below(str(into), follow=True)
    missing = {name: stat for name, stat in names.items() if not is_there(below, name, stat)}
    needed = sum(map(room_for, missing.values()))
    if needed > free:
        largest = max(missing, key=lambda name: room_for(missing[name]))
        raise NotWritten(
            f"The results do not fit on the disk of {into}: {format_size(needed)} to copy, "
            f"{format_size(free)} free.",
            f"The largest file is {largest} ({format_size(missing[largest].size)}).",
            MORE_ROOM,
            copy_less(job_id),
        )


def copy_less(job_id: str) -> str:
    """The command that copies some of the results."""
    return f"tao results {job_id} --fetch DIR --only PATTERN"


def room_for(stat: FileStat) -> int:
    return stat.size if stat.on_disk is None else min(stat.size, stat.on_disk)


def is_there(into: Below, name: str, stat: FileStat) -> bool:
    try:
        return _is_whole(into, name, stat)
    except OSError:
        return False


@contextmanager
def writing(into: Path, name: str = "", size: int = 0, job_id: str = "") -> Generator[None]:
    """Raise NotWritten if the folder `into` cannot be written. `name` is the job's file that is
    written, if any.
    """
    try:
        yield
    except PathNotFound:
        raise
    except OSError as error:
        if name and error.errno in FULL:
            left = format_size(room_left(str(into)))
            what = f"The disk of {into} became full while {name} ({format_size(size)}) was copied."
            why = f"{left} are free there now."
            raise NotWritten(what, why, MORE_ROOM, copy_less(job_id)) from error
        why = f"{error.filename or into}: {error.strerror}."
        raise NotWritten(
            f"The results could not be copied into {into}.", why, "Mend that, and fetch again."
        ) from error


def _copy(files: Files, stat: FileStat, into: Below, name: str) -> None:
    with into.creating(name, f"{part_of(name)}{os.getpid()}.part") as file:
        stat = _written(files, stat, file)
        file.flush()
        with suppress(OverflowError):  # a job may give its files any time
            os.utime(file.fileno(), (stat.mtime, stat.mtime))


def part_of(name: str) -> str:
    """The start of a file's temporary name; a process id and `.part` follow."""
    own = name.rpartition("/")[2]
    return f".{apart(own, cut(own))}."


def _written(files: Files, stat: FileStat, out: IO[bytes]) -> FileStat:
    """Write one version of the file, and return that version's stat. A file that only grows is
    copied as far as it was. A live job may replace its files.
    """
    for _ in range(TRIES):
        out.seek(0)
        out.truncate()
        end = _pour(files, stat.path, out)
        at_once = end == stat.size <= PIECE
        was, stat = stat, stat if at_once else files.stat(stat.path)
        if is_growing(stat.path) or (was.size == stat.size and _same_time(was.mtime, stat.mtime)):
            return stat
    raise PathNotFound(f"{stat.path} changes while it is copied.", "", "Fetch again.")


def _pour(files: Files, path: str, out: IO[bytes]) -> int:
    """Copy all of a file, and return its size. Holes stay holes, and some zeros become holes: they
    take no room on the disk.
    """
    at = next_data(files, path, 0)
    while data := files.read(path, at, PIECE):
        for begin in range(0, len(data), HOLE):
            if not data.startswith(ZEROS, begin):
                out.seek(at + begin)
                out.write(data[begin : begin + HOLE])
        at = next_data(files, path, at + len(data))
    out.truncate(at)
    return at


def _same_time(one: float, other: float) -> bool:
    """True if the two times are equal, to the precision that both have: some disks and answers know
    whole seconds only.
    """
    whole = one == int(one) or other == int(other)
    return int(one) == int(other) if whole else abs(one - other) < CLOCK_SECONDS


def backend_path(uri: str, own_schemes: Collection[str] = ()) -> str:
    """The path of a file://, lustre:// or slurm:// address. A plain path, s3:// and the platform's
    own schemes stay as they are. Raises UsageError for others.
    """
    if not uri or "\0" in uri:
        raise UsageError(
            f"not a path: {uri!r}", "", "Name a file or a folder; . is the current one."
        )
    scheme, separator, _ = uri.partition("://")
    if not separator or scheme in own_schemes:
        return uri
    try:
        schemes.check(uri, "The path")
    except SpecError as error:
        raise UsageError(error.what, error.why, error.next, error.command) from error
    if in_bucket(uri):
        return uri
    if schemes.is_local_path(uri):
        return "/" + path_of(uri).lstrip("/")
    raise UsageError(
        f"{scheme}:// cannot be looked at yet.", "", "Give a path, s3://, file:// or lustre://."
    )


def platform_of_address(uri: str) -> str:
    """The platform that has addresses of that form; "" if none alone has."""
    scheme, separator, _ = uri.partition("://")
    return platform_of_scheme(scheme) if separator and not in_bucket(uri) else ""


def path_at(engine: Engine, uri: str, platform: str) -> str:
    """The path of an address as the platform's files take it. Raises UsageError for an address that
    cannot be looked at.
    """
    if "://" not in uri or in_bucket(uri):
        return backend_path(uri)
    return backend_path(uri, engine.backend(platform).capabilities.path_schemes)
