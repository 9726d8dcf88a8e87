"""Set values: `train.lr=0.1` for one value of a job's specs or args.

Here: the place of a key, and the key that was meant if there is no such place. Not here: how a
value is read (document.py).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from tao_sdk.model.errors import UsageError
from tao_sdk.model.job_settings import is_short_for
from tao_sdk.model.spec import JobSpec

Tree = dict[str, Any]
MOST_SEARCHED = 10_000  # keys of a spec that are searched for one of that name


class SetSpec(NamedTuple):
    """A spec with values set, and notes about them."""

    spec: JobSpec
    notes: tuple[str, ...] = ()


def with_values(spec: JobSpec, typed: Sequence[str]) -> SetSpec:
    """The spec after each of `typed`, such as `train.lr=0.1`, in their order.

    A key that is new below a mapping is added, with a note. Raises UsageError for a key that
    resembles an existing one, for a key that is new at the top, and for a value that would replace
    a mapping.
    """
    if not typed:
        return SetSpec(spec)
    name = field_of(spec, typed[0])
    tree = copied(getattr(spec, name))
    notes = [note for text in typed for note in set_one(tree, text, name)]
    return SetSpec(replace(spec, **{name: tree}), tuple(notes))


def field_of(spec: JobSpec, typed: str) -> str:
    """The field of the job that the values belong to, args or specs. Raises UsageError if it has
    neither.
    """
    if spec.specs is None and spec.args is None:
        why = "--set changes a value of the job's specs or args, and it has neither."
        argument = shlex.quote(typed)
        advice = f"For an argument of the command: --args {argument}. For specs: --specs FILE"
        raise UsageError("There is nothing to set.", why, advice)
    return "args" if spec.specs is None else "specs"


def text_notes(flag: str, key: str, value: Any) -> Iterator[str]:
    """A note if a value is one text and reads like several numbers: `0.1,0.2`."""
    parts = value.split(",") if isinstance(value, str) else []
    if len(parts) < 2 or not all(map(is_number, parts)):
        return
    listed = shlex.quote(f"{key}=[{', '.join(part.strip() for part in parts)}]")
    yield (
        f"{key} is the one text {value!r}. For a list: {flag} {listed}. For one job per value, "
        "submit in a loop: for value in ...; do tao run ...; done"
    )


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def copied(value: Any) -> Any:
    """The mappings of a value anew, so that the caller's stay as they are."""
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in cast("Mapping[str, Any]", value).items()}
    return value


def read_pair(text: str) -> tuple[str, Any]:
    """The key and the value of `train.lr=0.1`. Raises UsageError."""
    key, equals, typed = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--set is {text!r}; it must be KEY=VALUE, such as train.lr=0.1.")
    from tao_sdk.client.document import compose

    return key, compose(typed, f"--set {key}").plain()


def set_one(tree: Tree, text: str, name: str) -> Iterator[str]:
    """Set one value in place. Return a note if its key is new, or if the value may be a mistake."""
    key, value = read_pair(text)
    yield from text_notes("--set", key, value)
    parts = [key] if name == "args" else key.split(".")
    holder, rest = holder_of(tree, parts)
    if len(rest) > 1 or rest[0] not in holder:
        yield add(tree, holder, parts, rest, value)
        return
    if isinstance(holder[rest[0]], dict) and not isinstance(value, dict):
        inside = ", ".join(f"{key}.{each}" for each in list(holder[rest[0]])[:5])
        raise UsageError(
            f"--set {key}: it is a mapping.",
            "A value would take the place of all in it.",
            f"In it: {inside}.",
        )
    refuse_text_for_number(key, holder[rest[0]], value)
    holder[rest[0]] = value


