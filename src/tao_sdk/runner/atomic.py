"""Writing a file so that nobody ever sees half of it: a temporary name beside it, synced, then renamed."""

from __future__ import annotations

import os


def write(path: str, data: bytes, mode: int = 0o644) -> None:
    """Replace `path` by `data`. Raises OSError; nothing is left behind then."""
    temporary = temporary_name(path)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def temporary_name(path: str) -> str:
    """A hidden name beside `path` that no other process uses, on this host or another."""
    folder, name = os.path.split(path)
    return os.path.join(folder, ".%s.%s.tao-part" % (name[:100], os.urandom(6).hex()))
