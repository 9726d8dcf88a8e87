"""Template: the job that every trial of a search is a copy of, and how a trial's values go into it.

Here: the record, its JSON, and the JobSpec of a trial. Pure. Not here: which values (propose/), and
who submits it (drive.py). A secret is kept by its name alone.
"""

from __future__ import annotations

import base64
import copy
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tao_automl.near import near_name
from tao_automl.settings import mistake
from tao_automl.space.mistake import space_mistake
from tao_automl.trial import Params
from tao_sdk.model.fields import plain_value
from tao_sdk.model.spec import NAME_LENGTH, JobSpec, dns_label, stored_spec

SEARCH_LABEL, TRIAL_LABEL, RUNG_LABEL = "tao-search", "tao-trial", "tao-rung"
ENVIRONMENT = "env."
EPOCH_KEYS = ("num_epochs", "epochs", "max_epochs")  # what a key of epochs is mostly called
INTERVALS = ("checkpoint_interval", "validation_interval")  # beside the key of epochs
PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w-]*)\}")


@dataclass(frozen=True)
class Template:
    """What every trial runs, and where. `epochs_key` and `resume_key` are "" where the spec has
    none: then no trial is trained in rungs, or each rung starts anew.
    """

    spec: JobSpec
    platform: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    epochs_key: str = ""
    resume_key: str = ""

    def to_json(self) -> dict[str, Any]:
        files = {
            name: base64.b64encode(as_bytes(content)).decode()
            for name, content in self.spec.files.items()
        }
        return {
            "spec": self.spec.to_json(),
            "files": files,
            "platform": self.platform,
            "options": plain_value(dict(self.options)),
            "epochs_key": self.epochs_key,
            "resume_key": self.resume_key,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Template:
        files = {name: base64.b64decode(text) for name, text in data["files"].items()}
        return cls(
            replace(stored_spec(data["spec"]), files=files),
            data["platform"],
            data["options"],
            data["epochs_key"],
            data["resume_key"],
        )


@dataclass(frozen=True)
class Rung:
    """How far a trial's job trains, and the checkpoint that it goes on from; "" to start anew."""

    number: int = 0
    epochs: int | None = None
    checkpoint: str = ""
    is_folder: bool = False  # of the checkpoint
    mounts: tuple[str, ...] = ()  # through which a container sees it


def as_bytes(content: Any) -> bytes:
    return content.encode() if isinstance(content, str) else bytes(content)


def trial_spec(
    template: Template, search_id: str, trial: int, params: Params, rung: Rung
) -> JobSpec:
    """The job of a trial at one rung."""
    spec = with_params(template.spec, params)
    spec = with_epochs(spec, template.epochs_key, rung.epochs)
    spec = with_checkpoint(spec, template.resume_key, rung)
    labels = {
        **spec.labels,
        SEARCH_LABEL: search_id,
        TRIAL_LABEL: str(trial),
        RUNG_LABEL: str(rung.number),
    }
    return replace(spec, name=trial_name(search_id, trial), labels=labels)


def trial_name(search_id: str, trial: int) -> str:
    """`digits-search-9` for the ninth trial of digits-search-4k1m9x0rt2."""
    ending = f"-{trial}"
    name = dns_label(search_id.rpartition("-")[0])
    return name[: NAME_LENGTH - len(ending)].rstrip("-") + ending


def with_params(spec: JobSpec, params: Params) -> JobSpec:
    """The job with a trial's values: keys of its specs or args, `{name}` of its command, and
    variables of its environment.
    """
    variables: dict[str, Any] = dict(spec.env_vars)
    specs, args = copy.deepcopy(spec.specs), copy.deepcopy(spec.args)
    for key, value in params.items():
        if key.startswith(ENVIRONMENT):
            variables[key.removeprefix(ENVIRONMENT)] = as_text(value)
        elif key.startswith("{"):
            continue
        elif specs is not None:
            set_value(cast("dict[str, Any]", specs), key, value)
        else:
            args = {**(args or {}), key: value}
    command = filled_command(spec.command, params)
    return replace(spec, env_vars=variables, command=command, specs=specs, args=args)


def filled_command(command: str, params: Params) -> str:
    """The command with a quoted value for each `{name}`. All in one pass: what stands in a value is
    no placeholder.
    """
    words = {
        key: shlex.quote(as_text(value)) for key, value in params.items() if key.startswith("{")
    }
    if not words:
        return command
    return re.sub("|".join(map(re.escape, words)), lambda found: words[found[0]], command)


def as_text(value: Any) -> str:
    """A value as a program reads it from its command or its environment."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(as_text, cast("Iterable[Any]", value)))
    return "" if value is None else str(value)


def set_value(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a dotted key in place. Mappings that are missing on the way are added."""
    *way, last = key.split(".")
    for part in way:
        below = tree.get(part)
        if not isinstance(below, dict):
            below = tree[part] = {}
        tree = cast("dict[str, Any]", below)
    tree[last] = value


def value_at(tree: Any, key: str) -> Any:
    """The value of a dotted key; None where there is none."""
    for part in key.split("."):
        if not isinstance(tree, Mapping):
            return None
        tree = cast("Mapping[str, Any]", tree).get(part)
    return tree


def with_epochs(spec: JobSpec, key: str, epochs: int | None) -> JobSpec:
    """The job that trains so many epochs in total. Its checkpoints and validations are such that
    the last epoch has both.
    """
    if epochs is None or not key:
        return spec
    changed: dict[str, Any] = {key: epochs}
    above = key.rpartition(".")[0]
    for name in INTERVALS:
        beside = f"{above}.{name}".removeprefix(".")
        interval = value_at(values_of(spec), beside)
        if isinstance(interval, int) and not isinstance(interval, bool) and interval > 0:
            changed[beside] = math.gcd(interval, epochs)
    return with_params(spec, changed)


def values_of(spec: JobSpec) -> Mapping[str, Any]:
    """The specs of a job, else its args."""
    if spec.specs is not None:
        return spec.specs
    return spec.args or {}


def with_checkpoint(spec: JobSpec, key: str, rung: Rung) -> JobSpec:
    """The job that goes on from a checkpoint, which is declared as one of its inputs."""
    if not rung.checkpoint or not key:
        return spec
    changed: dict[str, Any] = {key: rung.checkpoint}
    switch = f"{key.rpartition('.')[0]}.resume".removeprefix(".")
    if value_at(values_of(spec), switch) is False:
        changed[switch] = True
    about = {"type": "folder" if rung.is_folder else "file"}
    inputs = {**cast("Mapping[str, Any]", spec.inputs or {}), key: about}
    mounts = [*cast("Sequence[Any]", spec.mounts or ()), *rung.mounts] or spec.mounts
    return replace(with_params(spec, changed), inputs=inputs, mounts=mounts)


def epochs_key_of(spec: JobSpec, named: str = "") -> str:
    """The key that says how long a job trains: the one that is `named`, else the only one that is
    called so; "" where none is. Raises SettingError for a named key that the job does not have.
    """
    keys = list(keys_in(values_of(spec)))
    if named:
        if named not in keys:
            what = f"epochs_key is {named!r}, which the job does not have."
            raise mistake("epochs_key", what, near_name(named, keys))
        return named
    return usual_epochs_key(keys)


def usual_epochs_key(keys: Iterable[str]) -> str:
    """The key that is mostly called so, of the block `train` where it has one; "" without any."""
    found = [key for key in keys if key.rpartition(".")[2] in EPOCH_KEYS]
    trained = [key for key in found if key.startswith("train.")]
    return next(iter(trained or found), "")


def keys_in(tree: Mapping[str, Any], above: str = "") -> Iterable[str]:
    """The dotted keys of all values."""
    for name, value in tree.items():
        key = f"{above}{name}"
        if isinstance(value, Mapping) and value:
            yield from keys_in(cast("Mapping[str, Any]", value), f"{key}.")
        else:
            yield key


def defaults_of(spec: JobSpec, keys: Iterable[str]) -> dict[str, Any]:
    """The values that the job itself has for these parameters."""
    found: dict[str, Any] = {}
    for key in keys:
        value = default_of(spec, key)
        if value is not None:
            found[key] = value
    return found


def default_of(spec: JobSpec, key: str) -> Any:
    if key.startswith("{"):
        return None
    if key.startswith(ENVIRONMENT):
        value = spec.env_vars.get(key.removeprefix(ENVIRONMENT))
        return value if isinstance(value, str) else None
    return value_at(values_of(spec), key)


def check_keys(spec: JobSpec, keys: Iterable[str]) -> None:
    """Raises SpaceError for a parameter that is no key of the job and no placeholder of its
    command.
    """
    known = list(keys_in(values_of(spec)))
    for key in keys:
        if key.startswith(ENVIRONMENT):
            continue
        if key.startswith("{"):
            if key not in spec.command:
                names = [f"{{{name}}}" for name in PLACEHOLDER.findall(spec.command)]
                raise space_mistake(key, "does not stand in the command", near_name(key, names))
        elif value_at(values_of(spec), key) is None and key not in known:
            raise space_mistake(key, "is no key of the job's specs or args", near_name(key, known))
