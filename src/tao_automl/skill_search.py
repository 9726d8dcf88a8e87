"""Skill search: the search of a skill's action, as AutoMLRunner is asked for it.

Here: from a skill's folder and what the caller says to the space, and to the job that trials are
copies of. Not here: how it is carried out (drive.py), and what is asked of the runner (runner.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_automl.drive import SearchRequest
from tao_automl.network_schema import NetworkRequest, schema_space
from tao_automl.settings import SearchSettings
from tao_automl.space.parameter import Choice, Range
from tao_automl.space.space import Space
from tao_automl.template import keys_in, value_at, values_of
from tao_sdk.model.errors import UsageError

if TYPE_CHECKING:
    from tao_sdk.client import PlatformSDK
    from tao_sdk.model.spec import JobSpec
    from tao_sdk.skills.bank import Bank
    from tao_sdk.skills.skill import Skill

SKILLS = "skills"
BATCH_SIZE = "batch_size"
KPI = "kpi"  # stands for the metric of the network


@dataclass(frozen=True)
class SkillPlace:
    """A skill, and the bank that it lies in."""

    bank: Bank
    skill: Skill


@dataclass(frozen=True)
class SkillRequest:
    """What the caller of a runner says of the training."""

    action: str
    data: Mapping[str, str] = field(default_factory=dict[str, str])  # train, eval -> address
    checkpoint: str = ""
    image: str = ""
    keys: Sequence[str] = ()
    custom_ranges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Any])
    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])
    platform_words: Mapping[str, Any] = field(default_factory=dict[str, Any])


def find_skill(folder: str | Path) -> SkillPlace:
    """The skill of a folder, in a bank or by itself. Raises UsageError where it is none."""
    from tao_sdk.skills.bank import Bank, info_file
    from tao_sdk.skills.loader import load_skill

    path = Path(folder).expanduser().absolute()
    info = info_file(path) if path.is_dir() else None
    if info is None:
        what = f"{path} is no skill: it has no skill_info.yaml."
        raise UsageError(what, "", "Give skill_dir=, the folder of a model's skill.")
    root = next((above.parent for above in path.parents if above.name == SKILLS), path)
    return SkillPlace(Bank(root, "skill_dir"), load_skill(root, info, path.name))


def skill_request(
    sdk: PlatformSDK, place: SkillPlace, request: SkillRequest, settings: SearchSettings
) -> SearchRequest:
    """The search of an action. Nothing is kept or started.

    Raises SpecError, SpaceError, SkillError, UsageError.
    """
    spec, options = action_job(sdk, place, request)
    space = action_space(place, request, settings, spec)
    capped = capped_space(place.skill, space, spec, settings)
    platform = sdk.endpoint or sdk.platform
    return SearchRequest(spec, platform, settings, capped, options, spec.name, has_schema=True)


def with_network_metric(given: Mapping[str, Any], skill: Skill | None) -> Mapping[str, Any]:
    """The settings with the network's own metric in the place of `kpi`, where its skill names it
    (`metrics: {monitoring_metric: val_acc}`).
    """
    if skill is None or not skill.monitoring_metric or given.get("metric") != KPI:
        return given
    return {**given, "metric": skill.monitoring_metric}


def action_job(
    sdk: PlatformSDK, place: SkillPlace, request: SkillRequest
) -> tuple[JobSpec, dict[str, Any]]:
    """The job of an action and the options of its platform."""
    from tao_sdk.client.model_request import with_fields
    from tao_sdk.skills.model_job import ModelChoices, prepare_model_job
    from tao_sdk.skills.parent import values_of_checkpoint

    fields, options = split_words(sdk, request.platform_words)
    action = place.skill.action(request.action)
    parent = (
        values_of_checkpoint(place.skill, action, request.checkpoint) if request.checkpoint else {}
    )
    choices = ModelChoices(
        data=request.data,
        values=flat_overrides(request.overrides),
        from_parent=parent,
        image=request.image,
        gpu_count=fields.pop("gpu_count", None),
        num_nodes=fields.pop("num_nodes", None),
    )
    job = prepare_model_job(place.bank, place.skill, request.action, choices, sdk.settings)
    return with_fields(job, fields).spec, options


def split_words(
    sdk: PlatformSDK, words: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keywords as fields of the job, and as options of the platform, which are checked. Raises
    FieldError for one that is neither.
    """
    from tao_sdk.model.fields import read_settings, settings_of, unknown_field
    from tao_sdk.model.spec import JobSpec

    options_class = sdk.options_class(sdk.platform)
    of_job, of_platform = settings_of(JobSpec), settings_of(options_class)
    for name in words:
        if name not in of_job and name not in of_platform:
            raise unknown_field(name, {**of_job, **of_platform}, "run: ")
    options = {name: value for name, value in words.items() if name in of_platform}
    read_settings(options_class, options)
    return {name: value for name, value in words.items() if name in of_job}, options


