"""Tries one job again and kills itself with SIGKILL at the n-th line of the SDK that this executes.

Run as: -m support.crash_retry PLATFORM STATE_DIR JOB N. Prints nothing; with N = 0 it prints how
many lines there are.
"""

from __future__ import annotations

import sys
from pathlib import Path

from support.crash import Steps
from support.places import PLACES


def main() -> None:
    platform, state, job, last = sys.argv[1:]
    client = PLACES[platform](Path(state).parent).client()
    steps = Steps(int(last))
    sys.settrace(steps)
    client.retry_job(job)
    sys.settrace(None)
    if steps.last == 0:
        print(steps.count)


if __name__ == "__main__":
    main()
