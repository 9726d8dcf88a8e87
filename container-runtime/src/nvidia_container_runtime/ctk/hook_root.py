"""The root file system of the container that a hook is run for, and walking in it without ever
leaving it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager

from .. import json_text, paths
from ..errors import RuntimeFault, reason

FOLDER = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
LINKS_LIMIT = 255
STATE_LIMIT = 16 << 20


def container_root(state_file: str = "") -> str:
    """By the OCI state on stdin (or in a file): its root, else root.path of its bundle's
    config.json.
    """
    raw = (
        paths.read_bytes(state_file)
        if state_file and state_file != "-"
        else sys.stdin.buffer.read(STATE_LIMIT)
    )
    try:
        state = json_text.first_value(raw.decode())
        bundle = state.get("bundle") or state.get("bundlePath") or ""
        root = state.get("root") or ""
        if not root.startswith("/") and not bundle.startswith(
            "/"
        ):  # the current folder may be the image's
            raise ValueError("the state names no absolute bundle")
        if not root:
            spec = json_text.first_value(
                paths.read_bytes(paths.join(bundle, "config.json")).decode()
            )
            root = spec["root"]["path"]
    except (ValueError, AttributeError, KeyError, TypeError, OSError) as error:
        raise RuntimeFault(f"failed to determine the container's root: {error}") from None
    return root if root.startswith("/") else paths.clean(paths.join(bundle, root))


def read_regular(path: str, limit: int, folder: int | None = None) -> bytes:
    """A plain file's content, below the open folder. Anything else, or more, is refused and never
    waited for.
    """
    descriptor = os.open(
        path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder
    )
    with open(descriptor, "rb") as stream:
        check_regular(descriptor, path)
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise RuntimeFault(f"{path} is larger than {limit} bytes")
    return content


def check_regular(descriptor: int, path: str) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise RuntimeFault(f"{path} is no plain file")


class Root:
    """A folder that stands for /. Links are followed as a process chrooted there
    would follow them.
    """

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    @contextmanager
    def folder(self, path: str, create: bool = False) -> Generator[int, None, None]:
        """An open descriptor of a folder below the root."""
        descriptor = self.walk(path, create)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def has(self, path: str) -> bool:
        try:
            with self.folder(path):
                return True
        except OSError:
            return False

    def names(self, path: str) -> list[str]:
        with self.folder(path) as entry:
            return os.listdir(f"/proc/self/fd/{entry}")

    def read(self, path: str, limit: int) -> bytes:
        """A plain file's content. It is looked at before it is opened: to open a device may do
        something.
        """
        with self.folder(path) as entry:
            check_regular(entry, path)
            return read_regular(f"/proc/self/fd/{entry}", limit)

    def write(self, folder: str, name: str, content: bytes) -> None:
        """In one step: what is there is replaced, never followed or opened."""
        with self.folder(folder, create=True) as place:
            draft = f".{name}.{os.urandom(4).hex()}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(draft, flags, 0o644, dir_fd=place)
            with os.fdopen(descriptor, "wb") as stream:
                os.fchmod(descriptor, 0o644)
                stream.write(content)
            try:
                os.rename(draft, name, src_dir_fd=place, dst_dir_fd=place)
            except OSError as error:
                os.unlink(draft, dir_fd=place)
                raise RuntimeFault(
                    f"failed to write {paths.join(folder, name)}: {reason(error)}"
                ) from None

    def walk(self, path: str, create: bool = False) -> int:
        """Component by component, by descriptors: who swaps a folder for a link meanwhile gains
        nothing.
        """
        trail = [os.dup(self.descriptor)]
        todo = [part for part in path.split("/") if part not in ("", ".")][::-1]
        links = 0
        try:
            while todo:
                part = todo.pop()
                if part == "..":
                    if len(trail) > 1:
                        os.close(trail.pop())
                    continue
                entry = self.enter(trail[-1], part, create)
                if not stat.S_ISLNK(os.fstat(entry).st_mode):
                    trail.append(entry)
                    continue
                target = os.readlink("", dir_fd=entry)
                os.close(entry)
                links += 1
                if links > LINKS_LIMIT:
                    raise RuntimeFault(f"too many levels of symbolic links: {path}")
                if target.startswith("/"):
                    while len(trail) > 1:
                        os.close(trail.pop())
                todo += [piece for piece in target.split("/") if piece not in ("", ".")][::-1]
            return trail.pop()
        finally:
            for descriptor in trail:
                os.close(descriptor)

    def enter(self, folder: int, name: str, create: bool) -> int:
        try:
            return os.open(name, FOLDER, dir_fd=folder)
        except FileNotFoundError:
            if not create:
                raise
        try:
            os.mkdir(name, 0o755, dir_fd=folder)
        except FileExistsError:
            pass
        return os.open(name, FOLDER, dir_fd=folder)