def flat_overrides(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Overrides by dotted keys, however deep they were written."""
    return {key: deep_value(overrides, key) for key in keys_in(overrides)}


def deep_value(overrides: Mapping[str, Any], key: str) -> Any:
    return overrides[key] if key in overrides else value_at(overrides, key)


def action_space(
    place: SkillPlace, request: SkillRequest, settings: SearchSettings, spec: JobSpec
) -> Space:
    """What the schema of the action lets search."""
    from tao_sdk.skills.schema import read_schema

    schema = read_schema(place.bank.root, place.skill, request.action)
    if schema is None:
        what = f"{place.skill.name} has no schema of {request.action}, so nothing can be searched."
        advice = f"Add schemas/{request.action}.schema.json to it, or use a search: block."
        raise UsageError(what, f"{place.skill.folder} has none.", advice)
    network = NetworkRequest(
        place.skill.name,
        request.action,
        values_of(spec),
        request.keys,
        request.custom_ranges,
        override_disabled=settings.override_automl_disabled_params,
    )
    return schema_space(schema, network)


def capped_space(skill: Skill, space: Space, spec: JobSpec, settings: SearchSettings) -> Space:
    """The space with batches that the training set can fill: a batch above the number of samples
    always fails. Raises UsageError for one that stands in the spec.
    """
    most = settings.train_sample_count
    if most is None:
        return space
    shards = max(spec.gpu_count, 1) * (spec.num_nodes or 1)
    limit = max(most // shards, 1)
    named = skill.spec_shorthand_keys.get(BATCH_SIZE, "")
    keys = {key for key in keys_in(values_of(spec)) if is_batch(key)} | {named}
    for key in keys - set(space.keys):
        value = value_at(values_of(spec), key) if key else None
        if isinstance(value, int) and value > limit:
            what = f"{key} is {value}, and each of {shards} GPUs has {limit} samples at most."
            raise UsageError(what, f"train_sample_count is {most}.", f"Set {key} to {limit}.")
    parameters = [capped(one, limit) if one.key in keys else one for one in space.parameters]
    return Space(tuple(parameters))


def is_batch(key: str) -> bool:
    return key.startswith(("train.", "dataset.train")) and key.endswith(BATCH_SIZE)


def capped(parameter: Any, limit: int) -> Any:
    """The parameter without values above the limit. Raises UsageError where none is left."""
    what = f"{parameter.key} has no value up to {limit}, as train_sample_count wants."
    if isinstance(parameter, Range):
        if parameter.low > limit:
            raise UsageError(what)
        return replace(parameter, high=min(parameter.high, limit))
    if isinstance(parameter, Choice):
        return capped_choice(parameter, limit, what)
    return parameter


def capped_choice(parameter: Choice, limit: int, what: str) -> Choice:
    kept = [place for place, option in enumerate(parameter.options) if option <= limit]
    if not kept:
        raise UsageError(what)
    weights = tuple(parameter.weights[place] for place in kept) if parameter.weights else ()
    options = tuple(parameter.options[place] for place in kept)
    default = parameter.default if parameter.default in options else None
    return replace(parameter, options=options, weights=weights, default=default)
