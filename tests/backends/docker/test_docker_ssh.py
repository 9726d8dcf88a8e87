"""A daemon behind ssh: a real sshd in front of a second dockerd."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.dockerd import dockerd_here
from support.dockerd.dockerd_by_ssh import DockerHost
from support.dockerd.dockerd_here import BUSYBOX, Daemon
from tao_sdk.client import Client
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.transports.dockerd import Address, connect


@pytest.fixture
def behind(far: tuple[Daemon, str, Path]) -> Daemon:
    return far[0]


@pytest.fixture
def surroundings(surroundings: dict[str, str]) -> dict[str, str]:
    return {**surroundings, "DOCKER_NETWORK": "none"}


@pytest.fixture
def sshd(behind: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerHost]:
    (tmp_path / "sshd").mkdir()
    sshd = DockerHost(tmp_path / "sshd")
    sshd.start(DOCKER_HOST=behind.host)
    monkeypatch.setenv("PATH", sshd.path())
    yield sshd
    sshd.stop()


@pytest.fixture
def through(sshd: DockerHost, surroundings: dict[str, str]) -> Iterator[Client]:
    """A client whose daemon is behind ssh."""
    with Client(
        settings=Settings({**surroundings, "PATH": sshd.path(), "DOCKER_HOST": sshd.url})
    ) as client:
        yield client
        for job in client.list_jobs(look=False):
            client.cancel_job(job.id, grace=0)
            client.remove(job.id)


def sleeper(client: Client) -> str:
    spec = JobSpec(image=BUSYBOX, command="echo ready; sleep 300", gpu_count=0, env_vars={"A": "1"})
    return client.submit(spec, "docker").job.id


def test_a_job_runs_is_read_and_is_ended_behind_ssh(through: Client, behind: Daemon) -> None:
    job = sleeper(through)
    assert behind.inspect(f"tao-job-{job}")["State"]["Running"]
    assert through.get_job(job).status is Status.RUNNING
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.extend(through.follow_logs(job)))
    reader.start()
    dockerd_here.until(lambda: bool(read))
    assert through.cancel_job(job, grace=1) is True
    reader.join(120)
    assert (b"".join(read), through.get_job(job).status) == (b"ready\n", Status.CANCELED)


def test_no_docker_command_is_needed_there(
    behind: Daemon, sshd: DockerHost, surroundings: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "sh").symlink_to(shutil.which("sh") or "")
    (tmp_path / "there" / "python3").symlink_to(Path(sys.executable).resolve())
    sshd.stop()
    sshd.start(DOCKER_HOST=behind.host, PATH=str(tmp_path / "there"))
    with Client(settings=Settings({**surroundings, "DOCKER_HOST": sshd.url})) as client:
        spec = JobSpec(image=BUSYBOX, command="seq 50000", gpu_count=0)
        job = client.submit(spec, "docker").job
        client.wait(job.id, timeout=300)
        assert client.get_job_logs(job.id).count("\n") == 50000
        client.remove(job.id)


def refusal(sshd: DockerHost, url: str = "") -> Unreachable:
    with pytest.raises(Unreachable) as refused:
        connect(Address(url or sshd.url))
    assert refused.value.why, "ssh's own words are told"
    return refused.value


def test_the_socket_can_be_named_in_the_address(behind: Daemon, sshd: DockerHost) -> None:
    sshd.stop()
    sshd.start(DOCKER_HOST="unix:///nowhere")
    assert "no Docker daemon answers" in refusal(sshd).what
    assert connect(Address(f"{sshd.url}{behind.socket}")).agreed


def test_a_host_that_is_not_known_is_not_trusted(sshd: DockerHost) -> None:
    sshd.know()
    error = refusal(sshd)
    assert "the host key of 127.0.0.1 is not known here" in error.what
    assert f"ssh -p {sshd.port} root@127.0.0.1" in error.next
    assert (sshd.folder / "known_hosts").read_text() == ""


def test_a_changed_host_key_is_told_apart_from_an_unknown_one(sshd: DockerHost) -> None:
    sshd.know("other-key")
    error = refusal(sshd)
    assert "the host key of 127.0.0.1 has changed" in error.what
    assert f"ssh-keygen -R '[127.0.0.1]:{sshd.port}'" in error.next


def test_a_key_that_is_not_let_in_is_told_so(sshd: DockerHost) -> None:
    sshd.admit("other-key")
    assert "does not let us in with our keys" in refusal(sshd).what


def test_an_sshd_that_is_gone_is_told_so(sshd: DockerHost) -> None:
    sshd.stop()
    assert "127.0.0.1 does not answer ssh" in refusal(sshd).what


def test_a_host_that_does_not_exist_is_told_so(sshd: DockerHost) -> None:
    assert (
        "there is no host no-such-host.invalid" in refusal(sshd, "ssh://no-such-host.invalid").what
    )


def test_a_far_side_with_nothing_to_dial_with_is_told_so(
    behind: Daemon, sshd: DockerHost, tmp_path: Path
) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "sh").symlink_to(shutil.which("sh") or "")
    sshd.stop()
    sshd.start(PATH=str(tmp_path / "bare"))
    assert "neither the docker command nor python3" in refusal(sshd).what


def test_without_an_ssh_program_the_reason_is_told(
    sshd: DockerHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refusal(sshd)
    assert "there is no ssh program here" in error.what


def test_an_sshd_that_goes_away_leaves_the_job_as_it_was_and_comes_back(
    through: Client, sshd: DockerHost, behind: Daemon
) -> None:
    job = sleeper(through)
    through.get_job(job)
    sshd.stop()
    try:
        dockerd_here.until(lambda: through.get_job(job).message.startswith("not seen now"))
        assert through.get_job(job).status is Status.RUNNING
    finally:
        sshd.start(DOCKER_HOST=behind.host)
    dockerd_here.until(lambda: not through.get_job(job).message.startswith("not seen now"))


def test_every_ssh_ends_with_its_client(
    sshd: DockerHost, surroundings: dict[str, str], behind: Daemon
) -> None:
    with Client(settings=Settings({**surroundings, "DOCKER_HOST": sshd.url})) as client:
        assert client.doctor("docker")
        assert there(sshd)
    assert there(sshd) == []


def there(sshd: DockerHost) -> list[str]:
    """The command lines of the ssh that go there."""
    found: list[str] = []
    for process in Path("/proc").iterdir():
        try:
            found += (
                [(process / "cmdline").read_text().replace("\0", " ")]
                if process.name.isdigit()
                else []
            )
        except OSError:
            continue
    return [each for each in found if "127.0.0.1" in each and str(sshd.port) in each]


RESULTS = """
import os, sys
from pathlib import Path
from tao_sdk.client import Client
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec

