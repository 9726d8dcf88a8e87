"""Write the runner's events: one line of JSON each, on stderr, among the command's own output.

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

# exit code if the runner itself failed; the event "failed" decides: a command may use it too
OWN_FAILURE = 125
PREFIX = b"@tao "
SEAM = b"\x1e\n"  # our newline after a line that the command has not finished
TEXTS = ("failed", "warning")  # events that quote servers, which may repeat what we sent
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
    """Write every byte, and wait for a slow reader. False if nobody reads any more."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        return False
    return True


class Report:
    """Writes events and warnings. It tracks unfinished lines of the command, so that each event
    starts on its own line.
    """

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self.secrets = secrets
        self.one_stream = os.path.sameopenfile(1, 2)
        self.open_lines = {1: False, 2: False}  # stream -> True if its last byte is no newline
        self.alone = True  # no command runs whose line an event could break
        self.later: list[tuple[str, dict[str, Value]]] = []

    def relay_bytes(self, fd: int, data: bytes) -> bool:
        """Pass the command's bytes on, unchanged; False when the stream is gone."""
        if data:
            self.open_lines[2 if self.one_stream else fd] = not data.endswith(b"\n")
        return write_all(fd, data)

    def tell_event(self, event: str, **facts: Value) -> None:
        """Write an event now, on its own line."""
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
        """Write an event once the command's line is finished. Thread-safe."""
        if self.alone:
            self.tell_event(event, **facts)
        else:
            self.later.append((event, facts))

    def tell_queued(self) -> None:
        """Write the queued events, unless the command has an unfinished line on stderr."""
        while self.later and not self.open_lines[2]:
            event, facts = self.later.pop(0)
            self.tell_event(event, **facts)

    def tell_stage(self, name: str) -> None:
        self.tell_event("stage", stage=name)

    def warn(self, code: str, what: str, why: str = "", next: str = "") -> None:
        self.tell_event("warning", code=code, what=what, why=why, next=next)

    def log_warning(self, text: str) -> None:
        """Write a warning as a plain line of the log, for people who read it without events."""
        write_all(
            2,
            b"\n" * any(self.open_lines.values())
            + b"WARNING: %s\n" % text.encode("utf-8", "backslashreplace"),
        )
        self.open_lines[2] = False

    def tell_failure(self, failure: Failure) -> None:
        self.tell_event("failed", **failure.facts)
