"""What /bin/sh does in a container before the command, as shellcheck reads it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from support.shellcheck import complaints_of_text
from tao_sdk.backends.containers.start_script import MAX_ARGUMENT, NOT_BEGUN, start_script

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("takes_environment", [False, True])
@pytest.mark.parametrize("time_limit", [None, timedelta(minutes=1)])
@pytest.mark.parametrize("command", ["train", "x" * (MAX_ARGUMENT + 1)])
def test_shellcheck_has_nothing_to_say_of_the_start_script(
    command: str, time_limit: timedelta | None, takes_environment: bool
) -> None:
    assert complaints_of_text(start_script(command, time_limit, takes_environment)) == []


# A time limit in images that lack programs. Each is a PATH with few programs, and a shell to begin with.

SHELLS = [["dash"], ["busybox", "sh"], ["bash", "--posix"]]
CLOCKS = ["sleep", "bash", "python3"]
SAVES = "trap 'echo saved; exit 0' TERM; echo begun; while :; do :; done"


def run_limited(
    folder: Path, shell: list[str], programs: list[str], command: str, seconds: int
) -> tuple[int, str]:
    """The exit code and the output of a command with a time limit, in a shell that finds only
    these programs.
    """
    for program in programs:
        found = sys.executable if program == "python3" else shutil.which(program)
        file = folder / program
        file.write_text(f'#!{shutil.which("dash")}\nexec {found} "$@"\n')
        file.chmod(0o755)
    script = start_script(command, timedelta(seconds=seconds), takes_environment=False)
    first = str(shutil.which(shell[0]))
    with (folder / "output").open("w+b") as output:
        job = subprocess.Popen(
            [first, *shell[1:], "-c", script, "tao", command],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env={"PATH": str(folder)}, start_new_session=True,
        )  # fmt: skip
        code = job.wait(timeout=300)
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)  # as the container ends what is left
    return code, (folder / "output").read_text()


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
@pytest.mark.parametrize("clock", CLOCKS)
def test_a_time_limit_holds_in_an_image_without_timeout(
    shell: list[str], clock: str, tmp_path: Path
) -> None:
    assert run_limited(tmp_path, shell, [clock], SAVES, 1) == (124, "begun\nsaved\n")


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_no_shell_says_in_the_log_how_the_time_limit_ended_the_command(
    shell: list[str], tmp_path: Path
) -> None:
    command = "echo begun; while :; do :; done"
    assert run_limited(tmp_path, shell, ["bash"], command, 1) == (124, "begun\n")


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_a_command_that_ends_in_time_keeps_its_code_in_an_image_without_timeout(
    shell: list[str], tmp_path: Path
) -> None:
    assert run_limited(tmp_path, shell, ["bash"], "echo done; exit 3", 300) == (3, "done\n")


def test_a_command_that_ignores_its_time_limit_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tao_sdk.backends.containers.start_script.GRACE", 1)
    command = "trap '' TERM; while :; do :; done"
    assert run_limited(tmp_path, ["dash"], ["bash"], command, 1)[0] in (-9, 137)


def test_a_command_whose_time_limit_cannot_be_kept_does_not_begin(tmp_path: Path) -> None:
    code, output = run_limited(tmp_path, ["dash"], [], "echo begun", 300)
    assert code == NOT_BEGUN
    event = json.loads(output.removeprefix("@tao "))
    assert (event["event"], event["code"]) == ("failed", "start.no_clock")
