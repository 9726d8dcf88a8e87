"""What the shell of a login node may bring along: programs that say more than they are asked for,
and settings of the user.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from support.cluster.cluster_here import Cluster, until
from tao_sdk.backends.contract import cancel_one, read_plan
from tao_sdk.backends.slurm.backend import SlurmBackend
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.client import Client
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.observation import Phase
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

SAYS = """#!/bin/sh
echo '------------'; echo ' Welcome | to the cluster'; echo '--> Verifying ... OK'
echo '{name}: warning: on Monday the site is down' >&2
exec /usr/bin/{name} "$@"
"""


@pytest.fixture
def home(cluster: Cluster) -> Iterator[Path]:
    """The user's home on the login nodes; as it was, afterwards."""
    here = cluster.folder / "home" / "taouser"
    yield here
    (here / ".bashrc").unlink(missing_ok=True)
    shutil.rmtree(here / "bin", ignore_errors=True)


@pytest.fixture
def backend(client: Client) -> SlurmBackend:
    here = client.engine.backend("slurm")
    assert isinstance(here, SlurmBackend)
    return here


def submit(client: Client, command: str, **more: str) -> Job:
    return client.submit(JobSpec(command=command, gpu_count=0, cpus=1), "slurm", more).job


def status_of(client: Client, made: Job) -> Callable[[], Status]:
    return lambda: client.get_job(made.id).status


def talkative(home: Path, *names: str) -> None:
    (home / "bin").mkdir()
    for name in names:
        (home / "bin" / name).write_text(SAYS.format(name=name))
        (home / "bin" / name).chmod(0o755)
    (home / ".bashrc").write_text(f"PATH={home}/bin:$PATH\n")


def test_what_a_sites_programs_say_beside_their_answers_is_none(
    cluster: Cluster, client: Client, backend: SlurmBackend, home: Path
) -> None:
    talkative(home, "sbatch", "squeue", "sacct", "scancel")
    made = submit(client, "sleep 60")
    row = client.store.attempt(made.id)
    assert row.ref is not None
    assert cluster.jobs() == [row.ref.native_id]
    until(lambda: status_of(client, made)() is Status.RUNNING)
    plan = read_plan(backend, row)
    again = backend.plan_again(
        plan,
        PreparedJob(JobSpec(command="true"), "true"),
        SlurmOptions(),
        replace(row.attempt, number=2),
    )
    with pytest.raises(Unreachable, match=f"SLURM job {row.ref.native_id}, is still RUNNING"):
        backend.submit(again, {})
    attempts = cluster.path(str(made.backend_details["job_dir"])) / "attempts"
    (attempts / "1" / "slurm_id").unlink()  # found by its name, then
    assert backend.find(row.attempt, plan) == row.ref
    assert client.cancel_job(made.id, grace=1) is True
    assert client.get_job(made.id).status is Status.CANCELED
    assert cancel_one(backend, row.ref, timedelta(0)).phase is Phase.CANCELED
    assert backend.submit(again, {}).native_id == str(int(row.ref.native_id) + 1)


def test_an_attempt_that_was_begun_and_never_reached_slurm_is_not_taken_for_what_its_programs_say(
    cluster: Cluster, client: Client, backend: SlurmBackend, home: Path
) -> None:
    talkative(home, "squeue", "sacct")
    planned = client.plan(JobSpec(command="true", gpu_count=0), "slurm").plan
    begun = planned.request.job_dir
    cluster.login(
        f"umask 077; mkdir -p {begun}/attempts/1 {begun}/slurm-logs/attempt-1; cd {begun}; mkdir sbatch specs env meta; "
        f"printf %s {planned.attempt.store_id} >attempts/1/store"
    )
    assert backend.find(planned.attempt, planned) is None
    assert backend.submit(planned, {}).native_id.isdigit()


def settings(home: Path, **values: str) -> None:
    (home / ".bashrc").write_text(
        "".join(f"export {name}={value}\n" for name, value in values.items())
    )


def test_what_the_users_shell_sets_for_other_programs_of_slurm_hides_nothing_and_keeps_nothing_alive(
    client: Client, home: Path
) -> None:
    settings(
        home, SLURM_TIME_FORMAT="relative", SQUEUE_PARTITION="long", SQUEUE_ACCOUNT="otheracct",
        SQUEUE_QOS="short",
        SQUEUE_USERS="otheruser", SQUEUE_FORMAT="%i", SQUEUE_FORMAT2="jobid",
        SCANCEL_INTERACTIVE="1",
        SCANCEL_PARTITION="long", SCANCEL_NAME="other", SCANCEL_STATE="PENDING",
    )  # fmt: skip
    made = submit(client, "sleep 60")
    until(
        lambda: status_of(client, made)() is Status.RUNNING,
        words=lambda: str(client.get_job(made.id)),
    )
    started = client.get_job(made.id).started
    assert started is not None
    assert started.microsecond == 0, "told by SLURM"
    assert client.cancel_job(made.id, grace=1) is True
    assert client.get_job(made.id).status is Status.CANCELED


def test_what_the_users_shell_sets_for_sbatch_does_not_change_what_the_plan_says(
    cluster: Cluster, client: Client, home: Path
) -> None:
    settings(
        home, SBATCH_PARTITION="long", SBATCH_TIMELIMIT="7", SBATCH_QOS="short",
        SBATCH_GRES="gpu:1", SBATCH_WAIT="1",
        SBATCH_MEM_PER_NODE="77", SBATCH_EXCLUSIVE="user", SBATCH_NO_REQUEUE="1",
        SBATCH_ARRAY_INX="0-2",
        SBATCH_ACCOUNT="otheracct",
    )  # fmt: skip
    made = submit(client, "sleep 60", partition="grizzly", qos="normal")
    asked = "%P %l %q %b %m %h %a %i"
    id = made.backend_details["slurm_job_id"]
    shown = cluster.ask("squeue", "-h", "-o", asked).stdout.split()
    assert shown == ["grizzly", "4:00:00", "normal", "N/A", "64M", "OK", "taoacct", id]
    assert "Requeue=1" in cluster.ask("scontrol", "show", "job", id).stdout
