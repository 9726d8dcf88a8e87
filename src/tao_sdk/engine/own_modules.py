"""Own modules: the user's Python files that a job's program imports but that were not sent.

`tao` looks for them on the machine where it runs, beside the paths of the sent files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from tao_sdk.model.module_names import missing_module

MOST_FOLDERS = 20  # of the sent files, to search for a module


def own_module(error: str, files: Iterable[str], folders: Iterable[str]) -> str:
    """Return `utils.py` or `lib/utils`, as `--files` takes it, for the module that the error names.

    `files` are the paths of the sent files in the job, `folders` the local folders that they may
    have come from. "" if the module is not there, or was sent.
    """
    name, _ = missing_module(error)
    sent = set(files)
    if not name or not sent:
        return ""
    for path in _candidates(name, sent):
        if str(path) not in sent and any(_is_there(Path(folder, path)) for folder in folders):
            return str(path)
    return ""


def _candidates(name: str, files: set[str]) -> Iterator[PurePosixPath]:
    """Yield `utils.py` and `utils` in each folder of `files`."""
    relative = [PurePosixPath(path) for path in sorted(files) if not path.startswith("/")]
    parents = dict.fromkeys([PurePosixPath("."), *(path.parent for path in relative)])
    for parent in list(parents)[:MOST_FOLDERS]:
        if ".." not in parent.parts:
            yield from (parent / f"{name}.py", parent / name)


def _is_there(path: Path) -> bool:
    """True for a Python file, and for a folder with one."""
    try:
        return path.is_file() or next(path.glob("*.py"), None) is not None
    except OSError:
        return False
