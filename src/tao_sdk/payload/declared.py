"""Declared inputs and outputs: the values of a spec that are data, checked against the spec, in the
form of the runner's document.

Not here: what may be declared (declarations.py), and jobs without a spec (job_paths.py).
"""

from __future__ import annotations

import difflib
import itertools
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import cast

from tao_sdk.model.error_field import about_field
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.model.prepared_job import DataInput, JobData, KeyAndValue, NamedFiles, lies_in
from tao_sdk.model.spec import JobSpec
from tao_sdk.net.address import path_of, scheme
from tao_sdk.payload import schemes
from tao_sdk.payload.declarations import (
    LITERAL,
    Declared,
    declared_pairs,
    plain_declared,
    read_options,
    read_target,
    refuse_path_as_type,
    refuse_unknown_type,
)
from tao_sdk.payload.job_paths import path_inputs
from tao_sdk.payload.keys import Step, child, joined, lookup, put, steps
from tao_sdk.payload.values import Hole, Tree, plain_mapping, short, walk
from tao_sdk.runner.document import Input, Output
from tao_sdk.runner.inputs.archive_names import must_unpack
from tao_sdk.runner.outputs.destination import in_bucket, is_explicit

PATH = re.compile(r"/[^/\s]\S*")  # a value like this is an absolute path
KNOWN_OUTPUT = "results_dir"  # every program of TAO reads it
WILDCARDS = frozenset("*?[")
RESUME = "resume_training_checkpoint_path"


