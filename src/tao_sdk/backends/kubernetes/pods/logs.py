"""Read the log of one rank: from a cursor, or its last lines, and on until it ends. Flat memory.

A cursor is `FIRST=COUNT,... BYTES LAST`. FIRST=COUNT, for each of the last seconds: the time of the
second's first line, and the number of lines read. BYTES: the bytes read of the line after them.
LAST: the time of the last line.

The API serves lines from a given second on, nothing finer, and only from the newest file of a log.
If the first counted line is missing from its answer, the log was rotated. Then the time of the last
line separates old lines from new ones.
"""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPException
from typing import Any

from tao_sdk.backends.contract import LogChunk, LogRequest
from tao_sdk.backends.kubernetes import parse
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.look import core_path, get
from tao_sdk.model.errors import PathNotFound, TaoError, Unreachable
from tao_sdk.transports.kube import READ_SECONDS, Kube, KubeError

FOLLOW_SECONDS = 30.0  # of silence; then the log is requested again
PAUSE = 0.5  # seconds between an answer's end and the next request, while the container lives
BLOCK = 64 * 1024
LONGEST_HELD = 256 * 1024  # bytes of an unfinished line
LATE_SECONDS = (
    60.0  # from the container's start to a log's first line; beyond it, lines may be rotated away
)
KEPT_SECONDS = 3  # seconds whose lines a cursor counts: a late line may be older than those before
STAMP = len("2026-01-01T00:00:00")
LONGEST_TIME = len("2026-01-01T00:00:00.123456789+00:00")
# A kubelet answers 400 for any obstacle to a log, and 404 while it does not know the pod.
EARLY = (400, 404)
LOST = "is terminated"  # a kubelet's words for a container without a log
REMOVED = "unable to retrieve container logs"  # ... for a container that it has removed
NO_FILE = "no such file or directory"  # ... for a container whose log it has removed
# A line of the log begins with its time. The kubelet's own error messages between them have none.
TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
TIMES = re.compile(rb"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,16}) ", re.MULTILINE)
ELSEWHERE = "What the job wrote to its results is still there."
LONGEST_TROUBLE = 500  # bytes of a kubelet's error message to show
ROTATED = b"tao: the cluster rotated this log here; lines before the next one may be missing\n"
BEGINS_LATE = (
    "tao: this log begins {seconds:.0f} s after the start of rank {rank}: of a long log the "
    "cluster keeps the newest part alone\n"
)
FAILURES = 5  # broken answers in a row before the reader gets an error


@dataclass
class Position:
    """The position up to which a log has been read."""

    counts: dict[str, int] = field(default_factory=dict[str, int])  # second -> lines read of it
    held: int = 0  # bytes read of the next line
    # second -> its first line's time
    firsts: dict[str, str] = field(default_factory=dict[str, str])
    last: str = ""  # the time of the last line that was read at least in part

    @classmethod
    def parse(cls, cursor: str) -> Position:
        """Parse a cursor from `cursor`; the start of the log for any other text."""
        seconds, held, last = (*cursor.split(" "), "", "")[:3]
        pairs = [each.rpartition("=") for each in seconds.split(",")]
        known = all(len(first) >= STAMP and count.isdigit() for first, _, count in pairs)
        if not known or not held.isdigit():
            return cls()
        counts = {first[:STAMP]: int(count) for first, _, count in pairs}
        firsts = {first[:STAMP]: first for first, _, _ in pairs if len(first) > STAMP}
        return cls(counts, int(held), firsts, last)

    @property
    def cursor(self) -> str:
        read = [f"{self.firsts.get(each, each)}={count}" for each, count in self.counts.items()]
        return f"{','.join(read)} {self.held} {self.last}".rstrip() if read else ""

    @property
    def since(self) -> str:
        """The second from which to request the log; "" for all of it."""
        return min(self.counts, default="")

    @property
    def since_time(self) -> str:
        """`since` as the API accepts it, in the time zone of the log's node."""
        return f"{self.since}{zone_of(self.last)}" if self.since else ""

    @property
    def lines(self) -> int:
        """The number of lines read from that second on."""
        return sum(self.counts.values())

    @property
    def first(self) -> str:
        """The time of the first of these lines; "" if it is not known."""
        return self.firsts.get(next(iter(self.counts), ""), "")

    def pass_line(self, time: str) -> None:
        """Count one more line, read to its end."""
        self.pass_lines(time, time, 1)

    def pass_lines(self, first: str, last: str, count: int) -> None:
        """Count more lines of one second, read to their ends. `first`: the time of the first of
        them. `last`: the time of the last line read.
        """
        second = first[:STAMP]
        self.held, self.last = 0, last
        if not self.counts.get(second):
            self.firsts[second] = first
        if second in self.counts:
            self.counts[second] += count
            return
        self.counts[second] = count
        while len(self.counts) > KEPT_SECONDS:
            oldest = min(self.counts)
            del self.counts[oldest]
            self.firsts.pop(oldest, None)

    def pass_bytes(self, time: str, held: int) -> None:
        """Note that `held` bytes of the next line were read."""
        self.held, self.last = held, time
        self.counts.setdefault(time[:STAMP], 0)


