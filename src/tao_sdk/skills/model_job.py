"""Model jobs: a model and an action as the JobSpec that runs it, and the origin of each value.

The spec begins with the bank's template, else empty; then come the skill's defaults, the data, and
the user's values. Not here: which values an earlier job has (parent.py), and what a schema allows
(schema.py).
"""

from __future__ import annotations

import difflib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from tao_sdk.model.errors import SpecError, join_sentences
from tao_sdk.model.fields import FieldError
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.skills.action_reader import PLACEHOLDER
from tao_sdk.skills.bank import Bank
from tao_sdk.skills.bank_file import read_bank_document, require_mapping
from tao_sdk.skills.datasets import (
    ANNOTATION,
    ANNOTATION_END,
    FORMAT,
    DataGiven,
    Datasets,
    IsThere,
    as_list,
    data_values,
    is_here,
    refuse_unknown_data,
    short_name,
)
from tao_sdk.skills.images import bank_versions, resolve_bank_image
from tao_sdk.skills.item_inputs import drop_blank_items, key_of_first, with_every_item
from tao_sdk.skills.job_fields import spec_fields, spec_name
from tao_sdk.skills.known_keys import unknown_keys
from tao_sdk.skills.made_files import made_files, with_made_files
from tao_sdk.skills.node import is_spec_key
from tao_sdk.skills.schema import Json, check_spec, read_schema
from tao_sdk.skills.skill import Action, Download, Input, Mode, Skill
from tao_sdk.skills.skill_files import skill_files
from tao_sdk.skills.spec_tree import Tree, copied, get_value, leaf_keys, put_value, without_unset
from tao_sdk.skills.templates import template_file
from tao_sdk.versions import looks_like_key

SET = "set"  # the origin of a value that the user has set
GIVEN = "given"  # the origin of a field of the job that the user has given
GPU_COUNT = "gpu_count"
LIKE = 0.8  # the similarity from which a word counts as a mistyped short name
FILLED_BY_PARENT = ("parent_model", "parent_model_or_ptm", "parent_model_folder")
GPUS, IDS, NODES = "num_gpus", "gpu_ids", "num_nodes"  # the last words of keys


@dataclass(frozen=True, slots=True)
class ModelChoices:
    """The user's choices for a job of a model."""

    data: DataGiven = field(default_factory=dict[str, str])
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])  # by key or short name
    from_parent: Mapping[str, str] = field(default_factory=dict[str, str])  # by key: parent.py
    image: str = ""
    gpu_count: int | None = None
    num_nodes: int | None = None
    is_there: IsThere = is_here  # takes the address of a dataset's file


@dataclass(frozen=True, slots=True)
class ModelJob:
    """The job, and the origin of each of its values: by field, or by `specs.KEY`."""

    spec: JobSpec
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()  # unknown keys, and choices made without a look


@dataclass
class Draft:
    """A spec that is being built."""

    tree: Tree = field(default_factory=dict[str, Any])
    origins: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])

    def put(self, key: str, value: Any, origin: str) -> None:
        for below in [name for name in self.origins if name.startswith(f"specs.{key}.")]:
            del self.origins[below]  # the value takes the place of all in it
        put_value(self.tree, key, without_unset(value))
        self.origins[f"specs.{key}"] = origin

    def was_set(self, key: str) -> bool:
        """True if the user has set the value."""
        return self.origins.get(f"specs.{key}") == SET


