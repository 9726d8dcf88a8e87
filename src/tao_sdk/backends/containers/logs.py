"""Logs: read a container's log from a cursor or its last lines, and follow it until its end.

Memory stays flat.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tao_sdk.backends.containers.log_frames import Frames, LogPositions, last_lines
from tao_sdk.backends.contract import LogChunk, LogRequest
from tao_sdk.model.errors import NoLog, PathNotFound, TaoError, Unreachable, UsageError
from tao_sdk.transports.dockerd import Daemon, DaemonError, ignore_status

PAUSE = 0.05  # seconds between the end of an answer and the next, while the container lives
FEWEST = 200  # frames of a tail: enough to see both streams if both are used
READABLE = (
    "One that does is named so in a job file: native: {HostConfig: {LogConfig: {Type: local}}}"
)

# HTTP status of the daemon -> the error for a log that is lost for good. With any other status the
# log may be there at the next try.
LOST: Mapping[int, tuple[type[PathNotFound], str, str]] = {
    404: (PathNotFound, "The container is gone, and its log with it.", ""),
    409: (
        NoLog,
        "The log cannot be read any more: its container is dead, or about to be removed.",
        "",
    ),
    501: (
        NoLog,
        "There is no log: the container's logging driver keeps none that could be read.",
        READABLE,
    ),
}


def read(
    daemon: Daemon, container: str, request: LogRequest, has_ended: Callable[[], bool]
) -> Iterator[LogChunk]:
    """Yield the log from the request's cursor on. Opens a broken connection again.

    Raises UsageError for a rank other than 0, NoLog and PathNotFound for a log that is lost.
    """
    if request.rank:
        raise UsageError(
            f"There is no rank {request.rank}.",
            "A container has one process group, rank 0.",
            "Leave the rank out.",
        )
    try:
        yield from read_chunks(daemon, container, request, has_ended)
    except DaemonError as error:
        raise log_error(error) from error
    except (ValueError, KeyError) as error:  # an invalid stream or time
        why = f"What the daemon sends is no log of a container ({error})."
        raise NoLog(
            "The log cannot be read.", why, command=f"docker logs {container[:12]}"
        ) from error


def log_error(error: DaemonError) -> TaoError:
    """The error to raise if the daemon does not return a log."""
    if error.status not in LOST:
        return Unreachable("The Docker daemon could not give the log.", error.what, "Try again.")
    kind, what, remedy = LOST[error.status]
    return kind(what, error.what, remedy)


def read_chunks(
    daemon: Daemon, container: str, request: LogRequest, has_ended: Callable[[], bool]
) -> Iterator[LogChunk]:
    positions = LogPositions.of(request.cursor)
    if request.tail is not None:
        positions, data = read_tail(daemon, container, request.stream, request.tail)
        if data:
            yield LogChunk(data, positions.cursor())
        if not request.follow:
            return
    while True:
        # Ask before reading: after the end, one more read returns the whole rest.
        over = not request.follow or has_ended()
        frames = Frames(positions.resumed_positions(), request.stream)
        yield from read_blocks(daemon, container, frames, follow=not over)
        positions = frames.positions
        if over or frames.broken:
            return
        time.sleep(PAUSE)


def says_code(daemon: Daemon, container: str, codes: Sequence[str]) -> bool:
    """True if the last line of the container's stderr has one of these codes.

    False if the container has no readable log.
    """
    with ignore_status(409, 501):
        last = read_tail(daemon, container, "stderr", 1)[1]
        return any(code.encode() in last for code in codes)
    return False


def read_blocks(daemon: Daemon, container: str, frames: Frames, follow: bool) -> Iterator[LogChunk]:
    with daemon.stream(
        f"/containers/{container}/logs", **log_query(follow, since=frames.positions.since_time())
    ) as answer:
        for block in answer:
            if found := frames.feed_block(block):
                yield LogChunk(b"".join(found), frames.positions.cursor())


def read_tail(
    daemon: Daemon, container: str, stream: str, lines: int
) -> tuple[LogPositions, bytes]:
    """Return (how far the log was read, its last lines).

    The daemon's `tail` counts frames, and a long line has many, so it asks for more until the
    lines are complete.
    """
    wanted = max(lines, FEWEST)
    while True:
        frames = Frames(LogPositions(), stream)
        texts: list[bytes] = []
        with daemon.stream(
            f"/containers/{container}/logs", **log_query(False, tail=str(wanted))
        ) as answer:
            for block in answer:
                texts += frames.feed_block(block)
        data = last_lines(texts, lines) if lines else b""
        if data is None and frames.count < wanted:
            data = b"".join(texts)
        if data is not None:
            if frames.count >= wanted:
                frames.positions.pass_over()
            return frames.positions, data
        wanted *= 4


def log_query(follow: bool, **more: str) -> dict[str, Any]:
    return {
        "stdout": 1,
        "stderr": 1,
        "timestamps": 1,
        "follow": int(follow),
        **{name: value for name, value in more.items() if value},
    }
