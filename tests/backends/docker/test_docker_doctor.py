"""The doctor of the Docker platform: the documents' words, and the command that mends each."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from support.dockerd.dockerd_here import BUSYBOX, GPU_HERE, PYTHON, Daemon
from support.tao_command import run_tao_here
from tao_sdk.backends.docker.daemon import doctor as examined
from tao_sdk.backends.docker.daemon.address import SYSTEM_SOCKETS
from tao_sdk.client import Client
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.settings import Settings
from tao_sdk.transports import dockerd


def found(surroundings: dict[str, str], code: str) -> Finding:
    with Client(settings=Settings(surroundings)) as client:
        return next(each for each in client.doctor("docker") if each.code == code)


def test_a_daemon_that_answers_is_good_news(surroundings: dict[str, str]) -> None:
    assert found(surroundings, "docker.daemon").severity is Severity.OK


def test_a_daemon_that_does_not_answer_is_told_in_the_documents_words(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    seen = found(
        {**surroundings, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}, "backend.unreachable"
    )
    assert (seen.severity, seen.what) == (
        Severity.ERROR,
        "MISSING: docker daemon not reachable. Start Docker.",
    )
    assert seen.evidence == f"unix://{tmp_path}/none.sock: [Errno 2] No such file or directory."
    assert seen.fix.startswith("DOCKER_HOST names it: ")  # systemctl would start another one


def test_the_daemon_of_this_machine_is_started_as_a_service() -> None:
    gone = Unreachable("The Docker daemon does not answer.", "No such file or directory.", "")
    for url in SYSTEM_SOCKETS:
        said = examined.unreachable_daemon(dockerd.Address(url), gone)
        assert (said.what, said.command) == (
            "MISSING: docker daemon not reachable. Start Docker.",
            "sudo systemctl start docker",
        )


@pytest.mark.parametrize("there", [(), ("ca.pem", "cert.pem")])
def test_certificates_that_are_missing_are_named(tmp_path: Path, there: tuple[str, ...]) -> None:
    for name in there:
        (tmp_path / name).write_text("")
    tls = {
        "DOCKER_HOST": "tcp://127.0.0.1:2376",
        "DOCKER_TLS_VERIFY": "1",
        "DOCKER_CERT_PATH": str(tmp_path),
    }
    seen = found(
        {"HOME": str(tmp_path), "TAO_SDK_STATE_DIR": str(tmp_path / "state"), **tls},
        "backend.unreachable",
    )
    missing = [name for name in ("ca.pem", "cert.pem", "key.pem") if name not in there]
    assert (
        seen.evidence
        == f"Not there, or not to be read: {', '.join(f'{tmp_path}/{name}' for name in missing)}."
    )
    assert "DOCKER_CERT_PATH" in seen.fix
    assert "Start Docker" not in seen.what + seen.fix


def doctor(surroundings: dict[str, str], *words: str) -> list[dict[str, str]]:
    ran = run_tao_here(surroundings, surroundings["HOME"], "doctor", *words, "--json")
    assert ran.code == 2, ran.out
    return ran.json["findings"]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"DOCKER_HOST": "unix:///none.sock"}, "backend.unreachable"),
        ({"DOCKER_HOST": "foo"}, "usage"),
        ({"DOCKER_NETWORK": "nowhere"}, "docker.network"),
    ],
)
def test_with_a_job_file_what_is_wrong_is_said_once(
    surroundings: dict[str, str], tmp_path: Path, wrong: dict[str, str], code: str
) -> None:
    (tmp_path / "job.yaml").write_text(
        f"{{platform: docker, image: {PYTHON}, gpu_count: 0, command: 'true'}}"
    )
    said = doctor({**surroundings, **wrong}, str(tmp_path / "job.yaml"))
    assert [each["code"] for each in said if each["severity"] == "error"] == [code]


@pytest.mark.parametrize(
    "host", ["foo", "127.0.0.1:2375", "tcp://x:y", "tcp://", "unix://", "fd://"]
)
def test_what_is_no_address_is_told_so_with_those_that_are(
    surroundings: dict[str, str], host: str
) -> None:
    (said,) = doctor({**surroundings, "DOCKER_HOST": host}, "docker")
    assert said["what"] == f"{host!r} is no address of a Docker daemon."
    assert said["hint"] == "Write unix:///var/run/docker.sock, tcp://host:2376 or ssh://user@host."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "It did not answer within 0.6 s"),
        (b"HTTP/1.0 400 Bad\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
         "What answers there is no Docker daemon: HTTP status 400, Client sent an HTTP request to an "
         "HTTPS server."),
        (b"HTTP/1.0 200 OK\r\n\r\n{}",
         "What answers there is no Docker daemon: HTTP status 200, {}."),
        (b"HTTP/1.0 404 Not Found\r\nServer: nginx/1.2\r\n\r\n<html><body>404</body></html>",
         "What answers there is no Docker daemon: HTTP status 404 of nginx/1.2."),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "What answers there is no Docker daemon: SSH-2.0-OpenSSH_9.2."),
    ],
    ids=["nothing", "http-to-https", "another-service", "web-page", "ssh"],
)  # fmt: skip
def test_why_a_daemon_of_the_network_cannot_be_reached_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, why: str
) -> None:
    monkeypatch.setattr(dockerd, "PATIENCE", 0.5)
    monkeypatch.setattr(dockerd, "PING_SECONDS", 0.1)
    over = threading.Event()

    def serve() -> None:
        line = listening.accept()[0]
        line.recv(65536)
        line.sendall(answer)
        over.wait(10 if not answer else 0)
        line.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        with pytest.raises(Unreachable) as told:
            dockerd.Daemon(dockerd.Address(f"tcp://127.0.0.1:{listening.getsockname()[1]}")).get(
                "/info"
            )
        over.set()
        serving.join(120)
    assert told.value.why == why


def test_a_socket_that_others_may_use_is_no_reason_to_start_docker() -> None:
    denied = dockerd.daemon_unreachable(
        dockerd.Address("unix:///run/docker.sock"), "[Errno 13] Permission denied"
    )
    said = examined.unreachable_daemon(dockerd.Address("unix:///run/docker.sock"), denied)
    assert "usermod -aG docker" in said.fix
    assert "start" not in repr(said).lower()


def test_a_machine_without_gpus_is_told_in_the_documents_words(
    surroundings: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    seen = found(surroundings, "docker.gpus")
    assert (seen.severity, seen.what) == (
        Severity.WARNING,
        "MISSING: TAO GPU host runtime is not ready.",
    )
    assert seen.fix


def test_a_missing_toolkit_is_told_with_the_command(surroundings: dict[str, str]) -> None:
    seen = found(surroundings, "docker.toolkit")
    assert seen.what.startswith("MISSING: NVIDIA Container Toolkit not installed/configured.")
    assert "nvidia-ctk runtime configure" in seen.fix


def test_a_toolkit_that_is_not_installed_is_installed_by_the_script_of_the_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    address = dockerd.Address(SYSTEM_SOCKETS[0])
    missing = examined.toolkit_finding(address, {}).command
    (tmp_path / "nvidia-ctk").touch(mode=0o755)
    there = examined.toolkit_finding(address, {}).command
    assert there.startswith("sudo nvidia-ctk runtime configure")
    bash, script, flag = shlex.split(missing)
    assert (bash, flag) == ("bash", "--install")
    assert "nvidia-container-toolkit" in Path(script).read_text()


def test_a_daemon_of_somewhere_else_is_not_configured_with_this_machines_commands() -> None:
    found = examined.toolkit_finding(dockerd.Address("ssh://user@host"), {})
    assert found.command == ""
    assert "nvidia-ctk runtime configure" in found.next


def test_a_missing_network_is_told_with_the_command(surroundings: dict[str, str]) -> None:
    seen = found({**surroundings, "DOCKER_NETWORK": "nowhere"}, "docker.network")
    assert (seen.what, seen.fix) == (
        "MISSING: docker network 'nowhere' not found.",
        "docker network create nowhere",
    )


JOB = """
platform: docker
image: {image}
gpu_count: 0
command: "true"
inputs: [/data/train.json]
mounts: ["{folder}:/data:ro", "/no/such/folder:/more"]
"""


def test_with_a_job_file_its_image_and_datasets_are_looked_for_before_the_launch(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(JOB.format(image="not/here:1", folder=tmp_path))
    said = doctor({**surroundings, "DOCKER_PULL_POLICY": "never"}, str(tmp_path / "job.yaml"))
    seen = {each["code"]: each for each in said}
    assert (seen["image.missing"]["severity"], seen["image.missing"]["fix"]) == (
        "error",
        "docker pull not/here:1",
    )
    assert seen["mount.missing"]["what"] == "/no/such/folder is mounted and is not there."
    assert (
        seen["input.missing"]["what"]
        == "The input /data/train.json will not be there: /data/train.json"
    )
    assert seen["docker.daemon"]["severity"] == "ok"


def test_with_a_job_file_that_can_run_the_doctor_says_so(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "train.json").write_text('[{"image": "1.png"}]')
    (tmp_path / "job.yaml").write_text(
        JOB.format(image=PYTHON, folder=tmp_path).replace("/no/such/folder", "/tmp")
    )
    ran = run_tao_here(surroundings, tmp_path, "doctor", "job.yaml")
    assert ran.code == 0, ran.out
    assert "Nothing would stop the job." in ran.out


def test_a_daemon_elsewhere_that_does_not_answer_is_not_to_be_started_here(
    surroundings: dict[str, str],
) -> None:
    seen = found(
        {**surroundings, "DOCKER_HOST": "ssh://no-such-host.invalid"}, "backend.unreachable"
    )
    assert "there is no host no-such-host.invalid" in seen.what
    assert "start" not in repr(seen).lower()


def test_credentials_are_named_and_never_shown(surroundings: dict[str, str]) -> None:
    surroundings = {**surroundings, "NGC_KEY": "nvapi-value", "ACCESS_KEY": "AKIA-value"}
    with Client(settings=Settings(surroundings)) as client:
        said = client.doctor("docker")
    assert found(surroundings, "credentials.set").what == "Set: ACCESS_KEY, NGC_KEY."
    assert (
        found(surroundings, "credentials.s3").what
        == "s3:// paths need S3_BUCKET_NAME, SECRET_KEY too."
    )
    assert "value" not in repr(said)


@pytest.mark.parametrize(
    "verb", ["doctor('docker')[0].fix", "submit(JobSpec(image='x', command='true'), 'docker')"]
)
def test_without_the_library_the_text_is_the_command_that_installs_it(
    surroundings: dict[str, str], verb: str
) -> None:
    script = (
        "import sys; sys.modules['docker'] = sys.modules['requests'] = None\n"
        "from tao_sdk.client import Client\nfrom tao_sdk.model.errors import MissingExtra\n"
        "from tao_sdk.model.spec import JobSpec\n"
        f"try:\n    print(Client().{verb})\nexcept MissingExtra as error:\n    print(error.next)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=surroundings, capture_output=True, text=True
    )
    assert f"{sys.executable} -m pip install 'nvidia-tao-sdk[docker]>=8'" in done.stdout, (
        done.stderr
    )


UNABLE = [
    ({"gpu_count": 1}, "docker.no_gpu_runtime"),
    ({"image": "localhost:1/no/registry:1"}, "docker.registry_unreachable"),
    ({"image": "{half}/status-401:1"}, "docker.pull_unauthorized"),
    ({"image": "{half}/status-404:1"}, "docker.image_not_found"),
]


@pytest.mark.skipif(GPU_HERE, reason="the GPUs that are missing are there")
@pytest.mark.parametrize(("wrong", "code"), UNABLE, ids=[code for _, code in UNABLE])
def test_doctor_plan_and_run_say_the_same_of_a_job_that_cannot_run(
    surroundings: dict[str, str], half_registry: str, wrong: dict[str, object], code: str
) -> None:
    job = {"platform": "docker", "image": BUSYBOX, "gpu_count": 0, "command": "true", **wrong}
    file = Path(surroundings["HOME"]) / "job.yaml"
    file.write_text(json.dumps(job).replace("{half}", half_registry))
    for verb in ("doctor", "plan", "run"):
        ran = run_tao_here(surroundings, surroundings["HOME"], verb, "job.yaml", "--json")
        assert (verb, ran.code) == (verb, 2), ran.out
        told = [ran.error["code"]] if verb == "run" else codes(ran.json["findings"])
        assert (verb, told) == (verb, [code])


def codes(findings: list[dict[str, str]]) -> list[str]:
    return [each["code"] for each in findings if each["severity"] == "error"]


@pytest.mark.skipif(GPU_HERE, reason="the GPUs that are missing are there")
def test_the_last_finding_says_whether_a_job_with_gpus_can_run(
    surroundings: dict[str, str], here: Daemon
) -> None:
    before = here.docker("ps", "-aq").stdout
    with Client(settings=Settings(surroundings)) as client:
        last = client.doctor("docker")[-1]
    assert (last.code, last.severity) == ("docker.gpu_jobs", Severity.WARNING)
    assert last.what.startswith("No job with GPUs can run here: ")
    assert "nvidia-ctk" in last.fix
    assert here.docker("ps", "-aq").stdout == before


def test_fix_installs_the_library_into_the_python_that_runs_the_doctor(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    """Without an index pip can only say that the library, which is hidden from the doctor, is in
    this Python already.
    """
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['docker'] = sys.modules['requests'] = None\n"
    )
    environ = {**surroundings, "PYTHONPATH": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_DRY_RUN": "1"}
    argv = [sys.executable, "-m", "tao_sdk.cli.main", "doctor", "docker", "--fix"]
    done = subprocess.run(argv, env=environ, cwd=tmp_path, capture_output=True, text=True)
    assert f"+ {sys.executable} -m pip install 'nvidia-tao-sdk[docker]>=8'" in done.stderr
    assert "Requirement already satisfied: docker" in done.stdout + done.stderr
