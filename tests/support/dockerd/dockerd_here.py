"""A real dockerd for the tests: started apart from any other, with images made on this machine, and
stopped by its pid.

Here: the daemon and its images. Not here: what the tests do with it. `daemon()` starts one for the
whole test session; a process that the tests start finds it by TAO_TEST_DOCKER_HOST.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from support import marks
from support.servers import debian
from support.waiting import until

ROOT = Path(__file__).parents[3]
CACHE = ROOT / ".cache" / "docker"
START_LOCK = Path(tempfile.gettempdir()) / "tao-tests-dockerd-start.lock"
PLACES = 4  # daemons at once: each has a bridge, networks and a data folder of its own
VARIABLE = "TAO_TEST_DOCKER_HOST"
PYTHON, BUSYBOX, EMPTY = "tao-test-python", "tao-test-busybox", "tao-test-empty"
DOCUMENTED = "nvcr.io/nvidia/tao/tao-toolkit:6.26.3-pyt"  # a small image stands for it
NEEDS = {
    "dockerd": "docker.io", "debootstrap": "debootstrap", "busybox": "busybox-static",
    "ip": "iproute2", "htpasswd": "apache2-utils",
    "sshd": "openssh-server",
}  # fmt: skip
PACKAGES = "python3-minimal,python3-numpy"
# Folders that no test looks into: 100 MB, which every server would unpack.
NOT_NEEDED = (
    *("var/cache/apt", "var/lib/apt/lists"),
    *("usr/share/doc", "usr/share/locale", "usr/share/man"),
)
GPU_HERE = all(shutil.which(program) for program in ("nvidia-smi", "nvidia-container-runtime-hook"))


def need(*programs: str) -> None:
    debian.need("docker", {program: NEEDS.get(program, program) for program in programs})


class Daemon:
    """One dockerd with folders of its own. Its containers outlive it. `within` is a command that
    runs it, if need be.
    """

    def __init__(self, data: Path, folder: Path, *flags: str, within: Sequence[str] = ()) -> None:
        self.data, self.folder, self.flags, self.within = data, folder, flags, within
        self.socket = folder / "docker.sock"
        self.host = f"unix://{self.socket}"
        self.pid_file = folder / "dockerd.pid"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        config = self.folder / "daemon.json"  # not this machine's
        config.write_text("{}")
        argv = [
            *self.within, "dockerd", "--config-file", str(config), "--data-root", str(self.data),
            "--exec-root", str(self.folder / "exec"), "--pidfile", str(self.pid_file), "--host",
            self.host,
            "--live-restore", *self.flags,
        ]  # fmt: skip
        forget_dead(self.folder / "exec/containerd/containerd.pid")
        with (self.folder / "dockerd.log").open("ab") as log, START_LOCK.open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)  # two that start at once undo each other's iptables
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
            until(self.answers, words=lambda: (self.folder / "dockerd.log").read_text()[-2000:])

    def answers(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            debian.missing(
                "docker", f"dockerd ended: {(self.folder / 'dockerd.log').read_text()[-2000:]}"
            )
        return self.socket.exists() and self.docker("version", check=False).returncode == 0

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(300)
            self.process = None

    def leave_no_mounts(self) -> None:
        """dockerd leaves its data folder mounted on itself, the network namespaces of containers
        that were killed, and sometimes the disks of containers that it has ended. The next one
        mounts its data folder over them and can never remove them. What still ends holds one for a
        moment.
        """
        lines = Path("/proc/self/mounts").read_text().splitlines()
        for place in sorted((line.split()[1] for line in lines), reverse=True):
            if Path(place).is_relative_to(self.data) or Path(place).is_relative_to(self.folder):
                subprocess.run(["umount", "--lazy", place], check=True)

    def docker(
        self, *words: str, check: bool = True, stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["docker", "-H", self.host, *words],
            input=stdin.decode() if stdin else None,
            capture_output=True,
            text=True,
        )
        if check and done.returncode:
            raise AssertionError(f"docker {' '.join(words)}: {done.stderr}")
        return done

    def inspect(self, name: str) -> dict[str, Any]:
        return json.loads(self.docker("inspect", name).stdout)[0]


def forget_dead(pid_file: Path) -> None:
    """A containerd that ended with its dockerd may stay a zombie where nobody reaps, and dockerd
    would wait for it.
    """
    if pid_file.exists():
        stat = Path("/proc", pid_file.read_text().strip(), "stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            pid_file.unlink()


@contextmanager
def apart(data: Path, *flags: str) -> Generator[Daemon]:
    """A daemon beside the session's, with nothing but busybox and without a bridge, for what would
    disturb the others.
    """
    daemon()
    with alone_with_busybox(data, *flags) as there:
        yield there


@contextmanager
def alone_with_busybox(data: Path, *flags: str) -> Generator[Daemon]:
    """As `apart`, for tests that need no image but busybox: the session's daemon, and its turn, are
    not waited for.
    """
    if os.geteuid() != 0:
        debian.missing("docker", "dockerd needs root")
    need("dockerd", "busybox")
    there = Daemon(
        data, Path(tempfile.mkdtemp(prefix="taod-")), "--bridge=none", *flags
    )  # a socket's path is short
    there.start()
    try:
        there.docker("import", str(busybox_root()), BUSYBOX)
        yield there
    finally:
        end_alone(there)


def end_alone(there: Daemon) -> None:
    """It is stopped also where something of it cannot be cleared."""
    try:
        if there.process is None:
            there.start()
        clear(there)
    finally:
        there.stop()
        there.leave_no_mounts()
        shutil.rmtree(there.folder, ignore_errors=True)


def daemon() -> Daemon:
    """The test session's dockerd, with the images; started at the first call."""
    marks.need("docker")
    return started()


