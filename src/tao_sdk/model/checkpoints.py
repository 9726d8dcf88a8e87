"""Checkpoints: find them among the files of a training, with their epochs, and choose one to go on
with.

Pure: it gets a list of the files. It does not guess: a checkpoint is None if it is not certain. Not
here: the listing of files (client/results.py), and how a job finds its own checkpoint to resume
from (runner/resume.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import PurePosixPath
from typing import Any, cast

from tao_sdk.model.lazy_pattern import lazy_compile
from tao_sdk.model.progress import Best, Progress, better_value
from tao_sdk.runner.outputs.ending import FAILED, SETTLED
from tao_sdk.runner.outputs.tree import WEIGHTS, is_growing, names_checkpoint

CRASHES = (FAILED, 132, 134, 135, 136, 139)  # SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV
FIRST_SIGNAL_CODE = 128  # exit codes from here on: a signal ended it
EXPORTED = (".engine", ".onnx", ".trt")  # can be evaluated, but not trained further

_FOLDERS = frozenset(
    {"train", "checkpoint", "checkpoints", "ckpt", "ckpts", "weights", "models", "safetensors"}
)
# brought by the job, not made by it
_NOT_OURS = frozenset({"inputs", "ptm", "pretrained", ".tao", ".cache"})
_COMPANIONS = frozenset({"optimizer", "optim", "scheduler", "scaler", "rng", "args"})
_NAMES = frozenset(
    {"model", "weights", "checkpoint", "ckpt", "final", "best", "latest", "last"}
    | {"interrupted", "preempted"}
)

_EPOCH = lazy_compile(r"(?:^|[^a-z])epoch[=_. -]*(\d{1,9})|^weights\.(\d{1,9})-")
_STEP = lazy_compile(
    r"(?:^|[^a-z])(?:step|steps|iter|iteration)[=_. "
    r"-]*(\d{1,12})|^(?:checkpoint|ckpt|model)[-_](\d{1,12})$"
)
# as Lightning and TAO name them: the first is epoch 0
_COUNTED_FROM_ZERO = lazy_compile(r"epoch=\d+|epoch_\d+_step_\d+")

_BARE_NUMBER = lazy_compile(r"(?:model|weights|checkpoint|ckpt)[-_.](\d{1,6})")
_NUMBERED = lazy_compile(r"([a-z][a-z0-9_.-]*?)[-_.](\d{1,6})")  # any other word and a number
# the number after these words is no epoch, or not for certain
_OTHER_NUMBERS = frozenset(
    {"checkpoint", "fold", "gpu", "head", "layer", "node", "part", "rank", "run", "sample", "seed"}
    | {"shard", "split", "stage", "trial", "v", "version", "worker"}
)
_DIGITS_AT_END = lazy_compile(r"\d+(?=(?:\.pth\.tar|\.[a-z0-9]+)?$)", re.IGNORECASE)


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint, a file or a folder. `epoch` and `step` are the numbers in its name, by the
    job's own count.
    """

    path: str
    size: int  # bytes, of all its files
    mtime: float  # seconds since the epoch, of its newest file
    epoch: int | None = None
    step: int | None = None
    is_best: bool = False  # its name says so
    is_latest: bool = False  # a name that moves on: today's epoch 12, tomorrow's 13
    is_dir: bool = False
    complete: bool = False

    @property
    def exported(self) -> bool:
        return self.path.endswith(EXPORTED)


@dataclass(frozen=True)
class Chosen:
    """Paths of the complete checkpoints that people ask for; None if there is none for certain."""

    best: str | None
    newest: str | None


def choose_checkpoints(
    files: Iterable[tuple[str, int, float]],
    root: str,
    manifest: Mapping[str, Any] | None,
    progress: Progress,
    settled: float = 0.0,
) -> Chosen:
    """Return the best and the newest complete checkpoint among `files` (path, size, mtime) below
    `root`.
    """
    found = list_checkpoints(files, root, manifest, settled)
    with_numbers = with_epochs(found, progress)
    complete = [each for each in with_numbers if each.complete]
    best, latest = best_of(complete, progress), newest_of(found, is_live=not settled)
    if best is None:
        best = best_so_far(with_numbers, progress, is_live=not settled)
    return Chosen(best=best.path if best else None, newest=latest.path if latest else None)


