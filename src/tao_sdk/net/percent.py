"""Percent-encoding of addresses as signatures require it: all bytes but unreserved ones, in upper
case.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN = frozenset("-_.~").union(filter(str.isalnum, map(chr, range(128))))
AS_IS = [chr(byte) if chr(byte) in PLAIN else f"%{byte:02X}" for byte in range(256)]


def quote(text: str, keep: str = "") -> str:
    """Percent-encode all but the unreserved characters and those in `keep` (ASCII)."""
    octets = text.encode("utf-8", "surrogateescape")
    return "".join([chr(byte) if chr(byte) in keep else AS_IS[byte] for byte in octets])


def path(text: str) -> str:
    """Percent-encode a path; its slashes stay."""
    return quote(text, "/")


def query(values: Mapping[str, str]) -> str:
    """The query string of these values, sorted as a signature requires."""
    pairs = [(quote(name), quote(value)) for name, value in values.items()]
    return "&".join(map("=".join, sorted(pairs)))


def unquote(text: str) -> str:
    """Decode percent-encoded bytes. Invalid sequences stay as they are."""
    first, *rest = text.encode("utf-8", "surrogateescape").split(b"%")
    out = [first]
    for each in rest:
        try:
            out.append(bytes([int(each[:2], 16)]) + each[2:] if len(each) > 1 else b"%" + each)
        except ValueError:
            out.append(b"%" + each)
    return b"".join(out).decode("utf-8", "surrogateescape")