class SpecKeys:
    """The declared keys of one spec. A value that only the job knows becomes a Hole in the tree."""

    def __init__(self, tree: dict[str, Tree], name: str) -> None:
        self.tree, self.name = tree, name
        self.absent: list[list[Step]] = []  # optional inputs that are null
        # the values that the program reads itself, and their types
        self.literal: list[tuple[list[Step], str]] = []

    def way(self, key: str) -> list[Step]:
        return steps(key)

    @about_field("inputs")
    def inputs(self, wanted: Declared) -> list[Input]:
        """The declared inputs. An input that needs another input's file comes after it."""
        found: list[Input] = []
        for key, about in declared_pairs("inputs", wanted):
            refuse_path_as_type(self.name, key, about)
            refuse_unknown_type(f"inputs[{key!r}]", about)
            if is_literal(about):
                self.literal.append((self.way(key), str(about["type"])))
            else:
                found += self.input(key, about)
        keys = [each["key"] for each in found]
        for each in found:
            refuse_unknown_annotation(each, keys)
        return sorted(found, key=lambda each: "selective" in each["options"])

    def read(self, inputs: Declared, outputs: Declared) -> tuple[list[Input], list[Output]]:
        """All inputs and all outputs: first the declared ones, then addresses that are fetched
        without a declaration.
        """
        declared = apart(self.inputs(inputs))
        kept = self.outputs(outputs)
        return declared + self.undeclared(), kept

    def undeclared(self) -> list[Input]:
        """Addresses that no program reads by itself: they are fetched from any place in the
        spec.
        """
        found: list[Input] = []
        for way, value in text_leaves(self.tree):
            if scheme(value) in schemes.STAGED_ANYWHERE and not self.literal_type(way):
                found.append(self.mark(joined(way), way, value, {}))
        return found

    def literal_type(self, way: Sequence[Step]) -> str:
        """The LITERAL type with which a value was declared; "" for none."""
        for place, kind in self.literal:
            if way[: len(place)] == place:
                return kind
        return ""

    def shared(self) -> list[tuple[list[Step], str]]:
        """The paths of file systems that machines share, each with its way in the spec. Inputs,
        outputs and values of type text are left out.
        """
        found: list[tuple[list[Step], str]] = []
        for way, value in text_leaves(self.tree):
            if scheme(value) not in schemes.SHARED or self.literal_type(way) == "text":
                continue
            with about_field(self.name):
                schemes.check(value, f"{self.name}.{joined(way)}")
            found.append((way, path_of(value)))
        return found

    def put_shared(self) -> None:
        """Replace each shared address by the path that it names: no program reads the address."""
        for way, path in self.shared():
            put(self.tree, way, path)

    def input(self, key: str, about: Mapping[str, object]) -> list[Input]:
        way = self.way(key)
        value = lookup(self.tree, way)
        if value in (None, "", []):
            self.leave_out(key, value, about)
            return []
        if isinstance(value, list):
            return [
                self.mark(f"{key}[{index}]", [*way, index], item, in_folder(about, item))
                for index, item in enumerate(value)
            ]
        return [self.mark(key, way, value, about)]

    def leave_out(self, key: str, value: Tree, about: Mapping[str, object]) -> None:
        """Leave out an optional input without a value. Raises FieldError for any other input."""
        if not about.get("optional"):
            raise FieldError(
                "inputs",
                f"inputs names {key}, and {self.name} has nothing there.",
                "The spec has no value there." if value is None else "It is empty.",
                f"Set {key}, or declare it optional.",
            )
        if value is None:
            self.absent.append(self.way(key))

    def mark(
        self, key: str, way: Sequence[Step], value: Tree, about: Mapping[str, object]
    ) -> Input:
        if isinstance(value, Hole):
            raise SpecError(
                f"{key} is declared twice.",
                "A key is an input or an output, once.",
                "Leave it out of one.",
            )
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
            target=read_target(key, about),
            options=read_options(f"inputs[{key!r}]", about),
        )

    @about_field("outputs")
    def outputs(self, wanted: Declared) -> list[Output]:
        declared = declared_pairs("outputs", wanted)
        keys = [key for key, _ in declared]
        for key, about in declared:
            refuse_unknown_type(f"outputs[{key!r}]", about)
            self.refuse_path(key)
            self.refuse_nearly(key, keys)
        found = [self.output(key, about) for key, about in declared if not is_literal(about)]
        refuse_shared(found)
        return found

    def refuse_path(self, key: str) -> None:
        """Raise FieldError for an output that is written as a path in the job. It would become a
        key of the spec, and nothing at the path would be kept.
        """
        if "/" not in key:
            return
        if not key.startswith(".") and self.has(key):
            return
        raise FieldError(
            "outputs",
            f"outputs names {key}, and {self.name} has nothing there.",
            f"With {self.name} an output is a key of theirs, whose value is the path to write to.",
            "Name that key, such as results_dir, or have the command write to "
            f"$TAO_RESULTS_DIR/{key.lstrip('./')}.",
        )

    def refuse_nearly(self, key: str, declared: Collection[str]) -> None:
        """Refuse an unknown key if a key of nearly that name beside it has no path yet."""
        if self.has(key):
            return
        waiting = [other for other in self.empty_beside(key) if joined(other) not in declared]
        for other in waiting:
            if difflib.get_close_matches(str(self.way(key)[-1]), [str(other[-1])], 1, 0.8):
                raise FieldError(
                    "outputs",
                    f"outputs names {key}, and {self.name} has nothing there.",
                    f"{joined(other)}, which is empty, would stay so.",
                    f"Did you mean {joined(other)}?",
                )

    def empty_beside(self, key: str) -> list[list[Step]]:
        """The keys without a value in the mapping that a key would stand in."""
        *above, _ = self.way(key)
        parent = lookup(self.tree, above)
        if not isinstance(parent, dict):
            return []
        return [[*above, name] for name, value in parent.items() if value in (None, "")]

    def has(self, key: str) -> bool:
        """True if the key is there, even with an empty value."""
        *above, last = self.way(key)
        parent = lookup(self.tree, above)
        if isinstance(parent, dict):
            return last in parent
        return child(parent, last) is not None

    def output(self, key: str, about: Mapping[str, object]) -> Output:
        way = self.way(key)
        value = lookup(self.tree, way)
        if isinstance(value, Hole):
            raise SpecError(
                f"{key} is declared twice.",
                "A key is an input or an output, once.",
                "Leave it out of one.",
            )
        if value is not None and not isinstance(value, str):
            raise FieldError(
                self.name,
                f"{self.name}.{key} is {short(value)}.",
                "An output is a path, or empty to have one chosen.",
            )
        path = value or ""
        with about_field(self.name):
            schemes.check_output(path, f"{self.name}.{key}")
        put(self.tree, way, Hole(key, path))
        optional = about.get("optional") is True
        return Output(key=key, value=path, file=about.get("type") == "file", optional=optional)

    def resume(self, named: str = "") -> str:
        """The key of the checkpoint to resume from: the named key, else the spec's own; "" if it
        has a value.
        """
        if named:
            return self.resume_named(named)
        found: list[str] = []

        def visit(place: str, value: Tree) -> None:
            if isinstance(value, dict) and waits_for_checkpoint(value):
                key = f"{place}.{RESUME}".removeprefix(".")
                value[RESUME] = Hole(key, cast("str | None", value[RESUME]))
                found.append(key)

        walk(self.tree, "", visit)
        return next(iter(found), "")

    def resume_named(self, key: str) -> str:
        way = self.way(key)
        value = lookup(self.tree, way)
        if value not in (None, ""):
            return ""
        put(self.tree, way, Hole(key, cast("str | None", value)))
        return key

    def drop_absent(self) -> None:
        """Drop the optional inputs that are null, for a format that has no null."""
        for *way, last in self.absent:
            parent = lookup(self.tree, way)
            if isinstance(parent, dict):
                parent.pop(cast("str", last), None)


