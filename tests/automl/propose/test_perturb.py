"""Perturbation: each kind of parameter moves a step, and stays allowed."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tao_automl.propose.perturb import perturbed
from tao_automl.space.search_block import read_parameters

SPACE = read_parameters(
    {
        "lr": {"min": 1e-5, "max": 1e-1},
        "zero": {"min": 0.0, "max": 1.0},
        "layers": {"min": 1, "max": 8},
        "size": {"choices": [16, 32, 64, 128], "ordered": True},
        "opt": ["adam", "sgd", "lamb"],
        "momentum": {"min": 0.1, "max": 0.9, "when": {"opt": "sgd"}},
    }
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=6, max_size=6), st.integers(0, 2**31))
def test_a_perturbed_configuration_is_allowed_and_near(point: list[float], seed: int) -> None:
    parent = SPACE.decode(point)
    found = perturbed(SPACE, parent, 1.2, Random(seed))
    assert SPACE.check(found) == found
    assert abs(found["layers"] - parent["layers"]) <= 2
    sizes = [16, 32, 64, 128]
    assert abs(sizes.index(found["size"]) - sizes.index(parent["size"])) <= 1
    assert 1 / 1.21 <= found["lr"] / parent["lr"] <= 1.21
    assert ("momentum" in found) is (found["opt"] == "sgd")


def test_every_kind_of_parameter_moves() -> None:
    parent = SPACE.decode([0.4] * 6)
    moved: set[str] = set()
    for seed in range(60):
        found = perturbed(SPACE, parent, 1.2, Random(seed))
        moved |= {key for key in parent if found.get(key) != parent[key]}
    assert moved == set(parent)
