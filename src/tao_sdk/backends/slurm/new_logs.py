"""What is new in the logs of many attempts, in one exec: for the progress of a list of jobs.

The script and how its answer is read. Not here: the log of one attempt (logs.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from tao_sdk.backends.contract import KiB, LogChunk, NewLog
from tao_sdk.backends.slurm.logs import Offsets, Piece, in_lines

MOST_JOBS = 200  # in one question
MOST = 64 * KiB  # of each file
HEAD = re.compile(rb"=== (\d+) (whole|more) (\d+) (\d+)\n")

# stderr is measured first, as in logs.py: what stands before an event in stderr is never read after it.
FUNCTIONS = f"""
measure() {{
  size=0
  [ -s "$1" ] || return 0
  size=$(($(stat -c %s "$1") - $2))
  [ $size -ge 0 ] || size=0
  [ $size -le {MOST} ] || {{ size={MOST}; more=more; }}
}}
news() {{
  [ -d "$2" ] || return 0
  more=whole
  measure "$2/main.err" "$4"; es=$size
  measure "$2/main.out" "$3"; os=$size
  echo "=== $1 $more $os $es"
  [ $os -eq 0 ] || tail -c +$(($3 + 1)) "$2/main.out" | head -c $os
  [ $es -eq 0 ] || tail -c +$(($4 + 1)) "$2/main.err" | head -c $es
}}
"""


def script(folders: Sequence[str], offsets: Sequence[Offsets]) -> str:
    """Prints `=== index whole|more out-size err-size` and the bytes of each log folder that is there."""
    asked = zip(folders, offsets, strict=True)
    calls = [f"news {index} {shlex.quote(folder)} {at.out} {at.err}" for index, (folder, at) in enumerate(asked)]
    return "\n".join([FUNCTIONS, *calls, "true"])


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
