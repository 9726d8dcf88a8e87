"""A container's lists of library folders, /etc/ld.so.conf and what it includes: read with bounds, and added to."""

from __future__ import annotations

import fnmatch
import os
import sys
from collections.abc import Iterator

from .. import paths
from ..errors import RuntimeFault, reason
from .hook_root import Root

MAIN, DROP_INS = "/etc/ld.so.conf", "/etc/ld.so.conf.d"
FILES_LIMIT = 256
TEXT_LIMIT = 1 << 18  # of all lists together: their folders become the words of a command
PATH_LIMIT = 4096


def note(box: Root, folders: list[str], name: str) -> None:
    """Write the folders down where the container's own ldconfig will find them too."""
    box.write(DROP_INS, f"{name}-{os.getpid()}.conf", "".join(f"{one}\n" for one in dict.fromkeys(folders)).encode())
    if not box.has(MAIN):
        box.write(paths.parent(MAIN), paths.base(MAIN), f"include {DROP_INS}/*.conf\n".encode())


def folders(box: Root) -> list[str]:
    """The folders that the container's lists name, in their order."""
    return list(dict.fromkeys(Lists(box).folders(MAIN)))


class Lists:
    """One reading of all lists: none is read twice, and all together are of limited length."""

    def __init__(self, box: Root) -> None:
        self.box = box
        self.read: set[str] = set()
        self.left = TEXT_LIMIT

    def folders(self, path: str) -> Iterator[str]:
        for line in self.lines(path):
            word, *more = line.split() or [""]
            if word == "include":
                for pattern in more:
                    for found in self.matches(
                        paths.join(paths.parent(path), pattern) if pattern[0] != "/" else pattern
                    ):
                        yield from self.folders(found)
            elif word != "hwcap" and is_folder(line):
                yield line.partition("=")[0].rstrip()

    def lines(self, path: str) -> list[str]:
        """No lines of a list that is no plain file or too long: the container starts without its folders."""
        if path in self.read or len(self.read) >= FILES_LIMIT:
            return []
        self.read.add(path)
        try:
            content = self.box.read(path, self.left)
        except FileNotFoundError:
            return []
        except (OSError, RuntimeFault) as error:
            words = reason(error) if isinstance(error, OSError) else str(error)
            print(f"update-ldcache: {path!r} of the container is left out: {words}", file=sys.stderr)
            return []
        self.left -= len(content)
        lines = content.decode(errors="surrogateescape").split("\n")
        return [line.partition("#")[0].strip() for line in lines]

    def matches(self, pattern: str) -> list[str]:
        """Only its last part may hold glob characters, as in every list that distributions ship."""
        folder, name = paths.parent(pattern), paths.base(pattern)
        if not any(character in name for character in "*?["):
            return [pattern]
        try:
            names = self.box.names(folder)
        except (OSError, RuntimeFault):
            return []
        shown = [one for one in names if not one.startswith(".")]
        return [paths.join(folder, one) for one in sorted(fnmatch.filter(shown, name))]


def is_folder(line: str) -> bool:
    return line.startswith("/") and "\0" not in line and len(os.fsencode(line)) < PATH_LIMIT
