"""A real sshd for the tests, on this machine, into which the user of the tests can log in."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from support import marks
from support.servers import debian
from support.servers.ports import free_port
from support.waiting import until
from tao_sdk.transports.ssh import Login

PACKAGES = {"/usr/sbin/sshd": "openssh-server"}
HOST = "127.0.0.1"
ME = pwd.getpwuid(os.getuid()).pw_name


@dataclass
class Sshd:
    """Lets the key `folder/user` in. `settings` are lines of its sshd_config, `aliases` its names
    in the ssh_config that `login` uses, `client` further lines there for all hosts.
    """

    folder: Path
    settings: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ("one", "two")
    client: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def begin(self) -> Sshd:
        marks.need("network")
        self.prepare()
        self.start()
        return self

    def prepare(self) -> None:
        """Make the keys and both configurations."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for key in ("host", "user"):
            self.make_key(key)
        self.admit("user")
        self.write_config()
        self.write_client()
        self.know("host")

    def make_key(self, name: str) -> None:
        path = self.folder / name
        path.unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)

    def write_config(self) -> None:
        lines = [
            f"Port {self.port}", f"ListenAddress {HOST}", f"HostKey {self.folder}/host",
            "StrictModes no", "UsePAM no",
            f"AuthorizedKeysFile {self.folder}/authorized", "PasswordAuthentication no",
            "UseDNS no", "LogLevel VERBOSE",
            "KbdInteractiveAuthentication no", "PidFile none", "MaxStartups 100", *self.settings,
        ]  # fmt: skip
        (self.folder / "sshd_config").write_text("\n".join(lines) + "\n")

    def write_client(self) -> None:
        known = self.folder / "known_hosts"
        hosts = [
            f"Host {alias}\n  HostName {HOST}\n  Port {self.port}\n  HostKeyAlias {alias}"
            for alias in self.aliases
        ]
        every = (
            f"Host *\n  UserKnownHostsFile {known}\n  GlobalKnownHostsFile /dev/null\n  "
            f"IdentityFile {self.folder}/user"
        )
        further = [f"  {line}" for line in self.client]
        (self.folder / "ssh_config").write_text("\n".join([*hosts, every, *further, ""]))

    def known_names(self) -> Sequence[str]:
        """The names under which a client looks for its host key."""
        return self.aliases

    def know(self, *keys: str) -> None:
        """These are the host keys that the client knows."""
        publics = [(self.folder / f"{key}.pub").read_text().rsplit(" ", 1)[0] for key in keys]
        lines = [f"{name} {public}\n" for name in self.known_names() for public in publics]
        (self.folder / "known_hosts").write_text("".join(lines))

    def admit(self, key: str) -> None:
        """This is the key that is let in."""
        shutil.copy(self.folder / f"{key}.pub", self.folder / "authorized")

    def start(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        assert program is not None
        with (self.folder / "log").open("ab") as log:
            argv = [program, "-D", "-e", "-f", str(self.folder / "sshd_config")]
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        until(self.answers, words=lambda: self.log)

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0

    def stop(self) -> None:
        """The one that listens, and those that hold a connection."""
        if self.process is None:
            return
        self.drop()
        self.process.kill()
        self.process.wait()
        self.process = None

    def connections(self) -> list[int]:
        """The processes that hold a connection each."""
        assert self.process is not None
        return [
            int(pid)
            for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            .read_text()
            .split()
        ]

    def drop(self) -> None:
        """Every connection breaks; new ones can be made."""
        for pid in self.connections():
            with suppress(ProcessLookupError):  # it was about to end by itself
                os.kill(pid, signal.SIGKILL)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def logins(self) -> int:
        return self.log.count("Accepted publickey")

    def login(self, *hosts: str, **more: object) -> Login:
        environ = {**os.environ, "XDG_RUNTIME_DIR": str(self.folder / "run")}
        environ.pop("SSH_AUTH_SOCK", None)
        (self.folder / "run").mkdir(mode=0o700, exist_ok=True)
        given = {
            "user": ME,
            "config": str(self.folder / "ssh_config"),
            "connect_seconds": 5,
            "environ": environ,
            **more,
        }
        return Login(hosts or ("one",), **given)  # pyright: ignore[reportArgumentType]


def need() -> None:
    debian.need("ssh", PACKAGES)
