"""The DockerSDK as an object in somebody's program: what it opens, what it writes, what it asks,
and what it lets go.
"""

from __future__ import annotations

import json
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import BUSYBOX, PYTHON, Daemon
from support.dockerd.recorder import Recorder
from tao_sdk.action_workflow import ActionWorkflow
from tao_sdk.client import Client
from tao_sdk.model.errors import SpecError, StoreError
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.platforms.docker import DockerSDK

OPEN = """
import json, os, sys, threading, time
from tao_sdk.platforms.docker import DockerSDK

def held():
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    sockets = [each for each in links if each.startswith("socket:")]
    return len(sockets), len([each for each in links if "jobs.db" in each]) > 0, threading.active_count() - 1

before = held()
with DockerSDK() as sdk:
    made = held()
    job = sdk.create_job(image=sys.argv[1], command="true", gpu_count=0)
    sdk.wait(job.id)
    sdk.get_job_logs(job.id)
    used = held()
    sdk.remove(job.id)
patience = time.monotonic() + 300
while held() != before and time.monotonic() < patience:
    time.sleep(0.1)
print(json.dumps([before, made, used, held()]))
"""


def test_an_sdk_opens_nothing_of_the_daemon_before_it_is_used_and_lets_go_of_all(
    surroundings: dict[str, str],
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPEN, BUSYBOX], env=surroundings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    before, made, used, after = json.loads(done.stdout)
    assert (made[0], made[2]) == (before[0], 0), "a connection or a thread for nothing"
    assert used[0] > before[0]
    assert after == before


def test_an_sdk_can_be_made_while_its_daemon_is_away_and_is_not_asked(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "d.sock"))
        listening.listen()
        listening.settimeout(0.2)
        settings = Settings({**surroundings, "DOCKER_HOST": f"unix://{tmp_path}/d.sock"})
        with DockerSDK(settings=settings) as sdk:
            assert sdk.list_jobs() == []
        with pytest.raises(TimeoutError):
            listening.accept()


def test_a_closed_sdk_says_so_and_its_job_goes_on(
    surroundings: dict[str, str], here: Daemon
) -> None:
    sdk = DockerSDK(settings=Settings(surroundings))
    job = sdk.create_job(image=BUSYBOX, command="sleep 300", gpu_count=0)
    sdk.close()
    sdk.close()
    with pytest.raises(StoreError, match="was closed"):
        sdk.get_job_status(job.id)
    assert here.inspect(f"tao-job-{job.id}")["State"]["Running"]
    with DockerSDK(settings=Settings(surroundings)) as another:
        assert another.cancel_job(job.id, grace=0) is True
        another.remove(job.id)


def test_two_sdks_that_submit_and_look_in_turn_both_know_all_jobs(
    surroundings: dict[str, str],
) -> None:
    with (
        DockerSDK(settings=Settings(surroundings)) as first,
        DockerSDK(settings=Settings(surroundings)) as second,
    ):
        jobs = [
            sdk.create_job(image=BUSYBOX, command="true", gpu_count=0).id
            for sdk in (first, second, first)
        ]
        for sdk in (second, first, second):
            assert {job.id for job in sdk.list_jobs()} == set(jobs)
        assert [sdk.wait(job).status for sdk in (first, second) for job in jobs] == [
            Status.COMPLETE
        ] * 6
        for job in jobs:
            first.remove(job)
        assert second.list_jobs() == []


