"""Does one thing of the SDK as often as it is asked, each time in a new fork that kills itself with
SIGKILL at the n-th line of the SDK that it executes.

Run as: -m support.crash PLATFORM STATE_DIR. A line of JSON on stdin asks for one:
{"verb": "submit", "of": FILE, "at": N}, where the job appends to the file, or
{"verb": "retry", "of": JOB, "at": N}. A line of JSON answers: {"code": ..., "steps": ...}, the
exit code, and how many lines there were if it lived to the end, as it does with N = 0.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from support.places import PLACES
from tao_sdk.backends.by_name import backend_class
from tao_sdk.client import Client
from tao_sdk.model.spec import JobSpec

STEPS = ("/engine/", "/backends/", "/store/", "/transports/")
LIMIT_SECONDS = 300  # of a fork that neither ends nor dies


class Steps:
    """Counts the lines, and kills this process at the last of them."""

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


def submit(client: Client, platform: str, marker: str) -> None:
    command = f"echo started >> {marker}; sleep 0.2"
    client.submit(JobSpec(name="crash", command=command, gpu_count=0), platform)


def retry(client: Client, platform: str, job: str) -> None:
    del platform
    client.retry_job(job)


VERBS: dict[str, Callable[[Client, str, str], None]] = {"submit": submit, "retry": retry}


def count_steps(platform: str, state: Path, asked: dict[str, Any]) -> int:
    client = PLACES[platform](state.parent).client()
    steps = Steps(asked["at"])
    sys.settrace(steps)
    VERBS[asked["verb"]](client, platform, asked["of"])
    sys.settrace(None)
    return steps.count


def run_in_fork(platform: str, state: Path, asked: dict[str, Any]) -> dict[str, int]:
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(LIMIT_SECONDS)
        os.write(theirs, str(count_steps(platform, state, asked)).encode())
        os._exit(0)
    os.close(theirs)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(ours) as counted:
        return {"code": os.waitstatus_to_exitcode(status), "steps": int(counted.read() or 0)}


def take_stdin_and_stdout() -> tuple[TextIO, TextIO]:
    """What the SDK starts reads no request and writes no answer."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return requests, answers


def main() -> None:
    platform, state = sys.argv[1:]
    requests, answers = take_stdin_and_stdout()
    backend_class(platform)  # loaded before the forks: its lines are no steps
    for line in requests:
        done = run_in_fork(platform, Path(state), json.loads(line))
        print(json.dumps(done), file=answers, flush=True)


if __name__ == "__main__":
    main()
