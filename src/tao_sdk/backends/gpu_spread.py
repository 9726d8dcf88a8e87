"""GPU spread: how `gpu_count` and `num_nodes` together place a job's GPUs on nodes. Pure.

The documents have one rule for every platform with several nodes: with num_nodes, gpu_count is per
node; without it, gpu_count is the total.
"""

from __future__ import annotations

import math

from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.model.spec import JobSpec

NO_GPU_ADVICE = "Choose nodes that have GPUs, or say gpu_count: 0."


def spread_gpus(spec: JobSpec, largest: int, where: str = "here") -> tuple[int, int]:
    """Return (nodes, GPUs per node) for nodes of at most `largest` GPUs. Raises SpecError.

    A gpu_count of -1 means all GPUs of the largest node. A total is spread evenly over as few
    nodes as possible. `where` is part of an error's sentence, such as `of these partitions`.
    """
    count = largest if spec.gpu_count < 0 else spec.gpu_count
    per_node = spec.num_nodes is not None or not largest
    if per_node and count > largest:
        raise too_many_gpus(count, largest, where)
    if spec.num_nodes is not None:
        return spec.num_nodes, count
    if count <= largest:
        return 1, count
    nodes = math.ceil(count / largest)
    if count % nodes:
        raise uneven_gpus(count, nodes, largest)
    return nodes, count // nodes


def too_many_gpus(count: int, largest: int, where: str = "here") -> SpecError:
    what = f"gpu_count is {count}, which is per node."
    if not largest:
        return FieldError("gpu_count", what, f"No node {where} has one.", NO_GPU_ADVICE)
    return FieldError(
        "gpu_count",
        what,
        f"The largest node {where} has {largest} GPUs.",
        f"With num_nodes ask for at most {largest}: gpu_count is the total only without num_nodes.",
    )


def fewer_nodes(nodes: int, gpus: int) -> str:
    """The advice for a job that gets at most so many nodes: `--nodes 2 --gpus 8`, as the command
    takes it. `gpus` are those on each node.
    """
    if not gpus:
        return f"Use --nodes {nodes}."
    return f"Use --nodes {nodes} --gpus {gpus} ({nodes * gpus} GPUs in all), or fewer."


def uneven_gpus(count: int, nodes: int, largest: int) -> SpecError:
    fewer = next(total for total in range(count - 1, 0, -1) if is_even(total, largest))
    more = next(total for total in range(count + 1, count * 2) if is_even(total, largest))
    return SpecError(
        f"{count} GPUs do not spread evenly over {nodes} nodes of {largest}.",
        "Every node of a job has as many as the others.",
        f"Ask for {fewer} ({describe_spread(fewer, largest)}) or {more} "
        f"({describe_spread(more, largest)}), or say num_nodes yourself.",
    )


def is_even(count: int, largest: int) -> bool:
    """True if `count` GPUs spread evenly over the fewest nodes of `largest` GPUs."""
    return count % math.ceil(count / largest) == 0


def describe_spread(count: int, largest: int) -> str:
    """Text such as `2 x 6`: nodes, and GPUs per node."""
    nodes = math.ceil(count / largest)
    return f"{nodes} x {count // nodes}"
