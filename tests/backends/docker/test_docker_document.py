"""The snippets of the platform's document, as they are written there, on a small image under the
documented name.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import BUSYBOX, DOCUMENTED, GPU_HERE, PYTHON, ROOT, Daemon
from support.dockerd.recorder import Recorder
from support.servers import s3_here
from tao_sdk.client import Client
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status


@pytest.fixture
def with_bucket(surroundings: dict[str, str]) -> dict[str, str]:
    """The caller's keys, and the bucket that the snippet names, which a container on the host's
    network reaches.
    """
    store = s3_here.versitygw()
    store.bucket("bucket")
    store.s3().put("bucket", "coco/train.json", b'{"images": 3}')
    keys = {
        "ACCESS_KEY": s3_here.ACCESS,
        "SECRET_KEY": s3_here.SECRET,
        "S3_ENDPOINT_URL": store.url,
    }
    return {**surroundings, **keys, "DOCKER_NETWORK": "host"}


@pytest.mark.parametrize(
    "gpu_count",
    [
        0,
        pytest.param(
            1, marks=pytest.mark.skipif(not GPU_HERE, reason="no GPU here for containers")
        ),
    ],
)
def test_the_sdk_snippet_runs(with_bucket: dict[str, str], tmp_path: Path, gpu_count: int) -> None:
    """As written, but for the GPU where this machine has none, and the program, which the small
    image lacks.
    """
    text = (SNIPPETS / "sdk.py").read_text().replace("gpu_count=1", f"gpu_count={gpu_count}")
    text = text.replace("dino train", "nvidia-smi -L; cat /data/train.json; echo dino train")
    told = (
        "print(sdk.wait(job.id).status, sdk.get_job_logs(job.id), job.backend_details); "
        "sdk.remove(job.id)"
    )
    argv = [sys.executable, "-c", f"{text}\n{told}\n"]
    done = subprocess.run(argv, env=with_bucket, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for words in (
        "Complete",
        "dino train -e /tmp/spec.yaml",
        '{"images": 3}',
        "'backend_type': 'local-docker'",
    ):
        assert words in done.stdout
    assert done.stdout.count("GPU 0: ") == gpu_count


SNIPPETS = ROOT / "tests" / "documents" / "local-docker"


def snippet(name: str, environ: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """A snippet as it is written, in the shell of a caller who has this package and the docker
    command.
    """
    path = f"{Path(sys.executable).parent}:{environ['PATH']}"
    argv = (
        ["bash", str(SNIPPETS / name)]
        if name.endswith(".sh")
        else [sys.executable, str(SNIPPETS / name)]
    )
    return subprocess.run(
        argv, env={**environ, "PATH": path}, cwd=cwd, capture_output=True, text=True
    )


def test_the_documents_preflight_runs_as_written(
    surroundings: dict[str, str], client: Client, tmp_path: Path, here: Daemon
) -> None:
    here.docker("network", "rm", "tao_default", check=False)
    before = snippet("network.sh", surroundings, tmp_path)
    assert (before.returncode, before.stdout.splitlines()[1]) == (
        1,
        " docker network create tao_default",
    )
    job = client.submit(JobSpec(image=PYTHON, command="true", gpu_count=0), "docker").job
    client.wait(job.id, timeout=300)
    assert snippet("network.sh", surroundings, tmp_path).returncode == 0
    without_gpus = snippet(
        "direct-docker.sh", {**surroundings, "SETUP_SCRIPT": "setup.sh"}, tmp_path
    )
    assert (without_gpus.returncode, without_gpus.stdout.splitlines()[0]) == (
        1,
        "MISSING: NVIDIA Container Toolkit not installed/configured. See:",
    )


@pytest.fixture(scope="module")
def believed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that says it can give GPUs, and cannot."""
    runtime = f"nvidia={shutil.which('runc')}"
    with dockerd_here.apart(tmp_path_factory.mktemp("believed"), "--add-runtime", runtime) as there:
        there.docker("tag", BUSYBOX, DOCUMENTED)
        yield there


@pytest.mark.skipif(GPU_HERE, reason="here the job would get its GPU")
@pytest.mark.parametrize(
    ("gpu_count", "asked"), [(1, {"Count": 1}), (4, {"Count": 4}), (-1, {"Count": -1})]
)
def test_the_daemon_is_asked_for_the_gpus_of_the_snippet(
    with_bucket: dict[str, str],
    believed: Daemon,
    tmp_path: Path,
    gpu_count: int,
    asked: dict[str, Any],
) -> None:
    recorder = Recorder(tmp_path / "socket", believed.socket)
    text = (SNIPPETS / "sdk.py").read_text().replace("gpu_count=1", f"gpu_count={gpu_count}")
    where = {**with_bucket, "DOCKER_HOST": f"unix://{tmp_path}/socket"}
    argv = [sys.executable, "-c", text]
    done = subprocess.run(argv, env=where, cwd=tmp_path, capture_output=True, text=True)
    recorder.listening.close()
    sent = recorder.created()
    assert sent["HostConfig"]["DeviceRequests"] == [
        {"Driver": "", **asked, "Capabilities": [["gpu"]], "Options": {}}
    ]
    assert sent["Image"] == DOCUMENTED
    assert "NVIDIA Container Toolkit" in done.stderr


def test_the_preflights_network_check_finds_the_network(
    client: Client, here: Daemon, surroundings: dict[str, str]
) -> None:
    job = client.submit(JobSpec(image=PYTHON, command="true", gpu_count=0), "docker").job
    client.wait(job.id, timeout=300)
    check = (
        'DOCKER_NETWORK_NAME="${DOCKER_NETWORK:-tao_default}"; '
        "docker network ls --format '{{.Name}}' | grep -qx \"$DOCKER_NETWORK_NAME\""
    )
    assert subprocess.run(["bash", "-c", check], env=surroundings).returncode == 0
    logs = subprocess.run(
        ["docker", "logs", f"tao-job-{job.id}"], env=surroundings, capture_output=True
    )
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
    done = subprocess.run(
        argv, env=surroundings, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    checkpoints = sorted((tmp_path / "runs").rglob("model_epoch_*.npz"))
    assert len(checkpoints) == 20
    with Client(settings=Settings(surroundings)) as client:
        job = client.list_jobs()[0]
        assert (job.status, client.results(job.id).best is not None) == (Status.COMPLETE, True)
        client.remove(job.id)
