"""Spec hardware: compare the GPUs and nodes that a spec tells its program with those of the job,
and its shared memory with its memory. Pure.

Here: the keys that TAO's programs read, in a job that names its own command. Not here: a model's
own keys, which follow the job (skills/model_job.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from tao_sdk.model.finding import Finding, warning
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.units import parse_size

GPUS, IDS, NODES = "num_gpus", "gpu_ids", "num_nodes"
# sections of a spec that belong to an action, which a command names
ACTIONS = (
    *("train", "evaluate", "inference", "export", "gen_trt_engine", "quantize", "prune"),
    *("distill", "retrain", "dataset_convert", "calibrate"),
)
MORE_GPUS, IDLE_GPUS, MORE_NODES = "spec.gpus", "spec.gpus_idle", "spec.nodes"
SHM = "spec.shm"
LITTLE_SHM = 1 << 30  # bytes
LEAVE_OUT = "The program would fail, or wait for what it does not get."


class ToldHardware(NamedTuple):
    """The hardware that one section of a spec tells the program. 0: it says nothing."""

    key: str  # where it stands, such as train.num_gpus
    gpus: int
    node_key: str
    nodes: int


def hardware_findings(spec: JobSpec, nodes: int) -> Iterator[Finding]:
    """Warn if the spec contradicts the job, which runs on `nodes`. A job without GPUs, or with all
    of them, gets no warning.
    """
    if spec.gpu_count < 1:
        return
    gpus = spec.gpu_count if spec.num_nodes else spec.gpu_count // max(nodes, 1)
    for told in told_hardware(spec):
        yield from gpu_findings(told, gpus)
        if told.nodes > nodes:
            yield warning(
                MORE_NODES,
                f"{told.node_key} is {told.nodes}; the job runs on {nodes} nodes.",
                LEAVE_OUT,
                f"Use num_nodes: {told.nodes}, or {told.node_key}: {nodes}.",
            )


def shared_memory_findings(spec: JobSpec) -> Iterator[Finding]:
    """Warn of a /dev/shm that is too small for data loaders, or larger than the memory that it is
    part of.
    """
    if not spec.shm_size:
        return
    size = parse_size(spec.shm_size)
    if spec.gpu_count and size < LITTLE_SHM:
        yield warning(
            SHM,
            f"shm_size is {spec.shm_size}; the data loaders of a training share more in /dev/shm.",
            "A loader that finds it full ends with a bus error.",
            "Use shm_size: 8g, or leave it out.",
        )
    if spec.memory and size > parse_size(spec.memory):
        yield warning(
            SHM,
            f"shm_size is {spec.shm_size}, and memory is {spec.memory}.",
            "What lies in /dev/shm counts as memory: the job would be killed before it is full.",
            "Ask for more memory than shm_size.",
        )


def gpu_findings(told: ToldHardware, gpus: int) -> Iterator[Finding]:
    both = f"Use gpu_count: {told.gpus}, or {told.key} for {gpus}."
    what = f"{told.key} is for {told.gpus} GPUs; the job has {gpus}"
    if told.gpus > gpus:
        yield warning(MORE_GPUS, f"{what}.", LEAVE_OUT, both)
    elif 0 < told.gpus < gpus:
        yield warning(IDLE_GPUS, f"{what}.", "The others would be idle.", both)


def told_hardware(spec: JobSpec) -> Iterator[ToldHardware]:
    """Yield the hardware in the sections that the command uses. The keys may also stand outside of
    a section, or be args.
    """
    for prefix, section in sections_of(spec):
        gpus, ids, nodes = number(section.get(GPUS)), section.get(IDS), section.get(NODES)
        listed = len(cast("list[Any]", ids)) if isinstance(ids, list) else 0
        key = GPUS if gpus >= listed else IDS
        if gpus or listed or number(nodes):
            yield ToldHardware(prefix + key, max(gpus, listed), prefix + NODES, number(nodes))


def sections_of(spec: JobSpec) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (the start of the section's keys, the section)."""
    specs: Mapping[str, Any] = spec.specs or {}
    for top in (specs, spec.args or {}):
        yield "", top
    named = {word for word in re.split(r"\W+", spec.command) if word in (*ACTIONS, *specs)}
    for name, section in specs.items():
        if isinstance(section, Mapping) and (name in named or not named):
            yield f"{name}.", cast("Mapping[str, Any]", section)


def number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
