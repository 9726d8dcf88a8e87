"""A real SLURM cluster for the tests, on this computer: Debian's packages, four nodes with
pretended GPUs, a login node.

Here: the cluster's programs, and what a test does to them. Not here: their files' texts
(cluster_files.py), how one machine is kept apart from another (machine.sh). `cluster()` starts one
for the whole test session. What stands in for something that Debian does not have lies in
stand_ins/. Only the lines that lead to hosts that are far or hang are ours, too (link.py).
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support import marks
from support.cluster import cluster_files as files
from support.cluster.cluster_files import CTLD, DBD, LOGIN_HOSTS, SQL, SSH, UIDS, USER, Place, Site
from support.servers import debian
from support.waiting import until

HERE = Path(__file__).parent
HOME = Path("/var/lib/tao-tests-slurm")  # not below /tmp: every machine has a /tmp of its own
VARIABLE = "TAO_TEST_SLURM_CLUSTER"  # its number, for a process that a test starts
AT_ONCE = 3  # clusters on one computer, of test sessions of different clones
SHARED = "/lustre/fsw/taouser"  # the user's folder as the cluster sees it
PACKAGES = {
    "/usr/sbin/slurmctld": "slurmctld", "/usr/sbin/slurmd": "slurmd",
    "/usr/bin/squeue": "slurm-client",
    "/usr/sbin/slurmdbd": "slurmdbd", "/usr/sbin/munged": "munge",
    "/usr/sbin/sshd": "openssh-server",
    "/usr/sbin/mariadbd": "mariadb-server", "/usr/bin/gcc": "gcc",
    "/usr/include/stdio.h": "libc6-dev",
    "/usr/include/slurm/spank.h": "libslurm-dev", "/usr/bin/mksquashfs": "squashfs-tools",
    "/usr/bin/pydoc3": "python3",
}  # fmt: skip
LOGIN_NODES = ("login1", "login2")  # each with an sshd of its own
START_SECONDS = 300.0
# How a program ends that has crashed, as its parent and as a shell around it see it.
CRASHES = (-signal.SIGSEGV, -signal.SIGABRT, 128 + signal.SIGSEGV, 128 + signal.SIGABRT)


def need(packages: Mapping[str, str] = PACKAGES) -> None:
    debian.need("slurm", packages)


def cluster() -> Cluster:
    """The test session's cluster; started at the first call."""
    marks.need("slurm")
    return started()


@functools.cache
def started() -> Cluster:
    if sys.platform != "linux" or os.geteuid() != 0:
        debian.missing("slurm", "the cluster needs root on Linux")
    need()
    number, lock = taken()
    here = Cluster(Place(HOME / str(number), number))
    here.end_leftovers()
    try:
        here.start()
    except BaseException:
        here.end(lock)  # else the next test would wait for a lock that this process has
        raise
    atexit.register(here.end, lock)
    os.environ[VARIABLE] = str(number)
    return here


def place() -> Place:
    """Where the session's cluster is; for a process that a test has started, the one that the test
    named.
    """
    marks.need("slurm")
    number = os.environ.get(VARIABLE) or str(cluster().place.number)
    return Place(HOME / number, int(number))


def taken() -> tuple[int, object]:
    """The number of a cluster that no other test session has; waits for one when all are taken."""
    locks = [
        (Path(tempfile.gettempdir()) / f"tao-tests-slurm-{number}.lock").open("w")
        for number in range(AT_ONCE)
    ]
    for number, lock in enumerate(locks):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number, lock
    fcntl.flock(locks[0], fcntl.LOCK_EX)
    return 0, locks[0]