def run(folder):
    command = 'id -u; umask 077; mkdir -p "$TAO_RESULTS_DIR"; echo 1 > "$TAO_RESULTS_DIR/a"'
    spec = JobSpec(image=sys.argv[1], command=command, gpu_count=0, keep_results=True)
    with Client(settings=Settings({**os.environ, "TAO_SDK_STATE_DIR": folder + "/state"})) as client:
        job = client.submit(spec, "docker").job.id
        client.wait(job, timeout=300)
        fetched = client.fetch_results(job, Path(folder) / "fetched")
        seen = client.get_job_logs(job).strip(), client.get_job_results_dir(job), *fetched
        client.remove(job)
        return seen

root, home, uid = sys.argv[2:]
if int(uid):
    os.chdir(root); run(root)  # loads what the plain user might not be able to read
    os.setgroups([]); os.setgid(int(uid)); os.setuid(int(uid))
os.chdir(home); print(*run(home))
"""


@pytest.mark.parametrize("name", ["root", "nobody"])
def test_results_far_away_are_the_images_users_and_what_is_fetched_is_the_callers(
    behind: Daemon, surroundings: dict[str, str], tmp_path: Path, name: str
) -> None:
    """Of root and of a plain user, who has to have a name for ssh to run at all."""
    uid = pwd.getpwnam(name).pw_uid
    home = Path(tempfile.mkdtemp(prefix="tao-far-"))  # pytest's own folder is only root's
    far = DockerHost(home)
    try:
        far.start(DOCKER_HOST=behind.host)
        for path in (home, home / "user", home / "known_hosts"):
            os.chown(path, uid, -1)
        environ = {**surroundings, "HOME": str(home), "PATH": far.path(), "DOCKER_HOST": far.url}
        argv = [sys.executable, "-c", RESULTS, BUSYBOX, str(tmp_path), str(home), str(uid)]
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        user, there, fetched = done.stdout.split()
        assert (user, there.startswith(f"{behind.data}/volumes/tao-runs-")) == ("0", True)
        assert Path(there, "a").stat().st_uid == 0
        assert (Path(fetched).read_text(), Path(fetched).stat().st_uid) == ("1\n", uid)
    finally:
        far.stop()
        shutil.rmtree(home)
