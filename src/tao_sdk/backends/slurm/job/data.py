"""Data: a job's paths on the cluster, their mounts, and the paths that nodes cannot read. Pure."""

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

# Replaces the caller's folder and home: a path that resolves below it is on this machine.
HERE = "/.this-machine"
STAGE = "Copy it to the cluster's shared file system, and name it lustre:///absolute/path."


@dataclass(frozen=True)
class RequiredPath:
    """A path that must exist on the cluster, and the part of the job that names it."""

    path: str
    what: str  # `The input train_data`


# Paths that the job names


def required_paths(job: PreparedJob) -> list[RequiredPath]:
    """Every path on the cluster that the job declares. Raises SpecError for one on this machine.

    A path that is declared twice is listed once, under its first name.
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
    """The job's own mounts, then the site's, then mounts for needed paths that neither shows.

    A job needs the base directory, its results and its data.
    """
    mounts = add_site_mounts(requested_mounts(job.spec), facts)
    for needed in needed_mounts(job, facts, root):
        if not any(shows_path(mount, needed.source) for mount in mounts):
            mounts.append(needed)
    return mounts


def add_site_mounts(mounts: list[Mount], facts: SlurmFacts) -> list[Mount]:
    """The mounts, and the site's mounts for other targets."""
    targets = {mount.target for mount in mounts}
    others = [mount for mount in site_mounts(facts) if mount.target not in targets]
    return [*mounts, *others]


def requested_mounts(spec: JobSpec) -> list[Mount]:
    """The mounts in the spec's `mounts`. Raises SpecError for a path of this machine."""
    mounts = read_mounts(without_scheme(spec.mounts), HERE, HERE)
    for mount in mounts:
        if mount.volume or within(mount.source, HERE):
            source = mount.source.removeprefix(f"{HERE}/")
            raise path_of_this_machine(f"The mount {mount.target}", source)
    return mounts


def without_scheme(given: Any) -> Any:
    """The mounts with lustre:// and slurm:// addresses as plain paths."""
    if isinstance(given, str):
        return re.sub(r"^(lustre|slurm)://", "", given)
    if isinstance(given, Mapping):
        items = cast("Mapping[str, Any]", given).items()
        return {without_scheme(key): without_scheme(value) for key, value in items}
    if isinstance(given, (list, tuple)):
        return [without_scheme(item) for item in cast("Sequence[Any]", given)]
    return given


def site_mounts(facts: SlurmFacts) -> list[Mount]:
    """The mounts in SLURM_CONTAINER_MOUNTS, else the documented /lustre if the cluster has it."""
    texts: Sequence[str] = facts.folders
    if facts.site.mounts:
        texts = facts.site.mounts.split(",")
    stripped = map(str.strip, texts)
    return read_mounts([text for text in stripped if text], HERE, HERE)


def needed_mounts(job: PreparedJob, facts: SlurmFacts, root: str) -> Iterator[Mount]:
    """Yield the mounts that the job needs, each at its own path.

    Shared paths are writable, because nobody has declared their purpose.
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


# Paths that no mount holds


def lost_outputs(job: PreparedJob, mounts: Sequence[Mount]) -> list[str]:
    """Outputs that the spec puts on no writable mount: they are lost with the container."""
    writable = [mount.target for mount in mounts if not mount.read_only]
    return [path for path in job.data.chosen_outputs if not is_below(path, writable)]


def unmounted_paths(job: PreparedJob, mounts: Sequence[Mount]) -> list[tuple[str, str]]:
    """Return (key, path) of the spec's undeclared paths that no mount holds."""
    targets = [mount.target for mount in mounts]
    return [(key, path) for key, path in job.data.undeclared if not is_below(path, targets)]


def is_below(path: str, folders: Sequence[str]) -> bool:
    return any(within(path, folder) for folder in folders)