def list_checkpoints(
    files: Iterable[tuple[str, int, float]],
    root: str = "",
    manifest: Mapping[str, Any] | None = None,
    settled: float = 0.0,
) -> list[Checkpoint]:
    """Return every checkpoint among `files`, the least trained first.

    A checkpoint is complete if the manifest lists all its files with their sizes. Without a
    manifest, the one written last may be half written: it is complete only if it was written before
    `settled`.
    """
    there = [_File(path, _path_below(root, path), size, mtime) for path, size, mtime in files]
    groups: dict[str, list[_File]] = {}
    for file in there:
        if _is_ours(file):
            groups.setdefault(file.checkpoint_path, []).append(file)
    is_complete = (
        _complete_by_time(groups, settled)
        if manifest is None
        else _complete_by_manifest(manifest, there, root)
    )
    found = [_make_checkpoint(place, group, is_complete(place)) for place, group in groups.items()]
    return sorted(found, key=_training_order(found))


def with_epochs(found: Sequence[Checkpoint], progress: Progress) -> list[Checkpoint]:
    """Return the checkpoints in the same order. A bare number, as in `model_03.pt`, becomes an
    epoch if it can be nothing else.

    It stays a step or a version if any checkpoint names its epoch, or if the files of its pattern
    do not fit the epochs of the job.
    """
    if any(each.epoch is not None for each in found):
        return list(found)
    patterns: dict[str, list[Checkpoint]] = {}
    for each in found:
        if _bare_number(each) is not None:
            patterns.setdefault(_name_pattern(each), []).append(each)
    fitting = {name for name, group in patterns.items() if _are_epochs(group, progress)}
    return [
        replace(each, epoch=_bare_number(each), step=None)
        if _name_pattern(each) in fitting
        else each
        for each in found
    ]


def _bare_number(checkpoint: Checkpoint) -> int | None:
    stem = _name_stem(checkpoint.path)
    if checkpoint.is_dir and stem.startswith("checkpoint-"):  # of Hugging Face: a step
        return None
    if match := _BARE_NUMBER.fullmatch(stem):
        return int(match[1])
    return _number_behind_word(stem)


def _number_behind_word(stem: str) -> int | None:
    """The 7 of `m_07`; None after a word such as fold, which counts something else."""
    match = _NUMBERED.fullmatch(stem)
    if not match or _name_words(match[1]) & _OTHER_NUMBERS:
        return None
    return int(match[2])


def _name_pattern(checkpoint: Checkpoint) -> str:
    """`train/model_#.pt` for `train/model_03.pt`."""
    return _DIGITS_AT_END.sub("#", checkpoint.path)


def _are_epochs(group: Sequence[Checkpoint], progress: Progress) -> bool:
    """True if the numbers are epochs that the job has named, written one after the other. A single
    number has to be the newest epoch.
    """
    written = sorted((each.mtime, _bare_number(each) or 0) for each in group)
    numbers = [number for _, number in written]
    if not _BARE_NUMBER.fullmatch(_name_stem(group[0].path)):
        return len(numbers) > 1 and _count_to(numbers, progress.epoch)
    if len(numbers) == 1:
        return numbers == [progress.epoch]
    return numbers == sorted(numbers) and numbers[-1] <= progress.epoch


def _count_to(numbers: Sequence[int], epoch: int) -> bool:
    """True if they are every epoch up to the newest one, or every second, third, ..."""
    step = numbers[0] or 1
    first_missing = numbers[-1] + step
    return list(numbers) == list(range(numbers[0], first_missing, step)) and (
        numbers[-1] <= epoch <= first_missing
    )


def newest_of(found: Sequence[Checkpoint], is_live: bool = True) -> Checkpoint | None:
    """The complete checkpoint of the most training, or None.

    `latest` and `last` are left out: the next epoch replaces such a file. If the job is over,
    `interrupted.pt` is the newest if it was written after the numbered ones beside it.
    """
    usable = [each for each in found if each.complete and not each.exported and not each.is_latest]
    furthest = max(usable, key=_training_order(usable), default=None)
    if furthest is None or is_live:
        return furthest
    later = [each for each in usable if _is_written_after(each, furthest)]
    return max(later, key=lambda each: each.mtime, default=furthest)


def _is_written_after(checkpoint: Checkpoint, numbered: Checkpoint) -> bool:
    """True for a later file without a number in the folder of a numbered one, of the same kind."""
    place, beside = PurePosixPath(checkpoint.path), PurePosixPath(numbered.path)
    if checkpoint.epoch is not None or checkpoint.step is not None or checkpoint.is_best:
        return False
    same_kind = checkpoint.is_dir == numbered.is_dir and place.suffix == beside.suffix
    return same_kind and place.parent == beside.parent and checkpoint.mtime > numbered.mtime


