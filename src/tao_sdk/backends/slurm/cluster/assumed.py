"""Assumed facts: a cluster that does not answer, taken to have what a job asks for. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.facts import Partition, SlurmFacts
from tao_sdk.backends.slurm.images.containers import ENROOT, PYXIS
from tao_sdk.backends.slurm.job.partitions import CLUSTER_DEFAULT
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.model.spec import JobSpec

ANY_NUMBER = 1_000_000  # of nodes: no job asks for more
UNCHECKED = (
    "the cluster did not answer. Its partitions, GPUs, accounts and what runs images there are not "
    "checked."
)


def describe_age(seen_at: datetime) -> str:
    """What a plan says of facts that the cluster told earlier."""
    when = seen_at.astimezone().strftime("%Y-%m-%d %H:%M")
    return f"the cluster did not answer. The plan is made from what it said on {when}."


def assumed_facts(site: Site, options: SlurmOptions, spec: JobSpec, now: datetime) -> SlurmFacts:
    """The partitions, the GPUs of a node and the container runtime that the job and the settings
    name; without a named partition the cluster's default.
    """
    site = replace(site, partition=site.partition or CLUSTER_DEFAULT)
    named = options.partition or site.partition
    gpus = largest_gpu_count(site, spec)
    return SlurmFacts(
        site=site,
        seen_at=now,
        base=site.base,
        partitions={each.name: each for each in assumed_partitions(named, gpus)},
        accounting=True,
        pyxis=(options.container_runtime or site.runtime) in ("", PYXIS),
        programs=(ENROOT,),
    )


def largest_gpu_count(site: Site, spec: JobSpec) -> int:
    """GPUs of a node: as the settings say, or more where the job asks for more of each."""
    per_node = spec.gpu_count if spec.num_nodes else 0
    return max(site.gpus_per_node, per_node)


def assumed_partitions(named: str, gpus: int) -> list[Partition]:
    if named == CLUSTER_DEFAULT:
        return [Partition("", ANY_NUMBER, gpus, default=True)]
    names = [name.strip() for name in named.split(",") if name.strip()]
    return [Partition(name, ANY_NUMBER, gpus) for name in names]
