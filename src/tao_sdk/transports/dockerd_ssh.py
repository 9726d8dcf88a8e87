"""A Docker daemon behind ssh: every connection to it is an `ssh` of its own, which dials the daemon
on the far side.

It never asks, and an unknown host key is refused. How ssh is started: ssh_client.py.
"""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from urllib.parse import urlsplit

from tao_sdk.model.errors import Unreachable, UsageError
from tao_sdk.transports.http_session import Connect
from tao_sdk.transports.ssh_client import (
    INSTALL_COMMAND,
    KEY_CHANGED,
    KEY_UNKNOWN,
    NO_ANSWER,
    NO_SUCH_HOST,
    QUIET_OPTIONS,
    as_options,
    forget_command,
    last_line,
    login_flags,
    start_ssh,
    typed_target,
)

OPTIONS = {
    **QUIET_OPTIONS,
    "StrictHostKeyChecking": "yes",
    "ConnectTimeout": "10",
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "4",
}
SOCKET = "/var/run/docker.sock"
MOST_SAID = 64 * 1024  # bytes of what an ssh has said
END_SECONDS = 5.0  # in which an ssh whose connection broke has ended and said why

# On the far side: the docker command where there is one, for it knows that side's context; else
# python3.
DIAL = f"""
import os, socket, sys, threading
host = sys.argv[1] or os.environ.get("DOCKER_HOST") or "unix://{SOCKET}"
line = socket.socket(socket.AF_UNIX)
line.connect(host.replace("unix://", "", 1))
def there():
    for data in iter(lambda: os.read(0, 65536), b""):
        line.sendall(data)
    line.shutdown(socket.SHUT_WR)
threading.Thread(target=there, daemon=True).start()
for data in iter(lambda: line.recv(65536), b""):
    while data:
        data = data[os.write(1, data):]
"""
NOTHING = "tao: neither docker nor python3 is there"


@dataclass(frozen=True)
class Target:
    """A host that ssh leads to: a name of ~/.ssh/config or of the network. `path` is the daemon's
    socket there, if the address has one.
    """

    host: str
    user: str = ""
    port: str = ""
    path: str = ""

    @classmethod
    def parse(cls, url: str) -> Target:
        """The target of ssh://user@host:port/path. Raises UsageError for an address that ssh cannot
        take.
        """
        parts = urlsplit(url)
        try:
            port = str(parts.port or "")
        except ValueError:
            port = "?"
        if not parts.hostname or parts.password or port == "?" or parts.query:
            shown = f"ssh://{parts.netloc.rpartition('@')[2]}"
            raise UsageError(
                f"{shown} is no address of a Docker daemon.",
                "",
                "Write ssh://user@host, or ssh://user@host:port.",
            )
        host = parts.netloc.rpartition("@")[2]
        if port:
            host = host.removesuffix(f":{port}")
        return cls(host.strip("[]"), parts.username or "", port, parts.path.rstrip("/"))

    def ssh_arguments(self) -> list[str]:
        """The arguments of the ssh that leads to the daemon."""
        options = ["-T", *as_options(OPTIONS), *login_flags(self.user, self.port)]
        return [*options, "--", self.host, f"exec sh -c {shlex.quote(self.dial_script())}"]

    def dial_script(self) -> str:
        """The shell text that connects to the daemon, on the far side."""
        url = host = ""
        if self.path:
            url = f"unix://{self.path}"
            host = f"--host {shlex.quote(url)} "
        by_python = f"exec python3 -c {shlex.quote(DIAL)} {shlex.quote(url)}"
        return (
            f"command -v docker >/dev/null 2>&1 && exec docker {host}system dial-stdio; "
            f"command -v python3 >/dev/null 2>&1 && {by_python}; "
            f"echo {shlex.quote(NOTHING)} >&2; exit 127"
        )

    def ssh_command(self) -> str:
        """The command with which a person connects to the host."""
        return f"ssh {typed_target(self.user, self.host, self.port)}"


