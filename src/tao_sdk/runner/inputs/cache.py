"""The cache on a mount: find the folders that this job may use, or create its own.

Files in a cache may be programs: weights are often pickles. So an entry is used only if nobody but
this user and root could have put it there, or can replace it while the job runs:

    <mount>/tao-cache/             everybody may create folders; only their owners can remove them
    <mount>/tao-cache-u<uid>/      the same for one user, if tao-cache is another user's
    .../<name>-<version>/          an entry's folder: only its creator can write there
    .../<name>-<version>-u<uid>/   the same, if the plain name is another user's

The owners of the mount and of the folders above it are trusted: the job itself names that folder.
"""

from __future__ import annotations

import os
import stat

from tao_sdk.net.failure import Failure
from tao_sdk.runner import private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

CACHE = "tao-cache"
OPEN_TO_ALL = 0o1777


class Cache:
    """The cache of one mount. Raises Failure if no folder in it is safe from other users."""

    def __init__(self, mount: str) -> None:
        self.mount = os.path.abspath(mount)
        self.shared = os.path.join(self.mount, CACHE)
        self.make_shared()
        self.user = private.owner_there(
            self.shared if os.access(self.shared, os.W_OK) else self.mount
        )
        self.check_above()
        self.top = self.find_top()

    def make_shared(self) -> None:
        """Create the folder for all users. If that fails, a later use reports why."""
        try:
            os.makedirs(self.shared)
            os.chmod(self.shared, OPEN_TO_ALL)
        except OSError:
            return

    def check_above(self) -> None:
        changeable = self.changeable_folder(os.path.realpath(self.mount))
        if changeable:
            raise Failure(
                "input.cache_open",
                f"The cache in {self.mount} is not used.",
                f"Every user can put another folder in the place of {changeable}.",
                "Name a folder of yours or of root, below folders in which only owners "
                "rename (chmod +t).",
            )

    def changeable_folder(self, folder: str) -> str:
        """The folder, or one above it, that any user could replace or may have created; "" if there
        is none.
        """
        while folder != "/":
            above: str = os.path.dirname(folder)
            if writes_anybody(above, sticky=False) or (
                writes_anybody(above) and not self.is_of_us(folder)
            ):
                return folder
            folder = above
        return ""

    def is_of_us(self, folder: str) -> bool:
        try:
            return os.lstat(folder).st_uid in (0, self.user)
        except OSError:
            return False

    def find_top(self) -> str:
        """The folder that all users share, or this user's own if that one is another user's. Raises
        Failure if neither is safe.
        """
        if (
            self.is_kept(self.shared)
            or not os.path.lexists(self.shared)
            or os.path.isfile(self.shared)
        ):
            return self.shared  # a later use reports why it cannot be created
        own = self.own_path(self.shared)
        make_closed(own)
        if self.is_kept(own):
            return own
        raise self.foreign_failure(own)

    def is_kept(self, top: str) -> bool:
        """True for a folder of this user or root in which nobody can rename other users' files."""
        real = os.path.realpath(top)
        ours = self.is_of_us(top) and self.is_of_us(real) and os.path.isdir(real)
        return ours and not writes_anybody(real, sticky=False) and not self.changeable_folder(real)

    def entry_folder(self, name: str, is_there: Callable[[str], bool]) -> str:
        """The folder of an entry: this user's, or root's if the entry `is_there`. Raises Failure if
        both names are other users'.
        """
        shared = os.path.join(self.top, name)
        for path in (shared, self.own_path(shared)):
            make_closed(path)
            if private.is_closed(path) and (os.lstat(path).st_uid == self.user or is_there(path)):
                return path
            if not os.path.lexists(path):
                return path  # a later use reports why it cannot be created
        raise self.foreign_failure(self.own_path(shared))

    def own_path(self, path: str) -> str:
        return f"{path}-u{self.user}"

    def foreign_failure(self, path: str) -> Failure:
        return Failure(
            "input.cache_open",
            f"The cache in {self.mount} is not used.",
            f"{path} belongs to another user, or others can write to it.",
            "Remove it, or name another folder in mount_path.",
        )


def make_closed(folder: str) -> None:
    """Create a folder in which nobody else can write, unless it exists. If that fails, a later use
    reports why.
    """
    try:
        os.mkdir(folder, 0o755)
    except OSError:
        return


def writes_anybody(folder: str, sticky: bool = True) -> bool:
    """True for a folder in which every user can create files. With `sticky` False, only if they can
    also rename files of others.
    """
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return False
    return bool(mode & stat.S_IWOTH) and (sticky or not mode & stat.S_ISVTX)
