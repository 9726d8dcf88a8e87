"""Model requests: a model of the skill bank by its name, joined with the other fields of a job.

Here: the keys for a model in a job file, flags and create_job, and the job that they make. Not
here: what a skill says and how its spec is built (skills/), and how a job file is read
(job_file.py).
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tao_sdk.backends.by_name import backend_class, platform_name
from tao_sdk.client.set_values import read_pair
from tao_sdk.model import fields as f
from tao_sdk.model.errors import TaoError
from tao_sdk.model.fields import FieldError, Kind, setting, settings_of
from tao_sdk.model.spec import JobSpec, read_spec

if TYPE_CHECKING:
    from tao_sdk.client.client import Client
    from tao_sdk.model.job import Job
    from tao_sdk.model.settings import Settings
    from tao_sdk.skills.bank import Bank
    from tao_sdk.skills.model_job import ModelJob
    from tao_sdk.skills.skill import Skill

# Fields of a job that its model has: beside a model they are refused.
OF_THE_MODEL = ("command", "mode", "config_format", "specs", "args", "inputs", "outputs")
# Fields of a job that decide values of the spec, too.
SHARED = ("image", "gpu_count", "num_nodes")
RESULTS = "/results"  # in a container: the results of all jobs, unless the job names a folder


def read_datasets(value: Any) -> dict[str, str | list[str]]:
    """Datasets by name: an address each, or a list of them."""
    if not isinstance(value, Mapping):
        raise TypeError
    return {
        str(name): read_addresses(each) for name, each in cast("Mapping[Any, Any]", value).items()
    }


def read_addresses(value: Any) -> str | list[str]:
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(cast("str", value))
    if isinstance(value, (list, tuple)) and all(
        isinstance(item, str) for item in cast("list[Any]", value)
    ):
        return list(cast("Sequence[str]", value))
    raise TypeError


DATASETS = Kind(
    "a mapping of datasets to addresses, such as train: s3://bucket/coco",
    read_datasets,
    {
        "type": "object",
        "additionalProperties": {"type": ["string", "array"], "items": {"type": "string"}},
    },
    flag=False,
)


@dataclass(frozen=True)
class ModelRequest:
    """A model, its action, and the action's data and values."""

    model: str = setting(f.TEXT, "", "A model of the skill bank, by its name, such as digits.")
    action: str = setting(f.TEXT, "", "What the model is to do: train, evaluate, ...")
    data: Mapping[str, str | list[str]] = setting(
        DATASETS, {}, "Its datasets, such as train: s3://bucket/coco; format names their format."
    )
    set: Mapping[str, Any] = setting(
        f.MAPPING, {}, "Values of its spec, by full key or short name."
    )
    parent: str = setting(f.TEXT, "", "The job whose checkpoint the model takes.")
    checkpoint: str = setting(
        f.TEXT, "", "Which one: best, latest, epoch:N, step:N or a path. Default: best."
    )
    skill_bank: str = setting(f.TEXT, "", "The folder of the skill bank. Default: as tao skills.")


MODEL_KEYS = tuple(settings_of(ModelRequest))


@dataclass(frozen=True)
class JoinedJob:
    """The job of a model with the other fields of the job, and the parent that it continues."""

    job: ModelJob
    parent: Job | None = None
    takes_paths: bool = False  # the parent's paths: they exist only where it ran
    # keys of the spec, and what the parent has for them
    from_parent: Mapping[str, str] = field(default_factory=dict[str, str])
    skill: Skill | None = None
    action: str = ""

    @property
    def spec(self) -> JobSpec:
        return self.job.spec

    @property
    def notes(self) -> list[str]:
        """Notes to show before the job starts: the values that it takes from its parent, and
        warnings.
        """
        taken = [
            f"{key}: {value}, from {self.parent.id}"
            for key, value in self.from_parent.items()
            if self.parent
        ]
        return [*taken, *self.job.warnings]


def has_model(values: Mapping[str, Any]) -> bool:
    """True if a model's name, or any other key of a model's job, is given."""
    return any(values.get(name) for name in MODEL_KEYS)


