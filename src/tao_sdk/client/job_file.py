"""Job files: a JobSpec, and how to run it on each platform, as YAML.

Here: what the keys mean, and how every mistake is reported with file, line, column and the likely
intent. Not here: how YAML is read (document.py), what a field allows (model/spec.py), the JSON
Schema for editors (job_schema.py).
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_sdk.backends.by_name import (
    ALIASES,
    NOT_BUILT,
    endpoints,
    is_known,
    platform_at,
    platform_name,
    platforms,
)
from tao_sdk.client.carried_files import local, read_files, wanted
from tao_sdk.client.document import (
    DocumentError,
    Place,
    Value,
    like_named,
    near_files,
    read_document,
)
from tao_sdk.client.job_file_inputs import with_inputs_beside
from tao_sdk.client.mistakes import Collected, as_one
from tao_sdk.client.model_request import (
    MODEL_KEYS,
    OF_THE_MODEL,
    JoinedJob,
    ModelRequest,
    has_model,
    join_model,
    model_mistakes,
    refuse_unseen_data,
    split_values,
    typed_set,
    with_whole_paths,
)
from tao_sdk.client.place_names import options_class
from tao_sdk.client.set_values import with_values
from tao_sdk.model.errors import SpecError, TaoError, Unreachable, UsageError
from tao_sdk.model.fields import FieldError, Kind, field_of_flag, read_settings, settings_of
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import HOOKS, JobSpec, read_spec, spec_mistakes
from tao_sdk.payload.declarations import DECLARATION
from tao_sdk.payload.keys import Step

if TYPE_CHECKING:
    from tao_sdk.client.client import Client
    from tao_sdk.payload.mistakes import DataMistake

# Keys of the file that are no fields of the job. Who searches reads the last two.
BESIDE_FIELDS = ("platform", "options", "native", "search", "automl_policy")
PLAIN_STEMS = frozenset(
    {"job", "tao", "tao-job", "search"}
)  # names that say nothing: the folder's is taken


@dataclass(frozen=True)
class JobFile:
    """A job file that was read: the job to run, and the options for each platform."""

    spec: JobSpec
    platform: str | None  # or the name of an endpoint
    options: Mapping[str, Mapping[str, Any]]
    native: Mapping[str, Mapping[str, Any]]
    path: Path
    places: Mapping[str, Place] = field(default_factory=dict[str, Place], repr=False)
    # the nodes of the document
    nodes: Mapping[str, Value] = field(default_factory=dict[str, Value], repr=False)
    settings: Settings | None = field(default=None, repr=False)  # they have the endpoints
    values: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)  # its own fields
    joined: JoinedJob | None = None  # if the job is a model's

    def spec_for(self, platform: str) -> JobSpec:
        """The spec as the platform runs it. Relative inputs become paths beside this file if the
        platform sees them, and the spec has the platform's patch of the rendered request.
        """
        meant = self.platform_meant(platform)
        try:
            refuse_unseen_data(self.values.get("data") or {}, meant)
        except SpecError as error:
            raise self.located(error) from None
        spec = with_inputs_beside(self.spec, self.path, self.values, meant)
        return replace(spec, native=self.native.get(meant, {}))

    def options_for(self, platform: str) -> Mapping[str, Any]:
        return self.options.get(self.platform_meant(platform), {})

    def platform_meant(self, name: str) -> str:
        """The platform that the name, or the endpoint of that name, stands for."""
        if is_known(name):
            return platform_name(name)
        return platform_at(name, self.settings or Settings.load())

    def located(self, error: SpecError) -> SpecError:
        """The error with the place of its field, if this file has the field."""
        place = self.place_of(error.field)
        if place is None:
            return error
        return DocumentError(place, error.what, error.why, error.next, error.command)

    def place_of(self, key: str) -> Place | None:
        """The place of the value of a field, or of a key below it; None if the file does not have
        it.
        """
        name, _, below = key.partition(".")
        if name not in self.places:
            return None
        return place_below(self.nodes[name], below) or self.places[name]

    def located_in_model(self, error: TaoError, typed: Collection[str]) -> TaoError:
        """The error of a model's key, with its place in this file. Unchanged if it comes from
        elsewhere: from what was `typed`, a file of the skill bank, or a platform.
        """
        if isinstance(error, (DocumentError, Unreachable)):
            return error
        name, _, below = error.field.partition(".")
        if name in typed and not self.has_below(name, below):
            return error
        place = self.place_of(error.field) or self.place_of("model")
        if place is None:
            return error
        located = DocumentError(place, error.what, error.why, error.next, error.command)
        located.key = error.field
        return located

    def has_below(self, name: str, below: str) -> bool:
        """True if this file has the value of a key below `name`, such as one of `set`."""
        return name in self.places and place_below(self.nodes[name], below) is not None

    def with_others(self, error: SpecError, spec: JobSpec) -> SpecError:
        """The error with its place, and with all other mistakes in the data of `spec`. `spec` is
        the job of this file as it was to run.
        """
        mistakes = list(self.data_mistakes(spec))
        if error.what not in {each.error.what for each in mistakes}:
            return self.located(error)
        return as_one([self.located_mistake(each) for each in mistakes])

    def data_mistakes(self, spec: JobSpec, unread: Collection[str] = ()) -> Iterator[DataMistake]:
        """The data mistakes in this file. `unread` are fields that have a mistake already."""
        from tao_sdk.payload.mistakes import data_mistakes

        for mistake in data_mistakes(spec, unread):
            if mistake.field in self.places and mistake.field not in unread:
                yield mistake

    def located_mistake(self, mistake: DataMistake) -> DocumentError:
        error, place = mistake.error, self.place_within(mistake.field, mistake.way)
        located = DocumentError(place, error.what, error.why, error.next, error.command)
        located.key = mistake.key
        return located

    def place_within(self, name: str, way: Sequence[Step]) -> Place:
        """The place of the value at the end of the way, or the nearest place on the way that the
        file has.
        """
        value, place = self.nodes[name], self.places[name]
        for step in way:
            if not isinstance(value.data, dict) or str(step) not in value.data:
                return place
            place = value.keys.get(str(step), place)
            value = value.data[str(step)]
        return place


def read_job_file(
    path: str | Path,
    changes: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    set_values: Sequence[str] = (),
    client: Client | None = None,
) -> JobFile:
    """The job file at `path`. `changes` are fields that win over it: mappings and `secrets` are
    added to, others replaced. Its `platform` may be the name of an endpoint in the config.yaml of
    `settings`. `set_values` are the KEY=VALUE that will change its specs: a mistake that they mend
    is not reported. The `client` looks up the parent of a model's job; without one the user's own
    store is opened for that.

    Raises DocumentError with the place of the mistake, and SpecError for a mistake in `changes`.
    """
    path = Path(path)
    top = top_mapping(read_top(path), path)
    mistakes = Collected()
    reader = Reader(path, mistakes, settings)
    values = reader.fields(top)
    merged, of_model = split_values(whole_values(path, values, changes or {}, set_values))
    if not has_model(of_model):
        merged = {"name": default_name(path), **merged}
    places = {
        name: value.place for name, value in top.mapping.items() if name not in (changes or {})
    }
    job = JobFile(
        spec=JobSpec(),
        platform=reader.platform(top),
        options=reader.by_platform(top, "options"),
        native=reader.by_platform(top, "native"),
        path=path,
        places=places,
        nodes=top.mapping,
        settings=settings,
        values=values,
    )
    request = read_settings(ModelRequest, of_model) if has_model(of_model) else None
    for error in field_mistakes(merged, request):
        if error.field not in mistakes.keys:
            place = places.get(error.field, Place(str(path)))
            mistakes.add(
                DocumentError(place, error.what, error.why, error.next, error.command), error.field
            )
    if mistakes.found:
        add_data_mistakes(mistakes, job, merged, set_values)
    mistakes.tell()
    if request:
        typed = {*(changes or {}), *(["set"] if set_values else [])}
        return with_model(job, request, merged, typed, client)
    return replace(job, spec=read_spec(merged))


def whole_values(
    path: Path, values: Mapping[str, Any], changes: Mapping[str, Any], set_values: Sequence[str]
) -> dict[str, Any]:
    """The values of the file, combined with the typed ones. For a model's job, data paths in the
    file are relative to its folder, and `--set` sets values of the model.
    """
    values = dict(values)
    if "data" in values:
        values["data"] = with_whole_paths(values["data"], path.parent)
    whole = {**values, **combined(values, changes)}
    if has_model(whole) and set_values:
        whole["set"] = {**(whole.get("set") or {}), **typed_set(set_values)}
    return whole


def with_model(
    job: JobFile,
    request: ModelRequest,
    given: Mapping[str, Any],
    typed: Collection[str],
    client: Client | None,
) -> JobFile:
    """The job file with the job of its model. Raises DocumentError, and other TaoErrors for
    mistakes that are not in the file.
    """
    try:
        joined = join_model(request, given, client, job.settings)
    except TaoError as error:
        raise job.located_in_model(error, typed) from None
    return replace(job, spec=joined.spec, joined=joined)


def place_below(value: Value, key: str) -> Place | None:
    """The place of a key's value below a mapping; None if it is not there. `train.lr` is one key of
    the mapping, or `lr` below `train`.
    """
    if not isinstance(value.data, dict):
        return None
    if key in value.data:
        return value.data[key].place
    first, _, rest = key.partition(".")
    if first in value.data and rest:
        return place_below(value.data[first], rest)
    return None


def add_data_mistakes(
    mistakes: Collected, job: JobFile, values: Mapping[str, Any], set_values: Sequence[str]
) -> None:
    """Add the mistakes of the data that the other fields name to the mistakes of fields."""
    unread = mistakes.keys
    spec = readable_spec({name: values[name] for name in values.keys() - unread}, set_values)
    for mistake in job.data_mistakes(spec, unread) if spec else ():
        mistakes.add(job.located_mistake(mistake), mistake.key)


def readable_spec(values: Mapping[str, Any], set_values: Sequence[str]) -> JobSpec | None:
    """The job of these fields; None if they do not make one."""
    try:
        return with_values(read_settings(JobSpec, values), set_values).spec
    except (FieldError, UsageError):
        return None


def read_top(path: Path) -> Value:
    """Read the file. If there is no such file, the error says how to write one."""
    try:
        return read_document(path)
    except DocumentError as error:
        if can_be_written(path) and like_named(path) is None:
            error.add_advice("To write one:", shlex.join(["tao", "init", str(path)]))
        raise


def can_be_written(path: Path) -> bool:
    """True if `tao init` can write this job file: its folder is there, and no such file."""
    return path.suffix in (".yaml", ".yml") and path.parent.is_dir() and not os.path.lexists(path)


def field_mistakes(
    values: Mapping[str, Any], request: ModelRequest | None = None
) -> Iterator[FieldError]:
    """Yield the mistakes in the values of fields. Each value was read by its kind already, at its
    place in the file. A model has its own command, so mistakes in OF_THE_MODEL fields do not count.
    """
    try:
        spec = read_settings(JobSpec, values)
    except FieldError as error:
        yield error
    else:
        of_model = OF_THE_MODEL if request else ()
        yield from (each for each in spec_mistakes(spec) if each.field not in of_model)
    if request:
        yield from model_mistakes(request, values)


def top_mapping(top: Value, path: Path) -> Value:
    if isinstance(top.data, dict):
        return top
    if top.data is None:
        raise DocumentError(
            Place(str(path)),
            "this job file is empty.",
            "",
            "It needs at least the line: command: ...",
        )
    raise DocumentError(
        top.place,
        f"a job file is a mapping; this is {top.shape}.",
        "",
        "Write lines such as: command: python train.py",
    )


def combined(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes, merged with the values that they add to. A secret stays marked when another is
    marked.
    """
    whole = dict(changes)
    for name, value in changes.items():
        before = values.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            whole[name] = {**before, **value}
        elif name == "secrets" and before:
            whole[name] = [*before, *value]
    return whole


