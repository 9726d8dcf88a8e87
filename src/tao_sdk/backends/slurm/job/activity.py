"""Activity: what SLURM has measured of a running job, and the command that looks into it.

SLURM tells the CPU time of each step, and of no process what it waits in.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime, timedelta

from tao_sdk.backends.shell import assign_variables, join_parts
from tao_sdk.backends.slurm.job.paths import Paths
from tao_sdk.backends.slurm.scripts.handover import plain_start
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.activity import Activity
from tao_sdk.model.clock import utc_now
from tao_sdk.model.plan import Ref
from tao_sdk.model.units import parse_duration
from tao_sdk.transports.ssh import Login, Ssh
from tao_sdk.transports.ssh_client import login_flags, split_address

LOOK_SECONDS = 20  # the script's own limits are shorter


def look_into(ssh: Ssh, ref: Ref) -> Activity:
    """Return what SLURM has measured of the attempt's job. One exec. Raises Unreachable."""
    answer = ssh.run(activity_script(ref), seconds=LOOK_SECONDS)
    return read_activity(answer.text, enter_command(ssh.login, answer.host, ref.native_id))


def activity_script(ref: Ref) -> str:
    """scripts/activity.sh for one attempt."""
    at = Paths(ref.namespace, ref.attempt.job_id, ref.attempt.number)
    values = {"slurm_id": ref.native_id, "logs": at.logs}
    return join_parts(plain_start(), assign_variables(values), load_script("activity"))


def read_activity(text: str, enter: str) -> Activity:
    """The activity in the script's output. Pure but for the clock."""
    times = list(cpu_times(text))
    return Activity(
        log_changed_at=log_change(text),
        cpu_seconds=sum(times) if times else None,
        enter=enter,
    )


def cpu_times(text: str) -> Iterator[float]:
    """The CPU seconds of each step: its tasks, times their average. Skips what is no time."""
    for line in text.splitlines():
        tasks, bar, average = line.removeprefix("cpu ").partition("|")
        if not line.startswith("cpu ") or not bar or not tasks.isdigit():
            continue
        try:
            yield int(tasks) * parse_duration(average.partition(".")[0]).total_seconds()
        except (ValueError, OverflowError):
            continue


def log_change(text: str) -> datetime | None:
    """The time of the newest output, by this machine's clock; None if there is no log yet."""
    for line in text.splitlines():
        word, _, seconds = line.partition(" ")
        if word == "silent":
            return moment_before_now(seconds)
    return None


def moment_before_now(seconds: str) -> datetime | None:
    """So many seconds ago; None for what is no such time. A job may give its log any time."""
    try:
        return utc_now() - timedelta(seconds=max(int(seconds), 0))
    except (ValueError, OverflowError):
        return None


def enter_command(login: Login, host: str, slurm_id: str) -> str:
    """The command that opens a shell on the first node of the job, in its allocation."""
    name, port = split_address(host)
    flags = login_flags(login.user, port, login.key, login.config)
    step = f"srun --jobid={shlex.quote(slurm_id)} --overlap --nodes=1 --ntasks=1 --pty bash"
    return shlex.join(["ssh", "-t", *flags, name, step])
