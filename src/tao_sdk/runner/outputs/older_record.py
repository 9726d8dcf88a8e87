"""The record of older files (older.py): noted before the first command of a job begins, and read by
its further attempts.
"""

from __future__ import annotations

import os
import time

from tao_sdk.net import atomic
from tao_sdk.runner import private
from tao_sdk.runner.jsontext import dumps
from tao_sdk.runner.outputs.brought import other_results, paths_to_bring
from tao_sdk.runner.outputs.older import OlderFiles
from tao_sdk.runner.outputs.tree import Tree, mark_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.runner.document import Copy
    from tao_sdk.runner.outputs.tree import Mark
    from tao_sdk.runner.results_folder import ResultsFolder

MOST = 20_000  # files that are noted; the others are judged by the clock
SKEW = 60.0  # seconds that the clock of another file system may be wrong
COARSE = 2.0  # seconds between two times of a coarse disk
LARGEST = 64 << 20  # bytes of a record to read


def note_older_files(copies: list[Copy], results: ResultsFolder) -> OlderFiles:
    """Note the files that are there now. It must be called before the command begins.

    A further attempt reads what the first one noted: files of an earlier attempt are this job's.
    """
    sources = [source for source, _ in paths_to_bring(copies, results)]
    marks, unnoted_before = read_record(record_path(results))
    if marks or has_begun(results):
        return OlderFiles(sources, marks, unnoted_before)
    for source in sources:
        marks.update(marks_below(source, results, MOST - len(marks)))
    if len(marks) >= MOST:
        unnoted_before = atomic.file_system_time(results.own_folder) - SKEW
    marks = {path: mark for path, mark in marks.items() if shows_change(mark)}
    if marks:
        write_record(marks, unnoted_before, results)
    return OlderFiles(sources, marks, unnoted_before)


def has_begun(results: ResultsFolder) -> bool:
    """True if the command of an earlier attempt may have begun."""
    return os.path.exists(results.log_path) or (bool(results.remote) and results.attempt > 1)


def marks_below(source: str, results: ResultsFolder, most: int) -> dict[str, Mark]:
    """The marks of the files of one output, and of no more than about `most` in all."""
    if most <= 0:
        return {}
    try:
        if os.path.isfile(source):
            return {source: mark_of(os.stat(source))}
    except OSError:
        return {}
    tree = Tree(source, other_results(source, results), most)
    return {os.path.join(source, path): mark for path, mark in tree.marks.items()}


def shows_change(mark: Mark) -> bool:
    """False if the file has just changed on a disk with times to the second: its mark may stay the
    same when the command writes it.
    """
    return bool(mark[2] % 10**9) or mark[2] < (time.time() - COARSE) * 1e9


def record_path(results: ResultsFolder) -> str:
    rank = f".rank-{results.rank}" if results.rank else ""
    return os.path.join(results.own_folder, f"older{rank}.json")


def write_record(marks: dict[str, Mark], unnoted_before: float, results: ResultsFolder) -> None:
    """Write what a further attempt reads. If that fails, all files count as this job's then."""
    try:  # noqa: SIM105  shorter in a job
        atomic.write(record_path(results), dumps([unnoted_before, marks]).encode(), 0o600)
    except OSError:
        pass


def read_record(path: str) -> tuple[dict[str, Mark], float]:
    """What an earlier attempt noted; nothing if there is no usable record."""
    try:
        import json

        unnoted_before, marks = json.loads(private.read_file(path, LARGEST).decode())
        known = {name: (mark[0], mark[1], mark[2]) for name, mark in marks.items()}
        return known, float(unnoted_before)
    except (ImportError, OSError, ValueError, TypeError, AttributeError, LookupError):
        return {}, 0.0
    except (RecursionError, OverflowError):  # the job wrote over it
        return {}, 0.0