def best_of(found: Sequence[Checkpoint], progress: Progress) -> Checkpoint | None:
    """The checkpoint with `best` in its name, else the one of the best epoch, or None."""
    trained = [each for each in found if not each.exported]
    named = max(
        (each for each in trained if each.is_best), key=lambda each: each.mtime, default=None
    )
    if named or not progress.best_epoch:
        return named
    return of_epoch(trained, progress.best_epoch, progress)


def best_so_far(
    found: Sequence[Checkpoint], progress: Progress, is_live: bool
) -> Checkpoint | None:
    """The complete checkpoint of the best epoch that has one; None if the checkpoint of the best
    epoch of all is gone.
    """
    trained = [each for each in found if not each.exported]
    best = progress.best
    if best is None or not best.epoch:
        return None
    may_come = is_live and best.epoch == progress.epoch
    if not may_come and of_epoch(trained, best.epoch, progress) is None:
        return None
    return _best_complete(trained, progress, best.metric)


def _best_complete(
    trained: Sequence[Checkpoint], progress: Progress, metric: str
) -> Checkpoint | None:
    """The checkpoint of the best epoch among those with a complete checkpoint."""
    whole: dict[int, Checkpoint] = {}
    values = values_of(progress, metric)
    for value in values:
        checkpoint = of_epoch(trained, value.epoch, progress)
        if checkpoint and checkpoint.complete:
            whole[value.epoch] = checkpoint
    usable = [value for value in values if value.epoch in whole]
    if not usable:
        return None
    return whole[reduce(better_value, usable).epoch]


def values_of(progress: Progress, metric: str) -> list[Best]:
    """The known values of a metric, by epoch."""
    return [
        Best(entry.epoch, metric, entry.metrics[metric])
        for entry in progress.history
        if metric in entry.metrics
    ]


def value_of(
    checkpoint: Checkpoint, found: Sequence[Checkpoint], progress: Progress
) -> Best | None:
    """The value of the main metric in the epoch of a checkpoint; None if it is not known."""
    if progress.best is None or checkpoint.epoch is None:
        return None
    epoch = checkpoint.epoch + counts_from_zero(found, progress)
    values = [*values_of(progress, progress.best.metric), progress.best]
    return next((value for value in reversed(values) if value.epoch == epoch), None)


def of_epoch(
    found: Sequence[Checkpoint],
    epoch: int,
    progress: Progress | None = None,
    step: int | None = None,
) -> Checkpoint | None:
    """The checkpoint of exactly that `epoch`, counted from 1, and of `step` if given; never a
    neighbour.
    """
    wanted = epoch - 1 if counts_from_zero(found, progress or Progress()) else epoch
    there = [
        each
        for each in found
        if each.epoch == wanted and not each.is_latest and step in (None, each.step)
    ]
    return max(there, key=_training_order(there), default=None)


def counts_from_zero(found: Iterable[Checkpoint], progress: Progress) -> bool:
    """True if the names count epochs from 0, so that epoch 1 is `model_epoch_000`."""
    epochs = {each.epoch for each in found if each.epoch is not None}
    if 0 in epochs or progress.epochs in epochs:
        return 0 in epochs
    names = [PurePosixPath(each.path).name for each in found if each.epoch is not None]
    return progress.counts_from_zero or any(_COUNTED_FROM_ZERO.search(name) for name in names)


@dataclass(frozen=True)
class _File:
    """A file that is a checkpoint, or one of the files in a folder that is."""

    path: str
    below: str  # its path below the results
    size: int
    mtime: float

    @property
    def stem(self) -> str:
        return _name_stem(self.path)

    @property
    def checkpoint_path(self) -> str:
        """The path of the checkpoint: the folder's if only the folder's name identifies it."""
        if _says_which(self.stem):
            return self.path
        for folder in list(PurePosixPath(self.path).parents)[:2]:
            if names_checkpoint(folder.name):
                return str(folder)
        return self.path


def _name_stem(path: str) -> str:
    """The name in lower case, without the suffix of a checkpoint."""
    name = PurePosixPath(path).name
    suffix = next((suffix for suffix in (*WEIGHTS, *EXPORTED) if name.endswith(suffix)), "")
    return name.removesuffix(suffix).lower()


def _path_below(root: str, path: str) -> str:
    root = root.rstrip("/")
    if root and path.startswith(f"{root}/"):
        return path[len(root) + 1 :]
    return path


def _is_ours(file: _File) -> bool:
    """True if this training made the file and could go on from it. False for an input, and for an
    optimizer's state of its own.
    """
    if not file.size or not file.path.endswith((*WEIGHTS, *EXPORTED)):
        return False
    folders = {folder.lower() for folder in PurePosixPath(file.below).parts[:-1]}
    words = _name_words(file.stem)
    if folders & _NOT_OURS or words & _COMPANIONS:
        return False
    return (
        bool(folders & _FOLDERS or words & _NAMES)
        or file.checkpoint_path != file.path
        or _says_which(file.stem)
    )


