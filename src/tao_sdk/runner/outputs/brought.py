"""Outputs of a passthrough job outside the results: find the paths that must be copied there."""

from __future__ import annotations

import os
import re

from tao_sdk.runner.outputs.tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.runner.document import Copy
    from tao_sdk.runner.results_folder import ResultsFolder


JOB_NAME = re.compile(r"[a-z0-9-]+-[a-z0-9]{10}")  # the name of a job's folder


def paths_to_bring(copies: list[Copy], results: ResultsFolder) -> list[tuple[str, str]]:
    """(path, name) of each output that must be copied to the results."""
    pairs = [(os.path.abspath(copy["path"]), copy["name"]) for copy in copies]
    return [(path, name) for path, name in pairs if not is_in_results(path, results)]


def is_in_results(source: str, results: ResultsFolder) -> bool:
    """True if the path is already in the results, but not in the work folder. True for `/`, too: a
    whole machine is no output.
    """
    if source.startswith(results.work_folder + "/"):
        return False
    return source in ("/", results.folder) or source.startswith(results.folder + "/")


def written_there(name: str, results: ResultsFolder) -> bool:
    """True if the command itself wrote the output of that name into the results, so that no copy is
    needed.
    """
    return bool(name) and os.path.lexists(os.path.join(results.folder, name))


def jobs_beside(results: ResultsFolder) -> frozenset[str]:
    """Names beside the results that look like jobs' folders. It must be called before the command
    could create such names.
    """
    return frozenset(name for name in names_beside(results) if JOB_NAME.fullmatch(name))


def other_results(source: str, results: ResultsFolder) -> list[str]:
    """The folders in a path that are results, of this or other jobs, and not output; empty if the
    path does not contain the results.

    They are names below the path.
    """
    root = os.path.dirname(results.folder)
    if not (root + "/").startswith(source.rstrip("/") + "/"):
        return []
    marked = (
        name for name in names_beside(results) if os.path.isdir(os.path.join(root, name, ".tao"))
    )
    jobs = {os.path.basename(results.folder), *results.neighbours, *marked}
    return [os.path.relpath(os.path.join(root, name), source) for name in sorted(jobs)]


def own_tree(source: str, results: ResultsFolder, excludes: list[str]) -> Tree:
    """The files of an output's folder that are this job's: without older ones (older.py)."""
    tree = Tree(source, [*excludes, *other_results(source, results)])
    if results.older_files:
        tree.files = results.older_files.own_files(source, tree)
    return tree


def owns_file(source: str, results: ResultsFolder) -> bool:
    """True if a file that is an output is this job's, and not an older one."""
    return results.older_files is None or results.older_files.owns_file(source)


def names_beside(results: ResultsFolder) -> list[str]:
    """The names in the folder above the results; none if it cannot be read."""
    try:
        return os.listdir(os.path.dirname(results.folder))
    except OSError:
        return []


def make_folders(copies: list[Copy]) -> None:
    """Create each path that ends in a slash: the command may expect that folder. If that fails, the
    command has to create it.
    """
    for copy in copies:
        if copy["path"].endswith("/"):
            try:  # noqa: SIM105  shorter in a job
                os.makedirs(copy["path"], exist_ok=True)
            except OSError:
                pass
