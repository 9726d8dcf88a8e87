"""Absolute inputs: the relative inputs of a job on this machine, as absolute paths.

A job may start in another folder than the one where it is submitted.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard, cast

from tao_sdk.model.prepared_job import DataInput, KeyAndValue, PreparedJob
from tao_sdk.model.spec import JobSpec
from tao_sdk.net.address import scheme
from tao_sdk.payload.declared import RESUME, SpecKeys, keys_of, text_leaves
from tao_sdk.payload.keys import joined, lookup, put
from tao_sdk.payload.values import Tree, walk


def relative_inputs(job: PreparedJob) -> list[DataInput]:
    """Inputs that are relative paths and do not travel with the job."""
    inputs = [*job.data.inputs, *given_checkpoints(job.spec)]
    return [wanted for wanted in inputs if stays_here(wanted, job)]


def stays_here(wanted: DataInput, job: PreparedJob) -> bool:
    """True for a relative path that does not travel with the job."""
    if not wanted.is_path or posixpath.isabs(wanted.path):
        return False
    return not job.brings_path(wanted.path)


def given_checkpoints(spec: JobSpec) -> list[DataInput]:
    """Checkpoints to resume from that the spec names by a path, as inputs."""
    keys = keys_of(spec)
    if keys is None:
        return []
    found: dict[str, Tree] = {}

    def visit(place: str, value: Tree) -> None:
        if isinstance(value, dict) and RESUME in value:
            found[f"{place}.{RESUME}".removeprefix(".")] = value[RESUME]

    walk(keys.tree, "", visit)
    if spec.resume_key:
        found[spec.resume_key] = lookup(keys.tree, keys.way(spec.resume_key))
    return [DataInput(key, path, path=path) for key, path in found.items() if is_path(path)]


def is_path(value: Tree) -> TypeGuard[str]:
    """True for a text that is neither empty nor an address."""
    return isinstance(value, str) and bool(value) and not scheme(value)


def undeclared_paths(job: PreparedJob, folder: str) -> list[KeyAndValue]:
    """The (key, value) of each relative path that exists below `folder` and that no input names.
    For a job that starts in another folder.
    """
    if not job.brings_files:
        return []
    keys = keys_of(job.spec)
    if keys is None:
        return []
    declared = {wanted.key for wanted in job.data.inputs} | set(job.data.output_keys)
    undeclared: list[KeyAndValue] = []
    for way, value in text_leaves(keys.tree):
        key = joined(way)
        if key in declared or job.brings_path(value):
            continue
        if is_path_below(value, folder):
            undeclared.append((key, value))
    return undeclared


def is_path_below(value: str, folder: str) -> bool:
    """True for a text that reads like a relative path and exists below the folder."""
    if "/" not in value or posixpath.isabs(value) or scheme(value):
        return False
    try:
        return Path(folder, value).exists()
    except (OSError, ValueError):
        return False  # too long, or a NUL in it: no path


def with_absolute_inputs(spec: JobSpec, relative: Sequence[DataInput], folder: str) -> JobSpec:
    """The same, with these inputs as paths below `folder`."""
    if not relative:
        return spec
    paths = {each.key: posixpath.normpath(posixpath.join(folder, each.path)) for each in relative}
    keys = keys_of(spec)
    if keys is None:
        return replace(spec, inputs=named_inputs(spec.inputs, paths))
    for each in relative:
        put_path(keys, each, paths[each.key])
    return replace(spec, **{keys.name: keys.tree})


def put_path(keys: SpecKeys, wanted: DataInput, path: str) -> None:
    way = keys.way(wanted.key)
    if lookup(keys.tree, way) == wanted.uri:
        put(keys.tree, way, path)


def named_inputs(inputs: object, paths: Mapping[str, str]) -> dict[str, object]:
    """Inputs of a job without specs and args: a list names paths that are used as they are."""
    if isinstance(inputs, Mapping):
        given = dict(cast("Mapping[str, object]", inputs))
    else:
        given = {path: path for path in cast("list[str]", inputs)}
    return {**given, **{key: with_uri(given[key], path) for key, path in paths.items()}}


def with_uri(about: object, path: str) -> object:
    if isinstance(about, Mapping):
        return {**cast("Mapping[str, object]", about), "uri": path}
    return path