def prepare_model_job(
    bank: Bank, skill: Skill, action: str, choices: ModelChoices, settings: Settings | None = None
) -> ModelJob:
    """The job of an action. Nothing is run or fetched.

    Raises ActionNotFound, SpecError, and TaoError if the image's key stands for nothing.
    """
    chosen = with_made_files(skill, skill.action(action))
    draft = build_spec(bank, skill, chosen, choices)
    chosen = with_every_item(chosen, draft.tree)
    refuse_missing_inputs(skill, chosen, draft.tree)
    warnings = check_keys(bank, skill, chosen, draft, choices)
    image, image_origin = choose_image(bank, skill, chosen, choices, settings)
    origins = {
        "image": image_origin,
        "command": f"actions.{action} of {skill.path}",
        "gpu_count": gpus_origin(skill, choices, draft),
        **draft.origins,
    }
    fields = spec_fields(chosen, draft.tree)
    spec = JobSpec(
        image=image,
        name=f"{skill.network_arch or skill.name}-{action}".replace("_", "-").lower(),
        upload_excludes=chosen.upload_excludes,
        files=skill_files(bank, skill),
        gpu_count=gpus_of(skill, choices, draft),
        num_nodes=choices.num_nodes,
        **fields,
    )
    return ModelJob(spec, origins, (*draft.notes, *warnings))


def choose_image(
    bank: Bank, skill: Skill, action: Action, choices: ModelChoices, settings: Settings | None
) -> tuple[str, str]:
    """The image and its origin: the user's, the action's, the skill's. None is named for a program
    that needs no container; a platform that needs an image refuses the job.
    """
    named = choices.image or skill.image_of(action.name)
    if not named:
        return "", f"none is named in {skill.path}"
    image = resolve_bank_image(bank, named, settings)
    origin = GIVEN if choices.image else f"container_image of {skill.path}"
    if looks_like_key(named):
        origin = f"{named} in {bank_versions(bank, settings)}, {origin}"
    return image, origin


def build_spec(bank: Bank, skill: Skill, action: Action, choices: ModelChoices) -> Draft:
    """The spec of an action, without the values that come from a parent."""
    draft = Draft(template_of(bank, skill, action.name))
    drop_blank_items(action, draft.tree)
    for key in leaf_keys(draft.tree):
        draft.origins[f"specs.{key}"] = f"template {skill.spec_templates[action.name].path}"
    for key, value in skill.key_defaults.items():
        draft.put(key, copied(value), f"key_defaults of {skill.path}")
    for key, value in values_of_data(skill, action, choices, draft.notes):
        draft.put(key, value, "data")
    for key, value in values_of_params(skill, action):
        draft.put(key, value, f"spec_params of {skill.path}")
    for key, value in choices.from_parent.items():
        draft.put(key, value, "parent")
    for name, value in choices.values.items():
        with of_value(name):
            draft.put(key_of(skill, action, name), value, SET)
    gpus = gpus_of(skill, choices, draft)
    for key, value in hardware_keys(skill, action, gpus, choices.num_nodes or 1, draft.tree):
        with of_value(key):
            refuse_contradiction(draft, key, value)
        if not draft.was_set(key):
            draft.put(key, value, "gpu_count and num_nodes")
    return draft


@contextmanager
def of_value(name: str) -> Generator[None]:
    """Name the value that the user has set in its error, so that a reader of files can add the
    line.
    """
    try:
        yield
    except SpecError as error:
        error.field = error.field or f"{SET}.{name}"
        raise


def template_of(bank: Bank, skill: Skill, action: str) -> Tree:
    """The template of the bank without the values that it leaves open, else an empty spec."""
    path = template_file(bank.root, skill, action)
    if path is None:
        return {}
    document = read_bank_document(bank.root, path)
    require_mapping(document, path, "a template")
    return cast(Tree, without_unset(document.plain()))


def check_keys(
    bank: Bank, skill: Skill, action: Action, draft: Draft, choices: ModelChoices
) -> tuple[str, ...]:
    """The parts of the spec that the bank does not know. Raises SpecError for what its schema does
    not allow, and for a key that is nearly a known one.
    """
    if action.mode is Mode.CONFIG and (schema := read_schema(bank.root, skill, action.name)):
        return check_against_schema(schema, skill, action, draft, choices)
    return check_against_names(bank, skill, action, choices)


