"""Outputs of a passthrough job that lie apart from the results: what has to be brought there."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.runner.document import Copy
    from tao_sdk.runner.place import Place


JOB_NAME = re.compile(r"[a-z0-9-]+-[a-z0-9]{10}")  # how the folders of jobs are called


def paths_to_bring(copies: list[Copy], place: Place) -> list[tuple[str, str]]:
    """Path and name of each that has to be brought to the results."""
    pairs = [(os.path.abspath(copy["path"]), copy["name"]) for copy in copies]
    return [(path, name) for path, name in pairs if not is_in_results(path, place)]


def is_in_results(source: str, place: Place) -> bool:
    """It lies in the results already, though not where the command starts. All of a machine (/) is
    nobody's output.
    """
    if source.startswith(place.work_folder + "/"):
        return False
    return source in ("/", place.folder) or source.startswith(place.folder + "/")


def written_there(name: str, place: Place) -> bool:
    """Whether the command wrote the output of that name into the results itself, so that nothing is
    to be brought there.
    """
    return bool(name) and os.path.lexists(os.path.join(place.folder, name))


def jobs_beside(place: Place) -> frozenset[str]:
    """Names beside the results that are jobs' by the look of them: asked before the command could
    make any.
    """
    return frozenset(name for name in names_beside(place) if JOB_NAME.fullmatch(name))


def other_results(source: str, place: Place) -> list[str]:
    """What lies in a path that holds the results and is not the output: these results, and those of
    other jobs.

    By the names below the path.
    """
    root = os.path.dirname(place.folder)
    if not (root + "/").startswith(source.rstrip("/") + "/"):
        return []
    marked = (
        name for name in names_beside(place) if os.path.isdir(os.path.join(root, name, ".tao"))
    )
    jobs = {os.path.basename(place.folder), *place.neighbours, *marked}
    return [os.path.relpath(os.path.join(root, name), source) for name in sorted(jobs)]


def names_beside(place: Place) -> list[str]:
    """What lies beside the results."""
    try:
        return os.listdir(os.path.dirname(place.folder))
    except OSError:
        return []


def make_folders(copies: list[Copy]) -> None:
    """A path that ends in a slash is a folder that the command may expect; where it cannot be made,
    it is the command's.
    """
    for copy in copies:
        if copy["path"].endswith("/"):
            try:  # noqa: SIM105  shorter in a job
                os.makedirs(copy["path"], exist_ok=True)
            except OSError:
                pass