# The message of ssh or the far side -> (meaning, advice). The first that fits is used.
WORDS = (
    (KEY_CHANGED,
     (
         "the host key of {host} has changed: it is another machine, was set up "
         "anew, or someone is in between"
     ),
     "If you know why it changed: {forget}, then {ssh}, and compare the key"),
    (KEY_UNKNOWN,
         "the host key of {host} is not known here",
     "Go there once by hand, and compare the key that it shows: {ssh}"),
    (r"Permission denied \(|Too many authentication failures",
         "{host} does not let us in with our keys",
     (
         "Check the user's name, load the key (ssh-add), or bring it there: ssh-copy-id. It must "
         "work without a password: {ssh}"
     )),
    (r"[Pp]ermission denied", "our user on {host} may not speak to the Docker daemon",
     "There: sudo usermod -aG docker $USER; then log in anew"),
    (NOTHING, "{host} has neither the docker command nor python3 to reach its daemon with",
     "Install one of them there, or reach the daemon over TLS (DOCKER_HOST=tcp://...)"),
    ((
        r"Cannot connect to the Docker daemon|docker daemon running|dial "
        r"unix|FileNotFoundError|ConnectionRefusedError"
    ),
     "no Docker daemon answers on {host}", "There: sudo systemctl start docker"),
    (r"^ssh cannot be run", "there is no ssh program here",
         f"Install it: {INSTALL_COMMAND}"),
    (NO_SUCH_HOST, "there is no host {host}",
         "Check the name in DOCKER_HOST, or in ~/.ssh/config"),
    (rf"{NO_ANSWER}|"
     r"Connection (?:closed|reset)|not responding|kex_exchange_identification|Broken pipe",
     "{host} does not answer ssh",
     "Check that it is up, and its port: {ssh}"),
)  # fmt: skip


class Ended(OSError):
    """The ssh behind a connection has ended. The text is ssh's error output."""


class Line:
    """One running ssh; `socket` is our end of the way to the daemon."""

    def __init__(self, target: Target) -> None:
        self.socket, theirs = socket.socketpair()
        self.said = tempfile.TemporaryFile()  # noqa: SIM115  closed with the line
        try:
            there = theirs.fileno()
            self.process = start_ssh(target.ssh_arguments(), there, there, self.said)
        except OSError as error:
            self.socket.close()
            raise Ended(f"ssh cannot be run: {error.strerror}") from error
        finally:
            theirs.close()

    def last_words(self) -> str:
        """The error output of ssh, once it has ended; "" if it has not ended within END_SECONDS."""
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return ""
        self.said.seek(0)
        return self.said.read(MOST_SAID).decode("utf-8", "replace").strip()

    def close(self) -> None:
        """End the ssh."""
        self.socket.close()
        self.process.terminate()
        self.process.wait()
        self.said.close()


class SshConnection(HTTPConnection):
    """A connection to a daemon through an ssh of its own. If ssh ends before the answer, raises
    Unreachable with ssh's error output.
    """

    def __init__(self, url: str, target: Target) -> None:
        super().__init__("localhost")
        self.url, self.target = url, target
        self.line: Line | None = None

    def connect(self) -> None:
        try:
            self.line = Line(self.target)
        except Ended as error:
            raise explain_failure(self.url, self.target, str(error)) from error
        self.sock = self.line.socket

    def getresponse(self) -> HTTPResponse:
        line, self.line = self.line, None  # the base class closes a broken connection
        try:
            return super().getresponse()
        except ConnectionError as error:
            said = line.last_words() if line else ""
            raise explain_failure(self.url, self.target, said) from error
        finally:
            self.line = line

    def close(self) -> None:
        super().close()
        line, self.line = self.line, None
        if line is not None:
            line.close()


def connect_through(url: str) -> Connect:
    """Return a function that opens connections through ssh. Raises UsageError for an address that
    ssh cannot take.
    """
    target = Target.parse(url)
    return lambda: SshConnection(url, target)


def explain_failure(url: str, target: Target, said: str) -> Unreachable:
    """The error for a far daemon that cannot be reached, by the words of ssh or of the far side."""
    forget = forget_command(target.host, target.port)
    names = {"host": target.host, "forget": forget, "ssh": target.ssh_command()}
    for pattern, what, fix in WORDS:
        if re.search(pattern, said):
            return Unreachable(
                f"The Docker daemon at {url} cannot be reached: {what.format(**names)}.",
                last_line(said),
                f"{fix.format(**names)}.",
            )
    what = f"The Docker daemon at {url} cannot be reached: the ssh connection ended."
    return Unreachable(what, last_line(said), "Try:", f"{target.ssh_command()} docker info")
