"""Job request: from typed input (a job file, flags, a command) to a JobSpec and its platform.

Not here: how a job file is read (job_file.py), and how the value of one flag is (typed_values.py).
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_sdk.backends.by_name import platform_at, platforms
from tao_sdk.client.image_key import with_image
from tao_sdk.client.model_request import (
    JoinedJob,
    ModelRequest,
    has_model,
    join_model,
    refuse_other_place,
    refuse_unseen_data,
    split_values,
    typed_set,
)
from tao_sdk.client.place_names import options_class
from tao_sdk.client.set_values import SetSpec, text_notes, with_values
from tao_sdk.client.typed_values import read_fields, read_option_pairs
from tao_sdk.model.errors import SpecError, UsageError
from tao_sdk.model.fields import read_settings, settings_of
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, read_spec

if TYPE_CHECKING:
    from tao_sdk.client.client import Client
    from tao_sdk.client.job_file import JobFile
    from tao_sdk.skills.skill import Skill

DEFAULT_PLATFORM = "local"
INTERPRETERS: Mapping[str, str] = {".py": "python", ".sh": "bash"}  # by a program's suffix
DOCUMENT_ENDS = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class TypedJob:
    """The job as typed on the command line. Flags stand under the names of their fields, with their
    values as typed.
    """

    job_file: str | None = None
    platform: str | None = None  # or the name of an endpoint
    command: Sequence[str] = ()
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of JobSpec
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of the platform's Options
    option_pairs: Sequence[str] = ()  # NAME=VALUE, for any option of the platform
    set_values: Sequence[str] = ()  # KEY=VALUE, for one value of the specs or args
    model: Mapping[str, Any] = field(default_factory=dict[str, Any])  # keys of ModelRequest


@dataclass(frozen=True)
class JobRequest:
    """A job to run, its platform, and the file it came from, if any."""

    spec: JobSpec
    platform: str  # or the name of an endpoint
    options: Mapping[str, Any]
    file: JobFile | None
    notes: tuple[str, ...] = ()
    parent: str | None = None  # the id of the job that this one continues
    # for a model's job: the origin of its fields, and of the values of its spec
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    skill: Skill | None = None  # for a model's job
    action: str = ""  # of the skill

    def located(self, error: SpecError) -> SpecError:
        """The error with its place in the job file, and with the other mistakes there."""
        if self.file:
            return self.file.with_others(error, self.spec)
        return error


def read_request(typed: TypedJob, client: Client | None = None) -> JobRequest:
    """The job that was typed. Typed values win over the job file. Results are kept unless the job
    says otherwise. The `client` looks up the parent of a model's job.

    Raises UsageError and SpecError.
    """
    changes = {**read_fields(JobSpec, typed.fields), **read_fields(ModelRequest, typed.model)}
    if typed.command:
        changes["command"] = command_line(typed.command)
    refuse_no_job(typed.job_file, changes)
    native = changes.pop("native", None)
    file, joined = None, None
    if typed.job_file:
        from tao_sdk.client.job_file import read_job_file

        file = read_job_file(typed.job_file, changes, set_values=typed.set_values, client=client)
        joined = file.joined
    elif has_model(changes):
        joined = join_typed(changes, typed.set_values, client)
    place = place_of(typed, file, joined)
    platform = platform_at(place, Settings.load())
    refuse_unseen_data(typed_addresses(typed), platform)
    if joined:
        refuse_other_place(joined, place)
    spec = spec_of(file, joined, platform, changes)
    if spec.keep_results is None:
        spec = replace(spec, keep_results=True)
    if native:
        spec = replace(spec, native=native)
    spec, command_notes = without_typed_again(spec, typed, changes)
    changed = SetSpec(spec) if joined else with_values(spec, typed.set_values)
    final, image_notes = with_image(changed.spec)
    notes = (*argument_notes(changes), *command_notes, *changed.notes, *image_notes)
    options = read_options(platform, file, typed)
    if joined is None:
        return JobRequest(final, place, options, file, notes)
    parent = joined.parent.id if joined.parent else None
    notes = (*notes, *joined.notes)
    origins = joined.job.origins
    return JobRequest(
        final, place, options, file, notes, parent, origins, joined.skill, joined.action
    )


def join_typed(
    changes: Mapping[str, Any], set_values: Sequence[str], client: Client | None
) -> JoinedJob:
    """The job of a model that was typed without a job file."""
    given, of_model = split_values(changes)
    of_model["set"] = typed_set(set_values)
    return join_model(read_settings(ModelRequest, of_model), given, client)


def place_of(typed: TypedJob, file: JobFile | None, joined: JoinedJob | None) -> str:
    """The platform or endpoint of the job: as typed, as the file says, that of its parent, or else
    the default.
    """
    if typed.platform:
        return typed.platform
    if file and file.platform:
        return file.platform
    if joined and joined.parent:
        return joined.parent.place
    return DEFAULT_PLATFORM


def spec_of(
    file: JobFile | None, joined: JoinedJob | None, platform: str, changes: Mapping[str, Any]
) -> JobSpec:
    if file:
        return file.spec_for(platform)
    return joined.spec if joined else read_spec(changes)


def typed_addresses(typed: TypedJob) -> dict[str, str]:
    """The datasets of `--data NAME=ADDRESS`, as they were typed."""
    return dict(text.split("=", 1) for text in typed.model.get("data") or ())


def without_typed_again(
    spec: JobSpec, typed: TypedJob, changes: Mapping[str, Any]
) -> tuple[JobSpec, list[str]]:
    """The spec without the job file's args whose options the typed command has itself, and notes on
    the file's args.

    An arg stays if it was typed too, or if another field of the job names it.
    """
    if not (typed.job_file and typed.command and spec.args):
        return spec, []
    arguments: Mapping[str, Any] = changes.get("args") or {}
    typed_names = {*arguments, *(each.split("=")[0] for each in typed.set_values)}
    from_file = {name: value for name, value in spec.args.items() if name not in typed_names}
    options = options_in(spec.command)
    named = {*(spec.inputs or ()), *(spec.outputs or ()), spec.resume_key}
    twice = [name for name in from_file if option_of(name) in options and name not in named]
    kept = {name: value for name, value in spec.args.items() if name not in twice}
    notes = [f"{name} of {typed.job_file} is left out: the typed command has it." for name in twice]
    if added := [name for name in from_file if name in kept]:
        notes.append(f"args of {typed.job_file} are added to the typed command: {', '.join(added)}")
    return replace(spec, args=kept), notes


def option_of(name: str) -> str:
    """`--batch-size` of `batch_size`."""
    return "--" + name.replace("_", "-")


def options_in(command: str) -> set[str]:
    """The long options in a line of shell, with `-` for `_`."""
    names = (word.partition("=")[0] for word in words_of(command))
    return {name.replace("_", "-") for name in names if name.startswith("--")}


def argument_notes(changes: Mapping[str, Any]) -> Iterator[str]:
    """Notes on the values of --args."""
    arguments: Mapping[str, Any] = changes.get("args") or {}
    for name, value in arguments.items():
        yield from text_notes("--args", name, value)


def command_line(words: Sequence[str]) -> str:
    """One word is a line of shell as it is; several are quoted."""
    if len(words) == 1:
        return words[0]
    return shlex.join(words)


def read_options(platform: str, file: JobFile | None, typed: TypedJob) -> dict[str, Any]:
    options = dict(file.options_for(platform)) if file else {}
    record = options_class(platform)
    if record is None:
        return options
    return {
        **options,
        **read_fields(record, typed.options),
        **read_option_pairs(record, typed.option_pairs, platform),
    }


def refuse_no_job(job_file: str | None, changes: Mapping[str, Any]) -> None:
    """Raise UsageError if there is nothing to run, or if a program stands in the place of the job
    file.
    """
    if job_file is None:
        if not changes.get("command") and not has_model(changes):
            do = (
                "Name a job file, or write a command after --, such as "
                "`tao run -- python train.py`."
            )
            raise UsageError("There is nothing to run.", "", do)
        return
    if not Path(job_file).exists() and is_command(job_file):
        raise as_command(job_file)
    suffix = Path(job_file).suffix
    if suffix in INTERPRETERS:
        words = ["--files", job_file, "--", INTERPRETERS[suffix], Path(job_file).name]
        raise NotAJobFile(job_file, "To run it:", words)


def is_command(text: str) -> bool:
    """True for a line of shell, or a program's name, in the place of the job file."""
    words = words_of(text)
    if not words or text == "-":
        return False
    if shutil.which(words[0]):
        return True
    if text.endswith(DOCUMENT_ENDS) or "/" in words[0]:
        return False
    return len(words) > 1 or not Path(text).suffix


class NotAJobFile(UsageError):
    """The error for other text in the place of the job file. `words` are to be typed instead,
    behind all flags.
    """

    def __init__(self, typed: str, advice: str, words: Sequence[str]) -> None:
        self.typed, self.advice, self.words = typed, advice, words
        command = shlex.join(["tao", "run", *words])
        super().__init__(f"{typed} is not a job file.", "", advice, command)


def as_command(text: str) -> NotAJobFile:
    """The error for a command in the place of the job file. Several words are to be typed apart."""
    words = words_of(text)
    needs_no_shell = shlex.join(words) == text
    typed_apart = words if needs_no_shell else [text]
    return NotAJobFile(text, "To run it as a command:", ["--", *typed_apart])


def words_of(text: str) -> list[str]:
    """The words of a line of shell; none if its quotes do not match."""
    try:
        return shlex.split(text)
    except ValueError:
        return []


def platforms_with(option: str) -> list[str]:
    """The platforms that have an option of this name."""
    records = {name: options_class(name) for name in platforms()}
    return [name for name, record in records.items() if record and option in settings_of(record)]
