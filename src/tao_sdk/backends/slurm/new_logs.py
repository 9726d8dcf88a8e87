"""What is new in the logs of many attempts, in one exec: for the progress of a list of jobs.

The script and how its answer is read. Not here: the log of one attempt (logs.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from tao_sdk.backends.contract import KiB, LogChunk, NewLog
from tao_sdk.backends.slurm.logs import Offsets, Piece, in_lines
from tao_sdk.backends.slurm.shell import joined, script, variables

MOST_JOBS = 200  # in one question
MOST = 64 * KiB  # of each file
HEAD = re.compile(rb"=== (\d+) (whole|more) (\d+) (\d+)\n")


def read_script(folders: Sequence[str], offsets: Sequence[Offsets]) -> str:
    """scripts/read_new_logs.sh for each log folder."""
    asked = zip(folders, offsets, strict=True)
    calls = [f"read_new {index} {shlex.quote(folder)} {at.out} {at.err}" for index, (folder, at) in enumerate(asked)]
    return joined(variables({"most": str(MOST)}), script("read_new_logs"), *calls, "true")


def parse(answer: bytes, offsets: Sequence[Offsets]) -> Mapping[int, NewLog]:
    """Index -> what is new there. What was cut off at the end of the answer is left out."""
    found: dict[int, NewLog] = {}
    at = 0
    while head := HEAD.match(answer, at):
        index, out_size, err_size = int(head[1]), int(head[3]), int(head[4])
        middle = head.end() + out_size
        at = middle + err_size
        if at > len(answer) or index >= len(offsets):
            break
        piece = Piece(answer[head.end() : middle], answer[middle:at], over=False, whole=head[2] == b"whole")
        found[index] = NewLog(tuple(chunks(offsets[index], piece)), piece.whole)
    return found


def chunks(offsets: Offsets, piece: Piece) -> list[LogChunk]:
    return [LogChunk(read.data, str(Offsets(*read.at))) for read in in_lines(offsets, piece)]
