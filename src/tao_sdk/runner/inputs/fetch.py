"""Inputs: all are in place before the command starts, or the job reports the first failure and
ends.

Here: inputs that this machine already has. Not here, and loaded only by a job that needs it:
fetching and unpacking (staging.py), inputs with a required path in the job (target.py), and the
texts about a missing or wrong input (trouble.py).
"""

from __future__ import annotations

import os

from tao_sdk.net.address import MODULES, find, scheme
from tao_sdk.runner.inputs.archive_names import must_unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tao_sdk.runner.document import Input
    from tao_sdk.runner.report import Report
    from tao_sdk.runner.results_folder import ResultsFolder

LOOKED_AT = 1000  # files of an input to check for changes


def fetch_inputs(
    inputs: list[Input], results: ResultsFolder, mount: str, env: Mapping[str, str], report: Report
) -> tuple[dict[str, str], Callable[[], None]]:
    """Put all inputs in place: (key -> absolute path, a function that warns of inputs changed
    since).

    Raises Failure for the first input that is not available.
    """
    values: dict[str, str] = {}
    shapes: dict[str, object] = {}
    staging: Staging | None = None
    for wanted in inputs:
        local = MODULES[scheme(wanted["uri"])] == "local"
        path = check_local(wanted, report) if local else ""
        if path and not results.rank and not (results.folder + "/").startswith(path + "/"):
            shapes[path] = tree_shape(path)
        if must_unpack(wanted) or not local:
            from tao_sdk.runner.inputs.staging import Staging

            staging = staging or Staging(results, mount, env, report, values)
            path = staging.unpack_local(wanted, path) if local else staging.stage_input(wanted)
        if wanted["target"]:
            from tao_sdk.runner.inputs.target import put_input

            path = put_input(wanted, path, results.work_folder + "/")
        values[wanted["key"]] = path
    if staging:
        staging.close()
    return values, lambda: tell_changed(shapes, report)


def check_local(wanted: Input, report: Report) -> str:
    """Check that a local input exists and is readable, and return its path. Warn about an empty
    folder. Raises Failure.
    """
    path = find(wanted["uri"])
    if not (os.path.exists(path) and os.access(path, os.R_OK)):
        from tao_sdk.runner.inputs.trouble import unusable_failure

        raise unusable_failure(wanted, path)
    if os.path.isdir(path) and is_empty(path):
        from tao_sdk.runner.inputs.trouble import warn_empty

        warn_empty(wanted, path, report)
    return path


def is_empty(folder: str) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def tell_changed(shapes: Mapping[str, object], report: Report) -> None:
    """Warn about inputs that were changed since: by the command, most likely."""
    for path, before in shapes.items():
        if tree_shape(path) != before:
            from tao_sdk.runner.inputs.trouble import warn_changed

            warn_changed(path, report)


def tree_shape(path: str) -> list[tuple[int, int]]:
    """The sizes and times of the files, which change when somebody writes there. At most LOOKED_AT
    files, those at the top first. Empty if the input was removed.
    """
    folders = [os.path.realpath(path)]
    try:
        shapes = [size_and_time(os.lstat(folders[0]))]
        for folder in folders:
            for entry in folder_entries(folder):
                shapes.append(size_and_time(entry.stat(follow_symlinks=False)))
                if len(shapes) == LOOKED_AT:
                    return shapes
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    except OSError:
        return []  # it was removed
    return shapes


def size_and_time(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def folder_entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """The entries of a folder; none if it does not exist or cannot be read."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return
