"""Declared inputs and outputs: which values of a spec are data, checked against it, as the runner's
document wants them.
"""

from __future__ import annotations

import difflib
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import cast

from tao_sdk.model.error_field import about_field
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.model.prepared_job import DataInput, JobData, KeyAndValue, lies_in
from tao_sdk.model.spec import JobSpec
from tao_sdk.net.address import path_of, scheme
from tao_sdk.payload import schemes
from tao_sdk.payload.keys import Step, joined, lookup, put, steps
from tao_sdk.payload.values import Hole, Tree, plain_data, plain_mapping, short, walk
from tao_sdk.runner.document import Copy, Input, Options, Output, Selective
from tao_sdk.runner.inputs.archive_names import packed
from tao_sdk.runner.outputs.destination import explicit, in_bucket

Declared = Mapping[str, object] | Sequence[str] | None

DECLARATION = (
    "type",
    "optional",
    "container_path",
    "extract",
    "extract_to_parent",
    "patterns",
    "selective",
    "uri",
)
LITERAL = frozenset(
    {"list", "local_glob", "text"}
)  # values the program reads itself: nothing to fetch, no place to choose
KINDS = ("file", "folder", *sorted(LITERAL))
KERNEL = ("/proc", "/sys", "/dev")  # what lies there is made by the kernel as it is read
MEMORY = "/dev/shm"  # there lie files
OWN = frozenset({"", ".", "..", ".tao", "work"})  # no names for a copy below the results
PATH = re.compile(r"/[^/\s]\S*")  # what a value has to be to be taken for an absolute path
KNOWN_OUTPUT = "results_dir"  # every program of TAO reads it
RESUME = "resume_training_checkpoint_path"


