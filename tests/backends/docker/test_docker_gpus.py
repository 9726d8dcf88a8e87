"""Which GPUs a container gets, as the daemon itself has it.

No GPU is needed here. The daemon is a real one that believes in the GPU runtime, because a program
of its hook's name is there; nvidia-smi is a program that shows three GPUs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import BUSYBOX, ROOT, Daemon
from support.dockerd.recorder import Recorder
from tao_sdk.backends.docker.daemon import doctor, gpus
from tao_sdk.client import Client
from tao_sdk.model.errors import Refused
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.transports.dockerd import Address

UUIDS = ["GPU-0a", "GPU-1b", "GPU-2c"]


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    program(folder / "nvidia-container-runtime-hook", "exit 0")
    program(
        folder / "nvidia-smi",
        "; ".join(f"echo {index}, {uuid}" for index, uuid in enumerate(UUIDS)),
    )
    return folder


def test_the_gpus_of_a_daemon_elsewhere_are_seen_by_ssh_or_said_to_be_unseen(
    tmp_path: Path,
) -> None:
    program(
        tmp_path / "ssh",
        '[ "$5 $6 $7 $8" = "-p 22 -- me@box" ] && shift 8 && exec sh -c "$*"\n'
        'echo "no route" >&2; exit 255',
    )
    program(tmp_path / "nvidia-smi", "echo NVIDIA H100, 81559, 9.0")
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    found, unseen = gpus.gpus_of_machine(Address("ssh://me@box:22"), environ)
    assert ([each.name for each in found], unseen) == (["NVIDIA H100"], "")
    for url, words in (("ssh://you@box", "no route"), ("tcp://box:2376", "cannot be looked at")):
        found, unseen = gpus.gpus_of_machine(Address(url), environ)
        assert not found and words in unseen
        finding = doctor.remote_gpus_finding(Address(url), environ)
        assert (finding.severity, finding.command) == (
            Severity.WARNING,
            "tao doctor docker --smoke",
        )


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Iterator[Daemon]:
    """A second daemon, which has the GPU runtime."""
    dockerd_here.daemon()  # before there is a hook: it has no GPUs
    data, runtime = tmp_path_factory.mktemp("gpus"), f"nvidia={shutil.which('runc')}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        with dockerd_here.apart(data, "--add-runtime", runtime) as there:
            yield there


@pytest.fixture
def client(
    there: Daemon, surroundings: dict[str, str], programs: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Client]:
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    environ = {
        **surroundings,
        "DOCKER_HOST": there.host,
        "DOCKER_NETWORK": "none",
        "PATH": os.environ["PATH"],
    }
    with Client(settings=Settings(environ)) as client:
        yield client
    dockerd_here.clear(there)


def submit(
    client: Client, gpu_count: int = 1, shown: str = "$NVIDIA_VISIBLE_DEVICES", **options: Any
) -> tuple[Job, list[Finding]]:
    spec = JobSpec(image=BUSYBOX, command=f"echo {shown}; sleep 60", gpu_count=gpu_count)
    submission = client.submit(spec, "docker", options)
    dockerd_here.until(lambda: client.get_job_logs(submission.job.id) != "")
    return submission.job, list(submission.findings)


def asked(there: Daemon, job: Job) -> list[dict[str, Any]]:
    return there.inspect(f"tao-job-{job.id}")["HostConfig"]["DeviceRequests"] or []


def inside(client: Client, job: Job) -> str:
    return client.get_job_logs(job.id).strip()


def test_no_gpu_is_none(client: Client, there: Daemon) -> None:
    job, _ = submit(client, 0)
    assert (asked(there, job), inside(client, job)) == ([], "void")


def test_all_is_all(client: Client, there: Daemon) -> None:
    job, _ = submit(client, -1)
    assert (asked(there, job)[0]["Count"], inside(client, job)) == (-1, "all")


@pytest.mark.parametrize(
    ("gpu_count", "gpu_ids", "told"),
    [(0, [], "0 1"), (2, [], "2 2"), (-1, [], "3 3"), (1, [0, 2], "2 2")],
)
def test_a_job_is_told_how_many_gpus_it_gets(
    client: Client, gpu_count: int, gpu_ids: list[int], told: str
) -> None:
    job, _ = submit(client, gpu_count, "$NUM_GPU_PER_NODE $NPROC_PER_NODE", gpu_ids=gpu_ids)
    assert inside(client, job) == told


def test_a_number_of_gpus_that_nobody_here_can_see_is_not_made_up(
    client: Client, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.environ["PATH"].replace(f"{programs}:", ""))
    job, _ = submit(client, -1, "-$NUM_GPU_PER_NODE-$NPROC_PER_NODE-")
    assert inside(client, job) == "---"


def test_jobs_get_gpus_of_their_own_by_id(client: Client, there: Daemon) -> None:
    first, second = submit(client, 1)[0], submit(client, 2)[0]
    assert [asked(there, job)[0]["DeviceIDs"] for job in (first, second)] == [["0"], ["1", "2"]]
    assert [inside(client, job) for job in (first, second)] == ["0", "1,2"]
    assert there.inspect(f"tao-job-{second.id}")["Config"]["Labels"]["tao-sdk-gpus"] == "1,2"
    third, findings = submit(client, 1)
    assert [(found.code, found.severity.value) for found in findings] == [("gpu.busy", "warning")]
    assert f"tao-job-{first.id}" in findings[0].evidence
    assert inside(client, third) == "0"


@pytest.mark.parametrize(
    ("how", "held"),
    [
        (["--gpus", "device=1"], [1]),
        (["--gpus", '"device=0,GPU-2c"'], [0, 2]),
        (["--gpus", "2"], [0, 1]),
        (["--gpus", "all"], [0, 1, 2]),
        (["--runtime", "nvidia", "-e", "NVIDIA_VISIBLE_DEVICES=GPU-1b"], [1]),
        (["--runtime", "nvidia", "-e", "NVIDIA_VISIBLE_DEVICES=void"], []),
        ([], []),
    ],
)
def test_the_gpus_of_a_strangers_container_are_known(
    client: Client, there: Daemon, how: list[str], held: list[int]
) -> None:
    there.docker("run", "-d", "--network=none", "--name", "strangers", *how, BUSYBOX, "sleep", "60")
    planned = client.plan(JobSpec(image=BUSYBOX, command="true", gpu_count=3), "docker")
    busy = [found.evidence for found in planned.findings if found.code == "gpu.busy"]
    assert busy == ([", ".join(f"GPU {index}: strangers" for index in held)] if held else [])
    free = [index for index in range(3) if index not in held]
    one = client.plan(JobSpec(image=BUSYBOX, command="true", gpu_count=1), "docker").plan
    request = one.request.host_config["DeviceRequests"][0]
    assert request.get("DeviceIDs", ["?"]) == ([str(free[0])] if free else ["?"])


def test_the_doctor_sees_the_gpus_and_the_toolkit(client: Client) -> None:
    seen = {found.code: (found.severity, found.what) for found in client.doctor("docker")}
    assert seen["docker.gpus"] == (Severity.OK, "nvidia-smi shows 3 GPU(s).")
    assert seen["docker.toolkit"] == (Severity.OK, "The daemon has the runtime nvidia.")
    assert client.doctor("docker")[-1].what == "A job with GPUs can run here."


@pytest.mark.parametrize(
    ("driver", "cuda", "toolkit", "old"),
    [
        ("580.65.06", "13.0", "1.19.0", []),
        ("595.10", "13.2", "1.20.1", []),
        (
            "575.9",
            "12.9",
            "1.17.8",
            ["docker.driver", "docker.cuda", "docker.cuda_toolkit", "docker.toolkit_version"],
        ),
        ("580.1", "13.0", "1.9.0", ["docker.toolkit_version"]),
    ],
)
def test_the_doctor_compares_driver_cuda_and_toolkit_with_what_the_images_are_made_for(
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    cuda: str,
    toolkit: str,
    old: list[str],
) -> None:
    smi = (
        f'case "$*" in *driver*) echo {driver};; *query*) echo 0, GPU-0a;; *) echo "| CUDA '
        f'Version: {cuda}  |";; esac'
    )
    program(tmp_path / "nvidia-smi", smi)
    program(tmp_path / "nvcc", f"echo Cuda compilation tools, release {cuda}, V{cuda}.48")
    program(
        tmp_path / "nvidia-ctk",
        f"echo NVIDIA Container Toolkit CLI version {toolkit}; echo commit: 1.2.3",
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    told = {each.code: each for each in client.doctor("docker")}
    versions = [
        told[code]
        for code in (
            "docker.driver",
            "docker.cuda",
            "docker.cuda_toolkit",
            "docker.toolkit_version",
        )
    ]
    assert [each.code for each in versions if each.severity is Severity.WARNING] == old
    assert all(each.fix.startswith("sudo ") for each in versions if each.code in old)
    assert [each in versions[at].what for at, each in enumerate((driver, cuda, cuda, toolkit))] == [
        True
    ] * 4


def test_the_smoke_job_says_what_it_saw_and_leaves_nothing(
    there: Daemon, surroundings: dict[str, str]
) -> None:
    make = (
        "printf '#!/bin/sh\\necho GPU 0: as it was seen\\n' > "
        "/bin/nvidia-smi; chmod 755 /bin/nvidia-smi"
    )
    there.docker("run", "--name=smoking", BUSYBOX, "sh", "-c", make)
    there.docker("commit", "smoking", "smoking-image")
    there.docker("rm", "smoking")
    for image, ready, told in (
        ("smoking-image", True, "GPU 0: as it was seen"),
        (BUSYBOX, False, "nvidia-smi"),
    ):
        argv = [
            sys.executable,
            "-m",
            "tao_sdk.cli.main",
            "doctor",
            "docker",
            "--smoke",
            "--smoke-image",
            image,
            "--json",
        ]
        environ = {**surroundings, "DOCKER_HOST": there.host}
        done = subprocess.run(
            argv, env=environ, cwd=surroundings["HOME"], capture_output=True, text=True
        )
        assert done.stdout, done.stderr
        [said] = [
            each for each in json.loads(done.stdout)["findings"] if each["code"] == "gpu.smoke"
        ]
        assert (done.returncode, said["severity"]) == ((0, "ok") if ready else (2, "error")), said
        assert told in said["what"] + said["evidence"]
    with Client(settings=Settings(environ)) as client:
        assert client.list_jobs() == []
    assert there.docker("ps", "-aq", "--filter", "label=tao-sdk-job-id").stdout == ""


def test_the_documents_check_of_the_toolkit_passes_where_there_is_one(
    there: Daemon, surroundings: dict[str, str], tmp_path: Path
) -> None:
    make = "printf '#!/bin/sh\\necho a GPU\\n' > /bin/nvidia-smi; chmod 755 /bin/nvidia-smi"
    there.docker("run", "--name=smi", BUSYBOX, "sh", "-c", make)
    there.docker("commit", "smi", "ubuntu")
    there.docker("rm", "smi")
    recorder = Recorder(tmp_path / "socket", there.socket)
    script = ROOT / "tests" / "documents" / "local-docker" / "direct-docker.sh"
    environ = {**surroundings, "DOCKER_HOST": f"unix://{tmp_path}/socket"}
    checked = subprocess.run(["bash", str(script)], env=environ, capture_output=True, text=True)
    recorder.listening.close()
    assert (checked.returncode, checked.stdout) == (0, "")
    asked = recorder.created("")["HostConfig"]
    assert (
        asked["Runtime"],
        [(each["Count"], each["Capabilities"]) for each in asked["DeviceRequests"]],
    ) == (
        "nvidia",
        [(-1, [["gpu"]])],
    )


def test_gpus_that_were_named_are_taken_although_others_use_them(
    client: Client, there: Daemon
) -> None:
    there.docker(
        "run",
        "-d",
        "--network=none",
        "--name",
        "strangers",
        "--gpus",
        "device=2",
        BUSYBOX,
        "sleep",
        "60",
    )
    job, findings = submit(client, 2, gpu_ids=(0, 2))
    assert asked(there, job)[0]["DeviceIDs"] == ["0", "2"]
    assert [found.evidence for found in findings] == ["GPU 2: strangers"]


@pytest.mark.parametrize("wrong", [{"gpu_count": 4}, {"gpu_ids": (0, 7)}])
def test_gpus_that_are_not_there_are_refused(client: Client, wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="GPUs that this machine does not have"):
        submit(client, **wrong)


def test_on_a_tegra_board_the_nvidia_runtime_and_its_variables_are_used(
    client: Client, there: Daemon
) -> None:
    spec = JobSpec(image=BUSYBOX, command="env | grep NVIDIA_ | sort", gpu_count=1)
    backend = client.engine.backend("docker")
    planned = client.plan(spec, "docker")
    facts = backend.survey(planned.job, backend.Options())
    tegra = replace(facts, info={**facts.info, "KernelVersion": "5.15.148-tegra"})
    plan = backend.plan(planned.job, backend.Options(), tegra, planned.plan.attempt)
    backend.submit(plan, {})
    container = f"tao-job-{plan.attempt.job_id}"
    seen = there.inspect(container)
    assert (seen["HostConfig"]["Runtime"], seen["HostConfig"]["DeviceRequests"]) == ("nvidia", None)
    dockerd_here.until(lambda: not there.inspect(container)["State"]["Running"])
    said = there.docker("logs", container).stdout.split()
    assert said == ["NVIDIA_DRIVER_CAPABILITIES=all", "NVIDIA_VISIBLE_DEVICES=all"]


def test_ssh_keys_go_only_to_a_job_that_asks_and_cannot_be_changed(
    there: Daemon, surroundings: dict[str, str], tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "id").write_text("not a key\n")
    spec = JobSpec(
        image=BUSYBOX, command="cat /root/.ssh/id; touch /root/.ssh/new || echo kept", gpu_count=0
    )
    environ = {
        **surroundings,
        "DOCKER_HOST": there.host,
        "DOCKER_NETWORK": "none",
        "HOST_SSH_PATH": str(keys),
    }
    with Client(settings=Settings(environ)) as client:
        jobs = [client.submit(spec, "docker", {"ssh_key": asked}).job for asked in (True, False)]
        client.wait_all([job.id for job in jobs], timeout=300)
        first, second = (client.get_job_logs(job.id) for job in jobs)
    assert ("not a key" in first, "kept" in first, "not a key" in second) == (True, True, False)
    assert list(keys.iterdir()) == [keys / "id"]


def test_the_options_reach_the_container(client: Client, there: Daemon) -> None:
    job, _ = submit(client, 0, user="1234:4321", network="host", pull="never")
    seen = there.inspect(f"tao-job-{job.id}")
    assert (seen["Config"]["User"], seen["HostConfig"]["NetworkMode"]) == ("1234:4321", "host")
