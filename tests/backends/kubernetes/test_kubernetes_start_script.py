"""What a rank's container does before its command, run here by a shell."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tao_sdk.backends.kubernetes.job.start_script import start_script

RANK_0 = "job-0.job"


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def start_rank(folder: Path, shell: str = "sh") -> subprocess.CompletedProcess[str]:
    script = start_script(None, 30, RANK_0, in_parts=False)
    return subprocess.run(
        [shell, "-c", script, "tao", "echo begun"],
        env={"PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
        start_new_session=True,
        check=False,
    )


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_rank_starts_its_command_once_rank_0_is_found_by_name(tmp_path: Path, shell: str) -> None:
    tries = tmp_path / "tries"
    program(tmp_path, "sleep", "exit 0")
    program(tmp_path, "getent", f'echo "$2" >>{tries}; [ "$(wc -l <{tries})" -ge 3 ]')
    ran = start_rank(tmp_path, shell)
    assert (ran.returncode, ran.stdout) == (0, "begun\n")
    assert tries.read_text() == f"{RANK_0}\n" * 3


def test_rank_0_is_waited_for_by_the_clock_however_long_a_try_takes(tmp_path: Path) -> None:
    """Each try takes a hundred seconds of a clock that the test moves."""
    clock = tmp_path / "clock"
    clock.write_text("1000")
    program(tmp_path, "sleep", "exit 0")
    program(tmp_path, "date", f"cat {clock}")
    program(tmp_path, "getent", f"echo $(($(cat {clock}) + 100)) >{clock}; exit 2")
    ran = start_rank(tmp_path)
    assert (ran.returncode, ran.stdout) == (125, "")
    event = json.loads(ran.stderr.removeprefix("@tao "))
    assert event["what"] == f"rank 0 ({RANK_0}) was not found by name"
    assert event["time"] == 1300
