"""Files and folders that only this job's user can access, and checks that others cannot change a
file or folder.
"""

from __future__ import annotations

import errno
import os
import stat

OTHERS_WRITE = 0o022  # write rights of the group and of everybody else
# errors of `read_file` for anything but a file of ours
NOT_OURS = (errno.EPERM, errno.ELOOP, errno.ENXIO, errno.EISDIR)


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
    """Remove a folder and its content. Links are removed, not followed. Errors are ignored."""
    from shutil import rmtree

    rmtree(path, ignore_errors=True)


class Unshared:
    """In its block, new files are not writable for others, whatever the job's umask is."""

    def __enter__(self) -> None:
        self.before = os.umask(OTHERS_WRITE)
        os.umask(self.before | OTHERS_WRITE)

    def __exit__(self, *_: object) -> None:
        os.umask(self.before)


def read_file(path: str, most: int) -> bytes:
    """The first `most` bytes of a regular file of this user or root. Raises OSError for anything
    else, and does not wait for a pipe.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        ours = stat.S_ISREG(status.st_mode) and is_ours(status, os.path.dirname(path))
        if not ours:
            raise PermissionError(errno.EPERM, "It is no file of this user", path)
        return file.read(most)


def is_ours(status: os.stat_result, folder: str) -> bool:
    """True if the owner is root, or this user as the file system of `folder` knows him."""
    return status.st_uid in (0, os.geteuid()) or status.st_uid == owner_there(folder)


def owner_there(folder: str) -> int:
    """The uid that owns this process's new files in the folder: a server may map root to nobody."""
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
    """True for a folder, not a link, that is ours and that nobody else can write to."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    closed = stat.S_ISDIR(status.st_mode) and not status.st_mode & OTHERS_WRITE
    return closed and is_ours(status, folder)
