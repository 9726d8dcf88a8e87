"""The parsers of foreign words take their seeds and a little noise; `make fuzz` searches for
longer.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support import targets


@pytest.mark.slow
@pytest.mark.parametrize("name", targets.TARGETS)
def test_a_parser_takes_its_seeds_and_noise(name: str) -> None:
    target = targets.TARGETS[name]
    for seed in targets.SEEDS[name]:
        target(seed)

    @settings(max_examples=60, suppress_health_check=list(HealthCheck), database=None)
    @given(
        st.sampled_from(targets.SEEDS[name]),
        st.integers(0, 400),
        st.integers(0, 9),
        st.binary(max_size=6),
    )
    def changed(seed: bytes, at: int, gone: int, new: bytes) -> None:
        target(seed[:at] + new + seed[at + gone :])

    changed()