def may_hold_weights(below: str) -> bool:
    """True if a file looks like weights by the end of its path below the results, whatever
    its name.
    """
    return below.endswith(WEIGHTS) and not _NOT_OURS & set(PurePosixPath(below).parts)


def _name_words(name: str) -> set[str]:
    return set(re.split(r"[^a-z]+", name))


def _says_which(stem: str) -> bool:
    return bool(
        _EPOCH.search(stem) or _STEP.search(stem) or _name_words(stem) & {"best", "latest", "last"}
    )


def _make_checkpoint(place: str, group: list[_File], complete: bool) -> Checkpoint:
    is_dir = place != group[0].path
    name = PurePosixPath(place).name.lower() if is_dir else group[0].stem
    return Checkpoint(
        path=place,
        size=sum(file.size for file in group),
        mtime=max(file.mtime for file in group),
        epoch=_read_number(_EPOCH, name),
        step=_read_number(_STEP, name),
        is_best="best" in _name_words(name),
        is_latest=bool(_name_words(name) & {"latest", "last"}),
        is_dir=is_dir,
        complete=complete,
    )


def _read_number(pattern: re.Pattern[str], name: str) -> int | None:
    match = pattern.search(name)
    if not match:
        return None
    return int(match[1] or match[2])


def _training_order(found: Sequence[Checkpoint]) -> Callable[[Checkpoint], tuple[float, ...]]:
    """A sort key: epoch and step if the names have them, else the time of the file."""
    if any(each.epoch is not None for each in found):
        return lambda each: (_or_minus_one(each.epoch), _or_minus_one(each.step), each.mtime)
    return lambda each: (_or_minus_one(each.step), each.mtime)


def _or_minus_one(number: int | None) -> int:
    if number is None:
        return -1
    return number


def settled_at(ended: float, exit_code: int | None, asked: bool) -> float:
    """The time (unix seconds) up to which a command without a manifest had written whole files. If
    it ended by itself and was not cut off, that is all of them.

    `asked`: it was to end. A command that failed by itself, or after that request (is_crash), may
    have failed at writing.
    """
    ended_itself = exit_code is not None and exit_code < FIRST_SIGNAL_CODE
    by_itself = exit_code == 0 or (asked and ended_itself and not is_crash(exit_code))
    return math.inf if by_itself else ended - SETTLED


def is_crash(exit_code: int | None) -> bool:
    """True for the exit code of an unintended end: an uncaught error, or a signal that nobody sends
    to end a program.
    """
    return exit_code in CRASHES


def _complete_by_time(groups: Mapping[str, list[_File]], settled: float) -> Callable[[str], bool]:
    written = {place: max(file.mtime for file in group) for place, group in groups.items()}
    latest = settled or max(written.values(), default=0.0)
    return lambda place: written[place] < latest


def _complete_by_manifest(
    manifest: Mapping[str, Any], there: Iterable[_File], root: str
) -> Callable[[str], bool]:
    listed = dict(_listed_files(manifest))
    sizes = {file.below: file.size for file in there}
    moving = [f"{path}/" for path in _in_motion(manifest)]

    def is_complete(place: str) -> bool:
        below = _path_below(root, place)
        if below in sizes:
            return sizes[below] == listed.get(below)
        in_motion = any(
            f"{below}/".startswith(each) or each.startswith(f"{below}/") for each in moving
        )
        return not in_motion and _sizes_inside(below, sizes) == _sizes_inside(below, listed)

    return is_complete


def _listed_files(manifest: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield path and size of the files that the manifest vouches for. An empty checksum means that
    the file was still being written.
    """
    entries: Any = manifest.get("files")
    for entry in cast(list[Any], entries) if isinstance(entries, list) else []:
        match entry:
            case {"sha256": "" | None}:
                continue
            case {"path": str(path), "size": int(size)}:
                yield path, size
            case _:
                continue


def _in_motion(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the folders that were still being written, or had not been sent whole, according to the
    manifest.
    """
    listed = dict(_listed_files(manifest))
    folders: Any = manifest.get("folders")  # older ones do not have it
    for path, told in cast(dict[str, Any], folders).items() if isinstance(folders, dict) else ():
        there = [size for name, size in _sizes_inside(path, listed).items() if not is_growing(name)]
        if told != [len(there), sum(there)]:
            yield path


def _sizes_inside(folder: str, sizes: Mapping[str, int]) -> dict[str, int]:
    return {path: size for path, size in sizes.items() if path.startswith(f"{folder}/")}
