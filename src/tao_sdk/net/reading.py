"""One source on its way into one file: which of its parts are there, and where they lie until it
has its name.
"""

from __future__ import annotations

import os
import threading
from hashlib import sha256

from tao_sdk.net import crc
from tao_sdk.net.atomic import PART_END

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tao_sdk.net.hashing import Hashing
    from tao_sdk.net.source import Source

PART = 8 << 20  # bytes that are asked for, and noted, at once


class Reading:
    """One source on its way into one file."""

    def __init__(self, source: Source, folder: str, number: int = 1) -> None:
        self.source, self.number = source, number
        self.path = os.path.join(folder, source.path)
        self.temporary = temporary_path(self.path, source.version)
        self.parts: dict[int, tuple[int, int]] = {}  # start -> length, crc32
        self.digest = ""  # of the reading before, where there was one
        self.hashing: Hashing | None = (
            None  # takes the checksum while the parts come, where they are several
        )
        self.looked = threading.Lock()  # held for good by the one who asks which checksum that is
        self.opening = threading.Lock()  # held while the file is made
        self.fd = -1
        self.writers = 0
        self.stale = False

    def missing_parts(self) -> Iterator[tuple[int, int]]:
        """The parts [start, stop) that are not there yet; a file without bytes is one part without
        any.
        """
        size = self.source.size
        if not self.source.known:
            yield 0, size
            return
        for start in range(0, max(1, size), PART):
            if start not in self.parts:
                yield start, min(size, start + PART)

    @property
    def is_complete(self) -> bool:
        """True if all bytes have come."""
        size = self.source.size
        if not self.source.known:
            return 0 in self.parts
        return len(self.parts) == max(1, -(-size // PART))

    def on_disk(self) -> int:
        """Bytes that it takes on the disk already, those of broken-off parts among them."""
        try:
            return os.stat(self.temporary).st_blocks * 512
        except OSError:
            return 0

    @property
    def is_single(self) -> bool:
        """True if the file comes in one part."""
        return self.source.size <= PART

    def end_from(self, at: int) -> int:
        """Where the bytes end that follow without a gap from `at`, the start of a part."""
        while at in self.parts and not self.stale:
            at += max(1, self.parts[at][0])
        return at

    @property
    def crc32(self) -> int:
        return crc.join_crc32(
            (checksum, length) for _, (length, checksum) in sorted(self.parts.items())
        )


def temporary_path(path: str, version: str) -> str:
    """The hidden name of a version of a file while it is on its way."""
    folder, name = os.path.split(path)
    mark = sha256((f"{name}@{version}").encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return os.path.join(folder, f".{name[:48]}.{mark}{PART_END}")
