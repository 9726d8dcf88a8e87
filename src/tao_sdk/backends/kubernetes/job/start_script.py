"""The start script, which the container's shell runs around the job's command. Pure."""

from __future__ import annotations

import math
from pathlib import Path

from tao_sdk.backends.shell import SHARED_SCRIPTS, assign_variables, join_parts, load_script

SCRIPTS = Path(__file__).parents[1] / "scripts"
PARTS = "/.tao-job/parts"  # folder in the container: a long command, in parts
RUN = "/.tao-job/run"  # folder where the parts are put together


def start_script(limit: float | None, grace: int, rank0: str, in_parts: bool) -> str:
    """The script. `limit`, `grace`: seconds. `rank0`: the DNS name that each rank waits for; "" for
    a job with one pod.
    """
    values = {
        "tao_limit": str(math.ceil(limit)) if limit else "",
        "tao_grace": str(grace),
        "tao_tells": "yes",  # a kubelet signals only the first process of a container
        "tao_rank0": rank0,
        "tao_parts": PARTS if in_parts else "",
        "tao_run": RUN,
    }
    sleep = load_script(SHARED_SCRIPTS, "sleep") if limit else ""
    run_command = load_script(SHARED_SCRIPTS, "run_command")
    start = load_script(SCRIPTS, "start")
    return join_parts(assign_variables(values), sleep, run_command, start)
