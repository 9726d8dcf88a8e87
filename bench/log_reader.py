"""Log reader: a program that copies a job's log to its standard output in one of the ways there
are, and tells on stderr how much memory that took at most. A process of its own, so that nothing
else counts.

    python -m bench.log_reader client|command STATE_FILE JOB
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path


def client(state_file: str, job: str) -> None:
    """Client.follow_logs, as a program would use it."""
    from tao_sdk.client import Client

    with Client(state_file) as opened:
        for chunk in opened.follow_logs(job):
            write(chunk)


def command(state_file: str, job: str) -> None:
    """`tao logs`."""
    from tao_sdk.cli.main import run

    if code := run(["--state-file", state_file, "logs", job]):
        raise SystemExit(code)
    sys.stdout.flush()


def write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def peak_bytes() -> int:
    """The most memory that this process ever had at once."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    way, *arguments = sys.argv[1:]
    {"client": client, "command": command}[way](*arguments)
    print(peak_bytes(), file=sys.stderr)
