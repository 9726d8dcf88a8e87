"""Logs: read an attempt's logs on the cluster by offset, so that a reader can resume exactly.

A cursor is two offsets, one in stdout's file and one in stderr's: `120:34`. One exec reads the new
bytes of both.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tao_sdk.backends.contract import KiB, LogChunk, LogRequest, MiB, NewLog
from tao_sdk.backends.shell import assign_variables, join_parts
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.errors import PathNotFound, Unreachable
from tao_sdk.transports.ssh import Ssh

BLOCK = MiB
QUICK, SLOW = 0.2, 3.0  # seconds between reads while following: QUICK after new bytes
# seconds without new bytes after which SLURM is asked: has the job ended without a record?
UNRECORDED = 5.0


NOT_WANTED = -1  # the offset of a file that is not read


@dataclass(frozen=True)
class Piece:
    """New bytes of both files. `over`: the attempt had ended before they were read."""

    out: bytes
    err: bytes
    over: bool
    whole: bool  # False: there is more


@dataclass(frozen=True)
class Offsets:
    """The offset in bytes up to which each file was read; NOT_WANTED for a file to skip."""

    out: int
    err: int

    @classmethod
    def from_request(cls, request: LogRequest) -> Offsets:
        """The offsets in the request's cursor; NOT_WANTED for a stream it does not ask for."""
        out, _, err = request.cursor.partition(":")
        if request.stream == "stdout":
            return cls(int(out or 0), NOT_WANTED)
        if request.stream == "stderr":
            return cls(NOT_WANTED, int(err or 0))
        return cls(int(out or 0), int(err or 0))

    def __str__(self) -> str:
        return f"{max(self.out, 0)}:{max(self.err, 0)}"


@dataclass(frozen=True)
class Read:
    """Some bytes of one file, and the offsets of both files after them."""

    data: bytes
    at: tuple[int, int]


def split_at_lines(at: Offsets, piece: Piece) -> Iterator[Read]:
    """Yield stdout's complete lines, then stderr, then stdout's unfinished line.

    So no line is split. While there is more to read, an unfinished line waits for its rest.
    """
    err = piece.err
    if not piece.whole:
        err = whole_lines(err) or err
    lines, rest = len(piece.out), b""
    if err:
        lines = end_of_lines(piece.out)
    if piece.whole:
        rest = piece.out[lines:]
    parts = [
        Read(piece.out[:lines], (at.out + lines, at.err)),
        Read(err, (at.out + lines, at.err + len(err))),
        Read(rest, (at.out + lines + len(rest), at.err + len(err))),
    ]
    return (part for part in parts if part.data)


def whole_lines(data: bytes) -> bytes:
    return data[: end_of_lines(data)]


def end_of_lines(data: bytes) -> int:
    """The offset of the end of the last complete line."""
    return data.rfind(b"\n") + 1


class LogReader:
    """The log of one rank of one attempt."""

    def __init__(self, ssh: Ssh, folder: str, attempt: str, has_ended: Callable[[], bool]) -> None:
        self.ssh, self.folder, self.attempt, self.has_ended = ssh, folder, attempt, has_ended

    def read(self, request: LogRequest) -> Iterator[LogChunk]:
        name = rank_name(request.rank)
        at, lines = Offsets.from_request(request), request.tail
        pause, news = QUICK, time.monotonic()
        ended = False
        while True:
            at, piece = self.read_piece(name, at, lines)
            lines = None
            for chunk in split_at_lines(at, piece):
                at = Offsets(*chunk.at)
                yield LogChunk(chunk.data, str(at))
            if piece.out or piece.err:
                pause, news = QUICK, time.monotonic()
            if not piece.whole:
                continue
            if not request.follow or piece.over or ended:
                return
            if time.monotonic() - news > UNRECORDED:
                ended, news = self.has_ended(), time.monotonic()  # if so, read once more
                if ended:
                    continue
            time.sleep(pause)
            pause = min(pause * 1.5, SLOW)

    def read_piece(self, name: str, at: Offsets, lines: int | None) -> tuple[Offsets, Piece]:
        """Return (the offsets where reading began, the bytes).

        With `lines`, reading begins that many lines before the end. Raises PathNotFound if the log
        is gone, Unreachable.
        """
        answer = self.ssh.run(read_script(self.folder, self.attempt, name, at, lines))
        if answer.rc == GONE:
            raise PathNotFound("The log is gone.", f"{self.folder} is not there.", "")
        head, _, data = answer.out.partition(b"\n")
        words = head.decode("ascii", "replace").split()
        if answer.rc or len(words) != 6:
            raise Unreachable(
                f"The log could not be read: {answer.words or answer.rc}", "", "Try again."
            )
        over, more, *numbers = words
        out_at, out_size, err_at, err_size = map(int, numbers)
        out, err = data[:out_size], data[out_size : out_size + err_size]
        began = Offsets(
            NOT_WANTED if at.out == NOT_WANTED else out_at,
            NOT_WANTED if at.err == NOT_WANTED else err_at,
        )
        return began, Piece(out, err, over == "over", more == "whole")


def rank_name(rank: int) -> str:
    """The name of a rank's log files, without their ending."""
    if rank == 0:
        return "main"
    return f"rank-{rank}"


GONE = 44  # exit code of scripts/read_log.sh


def read_script(folder: str, attempt: str, name: str, at: Offsets, lines: int | None) -> str:
    """scripts/read_log.sh: reads the last `lines` lines, or the bytes after the offsets."""
    values = {
        "logs": folder,
        "attempt": attempt,
        "name": name,
        "out_from": str(at.out),
        "err_from": str(at.err),
        "tail": "" if lines is None else str(lines),
        "most": str(BLOCK),
    }
    return join_parts(assign_variables(values), load_script("read_log"))


# New bytes of many logs in one exec: for the progress of a list of jobs

MOST_JOBS = 200  # per exec
NEW_BYTES = 64 * KiB  # per file
NEW_HEAD = re.compile(rb"=== (\d+) (whole|more) (\d+) (\d+)\n")


def read_new_script(folders: Sequence[str], offsets: Sequence[Offsets]) -> str:
    """scripts/read_new_logs.sh for each log folder."""
    asked = zip(folders, offsets, strict=True)
    calls = [
        f"read_new {index} {shlex.quote(folder)} {at.out} {at.err}"
        for index, (folder, at) in enumerate(asked)
    ]
    return join_parts(
        assign_variables({"most": str(NEW_BYTES)}), load_script("read_new_logs"), *calls, "true"
    )


def parse_new(answer: bytes, offsets: Sequence[Offsets]) -> Mapping[int, NewLog]:
    """Index -> the new log. Leaves out a log that is cut off at the end of the answer."""
    found: dict[int, NewLog] = {}
    at = 0
    while head := NEW_HEAD.match(answer, at):
        index, out_size, err_size = int(head[1]), int(head[3]), int(head[4])
        middle = head.end() + out_size
        at = middle + err_size
        if at > len(answer) or index >= len(offsets):
            break
        piece = Piece(
            answer[head.end() : middle], answer[middle:at], over=False, whole=head[2] == b"whole"
        )
        found[index] = NewLog(tuple(to_chunks(offsets[index], piece)), piece.whole)
    return found


def to_chunks(offsets: Offsets, piece: Piece) -> list[LogChunk]:
    return [LogChunk(read.data, str(Offsets(*read.at))) for read in split_at_lines(offsets, piece)]
