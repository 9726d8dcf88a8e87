"""Older files: what the paths of a passthrough job's outputs held before its command began.

They are another job's, or nobody's, and so no results of this job, until they change. An older file
is recognized by its size and times, and not by the clock alone: a copy may keep its source's time.

Not here: how they are noted and found again in a further attempt (older_record.py).
"""

from __future__ import annotations

import os

from tao_sdk.runner.outputs.tree import mark_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.runner.outputs.tree import Mark, Shape, Tree
    from tao_sdk.runner.report import Report


class OlderFiles:
    """The marks of older files in the outputs `sources`, by absolute path. A file there that has no
    mark is older if it last changed before the time `unnoted_before`.
    """

    def __init__(
        self, sources: list[str], marks: dict[str, Mark], unnoted_before: float = 0.0
    ) -> None:
        self.marks, self.unnoted_before = marks, unnoted_before
        self.counts = dict.fromkeys(sources, 0)  # output -> its older files at the last look

    def holds(self, path: str, mark: Mark) -> bool:
        """True if the file was there before the command began, and is unchanged since."""
        if path in self.marks:
            return self.marks[path] == mark
        return mark[2] < self.unnoted_before * 1e9

    def own_files(self, source: str, tree: Tree) -> dict[str, Shape]:
        """The files of a folder that are this job's, by their paths below it."""
        if source not in self.counts:
            return tree.files
        own = {
            path: shape
            for path, shape in tree.files.items()
            if not self.holds(os.path.join(source, path), tree.marks[path])
        }
        self.counts[source] = len(tree.files) - len(own)
        return own

    def owns_file(self, source: str) -> bool:
        """True if a file that is an output by itself is this job's, or is gone."""
        if source not in self.counts:
            return True
        try:
            self.counts[source] = int(self.holds(source, mark_of(os.stat(source))))
        except OSError:
            return True
        return not self.counts[source]

    def tell_left_out(self, report: Report) -> None:
        """Warn about the older files that the outputs still have."""
        for source, count in self.counts.items():
            if count:
                report.queue_event("warning", **older_left_out(source, count))


def older_left_out(source: str, count: int) -> dict[str, str]:
    """The warning about older files of one output."""
    files, are, were = ("1 file", "is", "was") if count == 1 else (f"{count} files", "are", "were")
    return {
        "code": "output.older",
        "what": f"{files} of {source} {are} older than the job and {were} left out.",
        "why": "What is unchanged since before the command began is no result of it.",
        "next": "",
    }