class SpecKeys:
    """The declared keys of one spec. What only the job knows becomes a Hole in the tree."""

    def __init__(self, tree: dict[str, Tree], name: str) -> None:
        self.tree, self.name = tree, name
        self.absent: list[list[Step]] = []  # optional inputs that are null
        self.literal: list[
            tuple[list[Step], str]
        ] = []  # what the program reads itself, and its type

    def way(self, key: str) -> list[Step]:
        return steps(key)

    @about_field("inputs")
    def inputs(self, wanted: Declared) -> list[Input]:
        """Those that need another's file come after it."""
        found: list[Input] = []
        for key, about in pairs("inputs", wanted):
            refuse_path_as_type(self.name, key, about)
            refuse_wrong(f"inputs[{key!r}]", about)
            if about.get("type") in LITERAL:
                self.literal.append((self.way(key), str(about["type"])))
            else:
                found += self.input(key, about)
        keys = [each["key"] for each in found]
        for each in found:
            refuse_unknown_annotation(each, keys)
        return sorted(found, key=lambda each: "selective" in each["options"])

    def read(self, inputs: Declared, outputs: Declared) -> tuple[list[Input], list[Output]]:
        """(all that is to be in place, all that is kept): declared, then what is fetched without
        being declared.
        """
        declared = apart(self.inputs(inputs))
        kept = self.outputs(outputs)
        return declared + self.undeclared(), kept

    def undeclared(self) -> list[Input]:
        """Addresses that no program reads by itself: they are fetched wherever in the spec they
        stand.
        """
        return [
            self.mark(joined(way), way, value, {})
            for way, value in list(leaves(self.tree, []))
            if isinstance(value, str)
            and scheme(value) in schemes.STAGED_ANYWHERE
            and not self.literal_type(way)
        ]

    def literal_type(self, way: Sequence[Step]) -> str:
        """As which of the LITERAL types a value was declared; "" for none."""
        return next((kind for each, kind in self.literal if way[: len(each)] == each), "")

    def shared(self) -> list[tuple[list[Step], str]]:
        """What is neither input nor output and names a path of a file system that machines share,
        with the way to it.
        """
        found: list[tuple[list[Step], str]] = []
        for way, value in leaves(self.tree, []):
            if (
                isinstance(value, str)
                and scheme(value) in schemes.SHARED
                and self.literal_type(way) != "text"
            ):
                with about_field(self.name):
                    schemes.check(value, f"{self.name}.{joined(way)}")
                found.append((way, path_of(value)))
        return found

    def put_shared(self) -> None:
        """Write each as the path that it names: no program reads the address."""
        for way, path in self.shared():
            put(self.tree, way, path)

    def input(self, key: str, about: Mapping[str, object]) -> list[Input]:
        way = self.way(key)
        value = lookup(self.tree, way)
        if value is None or value in ("", []):
            if about.get("optional"):
                self.absent += [way] if value is None else []
                return []
            why = "It is empty." if value is not None else "The spec has no value there."
            raise FieldError(
                "inputs",
                f"inputs names {key}, and {self.name} has nothing there.",
                why,
                f"Set {key}, or declare it optional.",
            )
        if isinstance(value, list):
            return [
                self.mark(f"{key}[{index}]", [*way, index], item, inside(about, item))
                for index, item in enumerate(value)
            ]
        return [self.mark(key, way, value, about)]

    def mark(
        self, key: str, way: Sequence[Step], value: Tree, about: Mapping[str, object]
    ) -> Input:
        if isinstance(value, Hole):
            raise SpecError(f"{key} is declared twice.", "A key is an input or an output, once.")
        if not isinstance(value, str) or not value:
            raise FieldError(
                self.name,
                f"{self.name}.{key} is {short(value)}.",
                "An input is a path or a list of paths.",
            )
        with about_field(self.name):
            schemes.check(value, f"{self.name}.{key}")
        put(self.tree, way, Hole(key, value))
        return Input(
            key=key,
            uri=value,
            kind=str(about.get("type", "")),
            target=target(key, about),
            options=options(f"inputs[{key!r}]", about),
        )

    @about_field("outputs")
    def outputs(self, wanted: Declared) -> list[Output]:
        declared = pairs("outputs", wanted)
        for key, about in declared:
            refuse_wrong(f"outputs[{key!r}]", about)
            self.refuse_path(key)
            self.refuse_nearly(key, [each for each, _ in declared])
        found = [
            self.output(key, about) for key, about in declared if about.get("type") not in LITERAL
        ]
        refuse_shared(found)
        return found

    def refuse_path(self, key: str) -> None:
        """What is written as a path of the job's: it would become a key of the spec, and nothing at
        the path be kept.
        """
        if "/" in key and (key.startswith(".") or not self.has(key)):
            raise FieldError(
                "outputs",
                f"outputs names {key}, and {self.name} has nothing there.",
                f"With {self.name} an output is a key of theirs, whose "
                "value is the path to write to.",
                "Name that key, such as results_dir, or have the command write to "
                f"$TAO_RESULTS_DIR/{key.lstrip('./')}.",
            )

    def refuse_nearly(self, key: str, declared: Sequence[str]) -> None:
        """A key that there is not, beside one of nearly that name that waits for its path."""
        if self.has(key):
            return
        *above, last = self.way(key)
        beside = lookup(self.tree, above)
        for name, value in beside.items() if isinstance(beside, dict) else ():
            other = joined([*above, name])
            if (
                value in (None, "")
                and other not in declared
                and difflib.get_close_matches(str(last), [name], 1, 0.8)
            ):
                why = f"{other}, which is empty, would stay so."
                raise FieldError(
                    "outputs",
                    f"outputs names {key}, and {self.name} has nothing there.",
                    why,
                    f"Did you mean {other}?",
                )

    def has(self, key: str) -> bool:
        """Whether it is there, be it empty."""
        *above, last = self.way(key)
        parent = lookup(self.tree, above)
        return (
            last in parent
            if isinstance(parent, dict)
            else lookup(self.tree, [*above, last]) is not None
        )

    def output(self, key: str, about: Mapping[str, object]) -> Output:
        way = self.way(key)
        value = lookup(self.tree, way)
        if isinstance(value, Hole):
            raise SpecError(f"{key} is declared twice.", "A key is an input or an output, once.")
        if value is not None and not isinstance(value, str):
            raise FieldError(
                self.name,
                f"{self.name}.{key} is {short(value)}.",
                "An output is a path, or empty to have one chosen.",
            )
        with about_field(self.name):
            schemes.check_output(value or "", f"{self.name}.{key}")
        put(self.tree, way, Hole(key, value or ""))
        optional = about.get("optional") is True
        return Output(
            key=key, value=value or "", file=about.get("type") == "file", optional=optional
        )

    def resume(self, named: str = "") -> str:
        """The key of the checkpoint to resume from: the one that was named, else one that the spec
        has; "" when it is set.
        """
        if named:
            way = self.way(named)
            value = lookup(self.tree, way)
            if value not in (None, ""):
                return ""
            put(self.tree, way, Hole(named, cast("str | None", value)))
            return named
        found: list[str] = []

        def visit(place: str, value: Tree) -> None:
            if isinstance(value, dict) and RESUME in value and value[RESUME] in (None, ""):
                key = f"{place}.{RESUME}".removeprefix(".")
                value[RESUME] = Hole(key, cast("str | None", value[RESUME]))
                found.append(key)

        walk(self.tree, "", visit)
        return found[0] if found else ""

    def drop_absent(self) -> None:
        """Leave the optional inputs that are null out, for a format that has no null."""
        for *way, last in self.absent:
            parent = lookup(self.tree, way)
            if isinstance(parent, dict):
                parent.pop(cast("str", last), None)


