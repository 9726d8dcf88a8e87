"""Scene: the known state of a running job, for every door that shows one. Pure: bytes and jobs in,
facts out.

Not here: where the bytes come from (following.py) and how it is drawn (cli/screen.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tao_sdk.model.errors import join_sentences
from tao_sdk.model.job import Job
from tao_sdk.model.pace import Pace
from tao_sdk.model.printable import printable
from tao_sdk.model.progress import Progress, richer_progress
from tao_sdk.model.progress_lines import ProgressLines
from tao_sdk.model.progress_reader import ProgressReader
from tao_sdk.model.units import format_clock, format_size
from tao_sdk.runner.events import Event, EventFilter

STAGES = ("files", "inputs", "command", "outputs")  # the runner's stages that are shown
TAIL = 6  # last lines of the log that are kept to be shown
MOST_LINES = 40  # the program's own lines that wait to be shown
# the end of a piece of the log, where the program's own lines are searched
SEARCHED_BYTES = 64 * 1024
LONGEST_LINE = 2000  # bytes of an unfinished line that are kept
SHOWN_PATHS = 3  # shown for a warning

Facts = Mapping[str, Any]  # the facts of an event


@dataclass
class Scene:
    """The known state of a running job. `take_log` takes its log as it comes, event lines included.

    Times (`at`, `began_at`, `epoch_at`, `read_at`) are seconds by one steady clock of the caller's.
    """

    job: Job
    # the stage -> its size, once known
    stages: dict[str, str] = field(default_factory=dict[str, str])
    stage: str = ""  # the one that is under way
    # the stage -> how far its transfer is
    transfers: dict[str, str] = field(default_factory=dict[str, str])
    server_wait: str = ""  # says which server does not answer
    warnings: list[str] = field(default_factory=list[str])
    log_tail: deque[str] = field(default_factory=lambda: deque[str](maxlen=TAIL))
    # lines of the program that are no progress and were not taken yet
    own_lines: deque[str] = field(default_factory=lambda: deque[str](maxlen=MOST_LINES))
    # the last of them that the reader was shown beside the progress
    shown_lines: deque[str] = field(default_factory=lambda: deque[str](maxlen=TAIL))
    has_left_out: bool = False  # lines of the program that nobody will be shown
    attempt: int = field(init=False)
    began_at: float = 0.0
    epoch_at: float = 0.0  # when the log last spoke of an epoch, and so of the time left
    pace: Pace = field(default_factory=Pace)  # when epochs came, by the same clock
    read_at: float = 0.0  # when `job.progress` was read, and so its time left
    _events: EventFilter = field(default_factory=EventFilter)
    _reader: ProgressReader = field(default_factory=ProgressReader)
    _open_line: bytes = b""
    _tail_size: int = 0  # lines that the attempt has printed
    _progress_lines: ProgressLines = field(default_factory=ProgressLines)

    def __post_init__(self) -> None:
        self.attempt = self.job.attempt

    @property
    def progress(self) -> Progress:
        """The progress of the current attempt. Progress that was read of an earlier attempt does
        not count.
        """
        if self.job.reading.attempt not in (0, self.attempt):
            return self._reader.progress
        return richer_progress(self._reader.progress, self.job.progress)

    @property
    def hears_epochs(self) -> bool:
        """True if the log reports epochs. If not, the job's status file may."""
        return self._reader.progress.epoch > 0

    def is_overdue(self, at: float) -> bool:
        """True if the next epoch takes so much longer than the earlier ones that the program may
        hang.
        """
        return self.pace.is_overdue(self.began_at, at)

    def take_log(
        self, chunk: bytes, at: float | None = None, is_live: bool = True
    ) -> list[Progress]:
        """Take a piece of the log. Return a Progress for each epoch in it. If the piece is not
        live, the time of its writing is unknown.
        """
        own, events = self._events.feed(chunk)
        for event in events:
            self._take_event(event)
        self._keep_tail(own)
        epochs = self._reader.feed(own, at if is_live else None)
        if epochs and at is not None:
            self.epoch_at = at
            self.pace = self.pace.add_look(self._reader.progress.epoch, at)
        return epochs

    def end_log(self, at: float | None = None) -> list[Progress]:
        """No more of the log will come."""
        own = self._events.close() + b"\n"
        self._keep_tail(own)
        return self._reader.feed(own, at)

    def take_job(self, job: Job) -> list[Progress]:
        """Take the newest state of the job. Return the Progress that the log has not reported. A
        new attempt begins anew.
        """
        if job.attempt != self.job.attempt:
            self._begin_attempt(job.attempt)
        before, self.job = self.progress, job
        if self.hears_epochs or self.progress.epoch <= before.epoch:
            return []
        return [self.progress]

    def _begin_attempt(self, attempt: int) -> None:
        self.stages, self.transfers = {}, {}
        self.server_wait, self.stage = "", ""
        self._tail_size = len(self.log_tail)
        self._reader, self.epoch_at, self.pace = ProgressReader(), 0.0, Pace()
        self.attempt = attempt

    def _take_event(self, event: Event) -> None:
        self.server_wait = ""  # whatever comes after it
        take = ON_EVENT.get(event.name)
        if take:
            take(self, event.facts)

    def enter_stage(self, facts: Facts) -> None:
        self.stage = str(facts.get("stage"))
        if self.stage == "files":  # the first of an attempt
            self.stages.clear()
        if self.stage in STAGES and self._has_work(self.stage):
            self.stages.setdefault(self.stage, "")

    def _has_work(self, stage: str) -> bool:
        return stage == "command" or bool(self.job.spec.get(stage))

    def end_transfer(self, facts: Facts) -> None:
        """End the transfer of a stage, and note its size. An unknown stage is ignored."""
        stage, size = str(facts.get("what")), format_size(float(facts.get("bytes") or 0))
        if stage in STAGES:
            self.stages[stage] = size
            self.transfers.pop(stage, None)

    def move_transfer(self, facts: Facts) -> None:
        if facts.get("stage") in STAGES:
            self.transfers[str(facts["stage"])] = transfer_words(facts)

    def begin_wait(self, facts: Facts) -> None:
        """Note a wait for a server, or for another job that fetches the same input."""
        if "host" not in facts:
            what = printable(str(facts.get("what")))
            self.transfers["inputs"] = f"waiting for another job that fetches {what}"
        elif self.stage != "command":
            self.server_wait = f"waiting for {printable(str(facts['host']))}, which does not answer"

    def keep_warning(self, facts: Facts) -> None:
        self.warnings.append(warning_words(facts))

    @property
    def outgrew_tail(self) -> bool:
        """True if the program has printed more lines than `log_tail` has."""
        return self._tail_size > len(self.log_tail)

    @property
    def showed_tail(self) -> bool:
        """True if the reader was shown the last lines of the log, as they came."""
        tail = [line for line in self.log_tail if not self._progress_lines.has(line.encode())]
        return bool(tail) and list(self.shown_lines)[-len(tail) :] == tail

    def take_own_lines(self) -> list[str]:
        """Take the program's lines that report no progress, each once. If they are very many, the
        last ones.
        """
        lines = list(self.own_lines)
        self.own_lines.clear()
        return lines

    def _keep_tail(self, data: bytes) -> None:
        unread = (self._open_line + data).replace(b"\r\n", b"\n")
        *whole, open_line = unread.replace(b"\r", b"\n").split(b"\n")
        lines = readable_lines(whole[-TAIL * 4 :])
        self._tail_size += len(lines) + max(len(whole) - TAIL * 4, 0)
        self.log_tail.extend(lines)
        self._keep_own_lines(unread[: len(unread) - len(open_line)])
        self._open_line = open_line[-LONGEST_LINE:]

    def _keep_own_lines(self, text: bytes) -> None:
        """Keep the program's own lines. If a line was drawn over many times, as a progress bar is,
        keep its last state.
        """
        looked_at = text[-SEARCHED_BYTES:]
        *whole, _ = looked_at.split(b"\n")
        final = (line.rpartition(b"\r")[2] for line in whole)
        own = readable_lines([line for line in final if not self._progress_lines.has(line)])
        too_many = len(self.own_lines) + len(own) > MOST_LINES
        if too_many or len(text) > SEARCHED_BYTES:
            self.has_left_out = True
        self.own_lines.extend(own)


