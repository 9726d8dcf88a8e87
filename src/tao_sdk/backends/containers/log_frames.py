"""Log frames: the frames in which a daemon sends a log, and the cursor that resumes it exactly.

A frame is 8 bytes (stream, size), a timestamp of 31 bytes with its space, and text. Pure.

The daemon can only send frames from a given time on, and times repeat. Within one stream, times
never go backwards. So the position in a stream is its last time, and how many frames of that time
were read. Across streams, times do go backwards: all parts of a long line keep the time at
which the line began. (Docker 20.10's `local` driver forgets the newline after a line of several
parts. A new time after an unfinished line shows that the newline was there.)
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

STREAMS = {"stdout": 1, "stderr": 2}
TROUBLE = 3  # the stream with the daemon's reason why it cannot read the log any further
STAMP = 31
LONGEST_FRAME = 4 << 20  # bytes; Docker itself cuts lines into parts of 16 KiB
SLACK = timedelta(seconds=5)  # between a frame's timestamp and the moment it can be read
EARLIEST = b"0001-01-01T00:00:00.000000000Z "


@dataclass
class LogPosition:
    """How far one stream was read.

    Holds the last frame's time, the number of frames with that time, and whether the last line was
    unfinished.
    """

    stamp: bytes = EARLIEST
    count: int = 0
    unfinished: bool = False


@dataclass
class LogPositions:
    """How far a log was read.

    `skip` counts down the frames that a resumed answer repeats.
    """

    streams: dict[int, LogPosition] = field(
        default_factory=lambda: {1: LogPosition(), 2: LogPosition()}
    )
    skip: dict[int, int] = field(default_factory=dict[int, int])

    @classmethod
    def of(cls, cursor: str) -> LogPositions:
        if not cursor:
            return cls()
        streams: dict[int, LogPosition] = {}
        skip: dict[int, int] = {}
        for name, (stamp, count, unfinished) in json.loads(cursor).items():
            number, position = int(name), LogPosition(stamp.encode(), count, unfinished)
            streams[number] = position
            if position.stamp != EARLIEST:
                skip[number] = position.count
        return cls(streams, skip)

    def cursor(self) -> str:
        streams = {
            number: (position.stamp.decode(), position.count, position.unfinished)
            for number, position in self.streams.items()
        }
        return json.dumps(streams)

    def resumed_positions(self) -> LogPositions:
        return LogPositions.of(self.cursor())

    def pass_over(self) -> None:
        """Move each stream without a frame to the last time of the other stream.

        Call it after reading the log's end: such a stream has nothing unread before it.
        """
        last = max(position.stamp for position in self.streams.values())
        for position in self.streams.values():
            if position.stamp == EARLIEST:
                position.stamp = last

    def since_time(self) -> str:
        """The time from which to ask so that no frame is missed.

        In seconds since the epoch; "" asks for everything.
        """
        last = max(position.stamp for position in self.streams.values())
        if last == EARLIEST:
            return ""
        moments = [moment_of(last) - SLACK]
        moments += [
            moment_of(position.stamp) for position in self.streams.values() if position.unfinished
        ]
        return f"{min(moments).timestamp():.6f}"


def moment_of(stamp: bytes) -> datetime:
    return datetime.strptime(stamp[:26].decode(), "%Y-%m-%dT%H:%M:%S.%f").replace(
        tzinfo=timezone.utc
    )


class Frames:
    """Turns the blocks of an answer into the log's bytes, and keeps the positions."""

    def __init__(self, positions: LogPositions, stream: str = "") -> None:
        self.positions = positions
        self.wanted = {STREAMS[stream]} if stream else set(STREAMS.values())
        self.count = 0  # frames read, including skipped ones
        # the daemon cannot read the log any further; its reason is the end of the text
        self.broken = False
        self._rest = b""

    def feed_block(self, block: bytes) -> list[bytes]:
        """Return the text of each complete new frame of the requested streams.

        Raises ValueError for a frame longer than LONGEST_FRAME. Written for speed: a log has
        millions of frames.
        """
        data = self._rest + block if self._rest else block
        at, size, found, skip = 0, len(data), list[bytes](), self.positions.skip
        streams, wanted = self.positions.streams, self.wanted
        while at + 8 <= size:
            end = at + 8 + int.from_bytes(data[at + 4 : at + 8], "big")
            if end - at > LONGEST_FRAME:
                raise ValueError("a frame of a log is longer than any that Docker makes")
            if end > size:
                break
            number, stamp = data[at], data[at + 8 : at + 8 + STAMP]
            if number == TROUBLE:
                self.broken = True
                found.append(data[at + 8 : end])
                at = end
                continue
            position = streams[number]
            text = data[at + 8 + STAMP : end]
            at = end
            self.count += 1
            if number in skip and self._was_read(number, stamp, position):
                continue
            if stamp == position.stamp:
                position.count += 1
            else:
                if position.unfinished and number in wanted:
                    found.append(b"\n")
                position.stamp, position.count = stamp, 1
            position.unfinished = text[-1:] != b"\n"
            if number in wanted:
                found.append(text)
        self._rest = data[at:]
        return found

    def _was_read(self, number: int, stamp: bytes, position: LogPosition) -> bool:
        if stamp > position.stamp:
            del self.positions.skip[number]
            return False
        if stamp < position.stamp:
            return True
        self.positions.skip[number] -= 1
        return self.positions.skip[number] >= 0


def last_lines(texts: list[bytes], lines: int) -> bytes | None:
    """The last `lines` lines in these texts, the end of a log. None if they hold fewer lines.

    An unfinished last line counts.
    """
    data = b"".join(texts)
    count = lines + data.endswith(b"\n")
    parts = data.split(b"\n")
    if len(parts) <= count:
        return None
    return b"\n".join(parts[-count:])
