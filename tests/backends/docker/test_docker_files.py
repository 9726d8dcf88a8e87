"""Files as the daemon sees them: of its host and its volumes, looked at through it, wherever it
runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.dockerd.dockerd_here import BUSYBOX, ROOT, Daemon
from tao_sdk.backends.containers import window
from tao_sdk.backends.containers.files import FarFiles
from tao_sdk.backends.contract import Files
from tao_sdk.backends.this_machine import LocalFiles
from tao_sdk.client import Client
from tao_sdk.model.errors import PathNotFound, Unreachable
from tao_sdk.model.spec import JobSpec
from tao_sdk.transports import dockerd
from tao_sdk.transports.dockerd import Address

BIG = 3 << 20


@pytest.fixture
def daemon(here: Daemon) -> dockerd.Daemon:
    return dockerd.Daemon(Address(here.host))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "a folder"
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "b ü 'quoted'.txt").write_bytes(b"0123456789")
    (folder / "deep" / "deeper" / "c").write_bytes(os.urandom(BIG))
    (folder / "link").symlink_to("deep/deeper")
    (folder / "nothing in it").touch()
    for path in folder.rglob("*"):
        os.utime(path, (1.7e9, 1.7e9))
    return folder


def walked(files: Files, path: str) -> list[tuple[str, bool, int, int]]:
    found = []
    for each in files.list(path):
        found += [(each.path, each.is_dir, each.size, int(each.mtime))]
        found += walked(files, each.path) if each.is_dir else []
    return found


@pytest.fixture
def nothing_left(here: Daemon) -> object:
    yield
    assert here.docker("ps", "-aq", "--filter", f"label={window.LABEL}").stdout == ""


@pytest.mark.usefixtures("nothing_left")
def test_a_folder_looks_through_the_daemon_as_it_does_from_here(
    daemon: dockerd.Daemon, folder: Path
) -> None:
    far = FarFiles(daemon)
    assert walked(far, str(folder)) == walked(LocalFiles(), str(folder))
    assert far.stat(f"{folder}/link").is_dir
    assert [each.path for each in far.list(f"file://{folder}/deep/deeper/c")] == [
        f"{folder}/deep/deeper/c"
    ]


@pytest.mark.usefixtures("nothing_left")
def test_a_folder_with_more_than_is_listed_at_once_is_listed_whole(
    daemon: dockerd.Daemon, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "LIST", window.LIST.replace(str(window.SEVERAL), "20"))
    assert walked(FarFiles(daemon), str(folder)) == walked(LocalFiles(), str(folder))


@pytest.mark.usefixtures("nothing_left")
def test_without_a_shell_in_any_image_a_folder_is_listed_all_the_same(
    daemon: dockerd.Daemon, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "link").unlink()  # a tar says where it leads, and no more
    os.utime(folder, (1.7e9, 1.7e9))
    monkeypatch.setattr(window, "list_images", lambda daemon: [window.empty_image(daemon)])
    assert walked(FarFiles(daemon), str(folder)) == walked(LocalFiles(), str(folder))


def test_the_empty_image_is_gone_with_the_last_window_of_it(
    daemon: dockerd.Daemon, folder: Path
) -> None:
    first, second = (
        window.open_window(daemon, window.empty_image(daemon), str(folder)) for _ in range(2)
    )
    first.close()
    assert any(map(window.is_empty, daemon.get("/images/json")))
    second.close()
    assert not any(map(window.is_empty, daemon.get("/images/json")))


@pytest.mark.usefixtures("nothing_left")
def test_a_file_is_read_in_parts_in_order_and_from_anywhere(
    daemon: dockerd.Daemon, folder: Path
) -> None:
    path = folder / "link" / "c"
    far, whole = FarFiles(daemon), path.read_bytes()
    parts = [far.read(str(path), at, 1 << 20) for at in range(0, BIG + 1, 1 << 20)]
    assert b"".join(parts) == whole
    assert far.read(str(path), BIG - 5) == whole[-5:]
    assert far.read(str(path), 7, 3) == whole[7:10]
    assert far.read(f"{folder}/nothing in it") == b""


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("name", ["none", "b ü 'quoted'.txt/below", "deep/none", "../none"])
def test_what_is_not_there_is_told_so(daemon: dockerd.Daemon, folder: Path, name: str) -> None:
    for far in (FarFiles(daemon), FarFiles(daemon)):
        for ask in (far.stat, far.list, far.read):
            with pytest.raises(PathNotFound):
                ask(f"{folder}/{name}")
        far.list(str(folder))
        with pytest.raises(PathNotFound):
            far.stat(f"{folder}/{name}")


def test_a_relative_path_means_nothing_to_a_far_daemon(daemon: dockerd.Daemon) -> None:
    with pytest.raises(PathNotFound, match="not absolute"):
        FarFiles(daemon).stat("data")


def test_a_daemon_that_does_not_answer_is_no_absent_file(tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        FarFiles(dockerd.Daemon(Address(f"unix://{tmp_path}/none.sock"))).stat("/etc")


@pytest.mark.usefixtures("nothing_left")
def test_a_volume_is_seen_by_the_path_of_its_folder(here: Daemon, daemon: dockerd.Daemon) -> None:
    here.docker(
        "run", "--rm", "-v", "kept:/v", BUSYBOX, "sh", "-c", "mkdir -p /v/a/b; echo 1 > /v/a/b/c"
    )
    root = here.docker("volume", "inspect", "-f", "{{.Mountpoint}}", "kept").stdout.strip()
    far = FarFiles(daemon)
    assert [row[0] for row in walked(far, f"{root}/a")] == [f"{root}/a/b", f"{root}/a/b/c"]
    assert far.read(f"{root}/a/b/c") == b"1\n"
    with pytest.raises(PathNotFound):
        far.list(f"{root}/none")


@pytest.mark.usefixtures("nothing_left")
def test_windows_that_nobody_looks_through_any_more_are_removed(
    here: Daemon, daemon: dockerd.Daemon, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = daemon.get(f"/images/{BUSYBOX}/json")["Id"]
    monkeypatch.setattr("time.time", lambda: 1.7e9)
    window.open_window(daemon, image, str(folder))
    monkeypatch.undo()
    FarFiles(daemon).stat(str(folder))


PLAIN = """
import os, sys
from tao_sdk.backends.containers.files import HereFiles
from tao_sdk.transports.dockerd import Address, Daemon
import docker, requests, tao_sdk.backends.containers.window
daemon = Daemon(Address(sys.argv[1])); daemon.get("/info")
os.setgroups([]); os.setgid(1234); os.setuid(1234)
print([each.path for each in HereFiles(daemon).list(sys.argv[2])])
"""


def test_what_only_root_may_look_at_here_the_daemon_shows(here: Daemon, folder: Path) -> None:
    folder.chmod(0o700)
    here.folder.chmod(0o755)
    here.socket.chmod(0o666)
    argv = [sys.executable, "-c", PLAIN, here.host, str(folder / "deep")]
    done = subprocess.run(argv, capture_output=True, text=True)
    here.socket.chmod(0o660)
    assert done.stdout.strip() == str([f"{folder}/deep/deeper"]), done.stderr


WRITES = """
mkdir -p "$TAO_RESULTS_DIR/train"; cd "$TAO_RESULTS_DIR"; echo 42 > "train/a b.txt"; head -c SIZE /dev/zero > big
ln -s /etc/passwd out; ln -s /etc folder; mkfifo pipe; echo other > /results/other
"""


@pytest.mark.parametrize("size", [300, 3_000_000])
def test_results_in_a_kept_container_are_seen_and_fetched_and_no_link_is_followed(
    client: Client, tmp_path: Path, here: Daemon, size: int
) -> None:
    command = WRITES.replace("SIZE", str(size))
    job = client.submit(JobSpec(image=BUSYBOX, command=command, gpu_count=0), "docker").job
    client.wait(job.id, timeout=300)
    left, folder = client.results(job.id), f"/results/{job.id}"
    assert client.get_job(job.id).results_at == f"container tao-job-{job.id}"
    assert {each.path: each.size for each in left.files} == {
        f"{folder}/big": size,
        f"{folder}/train/a b.txt": 3,
    }
    assert client.list_path(folder, "docker") == ["big", "train"]
    assert client.check_path(f"{folder}/out", "docker") is False
    client.fetch_results(job.id, tmp_path / "here")
    assert (tmp_path / "here" / "train" / "a b.txt").read_text() == "42\n"
    assert (tmp_path / "here" / "big").read_bytes() == bytes(size)
    files = client.files("docker")
    for path in (f"{folder}/folder/passwd", f"{folder}/../other", "/etc/passwd-0123456789/x"):
        with pytest.raises(PathNotFound):
            files.read(path)
    here.docker("rm", "-f", f"tao-job-{job.id}")
    assert client.results(job.id).files == ()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The last names of the paths that the daemon was asked for."""
    names: list[str] = []
    request = dockerd.Daemon.request

    def noted(self: dockerd.Daemon, method: str, path: str, *more: Any, **named: Any) -> Any:
        names.append(path.rpartition("/")[2])
        return request(self, method, path, *more, **named)

    monkeypatch.setattr(dockerd.Daemon, "request", noted)
    return names


