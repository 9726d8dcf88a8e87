"""Places that only this job's user can look into, and what tells a place of his from one that
others can change.
"""

from __future__ import annotations

import errno
import os
import stat

OTHERS_WRITE = 0o022  # the rights of a group and of everybody else to change something
NOT_OURS = (
    errno.EPERM,
    errno.ELOOP,
    errno.ENXIO,
    errno.EISDIR,
)  # what `read_file` raises for anything but a file of ours


def random_path() -> str:
    return os.path.join(os.environ.get("TMPDIR") or "/tmp", f"tao-{os.urandom(12).hex()}")


def make_folder() -> str:
    path = random_path()
    os.mkdir(path, 0o700)
    return path


def write_file(content: bytes) -> str:
    path = random_path()
    with open(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb"
    ) as opened:
        opened.write(content)
    return path


def remove_tree(path: str) -> None:
    """The folder and what is in it; links are removed, not followed. What cannot be
    removed stays.
    """
    from shutil import rmtree

    rmtree(path, ignore_errors=True)


class Unshared:
    """Nobody else can write to what is made in its block, whatever the job's umask says."""

    def __enter__(self) -> None:
        self.before = os.umask(OTHERS_WRITE)
        os.umask(self.before | OTHERS_WRITE)

    def __exit__(self, *_: object) -> None:
        os.umask(self.before)


def read_file(path: str, most: int) -> bytes:
    """The first bytes of a regular file of this user or root. Raises OSError for anything else; a
    pipe is not waited for.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        ours = stat.S_ISREG(status.st_mode) and is_ours(status, os.path.dirname(path))
        if not ours:
            raise PermissionError(errno.EPERM, "It is no file of this user", path)
        return file.read(most)


def is_ours(status: os.stat_result, folder: str) -> bool:
    """True for what belongs to root, or to this user as the file system of `folder` knows him."""
    return status.st_uid in (0, os.geteuid()) or status.st_uid == owner_there(folder)


def owner_there(folder: str) -> int:
    """Whom a file belongs to that this process makes there: a server may take root for nobody."""
    from tao_sdk.net.atomic import remove_file, temporary_name

    path = temporary_name(os.path.join(folder, "owner"))
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return os.geteuid()
    try:
        return os.fstat(fd).st_uid
    finally:
        os.close(fd)
        remove_file(path)


def is_closed(folder: str) -> bool:
    """True for a folder, no link to one, that is ours and that nobody else can write to."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    closed = stat.S_ISDIR(status.st_mode) and not status.st_mode & OTHERS_WRITE
    return closed and is_ours(status, folder)
