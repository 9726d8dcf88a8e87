"""A container's lists of library folders, /etc/ld.so.conf and what it includes: read with bounds,
and added to.
"""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from collections.abc import Iterator

from .. import paths
from ..errors import RuntimeFault, reason
from .hook_root import Root

MAIN, DROP_INS = "/etc/ld.so.conf", "/etc/ld.so.conf.d"
FILES_LIMIT = 256
# Of all lists together: their folders become the words of a command. A name that a pattern is tried
# on counts too.
TEXT_LIMIT = 1 << 18
PATH_LIMIT = 4096


def note(box: Root, folders: list[str], name: str) -> None:
    """Write the folders down where the container's own ldconfig will find them too."""
    box.write(
        DROP_INS,
        f"{name}-{os.getpid()}.conf",
        "".join(f"{one}\n" for one in dict.fromkeys(folders)).encode(),
    )
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
                yield from self.included(paths.parent(path), more)
            elif word != "hwcap" and is_folder(line):
                yield line.partition("=")[0].rstrip()

    def included(self, folder: str, patterns: list[str]) -> Iterator[str]:
        for pattern in patterns:
            for found in self.matches(
                pattern if pattern.startswith("/") else paths.join(folder, pattern)
            ):
                yield from self.folders(found)

    def lines(self, path: str) -> list[str]:
        """No lines of a list that is no plain file or too long: the container starts without its
        folders.
        """
        if path in self.read or len(self.read) >= FILES_LIMIT or self.left <= 0:
            return []
        self.read.add(path)
        try:
            content = self.box.read(path, self.left)
        except FileNotFoundError:
            return []
        except (OSError, RuntimeFault) as error:
            words = reason(error) if isinstance(error, OSError) else str(error)
            print(
                f"update-ldcache: {path!r} of the container is left out: {words}", file=sys.stderr
            )
            return []
        self.left -= len(content)
        lines = content.decode(errors="surrogateescape").split("\n")
        return [line.partition("#")[0].strip() for line in lines]

    def matches(self, pattern: str) -> list[str]:
        """Only its last part may hold glob characters, as in every list that distributions ship."""
        folder, name = paths.parent(pattern), paths.base(pattern)
        if self.left <= 0 or "\0" in pattern:
            return []
        if not any(character in name for character in "*?["):
            return [pattern]
        try:
            shown = sorted(one for one in self.box.names(folder) if not one.startswith("."))
            self.left -= len(shown)
            return [paths.join(folder, one) for one in fnmatch.filter(shown, name)]
        except (OSError, RuntimeFault, re.error):
            return []


def is_folder(line: str) -> bool:
    return line.startswith("/") and "\0" not in line and len(os.fsencode(line)) < PATH_LIMIT