def time_of(line: bytes) -> str:
    """The time at the start of a line, as the API writes it."""
    return line.partition(b" ")[0][:LONGEST_TIME].decode("ascii", "replace")


def words_of(line: bytes) -> str:
    """A kubelet's message, a line without a time, cut to LONGEST_TROUBLE."""
    return line[:LONGEST_TROUBLE].decode(errors="replace")


def zone_of(time: str) -> str:
    """The time zone, such as `Z` or `+02:00`: each node writes its own."""
    return time[STAMP:].lstrip(".0123456789") or "Z"


def moment_of(time: str) -> datetime | None:
    """A line's time to the second, or None."""
    return parse.moment(f"{time[:STAMP]}{zone_of(time)}")


class Lines:
    """Turns the API's data into new lines: lines that were read before are left out. The lines lose
    their times, unless `stamped`.
    """

    def __init__(self, position: Position, stamped: bool = False) -> None:
        self.position, self.stamped = position, stamped
        self.skip = position.lines  # lines that the answer repeats
        self.read_until = ""  # of a rotated log: the time of the last line that was read
        self.notice = b""  # about missing lines, to put before the next new line
        self.rest = b""  # the start of a line that has not ended
        self.time = ""  # of a long line that has not ended
        self.passed = 0  # bytes seen of that line
        self.trouble = ""  # the kubelet's message in place of the log
        self._began = False

    def feed(self, data: bytes) -> bytes:
        """Take more data and return the new text in it."""
        whole, newline, self.rest = (self.rest + data).rpartition(b"\n")
        new = [self._end_lines(whole)] if newline else []
        if len(self.rest) > LONGEST_HELD:
            new.append(self.close())
        return b"".join(new)

    def close(self) -> bytes:
        """Return the new text of a line that has not ended."""
        text, self.rest = self._text(self.rest), b""
        if not self.time:
            return b""
        before = self.passed
        self.passed += len(text)
        if self._is_known(self.time):
            return b""
        known = self.position.held
        self.position.pass_bytes(self.time, max(known, self.passed))
        return self._noticed(self._stamp(text[max(known - before, 0) :], known))

    def _end_lines(self, whole: bytes) -> bytes:
        """The new text of whole lines. If the result is the same, they are counted together: a
        long log has millions of lines.
        """
        times = TIMES.findall(whole) if self._all_is_new() else []
        if len(times) != whole.count(b"\n") + 1 or not self._pass_together(times):
            return b"".join(map(self._end_line, whole.split(b"\n")))
        told = whole if self.stamped else TIMES.sub(b"", whole)
        return told + b"\n"

    def _all_is_new(self) -> bool:
        """True if a line begins here, and this line and all after it are new."""
        is_known = self.skip or self.read_until or self.position.held
        return self._began and not (is_known or self.notice or self.time)

    def _pass_together(self, times: Sequence[bytes]) -> bool:
        """Count these lines by second. False, without counting, if they are out of order: the order
        decides which seconds a cursor keeps.
        """
        counts = Counter(time[:STAMP] for time in times)
        if list(counts) != sorted(counts):
            return False
        firsts = {time[:STAMP]: time for time in reversed(times)}
        last = time_of(times[-1])
        for second, count in counts.items():
            self.position.pass_lines(time_of(firsts[second]), last, count)
        return True

    def _end_line(self, line: bytes) -> bytes:
        text = self._text(line)
        if not self.time:
            return b""
        time, before = self.time, self.passed
        self.time, self.passed = "", 0
        if self._is_known(time):
            self.skip, self.notice = max(self.skip - 1, 0), b""
            return b""
        known = self.position.held
        self.position.pass_line(time)
        new = text[max(known - before, 0) :] if known else text
        return self._noticed(self._stamp(new + b"\n", known))

    def _is_known(self, time: str) -> bool:
        """True for a line that was already read to its end."""
        if self.skip:
            return True
        if not self.read_until:
            return False
        if time < self.read_until or (time == self.read_until and not self.position.held):
            return True
        if time > self.read_until:
            self.position.held = 0  # the line that was read in part is gone
        self.read_until = ""
        return False

    def _stamp(self, new: bytes, known: int) -> bytes:
        """`new`, after the line's time if `stamped` and `new` begins the line."""
        begins_line = self.stamped and new and not known
        return self.position.last.encode() + b" " + new if begins_line else new

    def _noticed(self, new: bytes) -> bytes:
        notice, self.notice = self.notice, b""
        return notice + new

    def _begin(self, time: str) -> None:
        """Check by the first line that the answer repeats the counted lines. If not, the log was
        rotated: go by times, and add a notice if lines may be missing.
        """
        self._began = True
        position = self.position
        expected = position.last if position.held else ""
        if self.skip:
            expected = position.first
        if not expected or time == expected:
            return
        self.skip, self.read_until = 0, position.last
        if time > position.last:
            self.notice = b"\n" + ROTATED if position.held else ROTATED

    def _text(self, line: bytes) -> bytes:
        """The line without its time, which `self.time` keeps until the line has ended."""
        if self.time:
            return line
        stamp, space, text = line.partition(b" ")
        if not space:
            return b""
        if not TIME.match(stamp):
            self._take_untimed(line)
            return b""
        self.time = time_of(line)
        if not self._began:
            self._begin(self.time)
        return text

    def _take_untimed(self, line: bytes) -> None:
        """Take a line without a time: a message of the kubelet, not a line of the log."""
        self.trouble = words_of(line)