def refuse_text_for_number(key: str, number: Any, text: Any) -> None:
    """Raise UsageError for a text in the place of a number. A text that reads as a number is taken,
    and so is one with a reference (`${...}`) that may become a number.
    """
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        return
    if not isinstance(text, str) or is_number(text) or "${" in text:
        return
    notes = list(text_notes("--set", key, text))
    advice = notes[0] if notes else "Give a number. A text is written in the specs themselves."
    raise UsageError(f"--set {key}: {text!r} is a text.", f"{number} stood there.", advice)


def holder_of(tree: Tree, parts: Sequence[str]) -> tuple[Tree, list[str]]:
    """The deepest existing mapping on the way, and the remaining parts of the key."""
    holder, rest = tree, list(parts)
    while len(rest) > 1 and rest[0] in holder:
        below = holder[rest[0]]
        if below is None:  # `train:` with nothing below it
            below = holder[rest[0]] = {}
        if not isinstance(below, dict):
            from tao_sdk.client.document import SHAPES

            whole = ".".join(parts[: len(parts) - len(rest) + 1])
            shape = SHAPES.get(type(below).__name__, "a value")
            what = f"--set {'.'.join(parts)}: {whole} is {shape}."
            raise UsageError(what, "Nothing is below it.", f"Set it whole: {whole}=VALUE")
        holder, rest = cast("Tree", below), rest[1:]
    return holder, rest


def add(tree: Tree, holder: Tree, parts: Sequence[str], rest: Sequence[str], value: Any) -> str:
    """Add a missing value if that is likely to be meant. Return the note that says so."""
    key, above = ".".join(parts), list(parts[: len(parts) - len(rest)])
    if "" in rest:
        raise UsageError(
            f"--set {key}: a part of the key is empty.", "", "Write it as train.lr=0.1."
        )
    if meant := meant_by(tree, holder, above, rest):
        raise UsageError(f"--set {key}: there is no such key.", "", f"Did you mean {meant}?")
    if not above:
        there = ", ".join(list(tree)[:10]) or "none"
        raise UsageError(
            f"--set {key}: there is no key {rest[0]!r} at the top.", "", f"Known are: {there}."
        )
    there = ending_in(holder, rest)
    for part in reversed(rest[1:]):
        value = {part: value}
    holder[rest[0]] = value
    unchanged = f" There is {'.'.join([*above, there])}, which stays as it was." if there else ""
    return f"{key} is new: {'.'.join(above)} had no {rest[0]}.{unchanged}"


def meant_by(tree: Tree, holder: Tree, above: list[str], rest: Sequence[str]) -> str:
    """The key that was probably meant: a key beside it of a like name, or a key of that name
    elsewhere; else "".
    """
    import difflib

    beside = list(holder)[:MOST_SEARCHED]
    near = difflib.get_close_matches(rest[0], beside, n=1, cutoff=0.7)
    near = near or [name for name in beside if ends_in_word(name, rest[0])]
    near = near or [
        name for name in beside if is_short_for(rest[0], name) or is_short_for(name, rest[0])
    ]
    if near:
        return ".".join([*above, near[0], *rest[1:]])
    return "" if above else ending_in(tree, rest)


def ends_in_word(name: str, word: str) -> bool:
    """True for the last word of a longer name, also in the singular: `epoch` of `num_epochs`."""
    return name.endswith((f"_{word}", f"_{word}s"))


def ending_in(tree: Tree, rest: Sequence[str]) -> str:
    """The first key below the top that ends in these parts; else \"\"."""
    return next((key for key in keys_of(tree) if key.endswith("." + ".".join(rest))), "")


def keys_of(tree: Tree) -> Iterator[str]:
    """The keys of all values, those near the top first, as `train.lr`."""
    waiting: list[tuple[str, Tree]] = [("", tree)]
    for searched, (prefix, mapping) in enumerate(waiting):
        if searched > MOST_SEARCHED:
            return
        for name, value in mapping.items():
            yield prefix + name
            if isinstance(value, dict):
                waiting.append((f"{prefix}{name}.", cast("Tree", value)))