def split_values(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The given values, split into the fields of JobSpec and the keys of the model."""
    of_model = {name: value for name, value in values.items() if name in MODEL_KEYS}
    return {name: value for name, value in values.items() if name not in of_model}, of_model


def typed_set(typed: Iterable[str]) -> dict[str, Any]:
    """`KEY=VALUE` texts as values by key. Raises UsageError."""
    return dict(map(read_pair, typed))


# Datasets on this machine


def is_relative(address: str) -> bool:
    """True for a path of this machine that is written relative to a folder, or to the home."""
    return "://" not in address and not address.startswith("/")


def with_whole_paths(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The datasets, with relative paths as absolute ones that start in the folder."""

    def whole(address: str) -> str:
        if not is_relative(address) or not address:
            return address
        return os.path.normpath(folder.absolute() / Path(address).expanduser())

    from tao_sdk.skills.datasets import FORMAT

    def with_whole(name: str, value: Any) -> Any:
        if name == FORMAT:
            return value
        if isinstance(value, str):
            return whole(value)
        return [whole(address) for address in value]

    return {name: with_whole(name, value) for name, value in read_datasets(data).items()}


def refuse_unseen_data(data: Mapping[str, Any], platform: str) -> None:
    """Raise FieldError for a dataset by a relative path if jobs do not see this machine."""
    if backend_class(platform).capabilities.shared_filesystem:
        return
    from tao_sdk.skills.datasets import FORMAT

    for name, value in data.items():
        addresses = [value] if isinstance(value, str) else list(value)
        if name != FORMAT and any(map(is_relative, addresses)):
            raise FieldError(
                f"data.{name}",
                f"data {name} is a path of this machine, which jobs on {platform} do not see.",
                "",
                "Put the dataset in a bucket (s3://...), or write its absolute path there.",
            )


# The join


def join_model(
    request: ModelRequest,
    given: Mapping[str, Any],
    client: Client | None = None,
    settings: Settings | None = None,
) -> JoinedJob:
    """The job of the model, with the fields of JobSpec that are `given` beside it.

    The client looks the parent up. Without a client, the store of the settings is opened for that.
    Raises SpecError with its field, SkillNotFound, ActionNotFound, BankError, JobNotFound,
    Unreachable.
    """
    from tao_sdk.client.client import Client

    if client is not None:
        return Joining(request, given, client).joined()
    with Client(settings=settings) as own:
        return Joining(request, given, own).joined()


@contextmanager
def of_key(key: str) -> Generator[None]:
    """Give this key to an error that names no field."""
    try:
        yield
    except TaoError as error:
        error.field = error.field or key
        raise


@dataclass(frozen=True)
class Joining:
    """One model request, on its way to a job."""

    request: ModelRequest
    given: Mapping[str, Any]
    client: Client

    def joined(self) -> JoinedJob:
        from tao_sdk.skills.model_job import ModelChoices, prepare_model_job

        for mistake in model_mistakes(self.request, self.given):
            raise mistake
        bank, skill = self.bank_and_skill()
        parent = self.parent_job()
        from_parent = self.parent_values(skill, parent)
        choices = ModelChoices(
            data=self.request.data,
            values=flat_values(self.request.set),
            from_parent=from_parent,
            image=self.given.get("image") or "",
            gpu_count=whole_number("gpu_count", self.given),
            num_nodes=whole_number("num_nodes", self.given),
            is_there=self.is_there,
        )
        with of_key("model"):
            job = prepare_model_job(bank, skill, self.request.action, choices, self.client.settings)
        takes_paths = parent is not None and any(map(is_path, from_parent.values()))
        job = with_fields(job, self.given)
        if parent is not None and takes_paths:
            job = self.with_parents_mounts(job, parent)
        return JoinedJob(job, parent, takes_paths, from_parent, skill, self.request.action)

    def is_there(self, address: str) -> bool | None:
        """True if a file of a dataset is there; None if it cannot be seen from here."""
        from tao_sdk.preflight.datasets import NotSeen
        from tao_sdk.preflight.places import Buckets
        from tao_sdk.skills.datasets import is_here

        if not address.startswith("s3://"):
            return is_here(address)
        try:
            return Buckets(self.client.settings.environ).look(address) is not None
        except NotSeen:
            return None

    def bank_and_skill(self) -> tuple[Bank, Skill]:
        from tao_sdk.skills.bank import choose_bank
        from tao_sdk.skills.names import load_named

        with of_key("skill_bank"):
            bank = choose_bank(self.request.skill_bank or None, self.client.settings)
        with of_key("model"):
            skill = load_named(bank, self.request.model)
        with of_key("action"):
            if not self.request.action:
                known = ", ".join(skill.actions) or "none"
                raise FieldError("action", "action is missing.", "", f"{skill.name} has: {known}.")
            skill.action(self.request.action)
        return bank, skill

    def parent_job(self) -> Job | None:
        if not self.request.parent:
            return None
        with of_key("parent"):
            return self.client.get_job(self.request.parent)

    def parent_values(self, skill: Skill, parent: Job | None) -> dict[str, str]:
        """The keys of the spec that an earlier job, or the named checkpoint, fills, with their
        values.
        """
        from tao_sdk.skills.parent import values_from_parent, values_of_checkpoint

        action, checkpoint = skill.action(self.request.action), self.request.checkpoint
        if parent is None and not checkpoint:
            return {}
        if parent is None:
            with of_key("checkpoint"):
                return values_of_checkpoint(skill, action, absolute_if_here(checkpoint))
        with of_key("checkpoint" if checkpoint else "parent"):
            found = values_from_parent(self.client, skill, action, parent.id, checkpoint)
        if not found and checkpoint:
            raise FieldError(
                "checkpoint",
                f"{skill.name} {action.name} takes no checkpoint of a parent.",
                f"As {skill.path} says.",
                "Leave it out, or set the key of the spec that takes one.",
            )
        return {key: self.path_in_job(parent, path) for key, path in found.items()}

    def path_in_job(self, parent: Job, path: str) -> str:
        """The path of a parent's file as a further job sees it."""
        below = path.removeprefix(parent.results_dir.rstrip("/") + "/")
        if below == path or not is_path(parent.results_dir) or not self.in_container(parent):
            return path
        return f"{results_in_container(parent)}/{below}"

    def in_container(self, job: Job) -> bool:
        """True if every job of its platform runs in a container, which has other paths."""
        return backend_class(job.platform).capabilities.needs_image

    def with_parents_mounts(self, job: ModelJob, parent: Job) -> ModelJob:
        """The job with the mounts that hold the parent's results, if it names no mounts."""
        inside = results_in_container(parent)
        if not self.in_container(parent) or job.spec.mounts or parent.results_dir == inside:
            return job
        mounts: Any = parent.spec.get("mounts")
        if not mounts:
            mounts = [f"{parent.results_dir}:{inside}:ro"]
        origins = {**job.origins, "mounts": "parent"}
        return replace(job, spec=replace(job.spec, mounts=mounts), origins=origins)


def absolute_if_here(checkpoint: str) -> str:
    """A relative path of this machine as an absolute one; anything else as it is."""
    if is_relative(checkpoint) and Path(checkpoint).exists():
        return str(Path(checkpoint).absolute())
    return checkpoint


def is_path(text: str) -> bool:
    return text.startswith("/") or text.startswith("pvc:")


def results_in_container(job: Job) -> str:
    """The path of the job's results inside its container."""
    variables: Mapping[str, Any] = job.spec.get("env_vars") or {}
    root = variables.get("TAO_RESULTS_ROOT")
    if not isinstance(root, str) or not root.startswith("/"):
        root = RESULTS
    return f"{root.rstrip('/')}/{job.id}"


OWN_COMMAND = (
    "A command of your own takes the file: tao results JOB --epoch best prints its path, "
    "and --inputs NAME=PATH brings it into the job."
)


def model_mistakes(request: ModelRequest, given: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors of a job without a model's name, and of fields that the model sets
    itself.
    """
    if not request.model:
        name = next(name for name in MODEL_KEYS if getattr(request, name))
        advice = "Add the model: --model NAME (model: in a job file)."
        if name in ("parent", "checkpoint"):
            advice += f" {OWN_COMMAND}"
        what = f"{name} is given, and no model."
        yield FieldError(name, what, "It is of a job of a model.", advice)
    for name in OF_THE_MODEL:
        if request.model and given.get(name):
            yield FieldError(
                name,
                f"{name} cannot stand beside model.",
                f"The {name} comes from the skill of {request.model}.",
                "Leave it out. Values of the spec go under set, datasets under data.",
            )


def whole_number(name: str, given: Mapping[str, Any]) -> int | None:
    """The number of GPUs or nodes that is given."""
    value = given.get(name)
    if value is None:
        return None
    return cast("int | None", getattr(f.read_settings(JobSpec, {name: value}), name))


def flat_values(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Values by full key: `{train: {lr: 1}}` is `{train.lr: 1}`."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{above}{name}"
        if isinstance(value, Mapping) and value:
            flat |= flat_values(cast("Mapping[str, Any]", value), f"{key}.")
        else:
            flat[key] = value
    return flat


def with_fields(job: ModelJob, given: Mapping[str, Any]) -> ModelJob:
    """The model's job with the other fields that are given; files are added to the model's."""
    own = {
        name: value
        for name, value in given.items()
        if name not in (*SHARED, *OF_THE_MODEL) and value is not None
    }
    if not own:
        return job
    if own.get("files"):
        own["files"] = {**job.spec.files, **own["files"]}
    of_model = {field.name: getattr(job.spec, field.name) for field in fields(job.spec)}
    origins = {**job.origins, **dict.fromkeys(own, "given")}
    return replace(job, spec=read_spec({**of_model, **own}), origins=origins)


def refuse_other_place(joined: JoinedJob, place: str) -> None:
    """Raise FieldError if a job of this place cannot reach the parent's files."""
    if joined.parent is None or not joined.takes_paths:
        return
    parent = joined.parent
    if platform_name(place) == parent.place:
        return
    raise FieldError(
        "parent",
        f"The parent {parent.id} ran on {parent.place}, and its results are there.",
        f"Jobs on {place} do not see {parent.results_dir}.",
        f"Run it there: --platform {parent.place}",
    )
