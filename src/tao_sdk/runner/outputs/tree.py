"""A folder's files as they are now. An unreadable file is reported and does not affect others."""

from __future__ import annotations

import hashlib
import os
import stat

from tao_sdk.net.atomic import PART_END

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Shape = tuple[int, float]  # size, mtime: they change with the file
    Mark = tuple[int, int, int]  # size, mtime and ctime in ns: a copy that keeps its time differs

GROWING = (".log", ".jsonl", ".csv", ".txt", "status.json")
WEIGHTS = (
    ".pth.tar",
    ".pth",
    ".pt",
    ".ckpt",
    ".tlt",
    ".hdf5",
    ".h5",
    ".npz",
    ".safetensors",
    ".distcp",
    ".bin",
)
# words before the number in checkpoint folders of Hugging Face, DeepSpeed, Megatron, Lightning
COUNTED = ("epoch", "step", "iter", "checkpoint", "ckpt", "global_step", "globalstep")


class Tree:
    """`files`: relative path -> shape of every regular file below a folder, `marks`: its mark.
    `problems`: a line for each path that was left out, with the reason. With `most`, no further
    folder is entered once there are so many files.

    Links are followed, and each folder is entered once, by its own name, so that a link to a folder
    above does not loop. A link to a folder above the top is left out: it would include everything
    beside the top.
    """

    def __init__(self, top: str, excludes: list[str], most: float = float("inf")) -> None:
        self.top, self.excludes, self.real = top, excludes, os.path.realpath(top)
        self.files: dict[str, Shape] = {}
        self.marks: dict[str, Mark] = {}
        self.problems: list[str] = []
        self.visited: set[tuple[int, int]] = set()
        self.folders = [""]  # to enter, by their paths below the top
        self.links: list[str] = []
        while (self.folders or self.links) and len(self.files) < most:
            self.enter_folder(self.folders.pop() if self.folders else self.links.pop())

    def enter_folder(self, folder: str) -> None:
        """Add a folder's entries, unless it was entered before."""
        try:
            here = os.stat(os.path.join(self.top, folder))
            if (here.st_dev, here.st_ino) in self.visited:
                return
            self.visited.add((here.st_dev, here.st_ino))
            names = sorted(os.listdir(os.path.join(self.top, folder)))
        except OSError as error:
            self.problems.append(f"{folder or self.top}: {error.strerror}")
            return
        for name in names:
            path = os.path.join(folder, name)
            if not self.is_excluded(path):
                self.take_path(path)

    def take_path(self, path: str) -> None:
        full = os.path.join(self.top, path)
        try:
            status = os.stat(full)
        except OSError as error:
            self.problems.append(f"{path}: {error.strerror}")
            return
        folder = stat.S_ISDIR(status.st_mode)
        link = os.path.realpath(full) if folder and os.path.islink(full) else ""
        if link and self.real.startswith(os.path.join(link, "")):
            self.problems.append(f"{path}: a link to {link}, which holds all of this")
        elif folder:
            (self.links if link else self.folders).append(path)
        elif stat.S_ISREG(status.st_mode):
            self.files[path] = status.st_size, status.st_mtime
            self.marks[path] = mark_of(status)
        else:
            self.problems.append(f"{path}: not a file")

    def is_excluded(self, path: str) -> bool:
        """True if the path is excluded. A plain exclude covers the folder or file of that name and
        all below it; a pattern (*, ?, [) must match the whole path.
        """
        return path.endswith(PART_END) or any(
            covers_path(pattern, path) for pattern in self.excludes
        )


def shape_of(path: str) -> Shape:
    """(size, mtime) of a path. Raises OSError if there is nothing."""
    status = os.stat(path)
    return status.st_size, status.st_mtime


def mark_of(status: os.stat_result) -> Mark:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def covers_path(exclude: str, path: str) -> bool:
    if path == exclude or path.startswith(exclude + "/"):
        return True
    return any(sign in exclude for sign in "*?[") and matches_pattern(path, exclude)


def matches_pattern(path: str, pattern: str) -> bool:
    from fnmatch import fnmatchcase  # it takes milliseconds to import, and few jobs have a pattern

    return fnmatchcase(path, pattern)


def is_growing(path: str) -> bool:
    """True if files of this name are only appended to."""
    return path.endswith(GROWING) or "tfevents" in os.path.basename(path)


def checkpoint_folder(path: str) -> str:
    """The outermost folder in a path with the name of a checkpoint; "" if there is none."""
    names = path.split("/")[:-1]
    for count, name in enumerate(names, 1):
        if names_checkpoint(name):
            return "/".join(names[:count])
    return ""


def names_checkpoint(name: str) -> bool:
    """True for best, last, x.ckpt, checkpoint-500, global_step100, epoch=3-step=40. Written without
    `re`, which takes nearly as long to import as python3 to start.
    """
    lower = name.lower()
    if lower in ("best", "latest", "last") or lower[1:].endswith(".ckpt"):
        return True
    word = counted_word(lower)
    if word[-5:] in ("-step", "_step", "-iter", "_iter") and word not in COUNTED:
        word = counted_word(word[:-5])
    return word in COUNTED


def counted_word(text: str) -> str:
    """`step` for step100, step-100, step_100 and step=100; "" if the text ends in no number."""
    word = text.rstrip("0123456789")
    if word == text:
        return ""
    if word.endswith(("=", "_", "-")):
        return word[:-1]
    return word


def whole_folders(
    files: Iterable[tuple[str, int]], still: Callable[[str], bool]
) -> dict[str, list[int]]:
    """Checkpoint folder -> [number of its files, their bytes]; both -1 while a file changes."""
    counts: dict[str, list[int]] = {}
    weighty: set[str] = set()
    for path, size in files:
        folder = checkpoint_folder(path)
        if not folder or is_growing(path):
            continue
        known, total = counts.get(folder, [0, 0])
        in_motion = known < 0 or not still(path)
        counts[folder] = [-1, -1] if in_motion else [known + 1, total + size]
        if path.endswith(WEIGHTS):
            weighty.add(folder)
    return {folder: counts[folder] for folder in sorted(weighty)}


def read_chunks(path: str) -> Iterator[bytes]:
    """A file's bytes, a megabyte at a time."""
    with open(path, "rb", buffering=0) as file:
        while True:
            data = file.read(1 << 20)
            if not data:
                return
            yield data


def file_digest(path: str, algorithm: str) -> str:
    """A file's checksum in hex. Raises ValueError if this Python lacks the algorithm."""
    checksum = hashlib.new(algorithm)
    for data in read_chunks(path):
        checksum.update(data)
    return checksum.hexdigest()
