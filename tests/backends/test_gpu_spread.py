"""How the GPUs of a job lie on nodes."""

from __future__ import annotations

import pytest

from tao_sdk.backends.gpu_spread import spread_gpus
from tao_sdk.model.errors import SpecError
from tao_sdk.model.spec import JobSpec


def job(gpu_count: int, num_nodes: int | None = None) -> JobSpec:
    return JobSpec(command="true", gpu_count=gpu_count, num_nodes=num_nodes)


@pytest.mark.parametrize(
    ("asked", "nodes_and_gpus"),
    [
        (job(0), (1, 0)),
        (job(8), (1, 8)),
        (job(12), (2, 6)),
        (job(-1), (1, 8)),
        (job(4, num_nodes=2), (2, 4)),
        (job(-1, num_nodes=3), (3, 8)),
    ],
    ids=str,
)
def test_a_total_takes_the_fewest_nodes_and_with_num_nodes_it_is_per_node(
    asked: JobSpec, nodes_and_gpus: tuple[int, int]
) -> None:
    assert spread_gpus(asked, largest=8) == nodes_and_gpus


@pytest.mark.parametrize(
    ("asked", "largest", "words"),
    [
        (job(9, num_nodes=2), 8, "The largest node here has 8 GPUs"),
        (job(1), 0, "No node here has one"),
        (job(17), 8, r"Ask for 16 \(2 x 8\) or 18 \(3 x 6\)"),
    ],
    ids=str,
)
def test_what_no_node_can_give_is_refused_with_what_can_be_asked_for(
    asked: JobSpec, largest: int, words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        spread_gpus(asked, largest)
