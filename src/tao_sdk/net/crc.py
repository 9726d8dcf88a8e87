"""Checksums: the CRC-32 of a whole, joined from those of its parts, so that parts can be read or
sent in parallel; and checksums of other kinds. They verify data, and protect no secret.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

POLYNOMIAL = 0xEDB88320  # zlib's, bits reversed: the highest bit is the constant term
ONE = 1 << 31


def new_checksum(kind: str) -> Any:
    """A new checksum object. Raises ValueError if this Python lacks the kind: FIPS may forbid MD5
    for any purpose.
    """
    import hashlib
    import sys

    new: Any = hashlib.new
    return new(kind, usedforsecurity=False) if sys.version_info >= (3, 9) else new(kind)


def join_crc32(parts: Iterable[tuple[int, int]]) -> int:
    """The CRC-32 of consecutive parts, each given as (its CRC-32, its length in bytes)."""
    whole = shift = 0
    before = -1
    for crc, length in parts:
        if whole and length != before:
            shift, before = power_of_x(8 * length), length  # most parts are of one length
        whole = multiply_polynomials(shift, whole) ^ crc
    return whole


def power_of_x(exponent: int) -> int:
    """x to the power of `exponent`, modulo the polynomial."""
    result, square = ONE, ONE >> 1
    while exponent:
        if exponent & 1:
            result = multiply_polynomials(square, result)
        square = multiply_polynomials(square, square)
        exponent >>= 1
    return result


def multiply_polynomials(one: int, other: int) -> int:
    """The product of two polynomials over GF(2), modulo the polynomial."""
    product = 0
    while one:
        if one & ONE:
            product ^= other
        one = one << 1 & 0xFFFFFFFF
        other = other >> 1 ^ (POLYNOMIAL if other & 1 else 0)
    return product
