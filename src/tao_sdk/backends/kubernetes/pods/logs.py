"""Reading the log of one rank: from a cursor, from its last lines, and on until it has ended. Flat
memory.

A cursor is `SECOND=COUNT,... BYTES`: how many lines of each of the last seconds have been read, and
how many bytes of the line after them. The API serves lines from a second on, and nothing finer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

from tao_sdk.backends.contract import LogChunk, LogRequest
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.look import core_path, get
from tao_sdk.model.errors import PathNotFound, TaoError, Unreachable
from tao_sdk.transports.kube import Kube, KubeError

FOLLOW_SECONDS = 30.0  # of silence, after which the log is asked for anew
PAUSE = 0.5  # seconds between an answer's end and the next question, while the container lives
BLOCK = 64 * 1024
LONGEST_HELD = 256 * 1024  # bytes of an unfinished line
KEPT_SECONDS = 3  # whose lines are counted one by one: late lines may be older than those before
STAMP = len("2026-01-01T00:00:00")
NOT_STARTED = 400
FAILURES = 5  # broken answers in a row, after which the reader is told


@dataclass
class Position:
    """How far a log has been read."""

    counts: dict[str, int] = field(default_factory=dict[str, int])  # second -> lines read of it
    held: int = 0  # bytes of the next line that were read

    @classmethod
    def parse(cls, cursor: str) -> Position:
        """The position that `cursor` wrote; the start for anything else."""
        seconds, _, held = cursor.partition(" ")
        pairs = [each.rpartition("=") for each in seconds.split(",")]
        known = all(len(second) == STAMP and count.isdigit() for second, _, count in pairs)
        if not known or not held.isdigit():
            return cls()
        return cls({second: int(count) for second, _, count in pairs}, int(held))

    @property
    def cursor(self) -> str:
        counts = ",".join(f"{second}={count}" for second, count in self.counts.items())
        return f"{counts} {self.held}" if counts else ""

    @property
    def since(self) -> str:
        """The second from which on the log has to be asked for; "" for all of it."""
        return min(self.counts, default="")

    @property
    def lines(self) -> int:
        """How many lines from that second on were read."""
        return sum(self.counts.values())

    def pass_line(self, second: str) -> None:
        """One more line was read to its end."""
        self.held = 0
        if second in self.counts:
            self.counts[second] += 1
            return
        self.counts[second] = 1
        while len(self.counts) > KEPT_SECONDS:
            del self.counts[min(self.counts)]

    def pass_bytes(self, second: str, held: int) -> None:
        """Some bytes of the next line were read."""
        self.held = held
        self.counts.setdefault(second, 0)


class Lines:
    """The lines of what the API sends, without their times; what was read is left out."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self.skip = position.lines  # lines that the answer repeats
        self.rest = b""  # of a line that has not ended
        self.stamp = ""  # of a long line that has not ended
        self.passed = 0  # bytes of that line that were seen

    def feed(self, data: bytes) -> bytes:
        """What is new in it."""
        whole, newline, self.rest = (self.rest + data).rpartition(b"\n")
        new = [self._end_line(line) for line in whole.split(b"\n")] if newline else []
        if len(self.rest) > LONGEST_HELD:
            new.append(self.close())
        return b"".join(new)

    def close(self) -> bytes:
        """What there is of a line that has not ended."""
        text, self.rest = self._text(self.rest), b""
        if not self.stamp:
            return b""
        before = self.passed
        self.passed += len(text)
        if self.skip:
            return b""
        known = self.position.held
        self.position.pass_bytes(self.stamp, max(known, self.passed))
        return text[max(known - before, 0) :]

    def _end_line(self, line: bytes) -> bytes:
        text = self._text(line)
        second, before = self.stamp, self.passed
        self.stamp, self.passed = "", 0
        if self.skip:
            self.skip -= 1
            return b""
        known = self.position.held
        self.position.pass_line(second)
        return (text[max(known - before, 0) :] if known else text) + b"\n"

    def _text(self, line: bytes) -> bytes:
        """The line without its time, which is kept until the line has ended."""
        if self.stamp:
            return line
        stamp, space, text = line.partition(b" ")
        if space:
            self.stamp = stamp[:STAMP].decode("ascii", "replace")
        return text


@dataclass(frozen=True)
class PodLog:
    """The log of one pod. `has_ended` looks whether more can come."""

    kube: Kube
    namespace: str
    pod: str
    has_ended: Callable[[], bool]

    def read(self, request: LogRequest) -> Iterator[LogChunk]:
        position = Position.parse(request.cursor)
        if request.tail is not None:
            with told_as_broken():
                yield from self._read_tail(position, request.tail)
            if not request.follow:
                return
        failures = 0
        while True:
            over = not request.follow or self.has_ended()
            try:
                yield from self._read_once(position, request.follow and not over)
                failures = 0
            except TaoError:  # some are OSErrors as well
                raise
            except (OSError, HTTPException) as error:
                failures += not isinstance(error, TimeoutError)
                if failures >= FAILURES or not request.follow:
                    raise broken(error) from error
                over = False
            if over:
                return
            time.sleep(PAUSE)

    def is_there(self) -> bool:
        return get(self.kube, core_path(self.namespace, "pods", self.pod)) is not None

    def _read_tail(self, position: Position, tail: int) -> Iterator[LogChunk]:
        """The last lines. All lines since the first of them are counted: a later question repeats
        those of its whole second.
        """
        last = b"".join(self._blocks({"tailLines": max(tail, 1)}))
        if not last:
            return
        position.counts[last[:STAMP].decode("ascii", "replace")] = 0
        lines, kept = Lines(position), deque[bytes](maxlen=tail)
        lines.skip = 0
        for data in self._blocks({"sinceTime": f"{position.since}Z"}):
            kept.extend(lines.feed(data).splitlines(keepends=True))
        kept.extend(lines.close().splitlines(keepends=True))
        if kept:
            yield LogChunk(b"".join(kept), position.cursor)

    def _read_once(self, position: Position, follow: bool) -> Iterator[LogChunk]:
        lines = Lines(position)
        asked = {
            "follow": "true" if follow else None,
            "sinceTime": f"{position.since}Z" if position.since else None,
        }
        for data in self._blocks(asked):
            if new := lines.feed(data):
                yield LogChunk(new, position.cursor)
        if new := lines.close():
            yield LogChunk(new, position.cursor)

    def _blocks(self, asked: Mapping[str, Any]) -> Iterator[bytes]:
        """What the API sends of the log; nothing while the container has not started."""
        params = {"container": names.CONTAINER, "timestamps": "true", **asked}
        try:
            answer = self.kube.stream(log_path(self.namespace, self.pod), params, FOLLOW_SECONDS)
        except KubeError as error:
            if error.status == NOT_STARTED:
                return
            if error.status == 404 and self.is_there():  # its node does not know it yet
                return
            if error.status == 404:
                raise PathNotFound(f"The pod {self.pod} is gone, and its log with it.") from error
            raise
        try:
            while data := answer.response.read1(BLOCK):
                yield data
        finally:
            answer.close()


@contextmanager
def told_as_broken() -> Generator[None]:
    """A connection that breaks becomes Unreachable."""
    try:
        yield
    except TaoError:
        raise
    except (OSError, HTTPException) as error:
        raise broken(error) from error


def broken(error: Exception) -> Unreachable:
    return Unreachable("The log broke off.", str(error), "Try again.")


def log_path(namespace: str, pod: str) -> str:
    return f"{core_path(namespace, 'pods', pod)}/log"