class ArgumentKeys(SpecKeys):
    """Arguments are flat: a dotted name is an argument's name before it is a way into one."""

    def way(self, key: str) -> list[Step]:
        if key in self.tree:
            return [key]
        return steps(key)

    def resume(self, named: str = "") -> str:
        """The argument of the checkpoint to resume from. Without a checkpoint the command does not
        have it.
        """
        name = named or RESUME
        if not named and RESUME not in self.tree:
            return ""
        if self.tree.get(name) not in (None, ""):
            return ""
        self.tree[name] = Hole(name, None, whole_word=True)
        return name


def refuse_shared(outputs: list[Output]) -> None:
    """Raise SpecError for two outputs that would get one folder. The folder has the key's name,
    with `_` for a slash.
    """
    places: dict[str, str] = {}
    chosen = [output for output in outputs if not is_explicit(output) and not in_bucket(output)]
    for output in chosen:
        key = output["key"]
        first = places.setdefault(key.replace("/", "_"), key)
        if first != key:
            why = "One would write over the other's files."
            raise SpecError(
                f"The outputs {first} and {key} would lie in one folder.", why, "Give one a path."
            )


def refuse_unknown_annotation(wanted: Input, keys: Sequence[str]) -> None:
    """Raise FieldError if the annotation is not among `keys`, the keys of all inputs."""
    how = wanted["options"].get("selective")
    if not how:
        return
    annotation = how["annotation"]
    if any(key == annotation or key.startswith(f"{annotation}[") for key in keys):
        return
    raise FieldError(
        "inputs",
        f"inputs[{wanted['key']!r}] takes the files that {annotation} names, which is no input.",
        "The annotation has to be there before the files can be fetched.",
        f"Declare {annotation} in inputs too.",
    )


def waits_for_checkpoint(tree: dict[str, Tree]) -> bool:
    """True if the mapping has the key of a checkpoint to resume from, without a value."""
    return RESUME in tree and tree[RESUME] in (None, "")


def is_literal(about: Mapping[str, object]) -> bool:
    """True for a value declared as one that the program reads itself."""
    return about.get("type") in LITERAL


def text_leaves(tree: Tree) -> list[tuple[list[Step], str]]:
    """Every text in a tree, with the way to it. The tree may be changed meanwhile."""
    return [(way, value) for way, value in leaves(tree, []) if isinstance(value, str)]


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


def in_folder(about: Mapping[str, object], item: Tree) -> Mapping[str, object]:
    """The declaration of a list's item: it goes into the container_path, under its own name."""
    folder = about.get("container_path")
    if not isinstance(folder, str) or not isinstance(item, str):
        return about
    return {**about, "container_path": posixpath.join(folder, posixpath.basename(item.rstrip("/")))}


def apart(inputs: list[Input]) -> list[Input]:
    """The same inputs. Raises SpecError if two have one place, or one lies inside another, where it
    would be written into the other's data.
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
                "Give one of them another target.",
            )
    return inputs


def read_data(spec: JobSpec) -> JobData:
    """Every value of a spec that is data. Raises SpecError if the declarations and the spec do not
    fit.
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
    """The keys under which outputs are declared, including plain text ones."""
    return tuple(key for key, _ in declared_pairs("outputs", plain_declared(outputs, "outputs")))


