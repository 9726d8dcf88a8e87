"""Just enough of protobuf's wire format to talk to containerd: messages as (field, value) pairs,
both ways.
"""

from __future__ import annotations

Value = "int | str | bytes | list[tuple[int, object]]"


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def encode(fields: list[tuple[int, object]]) -> bytes:
    """A nested list is a message; a field may come more than once."""
    out = b""
    for field, value in fields:
        if isinstance(value, int):
            out += varint(field << 3) + varint(value)
        else:
            content = (
                encode(value)
                if isinstance(value, list)
                else value.encode()
                if isinstance(value, str)
                else bytes(value)
            )  # type: ignore[call-overload]
            out += varint(field << 3 | 2) + varint(len(content)) + content
    return out


def decode(content: bytes) -> dict[int, object]:
    """The last value of each field: a number, or bytes."""
    found: dict[int, object] = {}
    at = 0

    def number() -> int:
        nonlocal at
        shift = value = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(content):
        key = number()
        if key & 7 == 0:
            found[key >> 3] = number()
        else:
            size = number()
            found[key >> 3] = content[at : at + size]
            at += size
    return found
