"""Submits one job and kills itself with SIGKILL at the n-th line of the SDK that submit executes.

Run as: -m support.crash PLATFORM STATE_DIR FILE N. Prints nothing; with N = 0 it prints how many
lines there are.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from support.places import PLACES
from tao_sdk.model.spec import JobSpec

STEPS = ("/engine/", "/backends/", "/store/", "/transports/")


class Steps:
    def __init__(self, last: int) -> None:
        self.last, self.count = last, 0

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not any(step in frame.f_code.co_filename for step in STEPS):
            return None
        if event == "line":
            self.count += 1
            if self.count == self.last:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def main() -> None:
    platform, state, marker, last = sys.argv[1:]
    client = PLACES[platform](Path(state).parent).client()
    spec = JobSpec(name="crash", command=f"echo started >> {marker}; sleep 0.2", gpu_count=0)
    steps = Steps(int(last))
    sys.settrace(steps)
    client.submit(spec, platform)
    sys.settrace(None)
    if steps.last == 0:
        print(steps.count)


if __name__ == "__main__":
    main()
