"""Files that decide what a container's root may mount: only root, or who runs this, may have
written them.
"""

import posix

from . import paths
from .errors import RuntimeFault, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import stat_result


def read(path: str, what: str) -> bytes:
    """The content of the very file that was judged. OSError as it comes, RuntimeFault for another
    user's file.
    """
    descriptor = paths.open_plain(path)
    try:
        refuse_foreign(posix.fstat(descriptor), path, what)
        return paths.read_all(descriptor, paths.SIZE_LIMIT)
    finally:
        posix.close(descriptor)


def check_folder(path: str, what: str) -> None:
    try:
        seen = posix.stat(path)
    except OSError as error:
        raise RuntimeFault(f"failed to read {what} {path}: {reason(error)}") from None
    refuse_foreign(seen, path, what)


def refuse_foreign(seen: "stat_result", path: str, what: str) -> None:
    if seen.st_uid not in (0, posix.geteuid()):
        raise RuntimeFault(
            f"refusing {what} {path}: it belongs to user {seen.st_uid}; "
            "give it to root (chown root)"
        )
    if seen.st_mode & 0o002 or (seen.st_mode & 0o020 and seen.st_gid not in (0, posix.getegid())):
        raise RuntimeFault(
            f"refusing {what} {path}: others can write it; take that right away (chmod go-w)"
        )
