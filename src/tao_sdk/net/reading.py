"""The transfer of one source into one file: its parts so far, and its temporary file."""

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

PART = 8 << 20  # bytes of one request, and of one line in the journal


class Reading:
    """The transfer of one source into one file. `number` counts the tries to read it whole."""

    def __init__(self, source: Source, folder: str, number: int = 1) -> None:
        self.source, self.number = source, number
        self.path = os.path.join(folder, source.path)
        self.temporary = temporary_path(self.path, source.version)
        self.parts: dict[int, tuple[int, int]] = {}  # start -> length, crc32
        self.digest = ""  # of the reading before, if there was one
        self.hashing: Hashing | None = (
            None  # the running checksum, if the file comes in several parts
        )
        self.looked = threading.Lock()  # taken, and never released, by the thread that asks for it
        self.opening = threading.Lock()  # held while the file is created
        self.fd = -1
        self.writers = 0
        self.stale = False

    def missing_parts(self) -> Iterator[tuple[int, int]]:
        """The parts [start, stop) that have not arrived. An empty file is one empty part; a source
        without a known version is one part.
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
        """True if all bytes have arrived."""
        size = self.source.size
        if not self.source.known:
            return 0 in self.parts
        return len(self.parts) == max(1, -(-size // PART))

    def on_disk(self) -> int:
        """The bytes that it already takes on the disk, unfinished parts included."""
        try:
            return os.stat(self.temporary).st_blocks * 512
        except OSError:
            return 0

    @property
    def is_single(self) -> bool:
        """True if the file comes in one part."""
        return self.source.size <= PART

    def end_from(self, at: int) -> int:
        """The offset of the first gap from `at`, the start of a part, on."""
        while at in self.parts and not self.stale:
            at += max(1, self.parts[at][0])
        return at

    @property
    def crc32(self) -> int:
        return crc.join_crc32(
            (checksum, length) for _, (length, checksum) in sorted(self.parts.items())
        )


def temporary_path(path: str, version: str) -> str:
    """The hidden name of one version of a file while it is being fetched."""
    folder, name = os.path.split(path)
    mark = sha256((f"{name}@{version}").encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return os.path.join(folder, f".{name[:48]}.{mark}{PART_END}")
