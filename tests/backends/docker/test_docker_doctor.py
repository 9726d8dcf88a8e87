"""The doctor of the Docker platform: the documents' words, and the command that mends each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from dockerd_here import PYTHON

from tao_sdk.client import Client
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.settings import Settings


def found(surroundings: dict[str, str], code: str) -> Finding:
    with Client(settings=Settings(surroundings)) as client:
        return next(each for each in client.doctor("docker") if each.code == code)


def test_a_daemon_that_answers_is_good_news(surroundings: dict[str, str]) -> None:
    assert found(surroundings, "docker.daemon").severity is Severity.OK


def test_a_daemon_that_does_not_answer_is_told_in_the_documents_words(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    seen = found({**surroundings, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}, "backend.unreachable")
    assert (seen.severity, seen.what) == (Severity.ERROR, "MISSING: docker daemon not reachable. Start Docker.")


def test_a_missing_toolkit_is_told_with_the_command(surroundings: dict[str, str]) -> None:
    seen = found(surroundings, "docker.toolkit")
    assert seen.what.startswith("MISSING: NVIDIA Container Toolkit not installed/configured.")
    assert "nvidia-ctk runtime configure" in seen.fix


def test_a_missing_network_is_told_with_the_command(surroundings: dict[str, str]) -> None:
    seen = found({**surroundings, "DOCKER_NETWORK": "nowhere"}, "docker.network")
    assert (seen.what, seen.fix) == ("MISSING: docker network 'nowhere' not found.", "docker network create nowhere")


JOB = """
platform: docker
image: {image}
gpu_count: 0
command: "true"
inputs: [/data/train.json]
mounts: ["{folder}:/data:ro", "/no/such/folder:/more"]
"""


def test_with_a_job_file_the_datasets_are_looked_for_before_the_launch(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(JOB.format(image=PYTHON, folder=tmp_path))
    argv = [sys.executable, "-m", "tao_sdk.cli.main", "doctor", str(tmp_path / "job.yaml"), "--json"]
    done = subprocess.run(argv, env=surroundings, cwd=tmp_path, capture_output=True, text=True)
    seen = {each["code"]: each for each in json.loads(done.stdout)["findings"]}
    assert done.returncode == 2
    assert seen["mount.missing"]["what"] == "/no/such/folder is mounted and is not there."
    assert seen["input.missing"]["what"] == "The input /data/train.json will not be there: /data/train.json"
    assert seen["docker.daemon"]["severity"] == "ok"


def test_with_a_job_file_that_can_run_the_doctor_says_so(surroundings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.json").touch()
    (tmp_path / "job.yaml").write_text(JOB.format(image=PYTHON, folder=tmp_path).replace("/no/such/folder", "/tmp"))
    argv = [sys.executable, "-m", "tao_sdk.cli.main", "doctor", str(tmp_path / "job.yaml")]
    done = subprocess.run(argv, env=surroundings, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "Nothing would stop the job." in done.stdout


def test_a_daemon_elsewhere_that_does_not_answer_is_not_to_be_started_here(surroundings: dict[str, str]) -> None:
    seen = found({**surroundings, "DOCKER_HOST": "ssh://no-such-host.invalid"}, "backend.unreachable")
    assert "there is no host no-such-host.invalid" in seen.evidence
    assert "systemctl" not in seen.fix


def test_credentials_are_named_and_never_shown(surroundings: dict[str, str]) -> None:
    surroundings = {**surroundings, "NGC_KEY": "nvapi-value", "ACCESS_KEY": "AKIA-value"}
    with Client(settings=Settings(surroundings)) as client:
        said = client.doctor("docker")
    assert found(surroundings, "credentials.set").what == "Set: ACCESS_KEY, NGC_KEY."
    assert found(surroundings, "credentials.s3").what == "s3:// paths need S3_BUCKET_NAME, SECRET_KEY too."
    assert "value" not in repr(said)


@pytest.mark.parametrize("verb", ["doctor('docker')[0].fix", "submit(JobSpec(image='x', command='true'), 'docker')"])
def test_without_the_library_the_text_is_the_command_that_installs_it(surroundings: dict[str, str], verb: str) -> None:
    script = (
        "import sys; sys.modules['docker'] = None\n"
        "from tao_sdk.client import Client\nfrom tao_sdk.model.errors import MissingExtra\n"
        "from tao_sdk.model.spec import JobSpec\n"
        f"try:\n    print(Client().{verb})\nexcept MissingExtra as error:\n    print(error.next)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], env=surroundings, capture_output=True, text=True)
    assert "pip install 'nvidia-tao-sdk[docker]'" in done.stdout, done.stderr
