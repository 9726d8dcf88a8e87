"""What a full run leaves for the next ones: the values of the configuration, and which runtime they led to.

Written by root only, and believed only from root: with the text of the configuration in it, so that a changed or
restored file is noticed. The shell front reads a part of the same memory, in a file of its own (front.py).
"""

import marshal
import posix

from . import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .settings import Settings

OTHERS_MAY_WRITE = 0o022


class Memory:
    """The memory at that place; "" is nowhere. `record` is what the last run left, None when it left nothing usable."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.record: Any = recalled(place + ".memory") if place else None

    def values(self, path: str, text: "str | None") -> "dict[str, Any] | None":
        if self.record and self.record[:2] == (path, text):
            return dict(self.record[2])
        return None

    def keep(
        self, settings: "Settings", values: "dict[str, Any]", search: str, program: str, missed: "list[str]"
    ) -> None:
        """Note this run, unless it is what is noted already."""
        record = (settings.path, settings.text, values, search, program, missed)
        if not self.place or posix.geteuid() != 0 or (record == self.record and paths.exists(self.place)):
            return
        from . import front

        try:
            write(self.place, front.snippet(settings, search, program, missed).encode())
            write(self.place + ".memory", marshal.dumps(record))
        except OSError:
            return  # a read-only system: everything works, a little slower


def recalled(file: str) -> "Any":
    """A record that root wrote and nobody else can have changed."""
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


def write(target: str, content: bytes) -> None:
    paths.make_folders(paths.parent(target))
    draft = f"{target}.{posix.getpid()}"
    descriptor = posix.open(
        draft, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC | posix.O_NOFOLLOW, 0o644
    )
    try:
        posix.write(descriptor, content)
    finally:
        posix.close(descriptor)
    posix.rename(draft, target)
