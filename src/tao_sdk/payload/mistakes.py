"""Mistakes: everything that is wrong with a job's declarations of data, one error for each.

Here: the readers of declared.py, asked about one declaration at a time. Not here: what is wrong
(declared.py, entrypoint.py), and how several mistakes are reported (client/mistakes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tao_sdk.model.errors import SpecError
from tao_sdk.model.spec import JobSpec
from tao_sdk.net.address import scheme
from tao_sdk.payload import declared, schemes
from tao_sdk.payload.declarations import Declared
from tao_sdk.payload.declared import SpecKeys
from tao_sdk.payload.entrypoint import chosen_mode
from tao_sdk.payload.job_paths import path_inputs, path_outputs
from tao_sdk.payload.keys import Step, joined

READ_BY_NO_PROGRAM = schemes.STAGED_ANYWHERE | schemes.SHARED
Reader = Callable[[Declared], object]


@dataclass(frozen=True)
class DataMistake:
    """An error, and its place: a field of the job, and the keys from there to the wrong value."""

    error: SpecError
    field: str
    way: tuple[Step, ...] = ()

    @property
    def key(self) -> str:
        return joined([self.field, *self.way])


def data_mistakes(spec: JobSpec, unread: Collection[str] = ()) -> Iterator[DataMistake]:
    """Every mistake once. `unread` are fields that could not be read; what depends on them is not
    looked at.
    """
    both = spec.specs is not None and spec.args is not None  # a mistake that spec.py tells
    if both or {"specs", "args"}.intersection(unread):
        return
    told: set[str] = set()
    for mistake in (*mode_mistakes(spec), *declared_mistakes(spec)):
        if mistake.error.what not in told:
            told.add(mistake.error.what)
            yield mistake


def mode_mistakes(spec: JobSpec) -> Iterator[DataMistake]:
    error = error_of(lambda: chosen_mode(spec.mode, spec.specs, spec.args, None))
    if error:
        yield DataMistake(error, "mode")


def declared_mistakes(spec: JobSpec) -> Iterator[DataMistake]:
    """Mistakes of inputs, outputs and of addresses in the specs."""
    whole, alone = declared.keys_of(spec), declared.keys_of(spec)
    if whole is None or alone is None:
        yield from mistakes_of("inputs", spec.inputs, path_inputs, path_inputs)
        yield from mistakes_of("outputs", spec.outputs, path_outputs, path_outputs)
        return
    yield from mistakes_of("inputs", spec.inputs, whole.inputs, alone.inputs)
    yield from mistakes_of("outputs", spec.outputs, whole.outputs, alone.outputs)
    yield from address_mistakes(whole)


def mistakes_of(
    field: str, wanted: Declared, read_all: Reader, read_one: Reader
) -> Iterator[DataMistake]:
    """The mistakes of each declaration. If each alone is right, the mistake of all together."""
    error = error_of(lambda: read_all(wanted))
    if error is None:
        return
    found = [
        DataMistake(wrong, field, (key,))
        for key, declaration in one_by_one(wanted)
        if (wrong := error_of(lambda each=declaration: read_one(each)))
    ]
    yield from found or [DataMistake(error, field)]


def one_by_one(wanted: Declared) -> Iterator[tuple[str, Declared]]:
    """(key, a declaration of that key alone)"""
    if isinstance(wanted, Mapping):
        for key, about in wanted.items():
            yield key, {key: about}
    elif wanted is not None and not isinstance(wanted, str):
        for key in wanted:
            yield key, [key]


def address_mistakes(keys: SpecKeys) -> Iterator[DataMistake]:
    """The errors of addresses that no job can read, for values without a declaration."""
    for way, value in declared.leaves(keys.tree, []):
        if isinstance(value, str) and scheme(value) in READ_BY_NO_PROGRAM:
            yield from address_mistake(keys, way, value)


def address_mistake(keys: SpecKeys, way: Sequence[Step], value: str) -> Iterator[DataMistake]:
    if keys.literal_type(way):
        return
    error = error_of(lambda: schemes.check(value, f"{keys.name}.{joined(way)}"))
    if error:
        yield DataMistake(error, keys.name, tuple(way))


def error_of(call: Callable[[], Any]) -> SpecError | None:
    try:
        call()
    except SpecError as error:
        return error
    return None