def default_name(path: Path) -> str:
    """`digits` for digits.yaml, and for digits/job.yaml."""
    stem = path.stem
    if stem.lower() in PLAIN_STEMS:
        return path.resolve().parent.name or stem
    return stem


@dataclass(frozen=True)
class Reader:
    """Reads the keys of one job file. A mistake in the value of a key is collected, and the next
    key is read.
    """

    path: Path
    mistakes: Collected
    settings: Settings | None = None

    def fields(self, top: Value) -> dict[str, Any]:
        """The given fields of JobSpec and keys of a model, as plain values."""
        known = {**settings_of(JobSpec), **settings_of(ModelRequest)}
        found: dict[str, Any] = {}
        for name, value in top.mapping.items():
            if name in BESIDE_FIELDS:
                continue
            with self.mistakes.of(name):
                if name not in known:
                    raise self.unknown_at_top(name, top, [*known, *BESIDE_FIELDS])
                if value.data is not None:
                    found[name] = self.value(name, value)
        return found

    def value(self, name: str, value: Value) -> Any:
        readers: Mapping[str, Callable[[str, Value], Any]] = {
            "specs": self.specs, "files": self.files, "inputs": declarations,
            "outputs": declarations, "hooks": hooks,
        }  # fmt: skip
        if name in readers:
            return readers[name](name, value)
        return one_field(ModelRequest if name in MODEL_KEYS else JobSpec, name, value)

    def unknown_at_top(self, name: str, top: Value, known: Iterable[str]) -> DocumentError:
        """The error for a key that JobSpec does not have. It names the field for a flag's name, and
        the right place for an option.
        """
        if meant := field_of_flag(name, settings_of(JobSpec)):
            return unknown(name, top, known, meant=meant)
        for platform in platforms():
            options = options_class(platform)
            if options is not None and name in settings_of(options):
                hint = f"It is an option of {platform}: put it under options: {platform}:"
                return unknown(name, top, known, hint)
        return unknown(name, top, known)

    def specs(self, name: str, value: Value) -> dict[str, Any]:
        """The nested spec: here, or in a file of its own."""
        if isinstance(value.data, str):
            value = spec_file(value, local(value, self.path.parent))
        whole = wanted(value, name, dict, "a mapping, or the path of a YAML or JSON file")
        for key, place in whole.keys.items():
            if "." in key:
                raise flat_key(key, place)
        return whole.plain()

    def files(self, name: str, value: Value) -> dict[str, bytes]:
        return read_files(name, value, self.path.parent)

    def platform(self, top: Value) -> str | None:
        value = top.mapping.get("platform")
        if value is None or value.data is None:
            return None
        with self.mistakes.of("platform"):
            wanted(value, "platform", str, "the name of one")
            if not is_known(value.text):
                known_place(value.text, value.place, endpoints(self.settings or Settings.load()))
        return platform_name(value.text)

    def by_platform(self, top: Value, name: str) -> dict[str, dict[str, Any]]:
        """`options:` or `native:`, by the platforms' own names."""
        value = top.mapping.get(name)
        if value is None or value.data is None:
            return {}
        found: dict[str, dict[str, Any]] = {}
        with self.mistakes.of(name):
            wanted(value, name, dict, f"a mapping of platforms, such as {name}: {{slurm: ...}}")
            for platform, own in value.mapping.items():
                with self.mistakes.of(f"{name}.{platform}"):
                    self.one_platform(
                        name, platform, value.keys.get(platform, own.place), own, found
                    )
        return found

    def one_platform(
        self, name: str, platform: str, place: Place, own: Value, found: dict[str, dict[str, Any]]
    ) -> None:
        """Add the values under `options: {platform: ...}` to `found`."""
        known_platform(platform, place)
        known = platform_name(platform)
        if known in found:
            raise DocumentError(
                place, f"{name} names {known} a second time, as {platform}.", "", "Join the two."
            )
        if own.data is not None:
            wanted(own, f"{name}.{platform}", dict, "a mapping")
            found[known] = own.plain() if name == "native" else self.options(known, own)

    def options(self, platform: str, own: Value) -> dict[str, Any]:
        record = options_class(platform)
        if record is None:
            return own.plain()
        found: dict[str, Any] = {}
        for name, value in own.mapping.items():
            with self.mistakes.of(f"options.{platform}.{name}"):
                if name not in settings_of(record):
                    at_top = f"{name} stands at the top of the file, not under options."
                    hint = at_top if name in settings_of(JobSpec) else ""
                    raise unknown(name, own, settings_of(record), hint, f" of {platform}")
                if value.data is not None:
                    found[name] = one_field(record, name, value)
        return found


