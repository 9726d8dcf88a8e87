"""The record that a full run leaves for the next ones: the configuration's values, the runtime
they led to, the CDI specs.

Written by root only, and believed only from root: with the text of the configuration in it, so that
a changed or restored file is noticed. The shell front reads a part of the same memory, in a file of
its own (front.py).
"""

import marshal
import posix

from . import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .settings import Settings

OTHERS_MAY_WRITE = 0o022
SPECS_LIMIT = 1 << 20


class Memory:
    """The memory at that place; "" is nowhere. `record` is what the last run left, None when it
    left nothing usable.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self.record: Any = recalled(place + ".memory") if place else None

    def values(self, path: str, text: "str | None") -> "dict[str, Any] | None":
        if self.record and self.record[:2] == (path, text):
            return dict(self.record[2])
        return None

    def keep(
        self,
        settings: "Settings",
        values: "dict[str, Any]",
        search: str,
        program: str,
        missed: "list[str]",
    ) -> None:
        """Note this run, unless it is what is noted already."""
        record = (settings.path, settings.text, values, search, program, missed)
        if (
            not self.place
            or posix.geteuid() != 0
            or (record == self.record and is_ours(self.place))
        ):
            return
        from . import front

        try:
            write(self.place, front.snippet(settings, search, program, missed).encode())
            write(self.place + ".memory", marshal.dumps(record))
        except OSError:
            return  # a read-only system: everything works, a little slower


class Specs:
    """CDI specs that were read and judged before, by their path and all of their text."""

    def __init__(self, place: str = "") -> None:
        self.file = place + ".specs" if place else ""
        self.known: dict[str, tuple[bytes, Any]] = (recalled(self.file) if place else None) or {}
        self.used: dict[str, tuple[bytes, Any]] = {}

    def get(self, path: str, content: bytes) -> "dict[str, Any] | None":
        """The spec that this very text was; None when it has to be read."""
        entry = self.known.get(path)
        if not entry or entry[0] != content:
            return None
        self.used[path] = entry
        return entry[1]

    def note(self, path: str, content: bytes, spec: "dict[str, Any]") -> None:
        self.used[path] = (content, spec)

    def keep(self) -> None:
        """Remember what this run used, and nothing older."""
        if not self.file or posix.geteuid() != 0 or self.used == self.known:
            return
        content = marshal.dumps(self.used)
        if len(content) > SPECS_LIMIT:
            return
        try:
            write(self.file, content)
        except OSError:
            return


def recalled(file: str) -> "Any":
    """A record that root wrote and nobody else can have changed or put there."""
    if not is_ours(paths.parent(file)):
        return None
    try:
        descriptor = posix.open(file, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NOFOLLOW)
    except OSError:
        return None
    try:
        seen = posix.fstat(descriptor)
        if seen.st_uid or seen.st_mode & OTHERS_MAY_WRITE:
            return None
        return marshal.loads(posix.read(descriptor, seen.st_size))
    except (OSError, ValueError, EOFError, TypeError):
        return None
    finally:
        posix.close(descriptor)


def keep_record(file: str, record: "Any") -> None:
    """Note a record for the runs to come, where root runs this and the place can be written."""
    if posix.geteuid() != 0:
        return
    try:
        write(file, marshal.dumps(record))
    except OSError:
        return


def is_ours(path: str) -> bool:
    """There, and only root can have changed it."""
    try:
        seen = posix.lstat(path)
    except OSError:
        return False
    return not seen.st_uid and not seen.st_mode & OTHERS_MAY_WRITE


def write(target: str, content: bytes) -> None:
    """In one step. Nothing is left where others could put something else in its place."""
    folder = paths.parent(target)
    paths.make_folders(paths.parent(folder))
    paths.make_folders(
        folder, 0o700
    )  # the shell sees no modes: nobody else gets as far as the files
    if not is_ours(folder):
        return posix.unlink(target)
    draft = f"{target}.{posix.getpid()}"
    descriptor = posix.open(
        draft,
        posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC | posix.O_NOFOLLOW,
        0o644,
    )
    try:
        posix.write(descriptor, content)
    finally:
        posix.close(descriptor)
    posix.rename(draft, target)
