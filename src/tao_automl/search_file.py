"""Search file: a job file with a `search:` block, as a search to begin.

Here: the block's keys, the places of its mistakes. Not here: the job file itself
(tao_sdk/client/job_file.py), what a setting allows (settings.py) and a parameter (space/).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_automl.drive import SearchRequest
from tao_automl.near import near_name
from tao_automl.settings import (
    NAMES,
    OBJECTIVE_NAMES,
    SearchSettings,
    SettingError,
    read_settings,
)
from tao_automl.space.mistake import SpaceError
from tao_automl.space.search_block import read_parameters
from tao_automl.space.space import Space
from tao_sdk.client.document import DocumentError, Value, read_document
from tao_sdk.client.job_file import place_below
from tao_sdk.client.job_request import TypedJob, read_request
from tao_sdk.model.errors import TaoError, UsageError

if TYPE_CHECKING:
    from tao_sdk.client import Client

BLOCK = "search"
PARAMETERS = "parameters"
# Names of the documented settings that a person does not write into a block.
KNOWN = [name for name in (*NAMES, *OBJECTIVE_NAMES) if not name.startswith("automl_")]


class NoSearch(UsageError):
    """A job file without a `search:` block."""

    code = "automl.no_search"


def read_search_file(
    path: str | Path,
    client: Client,
    platform: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> SearchRequest:
    """The search of a job file. `changes` are settings that win over those of its block, and
    `platform` over that of the file.

    Raises DocumentError with the place of the mistake, SettingError for one in `changes`, NoSearch,
    and as `read_job_file`.
    """
    request = read_request(TypedJob(str(path), platform), client)
    assert request.file is not None
    block = request.file.nodes.get(BLOCK)
    if block is None or not isinstance(block.data, dict):
        raise no_search(path, block)
    settings = settings_of(block, changes or {})
    spec = replace(request.spec, name=request.spec.name or Path(path).stem)
    return SearchRequest(
        spec, request.platform, settings, space_of(block), request.options, spec.name
    )


def no_search(path: str | Path, block: Value | None) -> UsageError | DocumentError:
    example = "search: {metric: accuracy, parameters: {train.learning_rate: {min: 1e-4, max: 0.1}}}"
    if block is None:
        what = f"{path} has no search: block."
        return NoSearch(what, "It says what is searched.", f"Add one, such as {example}")
    return DocumentError(
        block.place, f"search is {block.shape}; it must be a mapping.", "", example
    )


def settings_of(block: Value, changes: Mapping[str, Any]) -> SearchSettings:
    """The settings of a block. Each mistake has the place of its key."""
    given: dict[str, Any] = {}
    for name, value in block.mapping.items():
        if name == PARAMETERS:
            continue
        if name not in NAMES and name not in OBJECTIVE_NAMES:
            raise unknown_key(block, name)
        given[name] = value.plain()
    return located_settings(block, {**given, **changes})


def located_settings(block: Value, given: Mapping[str, Any]) -> SearchSettings:
    try:
        return read_settings(given)
    except SettingError as error:
        raise located(block, error.field, error) from None


def unknown_key(block: Value, name: str) -> DocumentError:
    place = block.keys.get(name, block.mapping[name].place)
    hint = near_name(name, [*KNOWN, PARAMETERS])
    return DocumentError(place, f"unknown key {name!r} of search.", "", hint)


def space_of(block: Value) -> Space:
    """The parameters of a block. Each mistake has the place of its parameter."""
    value = block.mapping.get(PARAMETERS)
    if value is None or value.data is None:
        what = "search has no parameters."
        next = "Add parameters: {train.learning_rate: {min: 1e-4, max: 0.1}}"
        raise DocumentError(block.place, what, "", next)
    try:
        return read_parameters(value.plain())
    except SpaceError as error:
        raise located(value, error.field, error) from None


def located(value: Value, key: str, error: TaoError) -> DocumentError:
    """The error with the place of its key, if the file has it."""
    place = value.keys.get(key) if isinstance(value.data, dict) else None
    place = place or place_below(value, key) or value.place
    return DocumentError(place, error.what, error.why, error.next, error.command)


def locate(path: str | Path, error: SpaceError | SettingError) -> TaoError:
    """The error about a key of a search file, with its place where the file has it: for mistakes
    that only the job can show, such as a parameter that is none of its keys.
    """
    block = read_document(Path(path)).mapping.get(BLOCK)
    if block is None or not error.field or not isinstance(block.data, dict):
        return error
    parameters = block.mapping.get(PARAMETERS)
    within = parameters if parameters and error.field in parameters.keys else block
    return located(within, error.field, error)
