"""What a plan's scripts do when a shell runs them: locks, timers, and where ranks meet."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from support.cluster.facts_here import (
    ATTEMPT,
    BASE,
    job,
    planned,
    staged,
)
from tao_sdk.backends.slurm.request import SlurmRequest
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.plan import Plan


@pytest.mark.parametrize("count", range(4))
def test_what_a_login_node_left_that_died_while_it_made_the_folders_is_completed(
    count: int, tmp_path: Path
) -> None:
    attempt = f"{tmp_path}/attempts/1"
    (tmp_path / "jobs").mkdir()
    where = f"base={tmp_path} job={tmp_path} a={attempt} logs={tmp_path}/logs k={attempt}.lock"
    functions = load_script("submit").partition("trap unlock EXIT")[0]
    lock = "\n".join(
        [
            where,
            load_script("attempt"),
            functions,
            "me=us",
            f"take_the_lock() {{ lock {tmp_path}/specs; }}",
        ]
    )
    dies = f"""left={count}
mkdir() {{ shift; for each; do [ $left -gt 0 ] || {{ kill -9 $$; exit; }}; left=$((left - 1)); command mkdir -p "$each"; done; }}
take_the_lock"""
    died = subprocess.run(["sh", "-c", f"{lock}\n{dies}"], check=False).returncode
    assert (died == -9) is (count < 3), "there are three folders"
    if died:
        subprocess.run(["sh", "-c", f"{lock}\ntake_the_lock"], check=True)
    assert all(Path(each).is_dir() for each in (attempt, f"{tmp_path}/logs", f"{tmp_path}/specs"))


def test_a_long_time_limit_is_written_in_digits() -> None:
    """Not every `sleep` knows 1e+06."""
    month = staged(planned(job(time_limit=timedelta(days=30)), partition="endless"), "task.sh")
    assert "tao_seconds=2462400\ntao_part=0\n" in month
    assert "tao_seconds=1\ntao_part=0.5\n" in staged(
        planned(job(), timeout=timedelta(seconds=1.5)), "task.sh"
    )


def limited_to(seconds: int, part: str) -> str:
    """Shell text that limits the time of what follows it; one second later that is killed."""
    return f'{load_script("limit_time")}\nlimit_time "$1" {seconds} {part} 1 >/dev/null 2>&1 &'


# In a pid namespace of its own: the command ends at once, and a stranger that leads a group of its
# own gets the command's pid. The timer's own short programs take pids too: the first tries may get
# the next one.
STRANGER = r"""
import os, subprocess, sys, time
folder, timer = sys.argv[1:]
command = subprocess.Popen(["sh", "-c", f"set -- {folder}\n{timer}\nexec true"])
command.wait()
for attempt in range(100):
    with open("/proc/sys/kernel/ns_last_pid", "w") as last:
        last.write(str(command.pid - 1))
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    if stranger.pid == command.pid:
        break
    stranger.kill()
    stranger.wait()
assert stranger.pid == command.pid
time.sleep(4)
print("alive" if stranger.poll() is None else "killed")
stranger.kill()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="a pid namespace needs root")
def test_the_timer_of_a_command_that_has_ended_signals_nobody_who_has_its_pid(
    tmp_path: Path,
) -> None:
    timer = limited_to(2, "0")
    isolated = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        sys.executable,
        "-c",
        STRANGER,
        str(tmp_path),
        timer,
    ]
    said = subprocess.run(isolated, capture_output=True, text=True, check=True).stdout
    assert said == "alive\n"
    assert not (tmp_path / "timed_out").exists()


@pytest.mark.slow
def test_the_timer_ends_a_command_that_goes_on_and_then_kills_it(tmp_path: Path) -> None:
    timer = limited_to(1, "0.5")
    script = (
        f'set -- {tmp_path}\n{timer}\nexec sh -c \'trap "echo asked" '
        "TERM; while :; do sleep 0.1; done'"
    )
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, start_new_session=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (-9, "asked")
    assert (tmp_path / "timed_out").exists()


def run_batch(
    plan: Plan[SlurmRequest], folder: Path, functions: str
) -> subprocess.CompletedProcess[str]:
    """Run a plan's batch script below a folder of this machine, with these functions in the place
    of SLURM's programs.
    """
    (folder / "jobs" / ATTEMPT.job_id / "attempts" / "1").mkdir(parents=True)
    script = f"srun() {{ :; }}\n{functions}\n{plan.request.script.replace(BASE, str(folder))}"
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ["$(touch ran)", "a b", "'; touch ran; '", ""])
def test_a_node_whose_name_is_no_host_name_is_never_part_of_a_sourced_file(
    name: str, tmp_path: Path
) -> None:
    done = run_batch(
        planned(job(num_nodes=2)), tmp_path, f"scontrol() {{ printf '%s\\n' {shlex.quote(name)}; }}"
    )
    assert done.returncode == 125
    assert "no host name" in done.stderr
    assert not list(tmp_path.rglob("meeting.sh"))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("gpus", "port"), [(8, "29500"), (2, "15017")])
def test_the_meeting_port_is_fixed_on_whole_nodes_and_of_the_job_elsewhere(
    gpus: int, port: str, tmp_path: Path
) -> None:
    run_batch(
        planned(job(gpu_count=gpus, num_nodes=2)),
        tmp_path,
        "SLURM_JOB_ID=17; scontrol() { echo n1; echo n2; }",
    )
    [meeting] = tmp_path.rglob("meeting.sh")
    assert meeting.read_text() == f"export MASTER_ADDR='n1' MASTER_PORT='{port}'\n"
