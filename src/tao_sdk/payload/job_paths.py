"""Inputs and outputs of a job without specs and args: paths in the job, and the addresses to put
there.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Mapping
from typing import cast

from tao_sdk.model.error_field import about_field
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.model.prepared_job import lies_in
from tao_sdk.net.address import scheme
from tao_sdk.payload import schemes
from tao_sdk.payload.declarations import (
    Declared,
    declared_pairs,
    read_attributes,
    read_options,
    refuse_unknown_type,
)
from tao_sdk.payload.values import short
from tao_sdk.runner.document import Copy, Input, Options

KERNEL = ("/proc", "/sys", "/dev")  # the kernel makes these files as they are read
MEMORY = "/dev/shm"  # there lie files
OWN = frozenset({"", ".", "..", ".tao", "work"})  # no names for a copy below the results


@about_field("inputs")
def path_inputs(wanted: Declared) -> list[Input]:
    """Passthrough: path in the job -> address. A plain list names paths that must exist."""
    if isinstance(wanted, Mapping):
        return [path_input(path, about) for path, about in wanted.items() if not left_out(about)]
    return [path_input(path, path) for path, _ in declared_pairs("inputs", wanted)]


def left_out(about: object) -> bool:
    """True for an optional input that is empty."""
    if not isinstance(about, Mapping):
        return False
    declared = cast("Mapping[str, object]", about)
    return declared.get("optional") is True and not declared.get("uri")


def path_input(path: object, about: object) -> Input:
    """The input for a path in the job. An archive stays packed here unless told otherwise: the path
    says under which name the command wants it.
    """
    given: Mapping[str, object] = {"uri": about}
    if not isinstance(about, str):
        given = read_attributes("inputs", path, about)
    uri, place = given.get("uri"), f"inputs[{path!r}]"
    refuse_unknown_type(place, given)
    if not isinstance(path, str) or not path or scheme(path):
        raise FieldError(
            "inputs",
            f"inputs has the key {short(path)}.",
            "Without specs and args a key is a path in the job.",
        )
    if not isinstance(uri, str) or not uri:
        raise SpecError(
            f"{place} is {short(about)}.",
            "Without specs and args it is the address to put there.",
            "Write an address.",
        )
    schemes.check(uri, place)
    told = read_options(place, given)
    if "selective" in told:
        raise SpecError(
            f"{place} has selective.",
            "That names a key of specs or args, and there are none.",
            "Leave it out.",
        )
    kind = str(given.get("type", ""))
    return Input(key=path, uri=uri, kind=kind, target=path, options=Options(extract="no") | told)


@about_field("outputs")
def path_outputs(wanted: Declared) -> list[Copy]:
    """Passthrough: the paths to keep, each under its last name. If last names are equal, under the
    whole paths.
    """
    declared = declared_pairs("outputs", wanted)
    for path, about in declared:
        refuse_address(path, about)
        refuse_unknown_type(f"outputs[{path!r}]", about)
    paths = [path for path, about in declared if about.get("type") != "text"]
    distinct = {posixpath.normpath(path): path for path in paths}
    for path, given in distinct.items():
        refuse_no_data(path, given)
        refuse_unnamed(path, given)
    names = Counter(map(posixpath.basename, distinct))
    optional = {path for path, about in declared if about.get("optional") is True}
    return [
        Copy(path=given, name=copy_name(path, names), optional=given in optional)
        for path, given in distinct.items()
    ]


def refuse_address(path: str, about: Mapping[str, object]) -> None:
    """Raise FieldError for an output without a path, or with an address in its place."""
    schemes.check_output(path, "outputs")
    addresses = [text for text in (path, *map(str, about.values())) if scheme(text)]
    if path and not addresses:
        return
    shown = next(iter(addresses), path)
    raise FieldError(
        "outputs",
        f"outputs has {shown!r}.",
        "Without specs and args an output is a path in the job, and all of them go to one place.",
        "Name that place: env_vars: {TAO_RESULTS_ROOT: s3://bucket/prefix}.",
    )


def refuse_unnamed(path: str, given: str) -> None:
    """Raise FieldError for a path whose last part is no name."""
    if posixpath.basename(path) in ("", ".", ".."):
        raise FieldError(
            "outputs",
            f"outputs has {given!r}.",
            "That has no name under which it could lie among the results.",
            "Name the files or folders that the command writes.",
        )


def refuse_no_data(path: str, given: str) -> None:
    """Raise FieldError for an output that is the whole machine, or a view of the kernel: a copy of
    it takes hours or has no end.
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
    if name not in OWN and names[name] == 1:
        return name
    return path.strip("/").replace("..", "__")
