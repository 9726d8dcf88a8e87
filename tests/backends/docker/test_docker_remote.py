"""Daemons elsewhere: over TLS, and those that a docker context names."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import BUSYBOX, Daemon
from support.servers.ports import free_port
from support.tao_command import run_tao_here
from tao_sdk.backends.docker.daemon.address import find_address
from tao_sdk.client import Client
from tao_sdk.model.errors import Refused, Unreachable, UsageError
from tao_sdk.model.finding import Severity
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.transports.dockerd import Address


def environ(surroundings: dict[str, str], host: str, pair: Path) -> dict[str, str]:
    return {
        **surroundings,
        "DOCKER_HOST": host,
        "DOCKER_TLS_VERIFY": "1",
        "DOCKER_CERT_PATH": str(pair),
    }


def test_a_job_runs_on_a_daemon_over_tls(
    surroundings: dict[str, str], far: tuple[Daemon, str, Path]
) -> None:
    daemon, host, pair = far
    with Client(settings=Settings(environ(surroundings, host, pair))) as client:
        spec = JobSpec(image=BUSYBOX, command="echo far; exit 3", gpu_count=0)
        job = client.submit(spec, "docker", {"network": "none"}).job
        client.wait(job.id, timeout=300)
        assert (client.get_job(job.id).exit_code, client.get_job_logs(job.id)) == (3, "far\n")
        assert f"tao-job-{job.id}" in daemon.docker("ps", "-a").stdout
        client.remove(job.id)


def test_a_path_is_one_of_the_far_machine_and_not_of_this_one(
    surroundings: dict[str, str], far: tuple[Daemon, str, Path]
) -> None:
    daemon, host, pair = far
    only_here, only_there = daemon.folder / "other" / "here", daemon.folder / "other" / "there"
    assert (only_here.exists(), only_there.exists()) == (True, False)
    with Client(settings=Settings(environ(surroundings, host, pair))) as client:
        spec = JobSpec(image=BUSYBOX, command="true", gpu_count=0, mounts=[f"{only_here}:/data"])
        with pytest.raises(Refused, match=f"{only_here} is mounted and is not there"):
            client.submit(spec, "docker", {"network": "none"})
        assert client.list_jobs() == []
        assert daemon.docker("ps", "-aq").stdout == ""
        job = client.submit(
            replace(spec, mounts=[f"{only_there}:/data"]), "docker", {"network": "none"}
        ).job
        assert client.wait(job.id, timeout=300).status is Status.COMPLETE
        assert [client.check_path(str(path), "docker") for path in (only_here, only_there)] == [
            False,
            True,
        ]
        client.remove(job.id)


def test_a_container_that_was_removed_far_away_is_judged_by_its_manifest_there(
    surroundings: dict[str, str], far: tuple[Daemon, str, Path], tmp_path: Path
) -> None:
    daemon, host, pair = far
    there = tmp_path / "there"
    there.mkdir()
    manifest = '{"attempt": 1, "whole": true, "exit_code": 0}'
    command = (
        f"mkdir -p /results/$TAO_JOB_ID/.tao; echo '{manifest}' > "
        "/results/$TAO_JOB_ID/.tao/manifest.json; sleep 60"
    )
    with Client(settings=Settings(environ(surroundings, host, pair))) as client:
        spec = JobSpec(image=BUSYBOX, command=command, gpu_count=0, mounts=[f"{there}:/results"])
        job = client.submit(spec, "docker", {"network": "none"}).job
        assert job.results_dir == f"{there}/{job.id}"
        dockerd_here.until((there / job.id / ".tao" / "manifest.json").exists)
        daemon.docker("rm", "-f", f"tao-job-{job.id}")
        assert client.wait(job.id, timeout=300).status == Status.COMPLETE
        client.remove(job.id)


def test_the_command_shows_and_fetches_what_lies_far_away(
    surroundings: dict[str, str], far: tuple[Daemon, str, Path], tmp_path: Path
) -> None:
    _, host, pair = far
    command = 'mkdir -p "$TAO_RESULTS_DIR"; echo 1 > "$TAO_RESULTS_DIR/a"'
    where = {**environ(surroundings, host, pair), "DOCKER_NETWORK": "none"}

    def tao(*words: str) -> str:
        ran = run_tao_here(where, tmp_path, *words)
        assert ran.code == 0, ran.out + ran.err
        return ran.out

    tao(
        "run",
        "--platform",
        "docker",
        "--name",
        "away",
        "--image",
        BUSYBOX,
        "--gpus",
        "0",
        "--",
        command,
    )
    said = tao("results", "away")
    assert "(1 file, 2 B)" in said
    fetch = next(line for line in said.splitlines() if line.startswith("fetch"))
    tao(*fetch.split()[2:])
    assert (tmp_path / fetch.split()[-1] / "a").read_text() == "1\n"


def test_a_far_daemon_keeps_results_in_its_volume(
    surroundings: dict[str, str], far: tuple[Daemon, str, Path], tmp_path: Path
) -> None:
    daemon, host, pair = far
    with Client(settings=Settings(environ(surroundings, host, pair))) as client:
        command = 'mkdir -p "$TAO_RESULTS_DIR"; echo 1 > "$TAO_RESULTS_DIR/a"'
        spec = JobSpec(image=BUSYBOX, command=command, gpu_count=0, keep_results=True)
        job = client.submit(spec, "docker", {"network": "none"}).job
        assert client.wait(job.id, timeout=300).status == Status.COMPLETE
        folder = client.get_job_results_dir(job.id)
        assert folder == f"{daemon.data}/volumes/tao-runs-{job.id}/_data"
        assert client.list_path(folder, "docker") == ["a"]
        assert client.fetch_results(job.id, tmp_path / "fetched") == [tmp_path / "fetched" / "a"]
        assert (tmp_path / "fetched" / "a").read_text() == "1\n"
        client.remove(job.id)
        look = [
            "run",
            "--rm",
            "--network=none",
            "-v",
            f"tao-runs-{job.id}:/r",
            BUSYBOX,
            "cat",
            "/r/a",
        ]
        assert daemon.docker(*look).stdout == "1\n"


def test_no_secret_goes_to_a_daemon_whose_connection_everybody_can_read(
    surroundings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    host = f"tcp://127.0.0.1:{free_port()}"
    spec = JobSpec(image=BUSYBOX, command="true", gpu_count=0)
    with dockerd_here.apart(tmp_path_factory.mktemp("open"), "--host", host) as there:
        with Client(
            settings=Settings({**surroundings, "DOCKER_HOST": host, "NGC_KEY": "nvapi-hidden"})
        ) as client:
            with pytest.raises(Refused, match="NGC_KEY would be sent to .*ssh://.*TLS") as refused:
                client.submit(spec, "docker", {"network": "none"})
            assert (refused.value.code, client.list_jobs()) == ("docker.open_line", [])
            [found] = client.plan(spec, "docker", {"network": "none"}).findings
            assert found.severity is Severity.ERROR
            planned = client.plan(spec, "docker", {"network": "none"})
            with pytest.raises(
                Refused, match="NGC_KEY would be sent to"
            ):  # a further attempt, which is not checked
                client.engine.backend("docker").submit(planned.plan, planned.secrets)
            with pytest.raises(Refused, match="the login at nvcr.io would be sent to"):
                client.submit(
                    replace(spec, image="nvcr.io/any:1", env_vars={"NGC_KEY": ""}), "docker"
                )
            assert there.docker("ps", "-aq").stdout == ""
        with Client(settings=Settings({**surroundings, "DOCKER_HOST": host})) as client:
            job = client.submit(spec, "docker", {"network": "none"}).job
            assert client.wait(job.id, timeout=300).status is Status.COMPLETE
            client.remove(job.id)


def test_without_the_certificates_it_cannot_be_reached(
    surroundings: dict[str, str], far: tuple[Daemon, str, Path]
) -> None:
    with (
        Client(settings=Settings({**surroundings, "DOCKER_HOST": far[1]})) as client,
        pytest.raises((Unreachable, Refused)),
    ):
        client.submit(JobSpec(image=BUSYBOX, command="true", gpu_count=0), "docker")


def test_a_context_of_the_docker_command_leads_to_its_daemon(
    surroundings: dict[str, str], far: tuple[Daemon, str, Path]
) -> None:
    _, host, pair = far
    here = {name: value for name, value in surroundings.items() if name != "DOCKER_HOST"}
    where = f"host={host},ca={pair}/ca.pem,cert={pair}/cert.pem,key={pair}/key.pem"
    for words in (["create", "--docker", where, "far"], ["use", "far"]):
        subprocess.run(["docker", "context", *words], env=here, check=True, capture_output=True)
    with Client(settings=Settings(here)) as client:
        assert f"answers at {host}." in client.doctor("docker")[0].what


def test_the_context_in_use_names_the_daemon_unless_docker_host_does(tmp_path: Path) -> None:
    folder = tmp_path / ".docker"
    meta = folder / "contexts" / "meta" / hashlib.sha256(b"far").hexdigest()
    meta.mkdir(parents=True)
    endpoint = {"Host": "ssh://me@far", "SkipTLSVerify": False}
    (meta / "meta.json").write_text(json.dumps({"Name": "far", "Endpoints": {"docker": endpoint}}))
    (folder / "config.json").write_text('{"currentContext": "far"}')
    home = {"HOME": str(tmp_path)}
    assert find_address(Settings(home)).url == "ssh://me@far"
    assert (
        find_address(Settings({**home, "DOCKER_CONTEXT": "default"})).url
        == "unix:///var/run/docker.sock"
    )
    assert find_address(Settings({**home, "DOCKER_HOST": "unix:///x"})) == Address(
        "unix:///x", "", False
    )


@pytest.mark.parametrize(
    ("settings", "named_by"),
    [
        (Settings({"DOCKER_HOST": "tcp://far:1"}), "DOCKER_HOST"),
        (Settings({}).at_place("docker", {"DOCKER_HOST": "tcp://far:1"}), ""),
    ],
)
def test_an_address_knows_the_setting_that_names_it(settings: Settings, named_by: str) -> None:
    assert find_address(settings).named_by == named_by


def test_a_context_that_is_not_there_does_not_lead_to_the_daemon_of_this_machine(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match="no docker context 'gpu-box'"):
        find_address(Settings({"HOME": str(tmp_path), "DOCKER_CONTEXT": "gpu-box"}))


def test_a_job_is_looked_for_at_its_own_daemon_whichever_the_settings_name(
    surroundings: dict[str, str], here: Daemon
) -> None:
    with Client(settings=Settings(surroundings)) as client:
        job = client.submit(JobSpec(image=BUSYBOX, command="sleep 60", gpu_count=0), "docker").job
        client.get_job(job.id)
    with Client(settings=Settings({**surroundings, "DOCKER_HOST": "tcp://localhost:1"})) as client:
        seen = client.get_job(job.id)
        assert (seen.status, "not seen now" in seen.message) == (Status.RUNNING, False)
        client.cancel_job(job.id, grace=0)
        assert client.get_job(job.id).status is Status.CANCELED
        client.remove(job.id)
