"""Entries: fetched or unpacked data that get their name only when complete.

Beside an entry is a hidden folder. It holds the writer's lock, the partial data (a later writer
resumes from them), and a mark: the version of the source. The mark is written before the entry gets
its name, and removed after the entry has lost it. So the mark always has the version of the present
entry. An entry without a mark belongs to somebody else, and is never touched.

Shared entries are synced to the disk before the mark is written. The entry of a single job is not:
it can be made again, and the command need not wait for the disk. Until it is synced, its mark is
valid only for this boot of the machine, and others wait for the lock.
"""

from __future__ import annotations

import errno
import os
import stat
import threading

from tao_sdk.net import atomic
from tao_sdk.net.crew import start_thread
from tao_sdk.net.failure import Failure
from tao_sdk.net.file_names import apart, cut
from tao_sdk.runner import private
from tao_sdk.runner.inputs.lock import Lock, boot_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FULL = (errno.ENOSPC, errno.EDQUOT)
LARGEST_MARK = 1 << 20  # bytes
PATIENCE = 20.0  # seconds for a sync: others may be writing a checkpoint of many GB to that disk


class Entry:
    """One file or folder at `path`. Any number of processes on any number of nodes may request it
    at once.
    """

    def __init__(self, path: str, settling: Settling | None = None) -> None:
        """`settling` syncs the entry to the disk later. Without it, the entry is synced before it
        is marked as complete.
        """
        self.path, self.settling = path, settling
        folder, name = os.path.split(path)
        self.side = os.path.join(folder, f".{apart(name, cut(name))}{atomic.PART_END}")
        self.mark = os.path.join(self.side, "made-of")

    def has_version(self, version: str) -> bool:
        """True if the entry exists in this version, made by this user or root. An entry of another
        user may have any content.
        """
        return self.read_mark() in (version, unsettled_mark(version)) and is_ours(self.path)

    def read_mark(self) -> str:
        if not private.is_closed(self.side):
            return ""
        return read_text(self.mark)

    def ensure_version(
        self, version: str, make: Callable[[str], str], waits: Callable[[], None]
    ) -> None:
        """Make the entry in this version unless it exists. One process calls `make(folder)`, which
        creates it in that folder and returns its path; the others wait. Raises Failure.
        """
        try:
            if self.has_version(version):
                return
            self.make_side()
            lock = Lock(self.side)
            if not lock.acquire(lambda: self.has_version(version), waits):
                return
            try:
                if not self.has_version(version):
                    self.make_anew(version, make)
            except BaseException:
                lock.release()
                raise
            if self.settling:
                self.settling.add(self, version, lock)
            else:
                lock.release()
        except OSError as error:
            raise self.error_failure(error) from error

    def make_side(self) -> None:
        """Create the hidden folder, which nobody else can write to. Raises PermissionError if
        another user created it first.
        """
        with private.Unshared():
            os.makedirs(self.side, exist_ok=True)
            if not private.is_closed(self.side) and is_ours(self.side):
                # others could write to it, so its content is not trusted
                private.remove_tree(self.side)
                os.makedirs(self.side, exist_ok=True)
        if not private.is_closed(self.side):
            raise PermissionError(
                errno.EPERM, "Another user made it, or can write to it", self.side
            )

    def make_anew(self, version: str, make: Callable[[str], str]) -> None:
        part = os.path.join(self.side, "part")
        begun = os.path.join(part, "begun")
        if os.path.isdir(part) and read_text(begun) != version:
            private.remove_tree(part)
        os.makedirs(part, exist_ok=True)
        atomic.write(begun, encode_version(version), 0o644, atomic.no_sync)
        self.make_room()
        made = make(part)
        if self.settling:
            atomic.write(self.mark, encode_version(unsettled_mark(version)), 0o644, atomic.no_sync)
        else:
            settle_disk(begun)
            atomic.write(self.mark, encode_version(version), 0o644)
        try:
            os.rename(made, self.path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise  # else another writer, which took us for dead, was faster
        private.remove_tree(part)

    def mark_settled(self, version: str) -> None:
        """Write the mark that outlives a power cut: the entry is on the disk."""
        try:
            if self.read_mark() == unsettled_mark(version):
                atomic.write(self.mark, encode_version(version), 0o644)
        except OSError:
            return  # the entry still counts for this boot of the machine

    def make_room(self) -> None:
        """Remove our entry of another version, an empty folder or a link at the path. Raises
        FileExistsError for data of others.
        """
        ours = bool(self.read_mark())
        old = os.path.join(self.side, "old")
        private.remove_tree(old)
        if os.path.islink(self.path):
            os.unlink(self.path)
        elif os.path.isdir(self.path) and not os.listdir(self.path):
            os.rmdir(self.path)
        elif os.path.lexists(self.path) and ours:
            os.makedirs(old)
            os.rename(self.path, os.path.join(old, "entry"))
        elif os.path.lexists(self.path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)
        if ours:
            os.unlink(self.mark)
        private.remove_tree(old)

    def error_failure(self, error: OSError) -> Failure:
        if error.errno in FULL:
            return Failure(
                "disk.full",
                f"The disk became full while an input was put at {self.path}.",
                f"{error.strerror}.",
                "Free space there, or set mount_path, or the input's "
                "container_path, to a larger disk.",
            )
        return Failure(
            "input.in_the_way" if error.errno == errno.EEXIST else "input.unwritable",
            f"An input cannot be put at {self.path}.",
            f"{error.filename or self.path}: {error.strerror or error}.",
            "Choose a path that is free and writable where the job runs.",
        )


class Settling:
    """Syncs entries to the disk in the background, all waiting entries with one call."""

    def __init__(self) -> None:
        self.changed = threading.Lock()
        self.waiting: list[tuple[Entry, str, Lock]] = []
        self.runs = False

    def add(self, entry: Entry, version: str, lock: Lock) -> None:
        """Queue an entry. Its lock is released once it is on the disk; until then the entry counts
        only on this machine.
        """
        with self.changed:
            self.waiting.append((entry, version, lock))
            if self.runs:
                return
            self.runs = True
        if not start_thread(self.settle_batches):
            self.settle_batches()

    def settle_batches(self) -> None:
        while True:
            with self.changed:
                batch, self.waiting = self.waiting, []
                self.runs = bool(batch)
            if not batch:
                return
            for mark in marks_by_disk(batch).values():
                settle_disk(mark)
            for entry, version, lock in batch:
                entry.mark_settled(version)
                lock.release()


def marks_by_disk(batch: list[tuple[Entry, str, Lock]]) -> dict[int, str]:
    """Device -> the path of one entry's mark, for each file system with entries of the batch."""
    marks: dict[int, str] = {}
    for entry, _, _ in batch:
        try:
            marks[os.stat(entry.mark).st_dev] = entry.mark
        except OSError:
            continue  # the job's folder is gone
    return marks


def encode_version(version: str) -> bytes:
    return version.encode("utf-8", "surrogateescape")


def unsettled_mark(version: str) -> str:
    """The mark of an entry that is complete for this boot, but may be lost in a power cut."""
    return f"{version}\nnot settled on {boot_id()}"


def settle_disk(path: str) -> None:
    """Sync the file system of a file, so that its data outlive a power cut. Wait at most PATIENCE
    seconds.
    """
    thread = start_thread(sync_disk, path)
    if thread:
        thread.join(PATIENCE)


def sync_disk(path: str) -> None:
    # A mark with the boot id is not enough for a shared cache: other machines cannot distinguish a
    # crashed machine from a running one. One call for all costs 0.2 s after 512 MB; an fsync for
    # each of a million files costs minutes.
    try:
        import ctypes

        with open(path) as file:
            ctypes.CDLL(None).syncfs(file.fileno())
    except (ImportError, AttributeError, OSError):
        os.sync()  # syncs all disks


def read_text(path: str) -> str:
    """The text of a small file of ours; "" if there is none."""
    try:
        return private.read_file(path, LARGEST_MARK).decode("utf-8", "surrogateescape")
    except (OSError, UnicodeDecodeError):
        return ""


def is_ours(path: str) -> bool:
    """True for a file or folder of this user or root. False for a link: no entry is one."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return not stat.S_ISLNK(status.st_mode) and private.is_ours(status, os.path.dirname(path))
