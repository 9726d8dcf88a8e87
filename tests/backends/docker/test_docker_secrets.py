"""A canary in every field that can hold a secret reaches the command and is found nowhere else."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import BUSYBOX, PYTHON, Daemon
from tao_sdk.client import Client
from tao_sdk.engine import cancel
from tao_sdk.model.secrets import Secret
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

CANARY = "k4n4ry-'\"$(id)`\\ ü\nsecond line"
CREDENTIALS = (
    "ACCESS_KEY",
    "SECRET_KEY",
    "NGC_KEY",
    "HF_TOKEN",
    "S3_ENDPOINT_URL",
    "S3_BUCKET_NAME",
    "CLOUD_REGION",
)
INSIDE = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "NGC_KEY",
    "HF_TOKEN",
    "AWS_ENDPOINT_URL",
    "S3_BUCKET_NAME",
    "AWS_REGION",
)


def digest(name: str, value: str) -> str:
    return f"{name} {hashlib.sha256(value.encode()).hexdigest()}"


@pytest.mark.parametrize("user", ["", "1234:1234", "plain"])
def test_a_canary_in_every_field_is_found_nowhere_in_the_open(
    surroundings: dict[str, str], here: Daemon, tmp_path: Path, user: str
) -> None:
    values = {name: f"k4n4ry-{name}-{number}-{CANARY}" for number, name in enumerate(CREDENTIALS)}
    # Of the store's settings only what can stand in a request is taken.
    values |= {
        "S3_BUCKET_NAME": "k4n4ry-bucket",
        "CLOUD_REGION": "k4n4ry-region",
        "S3_ENDPOINT_URL": "http://k4n4ry.invalid",
    }
    values |= {"ACCESS_KEY": "k4n4ry'access\"$(id)`\\", "SECRET_KEY": "k4n4ry'secret\"$(id)`\\"}
    given = {
        "MARKED": f"k4n4ry-marked-{CANARY}",
        "PLAIN": "k4n4ry-plain",
        "WRAPPED": Secret(f"k4n4ry-wrapped-{CANARY}"),
    }
    names = [*INSIDE, *given]
    say = "; ".join(
        f'printf "%s %s\\n" {name} "$(printf %s "${name}" | sha256sum | cut -d" " -f1)"'
        for name in names
    )
    image = BUSYBOX if user == "plain" else PYTHON
    spec = JobSpec(
        image=image, command=f"{say}; sleep 300", gpu_count=0, env_vars=given, secrets=("MARKED",)
    )
    with Client(settings=Settings({**surroundings, **values})) as client:
        job = client.submit(spec, "docker", {"user": user}).job
        dockerd_here.until(
            lambda: client.get_job_logs(job.id).count("\n") == len(names),
            words=lambda: client.get_job_logs(job.id),
        )
        expected = [
            digest(inside, values[name]) for inside, name in zip(INSIDE, CREDENTIALS, strict=True)
        ]
        expected += [
            digest(name, value.value if isinstance(value, Secret) else value)
            for name, value in given.items()
        ]
        assert sorted(client.get_job_logs(job.id).splitlines()) == sorted(expected)
        container = f"tao-job-{job.id}"
        assert "k4n4ry" not in here.docker("inspect", container).stdout
        assert "k4n4ry" not in here.docker("ps", "-a", "--no-trunc").stdout
        assert "k4n4ry" not in arguments() + (here.folder / "dockerd.log").read_text()
        client.cancel_job(job.id, grace=0)
        exported = subprocess.run(
            ["docker", "-H", here.host, "export", container], capture_output=True, check=True
        )
        assert b"k4n4ry" not in exported.stdout
        changed = here.docker("diff", container).stdout.split()
        assert "/.tao-job/env" not in changed
        files = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
        assert not [
            path
            for path in files
            if b"k4n4ry-marked" in path.read_bytes() or b"k4n4ry-NGC" in path.read_bytes()
        ]
        client.remove(job.id)


def arguments() -> str:
    found = ""
    for process in Path("/proc").iterdir():
        try:
            found += (
                (process / "cmdline").read_text(errors="replace") if process.name.isdigit() else ""
            )
        except OSError:
            continue
    return found


def test_what_steers_the_sdk_and_the_callers_environment_do_not_enter(
    surroundings: dict[str, str],
) -> None:
    with Client(
        settings=Settings(
            {**surroundings, "DOCKER_NETWORK": "", "MONGOSECRET": "no", "LC_NAME": "mine"}
        )
    ) as client:
        spec = JobSpec(
            image=PYTHON, command="env", gpu_count=0, env_vars={"BACKEND": "x", "MINE": "1"}
        )
        job = client.submit(spec, "docker").job
        client.wait(job.id, timeout=300)
        seen = dict(
            line.split("=", 1) for line in client.get_job_logs(job.id).splitlines() if "=" in line
        )
        client.remove(job.id)
    assert seen["MINE"] == "1"
    assert seen["TAO_JOB_ID"] == job.id
    assert not {
        "BACKEND",
        "HOST_PLATFORM",
        "MONGOSECRET",
        "DOCKER_HOST",
        "DOCKER_NETWORK",
        "LC_NAME",
    } & set(seen)


KILLED = """
import os, signal, sys
from tao_sdk.client import Client
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec

def at_the_start(frame, event, arg):
    told = frame.f_locals
    if frame.f_code.co_name == "ask" and str(told.get("path", "")).endswith("/start"):
        if event == "return" or not AFTER:
            os.kill(os.getpid(), signal.SIGKILL)
    return at_the_start

AFTER = sys.argv[2] == "after"
client = Client(settings=Settings(os.environ))
sys.settrace(at_the_start)
client.submit(JobSpec(image=sys.argv[1], command="echo $NGC_KEY | sha256sum", gpu_count=0), "docker")
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "size", [20, 100_000]
)  # what a connection takes at once, and what it does not
def test_a_client_killed_before_or_after_the_start_leaves_no_secret_behind(
    surroundings: dict[str, str], here: Daemon, tmp_path: Path, when: str, size: int
) -> None:
    value = "k4n4ry" + "x" * size
    told = {**surroundings, "NGC_KEY": value}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, BUSYBOX, when], env=told, capture_output=True, text=True
    )
    assert killed.returncode == -9, killed.stderr
    with Client(settings=Settings(told)) as client:
        job = client.list_jobs(look=False)[0]
        container = here.inspect(f"tao-job-{job.id}")
        assert when == "after" or container["State"]["Status"] == "created"
        assert not left_behind(here, container)
        assert client.wait(job.id, timeout=300).status is Status.COMPLETE
        assert (
            client.get_job_logs(job.id).split()[0]
            == hashlib.sha256(f"{value}\n".encode()).hexdigest()
        )
        assert not left_behind(here, here.inspect(f"tao-job-{job.id}"))
        client.remove(job.id)


HALF = """
import time
from tao_sdk.transports import dockerd
dockerd.send_input = lambda line, data: line.sendall(data[: len(data) // 2]) or time.sleep(60)
"""


@pytest.fixture
def half_told(surroundings: dict[str, str]) -> dict[str, str]:
    """The surroundings of a client that was killed when the container had begun and had half of its
    environment.
    """
    told = {**surroundings, "NGC_KEY": "k4n4ry" + "x" * 100_000}
    argv = [sys.executable, "-c", HALF + KILLED, BUSYBOX, "after"]
    assert subprocess.run(argv, env=told, capture_output=True).returncode == -9
    return told


def test_a_container_that_got_half_of_its_environment_runs_nothing_and_is_started_anew(
    half_told: dict[str, str], here: Daemon
) -> None:
    with Client(settings=Settings(half_told)) as client:
        job = client.list_jobs(look=False)[0]
        half = here.inspect(f"tao-job-{job.id}")["Id"]
        assert client.wait(job.id, timeout=300).status is Status.COMPLETE
        digest = hashlib.sha256(f"{half_told['NGC_KEY']}\n".encode()).hexdigest()
        assert client.get_job_logs(job.id).split()[0] == digest
        assert (
            client.get_job(job.id).attempt,
            here.inspect(f"tao-job-{job.id}")["Id"] == half,
        ) == (1, False)
        client.remove(job.id)


def test_a_container_that_got_half_of_its_environment_can_be_canceled(
    half_told: dict[str, str], here: Daemon
) -> None:
    with Client(settings=Settings(half_told)) as client:
        job = client.list_jobs(look=False)[0]
        dockerd_here.until(lambda: here.inspect(f"tao-job-{job.id}")["State"]["ExitCode"] == 125)
        cancel.ask(client.engine, job)
        assert client.cancel_job(job.id) is True
        assert client.get_job(job.id).status is Status.CANCELED
        assert here.docker("ps", "-aq", "--filter", f"name={job.id}").stdout == ""
        client.remove(job.id)


def left_behind(here: Daemon, container: dict[str, Any]) -> list[Path]:
    """What the daemon keeps of a container on its disk, and that holds the canary."""
    folders = [
        Path(container["GraphDriver"]["Data"]["UpperDir"]),
        here.data / "containers" / container["Id"],
    ]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if b"k4n4ry" in path.read_bytes()]
