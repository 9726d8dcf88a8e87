"""Entries: whatever happens to the machine or the runner, an entry that is there is whole and of
the version in its mark.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_sdk.runner.document import Input
from tao_sdk.runner.inputs import entry
from tao_sdk.runner.inputs.entry import Entry, Settling
from tao_sdk.runner.inputs.staging import Staging
from tao_sdk.runner.report import Report
from tao_sdk.runner.results_folder import ResultsFolder

SOURCE = Path(entry.__file__).parents[3]
SHUTDOWN, KEEP_NAMES = (
    0x8004587D,
    1,
)  # the ioctl with which ext4 and xfs are tested: no data are written out any more
KILLED = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from tao_sdk.runner.inputs import lock
from tao_sdk.runner.inputs.entry import Entry, Settling

lock.DEAD = 0.1  # seconds to wait for who was killed before the lock said whose it is

def ensure(path, version):
    def make(part):
        folder = os.path.join(part, "made")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "of"), "w") as file:
            file.write(version)
        return folder
    settling = Settling() if sys.argv[3] else None
    Entry(path, settling).ensure_version(version, make, lambda: None)
    while settling and settling.runs:
        time.sleep(0.001)

def content(path):
    with open(os.path.join(path, "of")) as file:
        return file.read()

def killed(steps, path):
    '''Whether another process that makes it anew is killed before that step of its.'''
    def step(event, about):
        nonlocal steps
        if event in ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir"):
            steps -= 1
            if not steps:
                os.kill(os.getpid(), signal.SIGKILL)
    child = os.fork()
    if not child:
        sys.addaudithook(step)
        ensure(path, "new")
        os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL

steps = 1
while True:
    path = os.path.join(sys.argv[2], str(steps), "data")
    ensure(path, "old")
    over = not killed(steps, path)
    assert not os.path.exists(path) or Entry(path).has_version(content(path)), steps
    version = "old" if steps % 2 else "new"
    ensure(path, version)
    assert content(path) == version, steps
    if over:
        break
    steps += 1
print(steps)
"""


