"""The snippets of the platform's document, as they are written there, on a small image under the documented name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from dockerd_here import DOCUMENTED, PYTHON, ROOT, Daemon

from tao_sdk.client import Client
from tao_sdk.model.errors import Refused
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

# As written, but for the gpu_count and the S3 input: this machine has neither a GPU nor that bucket.
SDK = f"""
from tao_sdk.platforms.docker import DockerSDK

sdk = DockerSDK()  # reads DOCKER_HOST, NGC_KEY, S3 creds from env
job = sdk.create_job(
    image='{DOCUMENTED}',
    command='echo dino train -e /tmp/spec.yaml',
    gpu_count=0,
    inputs={{'/data/train.json': 'file:///data/in/train.json'}},
    outputs=['/results/'],
    mounts=['./data:/data/in:ro'],
)

status = sdk.get_job_status(job.id)
logs = sdk.get_job_logs(job.id, tail=200)
print(sdk.wait(job.id).status, sdk.get_job_logs(job.id, tail=200))
print(job.backend_details)
sdk.remove(job.id)
sdk.close()
"""


def test_the_sdk_snippet_runs(surroundings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.json").write_text("{}")
    done = subprocess.run([sys.executable, "-c", SDK], env=surroundings, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Complete" in done.stdout
    assert "dino train -e /tmp/spec.yaml" in done.stdout
    assert "'backend_type': 'local-docker'" in done.stdout


def test_the_snippet_with_a_gpu_asks_the_daemon_for_one_and_its_refusal_is_explained(client: Client) -> None:
    spec = JobSpec(image=DOCUMENTED, command="nvidia-smi", gpu_count=1)
    asked = client.plan(spec, "docker").plan.request["container"]["HostConfig"]["DeviceRequests"]
    assert asked == [{"Driver": "", "Count": 1, "Capabilities": [["gpu"]], "Options": {}}]
    with pytest.raises(Refused) as refused:
        client.submit(spec, "docker")
    assert refused.value.code == "docker.no_gpu_runtime"


def test_the_preflights_network_check_finds_the_network(
    client: Client, here: Daemon, surroundings: dict[str, str]
) -> None:
    job = client.submit(JobSpec(image=PYTHON, command="true", gpu_count=0), "docker").job
    client.wait(job.id, timeout=60)
    check = (
        'DOCKER_NETWORK_NAME="${DOCKER_NETWORK:-tao_default}"; '
        "docker network ls --format '{{.Name}}' | grep -qx \"$DOCKER_NETWORK_NAME\""
    )
    assert subprocess.run(["bash", "-c", check], env=surroundings).returncode == 0
    logs = subprocess.run(["docker", "logs", f"tao-job-{job.id}"], env=surroundings, capture_output=True)
    assert logs.returncode == 0


def test_the_example_trains_in_a_container_with_the_unchanged_job_file(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    argv = [
        sys.executable,
        "-m",
        "tao_sdk.cli.main",
        "run",
        str(ROOT / "examples/digits/job.yaml"),
        "--platform",
        "docker",
    ]
    done = subprocess.run(argv, env=surroundings, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    checkpoints = sorted((tmp_path / "runs").rglob("model_epoch_*.npz"))
    assert len(checkpoints) == 20
    with Client(settings=Settings(surroundings)) as client:
        job = client.list_jobs()[0]
        assert (job.status, client.results(job.id).best is not None) == (Status.COMPLETE, True)
        client.remove(job.id)