def data_of(
    keys: SpecKeys, inputs: Sequence[Input], outputs: Sequence[Output], files: Iterable[str]
) -> JobData:
    """The data of keys that have been read. `files` are the paths of the files that travel with the
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
        path=path_of(uri) if schemes.is_local_path(uri) else "",
        patterns=tuple(wanted["options"].get("patterns", ())),
        selective=named_files(wanted),
        target=wanted["target"],
        is_archive=must_unpack(wanted),
    )


def named_files(wanted: Input) -> NamedFiles | None:
    how = wanted["options"].get("selective")
    return NamedFiles(how["annotation"], tuple(how["keys"])) if how else None


def shared_paths(keys: SpecKeys) -> Iterator[KeyAndValue]:
    """The (key, path) of each lustre:// and slurm:// value that is neither input nor output. A glob
    counts as its folder.
    """
    for way, path in keys.shared():
        if keys.literal_type(way) == "local_glob":
            path = before_wildcards(path)  # noqa: PLW2901
        yield joined(way), path


def passed_on(keys: SpecKeys) -> Iterator[KeyAndValue]:
    """The (key, address) of each s3:// value that is neither input nor output: some programs read
    it by themselves.
    """
    for way, value in text_leaves(keys.tree):
        if scheme(value) == "s3" and not keys.literal_type(way):
            yield joined(way), value


def undeclared_paths(keys: SpecKeys, known: Sequence[str]) -> Iterator[KeyAndValue]:
    """The (key, path) of each absolute path in the spec that lies in none of the `known` places. A
    glob counts as its folder.
    """
    places = list(filter(None, known))
    for way, value in text_leaves(keys.tree):
        if not PATH.fullmatch(value) or keys.literal_type(way) == "text":
            continue
        path = before_wildcards(value)
        if not any(lies_in(path, place) for place in places):
            yield joined(way), path


def unread_outputs(spec: JobSpec) -> list[str]:
    """Keys of outputs that are not in the specs, and whose name is neither in the command nor in a
    file that travels with it.
    """
    if spec.specs is None:
        return []
    keys = SpecKeys(plain_mapping(spec.specs, "specs"), "specs")
    text = b"\n".join(map(as_bytes, (spec.command, *spec.files.values())))
    declared = declared_pairs("outputs", spec.outputs)
    promised = [key for key, about in declared if is_promised(key, about)]
    return [key for key in promised if not keys.has(key) and last_name(key) not in text]


def is_promised(key: str, about: Mapping[str, object]) -> bool:
    """True for an output that the program must write. An output that every program knows does not
    count.
    """
    if about.get("optional") or is_literal(about):
        return False
    return key != KNOWN_OUTPUT


def last_name(key: str) -> bytes:
    return str(steps(key)[-1]).encode("utf-8", "surrogateescape")


def as_bytes(content: bytes | str) -> bytes:
    if isinstance(content, bytes):
        return content
    return content.encode("utf-8", "surrogateescape")


def named_outputs(outputs: Sequence[Output]) -> Iterator[str]:
    """The absolute paths and the addresses that the spec has for its outputs."""
    for output in outputs:
        value = output["value"]
        if not schemes.is_local_path(value):
            yield value
        elif posixpath.isabs(path_of(value)):
            yield path_of(value)


def keys_of(spec: JobSpec) -> SpecKeys | None:
    """The keys of a fresh copy of the job's specs or args; None when it has neither."""
    if spec.specs is not None:
        return SpecKeys(plain_mapping(spec.specs, "specs"), "specs")
    if spec.args is not None:
        return ArgumentKeys(plain_mapping(spec.args, "args"), "args")
    return None


def resume_key_of(spec: JobSpec) -> str:
    """The key that gets a further attempt's checkpoint; "" for a job that begins anew."""
    keys = keys_of(spec)
    if keys is None:
        return ""
    return keys.resume(spec.resume_key or "")


def before_wildcards(path: str) -> str:
    """The folder in front of the first part with a wildcard. A path without wildcards stays as it
    is.
    """
    plain = itertools.takewhile(WILDCARDS.isdisjoint, path.split("/"))
    return "/".join(plain) or "/"
