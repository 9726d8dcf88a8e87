"""Unpack archives among the inputs: a fetched archive, a local one, or those in a folder.

Packed only into jobs that may have one. Not here: the formats, and the limits of an archive
(archive.py).
"""

from __future__ import annotations

import os

from tao_sdk.net.failure import Failure
from tao_sdk.runner import private
from tao_sdk.runner.inputs import archive
from tao_sdk.runner.inputs.archive_names import archive_stem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tao_sdk.runner.document import Input


def unpack_local(wanted: Input, path: str, part: str, env: Mapping[str, str]) -> str:
    """Unpack a local archive, or a folder with archives, into `part`, and return the path. The
    source is not changed. Raises Failure, also if the source changes meanwhile.
    """
    before = archive_shapes(path)
    if os.path.isdir(path):
        copy = os.path.join(part, os.path.basename(path))
        mirror_tree(path, clear_path(copy))
        made = unpack_inside(wanted, copy, part, env)
    else:
        made = unpack_whole(wanted, path, part, env)
    if archive_shapes(path) != before:
        next = "Wait until whoever writes it has finished."
        raise Failure(
            "input.changing",
            f"{path} changes while it is unpacked.",
            "It is another one by now.",
            next,
        )
    return made


def unpack_whole(wanted: Input, path: str, part: str, env: Mapping[str, str]) -> str:
    """Unpack one archive into a folder in `part`, and return that folder."""
    folder = clear_path(os.path.join(part, "unpacked"))
    parent = wanted["options"].get("extract") == "parent"
    return archive.unpack_archive(
        path, folder, env, "" if parent else archive_stem(os.path.basename(path))
    )


def unpack_inside(wanted: Input, folder: str, part: str, env: Mapping[str, str]) -> str:  # noqa: ARG001  as unpack_whole
    """Replace the archives in a folder by their content, and return the folder."""
    parent = wanted["options"].get("extract") == "parent"
    for top, _, names in list(os.walk(folder)):
        for name in filter(archive_stem, sorted(names)):
            full = os.path.join(top, name)
            unpacked = clear_path(os.path.join(top, f".{name[:50]}.unpacked"))
            made = archive.unpack_archive(full, unpacked, env, "" if parent else archive_stem(name))
            os.unlink(full)
            merge_into(made, top if parent else os.path.join(top, archive_stem(name)))
            private.remove_tree(unpacked)
    return folder


def archive_shapes(path: str) -> list[tuple[str, int, str]]:
    """The (name, size, time) of an archive, or of each file in a folder: they show a change."""
    if not os.path.isdir(path):
        return [file_shape(path, os.path.basename(path))]
    return [file_shape(full, name) for full, name in files_below(path) if os.path.exists(full)]


def file_shape(path: str, name: str) -> tuple[str, int, str]:
    status = os.stat(path)
    return name, status.st_size, str(status.st_mtime_ns)


def files_below(folder: str) -> Iterator[tuple[str, str]]:
    """(path, path below the folder) of every file, also behind links. A link that forms a loop
    counts as a file. The path of an empty folder ends in a slash.
    """
    for top, folders, names in os.walk(folder, onerror=refuse_folder, followlinks=True):
        loops = [
            child
            for child in folders
            if os.path.islink(os.path.join(top, child)) and is_loop(folder, top, child)
        ]
        folders[:] = [child for child in folders if child not in loops]
        for name in names + loops + ([] if names or folders else [""]):
            yield os.path.join(top, name), os.path.relpath(os.path.join(top, name), folder)


def refuse_folder(error: OSError) -> None:
    """Raise Failure for an unreadable folder: its files would be missing without notice."""
    what = f"A folder of an input cannot be read: {error.filename}"
    raise Failure(
        "input.unreadable", what, f"{error.strerror}.", "Give the job's user the right to read it."
    ) from error


def is_loop(folder: str, top: str, name: str) -> bool:
    """True if a link leads to a folder above itself: a walk would meet it again."""
    there = os.path.realpath(os.path.join(top, name)).rstrip("/") + "/"
    while not (os.path.realpath(top) + "/").startswith(there):
        if top == folder:
            return False
        top = os.path.dirname(top)
    return True


def mirror_tree(folder: str, into: str) -> None:
    """Make the same tree of folders, with links to the files, so that the source is not changed."""
    os.makedirs(into)
    for full, path in files_below(folder):
        there = os.path.join(into, path)
        os.makedirs(there if full.endswith("/") else os.path.dirname(there), exist_ok=True)
        if not full.endswith("/"):
            os.symlink(full, there)


def merge_into(folder: str, into: str) -> None:
    """Move the content of a folder into another one. Only folders may exist on both sides, else
    raises Failure.
    """
    if not os.path.lexists(into):
        os.rename(folder, into)
        return
    for name in os.listdir(folder):
        source, there = os.path.join(folder, name), os.path.join(into, name)
        if (
            os.path.isdir(source)
            and os.path.isdir(there)
            and not os.path.islink(there)
            and not os.path.islink(source)
        ):
            merge_into(source, there)
        elif os.path.lexists(there):
            raise Failure(
                "archive.broken",
                f"Two archives of a folder hold the same file: {name}.",
                "One would replace the other's.",
                "Leave extract_to_parent out: each is unpacked into a folder of its own name then.",
            )
        else:
            os.rename(source, there)


def clear_path(folder: str) -> str:
    private.remove_tree(folder)
    return folder
