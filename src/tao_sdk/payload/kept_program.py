"""Kept program: the program that `program.py` made for an earlier job, kept in the user's cache
folder.

A file is used only if it was made from the very sources that lie here now. If anything is wrong
with the folder or the file, the program is made anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from tao_sdk.model.errors import StoreError
from tao_sdk.model.settings import Settings
from tao_sdk.store import private_files

PACKAGE = Path(__file__).parents[1]
SOURCES = ("net", "runner", "payload")  # the packed modules, and their packer
MOST = 1024 * 1024  # bytes of a kept file


@dataclass(frozen=True)
class Program:
    """The parts that do not depend on the job: the shell's Python text, and the packed modules."""

    bootstrap: str
    modules: str


@cache
def find_program(roots: tuple[str, ...]) -> Program:
    """The program for a job that asks for these modules beside those that every job needs."""
    if not PACKAGE.is_dir():  # it is imported from an archive
        return make_program(roots)
    made_from = fingerprint()
    path = kept_path(roots)
    program = read_kept(path, made_from)
    if program is None:
        program = make_program(roots)
        keep(path, made_from, program)
    return program


def make_program(roots: tuple[str, ...]) -> Program:
    from tao_sdk.payload.program import bootstrap, modules, program

    return Program(bootstrap(), program(modules(roots)))


def kept_path(roots: tuple[str, ...]) -> Path:
    name = sha256("\n".join(roots).encode()).hexdigest()
    return Settings.load().cache_dir / "packed" / f"{name}.json"


def read_kept(path: Path, made_from: str) -> Program | None:
    """Read the kept program. None if there is none, or it was made of other sources."""
    try:
        private_files.refuse_replaceable(path)
        private_files.make_directory(path.parent)
        if path.stat().st_size > MOST:
            return None
        kept: Any = json.loads(path.read_text(encoding="ascii"))
    except (OSError, StoreError, ValueError, RecursionError):
        return None
    if not isinstance(kept, dict):
        return None
    fields = cast("dict[str, Any]", kept)
    bootstrap, modules = fields.get("bootstrap"), fields.get("modules")
    if fields.get("made_from") != made_from:
        return None
    if not isinstance(bootstrap, str) or not isinstance(modules, str):
        return None
    return Program(bootstrap, modules)


def keep(path: Path, made_from: str, program: Program) -> None:
    data = json.dumps({"made_from": made_from, **asdict(program)})
    with suppress(OSError, StoreError):  # a full or read-only disk costs the next job its time
        private_files.refuse_replaceable(path)
        private_files.write_whole(path, data.encode())


def fingerprint() -> str:
    """A hash of the sources, and of the version of the Python that strips them."""
    digest = sha256(repr(sys.version_info).encode())
    for path in source_files():
        name = path.relative_to(PACKAGE).as_posix()
        digest.update(name.encode() + sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def source_files() -> Iterator[Path]:
    for room in SOURCES:
        yield from sorted((PACKAGE / room).rglob("*.py"))