def check_against_schema(
    schema: Json, skill: Skill, action: Action, draft: Draft, choices: ModelChoices
) -> tuple[str, ...]:
    """The parts of the spec that the schema does not know. Raises SpecError with all that it does
    not allow.
    """
    checked = check_spec(schema, draft.tree)
    if not checked.errors:
        return tuple(checked.warnings)
    first, *others = checked.errors
    more = " ".join(error.what for error in others)
    names = {key_of(skill, action, name): name for name in choices.values}
    field = f"{SET}.{names[first.field]}" if first.field in names else ""
    raise FieldError(field, first.what, join_sentences(first.why, more), first.next)


def check_against_names(
    bank: Bank, skill: Skill, action: Action, choices: ModelChoices
) -> tuple[str, ...]:
    """A warning with the keys, set by the user, that neither the skill nor the template names."""
    names = {key_of(skill, action, name): name for name in choices.values}
    try:
        unknown = unknown_keys(skill, names, template_of(bank, skill, action.name))
    except FieldError as error:
        error.field = f"{SET}.{names[error.field]}"
        raise
    if not unknown:
        return ()
    listed = ", ".join(unknown)
    return (f"{listed}: not among the keys that {skill.name} names, so it is not checked.",)


def values_of_data(
    skill: Skill, action: Action, choices: ModelChoices, notes: list[str]
) -> Iterator[tuple[str, Any]]:
    title = f"{skill.name} {action.name}"
    sources = skill.data_sources.get(action.name, {})
    refuse_unknown_data(choices.data, sources, title)
    format = next(iter(as_list(choices.data.get(FORMAT, ""))), "") or skill.data_format
    return data_values(Datasets(choices.data, format, choices.is_there, notes), sources, title)


def values_of_params(skill: Skill, action: Action) -> Iterator[tuple[str, str]]:
    """Yield the values that spec_params state themselves: the name of a file that the action makes,
    the name of a class, and a file of the web if the job fetches that key.
    """
    yield from made_files(skill, action).items()
    for key, param in skill.spec_params.get(action.name, {}).items():
        if isinstance(param, Download):
            if key in action.inputs:
                yield key, param.link
        elif param[:1].isupper():
            yield key, param


def key_of(skill: Skill, action: Action, name: str) -> str:
    """The key that a short name stands for; a key is returned as it is. Raises SpecError for a text
    that is nearly a short name.
    """
    shorthands = skill.spec_shorthand_keys
    if name in shorthands:
        return shorthands[name]
    if action.mode is Mode.ARGS:
        name = name.replace("-", "_")
    if not is_spec_key(name):
        raise SpecError(
            f"set: {name!r} is no key of a spec.", "", "Write it like train.num_epochs."
        )
    near = difflib.get_close_matches(name, shorthands, n=1, cutoff=LIKE)
    if "." not in name and near:
        meant = f"{near[0]} ({shorthands[near[0]]})"
        raise SpecError(f"set: {skill.name} has no key {name!r}.", "", f"Did you mean {meant}?")
    return name


def gpus_of(skill: Skill, choices: ModelChoices, draft: Draft) -> int:
    """The GPUs of a node: as given, else as the spec was set, else as the skill says, else 1."""
    if choices.gpu_count is not None:
        return choices.gpu_count
    count = gpus_set(skill, draft)
    if count is None:
        count = skill.resource_defaults.get(GPU_COUNT)
    return count if isinstance(count, int) else 1


def gpus_set(skill: Skill, draft: Draft) -> int | None:
    """The GPUs of a node as the user has set them in the spec; None if not set."""
    key = skill.gpu_spec_key
    if not key or not draft.was_set(key):
        return None
    count = get_value(draft.tree, key)
    return count if isinstance(count, int) else None


def gpus_origin(skill: Skill, choices: ModelChoices, draft: Draft) -> str:
    if choices.gpu_count is not None:
        return GIVEN
    if gpus_set(skill, draft) is not None:
        return SET
    if GPU_COUNT in skill.resource_defaults:
        return f"resource_defaults of {skill.path}"
    return "default"


