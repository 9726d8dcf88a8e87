"""Checksums of wholes from those of their parts."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tao_sdk.net import crc

SIZES = st.sampled_from([0, 1, 8, 8, 8, 13, 4096])
PARTS = st.lists(
    SIZES.flatmap(
        lambda size: st.one_of(st.just(bytes(size)), st.binary(min_size=size, max_size=size))
    )
)


@pytest.mark.slow
@given(PARTS)
def test_the_parts_checksums_make_that_of_the_whole(parts):
    assert crc.join_crc32((zlib.crc32(part), len(part)) for part in parts) == zlib.crc32(
        b"".join(parts)
    )


def test_the_one_part_of_a_small_file_costs_nothing_more(monkeypatch):
    monkeypatch.setattr(crc, "power_of_x", None)
    assert crc.join_crc32([(zlib.crc32(b"small"), 5)]) == zlib.crc32(b"small")
