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
class RequiredPath:
    """A path that has to be there on the cluster, and who says so."""

    path: str
    what: str  # `The input train_data`


# What the job names


def required_paths(job: PreparedJob) -> list[RequiredPath]:
    """Every path on the cluster that the job declares. Raises SpecError for one on this machine.

    A path that is declared twice is there once, under its first name.
    """
    first_ones: dict[str, RequiredPath] = {}
    for required in (*input_paths(job), *shared_paths(job), *mount_sources(job.spec)):
        first_ones.setdefault(required.path, required)
    return list(first_ones.values())


def input_paths(job: PreparedJob) -> Iterator[RequiredPath]:
    for data in job.here_inputs():
        if data.scheme == "file" or not posixpath.isabs(data.path):
            raise path_of_this_machine(f"The input {data.key}", data.uri)
        yield RequiredPath(data.path, f"The input {data.key}")


def shared_paths(job: PreparedJob) -> Iterator[RequiredPath]:
    """Paths in lustre:// and slurm:// values that no input declares.

    The job gets them without the scheme.
    """
    for key, path in job.data.shared:
        yield RequiredPath(path, f"The value {key}")


def mount_sources(spec: JobSpec) -> Iterator[RequiredPath]:
    for mount in requested_mounts(spec):
        yield RequiredPath(mount.source, f"The mount {mount.target}")


def path_of_this_machine(what: str, value: str) -> SpecError:
    return SpecError(
        f"{what} is {value}, a path of this machine.",
        "The nodes of the cluster cannot read this machine's files.",
        STAGE,
    )


# Mounts


def all_mounts(job: PreparedJob, facts: SlurmFacts, root: str) -> list[Mount]:
    """The job's own mounts, then the site's, then what neither shows of the job's needs.

    It needs the base directory, its results and its data.
    """
    mounts = add_site_mounts(requested_mounts(job.spec), facts)
    for needed in needed_mounts(job, facts, root):
        if not any(shows_path(mount, needed.source) for mount in mounts):
            mounts.append(needed)
    return mounts


def add_site_mounts(mounts: list[Mount], facts: SlurmFacts) -> list[Mount]:
    """The mounts and the site's, but for targets that the mounts have."""
    targets = {mount.target for mount in mounts}
    others = [mount for mount in site_mounts(facts) if mount.target not in targets]
    return [*mounts, *others]


def requested_mounts(spec: JobSpec) -> list[Mount]:
    """What the spec's `mounts` asks for. Raises SpecError for a path of this machine."""
    mounts = read_mounts(without_scheme(spec.mounts), HERE, HERE)
    for mount in mounts:
        if mount.volume or within(mount.source, HERE):
            source = mount.source.removeprefix(f"{HERE}/")
            raise path_of_this_machine(f"The mount {mount.target}", source)
    return mounts


def without_scheme(given: Any) -> Any:
    """Mounts with plain paths where they were written as lustre:// or slurm:// addresses."""
    if isinstance(given, str):
        return re.sub(r"^(lustre|slurm)://", "", given)
    if isinstance(given, Mapping):
        items = cast("Mapping[str, Any]", given).items()
        return {without_scheme(key): without_scheme(value) for key, value in items}
    if isinstance(given, (list, tuple)):
        return [without_scheme(item) for item in cast("Sequence[Any]", given)]
    return given


def site_mounts(facts: SlurmFacts) -> list[Mount]:
    """SLURM_CONTAINER_MOUNTS, else the documented /lustre where the cluster has it."""
    texts: Sequence[str] = facts.folders
    if facts.site.mounts:
        texts = facts.site.mounts.split(",")
    stripped = map(str.strip, texts)
    return read_mounts([text for text in stripped if text], HERE, HERE)


def needed_mounts(job: PreparedJob, facts: SlurmFacts, root: str) -> Iterator[Mount]:
    """What the job cannot do without, each at its own path.

    Shared paths are writable: nobody has said what they are for.
    """
    yield Mount(facts.base, facts.base)
    yield Mount(root, root)
    for required in input_paths(job):
        yield Mount(required.path, required.path, read_only=True)
    for required in shared_paths(job):
        yield Mount(required.path, required.path)


def shows_path(mount: Mount, path: str) -> bool:
    """True if the mount shows a path of the cluster at the same path in the job."""
    return mount.source == mount.target and within(path, mount.source)


# What no mount holds


def lost_outputs(job: PreparedJob, mounts: Sequence[Mount]) -> list[str]:
    """Outputs that the spec places on no writable mount: they are gone when the container ends."""
    writable = [mount.target for mount in mounts if not mount.read_only]
    return [path for path in job.data.chosen_outputs if not is_below(path, writable)]


def unmounted_paths(job: PreparedJob, mounts: Sequence[Mount]) -> list[tuple[str, str]]:
    """(key, path) of what the spec names, nobody declares and no mount holds."""
    targets = [mount.target for mount in mounts]
    return [(key, path) for key, path in job.data.undeclared if not is_below(path, targets)]


def is_below(path: str, folders: Sequence[str]) -> bool:
    return any(within(path, folder) for folder in folders)
