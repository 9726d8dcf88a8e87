"""Entries: something fetched or unpacked that appears under its name when it is whole, and not before.

Beside it lies a hidden folder of its own: the lock of whoever makes it, what is there so far (so that the next one goes on
from that), and a mark that says of which version of its source it is made. The mark is written before the entry has its
name, and taken away after the name is given up, so that an entry that is there is always of the version in the mark: one
without a mark is another's, and never touched.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat

from . import atomic, private
from .crew import started
from .lock import Lock
from .report import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

FULL = (errno.ENOSPC, errno.EDQUOT)
LARGEST_MARK = 1 << 20  # bytes
PATIENCE = 20.0  # seconds: others may just write a checkpoint of many GB there


class Entry:
    """One file or folder at `path`. Any number of processes on any number of nodes may want it at once."""

    def __init__(self, path: str) -> None:
        self.path = path
        folder, name = os.path.split(path)
        self.side = os.path.join(folder, ".%s%s" % (apart(name, cut(name)), atomic.PART_END))
        self.mark = os.path.join(self.side, "made-of")

    def of(self, version: str) -> bool:
        """Whether it is there, made of this version, by this user or by root: another one may have put there what he likes."""
        return self.marked() == version and is_ours(self.path)

    def marked(self) -> str:
        return read(self.mark) if private.is_closed(self.side) else ""

    def ensure(self, version: str, make: Callable[[str], str], waits: Callable[[], None]) -> None:
        """There, made of this version. One calls `make(folder)`, which puts it anywhere in that folder; the others wait."""
        try:
            if self.of(version):
                return
            self.make_side()
            lock = Lock(self.side)
            if not lock.acquire(lambda: self.of(version), waits):
                return
            try:
                if not self.of(version):
                    self.renew(version, make)
            finally:
                lock.release()
        except OSError as error:
            raise self.failure(error) from error

    def make_side(self) -> None:
        """The hidden folder, which nobody else can write to. Raises PermissionError where another user has made it first."""
        with private.unshared():
            os.makedirs(self.side, exist_ok=True)
            if not private.is_closed(self.side) and is_ours(self.side):
                private.remove(self.side)  # others could write to it, so nobody knows whose its content is
                os.makedirs(self.side, exist_ok=True)
        if not private.is_closed(self.side):
            raise PermissionError(errno.EPERM, "Another user made it, or can write to it", self.side)

    def renew(self, version: str, make: Callable[[str], str]) -> None:
        part = os.path.join(self.side, "part")
        begun = os.path.join(part, "begun")
        if os.path.isdir(part) and read(begun) != version:
            private.remove(part)
        os.makedirs(part, exist_ok=True)
        atomic.write(begun, version.encode("utf-8", "surrogateescape"), 0o644)
        self.make_room()
        made = make(part)
        settle(begun)
        atomic.write(self.mark, version.encode("utf-8", "surrogateescape"), 0o644)
        try:
            os.rename(made, self.path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise  # else another one, who thought us dead, was quicker
        private.remove(part)

    def make_room(self) -> None:
        """An entry of another version goes, and so do an empty folder and a link; data of others never does."""
        ours = bool(self.marked())
        old = os.path.join(self.side, "old")
        private.remove(old)
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
        private.remove(old)

    def failure(self, error: OSError) -> Failure:
        if error.errno in FULL:
            return Failure(
                "disk.full",
                "The disk became full while an input was put at %s." % self.path,
                "%s." % error.strerror,
                "Free space there, or set mount_path, or the input's container_path, to a larger disk.",
            )
        return Failure(
            "input.in_the_way" if error.errno == errno.EEXIST else "input.unwritable",
            "An input cannot be put at %s." % self.path,
            "%s: %s." % (error.filename or self.path, error.strerror or error),
            "Choose a path that is free and writable where the job runs.",
        )


def cut(name: str) -> str:
    """As much of it as a file system takes, which counts bytes, with room for what is put to it."""
    return os.fsencode(name)[:200].decode("utf-8", "ignore")


def apart(name: str, short: str) -> str:
    """`short` where it is all of a name; else with what tells it from other names of which that could be left."""
    return short if short == name else "%s-%s" % (short, hashlib.sha256(ascii(name).encode()).hexdigest()[:12])


def settle(path: str) -> None:
    """What was written to the file system of a file outlives a power cut, as the mark will: if that does not take too long."""
    thread = started(sync, path)
    if thread:
        thread.join(PATIENCE)


def sync(path: str) -> None:
    # To note in the mark during which start of a machine it was made would not do: of a cache others cannot tell a crashed
    # machine from one that runs. One call for all costs 0.2 s after 512 MB; an fsync each, minutes after a million files.
    try:
        import ctypes

        with open(path) as file:
            ctypes.CDLL(None).syncfs(file.fileno())
    except (ImportError, AttributeError, OSError):
        os.sync()  # the same for all disks


def read(path: str) -> str:
    """What a small file of ours holds; "" when there is none."""
    try:
        return private.read(path, LARGEST_MARK).decode("utf-8", "surrogateescape")
    except (OSError, UnicodeDecodeError):
        return ""


def is_ours(path: str) -> bool:
    """True for a file or folder of this user or of root; links are not followed, as no entry is one."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return not stat.S_ISLNK(found.st_mode) and private.is_ours(found, os.path.dirname(path))