@functools.cache
def started() -> Daemon:
    if os.geteuid() != 0:
        debian.missing("docker", "dockerd needs root")
    if sys.platform != "linux":
        debian.missing("docker", "dockerd needs Linux")
    need("dockerd", "debootstrap", "busybox", "ip")
    CACHE.mkdir(parents=True, exist_ok=True)
    place, lock = turn()
    make_bridge(place)
    here = Daemon(
        CACHE / (f"data-{place}" if place else "data"),
        Path(tempfile.mkdtemp(prefix="taod-")),
        f"--bridge={bridge(place)}",
        f"--default-address-pool=base={networks(place)},size=26",
    )
    atexit.register(end, here, place, lock)
    here.start()
    clear(here)
    make_images(here)
    os.environ[VARIABLE] = here.host
    return here


@functools.cache
def turn() -> tuple[int, IO[str]]:
    """The number of a place that no other test session has, of whichever clone, and what holds it.
    Where all are taken, the first is waited for. A daemon that did not start is tried in the same
    turn.
    """
    locks = [lock_file(place).open("w") for place in range(PLACES)]
    for place, lock in enumerate(locks):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return place, lock
    fcntl.flock(locks[0], fcntl.LOCK_EX)
    return 0, locks[0]


def lock_file(place: int) -> Path:
    name = f"tao-tests-dockerd-{place}.lock" if place else "tao-tests-dockerd.lock"
    return Path(tempfile.gettempdir()) / name


def bridge(place: int) -> str:
    return f"tao-tests-{place}" if place else "tao-tests"


def address() -> str:
    """Where containers of the session's daemon reach this machine."""
    return address_in(turn()[0])


def address_in(place: int) -> str:
    return f"10.213.{7 + place}.1"


def networks(place: int) -> str:
    """Those that a daemon makes: two that choose from one pool at once may choose the same."""
    return f"10.213.{128 + 32 * place}.0/19"


def make_bridge(place: int) -> None:
    """One of our own: docker0 is removed by every daemon that starts without a bridge, as those
    `apart` do.
    """
    remove_bridge(place)
    name = bridge(place)
    for words in (["link", "add", name, "type", "bridge"], ["addr", "add", f"{address_in(place)}/24", "dev", name],
                  ["link", "set", name, "up"]):  # fmt: skip
        subprocess.run(["ip", *words], check=True)