def readable_lines(lines: Sequence[bytes]) -> list[str]:
    """The lines as text without escape codes. Empty lines are left out."""
    texts = (line.decode("utf-8", "replace").rstrip() for line in lines)
    return [printable(text) for text in texts if text]


# The event's name -> what the scene does with its facts. Others change nothing.
ON_EVENT: Mapping[str, Callable[[Scene, Facts], None]] = {
    "stage": Scene.enter_stage,
    "fetched": Scene.end_transfer,
    "sent": Scene.end_transfer,
    "transfer": Scene.move_transfer,
    "waiting": Scene.begin_wait,
    "warning": Scene.keep_warning,
    "failed": Scene.keep_warning,
}


def warning_words(facts: Facts) -> str:
    """The warning's what, why and next, with the first of the paths that it names."""
    parts = [str(facts.get(part) or "") for part in ("what", "why", "next")]
    return printable(
        join_sentences(*parts, path_words([str(path) for path in facts.get("paths") or ()]))
    )


def path_words(paths: Sequence[str]) -> str:
    """`a; b; c; and 2 more`."""
    named = "; ".join(paths[:SHOWN_PATHS])
    more = len(paths) - SHOWN_PATHS
    if more > 0:
        return f"{named}; and {more} more"
    return named


def transfer_words(facts: Facts) -> str:
    """`1.2 GB of 4.0 GB  85.0 MB/s  ETA 0:33`, as far as it is known."""
    total, seconds_left = facts.get("total_bytes") or 0, facts.get("eta")
    done = format_size(facts.get("bytes") or 0)
    words = [f"{done} of {format_size(total)}" if total > 0 else done]
    if facts.get("rate"):
        words.append(f"{format_size(facts['rate'])}/s")
    if seconds_left is not None and seconds_left >= 0:
        words.append(f"ETA {format_clock(seconds_left)}")
    return "  ".join(words)
