"""LogReading: the content of a job's log and status file until now, and where reading continues.
The store has it.

Not here: what a reading says to people (Progress, in model/progress.py), and the reader
(engine/progress.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from tao_sdk.model.clock import from_iso, to_iso
from tao_sdk.model.pace import Pace
from tao_sdk.model.progress import Progress


class FilePlace(NamedTuple):
    """A file, and the number of bytes of it that were read."""

    path: str = ""
    offset: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "offset": self.offset}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FilePlace:
        return cls(str(data.get("path", "")), int(data.get("offset", 0)))


@dataclass(frozen=True)
class LogReading:
    """The progress in one attempt's log and status file, and how far they were read."""

    log_progress: Progress = field(default_factory=Progress)
    # of the status file; counts while the log names no epoch
    file_progress: Progress = field(default_factory=Progress)
    reported_epoch: int = 0  # the newest epoch for which there is an event
    attempt: int = 0  # 0: nothing was read yet
    cursor: str = ""  # the backend's cursor behind the part that was read
    rest: bytes = b""  # the start of the line at which the log then ended
    as_of: datetime | None = None  # when the log was last read to its end
    whole: bool = True  # nothing more can come
    pace: Pace = field(default_factory=Pace)
    status_file: FilePlace = field(default_factory=FilePlace)
    saving: bool = False  # the command is over, and its outputs are on their way

    @property
    def progress(self) -> Progress:
        """The log's progress, or the status file's while the log names no epoch. The order of
        reading does not matter.
        """
        by_file = self.file_progress.epoch and not self.log_progress.epoch
        return replace(self.file_progress if by_file else self.log_progress, as_of=self.as_of)

    def to_json(self) -> dict[str, Any]:
        """The record for the store; {} before anything was read."""
        if self == UNREAD:
            return {}
        return {
            **self.log_progress.to_json(),
            "file_progress": self.file_progress.to_json()
            if self.file_progress != UNREAD.file_progress
            else {},
            "reported_epoch": self.reported_epoch,
            "attempt": self.attempt,
            "cursor": self.cursor,
            "rest": self.rest.hex(),
            "as_of": to_iso(self.as_of),
            "whole": self.whole,
            "pace": self.pace.to_json(),
            "status_file": self.status_file.to_json(),
            "saving": self.saving,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LogReading:
        """Read the output of `to_json`, of this or an earlier version. A missing value has its
        default.
        """
        if not data:
            return UNREAD
        status_file = FilePlace.from_json(data.get("status_file") or {})
        by_log, by_file = _progress_by_source(data, status_file)
        return cls(
            by_log,
            by_file,
            data.get("reported_epoch", data.get("epoch", 0)),
            data.get("attempt", 0),
            str(data.get("cursor", "")),
            bytes.fromhex(str(data.get("rest", ""))),
            from_iso(data.get("as_of")),
            data.get("whole", True),
            Pace.from_json(data.get("pace")),
            status_file,
            bool(data.get("saving")),
        )


def _progress_by_source(
    data: Mapping[str, Any], status_file: FilePlace
) -> tuple[Progress, Progress]:
    """Return (the log's progress, the status file's). Earlier versions put both into one, once the
    file was read.
    """
    progress = Progress.undated(data)
    by_file = data.get("file_progress")
    if by_file:
        return progress, Progress.undated(by_file)
    if by_file is None and status_file.path:
        return NO_PROGRESS, progress
    return progress, NO_PROGRESS


NO_PROGRESS = Progress()
UNREAD = LogReading(NO_PROGRESS, NO_PROGRESS)