def remove_bridge(place: int) -> None:
    subprocess.run(["ip", "link", "delete", bridge(place)], capture_output=True)  # it may not be


def host() -> str:
    """Where the session's dockerd answers; for a process that a test has started, the one that the
    test named.
    """
    marks.need("docker")
    return os.environ.get(VARIABLE) or daemon().host


def end(here: Daemon, place: int, lock: object) -> None:
    if here.process is None:
        here.start()
    clear(here)
    here.stop()
    here.leave_no_mounts()
    remove_bridge(place)
    shutil.rmtree(here.folder, ignore_errors=True)
    del lock


def clear(here: Daemon) -> None:
    """No container stays, and no network, volume or nameless image of a test."""
    refused: list[str] = []
    until(lambda: clear_containers(here, refused), words=lambda: refused[-1])
    clear_networks(here)
    here.docker("volume", "prune", "-f")
    here.docker("image", "prune", "-f")


def clear_containers(here: Daemon, refused: list[str]) -> bool:
    """True if none is left. The disk of one that has just ended may be busy for a moment."""
    if ids := here.docker("ps", "-aq").stdout.split():
        refused.append(here.docker("rm", "-f", "-v", *ids, check=False).stderr)
    return not refused or not here.docker("ps", "-aq").stdout


def clear_networks(here: Daemon) -> None:
    """Those that no container has. A busy daemon may leave the end of a container that is gone in
    one, and never free it.
    """
    for network in here.docker(
        "network", "ls", "-q", "--filter", "label=tao-toolkit"
    ).stdout.split():
        [seen] = json.loads(here.docker("network", "inspect", network).stdout)
        for container, end in seen["Containers"].items():
            if container not in here.docker("ps", "-aq", "--no-trunc").stdout.split():
                here.docker("network", "disconnect", "-f", network, end["Name"])
    here.docker("network", "prune", "-f")


def make_images(here: Daemon) -> None:
    have = here.docker("images", "--format", "{{.Repository}}").stdout.split()
    if PYTHON not in have:
        here.docker("import", "--change", "CMD /bin/bash", str(debian_root()), PYTHON)
    if BUSYBOX not in have:
        here.docker("import", str(busybox_root()), BUSYBOX)
    if EMPTY not in have:
        here.docker("import", str(tar(CACHE / "empty.tar", {"nothing": b""})), EMPTY)
    here.docker("tag", PYTHON, DOCUMENTED)


@contextmanager
def alone(folder: Path) -> Generator[None]:
    """Test sessions beside each other make what they all use one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def debian_root() -> Path:
    """A Debian of 175 MB with bash, python3 and numpy, as a tar file; made once."""
    made = CACHE / "debian.tar"
    with alone(CACHE):
        if not made.exists():
            make_debian(made)
    return made


def make_debian(made: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="debian-", dir=CACHE))
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(folder)],
        check=True, capture_output=True,
    )  # fmt: skip
    for name in NOT_NEEDED:
        shutil.rmtree(folder / name)
    subprocess.run(["tar", "-C", str(folder), "-cf", f"{made}.part", "."], check=True)
    shutil.rmtree(folder)
    Path(f"{made}.part").rename(made)


def busybox_root() -> Path:
    """Neither bash nor python3: one program under the names that a shell command uses."""
    program = Path(shutil.which("busybox") or "/bin/busybox").read_bytes()
    names = subprocess.run(
        ["busybox", "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    wanted = sorted({*names, "sh"} - {"bash", "busybox"})
    links = {f"bin/{name}": "busybox" for name in wanted}
    passwd = b"root:x:0:0:root:/root:/bin/sh\nplain:x:1234:1234::/home/plain:/bin/sh\n"
    return tar(CACHE / "busybox.tar", {"bin/busybox": program, "etc/passwd": passwd}, links)


def tar(path: Path, files: dict[str, bytes], links: dict[str, str] | None = None) -> Path:
    # others may read the one that is there, or write it, too
    partial = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
    with tarfile.open(partial, "w") as out:
        for folder in ("bin", "etc", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            out.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            out.addfile(entry, io.BytesIO(content))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            out.addfile(entry)
    return partial.rename(path)
