"""Assumed facts: if a cluster does not answer, assume that it has what a job asks for. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.facts import Partition, SlurmFacts
from tao_sdk.backends.slurm.images.containers import ENROOT, PYXIS
from tao_sdk.backends.slurm.job.partitions import CLUSTER_DEFAULT, split_names
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.model.spec import JobSpec

ANY_NUMBER = 1_000_000  # of nodes: no job asks for more
UNCHECKED = (
    "the cluster did not answer. Its partitions, GPUs, accounts and what runs images there are not "
    "checked."
)


def describe_age(seen_at: datetime) -> str:
    """A plan's note on facts from an earlier answer of the cluster."""
    when = seen_at.astimezone().strftime("%Y-%m-%d %H:%M")
    return f"the cluster did not answer. The plan is made from what it said on {when}."


def assumed_facts(site: Site, options: SlurmOptions, spec: JobSpec, now: datetime) -> SlurmFacts:
    """Facts with the partitions, GPUs per node and container runtime from the job and the settings.

    Without a named partition, the cluster's default partition is assumed.
    """
    site = replace(site, partition=site.partition or CLUSTER_DEFAULT)
    partitions = assumed_partitions(options.partition or site.partition, assumed_gpus(site, spec))
    runtime = options.container_runtime or site.runtime
    return SlurmFacts(
        site=site,
        seen_at=now,
        base=site.base,
        partitions={partition.name: partition for partition in partitions},
        accounting=True,
        pyxis=runtime in ("", PYXIS),
        programs=(ENROOT,),
    )


def assumed_gpus(site: Site, spec: JobSpec) -> int:
    """GPUs per node: from the settings, or more if the job asks for more per node."""
    if not spec.num_nodes:
        return site.gpus_per_node
    return max(site.gpus_per_node, spec.gpu_count)


def assumed_partitions(named: str, gpus: int) -> list[Partition]:
    if named == CLUSTER_DEFAULT:
        return [Partition("", ANY_NUMBER, gpus, default=True)]
    return [Partition(name, ANY_NUMBER, gpus) for name in split_names(named)]
