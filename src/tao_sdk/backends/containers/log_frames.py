"""The frames in which a daemon sends a log, and the cursor that resumes it exactly. Pure.

A frame is 8 bytes (stream, size), a timestamp of 31 bytes with its space, and text. The daemon can
be asked for frames from a time on, no finer; times repeat. Within one stream they never go
backwards, so a stream's place is its last time and how many frames of that time were read. Across
the streams they do go backwards: a long line keeps the time at which it began for all its parts.
(Docker 20.10's `local` driver forgets the newline after a line of several parts; a new time without
one says that it was there.)
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

STREAMS = {"stdout": 1, "stderr": 2}
TROUBLE = 3  # the stream in which a daemon says why it cannot read the log any further
STAMP = 31
LONGEST_FRAME = 4 << 20  # bytes; Docker itself cuts lines into parts of 16 KiB
SLACK = timedelta(seconds=5)  # between the moment a frame is stamped and the moment it can be read
EARLIEST = b"0001-01-01T00:00:00.000000000Z "


@dataclass
class Place:
    """How far one stream was read.

    The last frame's time, how many frames had it, and whether its line was unfinished.
    """

    stamp: bytes = EARLIEST
    count: int = 0
    unfinished: bool = False


@dataclass
class Places:
    """How far a log was read. `skip` counts down the frames of a resumed answer that were read
    before.
    """

    streams: dict[int, Place] = field(default_factory=lambda: {1: Place(), 2: Place()})
    skip: dict[int, int] = field(default_factory=dict[int, int])

    @classmethod
    def of(cls, cursor: str) -> Places:
        if not cursor:
            return cls()
        streams: dict[int, Place] = {}
        skip: dict[int, int] = {}
        for name, (stamp, count, unfinished) in json.loads(cursor).items():
            number, place = int(name), Place(stamp.encode(), count, unfinished)
            streams[number] = place
            if place.stamp != EARLIEST:
                skip[number] = place.count
        return cls(streams, skip)

    def cursor(self) -> str:
        streams = {
            number: (place.stamp.decode(), place.count, place.unfinished)
            for number, place in self.streams.items()
        }
        return json.dumps(streams)

    def resumed_places(self) -> Places:
        return Places.of(self.cursor())

    def pass_over(self) -> None:
        """A stream of which nothing was seen in the log's end has nothing unread before it."""
        last = max(place.stamp for place in self.streams.values())
        for place in self.streams.values():
            if place.stamp == EARLIEST:
                place.stamp = last

    def since_time(self) -> str:
        """From when on to ask, so that nothing is missed: seconds since the epoch, or "" for
        everything.
        """
        last = max(place.stamp for place in self.streams.values())
        if last == EARLIEST:
            return ""
        moments = [moment_of(last) - SLACK]
        moments += [moment_of(place.stamp) for place in self.streams.values() if place.unfinished]
        return f"{min(moments).timestamp():.6f}"


def moment_of(stamp: bytes) -> datetime:
    return datetime.strptime(stamp[:26].decode(), "%Y-%m-%dT%H:%M:%S.%f").replace(
        tzinfo=timezone.utc
    )


class Frames:
    """Takes an answer's blocks, gives the log's bytes, and knows how far it has come."""

    def __init__(self, places: Places, stream: str = "") -> None:
        self.places = places
        self.wanted = {STREAMS[stream]} if stream else set(STREAMS.values())
        self.count = 0  # frames taken, those that were skipped included
        # the daemon cannot read the log any further; its words are the last of the text
        self.broken = False
        self._rest = b""

    def feed_block(self, block: bytes) -> list[bytes]:
        """The text of each whole frame that is new and wanted. Tight: a log has
        millions of them.
        """
        data = self._rest + block if self._rest else block
        at, size, found, skip = 0, len(data), list[bytes](), self.places.skip
        streams, wanted = self.places.streams, self.wanted
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
            place = streams[number]
            text = data[at + 8 + STAMP : end]
            at = end
            self.count += 1
            if number in skip and self._was_read(number, stamp, place):
                continue
            if stamp == place.stamp:
                place.count += 1
            else:
                if place.unfinished and number in wanted:
                    found.append(b"\n")
                place.stamp, place.count = stamp, 1
            place.unfinished = text[-1:] != b"\n"
            if number in wanted:
                found.append(text)
        self._rest = data[at:]
        return found

    def _was_read(self, number: int, stamp: bytes, place: Place) -> bool:
        if stamp > place.stamp:
            del self.places.skip[number]
            return False
        if stamp < place.stamp:
            return True
        self.places.skip[number] -= 1
        return self.places.skip[number] >= 0


def last_lines(texts: list[bytes], lines: int) -> bytes | None:
    """The last `lines` lines of a log's end; None when more of it is needed.

    An unfinished last line counts.
    """
    data = b"".join(texts)
    count = lines + data.endswith(b"\n")
    parts = data.split(b"\n")
    if len(parts) <= count:
        return None
    return b"\n".join(parts[-count:])