class ArgumentKeys(SpecKeys):
    """Arguments are flat: a dotted name is an argument's name before it is a way into one."""

    def way(self, key: str) -> list[Step]:
        return [key] if key in self.tree else steps(key)

    def resume(self, named: str = "") -> str:
        """Likewise, of an argument; without a checkpoint the command does not have it."""
        name = named or RESUME
        if (not named and name not in self.tree) or self.tree.get(name) not in (None, ""):
            return ""
        self.tree[name] = Hole(name, None, whole_word=True)
        return name


def plain_declared(wanted: Declared, field: str) -> Declared:
    """The same without the values that libraries wrap, such as paths."""
    return cast("Declared", plain_data(wanted, field))


def pairs(field: str, wanted: Declared) -> list[tuple[str, Mapping[str, object]]]:
    """Keys with what is declared about each; a plain list declares nothing more."""
    if wanted is None:
        return []
    if isinstance(wanted, str):
        raise FieldError(
            field,
            f"{field} is {wanted!r}.",
            "It has to be a mapping or a list.",
            f"Write [{wanted!r}].",
        )
    # a program may pass anything
    if not isinstance(wanted, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise FieldError(field, f"{field} is {short(wanted)}.", "It has to be a mapping or a list.")
    items = wanted.items() if isinstance(wanted, Mapping) else ((key, None) for key in wanted)
    return [(key, attributes(field, key, about)) for key, about in items]


def attributes(field: str, key: object, about: object) -> Mapping[str, object]:
    if not isinstance(key, str):
        raise FieldError(field, f"{field} has the key {short(key)}.", "Keys are strings.")
    if isinstance(about, Mapping):
        with about_field(field):
            refuse_misspelt(f"{field}[{key!r}]", cast("Mapping[str, object]", about))
        return cast("Mapping[str, object]", about)
    if about is None or isinstance(about, str):
        return {"type": about or ""}
    raise FieldError(
        field,
        f"{field}[{key!r}] is {short(about)}.",
        "It has to be a type, or a mapping such as {'type': 'folder'}.",
    )


def refuse_misspelt(place: str, about: Mapping[str, object]) -> None:
    """What is nearly an attribute. A skill's metadata may say more of a value, such as what it is
    for: that is not ours.
    """
    for name in about:
        near = difflib.get_close_matches(str(name), DECLARATION, n=1, cutoff=0.75)
        if name not in DECLARATION and near:
            raise SpecError(
                f"{place} has {name}.", "It would be ignored.", f"Did you mean {near[0]}?"
            )


def refuse_wrong(place: str, about: Mapping[str, object]) -> None:
    """A type or an optional that is none: it would be taken for one that was not meant."""
    kind, optional = about.get("type"), about.get("optional")
    if kind not in (None, "", *KINDS):
        raise SpecError(f"{place} has the type {short(kind)}.", f"It can be {', '.join(KINDS)}.")
    if optional is not None and not isinstance(optional, bool):
        raise SpecError(f"{place} has optional: {short(optional)}.", "It is true or false.")


def refuse_path_as_type(field: str, key: str, about: Mapping[str, object]) -> None:
    """Raise SpecError for an input with a path or an address in the place of its type."""
    kind = about.get("type")
    if not isinstance(kind, str) or kind in ("", *KINDS) or not looks_like_path(kind):
        return
    raise SpecError(
        f"inputs[{key!r}] is {short(kind)}, which is no type.",
        f"A job with {field} has its paths there: an input names a key of {field}, and a path is "
        "the value of that key.",
        f"Write {field}: {key}: {kind} and inputs: {key}: file (with flags: "
        f"{assignment(field, key, kind)} --inputs {shlex.quote(f'{key}=file')}).",
    )


def looks_like_path(text: str) -> bool:
    return "/" in text or "." in text


def assignment(field: str, key: str, path: str) -> str:
    """The flag that gives a key of specs or args this value."""
    flag = "--args" if field == "args" else "--set"
    return f"{flag} {shlex.quote(f'{key}={path}')}"


def refuse_shared(outputs: list[Output]) -> None:
    """Two whose place is chosen need one each; it has the key's name, which can have no slash."""
    places: dict[str, str] = {}
    for key in [each["key"] for each in outputs if not explicit(each) and not in_bucket(each)]:
        first = places.setdefault(key.replace("/", "_"), key)
        if first != key:
            why = "One would write over the other's files."
            raise SpecError(
                f"The outputs {first} and {key} would lie in one folder.", why, "Give one a path."
            )


def target(key: str, about: Mapping[str, object]) -> str:
    path = about.get("container_path") or ""
    if isinstance(path, str) and (not path or posixpath.isabs(path)):
        return path
    raise FieldError(
        "inputs",
        f"inputs[{key!r}] has the container_path {short(path)}.",
        "It is an absolute path in the job.",
    )


def options(place: str, about: Mapping[str, object]) -> Options:
    """How an input is to be had, as the runner wants it told."""
    told = Options()
    extract, parent = about.get("extract"), about.get("extract_to_parent")
    for name, value in (("extract", extract), ("extract_to_parent", parent)):
        if not (value is None or isinstance(value, bool)):
            raise SpecError(f"{place} has {name}: {short(value)}.", "It is true or false.")
    if parent and extract is False:
        raise SpecError(
            f"{place} has extract: false and extract_to_parent: true.", "One excludes the other."
        )
    if parent or extract is not None:
        told["extract"] = "parent" if parent else "yes" if extract else "no"
    if about.get("patterns"):
        told["patterns"] = names(f"{place} has patterns", about["patterns"])
    if about.get("selective"):
        told["selective"] = selective(place, about["selective"])
    return told


FORMATS = ("json", "jsonl", "csv", "parquet")


def selective(place: str, about: object) -> Selective:
    """{annotation: key of another input, format: json, keys: [video]}"""
    given: Mapping[str, object] = (
        cast("Mapping[str, object]", about) if isinstance(about, Mapping) else {}
    )
    annotation, form = given.get("annotation"), given.get("format", "")
    if not isinstance(annotation, str) or not annotation:
        raise SpecError(
            f"{place} has selective: {short(given or None)}.",
            "It names the input that says which files are wanted.",
            "Write selective: {annotation: dataset.annotation_path, keys: [video]}.",
        )
    if form not in ("", *FORMATS):
        raise SpecError(
            f"{place} has selective.format: {short(form)}.", f"It can be {', '.join(FORMATS)}."
        )
    keys = names(f"{place} has selective.keys", given.get("keys") or ["video"])
    return Selective(annotation=annotation, format=cast(str, form), keys=keys)


def names(what: str, value: object) -> list[str]:
    items = [value] if isinstance(value, str) else value
    if isinstance(items, Sequence) and all(
        isinstance(each, str) and each for each in cast("Sequence[object]", items)
    ):
        return list(cast("Sequence[str]", items))
    raise SpecError(f"{what}: {short(value)}.", "It is a list of texts.")


def refuse_unknown_annotation(wanted: Input, keys: Sequence[str]) -> None:
    how = wanted["options"].get("selective")
    if how and not any(
        key == how["annotation"] or key.startswith(how["annotation"] + "[") for key in keys
    ):
        raise FieldError(
            "inputs",
            f"inputs[{wanted['key']!r}] takes the files that {how['annotation']} names, "
            "which is no input.",
            "The annotation has to be there before the files can be fetched.",
            f"Declare {how['annotation']} in inputs too.",
        )


def leaves(tree: Tree, way: list[Step]) -> Iterator[tuple[list[Step], Tree]]:
    """Every value that holds no others, with the way to it."""
    if isinstance(tree, dict):
        for key, item in tree.items():
            yield from leaves(item, [*way, key])
    elif isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from leaves(item, [*way, index])
    else:
        yield way, tree


def inside(about: Mapping[str, object], item: Tree) -> Mapping[str, object]:
    """The items of a list go into their container_path, each under its own name."""
    folder = about.get("container_path")
    if not isinstance(folder, str) or not isinstance(item, str):
        return about
    return {**about, "container_path": posixpath.join(folder, posixpath.basename(item.rstrip("/")))}


def apart(inputs: list[Input]) -> list[Input]:
    """The same, sure that no two lie at one place or one inside another, where it would be written
    into its data.
    """
    targets = sorted(
        (posixpath.normpath(each["target"]).split("/"), each["key"])
        for each in inputs
        if each["target"]
    )
    for (path, key), (other, second) in pairwise(targets):
        if other[: len(path)] == path:
            places = f"{'/'.join(path)} and {'/'.join(other)}"
            raise SpecError(
                f"The inputs {key} and {second} are to lie at {places}.",
                "Each needs a place of its own.",
            )
    return inputs


def read_data(spec: JobSpec) -> JobData:
    """Every value of a spec that is data. Raises SpecError where the declarations and the spec do
    not fit.
    """
    keys = keys_of(spec)
    if keys is None:
        return data_of_paths(path_inputs(spec.inputs), spec.outputs)
    inputs, outputs = keys.read(spec.inputs, spec.outputs)
    data = data_of(keys, inputs, outputs, spec.files)
    return replace(data, output_keys=output_keys(spec.outputs))


def data_of_paths(inputs: Sequence[Input], outputs: Declared) -> JobData:
    """The data of a job without specs and args: its inputs and outputs are paths in the job."""
    return JobData(inputs=tuple(map(data_input, inputs)), output_keys=output_keys(outputs))


def output_keys(outputs: Declared) -> tuple[str, ...]:
    """The keys under which outputs are declared, those that are plain text too."""
    return tuple(key for key, _ in pairs("outputs", plain_declared(outputs, "outputs")))


def data_of(
    keys: SpecKeys, inputs: Sequence[Input], outputs: Sequence[Output], files: Iterable[str]
) -> JobData:
    """The data of keys that have been read. `files` are the paths of those that travel with the
    job.
    """
    named = tuple(named_outputs(outputs))
    data = JobData(
        inputs=tuple(map(data_input, inputs)),
        outputs=named,
        shared=tuple(shared_paths(keys)),
        passed_on=tuple(passed_on(keys)),
    )
    targets = [each["target"] for each in inputs]
    known = [*(each.path for each in data.inputs), *targets, *data.chosen_outputs, *files]
    return replace(data, undeclared=tuple(undeclared_paths(keys, known)))


def data_input(wanted: Input) -> DataInput:
    uri = wanted["uri"]
    return DataInput(
        key=wanted["key"],
        uri=uri,
        scheme=scheme(uri),
        path=path_of(uri) if schemes.is_here(uri) else "",
        patterns=tuple(wanted["options"].get("patterns", ())),
        selective="selective" in wanted["options"],
        target=wanted["target"],
        is_archive=packed(wanted),
    )


def shared_paths(keys: SpecKeys) -> Iterator[KeyAndValue]:
    """(key, path) of each lustre:// and slurm:// value that is neither input nor output; of a glob,
    the folder it is for.
    """
    for way, path in keys.shared():
        is_glob = keys.literal_type(way) == "local_glob"
        yield joined(way), before_wildcards(path) if is_glob else path


def passed_on(keys: SpecKeys) -> Iterator[KeyAndValue]:
    """(key, address) of each s3:// value that is neither input nor output: some programs read it by
    themselves.
    """
    for way, value in leaves(keys.tree, []):
        if isinstance(value, str) and scheme(value) == "s3" and not keys.literal_type(way):
            yield joined(way), value


def undeclared_paths(keys: SpecKeys, known: Sequence[str]) -> Iterator[KeyAndValue]:
    """(key, path) of each absolute path in the spec that lies in none of the `known` places; of a
    glob, its folder.
    """
    for way, value in leaves(keys.tree, []):
        if (
            not isinstance(value, str)
            or not PATH.fullmatch(value)
            or keys.literal_type(way) == "text"
        ):
            continue
        path = before_wildcards(value)
        if not any(lies_in(path, place) for place in known if place):
            yield joined(way), path


def unread_outputs(spec: JobSpec) -> list[str]:
    """Keys of outputs that specs do not have, and that neither the command nor a file which travels
    with it names.
    """
    if spec.specs is None:
        return []
    keys = SpecKeys(plain_mapping(spec.specs, "specs"), "specs")
    texts = [spec.command.encode("utf-8", "surrogateescape"), *map(as_bytes, spec.files.values())]
    declared = pairs("outputs", spec.outputs)
    wanted = [
        key
        for key, about in declared
        if not (about.get("optional") or about.get("type") in LITERAL)
    ]
    unknown = [key for key in wanted if key != KNOWN_OUTPUT and not keys.has(key)]
    return [key for key in unknown if not any(last_name(key) in text for text in texts)]


def last_name(key: str) -> bytes:
    return str(steps(key)[-1]).encode("utf-8", "surrogateescape")


def as_bytes(content: bytes | str) -> bytes:
    return content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content


def named_outputs(outputs: Sequence[Output]) -> Iterator[str]:
    """The absolute paths and the addresses that the spec names for its outputs."""
    for output in outputs:
        value = output["value"]
        is_here = schemes.is_here(value)
        place = path_of(value) if is_here else value
        if posixpath.isabs(place) or not is_here:
            yield place


def keys_of(spec: JobSpec) -> SpecKeys | None:
    """Of a fresh copy of its specs or args; None when it has neither."""
    if spec.specs is None and spec.args is None:
        return None
    name = "args" if spec.specs is None else "specs"
    tree = plain_mapping(getattr(spec, name), name)
    return ArgumentKeys(tree, name) if name == "args" else SpecKeys(tree, name)


def resume_key_of(spec: JobSpec) -> str:
    """The key that a further attempt's checkpoint fills; "" for a job that begins anew."""
    keys = keys_of(spec)
    return keys.resume(spec.resume_key or "") if keys else ""


def before_wildcards(path: str) -> str:
    parts = path.split("/")
    plain = next((index for index, part in enumerate(parts) if set(part) & set("*?[")), len(parts))
    return "/".join(parts[:plain]) or "/"


@about_field("inputs")
def path_inputs(wanted: Declared) -> list[Input]:
    """Passthrough: path in the job -> address. A plain list names paths that have to be there."""
    if isinstance(wanted, Mapping):
        return [path_input(path, about) for path, about in wanted.items() if not left_out(about)]
    return [path_input(path, path) for path, _ in pairs("inputs", wanted)]


def left_out(about: object) -> bool:
    """True for an optional input that is empty."""
    if not isinstance(about, Mapping):
        return False
    declared = cast("Mapping[str, object]", about)
    return declared.get("optional") is True and not declared.get("uri")


def path_input(path: object, about: object) -> Input:
    """An archive stays packed here unless told otherwise: the path says under which name the
    command wants it.
    """
    given = {"uri": about} if isinstance(about, str) else attributes("inputs", path, about)
    uri, place = given.get("uri"), f"inputs[{path!r}]"
    refuse_wrong(place, given)
    if not isinstance(path, str) or not path or scheme(path):
        raise FieldError(
            "inputs",
            f"inputs has the key {short(path)}.",
            "Without specs and args a key is a path in the job.",
        )
    if not isinstance(uri, str) or not uri:
        raise SpecError(
            f"{place} is {short(about)}.", "Without specs and args it is the address to put there."
        )
    schemes.check(uri, place)
    told = options(place, given)
    if "selective" in told:
        raise SpecError(
            f"{place} has selective.", "That names a key of specs or args, and there are none."
        )
    kind = str(given.get("type", ""))
    return Input(key=path, uri=uri, kind=kind, target=path, options=Options(extract="no") | told)


@about_field("outputs")
def path_outputs(wanted: Declared) -> list[Copy]:
    """Passthrough: paths whose content is kept, each under its last name; equal last names keep
    their whole paths.
    """
    declared = pairs("outputs", wanted)
    paths = [path for path, about in declared if about.get("type") != "text"]
    for path, about in declared:
        schemes.check_output(path, "outputs")
        address = next((each for each in (path, *map(str, about.values())) if scheme(each)), "")
        if address or not path:
            raise FieldError(
                "outputs",
                f"outputs has {address or path!r}.",
                "Without specs and args an output is a path in the job, and "
                "all of them go to one place.",
                "Name that place: env_vars: {TAO_RESULTS_ROOT: s3://bucket/prefix}.",
            )
        refuse_wrong(f"outputs[{path!r}]", about)
    distinct = {posixpath.normpath(path): path for path in paths}
    for path, given in distinct.items():
        refuse_no_data(path, given)
        if posixpath.basename(path) in ("", ".", ".."):
            raise FieldError(
                "outputs",
                f"outputs has {given!r}.",
                "That has no name under which it could lie among the results.",
                "Name the files or folders that the command writes.",
            )
    names = Counter(map(posixpath.basename, distinct))
    optional = {path for path, about in declared if about.get("optional") is True}
    return [
        Copy(path=given, name=copy_name(path, names), optional=given in optional)
        for path, given in distinct.items()
    ]


def refuse_no_data(path: str, given: str) -> None:
    """All of a machine, or what the kernel shows of it, is nobody's output: a copy of it takes
    hours or has no end.
    """
    if not posixpath.isabs(path):
        return
    at, advice = f"/{path.lstrip('/')}", "Name the files or folders that the command writes."
    if at == "/":
        raise FieldError(
            "outputs", f"outputs has {given!r}.", "That is all of the machine.", advice
        )
    if any(lies_in(at, each) for each in KERNEL) and not lies_in(at, MEMORY):
        raise FieldError(
            "outputs",
            f"outputs has {given!r}.",
            "That is no data: the kernel shows its own state there.",
            advice,
        )


def copy_name(path: str, names: Mapping[str, int]) -> str:
    name = posixpath.basename(path)
    return name if name not in OWN and names[name] == 1 else path.strip("/").replace("..", "__")
