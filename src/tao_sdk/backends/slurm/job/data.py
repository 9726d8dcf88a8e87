"""Data: which paths of a job lie on the cluster, where they are mounted, and what cannot be read
from there. Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tao_sdk.backends.mounts import Mount, read_mounts, within
from tao_sdk.backends.slurm.facts import SlurmFacts
from tao_sdk.model.errors import SpecError
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.spec import JobSpec

# Stands in for the caller's folder and home: what resolves to a path below it is on this machine.
HERE = "/.this-machine"
STAGE = "Copy it to the cluster's shared file system, and name it lustre:///absolute/path."


@dataclass(frozen=True)
class Wanted:
    """A path that has to be there on the cluster, and who says so."""

    path: str
    what: str


def wanted(job: PreparedJob) -> list[Wanted]:
    """Every path on the cluster that the job declares. Raises SpecError for one on this machine."""
    found = [*inputs(job), *addresses(job), *sources(job.spec)]
    return list({each.path: each for each in reversed(found)}.values())[::-1]


def inputs(job: PreparedJob) -> Iterator[Wanted]:
    for each in job.here_inputs():
        if each.scheme == "file" or not posixpath.isabs(each.path):
            raise local(f"The input {each.key}", each.uri)
        yield Wanted(each.path, f"The input {each.key}")


def local(what: str, value: str) -> SpecError:
    return SpecError(
        f"{what} is {value}, a path of this machine.",
        "The nodes of the cluster cannot read this machine's files.",
        STAGE,
    )


def addresses(job: PreparedJob) -> Iterator[Wanted]:
    """Paths in lustre:// and slurm:// values that are not declared as inputs; the job gets them
    without the scheme.
    """
    for key, path in job.data.shared:
        yield Wanted(path, f"The value {key}")


def sources(spec: JobSpec) -> Iterator[Wanted]:
    for each in asked_mounts(spec):
        yield Wanted(each.source, f"The mount {each.target}")


def asked_mounts(spec: JobSpec) -> list[Mount]:
    found = read_mounts(without_scheme(spec.mounts), HERE, HERE)
    for each in found:
        if each.volume or within(each.source, HERE):
            raise local(f"The mount {each.target}", each.source.removeprefix(f"{HERE}/"))
    return found


def without_scheme(given: Any) -> Any:
    """Mounts with plain paths where they were written as lustre:// or slurm:// addresses."""
    if isinstance(given, str):
        return re.sub(r"^(lustre|slurm)://", "", given)
    if isinstance(given, Mapping):
        items = cast("Mapping[str, Any]", given).items()
        return {without_scheme(key): without_scheme(value) for key, value in items}
    if isinstance(given, (list, tuple)):
        return [without_scheme(each) for each in cast("Sequence[Any]", given)]
    return given


def mounts(job: PreparedJob, facts: SlurmFacts, root: str) -> list[Mount]:
    """The job's own mounts, then the site's, then those of base directory, results and data that
    neither covers.
    """
    found = asked_mounts(job.spec)
    for default in site_mounts(facts):
        if all(each.target != default.target for each in found):
            found.append(default)
    read = (Mount(each.path, each.path, read_only=True) for each in inputs(job))
    named = (
        Mount(each.path, each.path) for each in addresses(job)
    )  # writable: nobody has said what they are for
    for each in (Mount(facts.base, facts.base), Mount(root, root), *read, *named):
        if not any(has(mount, each.source) for mount in found):
            found.append(each)
    return found


def lost_outputs(job: PreparedJob, mounted: Sequence[Mount]) -> list[str]:
    """Outputs that the spec places on no writable mount: they are gone when the container ends."""
    kept = [mount.target for mount in mounted if not mount.read_only]
    return [
        path for path in job.data.chosen_outputs if not any(within(path, target) for target in kept)
    ]


def unmounted(job: PreparedJob, mounted: Sequence[Mount]) -> list[tuple[str, str]]:
    """(key, path) of what the spec names, nobody declares and no mount holds."""
    return [
        (key, path)
        for key, path in job.data.undeclared
        if not any(within(path, each.target) for each in mounted)
    ]


def has(mount: Mount, path: str) -> bool:
    """Whether the mount shows a path of the cluster at the same path in the job."""
    return mount.source == mount.target and within(path, mount.source)


def site_mounts(facts: SlurmFacts) -> list[Mount]:
    """SLURM_CONTAINER_MOUNTS, else the documented /lustre where the cluster has it."""
    given = facts.site.mounts.split(",") if facts.site.mounts else list(facts.folders)
    return read_mounts([each.strip() for each in given if each.strip()], HERE, HERE)