@pytest.mark.slow
@pytest.mark.parametrize("settles_later", ["", "yes"])
def test_a_process_killed_at_any_step_leaves_what_the_next_one_can_go_on_from(
    tmp_path, settles_later
):
    argv = [sys.executable, "-ISc", KILLED, str(SOURCE), str(tmp_path), settles_later]
    ran = subprocess.run(argv, capture_output=True, check=False, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert int(ran.stdout) > 10


class Disk:
    """A file system of its own whose power can be cut."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.image = folder / "disk", folder / "disk.img"
        self.folder.mkdir()
        with self.image.open("wb") as file:
            file.truncate(64 << 20)
        self.call("mkfs.ext4", "-q", str(self.image))
        self.mount()

    def mount(self) -> None:
        self.call("mount", "-o", "loop", str(self.image), str(self.folder))

    def unmount(self) -> None:
        self.call("umount", str(self.folder))

    def cut(self) -> None:
        """What is in memory only is lost; names, which the file system writes out in their order,
        are not.
        """
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", KEEP_NAMES))
        finally:
            os.close(fd)
        self.unmount()
        self.mount()

    def call(self, *argv: str) -> None:
        try:
            subprocess.run(argv, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("only root may mount a disk, and some machines have none to mount")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    yield disk
    disk.unmount()


def test_after_a_power_cut_an_entry_is_whole_or_made_anew(disk):
    def make(part: str) -> str:
        made = Path(part, "made")
        made.write_bytes(b"x" * 5_000_000)
        return str(made)

    path = disk.folder / "data.bin"
    Entry(str(path)).ensure_version("1", make, lambda: None)
    disk.cut()
    Entry(str(path)).ensure_version("1", make, lambda: None)
    assert path.read_bytes() == b"x" * 5_000_000


def test_after_a_power_cut_what_the_disk_had_not_yet_is_made_anew(disk, monkeypatch):
    """The job went on before the disk had its input; the mark says that it counts on the machine as
    it was.
    """
    made, free = [], threading.Event()

    def make(part: str) -> str:
        made.append(part)
        Path(part, "made").write_bytes(b"x" * 5_000_000)
        return str(Path(part, "made"))

    monkeypatch.setattr(entry, "sync_disk", lambda _: free.wait())
    path, settling = disk.folder / "data.bin", Settling()
    Entry(str(path), settling).ensure_version("1", make, lambda: None)
    assert path.stat().st_size == 5_000_000 and Entry(str(path)).has_version("1")
    os.sync()  # the names and the mark reach the disk by chance, and of the bytes who knows
    monkeypatch.setattr(entry, "boot_id", lambda: "started again")
    assert not Entry(str(path)).has_version("1")
    free.set()
    while settling.runs:
        time.sleep(0.01)
    monkeypatch.undo()
    assert not settling.waiting and len(made) == 1


@pytest.mark.parametrize("settles_later", [True, False])
def test_what_was_settled_counts_after_another_start_of_the_machine(
    disk, monkeypatch, settles_later
):
    def make(part: str) -> str:
        Path(part, "made").write_bytes(b"x" * 5_000_000)
        return str(Path(part, "made"))

    path, settling = disk.folder / "data.bin", Settling() if settles_later else None
    Entry(str(path), settling).ensure_version("1", make, lambda: None)
    while settling and settling.runs:
        time.sleep(0.01)
    disk.cut()
    monkeypatch.setattr(entry, "boot_id", lambda: "started again")
    assert Entry(str(path)).has_version("1")
    assert path.read_bytes() == b"x" * 5_000_000


def test_another_machine_waits_for_the_disk_of_the_one_that_made_an_entry(tmp_path, monkeypatch):
    """Ranks of one job share its folder; one that goes on may not find the data replaced under its
    hands.
    """
    free, told, settling = threading.Event(), [], Settling()
    here = entry.boot_id()
    monkeypatch.setattr(entry, "sync_disk", lambda _: free.wait())

    def make(part: str) -> str:
        Path(part, "made").write_bytes(b"x")
        return str(Path(part, "made"))

    path = tmp_path / "data"
    Entry(str(path), settling).ensure_version("1", make, lambda: None)
    inode = path.stat().st_ino
    monkeypatch.setattr(
        entry, "boot_id", lambda: here if threading.current_thread() is not other else "elsewhere"
    )
    other = threading.Thread(
        target=lambda: Entry(str(path)).ensure_version(
            "1", make, lambda: (told.append(1), free.set())
        )
    )
    other.start()
    other.join()
    assert told and path.stat().st_ino == inode


def test_a_file_system_that_is_busy_for_long_is_not_waited_for_to_the_end(tmp_path, monkeypatch):
    free = threading.Event()
    monkeypatch.setattr(entry, "PATIENCE", 0.01)
    monkeypatch.setattr(entry, "sync_disk", lambda _: free.wait())

    def make(part: str) -> str:
        Path(part, "made").write_bytes(b"x")
        return str(Path(part, "made"))

    Entry(str(tmp_path / "data")).ensure_version("1", make, lambda: None)
    assert Entry(str(tmp_path / "data")).has_version("1")
    free.set()


def staged(tmp_path: Path, mount: str) -> Entry:
    """The entry of a job's input, as soon as the job goes on."""

    def make(part: str) -> str:
        Path(part, "made").write_bytes(b"x")
        return str(Path(part, "made"))

    place = ResultsFolder({"TAO_RESULTS_ROOT": str(tmp_path / "results")}, "job")
    wanted = Input(key="x", uri="s3://b/x", kind="", target="", options={})
    return Entry(Staging(place, mount, {}, Report(), {}).put_entry(wanted, "x", True, "1", make))


def test_a_job_does_not_wait_until_the_disk_has_its_own_inputs(tmp_path, monkeypatch):
    free = threading.Event()
    monkeypatch.setattr(entry, "sync_disk", lambda _: free.wait())
    made = staged(tmp_path, mount="")
    assert made.has_version("1") and made.read_mark() != "1"
    free.set()


def test_a_job_waits_until_the_disk_has_what_it_shares_with_others(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(entry, "sync_disk", synced.append)
    assert staged(tmp_path, mount=str(tmp_path / "mount")).read_mark() == "1"
    assert (
        len([path for path in synced if path.startswith(str(tmp_path))]) == 1
    )  # others may still settle theirs