SAVES = """
trap 'echo "$line" > "$TAO_RESULTS_DIR/status.json"; exit 0' TERM
line='{"date": "11/22/2026", "status": "RUNNING", "epoch": 2, "max_epoch": 5, "kpi": {"loss": 0.5}}'
echo ready; while :; do sleep 0.1; done
"""


def test_a_cancel_does_not_wait_for_what_its_container_keeps_and_the_next_look_reads_it(
    client: Client, asked: list[str]
) -> None:
    job = client.submit(JobSpec(image=BUSYBOX, command=SAVES, gpu_count=0), "docker").job
    while "ready" not in client.get_job_logs(job.id):
        time.sleep(0.05)
    asked.clear()
    assert client.cancel_job(job.id)
    assert "stop" in asked
    assert {"changes", "archive"}.isdisjoint(asked)
    assert client.get_job(job.id).progress.epochs == 5
    assert client.get_job_logs(job.id).startswith("ready\n")


def test_a_small_folder_in_a_kept_container_is_looked_at_without_asking_for_all_changes(
    client: Client, asked: list[str]
) -> None:
    command = 'echo 42 > "$TAO_RESULTS_DIR/a"'
    job = client.submit(JobSpec(image=BUSYBOX, command=command, gpu_count=0), "docker").job
    client.wait(job.id, timeout=300)
    assert [each.size for each in client.results(job.id).files] == [3]
    assert "archive" in asked
    assert "changes" not in asked