def do_nothing() -> None:
    """The `on_answer` of a reader that does not need it."""


@dataclass(frozen=True)
class PodLog:
    """The log of one pod.

    `has_ended`: True if no more lines can come. `on_answer` is called each time the API begins to
    send. `stamped`: put its time before each line.
    """

    kube: Kube
    namespace: str
    pod: str
    has_ended: Callable[[], bool]
    rank: int = 0
    started_at: datetime | None = None  # of its container
    stamped: bool = False
    on_answer: Callable[[], None] = do_nothing

    def read(self, request: LogRequest) -> Iterator[LogChunk]:
        position = Position.parse(request.cursor)
        if request.tail is not None:
            with told_as_broken():
                yield from self._read_tail(position, request.tail)
            if not request.follow:
                return
        failures = 0
        is_first = not position.counts  # first read the existing lines, then follow
        while True:
            over = not request.follow or self.has_ended()
            try:
                yield from self.read_once(position, not (over or is_first))
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
            is_first = False
            time.sleep(PAUSE)

    def last_line_at(self) -> datetime | None:
        """The time of the newest line, by the clock of its node; None if there is none yet."""
        beginning = {"tailLines": 1, "limitBytes": LONGEST_TIME}
        with told_as_broken():
            return moment_of(time_of(b"".join(self._blocks(beginning))))

    def _read_tail(self, position: Position, tail: int) -> Iterator[LogChunk]:
        """The last lines. All lines from the start of the first one's second are counted, because a
        later request repeats that whole second.
        """
        last = b"".join(self._blocks({"tailLines": max(tail, 1)}))
        if not last:
            return
        if not TIME.match(last):
            self._refuse(words_of(last))
        position.last = time_of(last)
        position.counts[position.last[:STAMP]] = 0
        lines, kept = Lines(position), deque[bytes](maxlen=tail)
        for data in self._blocks({"sinceTime": position.since_time}):
            kept.extend(lines.feed(data).splitlines(keepends=True))
        kept.extend(lines.close().splitlines(keepends=True))
        if kept:
            yield LogChunk(b"".join(kept), position.cursor)
        if lines.trouble:
            self._refuse(lines.trouble)

    def read_once(self, position: Position, follow: bool) -> Iterator[LogChunk]:
        """The text after the position in one answer of the API. Moves the position forward."""
        lines = Lines(position, self.stamped)
        asked = {
            "follow": "true" if follow else None,
            "sinceTime": position.since_time or None,
        }
        blocks = self._blocks(asked)
        if not follow and not position.counts:
            blocks = self._after_notice(blocks, lines)
        for data in blocks:
            if new := lines.feed(data):
                yield LogChunk(new, position.cursor)
        if new := lines.close():
            yield LogChunk(new, position.cursor)
        if lines.trouble:
            self._refuse(lines.trouble)

    def _after_notice(self, blocks: Iterator[bytes], lines: Lines) -> Iterator[bytes]:
        """The same blocks. Adds a notice to `lines` if the log is long and begins late: its start
        may be missing.
        """
        begun = b""
        for data in blocks:
            begun += data
            if len(begun) >= BLOCK:
                break
        late = self._seconds_late(begun)
        if len(begun) >= BLOCK and late > LATE_SECONDS:
            lines.notice = BEGINS_LATE.format(seconds=late, rank=self.rank).encode()
        if begun:
            yield begun
        yield from blocks

    def _seconds_late(self, begun: bytes) -> float:
        """The seconds from the container's start to the log's first line; 0.0 if not known."""
        first = moment_of(time_of(begun))
        if first is None or self.started_at is None:
            return 0.0
        return (first - self.started_at).total_seconds()

    def _blocks(self, asked: Mapping[str, Any]) -> Iterator[bytes]:
        """The blocks of the log that the API sends; nothing while the container has not started."""
        params = {"container": names.CONTAINER, "timestamps": "true", **asked}
        seconds = FOLLOW_SECONDS if asked.get("follow") else READ_SECONDS
        try:
            answer = self.kube.stream(log_path(self.namespace, self.pod), params, seconds)
        except KubeError as error:
            if error.status not in EARLY:
                raise
            self._refuse(error.backend_words)
            return
        self.on_answer()
        response = answer.response
        read = response.read1 if asked.get("follow") else response.read  # the rest has been written
        try:
            while data := read(BLOCK):
                yield data
        finally:
            answer.close()

    def _refuse(self, words: str) -> None:
        """Return if the container has not started. `words`: the message in place of the log.

        Raises PathNotFound if no log can come any more, Unreachable if there is a log.
        """
        pod = get(self.kube, core_path(self.namespace, "pods", self.pod))
        if pod is None:
            what = f"The pod {self.pod} is gone, and its log with it."
            raise PathNotFound(what, words, ELSEWHERE)
        if (parse.terminated(pod) or parse.is_being_deleted(pod)) and is_lost(words):
            raise PathNotFound(f"The log of {self.pod} is gone.", words, ELSEWHERE)
        if parse.has_begun(pod):
            raise Unreachable(f"The log of {self.pod} could not be read.", words, "Try again.")


def is_lost(words: str) -> bool:
    """True for a kubelet's message that it has no log of a container that has ended.

    While a container runs, NO_FILE may come from the moment of a rotation.
    """
    return LOST in words or NO_FILE in words or words.startswith(REMOVED)


@contextmanager
def told_as_broken() -> Generator[None]:
    """Turn the error of a broken connection into Unreachable."""
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
