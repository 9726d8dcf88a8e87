"""The name a shared library goes by (DT_SONAME), read from its file."""

import struct


class NotElf(ValueError):
    """No 64-bit little-endian ELF file, or a broken one."""


DYNAMIC, LOAD = 2, 1
STRTAB, SONAME = 5, 14


def soname(content: bytes) -> str:
    try:
        return _soname(content)
    except (struct.error, IndexError):
        raise NotElf("broken ELF file") from None


def _soname(content: bytes) -> str:
    if content[:6] != b"\x7fELF\x02\x01":
        raise NotElf("no 64-bit little-endian ELF file")
    (start,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", content, start + at * size) for at in range(count)]
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
