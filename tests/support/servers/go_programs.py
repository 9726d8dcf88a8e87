"""Programs in Go that the tests start: built once from pinned sources into .cache, whose own build
cache makes it quick.

Here: building. Not here: how each is started (s3_here.py, link_here.py).
"""

from __future__ import annotations

import fcntl
import functools
import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support import marks

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / ".cache" / "servers"
PACKAGES = {
    "versitygw": "github.com/versity/versitygw/cmd/versitygw",
    "minio": "github.com/minio/minio",
    "link": "./link",
}


def missing(words: str) -> Any:
    """Fail where everything must be tested, else skip and say why."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(
        f"the test's servers are not here: {words}"
    )


def program(name: str) -> Path:
    """The path of a program, built when its sources are newer."""
    marks.need("network")
    return built(name)


@functools.cache
def built(name: str) -> Path:
    CACHE.mkdir(parents=True, exist_ok=True)
    there = CACHE / name
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not there.exists() or there.stat().st_mtime < newest(name):
            build(name, there)
    return there


def newest(name: str) -> float:
    sources = [*(HERE / name).glob("*.go")] or [HERE / "go.sum"]
    return max(source.stat().st_mtime for source in sources)


def build(name: str, built: Path) -> None:
    if shutil.which("go") is None:
        missing("go is not installed, which builds them")
    argv = [
        "go",
        "build",
        "-p",
        "1",
        "-trimpath",
        "-ldflags",
        "-s -w",
        "-o",
        f"{built}.new",
        PACKAGES[name],
    ]
    home = pwd.getpwuid(
        os.getuid()
    ).pw_dir  # Go's caches lie there; a test may have a home of its own
    done = subprocess.run(
        argv, cwd=HERE, env={**os.environ, "HOME": home}, capture_output=True, text=True
    )
    if done.returncode:
        missing(f"{name} cannot be built: {done.stderr[-1000:]}")
    Path(f"{built}.new").replace(built)
