"""Two daemons that config.yaml names, and this machine, in one store and in one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.caller import caller_environment
from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import BUSYBOX, Daemon
from support.tao_command import run_tao_here
from tao_sdk.client import Client
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.platforms.docker import DockerSDK

Environment = dict[str, str]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with dockerd_here.alone_with_busybox(tmp_path_factory.mktemp("here")) as here:
        yield here


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with dockerd_here.alone_with_busybox(tmp_path_factory.mktemp("there")) as there:
        yield there


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """The environment of somebody with a home of his own, who names no daemon."""
    monkeypatch.chdir(tmp_path)
    return caller_environment(tmp_path, DOCKER_NETWORK="none")


@pytest.fixture
def named(environ: Environment, here: Daemon, there: Daemon) -> Environment:
    """The same with a config.yaml that names both daemons."""
    config = Path(environ["HOME"], ".config/tao/config.yaml")
    config.parent.mkdir(parents=True)
    config.write_text(
        f"endpoints:\n  desk: {{platform: docker, docker_host: '{here.host}'}}\n"
        f"  gpu-box: {{platform: docker, docker_host: '{there.host}'}}\n"
    )
    return environ


def submit(client: Client, place: str, command: str) -> Job:
    spec = JobSpec(image="" if place == "local" else BUSYBOX, command=command, gpu_count=0)
    return client.submit(spec, place).job


def test_jobs_of_two_daemons_and_of_this_machine_live_in_one_process(
    named: Environment, here: Daemon, there: Daemon
) -> None:
    with Client(settings=Settings(named)) as client:
        jobs = {
            place: submit(client, place, f"echo on {place}; sleep 60")
            for place in ("desk", "gpu-box", "local")
        }
        for place, job in jobs.items():
            dockerd_here.until(
                lambda job=job, place=place: f"on {place}" in client.get_job_logs(job.id)
            )
        listed = {job.id: job for job in client.list_jobs()}
        assert {job.endpoint_name for job in listed.values()} == {"desk", "gpu-box", ""}
        assert {job.status for job in listed.values()} == {Status.RUNNING}
        assert [job.id for job in client.list_jobs(platform="gpu-box")] == [jobs["gpu-box"].id]
        assert {job.id for job in client.list_jobs(platform="docker")} == {
            jobs["desk"].id,
            jobs["gpu-box"].id,
        }
        for place, daemon in (("desk", here), ("gpu-box", there)):
            assert (
                f"tao-job-{jobs[place].id}" in daemon.docker("ps", "--format", "{{.Names}}").stdout
            )
        assert client.cancel_jobs([job.id for job in jobs.values()], grace=0) == {
            job.id: True for job in jobs.values()
        }
        assert client.retry_job(jobs["gpu-box"].id).endpoint_name == "gpu-box"
        assert (
            f"tao-job-{jobs['gpu-box'].id}" in there.docker("ps", "--format", "{{.Names}}").stdout
        )
        anew = client.submit_again(jobs["gpu-box"].id).job
        assert (anew.platform, anew.endpoint_name) == ("docker", "gpu-box")
        for job in client.list_jobs(look=False):
            assert client.remove(job.id, force=True)
        assert "tao-job" not in there.docker("ps", "-a", "--format", "{{.Names}}").stdout


def test_a_job_is_reached_through_its_own_endpoint_whatever_the_settings_are_by_now(
    environ: Environment, here: Daemon, there: Daemon
) -> None:
    with Client(settings=Settings({**environ, "DOCKER_HOST": there.host})) as client:
        job = submit(client, "docker", "echo there; sleep 60")
    with Client(settings=Settings({**environ, "DOCKER_HOST": here.host})) as client:
        dockerd_here.until(lambda: "there" in client.get_job_logs(job.id))
        assert client.get_job(job.id).status is Status.RUNNING
        assert client.cancel_job(job.id, grace=0)
        assert client.remove(job.id)
    assert "tao-job" not in there.docker("ps", "-a", "--format", "{{.Names}}").stdout


def test_an_endpoint_that_is_away_blinds_only_its_own_jobs_and_is_named(
    named: Environment, there: Daemon
) -> None:
    with Client(settings=Settings(named)) as client:
        near, far = (submit(client, place, "sleep 60") for place in ("desk", "gpu-box"))
        dockerd_here.until(lambda: client.get_job(far.id).status is Status.RUNNING)
        there.stop()
        seen = {job.id: job for job in client.list_jobs()}
        assert seen[near.id].status is Status.RUNNING
        assert "not seen now" not in seen[near.id].message
        assert "not seen now" in seen[far.id].message
        assert there.host.removeprefix("unix://") in seen[far.id].message
        there.start()
        dockerd_here.until(lambda: "not seen now" not in client.get_job(far.id).message)
        for job in (near, far):
            client.remove(job.id, force=True)


def test_the_command_takes_the_name_of_an_endpoint_where_it_takes_a_platform(
    named: Environment, there: Daemon
) -> None:
    def tao(*words: str, code: int = 0) -> str:
        ran = run_tao_here(named, Path.cwd(), *words)
        assert ran.code == code, ran.err
        return ran.out

    Path("job.yaml").write_text(
        f"name: by-file\nplatform: gpu-box\nimage: {BUSYBOX}\ngpu_count: "
        "0\ncommand: echo by file; sleep 60\n"
    )
    assert "gpu-box" in tao("run", "--detach", "job.yaml", "--pull", "never")
    tao(
        "run",
        "--platform",
        "gpu-box",
        "--image",
        BUSYBOX,
        "--gpus",
        "0",
        "--name",
        "by-flag",
        "--",
        "echo",
        "by flag",
    )
    tao(
        "run",
        "--platform",
        "desk",
        "--image",
        BUSYBOX,
        "--gpus",
        "0",
        "--name",
        "at-desk",
        "--",
        "true",
    )
    listed = tao("ls")
    assert listed.splitlines()[0].split()[:4] == ["ID", "PLATFORM", "ENDPOINT", "STATUS"]
    assert [line.split()[2] for line in listed.splitlines()[1:]] == ["desk", "gpu-box", "gpu-box"]
    assert "at-desk" not in tao("ls", "--platform", "gpu-box")
    assert tao("logs", "by-flag") == "by flag\n"
    assert there.host in tao(
        "plan", "--platform", "gpu-box", "--image", BUSYBOX, "--json", "--gpus", "0", "--", "true"
    )
    assert "gpu-box" in tao("doctor", "gpu-box")
    assert tao("doctor", "job.yaml").startswith("gpu-box")
    assert tao("files", "--platform", "gpu-box", "/").strip()
    tao("cancel", "--grace", "0s", "by-file")
    for name in ("by-file", "by-flag", "at-desk"):
        tao("rm", name)


def test_an_sdk_of_an_endpoint_runs_there_and_lists_what_is_there(
    named: Environment, there: Daemon
) -> None:
    with (
        DockerSDK(endpoint="desk", settings=Settings(named), watch=False) as desk,
        DockerSDK(endpoint="gpu-box", settings=Settings(named), watch=False) as box,
    ):
        jobs = [sdk.create_job(BUSYBOX, "sleep 60", gpu_count=0) for sdk in (desk, box)]
        assert [[job.id for job in sdk.list_jobs()] for sdk in (desk, box)] == [
            [job.id] for job in jobs
        ]
        assert f"tao-job-{jobs[1].id}" in there.docker("ps", "--format", "{{.Names}}").stdout
        for job in jobs:
            assert box.cancel_job(job.id, grace=0)
            box.remove(job.id)