def hardware_keys(
    skill: Skill, action: Action, gpus: int, nodes: int, tree: Tree
) -> Iterator[tuple[str, int | list[int]]]:
    """The keys of the spec that have to agree with the job's GPUs and nodes."""
    key = skill.gpu_spec_key
    if action.mode is Mode.ARGS and takes_argument(action, key):
        yield key, gpus
    if action.mode is not Mode.CONFIG or not is_of_action(key, action.name):
        return
    section, _, last = key.rpartition(".")
    ids = f"{section}.{IDS}"
    yield key, gpus
    if last == GPUS and (gpus > 1 or (gpus == 0 and get_value(tree, ids))):
        yield ids, list(range(gpus))
    if skill.node_spec_key:
        yield skill.node_spec_key, nodes
    elif last == GPUS and nodes > 1:
        yield f"{section}.{NODES}", nodes


def takes_argument(action: Action, key: str) -> bool:
    """True if one of the action's arguments is filled by this key."""
    templates = (action.command, *action.args.values())
    return any(key in PLACEHOLDER.findall(template) for template in templates)


def is_of_action(key: str, action: str) -> bool:
    """True for training, and for a key in the section of the action: train.num_gpus says nothing
    about evaluate.
    """
    return bool(key) and (action.endswith("train") or key.partition(".")[0] == action)


def refuse_contradiction(draft: Draft, key: str, count: int | list[int]) -> None:
    """Raise SpecError if the user has set another number. A template's number gives way."""
    found = get_value(draft.tree, key)
    if not draft.was_set(key) or size_of(found) == size_of(count):
        return
    raise SpecError(
        f"{key} is set to {found!r}, and the job asks for {size_of(count)}.",
        "The program would wait for what it does not get, or leave some of it idle.",
        f"Leave {key} out, or change gpu_count or num_nodes.",
    )


def size_of(value: Any) -> Any:
    """The length of a list; any other value as it is."""
    return len(cast("list[Any]", value)) if isinstance(value, list) else value


def refuse_missing_inputs(skill: Skill, action: Action, tree: Tree) -> None:
    """Raise SpecError that names each required input without a value, and what it should be."""
    missing = [key for key, each in action.inputs.items() if is_missing(each, action, tree)]
    if missing:
        title = f"{skill.name} {action.name}"
        raise FieldError(
            "data",
            f"{title} needs a value for {', '.join(missing)}.",
            " ".join(dict.fromkeys(source_of(skill, action, key) for key in missing)).strip(),
            way_to_give(skill, action, missing[0]),
        )


def way_to_give(skill: Skill, action: Action, key: str) -> str:
    """Tell the user how to give an input."""
    if skill.spec_params.get(action.name, {}).get(key) in FILLED_BY_PARENT:
        return (
            "Name the job that made it (--parent JOB), or the file (--checkpoint PATH), "
            f"or set {key}."
        )
    if key in skill.data_sources.get(action.name, {}):
        return f"Give data, or set {key}=s3://..."
    if action.inputs[key].type == "local_glob":
        return f"Mount the files in the job, and set the pattern of their paths: {key}=/data/*.mp4"
    return f"Set {key}=s3://..."


def is_missing(declared: Input, action: Action, tree: Tree) -> bool:
    if declared.optional or action.mode is Mode.PASSTHROUGH or declared.key in action.outputs:
        return False
    name = spec_name(action, declared.key)
    return name not in action.defaults and get_value(tree, name) in (None, "", [])


def source_of(skill: Skill, action: Action, key: str) -> str:
    """Tell the user what the value of an input should be; "" if the skill does not say."""
    if description := action.inputs[key].description:
        return f"{key} is {description}."
    sources = skill.data_sources.get(action.name, {})
    source = sources.get(key) or sources.get(key_of_first(key))
    if source is not None:
        data = short_name(source.source)
        if named := ANNOTATION.fullmatch(source.path or ""):
            given = f"{short_name(named[1])}{ANNOTATION_END}"
            return f"{key} is a file of data {data}, whose name you give as data {given}."
        return f"{key} is {source.path or 'the dataset itself'} of data {data}."
    if skill.spec_params.get(action.name, {}).get(key) in FILLED_BY_PARENT:
        return f"{key} is a checkpoint of an earlier job."
    return ""
