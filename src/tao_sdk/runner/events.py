"""Read events in the client: take the runner's lines out of a job's output, and return the
command's bytes exactly.

A line `@tao {json}` on stderr is an event. report.py writes events, and explains how one follows an
unfinished line. Each has `event` and `time` (unix seconds), and depending on its name:

    stage    stage: files, inputs, spec, command, outputs, done
    fetched  what, bytes, seconds, rate (bytes a second)
    transfer stage, what, bytes, total_bytes, files, total_files, rate, eta (seconds; -1: unknown):
             the progress of a transfer
    sent     what, bytes, files, seconds, rate: the results that went to a bucket at the end
    waiting  what: an input that another job or rank is fetching already; or host: a server
             (host:port) that does not answer and is retried
    resumed  path: the checkpoint from which the command resumes
    warning  code, what, why, next
    failed   code, what, why, next, and host if one server is at fault: the runner failed; this
             event decides, not the exit code
    ended    exit_code (128 + n for signal n), signal (0 for none), seconds: how the command ended

Only the client uses this module; it is not packed into the job.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from tao_sdk.runner.report import LONGEST, PREFIX, SEAM

START = PREFIX + b"{"
LARGEST = 1e18  # no size, count or time in the runner's events is larger
NUMBERS = frozenset(
    {
        "bytes",
        "total_bytes",
        "files",
        "total_files",
        "rate",
        "eta",
        "seconds",
        "exit_code",
        "signal",
    }
)
TEXTS = frozenset({"stage", "what", "why", "next", "code", "path", "host"})
LISTS = frozenset({"paths"})


@dataclass(frozen=True)
class Event:
    """One event of the runner. `facts` are its other fields."""

    name: str
    time: float
    facts: dict[str, Any]
    joined: bool = False  # it followed a line that the command had not finished


def parse_event(line: bytes) -> Event | None:
    """Parse a line, with or without its newline, as an event; None if it only looks like one.

    A command can print such lines itself, so every field must be one that an event can have.
    """
    if not line.startswith(START) or len(line) > LONGEST:
        return None
    try:
        facts = json.loads(line[len(PREFIX) :])
    except (ValueError, RecursionError):
        return None
    if not isinstance(facts, dict):
        return None
    return make_event(cast("dict[str, Any]", facts))


def make_event(facts: dict[str, Any]) -> Event | None:
    """The event of such facts; None if the runner would not write them: then the line is the
    command's own.
    """
    name, time = facts.pop("event", None), facts.pop("time", None)
    if not isinstance(name, str) or not is_number(time):
        return None
    if not all(is_fact(key, value) for key, value in facts.items()):
        return None
    joined = facts.pop("joined", False) is True
    return Event(name, float(time), facts, joined)


def is_fact(name: str, value: object) -> bool:
    """True if the runner could write such a value under this name."""
    if value is None:
        return True
    if name in NUMBERS:
        return is_number(value)
    if name in TEXTS:
        return isinstance(value, str)
    if name in LISTS:
        return is_list_of_texts(value)
    return isinstance(value, (str, bool)) or is_number(value) or is_list_of_texts(value)


def is_number(value: object) -> bool:
    """True for a number of at most LARGEST, which can be shown and added up. False for NaN, which
    is not smaller than anything.
    """
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST


def is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, str) for item in cast("list[object]", value)
    )


class EventFilter:
    """Splits a stream, fed in chunks of any size, into the command's bytes and the runner's events.

    It holds back only bytes that may still become an event, at most 16 KB. So a follower sees every
    other byte at once.
    """

    def __init__(self) -> None:
        self.held = b""
        self.fresh = True  # the stream is at the start of a line where `held` begins

    def feed(self, chunk: bytes) -> tuple[bytes, list[Event]]:
        """Take a chunk. Return the command's bytes, and the events that the chunk completes."""
        data = self.held + chunk
        out: list[bytes] = []
        events: list[Event] = []
        done = 0  # everything before it is processed
        at = self.next_start(data, 0)
        while at >= 0:
            end = data.find(b"\n", at) + 1
            if not end and len(data) - at <= LONGEST:
                break
            event = parse_event(data[at:end]) if end else None
            if event:
                seam = event.joined and data.endswith(SEAM, done, at)
                out.append(data[done : at - len(SEAM) if seam else at])
                events.append(event)
                done = end
            at = self.next_start(data, end or at + 1)
        keep = self.keep_from(data, done, at)
        out.append(data[done:keep])
        if keep:
            self.fresh = data[keep - 1 : keep] == b"\n"
        self.held = data[keep:]
        return b"".join(out), events

    def close(self) -> bytes:
        """Return the bytes that were held back and did not become an event."""
        rest, self.held = self.held, b""
        return rest

    def next_start(self, data: bytes, at: int) -> int:
        """The start of the next line that begins like an event; -1 if there is none."""
        at = data.find(START, at)
        while at > 0 and data[at - 1 : at] != b"\n":
            at = data.find(START, at + 1)
        if at != 0 or self.fresh:
            return at
        return self.next_start(data, 1)

    def keep_from(self, data: bytes, done: int, at: int) -> int:
        """The offset from which data must be held back: an incomplete event, or an end that may be
        the start of one.
        """
        if at >= 0:
            if data.endswith(SEAM, done, at):
                return at - len(SEAM)
            return at
        opening = SEAM + START
        for length in range(min(len(opening) - 1, len(data) - done), 0, -1):
            if data.endswith(opening[:length], done):
                return len(data) - length
        for length in range(min(len(START) - 1, len(data) - done), 0, -1):
            first = len(data) - length
            if data.endswith(START[:length]) and (
                data[first - 1 : first] == b"\n" if first else self.fresh
            ):
                return first
        return len(data)
