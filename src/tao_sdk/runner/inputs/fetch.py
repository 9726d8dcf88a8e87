"""Inputs: every one is in place before the command starts, or the job says which is not and ends.

Here: what this machine has already. What has to be fetched or unpacked is staging.py's.
"""

from __future__ import annotations

import os

from tao_sdk.net.address import MODULES, find, scheme
from tao_sdk.net.atomic import copy_whole
from tao_sdk.net.failure import Failure
from tao_sdk.runner.inputs.archive_names import packed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tao_sdk.runner.document import Input
    from tao_sdk.runner.place import Place
    from tao_sdk.runner.report import Report

COPIED = 64 << 20  # bytes; a larger file is a link to its source in the job's own folder, too
LOOKED_AT = 1000  # files of an input that are looked at for a change


def fetch(
    inputs: list[Input], place: Place, mount: str, env: Mapping[str, str], report: Report
) -> tuple[dict[str, str], Callable[[], None]]:
    """(key -> absolute path of each input, what tells of those that have changed since).

    Raises Failure for the first that cannot be had.
    """
    values: dict[str, str] = {}
    shapes: dict[str, object] = {}
    staging: Staging | None = None
    for each in inputs:
        local = MODULES[scheme(each["uri"])] == "local"
        path = there(each, report) if local else ""
        if path and not place.rank and not (place.folder + "/").startswith(path + "/"):
            shapes[path] = shape(path)
        if packed(each) or not local:
            from tao_sdk.runner.inputs.staging import Staging

            staging = staging or Staging(place, mount, env, report, values)
            path = staging.unpacked(each, path) if local else staging.stage(each)
        values[each["key"]] = put(each, path, place.work + "/")
    if staging:
        staging.close()
    return values, lambda: tell_changed(shapes, report)


def there(wanted: Input, report: Report) -> str:
    """An input of this machine, looked at, so that the command never meets a hole instead of its
    data.
    """
    path = find(wanted["uri"])
    if not os.path.exists(path):
        raise missing(wanted, path)
    if not os.access(path, os.R_OK):
        raise Failure(
            "input.unreadable",
            f"The input {wanted['key']} cannot be read: {path}",
            f"This job runs as user {os.geteuid()}, which may not read it.",
            "Give that user the right to read it, or run the job as another user.",
        )
    if os.path.isdir(path) and is_empty(path):
        report.warn(
            "input.empty",
            f"The input {wanted['key']} is an empty folder: {path}",
            "The folder is there, and nothing is in it: what should be "
            "mounted there may be missing.",
            "Check the path, and that its file system is mounted where the job runs.",
        )
    return path


def is_empty(folder: str) -> bool:
    with os.scandir(folder) as found:
        return next(found, None) is None


def missing(wanted: Input, path: str) -> Failure:
    above = path
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    dangling = os.path.islink(path)
    return Failure(
        "input.missing",
        f"The input {wanted['key']} is not there: {wanted['uri']}",
        f"{path} is a link to something that is not there."
        if dangling
        else f"Inside the job nothing is at {path}; the last folder that exists is {above}.",
        "Check the path, and that the folder it lies in is mounted into the job.",
    )


def put(wanted: Input, path: str, work: str) -> str:
    """The input under the path the job wants for it; where it is when the job does not care.

    It is a link. In `work`, the job's own folder, a file of at most COPIED bytes is a copy: a
    command that saves to its name does not write to the source.
    """
    target = wanted["target"]
    if not target:
        return path
    if target.endswith("/") and not os.path.isdir(path):
        target = os.path.join(target, os.path.basename(path))
    target = os.path.abspath(target)
    try:
        if not leads(target, path):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            small = os.path.isfile(path) and os.path.getsize(path) <= COPIED
            (copy_whole if small and target.startswith(work) else link)(path, target)
    except OSError as error:
        if not leads(target, path):  # another rank may have done the same
            raise Failure(
                "input.in_the_way",
                f"The input {wanted['key']} cannot be put at {target}.",
                f"{error.strerror}.",
                "Choose another path.",
            ) from error
    return target


def leads(target: str, path: str) -> bool:
    return os.path.exists(target) and os.path.samefile(target, path)


def link(path: str, target: str) -> None:
    """Make `target` a link to `path`; an empty folder of the image or an older link of ours gives
    way, data never.
    """
    new = target
    if os.path.islink(target):
        new += os.urandom(6).hex()
    elif os.path.isdir(target):
        os.rmdir(target)
    os.symlink(path, new)
    os.rename(new, target)


def tell_changed(shapes: Mapping[str, object], report: Report) -> None:
    """Tell of inputs that were written to since: by the command, most likely."""
    for path, before in shapes.items():
        if shape(path) != before:
            what = f"The input {path} was changed while the command ran."
            why = "Where an input is a link, writing to its name changes it."
            report.warn("input.changed", what, why, "Save under another name.")
            report.say(what)


def shape(path: str) -> list[tuple[int, int]]:
    """What changes when somebody writes there: sizes and times; of a large folder the first, those
    at its top before those further down.
    """
    folders = [os.path.realpath(path)]
    try:
        shapes = [size_and_time(os.lstat(folders[0]))]
        for folder in folders:
            for entry in entries(folder):
                shapes.append(size_and_time(entry.stat(follow_symlinks=False)))
                if len(shapes) == LOOKED_AT:
                    return shapes
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    except OSError:
        return []  # it was removed
    return shapes


def size_and_time(found: os.stat_result) -> tuple[int, int]:
    return found.st_size, found.st_mtime_ns


def entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """Those of a folder, one after the other; none where there is no folder or it cannot be
    read.
    """
    try:
        with os.scandir(folder) as found:
            yield from found
    except OSError:
        return
