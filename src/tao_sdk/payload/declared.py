"""Declared inputs and outputs: which values of a spec are data, checked against it, as the runner's document wants them."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import cast

from tao_sdk.model.errors import SpecError
from tao_sdk.payload import schemes
from tao_sdk.payload.keys import Step, lookup, put, steps
from tao_sdk.payload.values import Hole, Tree, short, walk
from tao_sdk.runner.document import Copy, Input, Output
from tao_sdk.runner.scheme import scheme

Declared = Mapping[str, object] | Sequence[str] | None

LITERAL = frozenset(
    {"list", "local_glob", "text"}
)  # values the program reads itself: nothing to fetch, no place to choose
OWN = frozenset({"", ".", "..", ".tao", "work"})  # no names for a copy below the results
RESUME = "resume_training_checkpoint_path"


class SpecKeys:
    """The declared keys of one spec. What only the job knows becomes a Hole in the tree."""

    def __init__(self, tree: dict[str, Tree], name: str) -> None:
        self.tree, self.name = tree, name
        self.absent: list[list[Step]] = []  # optional inputs that are null

    def way(self, key: str) -> list[Step]:
        return steps(key)

    def inputs(self, wanted: Declared) -> list[Input]:
        found: list[Input] = []
        for key, about in pairs("inputs", wanted):
            if about.get("type") not in LITERAL:
                found += self.input(key, about)
        return found

    def input(self, key: str, about: Mapping[str, object]) -> list[Input]:
        way = self.way(key)
        value = lookup(self.tree, way)
        if value is None or value in ("", []):
            if about.get("optional"):
                self.absent += [way] if value is None else []
                return []
            why = "It is empty." if value is not None else "The spec has no value there."
            raise SpecError(
                f"inputs names {key}, and {self.name} has nothing there.", why, f"Set {key}, or declare it optional."
            )
        if isinstance(value, list):
            return [
                self.mark(f"{key}[{index}]", [*way, index], item, inside(about, item))
                for index, item in enumerate(value)
            ]
        return [self.mark(key, way, value, about)]

    def mark(self, key: str, way: Sequence[Step], value: Tree, about: Mapping[str, object]) -> Input:
        if isinstance(value, Hole):
            raise SpecError(f"{key} is declared twice.", "A key is an input or an output, once.")
        if not isinstance(value, str) or not value:
            raise SpecError(f"{self.name}.{key} is {short(value)}.", "An input is a path or a list of paths.")
        schemes.check(value, f"{self.name}.{key}")
        put(self.tree, way, Hole(key, value))
        return Input(key=key, uri=value, kind=str(about.get("type", "")), target=target(key, about))

    def outputs(self, wanted: Declared) -> list[Output]:
        return [self.output(key, about) for key, about in pairs("outputs", wanted) if about.get("type") not in LITERAL]

    def output(self, key: str, about: Mapping[str, object]) -> Output:
        way = self.way(key)
        value = lookup(self.tree, way)
        if isinstance(value, Hole):
            raise SpecError(f"{key} is declared twice.", "A key is an input or an output, once.")
        if value is not None and not isinstance(value, str):
            raise SpecError(
                f"{self.name}.{key} is {short(value)}.", "An output is a path, or empty to have one chosen."
            )
        schemes.check(value or "", f"{self.name}.{key}")
        put(self.tree, way, Hole(key, value or ""))
        return Output(key=key, value=value or "", file=about.get("type") == "file")

    def resume(self) -> str:
        """The key of the checkpoint to resume from, if the spec has one and leaves it empty; "" otherwise."""
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


def pairs(field: str, wanted: Declared) -> list[tuple[str, Mapping[str, object]]]:
    """Keys with what is declared about each; a plain list declares nothing more."""
    if wanted is None:
        return []
    if isinstance(wanted, str):
        raise SpecError(f"{field} is {wanted!r}.", "It has to be a mapping or a list.", f"Write [{wanted!r}].")
    items = wanted.items() if isinstance(wanted, Mapping) else ((key, None) for key in wanted)
    return [(key, attributes(field, key, about)) for key, about in items]


def attributes(field: str, key: object, about: object) -> Mapping[str, object]:
    if not isinstance(key, str):
        raise SpecError(f"{field} has the key {short(key)}.", "Keys are strings.")
    if isinstance(about, Mapping):
        return cast("Mapping[str, object]", about)
    if about is None or isinstance(about, str):
        return {"type": about or ""}
    raise SpecError(
        f"{field}[{key!r}] is {short(about)}.", "It has to be a type, or a mapping such as {'type': 'folder'}."
    )


def target(key: str, about: Mapping[str, object]) -> str:
    path = about.get("container_path") or ""
    if isinstance(path, str) and (not path or posixpath.isabs(path)):
        return path
    raise SpecError(f"inputs[{key!r}] has the container_path {short(path)}.", "It is an absolute path in the job.")


def inside(about: Mapping[str, object], item: Tree) -> Mapping[str, object]:
    """The items of a list go into their container_path, each under its own name."""
    folder = about.get("container_path")
    if not isinstance(folder, str) or not isinstance(item, str):
        return about
    return {**about, "container_path": posixpath.join(folder, posixpath.basename(item.rstrip("/")))}


def apart(inputs: list[Input]) -> list[Input]:
    """The same, sure that no two lie at one place or one inside another, where it would be written into its data."""
    targets = sorted((posixpath.normpath(each["target"]).split("/"), each["key"]) for each in inputs if each["target"])
    for (path, key), (other, second) in pairwise(targets):
        if other[: len(path)] == path:
            places = f"{'/'.join(path)} and {'/'.join(other)}"
            raise SpecError(f"The inputs {key} and {second} are to lie at {places}.", "Each needs a place of its own.")
    return inputs


def path_inputs(wanted: Declared) -> list[Input]:
    """Passthrough: path in the job -> address. A plain list names paths that have to be there."""
    if isinstance(wanted, Mapping):
        return [path_input(path, about) for path, about in wanted.items() if not left_out(about)]
    return [path_input(path, path) for path, _ in pairs("inputs", wanted)]


def left_out(about: object) -> bool:
    """An optional input that is empty."""
    return isinstance(about, Mapping) and bool(about.get("optional")) and not about.get("uri")  # pyright: ignore


def path_input(path: object, about: object) -> Input:
    uri = about if isinstance(about, str) else attributes("inputs", path, about).get("uri")
    if not isinstance(path, str) or not path or scheme(path):
        raise SpecError(f"inputs has the key {short(path)}.", "Without specs and args a key is a path in the job.")
    if not isinstance(uri, str) or not uri:
        raise SpecError(
            f"inputs[{path!r}] is {short(about)}.", "Without specs and args it is the address to put there."
        )
    schemes.check(uri, f"inputs[{path!r}]")
    return Input(key=path, uri=uri, kind="", target=path)


def path_outputs(wanted: Declared) -> list[Copy]:
    """Passthrough: paths whose content is kept, each under its last name; equal last names keep their whole paths."""
    paths = [path for path, about in pairs("outputs", wanted) if about.get("type") != "text"]
    for path in paths:
        schemes.check(path, "outputs")
        if scheme(path) or not path:
            raise SpecError(f"outputs has {path!r}.", "Without specs and args an output is a path in the job.")
    distinct = {posixpath.normpath(path): path for path in paths}
    names = Counter(map(posixpath.basename, distinct))
    return [Copy(path=given, name=copy_name(path, names)) for path, given in distinct.items()]


def copy_name(path: str, names: Mapping[str, int]) -> str:
    name = posixpath.basename(path)
    return name if name not in OWN and names[name] == 1 else path.strip("/").replace("..", "__")


def refuse_unreadable(tree: dict[str, Tree], name: str) -> None:
    """Addresses that no program reads by itself must not reach one, wherever in the spec they stand."""

    def visit(place: str, value: Tree) -> None:
        if isinstance(value, str) and scheme(value) in schemes.STAGED_ANYWHERE:
            schemes.check(value, place)

    walk(tree, name, visit)
