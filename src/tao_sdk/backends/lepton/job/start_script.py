"""The start script, which bash runs around the job's command in each replica. Pure."""

from __future__ import annotations

import math
from pathlib import Path

from tao_sdk.backends.shell import SHARED_SCRIPTS, assign_variables, join_parts, load_script

SCRIPTS = Path(__file__).parents[1] / "scripts"
EARLY = "trap 'tao_early=1' TERM"  # the first line: the first process would else ignore SIGTERM


def start_script(limit: float | None, grace: int, mark: str) -> str:
    """The script. `limit`, `grace`: seconds. `mark`: how the last line of the log begins."""
    values = {
        "tao_limit": str(math.ceil(limit)) if limit else "",
        "tao_grace": str(grace),
        "tao_tells": "yes",  # a container runtime signals the first process alone
        "tao_mark": mark,
    }
    sleep = load_script(SHARED_SCRIPTS, "sleep")
    run_command = load_script(SHARED_SCRIPTS, "run_command")
    start = load_script(SCRIPTS, "start")
    return join_parts(EARLY, assign_variables(values), sleep, run_command, start)
