"""Reading the logs of an attempt on the cluster: by offset, so that a reader that was cut off goes
on where it was.

A cursor is two offsets, of stdout's file and of stderr's: `120:34`. One exec brings what is new of
both.
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
QUICK, SLOW = 0.2, 3.0  # seconds between looks while following: quick after news
# seconds without news after which SLURM is asked whether the job has ended without a record
UNRECORDED = 5.0


NOT_WANTED = -1  # the offset of a file that is not read


@dataclass(frozen=True)
class Piece:
    """What came of both files; `over` when the attempt had ended before they were read."""

    out: bytes
    err: bytes
    over: bool
    whole: bool  # False: there is more


@dataclass(frozen=True)
class Offsets:
    """Up to where each file was read, in bytes; NOT_WANTED for one that is not wanted."""

    out: int
    err: int

    @classmethod
    def from_request(cls, request: LogRequest) -> Offsets:
        """The offsets in the request's cursor, -1 for the stream that it does not ask for."""
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
    """Some bytes of one file, and where both have been read to after it."""

    data: bytes
    at: tuple[int, int]


def split_at_lines(at: Offsets, piece: Piece) -> Iterator[Read]:
    """stdout's whole lines, then stderr, then stdout's unfinished line: no line is torn apart.

    While there is more, an unfinished line waits for its rest.
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
    """Where the last whole line ends."""
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
                ended, news = self.has_ended(), time.monotonic()  # then it is read once more
                if ended:
                    continue
            time.sleep(pause)
            pause = min(pause * 1.5, SLOW)

    def read_piece(self, name: str, at: Offsets, lines: int | None) -> tuple[Offsets, Piece]:
        """(where reading began, what came). With `lines` it begins that many lines
        before the end.
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
    """scripts/read_log.sh. With `lines` it reads the last ones, else what lies
    behind the offsets.
    """
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


# What is new of many logs, in one exec: for the progress of a list of jobs

MOST_JOBS = 200  # in one question
NEW_BYTES = 64 * KiB  # of each file
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
    """Index -> what is new there. What was cut off at the end of the answer is left out."""
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
