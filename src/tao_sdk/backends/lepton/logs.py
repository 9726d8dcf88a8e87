"""Logs: the lines that the workspace has collected of one rank, as the bytes that the job wrote.

A line is asked for by its time. Several lines may have one time, and a page may end between them:
the next page begins with that time again, and what is known is dropped. The last line of a log is
ours (scripts/start.sh) and is left out. It ends the log once the job is over: a workspace that
starts a replica again goes on with its log. The workspace keeps text: bytes that are no UTF-8 have
become U+FFFD there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tao_sdk.backends.contract import LogChunk, LogRequest
from tao_sdk.backends.lepton import parse
from tao_sdk.backends.lepton.look import ALL
from tao_sdk.backends.lepton.parse import Line
from tao_sdk.backends.lepton.workspace.site import PING
from tao_sdk.model.errors import NoLog, PathNotFound
from tao_sdk.transports.rest import AnswerTooLarge, Rest, RestRefusal

PAGE = 2000  # lines in one answer
MOST = 10_000  # lines in one answer, by the workspace's own limit
PAUSE_SECONDS = 1.0  # between two questions while a log is followed
END = "end"  # the cursor behind the last line
# HTTP status -> the error for a log that is gone with its job, or that this caller may not see
NO_LOG = {404: PathNotFound, 400: NoLog, 403: NoLog}
ADVICE = "tao results shows what the job left."


@dataclass(frozen=True)
class Position:
    """A place in a log: so many lines of one time are behind it."""

    time_ns: int
    lines: int = 0

    @classmethod
    def of_cursor(cls, cursor: str) -> Position:
        time_ns, _, lines = cursor.partition(":")
        return cls(int(time_ns), int(lines))

    @property
    def cursor(self) -> str:
        return f"{self.time_ns}:{self.lines}"

    def after(self, line: Line) -> Position:
        return Position(line[0], self.lines + 1 if line[0] == self.time_ns else 1)


@dataclass
class RankLog:
    """The log of one rank.

    `find_replica`: asks for its replica; "" for the only one, None while there is none. `start`:
    the time of its begin in nanoseconds. `is_over` asks the workspace; after that, no more lines
    come. Raises RestRefusal, Unreachable,
    and PathNotFound if the workspace has no such job, or does not show its log.
    """

    rest: Rest
    job: str
    find_replica: Callable[[], str | None]
    start: int
    mark: str
    is_over: Callable[[], bool]
    _replica: str | None = field(default=None, init=False)

    def read(self, request: LogRequest) -> Iterator[LogChunk]:
        """The part of the log that was asked for."""
        if request.cursor == END:
            return
        position = Position(self.start)
        if request.cursor:
            position = Position.of_cursor(request.cursor)
        elif request.tail is not None:
            chunk = self.tail(request.tail)
            if chunk is not None:
                yield chunk
                if chunk.cursor == END:
                    return
                position = Position.of_cursor(chunk.cursor)
        if request.tail is None or request.follow:
            yield from self.read_from(position, request.follow)

    def read_from(self, position: Position, follow: bool) -> Iterator[LogChunk]:
        while True:
            was_over = self.is_over() if follow else False
            for chunk in self.new_lines(position, was_over):
                yield chunk
                if chunk.cursor == END:
                    return
                position = Position.of_cursor(chunk.cursor)
            if not follow or was_over:
                return
            time.sleep(PAUSE_SECONDS)

    def new_lines(self, position: Position, is_over: bool) -> Iterator[LogChunk]:
        """The lines that are there now, in chunks of whole lines.

        The last line is held back until the next one shows whether it ends the log: a log without a
        line's end at its end has that of ours.
        """
        reached, held = position, list[Line]()
        while lines := self.page(reached):
            reached = self.behind(reached, lines)
            held += lines
            ended = self.index_of_end(held)
            if ended is not None:
                text = "\n".join(texts(held[:ended])).encode()
                if is_over or self.is_over():
                    yield LogChunk(text, END)
                    return
                position = self.behind(position, held[: ended + 1])
                held = held[ended + 1 :]
                yield LogChunk(text, position.cursor)
            data = "".join(f"{text}\n" for text in texts(held[:-1])).encode()
            position = self.behind(position, held[:-1])
            held = held[-1:]
            if data:
                yield LogChunk(data, position.cursor)
        if held and (held[0][1] or is_over):
            yield LogChunk(f"{held[0][1]}\n".encode(), position.after(held[0]).cursor)

    def page(self, position: Position) -> list[Line]:
        """The next lines behind a position; none if there are none now."""
        limit = PAGE
        while True:
            lines = self.ask("forward", limit, start=position.time_ns)
            fresh = drop_known(lines, position)
            if fresh or len(lines) < limit or limit >= MOST:
                return fresh
            limit = MOST  # more lines of one time than a page has

    def behind(self, position: Position, lines: Iterable[Line]) -> Position:
        for line in lines:
            position = position.after(line)
        return position

    def index_of_end(self, lines: list[Line]) -> int | None:
        """The index of the last line of ours; None if the log goes on."""
        for index in range(len(lines) - 1, -1, -1):
            if parse.rank_end(lines[index], self.mark):
                return index
        return None

    def tail(self, count: int) -> LogChunk | None:
        """The last lines that are there now, and where the log goes on; None for an empty log."""
        lines = self.newest(count + 2)  # ours, and the empty line before it
        if not lines:
            return None
        ended = self.index_of_end(lines)
        if ended is None:
            text = "".join(f"{text}\n" for text in texts(lines))
        else:
            text = "\n".join(texts(lines[:ended]))
            if self.is_over():
                return LogChunk(last_lines(text, count).encode(), END)
        cursor = Position(lines[-1][0], self.lines_at(lines[-1][0])).cursor
        return LogChunk(last_lines(text, count).encode(), cursor)

    def newest(self, count: int) -> list[Line]:
        """The last lines, the oldest first."""
        found: list[Line] = []
        end: int | None = None
        while len(found) < count:
            lines = self.ask("backward", min(count + PAGE, MOST), start=self.start, end=end)
            known = sum(line[0] == found[-1][0] for line in found) if found else 0
            fresh = lines[known:] if found and lines and lines[0][0] == found[-1][0] else lines
            if not fresh:
                break
            found += fresh
            end = found[-1][0] + 1
        return found[:count][::-1]

    def lines_at(self, time_ns: int) -> int:
        """How many lines have this time."""
        return len(self.ask("forward", MOST, start=time_ns, end=time_ns + 1))

    def ask(self, direction: str, limit: int, start: int, end: int | None = None) -> list[Line]:
        """The lines of a time, at most `limit`, and fewer where they are long."""
        while True:
            try:
                return self.ask_for(direction, limit, start, end)
            except AnswerTooLarge:
                if limit == 1:
                    raise
                limit = max(limit // 8, 1)
            except RestRefusal as refused:
                if refused.status not in NO_LOG:
                    raise
                self.rest.ask("GET", PING)  # refused: nothing is known about the log
                what = f"The workspace shows no log of {self.job}."
                raise NO_LOG[refused.status](what, refused.what, ADVICE) from refused

    def ask_for(self, direction: str, limit: int, start: int, end: int | None) -> list[Line]:
        if self._replica is None:
            self._replica = self.find_replica()
        if self._replica is None:
            return []
        params = {
            "job": self.job,
            "replica": self._replica or None,
            "start": start,
            "end": end,
            "limit": limit,
            "direction": direction,
            "job_query_mode": ALL,
        }
        return parse.all_lines(self.rest.ask("GET", "/logs", params=params))


def drop_known(lines: list[Line], position: Position) -> list[Line]:
    """The lines without the first ones of the position's time, which are behind it."""
    known = 0
    while known < min(position.lines, len(lines)) and lines[known][0] == position.time_ns:
        known += 1
    return lines[known:]


def texts(lines: Iterable[Line]) -> list[str]:
    return [text for _, text in lines]


def last_lines(text: str, count: int) -> str:
    """The last lines of a text, which may lack the end of its last line."""
    if not count:
        return ""
    return "".join(split_lines(text)[-count:])


def split_lines(text: str) -> list[str]:
    """The lines of a text with their ends. Only a line feed ends one."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])
