"""Writes the packaged bank as a folder, and its skills for agents to the agent's own folder.

A list of the written files lies beside them. A file that is not in it, or was changed since, is
never replaced or removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

from tao_sdk.model.errors import UsageError
from tao_sdk.model.printable import printable
from tao_sdk.model.settings import Settings
from tao_sdk.net import atomic
from tao_sdk.skills.bank import PACKAGED
from tao_sdk.skills.bank_file import read_bank_bytes
from tao_sdk.skills.errors import BankError, SkillError
from tao_sdk.skills.script_modules import script_modules
from tao_sdk.versions import USUAL_BANK

LIST = ".tao-skill-bank.json"  # the written files, with the SHA-256 of each
LARGEST = 16_000_000  # bytes of a file of the bank
FEW = 3  # files that are named in an error
# agent -> the folder below the home where it looks for skills
AGENTS: Mapping[str, str] = {"claude": ".claude/skills", "codex": ".codex/skills"}

Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Installed:
    """A folder that was written."""

    folder: Path
    written: int  # files that are new or changed
    removed: int


def install_bank(target: Path | None, settings: Settings | None = None) -> Installed:
    """Write the packaged bank to `target`, or to ~/tao-skills-external. Raises BankError."""
    settings = settings or Settings.load()
    folder = (target or settings.home / USUAL_BANK).expanduser().absolute()
    return write_tree(dict(packaged_files()), folder, shared=False)


def install_for(agent: str, settings: Settings | None = None) -> Installed:
    """Write the skills that have a SKILL.md to the agent's folder. Raises BankError, UsageError."""
    settings = settings or Settings.load()
    refuse_unknown_agent(agent)
    return write_tree(agent_files(), settings.home / AGENTS[agent], shared=True)


def agent_files() -> dict[str, bytes]:
    """The whole folder of each skill that has a SKILL.md, below the skill's own name."""
    bank = dict(packaged_files())
    skills = [PurePosixPath(path).parent for path in bank if path.endswith("/SKILL.md")]
    return {
        f"{skill.name}/{PurePosixPath(path).relative_to(skill)}": data
        for skill in skills
        for path, data in bank.items()
        if path.startswith(f"{skill}/")
    }


def refuse_unknown_agent(agent: str) -> None:
    if agent not in AGENTS:
        known = ", ".join(AGENTS)
        raise UsageError(f"unknown agent: {printable(agent)!r}", "", f"Known are: {known}.")


def packaged_files() -> Iterator[tuple[str, bytes]]:
    """The files of the packaged bank, and the modules that its scripts need if nothing is
    installed.
    """
    for path in sorted(PACKAGED.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(PACKAGED).as_posix(), path.read_bytes()
    yield from script_modules()


def write_tree(files: Files, folder: Path, shared: bool) -> Installed:
    """Make the folder hold these files. A folder that is `shared` may hold others besides.

    Raises BankError, before anything is written, if a file that is not ours is in the way.
    """
    folder = folder.resolve()
    try:
        refuse_foreign_folder(folder, shared)
        before = read_list(folder)
        refuse_foreign_files(folder, files, before)
        return replace_files(files, folder, before)
    except OSError as error:
        where = printable(str(error.filename or folder))
        raise BankError(
            f"{where} cannot be written: {error.strerror}.", "", "Name another folder."
        ) from None


def refuse_foreign_folder(folder: Path, shared: bool) -> None:
    """Raise BankError for a folder with files of others in it, and for this package's own."""
    next, command = "Name another folder:", "tao skills install DIR"
    shown = printable(str(folder))
    if folder == PACKAGED or PACKAGED in folder.parents:
        raise BankError(f"{shown} is this package's own.", "", next, command)
    if shared or not folder.is_dir() or os.path.lexists(folder / LIST):
        return
    if any(folder.iterdir()):
        why = "It holds files that tao skills install has not written."
        raise BankError(f"{shown} is not ours to write into.", why, next, command)


def refuse_foreign_files(folder: Path, files: Files, before: Mapping[str, str]) -> None:
    """Raise BankError if a file is in the way that somebody else has written or changed."""
    foreign = [path for path in files if is_foreign(folder, path, files[path], before)]
    if foreign:
        named = ", ".join(printable(str(folder / path)) for path in foreign[:FEW])
        more = f" and {len(foreign) - FEW} more" if len(foreign) > FEW else ""
        raise BankError(
            f"These files are not as tao skills install has written them: {named}{more}.",
            "They would be lost.",
            "Move them away, then run it again.",
        )


def is_foreign(folder: Path, path: str, data: bytes, before: Mapping[str, str]) -> bool:
    """True if something is there that must be kept. A link on the way counts as one."""
    target = folder / path
    if has_link(folder, target):
        return True
    if not os.path.lexists(target):
        return False
    return hash_of_file(target) not in (before.get(path, ""), hash_of(data))


def has_link(folder: Path, target: Path) -> bool:
    """True if the path, or a folder on the way to it, is a link or no folder."""
    if target.is_symlink():
        return True
    between = [parent for parent in target.parents if folder in parent.parents]
    return any(
        os.path.lexists(each) and (each.is_symlink() or not each.is_dir()) for each in between
    )


def replace_files(files: Files, folder: Path, before: Mapping[str, str]) -> Installed:
    """Write new and changed files, remove files that are no longer part of it, and list the written
    ones.
    """
    hashes = {path: hash_of(data) for path, data in files.items()}
    folder.mkdir(parents=True, exist_ok=True)
    stale = [path for path in files if hash_of_file(folder / path) != hashes[path]]
    for path in stale:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(str(target), files[path], mode_of(files[path]), atomic.no_sync)
    removed = [path for path in before if path not in files and remove_ours(folder, path, before)]
    text = json.dumps({"schema": 1, "files": hashes}, indent=1).encode()
    atomic.write(str(folder / LIST), text, 0o644)
    return Installed(folder, len(stale), len(removed))


def mode_of(data: bytes) -> int:
    """The mode of a file: a script is executable."""
    return 0o755 if data.startswith(b"#!") else 0o644


def remove_ours(folder: Path, path: str, before: Mapping[str, str]) -> bool:
    """Remove a file that is as we wrote it, and its folders if they are empty then."""
    target = folder / path
    if has_link(folder, target) or hash_of_file(target) != before[path]:
        return False
    target.unlink()
    for parent in target.parents:
        if parent == folder or any(parent.iterdir()):
            break
        parent.rmdir()
    return True


def read_list(folder: Path) -> dict[str, str]:
    """The hashes of the files that this package has installed in the folder, by name. Raises
    BankError for a list that is not in this package's format.
    """
    path = folder / LIST
    if not os.path.lexists(path):
        return {}
    try:
        listed: Any = json.loads(read_bank_bytes(folder, path, LARGEST))
        files = cast("dict[Any, Any]", listed["files"])
        return {str(name): str(digest) for name, digest in files.items() if is_below(str(name))}
    except (SkillError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BankError(
            f"{printable(str(path))} is no list of installed files.",
            "What is ours in that folder cannot be told.",
            "Move the folder away:",
            f"mv {shlex.quote(str(folder))} {shlex.quote(str(folder) + '.old')}",
        ) from None


def is_below(path: str) -> bool:
    """True for a relative path that stays in its folder."""
    parts: Sequence[str] = path.split("/")
    return bool(path) and not {"", ".", ".."} & {*parts} and "\0" not in path


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def hash_of_file(path: Path) -> str:
    """The hash of a plain file; "" if it is no plain file, or larger than any of ours."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
        return ""
    return hash_of(path.read_bytes())
