"""The inputs that a spec declares, and which of them are paths: what a place can be looked at for before a job starts."""

from __future__ import annotations

import posixpath

from tao_sdk.model.spec import JobSpec
from tao_sdk.net.address import path_of, scheme
from tao_sdk.payload.declared import declared_inputs

PATHS = frozenset({"", "file", "lustre", "slurm"})  # a lustre:// address names the path under which it can be read


def absolute_inputs(spec: JobSpec) -> dict[str, str]:
    """Key -> absolute path in the job of each that does not travel with it."""
    paths = {each["key"]: path_of(each["uri"]) for each in declared_inputs(spec) if scheme(each["uri"]) in PATHS}
    return {
        key: posixpath.normpath(path)
        for key, path in paths.items()
        if posixpath.isabs(path) and not brought(spec, path)
    }


def brought(spec: JobSpec, path: str) -> bool:
    """Whether the file, or something in the folder, travels with the job."""
    return any(f"{posixpath.normpath(each)}/".startswith(f"{posixpath.normpath(path)}/") for each in spec.files)
