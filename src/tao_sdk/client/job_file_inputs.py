"""Job file inputs: relative inputs of a job file, as paths in that file's folder.

`files` and the file of `specs` are relative to the job file, and so are inputs on a platform that
sees this machine's paths. Elsewhere a relative input is a path in the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tao_sdk.backends.by_name import NotBuilt, backend_class
from tao_sdk.model.errors import MissingExtra, SpecError
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.texts import texts_in
from tao_sdk.payload.absolute_inputs import relative_inputs, with_absolute_inputs
from tao_sdk.payload.declared import read_data

DATA_FIELDS = ("specs", "args", "inputs", "set")


def with_inputs_beside(
    spec: JobSpec, file: Path, values: Mapping[str, Any], platform: str
) -> JobSpec:
    """The spec with the job file's relative inputs as paths in its folder.

    `values` are the fields as the file has them. Inputs that were typed instead stay as they are.
    """
    folder = file.parent.resolve()
    if is_current(folder) or is_stream(file) or not sees_our_paths(platform):
        return spec
    try:
        relative = relative_inputs(PreparedJob(spec, "", read_data(spec)))
    except SpecError:
        return spec  # the checks before the submit tell of it, with its line
    own = set(texts_in([values.get(name) for name in DATA_FIELDS]))
    return with_absolute_inputs(spec, [each for each in relative if each.uri in own], str(folder))


def is_current(folder: Path) -> bool:
    try:
        return folder == Path.cwd()
    except FileNotFoundError:
        return False  # it was removed


def is_stream(file: Path) -> bool:
    """True for a job file that comes through a pipe, such as /dev/stdin: it has no folder."""
    return str(file).startswith(("/dev/", "/proc/"))


def sees_our_paths(platform: str) -> bool:
    """True for a platform whose jobs see this machine's paths."""
    try:
        return backend_class(platform).capabilities.shared_filesystem
    except (NotBuilt, MissingExtra):
        return False
