"""Private files: directories of mode 0700 and files of mode 0600 that appear whole or not at all.

A path is refused if it is a symbolic link, is someone else's, or can be changed by others: its
content could not be trusted, and others could read new content there.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tao_sdk.model.errors import StoreError

ELSEWHERE = "Choose a place below your own home with TAO_SDK_STATE_DIR or state_file."
GROUP_AND_OTHERS = 0o077
OTHERS_CAN_WRITE = stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def explained(path: Path) -> Generator[None]:
    """Turn a refusal by the operating system at `path` into a StoreError."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{path} cannot be used: {error.strerror or error}.",
            "It is part of the job store.",
            "Mend that, or choose another place with TAO_SDK_STATE_DIR or state_file.",
        ) from error


def make_directory(path: Path) -> None:
    """Make `path` a directory of ours, with mode 0700 if it is new. Raises StoreError."""
    with explained(path):
        make_folders(path)
        _refuse_foreign(path, path.lstat(), stat.S_ISDIR, "a directory")
        if path.lstat().st_mode & OTHERS_CAN_WRITE:
            what = f"{path} can be written by other users."
            raise StoreError(what, "They could replace the job store.", *shut_or_leave(path))


def refuse_replaceable(path: Path) -> None:
    """Raise StoreError if another user could put another folder in the place of `path`, or of one
    above it.

    The rule is ssh's. The owner of a folder can rename everything in it, and so can everybody if it
    is open without the sticky bit. Groups are trusted, such as that of a project's folder, and so
    is the owner of /.
    """
    trusted = {0, os.geteuid(), os.lstat("/").st_uid}
    for folder in (*path.parents, *path.resolve().parents):
        with explained(folder):
            if not os.path.lexists(folder):
                continue
            link, there = folder.lstat(), folder.stat()
        for owner in (link.st_uid, there.st_uid):
            if owner not in trusted:
                what = f"{path} lies below {folder}, which belongs to user {owner}."
                raise StoreError(
                    what, "That user could put another folder in its place.", ELSEWHERE
                )
        if there.st_mode & stat.S_IWOTH and not there.st_mode & stat.S_ISVTX:
            what = f"{path} lies below {folder}, in which every user can rename what is another's."
            command = f"chmod o-w {shlex.quote(str(folder))}"
            raise StoreError(what, "They could put another folder in its place.", "Run:", command)


def make_folders(path: Path) -> None:
    """Make `path` and the missing folders above it, for their owner alone, whatever the umask would
    allow others. Raises OSError.
    """
    for folder in reversed(path.parents):
        if not folder.exists():
            folder.mkdir(0o700, exist_ok=True)
    path.mkdir(0o700, exist_ok=True)


def shut_or_leave(path: Path) -> tuple[str, str]:
    """Say what to do about a directory that others can write to, in words and as a command.

    A directory with the sticky bit, such as /tmp, is there for them: the command is "" then.
    """
    if path.lstat().st_mode & stat.S_ISVTX:
        return (
            (
                f"Choose a directory of your own, such as {path / 'tao'}, with "
                "TAO_SDK_STATE_DIR or state_file."
            ),
            "",
        )
    return "Run:", f"chmod go-w {shlex.quote(str(path))}"


def make_file(path: Path) -> None:
    """Make `path` a file of ours with mode 0600, empty if it is new. Raises StoreError.

    It is never opened: closing a second descriptor of a database would drop the locks that SQLite
    holds on it.
    """
    with explained(path):
        with suppress(FileExistsError):
            os.mknod(path, stat.S_IFREG | 0o600)
        there = path.lstat()
        _refuse_foreign(path, there, stat.S_ISREG, "a regular file")
        if there.st_mode & GROUP_AND_OTHERS:
            path.chmod(0o600)


def _refuse_foreign(
    path: Path, there: os.stat_result, is_kind: Callable[[int], bool], kind: str
) -> None:
    if not is_kind(there.st_mode):
        found = "a symbolic link" if stat.S_ISLNK(there.st_mode) else "something else"
        raise StoreError(
            f"{path} is {found}, not {kind}.",
            "It could lead elsewhere later.",
            "Name the place itself.",
        )
    if there.st_uid != os.geteuid():
        raise StoreError(
            f"{path} belongs to user {there.st_uid}, and this is user {os.geteuid()}.",
            "Its owner could read and change every job.",
            "Choose another place with TAO_SDK_STATE_DIR or state_file.",
        )


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` to `path`, with mode 0600. It is on disk when this returns; a crash leaves the
    old file or the new one.
    """
    make_directory(path.parent)
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    with explained(path):
        try:
            _write_new(temporary, data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_directory(path.parent)


def _write_new(path: Path, data: bytes) -> None:
    descriptor = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def name_in(directory: Path, name: str) -> Path:
    """Return `name` as one path component below `directory`. Raises StoreError for a name that
    could lead out of it.
    """
    if not name or "/" in name or "\0" in name or name.startswith("."):
        raise StoreError(
            f"invalid file name: {name!r}",
            "It would lie outside the store's folder.",
            "Name the job by its id: tao ls",
        )
    return directory / name