def test_results_of_more_files_than_can_be_looked_at_in_a_container_are_told_with_the_way_to_them(
    client: Client,
) -> None:
    command = 'cd "$TAO_RESULTS_DIR"; i=0; while [ $i -lt 2100 ]; do : > f$i; i=$((i+1)); done'
    job = client.submit(JobSpec(image=BUSYBOX, command=command, gpu_count=0), "docker").job
    client.wait(job.id, timeout=300)
    with pytest.raises(Unreachable, match="docker cp"):
        client.results(job.id)


def test_with_a_mount_the_results_are_looked_at_without_the_daemon(
    surroundings: dict[str, str], client: Client
) -> None:
    job = client.submit(
        JobSpec(image=BUSYBOX, command="true", gpu_count=0, keep_results=True), "docker"
    ).job
    client.wait(job.id, timeout=300)
    files = client.engine.backend("docker").files()
    daemon = client.engine.backend("docker").daemon  # pyright: ignore
    there, daemon.address = daemon.address, Address("unix:///nobody/there")
    daemon.close()
    try:
        assert files.list(job.results_dir) == []
        with pytest.raises(PathNotFound):
            files.read(f"{job.results_dir}/.tao/manifest.json")
    finally:
        daemon.address = there


def test_the_readmes_python_runs_on_docker(surroundings: dict[str, str]) -> None:
    text = (ROOT / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    text = text.replace("platforms.local import LocalSDK", "platforms.docker import DockerSDK")
    text = text.replace("LocalSDK()", "DockerSDK()").replace(
        "gpu_count=0", f"gpu_count=0, image={BUSYBOX!r}"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], env=surroundings, capture_output=True, text=True
    )
    said = [line for line in done.stdout.splitlines() if line]
    assert said[:4] == ["Complete", "2", "3", "['numbers.txt']"], done.stdout + done.stderr
    assert said[-1] == "True Canceled"
