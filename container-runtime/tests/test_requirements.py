"""NVIDIA_REQUIRE_*: blank is OR, comma is AND, values are ANDed."""

from __future__ import annotations

import pytest

from nvidia_container_runtime import requirements

HERE = {"cuda": "12.2", "arch": "8.6"}


def holds(*values: str, properties: dict[str, str] | None = None) -> bool:
    try:
        requirements.verify(values, HERE if properties is None else properties)
    except requirements.RequirementFault:
        return False
    return True


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("cuda>=12.2", True), ("cuda>=12.3", False), ("cuda>12.2", False), ("cuda<=12.2", True), ("cuda<13", True), ("cuda=12.2", True),
        ("cuda=12.2.0", True), ("cuda!=12.2", False), ("cuda>=9", True), ("cuda>=09.01.02", True), ("cuda>=v12", True),
        ("cuda>=13 arch>=8", True), ("cuda>=12,arch>=8", True), ("cuda>=12,arch>=9", False), ("cuda>=13,arch>=8 cuda=12.2", True),
        ("bogus>=1", True), ("bogus>=1,cuda>=13", False), ("bogus>=1 cuda>=13", False), ("cuda>=12.2-rc.1", True), ("cuda<12.2-rc.1", False),
        ("", True), ("cuda>=2", True), ("arch>=10", False), ("brand=Tesla", False), ("brand!=Tesla", True),
        ("driver>=450.80.02", False),
    ],
)  # fmt: skip
def test_a_requirement(value: str, expected: bool) -> None:
    assert holds(value) is expected


def test_several_values_must_all_hold() -> None:
    assert holds("cuda>=12", "arch>=8")
    assert not holds("cuda>=12", "arch>=9")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("cuda>=13.0", "unsatisfied condition: cuda>=13.0 (cuda=12.2)"),
        ("cuda>=13,arch>=9 cuda>=14", "cuda>=13&&arch>=9||cuda>=14 not met"),
        ("cuda >=11.6", "invalid constraint: cuda"),
        ("cuda>=twelve", "invalid version string: invalid semantic version"),
        ("cuda>=1.2.3.4", "invalid version string: invalid semantic version"),
        ("driver>=450", "invalid value for driver: invalid semantic version"),
    ],
)
def test_what_a_failure_says(value: str, text: str) -> None:
    with pytest.raises(requirements.RequirementFault) as caught:
        requirements.verify([value], HERE)
    assert str(caught.value) == text


def test_an_error_in_a_later_value_is_found_before_anything_is_decided() -> None:
    with pytest.raises(requirements.RequirementFault, match="invalid constraint: broken"):
        requirements.verify(["cuda>=99", "broken"], HERE)
