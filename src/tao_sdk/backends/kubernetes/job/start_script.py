"""Start script: what the shell does in the container before and after the job's command. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SCRIPTS = Path(__file__).parents[1] / "scripts"
PARTS = "/.tao-job/parts"  # folder in the container: a long command, in parts
RUN = "/.tao-job/run"  # folder where the parts are put together


@cache
def body() -> str:
    """scripts/start.sh without its head."""
    text = (SCRIPTS / "start.sh").read_text(encoding="utf-8")
    return text.partition("\n\n")[2]


def start_script(limit: float | None, grace: int, rank0: str, in_parts: bool) -> str:
    """`rank0`: the name that each rank waits for; "" of a job with one pod."""
    values: Mapping[str, str] = {
        "tao_limit": f"{limit:g}" if limit else "",
        "tao_grace": str(grace),
        "tao_rank0": rank0,
        "tao_parts": PARTS if in_parts else "",
        "tao_run": RUN,
    }
    given = "\n".join(f"{name}={shlex.quote(value)}" for name, value in values.items())
    return f"{given}\n{body()}"