def unknown(
    name: str, mapping: Value, known: Iterable[str], hint: str = "", of: str = "", meant: str = ""
) -> DocumentError:
    """The error for an unknown key. Without a hint it names the known key that it is like, or all
    known keys.
    """
    if not hint:
        meant = meant or next(iter(difflib.get_close_matches(name, list(known), n=1)), "")
        hint = f"Did you mean {meant}?" if meant else f"Known are: {', '.join(sorted(known))}."
    place = mapping.keys.get(name, mapping.mapping[name].place)
    error = DocumentError(place, f"unknown key {name!r}{of}.", "", hint)
    error.meant = meant
    return error


def known_platforms() -> list[str]:
    return sorted({*platforms(), *NOT_BUILT})


def known_place(name: str, place: Place, endpoints: Collection[str]) -> None:
    """Raise DocumentError for a name that is neither an endpoint nor a platform."""
    if name not in endpoints:
        known_platform(name, place, endpoints)


def known_platform(name: str, place: Place, endpoints: Collection[str] = ()) -> None:
    known = [*known_platforms(), *endpoints]
    if platform_name(name) not in known_platforms():
        near = difflib.get_close_matches(name, [*known, *ALIASES], n=1)
        hint = f"Did you mean {near[0]}?" if near else "Known are: " + ", ".join(known) + "."
        raise DocumentError(place, f"unknown platform {name!r}.", "", hint)


