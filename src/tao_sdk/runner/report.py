"""What the runner tells: one line of JSON an event, on stderr, among the command's own bytes.

An event is `@tao {...}` and a newline, at the start of a line. The command's stdout and stderr are
one stream. If that does not end in a newline, we write a record separator and a newline first, and
the event says `"joined": true`: so events.py can give the command's bytes back exactly. No event
holds the command line, an environment value or anything else that may be secret.
"""

from __future__ import annotations

import os
import time

from tao_sdk.runner.jsontext import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tao_sdk.net.failure import Failure

    Value = str | int | float | bool | None | list[str]

# when the runner itself failed; the event "failed" says so, the number may be the command's too
OWN_FAILURE = 125
PREFIX = b"@tao "
SEAM = b"\x1e\n"  # our newline after a line that the command left open
TEXTS = ("failed", "warning")  # events that quote what a server said, which may be what we sent it
SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD")  # in the names of variables
SHORTEST_SECRET = 6  # characters; a shorter value occurs in ordinary text
LONGEST = 16_000  # bytes of one event, so that a reader never has to hold more


class Stopped(BaseException):
    """A signal arrived before the command was started."""

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = signal


def encode_event(event: str, facts: dict[str, Value]) -> bytes:
    """The line of one event, its newline included. A text too long for one line is cut."""
    line = PREFIX + dumps({"event": event, "time": round(time.time(), 3), **facts}).encode() + b"\n"
    if len(line) <= LONGEST:
        return line
    return encode_event(event, {key: shorten_value(value) for key, value in facts.items()})


def shorten_value(value: Value) -> Value:
    if isinstance(value, list):
        return value[:20]
    if isinstance(value, str) and len(value) > 1000:
        return value[:1000] + "…"
    return value


def secrets_of(env: Mapping[str, str]) -> list[str]:
    """The values that no event may quote, the longest first."""
    values = {value.strip() for name, value in env.items() if is_secret(name)}
    return sorted(
        (secret for secret in values if len(secret) >= SHORTEST_SECRET), key=len, reverse=True
    )


def is_secret(name: str) -> bool:
    return any(word in name.upper() for word in SECRET_WORDS)


def write_all(fd: int, data: bytes) -> bool:
    """Write every byte, waiting where the reader is slow. False when nobody reads any more."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        return False
    return True


class Report:
    """The runner's own voice. It knows how the command's last line ended, so that events start a
    line of their own.
    """

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self.secrets = secrets
        self.one_stream = os.path.sameopenfile(1, 2)
        self.open_lines = {1: False, 2: False}  # the stream -> whether its last byte was no newline
        self.alone = True  # no command runs whose line an event could break
        self.later: list[tuple[str, dict[str, Value]]] = []

    def relay_bytes(self, fd: int, data: bytes) -> bool:
        """Pass the command's bytes on, unchanged; False when the stream is gone."""
        if data:
            self.open_lines[2 if self.one_stream else fd] = not data.endswith(b"\n")
        return write_all(fd, data)

    def tell_event(self, event: str, **facts: Value) -> None:
        """Tell an event now, on a line of its own."""
        if event in TEXTS:
            facts = {name: self.without_secrets(value) for name, value in facts.items()}
        line = encode_event(event, facts)
        if any(self.open_lines.values()):
            line = SEAM + encode_event(event, {**facts, "joined": True})
            self.open_lines[2] = False
        write_all(2, line)

    def without_secrets(self, value: Value) -> Value:
        if isinstance(value, str):
            for secret in self.secrets:
                value = value.replace(secret, "***")
        return value

    def queue_event(self, event: str, **facts: Value) -> None:
        """Tell an event when the command's line is whole; safe from any thread."""
        if self.alone:
            self.tell_event(event, **facts)
        else:
            self.later.append((event, facts))

    def tell_queued(self) -> None:
        """Tell what was queued, unless the command is in the middle of a line of this stream."""
        while self.later and not self.open_lines[2]:
            event, facts = self.later.pop(0)
            self.tell_event(event, **facts)

    def tell_stage(self, name: str) -> None:
        self.tell_event("stage", stage=name)

    def warn(self, code: str, what: str, why: str = "", next: str = "") -> None:
        self.tell_event("warning", code=code, what=what, why=why, next=next)

    def log_warning(self, text: str) -> None:
        """A line of the log, which people read without the events."""
        write_all(
            2,
            b"\n" * any(self.open_lines.values())
            + b"WARNING: %s\n" % text.encode("utf-8", "backslashreplace"),
        )
        self.open_lines[2] = False

    def tell_failure(self, failure: Failure) -> None:
        self.tell_event("failed", **failure.facts)
