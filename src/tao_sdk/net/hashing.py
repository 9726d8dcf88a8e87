"""The checksum of a file whose parts arrive in any order, computed meanwhile up to the first gap.

Here: checksums that go from a file's first byte to its last. Not here: CRC-32, which is joined from
those of the parts (crc.py).
"""

from __future__ import annotations

import os
import threading

from tao_sdk.net import crc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 1 << 20
NAMES = {"etag": "md5", "blob": "sha1"}  # kind -> Python's name of its algorithm


class Hashing:
    """The checksum of one file that is being fetched. Thread-safe: one thread hashes, the others
    continue without waiting.
    """

    def __init__(self, kind: str, size: int) -> None:
        """Begin a checksum. Raises ValueError if this Python lacks the kind."""
        self.kind, self.size, self.at = kind, size, 0
        self.made = crc.new_checksum(NAMES.get(kind, kind))
        self.lock = threading.Lock()
        if kind == "blob":
            self.made.update(b"blob %d\0" % size)

    def hash_arrived(self, fd: int, reach: Callable[[int], int]) -> None:
        """Hash the bytes that have arrived, unless another thread does. `reach(at)` returns the
        offset of the first gap from `at` on.
        """
        if self.lock.acquire(blocking=False):
            try:
                self.hash_up_to(fd, reach)
            finally:
                self.lock.release()

    def hash_up_to(self, fd: int, reach: Callable[[int], int]) -> None:
        stop = reach(self.at)
        while self.at < stop:
            data = os.pread(fd, min(BLOCK, stop - self.at), self.at)
            if not data:
                return  # the file became shorter: the checksum will not fit
            self.made.update(data)
            self.at += len(data)
            if self.at == stop:
                stop = reach(self.at)

    def finish_hash(self, fd: int) -> str:
        """The checksum in hex, once all bytes are there."""
        with self.lock:
            self.hash_up_to(fd, lambda _: self.size)
            return str(self.made.hexdigest())
