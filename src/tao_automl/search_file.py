"""Search file: a job with a `search:` block, or of a model that has a schema, as a search to begin.

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
from tao_automl.skill_search import (
    SkillPlace,
    SkillRequest,
    action_space,
    capped_space,
    find_skill,
    with_network_metric,
)
from tao_automl.space.mistake import SpaceError
from tao_automl.space.search_block import read_parameters
from tao_automl.space.space import Space
from tao_sdk.client.document import DocumentError, Value, read_document
from tao_sdk.client.job_file import place_below
from tao_sdk.model.errors import TaoError, UsageError

if TYPE_CHECKING:
    from tao_sdk.client.job_request import JobRequest
    from tao_sdk.skills.skill import Skill

BLOCK = "search"
PARAMETERS = "parameters"
# Names of the documented settings that a person does not write into a block.
KNOWN = [name for name in (*NAMES, *OBJECTIVE_NAMES) if not name.startswith("automl_")]


class NoSearch(UsageError):
    """A job file without a `search:` block."""

    code = "automl.no_search"


def search_of(request: JobRequest, changes: Mapping[str, Any] | None = None) -> SearchRequest:
    """The search of a job that was asked for: by its file's block, or by the schema of its model's
    action where the block names no parameters, or is not there. `changes` are settings that win
    over those of the block.

    Raises DocumentError with the place of the mistake, SettingError for one in `changes`,
    SpaceError, NoSearch, UsageError.
    """
    block = block_of(request)
    settings = settings_of(block, changes or {}, request.skill)
    name = request.spec.name or (request.file.path.stem if request.file else "")
    spec = replace(request.spec, name=name)
    place = model_place(request, block)
    if place is None:
        assert block is not None
        space = space_of(block)
    else:
        space = model_space(place, request, block, settings)
    return SearchRequest(
        spec,
        request.platform,
        settings,
        space,
        request.options,
        name,
        has_schema=place is not None,
    )


def block_of(request: JobRequest) -> Value | None:
    """The `search:` block; None for a model's job without one. Raises NoSearch, DocumentError."""
    block = request.file.nodes.get(BLOCK) if request.file else None
    if block is None or block.data is None:
        if request.skill is None:
            raise no_search(request.file.path if request.file else "this job", None)
        return None
    if not isinstance(block.data, dict):
        raise no_search(block.place.path, block)
    return block


def model_place(request: JobRequest, block: Value | None) -> SkillPlace | None:
    """The skill whose schema says what is searched; None where the block says it."""
    named = block.mapping.get(PARAMETERS) if block else None
    is_named = named is not None and isinstance(named.data, dict)
    if request.skill is None or is_named:
        return None
    return find_skill(request.skill.folder)


def model_space(
    place: SkillPlace, request: JobRequest, block: Value | None, settings: SearchSettings
) -> Space:
    """What the schema of the model's action lets search. `parameters: [train.lr]` chooses among
    its keys. Raises DocumentError, UsageError.
    """
    named = block.mapping.get(PARAMETERS) if block else None
    keys = listed_keys(named) if named else []
    asked = SkillRequest(request.action, keys=keys)
    try:
        space = action_space(place, asked, settings, request.spec)
        return capped_space(place.skill, space, request.spec, settings)
    except SpaceError as error:
        if block is None:
            raise
        raise located(named or block, error.field, error) from None


def listed_keys(named: Value) -> list[str]:
    """The keys that `parameters` lists; none where it is empty. Raises DocumentError."""
    if named.data is None:
        return []
    if not isinstance(named.data, list):
        what = f"parameters is {named.shape}; it must be a list of keys or a mapping."
        raise DocumentError(named.place, what, "", "parameters: [train.learning_rate]")
    return list(map(str, named.plain()))


def no_search(path: str | Path, block: Value | None) -> UsageError | DocumentError:
    example = "search: {metric: accuracy, parameters: {train.learning_rate: {min: 1e-4, max: 0.1}}}"
    if block is None:
        what = f"{path} has no search: block."
        return NoSearch(what, "It says what is searched.", f"Add one, such as {example}")
    return DocumentError(
        block.place, f"search is {block.shape}; it must be a mapping.", "", example
    )


def settings_of(
    block: Value | None, changes: Mapping[str, Any], skill: Skill | None = None
) -> SearchSettings:
    """The settings of a block. Each mistake has the place of its key."""
    if block is None:
        return read_settings(with_network_metric(changes, skill))
    given: dict[str, Any] = {}
    for name, value in block.mapping.items():
        if name == PARAMETERS:
            continue
        if name not in NAMES and name not in OBJECTIVE_NAMES:
            raise unknown_key(block, name)
        given[name] = value.plain()
    return located_settings(block, with_network_metric({**given, **changes}, skill))


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