def test_nothing_is_written_but_private_files_in_the_state_folder_and_nothing_stays_of_a_removed_job(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    with Client(settings=Settings(surroundings)) as client:
        spec = JobSpec(
            image=BUSYBOX, command="sleep 300", gpu_count=0, env_vars={"MY_TOKEN": "k4n4ry"}
        )
        job = client.submit(spec, "docker").job
        client.cancel_job(job.id, grace=0)
        client.get_job_logs(job.id)
        state = tmp_path / "state"
        written = [path for path in tmp_path.rglob("*") if path not in (state, tmp_path / "home")]
        assert [path for path in written if not path.is_relative_to(state)] == []
        assert [path for path in [state, *written] if not is_private(path, state)] == []
        client.remove(job.id)
    left = [
        path
        for path in state.rglob("*")
        if path.is_file() and not path.name.startswith(("jobs.db", "turn-"))
    ]
    assert [
        path for path in left if job.id in path.name or job.id.encode() in path.read_bytes()
    ] == []
    assert [path.name for path in left if path.suffix == ".canceled"] == []


def is_private(path: Path, state: Path) -> bool:
    """Closed to others itself, or in a folder that is."""
    above = [path, *(each for each in path.parents if each == state or each.is_relative_to(state))]
    return any(not stat.S_IMODE(each.stat().st_mode) & 0o077 for each in above)


def test_a_daemon_that_is_away_for_a_moment_ends_no_run_that_a_workflow_follows(
    surroundings: dict[str, str], here: Daemon, tmp_path: Path
) -> None:
    way = tmp_path / "way.sock"
    recorder = Recorder(way, here.socket)
    with DockerSDK(
        settings=Settings({**surroundings, "DOCKER_HOST": f"unix://{way}"}), watch=False
    ) as sdk:
        job = sdk.create_job(image=BUSYBOX, command="sleep 300", gpu_count=0)
        sdk.get_job_status(job.id)
        run = ActionWorkflow(tmp_path / "state", "train", "1")
        run.write_submission(job)
        recorder.listening.close()
        way.unlink()
        sdk.engine.close()
        dockerd_here.until(lambda: sdk.get_job(job.id).message.startswith("not seen now"))
        assert run.sync_from_sdk(sdk, job.id).status is Status.RUNNING
        assert [each["job_id"] for each in run.active_jobs] == [job.id]
        back = Recorder(way, here.socket)
        assert sdk.cancel_job(job.id, grace=0) is True
        assert run.sync_from_sdk(sdk, job.id).status is Status.CANCELED
        assert list(run.active_jobs) == []
        sdk.remove(job.id)
        back.listening.close()


def test_a_job_that_has_ended_is_not_asked_for_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = client.submit(JobSpec(image=BUSYBOX, command="true", gpu_count=0), "docker").job
    client.wait(job.id, timeout=300)
    backend: Any = client.engine.backend_of(job)
    asked: list[Any] = []
    monkeypatch.setattr(backend.daemon, "request", lambda *given, **_: asked.append(given))
    assert client.get_job_status(job.id).status is Status.COMPLETE
    assert [each.status for each in client.list_jobs()] == [Status.COMPLETE]
    assert client.cancel_job(job.id) is True
    assert asked == []
    monkeypatch.undo()


WRAPPED: dict[str, Any] = {
    "specs": {"train": {"epochs": 2, "results": "/results/out"}},
    "outputs": {"train.results": {"type": "folder"}},
    "keep_results": True,
}


def test_a_job_with_specs_and_outputs_needs_no_network_installs_nothing_and_does_not_print_its_command(
    client: Client, here: Daemon
) -> None:
    command = "cat {config_path}; echo done > /results/out/a; : not-to-be-printed"
    spec = JobSpec(image=PYTHON, command=command, gpu_count=0, **WRAPPED)
    job = client.submit(spec, "docker", {"network": "none"}).job
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    assert "epochs" in client.get_job_logs(job.id)
    assert b"not-to-be-printed" not in b"".join(
        client.follow_logs(job.id, events=True, follow=False)
    )
    changed = here.docker("diff", f"tao-job-{job.id}").stdout
    assert [
        line for line in changed.splitlines() if "packages" in line or "_tao_runner" in line
    ] == []


def test_what_the_image_lacks_for_a_wrapped_job_is_said_in_plain_words(client: Client) -> None:
    job = client.submit(
        JobSpec(image=BUSYBOX, command="cat {config_path}", gpu_count=0, **WRAPPED), "docker"
    ).job
    assert client.wait(job.id, timeout=300).status is Status.ERROR
    assert "needs python3" in client.get_job_logs(job.id)
    found = client.diagnose(job.id)
    assert found is not None and found.cause


@pytest.mark.parametrize("count", [-2, -5])
def test_fewer_gpus_than_all_is_no_number(client: Client, count: int) -> None:
    with pytest.raises(SpecError, match="-1 or more"):
        client.submit(JobSpec(image=BUSYBOX, command="true", gpu_count=count), "docker")
    assert client.list_jobs() == []


def test_a_job_of_auto_remove_ends_as_it_did_however_much_the_daemon_has_to_tell_meanwhile(
    surroundings: dict[str, str], here: Daemon
) -> None:
    """A daemon remembers 256 events."""
    with Client(settings=Settings({**surroundings, "DOCKER_AUTO_REMOVE": "true"})) as client:
        job = client.submit(
            JobSpec(image=BUSYBOX, command="echo said; exit 3", gpu_count=0), "docker"
        ).job
        dockerd_here.until(lambda: not here.inspect(f"tao-job-{job.id}")["State"]["Running"])
        backend: Any = client.engine.backend_of(job)
        for _ in range(300):
            backend.daemon.ask("POST", f"/images/{BUSYBOX}/tag", repo="tao-told", tag="1")
        here.docker("rmi", "tao-told:1")
        client.wait(job.id, timeout=300)
        assert (client.get_job(job.id).exit_code, client.get_job_logs(job.id)) == (3, "said\n")
        client.remove(job.id)
