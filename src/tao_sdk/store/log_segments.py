"""Log segments: the files of a log's copy. They are plain while the copy grows, and compressed once
its job is over.

A compressed segment is gzip (zcat prints it), in members of at most BLOCK bytes of the log. The
header of each member says how long it is, so that any place in the segment is found and read
without unpacking the members before it.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

BLOCK = 1024 * 1024
LONGEST = 2 * BLOCK  # a member; deflate adds a little to what it cannot compress
LEVEL = 4
GZ = ".gz"
ASIDE = "new-"  # the start of a compressed segment's name while it is written
# A gzip header (RFC 1952) with an extra field TA: the member's length, and how many bytes of the
# log are in it.
HEADER = struct.Struct("<4s4x2sHccHII")
BEGIN, SYSTEM, EXTRA = b"\x1f\x8b\x08\x04", b"\x00\xff", (12, b"T", b"A", 8)
TRAILER = struct.Struct("<II")


def size_of(path: Path) -> int:
    """The number of bytes of the log in a segment."""
    if path.suffix != GZ:
        return path.stat().st_size
    with path.open("rb") as file:
        return sum(size for _, _, size in read_members(file))


def read_segment(path: Path, offset: int, limit: int) -> bytes:
    """Return at most `limit` bytes from `offset` on; at least one if there is one."""
    with path.open("rb") as file:
        if path.suffix != GZ:
            file.seek(offset)
            return file.read(limit)
        for start, length, size in read_members(file):
            if offset < size:
                return unpack_member(file, start, length, size)[offset : offset + limit]
            offset -= size
    return b""


def compress(path: Path) -> None:
    """Replace a plain segment by a compressed one. Until that is whole, the plain one stays, and
    counts.
    """
    aside = path.with_name(f"{ASIDE}{path.name}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with path.open("rb") as plain, os.fdopen(os.open(aside, flags, 0o600), "wb") as file:
        while data := plain.read(BLOCK):
            file.write(pack_member(data))
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path.with_name(f"{path.name}{GZ}"))
    path.unlink()


def pack_member(data: bytes) -> bytes:
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = deflate.compress(data) + deflate.flush()
    length = HEADER.size + len(packed) + TRAILER.size
    head = HEADER.pack(BEGIN, SYSTEM, *EXTRA, length, len(data))
    return head + packed + TRAILER.pack(zlib.crc32(data), len(data))


def read_members(file: IO[bytes]) -> Iterator[tuple[int, int, int]]:
    """Yield (start, length, bytes of the log) of each member. Raises OSError for a file of another
    kind.
    """
    start, end = 0, os.fstat(file.fileno()).st_size
    while start < end:
        file.seek(start)
        head = file.read(HEADER.size)
        if len(head) < HEADER.size or not head.startswith(BEGIN):
            raise damaged(file)
        length, size = HEADER.unpack(head)[-2:]
        if length <= HEADER.size + TRAILER.size or not 0 < size <= BLOCK:
            raise damaged(file)
        yield start, length, size
        start += length


def unpack_member(file: IO[bytes], start: int, length: int, size: int) -> bytes:
    file.seek(start + HEADER.size)
    packed = file.read(min(length, LONGEST) - HEADER.size - TRAILER.size)
    try:
        data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, size)
    except zlib.error:
        raise damaged(file) from None
    checksum, _ = TRAILER.unpack(file.read(TRAILER.size).ljust(TRAILER.size))
    if len(data) != size or checksum != zlib.crc32(data):
        raise damaged(file)
    return data


def damaged(file: IO[bytes]) -> OSError:
    return OSError(errno.EIO, "The compressed copy of a log is damaged", file.name)