def one_field(record: type[Any], name: str, value: Value) -> Any:
    """The value of one field, read by its kind. The error points to the wrong item, and shows no
    value of a mapping.
    """
    kind: Kind = settings_of(record)[name].metadata["kind"]
    as_text = kind.schema.get("type") != "object" or kind.pairs
    raw = value.plain(as_text=as_text and bool(kind.schema))
    if kind.pairs:
        wanted(value, name, dict, kind.allowed)
        for key, item in value.mapping.items():
            if isinstance(item.data, (dict, list)):
                raise DocumentError(item.place, f"{name}.{key} is {item.shape}; it must be a text.")
    try:
        return getattr(read_settings(record, {name: raw}), name)
    except FieldError as error:
        place = wrong_item(record, name, value).place
        raise DocumentError(place, error.what, error.why, error.next, error.command) from None


def wrong_item(record: type[Any], name: str, value: Value) -> Value:
    """The first item of a list that its kind refuses; the whole value when it is no list."""
    for item in value.data if isinstance(value.data, list) else []:
        try:
            read_settings(record, {name: [item.plain(as_text=True)]})
        except FieldError:
            return item
    return value


def declarations(name: str, value: Value) -> Any:
    """Inputs or outputs: a list of paths, or a mapping. Its values are a text, or have type,
    optional, container_path.
    """
    if isinstance(value.data, list):
        return [wanted(item, f"an item of {name}", str, "a path").text for item in value.data]
    wanted(value, name, dict, "a mapping or a list")
    for key, about in value.mapping.items():
        if isinstance(about.data, dict):
            for attribute in about.data:
                if attribute not in DECLARATION:
                    raise unknown(attribute, about, DECLARATION, of=f" of {name}.{key}")
    return value.plain()


def hooks(name: str, value: Value) -> Any:
    wanted(value, name, dict, "a mapping of " + ", ".join(HOOKS))
    for hook in value.mapping:
        if hook not in HOOKS:
            raise unknown(hook, value, HOOKS, of=" of hooks")
    return value.plain()


def spec_file(value: Value, path: Path) -> Value:
    if path.exists():
        return read_document(path)
    raise DocumentError(
        value.place,
        f"specs: there is no file {path}.",
        "The path is relative to the job file.",
        near_files(path),
    )


def flat_key(key: str, place: Place) -> DocumentError:
    nested = ""
    for part in reversed(key.split(".")):
        nested = f"{{{part}: {nested or '...'}}}"
    return DocumentError(
        place,
        f"specs has the flat key {key!r}.",
        "The program would find no value under it.",
        f"Nest it: {nested}",
    )
