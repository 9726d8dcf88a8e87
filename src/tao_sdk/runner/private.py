"""Places that only this job's user can look into, under names that nobody can guess."""

from __future__ import annotations

import os


def name() -> str:
    return os.path.join(os.environ.get("TMPDIR") or "/tmp", "tao-%s" % os.urandom(12).hex())


def folder() -> str:
    path = name()
    os.mkdir(path, 0o700)
    return path


def file(content: bytes) -> str:
    path = name()
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as opened:
        opened.write(content)
    return path


def remove(path: str) -> None:
    """The folder and what is in it; links are removed, not followed. What cannot be removed stays."""
    for top, folders, files in os.walk(path, topdown=False):
        for each in files + folders:
            full = os.path.join(top, each)
            try:
                (os.rmdir if os.path.isdir(full) and not os.path.islink(full) else os.unlink)(full)
            except OSError:
                continue
    try:
        os.rmdir(path)
    except OSError:
        return
