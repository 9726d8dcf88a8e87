"""The name a shared library goes by (DT_SONAME), read from its file."""

import struct


class NotElf(ValueError):
    """No 64-bit little-endian ELF file, or a broken one."""


DYNAMIC, LOAD, INTERPRETER = 2, 1, 3
STRTAB, SONAME = 5, 14


def soname(content: bytes) -> str:
    try:
        return _soname(content)
    except (struct.error, IndexError):
        raise NotElf("broken ELF file") from None


def is_static(content: bytes) -> bool:
    """True if a program needs no other file to run: no interpreter, which would load libraries for
    it.
    """
    try:
        return all(segment[0] != INTERPRETER for segment in _segments(content))
    except struct.error:
        raise NotElf("broken ELF file") from None


def _segments(content: bytes) -> "list[tuple[int, ...]]":
    if content[:6] != b"\x7fELF\x02\x01":
        raise NotElf("no 64-bit little-endian ELF file")
    (start,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    return [struct.unpack_from("<IIQQQQQQ", content, start + at * size) for at in range(count)]


def _soname(content: bytes) -> str:
    segments = _segments(content)
    table, name = 0, -1
    for segment in segments:
        if segment[0] != DYNAMIC:
            continue
        for at in range(segment[2], segment[2] + segment[5], 16):
            tag, value = struct.unpack_from("<qQ", content, at)
            if tag == STRTAB:
                table = value
            elif tag == SONAME:
                name = value
    if name < 0:
        return ""
    for segment in segments:
        if segment[0] == LOAD and segment[3] <= table < segment[3] + segment[6]:
            begin = table - segment[3] + segment[2] + name
            return content[begin : content.index(b"\0", begin)].decode(errors="replace")
    raise NotElf("no string table")
