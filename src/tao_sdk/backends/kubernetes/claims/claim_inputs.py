"""Claim inputs: addresses `pvc://claim/path` in a job's data, as paths of its pods. Pure.

A claim that the job does not mount where that path is seen is mounted read-only.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from tao_sdk.backends.kubernetes.job.storage import VolumeMount, read_volume_mounts, split_mounts
from tao_sdk.backends.mounts import within
from tao_sdk.model.errors import SpecError
from tao_sdk.model.spec import JobSpec

SCHEME = "pvc://"
CLAIMS = "/tao-claims"  # each claim that is mounted for its data has a folder of its name there
DATA = ("specs", "args", "inputs")  # the fields of a job that name data


def with_claim_inputs(spec: JobSpec) -> JobSpec:
    """The job with a path in place of each address of a claim, and with the mounts that the paths
    need. Raises SpecError for an address that names no file of a claim.
    """
    new: list[str] = []

    def path_of(address: str) -> str:
        claim, path = claim_and_file(address)
        seen = seen_at(read_volume_mounts(spec.mounts), claim, path)
        if seen:
            return seen
        target = f"{CLAIMS}/{claim}"
        mount = f"{SCHEME}{claim}:{target}:ro"
        if mount not in new:
            new.append(mount)
        return posixpath.normpath(posixpath.join(target, path))

    data = {name: replaced(getattr(spec, name), path_of) for name in DATA}
    if not new:
        return replace(spec, **data)
    return replace(spec, **data, mounts=[*split_mounts(spec.mounts), *new])


def claim_and_file(address: str) -> tuple[str, str]:
    """(`data`, `runs/a`) of `pvc://data/runs/a`. Raises SpecError for an address without a claim,
    and for one that leads out of it.
    """
    claim, _, path = address.removeprefix(SCHEME).partition("/")
    if not claim or ".." in path.split("/"):
        raise SpecError(
            f"{address} names no file of a claim.", next="Write pvc://claim/path, without .. in it."
        )
    return claim, path.strip("/")


def seen_at(mounts: Sequence[VolumeMount], claim: str, path: str) -> str:
    """Where the pods see that file of the claim; "" if the job mounts no folder with it."""
    for mount in mounts:
        is_of_claim = (mount.scheme, mount.source) == ("pvc", claim)
        if is_of_claim and within(f"/{path}", f"/{mount.folder}"):
            below = posixpath.relpath(f"/{path}", f"/{mount.folder}")
            return posixpath.normpath(posixpath.join(mount.target, below))
    return ""


def replaced(value: Any, path_of: Callable[[str], str]) -> Any:
    """The value with the path in place of each address of a claim, however deep it lies."""
    if isinstance(value, str):
        return path_of(value) if value.startswith(SCHEME) else value
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {name: replaced(one, path_of) for name, one in items}
    if isinstance(value, list):
        return [replaced(one, path_of) for one in cast("list[Any]", value)]
    return value
