"""ssh client: how OpenSSH's own client is started, and the meaning of its messages about a log-in.

OpenSSH itself is run, so that ~/.ssh/config, agents and jump hosts hold. Here: its program, the
options under which it asks nobody, and the names of hosts. Not here: what runs on the other side
(scripts in ssh.py, a Docker daemon in dockerd_ssh.py) and the advice in an error.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

# for every use of ssh here: nobody is there to be asked, and nothing of this machine goes along
QUIET_OPTIONS = {"BatchMode": "yes", "ForwardAgent": "no", "ForwardX11": "no"}
INSTALL_COMMAND = "apt-get install openssh-client"

# ssh's messages about a failed log-in. Source: OpenSSH 9.2.
KEY_CHANGED = "REMOTE HOST IDENTIFICATION HAS CHANGED"
KEY_UNKNOWN = "Host key verification failed|host key is known for"
NO_SUCH_HOST = "Could not resolve hostname"
NO_ANSWER = "Connection refused|timed out|No route to host|Network is unreachable"


def start_ssh(
    argv: Sequence[str],
    stdin: int,
    stdout: int,
    stderr: IO[bytes],
    environ: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start ssh with these arguments, in a session of its own: Ctrl-C in a terminal does not reach
    it.

    `environ` is its environment, or None for that of this process. Raises OSError if there is no
    such program.
    """
    program = shutil.which("ssh", path=(environ or {}).get("PATH")) or "ssh"
    return subprocess.Popen(
        [program, *argv],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=dict(environ or {}) or None,
        start_new_session=True,
    )


def as_options(options: Mapping[str, str]) -> list[str]:
    """`-o Name=value` for each."""
    return [part for name, value in options.items() for part in ("-o", f"{name}={value}")]


def login_flags(user: str, port: str, key: str = "", config: str = "") -> list[str]:
    """The arguments for the user, port, key and config of a login; empty ones are left out."""
    flags = {"-F": config, "-l": user, "-p": port, "-i": key}
    return [word for flag, value in flags.items() if value for word in (flag, value)]


def split_address(host: str) -> tuple[str, str]:
    """The name and the port of `host`, `host:port` or `[v6]:port`; the port is "" if none is
    given.
    """
    has_port = host.count(":") == 1 or "]" in host  # else the colons are those of an IPv6 address
    match = re.fullmatch(r"\[?([^\]]+?)\]?:(\d+)", host)
    if has_port and match:
        return match[1], match[2]
    return host.strip("[]"), ""


def port_flag(port: str) -> str:
    """`-p 2222 `, with a blank behind it; "" for the usual port."""
    if not port:
        return ""
    return f"-p {port} "


def typed_target(user: str, name: str, port: str) -> str:
    """The words for ssh in a command that a person runs: `-p 2222 user@host`."""
    user_at_host = f"{user}@{name}" if user else name
    return f"{port_flag(port)}{shlex.quote(user_at_host)}"


def forget_command(name: str, port: str) -> str:
    """The command that removes a host's key from known_hosts."""
    known = name if port in ("", "22") else f"[{name}]:{port}"
    return f"ssh-keygen -R {shlex.quote(known)}"


def last_line(words: str) -> str:
    """The last line of ssh's error output; "" for none."""
    lines = words.splitlines() or [""]
    return lines[-1].strip()