class Cluster:
    """Its machines: `control` (the controller and its database), `login`, and the nodes."""

    def __init__(self, place: Place) -> None:
        self.place, self.folder, self.site = place, place.folder, Site()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.environ = {
            **os.environ,
            "SLURM_CONF": str(place.slurm_conf),
        }  # also marks what is the cluster's

    # From nothing to idle nodes, and back

    def start(self) -> None:
        """In the order that works: who is asked starts before who asks."""
        self.lay_out()
        self.start_munge()
        self.start_database()
        self.start_accounting()
        self.start_controller()
        for node in self.place.nodes:
            self.start_node(node)
        for host in LOGIN_NODES:
            self.start_login_node(host)
        until(lambda: self.count_idle() == len(self.place.nodes), START_SECONDS, self.words)

    def lay_out(self) -> None:
        self.remove()
        for name in (
            "etc run log state spool dev ssh munge machines bin home client "
            "ours lustre/fsw lustre/images"
        ).split():
            (self.folder / name).mkdir(parents=True)
        self.run_by_hand("mount", "--bind", str(self.ours), str(self.ours))
        self.run_by_hand("mount", "--make-shared", str(self.ours))
        Path("/lustre").mkdir(exist_ok=True)  # where the machines, and only they, mount theirs
        for name, uid in UIDS.items():
            for mine in (self.folder / "home" / name, self.folder / "lustre/fsw" / name):
                mine.mkdir(mode=0o755)
                os.chown(mine, uid, uid)
        for gpu in range(files.GPUS):
            (self.folder / "dev" / f"nvidia{gpu}").symlink_to("/dev/null")
        self.write_etc()
        self.make_keys()
        self.install_stand_ins()
        self.run_by_hand("chown", "-R", "munge:", str(self.folder / "munge"))

    def write_etc(self) -> None:
        texts = {
            "slurmdbd.conf": files.slurmdbd_conf(self.place),
            "gres.conf": files.gres_conf(self.place),
            "cgroup.conf": files.cgroup_conf(), "sacctmgr": files.accounts(self.place),
        }  # fmt: skip
        for name, text in texts.items():
            (self.folder / "etc" / name).write_text(text)
        (self.folder / "etc/slurmdbd.conf").chmod(0o600)
        self.write_machine_etc()
        self.write_site()

    def write_machine_etc(self) -> None:
        """What the cluster's machines have as /etc: this computer's, with the cluster's users and
        hosts.
        """
        machine_etc = self.folder / "machine-etc"
        self.run_by_hand("cp", "-a", "/etc", str(machine_etc))
        texts = {
            "passwd": files.passwd(self.place, Path("/etc/passwd").read_text()),
            "group": files.group(Path("/etc/group").read_text()),
            "hosts": files.hosts(self.place, Path("/etc/hosts").read_text()),
        }
        for name, text in texts.items():
            (machine_etc / name).write_text(text)
            (machine_etc / name).chmod(0o644)

    def write_site(self) -> None:
        self.place.slurm_conf.write_text(files.slurm_conf(self.place, self.site))
        (self.folder / "etc/plugstack.conf").write_text(files.plugstack_conf(self.place, self.site))
        enroot = self.folder / "bin/enroot"
        enroot.unlink(missing_ok=True)
        if self.site.enroot:
            shutil.copy(HERE / "stand_ins/enroot", enroot)

    def make_keys(self) -> None:
        """A host key, and one that both users of the cluster may come with."""
        folder = self.folder / "ssh"
        for name in ("host_key", f"id_{USER}"):
            self.run_by_hand(
                "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)
            )
        shutil.copy(folder / f"id_{USER}.pub", folder / "authorized_keys")
        (folder / "sshd_config").write_text(files.sshd_config(self.place))
        (folder / "known_hosts").write_text(
            files.known_hosts(self.place, (folder / "host_key.pub").read_text())
        )
        self.place.ssh_config.write_text(files.client_ssh_config(self.place))
        for name in ("ssh", "scp"):
            program = self.folder / "client" / name
            program.write_text(f'#!/bin/sh\nexec /usr/bin/{name} -F {self.place.ssh_config} "$@"\n')
            program.chmod(0o755)
        Path("/run/sshd").mkdir(exist_ok=True)
        (self.folder / "munge/key").write_bytes(os.urandom(128))
        (self.folder / "munge/key").chmod(0o400)

    def install_stand_ins(self) -> None:
        plugin = self.folder / "etc/pyxis_flags.so"
        self.run_by_hand(
            "gcc",
            "-shared",
            "-fPIC",
            "-O1",
            "-o",
            str(plugin),
            str(HERE / "stand_ins/pyxis_flags.c"),
        )

    def start_munge(self) -> None:
        munge = self.folder / "munge"
        parts = {
            "socket": "socket",
            "key-file": "key",
            "pid-file": "pid",
            "log-file": "log",
            "seed-file": "seed",
        }
        argv = [
            "munged",
            "--foreground",
            *(f"--{flag}={munge / name}" for flag, name in parts.items()),
        ]
        self.run("", "munged", *argv, user="munge", group="munge", extra_groups=[])
        until(self.place.munge_socket.exists, START_SECONDS, self.words)

    def start_database(self) -> None:
        data, own = self.folder / "mysql", self.folder / "mysqlrun"
        for each in (data, own):
            each.mkdir()
            shutil.chown(each, "mysql")
        small = [
            "--innodb-log-file-size=8M",
            "--innodb-buffer-pool-size=32M",
            "--innodb-flush-method=nosync",
        ]
        make = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=mysql",
             "--skip-name-resolve",
                "--auth-root-authentication-method=normal", "--skip-test-db", *small]  # fmt: skip
        self.run_by_hand(*make)
        self.run(
            "", "mariadbd", "mariadbd", "--no-defaults", "--user=mysql", f"--datadir={data}",
            "--bind-address=127.0.0.1",
            f"--port={self.place.port(SQL)}", f"--socket={own}/socket", f"--pid-file={own}/pid",
            "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900",
            "--performance-schema=OFF",
            "--innodb-file-per-table=0", "--sync-binlog=0", *small,
        )  # fmt: skip
        grant = (
            "create database slurm_acct; create user slurm@'127.0.0.1' identified by 'slurm';"
            "grant all on slurm_acct.* to slurm@'127.0.0.1'"
        )
        ask = ["mariadb", "--no-defaults", "-uroot", "-S", f"{own}/socket", "-e", grant]
        until(
            lambda: subprocess.run(ask, capture_output=True).returncode == 0,
            START_SECONDS,
            self.words,
        )

    def start_accounting(self) -> None:
        self.start_slurmdbd()
        with (self.folder / "etc/sacctmgr").open("rb") as said:
            self.run_by_hand("sacctmgr", "-i", "-Q", stdin=said)

    def start_controller(self, *how: str) -> None:
        self.run("control", "slurmctld", "slurmctld", "-D", *how)
        keeper = threading.Thread(target=self.keep_controller, name="keep-slurmctld", daemon=True)
        keeper.start()
        until(lambda: listens("127.0.0.1", self.place.port(CTLD)), START_SECONDS, self.words)
        until(lambda: "is UP" in self.ask("scontrol", "ping").stdout, START_SECONDS, self.words)

    def keep_controller(self) -> None:
        """Start it again where it has crashed, as a site's service manager does: SLURM 22.05 was
        seen to (SIGSEGV), seconds after a restart under load.
        """
        kept = self.running["slurmctld"]
        while kept.wait() in CRASHES and self.running.get("slurmctld") is kept:
            self.run("control", "slurmctld", "slurmctld", "-D")
            kept = self.running["slurmctld"]

    def start_login_node(self, host: str) -> None:
        address = f"{LOGIN_HOSTS[host]}:{self.place.port(SSH)}"
        argv = [
            "/usr/sbin/sshd",
            "-D",
            "-e",
            "-f",
            str(self.folder / "ssh/sshd_config"),
            "-o",
            f"ListenAddress={address}",
        ]
        self.run("login", f"sshd-{host}", *argv)
        until(lambda: listens(LOGIN_HOSTS[host], self.place.port(SSH)), START_SECONDS, self.words)

    def start_node(self, node: str) -> None:
        (self.folder / "spool" / node).mkdir(exist_ok=True)
        self.run(node, f"slurmd-{node}", "slurmd", "-D", "-N", node)

    def end(self, lock: object) -> None:
        """Nothing of it stays: no process, no cgroup, no file."""
        if "slurmctld" in self.running:
            self.cancel_all()
        for name in reversed(list(self.running)):
            self.stop(name)
        self.end_leftovers()
        self.remove()
        del lock

    def remove(self) -> None:
        places = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for place in sorted(places, reverse=True):
            if Path(place).is_relative_to(self.folder):
                self.run_by_hand("umount", "--lazy", place)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def ours(self) -> Path:
        """A folder under one name here and on every machine, with what this computer mounts below
        it.
        """
        return self.folder / "ours"

    def end_leftovers(self) -> None:
        """What still runs with this cluster's mark: steps of jobs, and what a test session that was
        killed has left.
        """
        left = [
            int(each.name)
            for each in Path("/proc").iterdir()
            if each.name.isdigit() and self.owns(each)
        ]
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        groups = list(Path("/sys/fs/cgroup").glob(f"*/slurm_{self.place.nodes[0][0]}[0-9]*"))
        for frozen in (state for group in groups for state in group.rglob("freezer.state")):
            with suppress(OSError):  # it is going already
                frozen.write_text("THAWED")  # a suspended job's processes do not even die
        until(lambda: not any(lives(pid) for pid in left))
        for group in groups:
            for each in sorted((each for each in group.rglob("*") if each.is_dir()), reverse=True):
                each.rmdir()
            group.rmdir()

    def owns(self, process: Path) -> bool:
        """By its environment, or by what it has mounted: sshd writes its title over the one, and
        machines have the other.
        """
        try:
            marked = f"SLURM_CONF={self.place.slurm_conf}".encode() in (
                process / "environ"
            ).read_bytes().split(b"\0")
            return marked or f" {self.folder}/lustre" in (process / "mountinfo").read_text(
                errors="replace"
            )
        except OSError:
            return False

    # Its programs

    def run(self, machine: str, name: str, *argv: str, **how: Any) -> None:
        """Start a daemon, in the foreground, so that we know when it has ended."""
        within = [str(HERE / "machine.sh"), str(self.folder), machine] if machine else []
        with (self.folder / "log" / f"{name}.out").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*within, *argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.environ,
                cwd=self.folder, start_new_session=True, **how,
            )  # fmt: skip

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGCONT)
        process.send_signal(how)
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def run_by_hand(self, *argv: str, **how: Any) -> None:
        done = subprocess.run(argv, env=self.environ, capture_output=True, **how)
        assert done.returncode == 0, f"{argv}: {done.stderr.decode()[-1000:]}"

    def words(self) -> str:
        """What the controller has said last, and which daemons have ended with what words."""
        ended = [name for name, process in self.running.items() if process.poll() is not None]
        said = {name: (self.folder / "log" / f"{name}.out") for name in ["slurmctld", *ended]}
        return "\n".join(
            f"{name}: {log.read_text(errors='replace')[-600:]}"
            for name, log in said.items()
            if log.exists()
        )

    def count_idle(self) -> int:
        return len(
            self.ask("sinfo", "-h", "-N", "-p", "grizzly", "-t", "idle", "-o", "%N").stdout.split()
        )

    # What a test sees

    def ask(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a SLURM command as the cluster's root, from this computer."""
        return subprocess.run(argv, env=self.environ, capture_output=True, text=True)

    def login(
        self,
        command: str,
        host: str = "login1",
        user: str = USER,
        options: Sequence[str] = (),
        given: str = "",
        seconds: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command on the login node, over a connection of its own."""
        argv = [
            str(self.folder / "client/ssh"),
            "-o",
            "BatchMode=yes",
            "-l",
            user,
            *options,
            host,
            command,
        ]
        return subprocess.run(argv, input=given, capture_output=True, text=True, timeout=seconds)

    def start_login(self, command: str) -> subprocess.Popen[bytes]:
        """The same, to be written to while it runs."""
        argv = [
            str(self.folder / "client/ssh"),
            "-o",
            "BatchMode=yes",
            "-l",
            USER,
            "login1",
            command,
        ]
        return subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def path(self, there: str) -> Path:
        """A path below /lustre, as this computer sees it."""
        return self.folder / "lustre" / Path(there).relative_to("/lustre")

    def surroundings(self) -> dict[str, str]:
        return surroundings(self.place)

    @property
    def log(self) -> str:
        """What sshd has said: every connection, and every command that was run over one."""
        return "".join(
            log.read_text(errors="replace") for log in (self.folder / "log").glob("sshd-*.out")
        )

    def connections(self) -> int:
        return self.log.count("Accepted publickey for")

    def round_trips(self) -> int:
        return self.log.count("Starting session: ")

    def jobs(self) -> list[str]:
        """SLURM ids of the jobs that have not ended."""
        return self.ask("squeue", "-h", "-o", "%A").stdout.split()

    # What a test does to it

    @contextmanager
    def as_site(self, **differences: Any) -> Iterator[None]:
        """The cluster as another site has it, and back; jobs that are there stay."""
        before, self.site = self.site, Site(**differences)
        try:
            self.settle(before)
            yield
        finally:
            now, self.site = self.site, before
            self.settle(now)

    def settle(self, before: Site) -> None:
        self.write_site()
        controllers = ("accounting", "requeue", "enforce_limits", "min_job_age")
        if all(getattr(self.site, name) == getattr(before, name) for name in controllers):
            return
        if self.site.accounting and "slurmdbd" not in self.running:
            self.start_slurmdbd()
        self.restart_controller()
        if not self.site.accounting:
            self.stop("slurmdbd")

    def restart_controller(self) -> None:
        self.stop("slurmctld")
        self.start_controller(
            "-R"
        )  # with what it knew of the nodes, which would else be unknown for 5 s
        until(lambda: not self.unsettled_nodes(), START_SECONDS, self.words)

    def unsettled_nodes(self) -> list[str]:
        """Nodes that the controller has not heard of since it started, or thinks are down."""
        told = self.ask("sinfo", "-h", "-N", "-p", "grizzly", "-o", "%N %T").stdout.splitlines()
        return (
            [
                line
                for line in told
                if any(word in line for word in ("unknown", "down", "*", "inval"))
            ]
            if told
            else ["?"]
        )

    @contextmanager
    def hung(self, name: str = "slurmctld") -> Iterator[None]:
        """A daemon that holds its connections and does not answer."""
        os.kill(self.running[name].pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.running[name].pid, signal.SIGCONT)

    @contextmanager
    def without_accounting(self) -> Iterator[None]:
        """slurmdbd is away for a while, at a site that has it."""
        self.stop("slurmdbd")
        try:
            yield
        finally:
            self.start_slurmdbd()

    def start_slurmdbd(self) -> None:
        self.run("control", "slurmdbd", "slurmdbd", "-D")
        until(lambda: listens("127.0.0.1", self.place.port(DBD)), START_SECONDS, self.words)

    def fail_node(self, node: str) -> None:
        """The controller takes it for dead at once; its daemon brings it back by itself."""
        self.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=test")

    def kill_node(self, node: str) -> None:
        """Its daemon is gone; the controller notices after SlurmdTimeout."""
        self.stop(f"slurmd-{node}", signal.SIGKILL)

    def end_soon(self, slurm_id: str) -> None:
        """The job's time is up: SLURM looks at limits only every 30 s, so it takes up to 18 s."""
        self.ask("scontrol", "update", f"jobid={slurm_id}", "EndTime=now+1")

    @contextmanager
    def login_node_down(self, host: str = "login1") -> Iterator[None]:
        """Its sshd, and every connection that it holds, is gone."""
        self.drop_connections(host)
        self.stop(f"sshd-{host}")
        try:
            yield
        finally:
            self.start_login_node(host)

    def drop_connections(self, *hosts: str) -> None:
        """Every connection breaks; new ones can be made."""
        for host in hosts or LOGIN_NODES:
            for pid in children(self.running[f"sshd-{host}"].pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def open_far(self, milliseconds: float = 25) -> str:
        """The name of a login host behind a line of twice that many milliseconds there and back."""
        target = f"127.0.0.1:{self.place.port(SSH)}"
        self.open_link(
            "farlogin",
            "far",
            f"{LOGIN_HOSTS['farlogin']}:{self.place.port(SSH)}",
            target,
            str(milliseconds),
        )
        return "farlogin"

    def open_hung(self) -> str:
        """The name of a login host that takes connections and says nothing."""
        self.open_link("hunglogin", "hung", f"{LOGIN_HOSTS['hunglogin']}:{self.place.port(SSH)}")
        return "hunglogin"

    def open_link(self, name: str, *words: str) -> None:
        if name not in self.running:
            self.run("", name, sys.executable, str(HERE / "link.py"), *words)
            until(
                lambda: listens(LOGIN_HOSTS[name], self.place.port(SSH)), START_SECONDS, self.words
            )

    def cancel_all(self) -> None:
        if jobs := self.jobs():
            self.ask("scancel", "--full", *jobs)

    def clear(self) -> None:
        """No job of a test stays, and every node works."""
        self.cancel_all()
        until(lambda: not self.jobs(), START_SECONDS, self.words)
        for node in self.place.nodes:
            if f"slurmd-{node}" not in self.running:
                self.start_node(node)


def surroundings(place: Place) -> dict[str, str]:
    """The environment of a caller who uses the cluster. His ssh reads the cluster's configuration
    in place of his own.
    """
    return {
        "SLURM_USER": USER,
        "SLURM_HOSTNAME": "login1",
        "SLURM_PARTITION": "polar",
        "SLURM_ACCOUNT": "taoacct",
        "SLURM_BASE_RESULTS_DIR": SHARED,
        "SLURM_POLL_SECONDS": "1",
        "SSH_KEY_PATH": str(place.folder / "ssh" / f"id_{USER}"),
        "PATH": f"{place.folder}/client:{os.environ['PATH']}",
    }


def listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def lives(pid: int) -> bool:
    """A zombie does not: nobody may be there to reap it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    found: list[int] = []
    for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(each), *children(int(each))]
    return found
