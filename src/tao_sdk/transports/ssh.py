"""ssh: scripts on another host, over one shared connection per host that every process of this user
uses.

OpenSSH does the work, so the user's ssh_config, jump hosts, agent and Kerberos count. Here: opening
that connection once, noticing that it is gone, and telling ssh's own failures from the script's.
Not here: how ssh is started (ssh_client.py), what a script says, and which settings make a login:
the maker of a login names them in LoginSettings, for the errors.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shlex
import socket
import stat
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tao_sdk.model.errors import LoginUnusable, Unreachable
from tao_sdk.transports.silence import Silence, StillSilent, seconds_left
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
    port_flag,
    split_address,
    start_ssh,
    typed_target,
)

# at once over one connection: sshd's default allows 10, and the user may have some of his own
SESSIONS = 8
LONGEST_SOCKET = 104 - 18  # bytes: the kernel's limit, less what ssh appends while it makes one
IDLE_SECONDS = 600  # the connection closes by itself after this long without use
PROBE_SECONDS = 5.0
PATIENCE = 5.0  # seconds without an answer after which we ask whether the host is there
ANSWER_SECONDS = 8.0  # for its answer to that
RECONNECT_SECONDS = 5  # to reach a host anew that has fallen silent
ALIVE_SECONDS = (
    5  # between ssh's own looks whether the other side is there; three misses end the connection
)


class HostKeyChanged(Unreachable):
    """A host shows another key than before. A person must say which is right."""

    code = "ssh.host_key_changed"


class NotOpen(Unreachable):
    """The user opens connections to this site by hand, and none is open."""

    code = "ssh.not_open"


@dataclass(frozen=True)
class LoginSettings:
    """The names of the settings behind a login, for the advice in errors; "" if no setting
    decides.
    """

    hosts: str = ""
    key: str = ""
    reuse_only: str = ""
    second_host: str = ""  # how to name one, in words


@dataclass(frozen=True)
class Login:
    """The user, the hosts and the settings of a login. `hosts` (`host` or `host:port`) are tried in
    turn: all lead to the same place.
    """

    hosts: tuple[str, ...]
    user: str = ""
    key: str = ""
    config: str = ""  # an ssh_config to use instead of the user's own
    reuse_only: bool = False  # never log in: use the connection that the user has opened by hand
    connect_seconds: int = 10
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    settings: LoginSettings = LoginSettings()

    def user_at(self, host: str) -> str:
        """`user@host`; the host alone if no user is named."""
        if not self.user:
            return host
        return f"{self.user}@{host}"


@dataclass(frozen=True)
class Answer:
    """The output of a script, its host, and its exit code."""

    rc: int
    out: bytes = field(repr=False)
    err: bytes = field(repr=False)
    host: str

    @property
    def text(self) -> str:
        """Standard output, with U+FFFD for what is no UTF-8."""
        return self.out.decode("utf-8", "replace")

    @property
    def words(self) -> str:
        """Standard error, without white space at its ends."""
        return self.err.decode("utf-8", "replace").strip()


def unreachable_as(code: str, what: str, why: str, next: str, command: str = "") -> Unreachable:
    """An Unreachable under a code of its own."""
    error = Unreachable(what, why, next, command)
    error.code = code
    return error


class SocketIdentity(NamedTuple):
    """Tells the socket of one connection from the socket of the next."""

    inode: int
    made_at: int  # nanoseconds: an inode may be used again


class Lost(Exception):
    """The connection, or the script, went away before it had answered. The text says how."""


class HostSilent(Lost):
    """The host does not even answer a script that does nothing."""


class Crowded(Exception):
    """The host takes no more sessions over this connection now."""


def no_doubt() -> bool:
    """Always True: the host is taken for there. The wait for the answer has a limit of its own."""
    return True


class Ssh:
    """Runs scripts on the first host that can be reached."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self._folder: Path | None = None
        self._best = ""  # the host that answered last
        self._silences: defaultdict[str, Silence] = defaultdict(Silence)  # by host

    def run(self, script: str, stdin: bytes = b"", seconds: float = 60.0) -> Answer:
        """Run a script with /bin/sh on the host: one round trip. The script reads `stdin`.

        If several hosts are named, a script whose answer was lost runs again on the next one, so it
        has to bear that. `seconds` limits each host. Raises Unreachable, LoginUnusable.
        """
        self.check_key()
        troubles: list[Unreachable] = []
        for host in self._in_order():
            try:
                answer = self._run_on(host, script, stdin, seconds)
            except (HostKeyChanged, NotOpen) as trouble:
                trouble.nothing_sent = all(each.nothing_sent for each in (*troubles, trouble))
                raise
            except Unreachable as trouble:
                troubles.append(trouble)
            else:
                self._best = host
                return answer
        raise all_of(troubles, self.login.settings)

    def _in_order(self) -> list[str]:
        """The hosts: the one that answered last, then connected ones, then in the order of the
        login.
        """
        hosts = self.login.hosts
        if len(hosts) == 1 or self.login.reuse_only:
            return list(hosts)
        return sorted(
            hosts, key=lambda host: (host != self._best, not is_listening(self.socket_path(host)))
        )

    def _run_on(self, host: str, script: str, stdin: bytes, seconds: float) -> Answer:
        """The answer of one host. A connection that turns out to be stale is opened anew, once."""
        self._refuse_silent(host)
        give_up, pause = time.monotonic() + seconds_left(seconds), 0.05
        for again in (True, False):
            sock = self._connect_once(host, first=again)
            used = identify_socket(sock)
            while True:
                try:
                    with self._use_session(sock, give_up):
                        answer = self._run_over(
                            host, sock, script, stdin, give_up - time.monotonic()
                        )
                    self._silences[host].end()
                    return answer
                except Crowded as crowded:
                    if time.monotonic() + pause > give_up:
                        raise self._crowded_error(host, crowded) from None
                    time.sleep(pause)
                    pause = min(pause * 2, 1.0)
                except Lost as lost:
                    if not seconds_left():  # the caller's time is over, the host may be well
                        raise self._lost_error(host, lost) from None
                    is_silent = isinstance(lost, HostSilent)
                    if is_silent and not again:
                        self._silences[host].begin()
                    self._drop_stale(host, sock, used, is_silent)
                    if not again or time.monotonic() >= give_up:
                        raise self._lost_error(host, lost) from None
                    break
        raise AssertionError("unreachable: the second turn returns or raises")

    def _refuse_silent(self, host: str) -> None:
        """Raise Unreachable for a host that was silent a moment ago."""
        try:
            self._silences[host].refuse_question()
        except StillSilent as silent:
            raise self._lost_error(host, Lost(str(silent))) from None

    def _connect_once(self, host: str, first: bool) -> str:
        """The socket of a connection. `first`: nothing was sent over an earlier connection that was
        lost.
        """
        longest = self.login.connect_seconds
        try:
            return self.open_socket(host, longest if first else min(longest, RECONNECT_SECONDS))
        except Unreachable as trouble:
            trouble.nothing_sent = first
            raise

    # The shared connection

    def open_socket(self, host: str, connect_seconds: int) -> str:
        """The socket of an open connection to the host. If several processes find none, one opens
        it and the others wait. It waits at most `connect_seconds` until the host speaks. Raises
        Unreachable.
        """
        sock = self.socket_path(host)
        if is_listening(sock):
            return sock
        if self.login.reuse_only:
            self._clear_path(sock)
            raise self._not_open(host, sock)
        began = time.time()
        with lock_file(f"{sock}.lock"):
            if not is_listening(sock):
                raise_if_failed_since(f"{sock}.failed", began)
                self._open_connection(host, sock, connect_seconds)
        return sock

    def _clear_path(self, sock: str) -> None:
        """Remove the file that an ended connection of ours has left: ssh opens none if a file is
        there.
        """
        if Path(sock).parent != self.folder:
            return
        with lock_file(f"{sock}.lock"):
            if not is_listening(sock):
                remove_socket(sock)

    def socket_path(self, host: str) -> str:
        """The path of the connection's socket: a short one, or for a connection that the user
        opens by hand the one that ssh_config names.
        """
        if self.login.reuse_only and (named := self._named_socket(host)):
            return named
        of = "\0".join([self.login.user, host, self.login.key, self.login.config])
        return str(self.folder / hashlib.sha256(of.encode()).hexdigest()[:16])

    @property
    def folder(self) -> Path:
        """The folder of the sockets, which nobody else can enter. Raises Unreachable."""
        if self._folder is None or not is_private(self._folder):
            self._folder = private_folder(self.login.environ.get("XDG_RUNTIME_DIR", ""))
        return self._folder

    def _named_socket(self, host: str) -> str:
        """ControlPath in the user's ssh_config, as ssh itself expands it."""
        try:
            done = self._call_ssh(
                [*self._login_options(host), "-G", split_address(host)[0]], PROBE_SECONDS
            )
        except Lost:
            return ""
        named = re.search(
            r"^controlpath (.+)$", done.stdout.decode("utf-8", "replace"), re.MULTILINE
        )
        if named is None or named[1] == "none":
            return ""
        return named[1]

    def _open_connection(self, host: str, sock: str, connect_seconds: int) -> None:
        remove_socket(sock)
        own = str(Path(sock).with_name(secrets.token_hex(8)))
        options = {
            "ControlMaster": "yes", "ControlPath": own, "ControlPersist": str(IDLE_SECONDS),
            **QUIET_OPTIONS,
            "ConnectTimeout": str(connect_seconds), "ConnectionAttempts": "1",
            "ServerAliveInterval": str(ALIVE_SECONDS), "ServerAliveCountMax": "3",
            "ClearAllForwardings": "yes", "PermitLocalCommand": "no",
            "RemoteCommand": "none",
            "RequestTTY": "no", "StdinNull": "yes",
        }  # fmt: skip
        argv = [
            *self._login_options(host),
            *as_options(options),
            "-N",
            "-f",
            split_address(host)[0],
        ]
        try:
            done = self._call_ssh(argv, connect_seconds * 3.0)
        except Lost:
            raise self._noted_trouble(host, sock, "the log-in timed out") from None
        if done.returncode != 0 or not is_listening(own):
            words = done.stderr.decode("utf-8", "replace").strip()
            raise self._noted_trouble(host, sock, words or f"ssh ended with {done.returncode}")
        lead_to(sock, own)

    def _noted_trouble(self, host: str, sock: str, words: str) -> Unreachable:
        """The error for a failed log-in. It is noted for processes that wait for the same
        log-in.
        """
        if "timed out" in words and seconds_left():
            self._silences[host].begin()
        trouble = self.explain_trouble(host, words)
        remember_failure(f"{sock}.failed", trouble)
        return trouble

    def _not_open(self, host: str, sock: str) -> NotOpen:
        where = self._target_words(host)
        return NotOpen(
            f"No connection to {host} is open.",
            f"{self.login.settings.reuse_only or 'The login'} says that connections are "
            "opened by hand here.",
            "Open one:",
            f"ssh -M -S {shlex.quote(sock)} -o ControlPersist=8h -fN {where}",
        )

    def _drop_stale(
        self, host: str, sock: str, used: SocketIdentity | None, is_silent: bool
    ) -> None:
        """Close the connection that was `used` if it no longer carries anything. One that does is
        left to its other users, and one that has taken its place is left alone. `is_silent`: it is
        known to carry nothing.
        """
        if self.login.reuse_only:
            return
        with lock_file(f"{sock}.lock"):
            if identify_socket(sock) != used:
                return
            if is_listening(sock):
                if not is_silent and self._carries_scripts(host, sock, PROBE_SECONDS):
                    return
                with suppress(Lost):
                    self._call_ssh(
                        [
                            *self._login_options(host),
                            "-S",
                            sock,
                            "-O",
                            "exit",
                            split_address(host)[0],
                        ],
                        PROBE_SECONDS,
                    )
            remove_socket(sock)

    def _carries_scripts(self, host: str, sock: str, seconds: float) -> bool:
        """Try a script that does nothing. True if it runs, or if the connection is full with other
        users' scripts. If there are no users, given-up scripts fill it for as long as they hang.
        """
        try:
            self._run_over(host, sock, ":", b"", seconds, is_probe=True)
        except Crowded:
            return has_users(sock)
        except Lost:
            return False
        return True

    @contextmanager
    def _use_session(self, sock: str, give_up: float) -> Generator[None]:
        """Hold one of the SESSIONS that all processes of this user share over a connection.

        Raises Crowded at `give_up`, a time of the monotonic clock.
        """
        while (fd := free_session(sock)) is None:
            if time.monotonic() > give_up:
                raise Crowded("all sessions are in use")
            time.sleep(0.02)
        try:
            yield
        finally:
            os.close(fd)

    def _run_over(
        self,
        host: str,
        sock: str,
        script: str,
        stdin: bytes,
        seconds: float,
        is_probe: bool = False,
    ) -> Answer:
        """The script's answer over that connection, or an error. A slow answer is checked by a
        probe; a slow probe is not.

        ssh could log in by itself, but then every process that finds the connection gone would.
        """
        mark = hashlib.sha256(os.urandom(16)).hexdigest()[:24]
        wrapped = frame_script(script, mark)
        # read from stdin: no name or path shows in argv
        remote = f"/bin/sh -c 'eval \"$(head -c {len(wrapped)})\"'"
        only = as_options(
            {
                "ControlPath": sock,
                "ControlMaster": "no",
                "ProxyCommand": "false",
                "BatchMode": "yes",
            }
        )
        argv = [*self._login_options(host), *only, "-T", split_address(host)[0], remote]
        is_there = partial(self._carries_scripts, host, sock, ANSWER_SECONDS)
        if is_probe:
            is_there = no_doubt
        done = self._call_ssh(argv, max(seconds, 0.1), wrapped + stdin, is_there)
        words = done.stderr.decode("utf-8", "replace").strip()
        answer = read_framed(done.stdout, mark)
        if answer is None:
            raise lost_answer(words)
        return Answer(answer[0], answer[1], done.stderr, host)

    def _login_options(self, host: str) -> list[str]:
        _, port = split_address(host)
        options = login_flags(self.login.user, port, self.login.key, self.login.config)
        if self.login.key:
            options += ["-o", "IdentitiesOnly=yes"]
        return options

    def _call_ssh(
        self,
        argv: Sequence[str],
        seconds: float,
        given: bytes = b"",
        is_there: Callable[[], bool] = no_doubt,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run ssh to its end, with `given` on its standard input. Raises Lost after `seconds`, and
        earlier if the host is no longer there: `is_there` is asked after PATIENCE seconds.

        Its error output goes to a file. A connection that stays open would hold a pipe open, and
        this process with it.
        """
        with tempfile.TemporaryFile() as words:
            try:
                process = start_ssh(
                    argv, subprocess.PIPE, subprocess.PIPE, words, self.login.environ
                )
            except FileNotFoundError:
                why = f"Without it nobody can log in to {', '.join(self.login.hosts)}."
                fix = f"Install it, e.g. {INSTALL_COMMAND}"
                raise Unreachable("The program ssh is not installed.", why, fix) from None
            try:
                out = read_output(process, given, seconds_left(seconds), is_there)
            except BaseException:
                abandon_process(process)
                raise
            words.seek(0)
            return subprocess.CompletedProcess(list(argv), process.returncode, out, words.read())

    # What went wrong

    def check_key(self) -> None:
        """Raise LoginUnusable for a key that ssh would not use. Its permissions are the user's to
        change.
        """
        if not self.login.key:
            return
        try:
            mode = stat.S_IMODE(Path(self.login.key).stat().st_mode)
        except OSError as error:
            name = self.login.settings.key or f"The login to {', '.join(self.login.hosts)}"
            why = f"{self.login.key}: {error.strerror}."
            raise LoginUnusable(
                f"{name} names no key.", why, "Correct it, or leave it out."
            ) from None
        if mode & 0o077:
            raise LoginUnusable(
                f"The key {self.login.key} can be read by others (mode {mode:04o}).",
                "ssh does not use such a key.",
                "Run:",
                f"chmod 600 {shlex.quote(self.login.key)}",
            )

    def explain_trouble(self, host: str, words: str) -> Unreachable:
        """The error for a failed log-in: ssh's words, and the advice that follows from them."""
        if KEY_CHANGED in words:
            return self._changed_key(host, words)
        last = last_line(words)
        advice = self._advice_values(host)
        for pattern, code, why, remedy, command in TROUBLES:
            if re.search(pattern, words):
                what = f"{host}: {last}"
                return unreachable_as(
                    code, what, why, remedy.format_map(advice), command.format_map(advice)
                )
        return Unreachable(
            f"{host}: {last}",
            "ssh could not log in.",
            "Try by hand:",
            f"ssh {self._target_words(host)} true",
        )

    def _target_words(self, host: str) -> str:
        """The host's words for an ssh command that a person runs."""
        name, port = split_address(host)
        return typed_target(self.login.user, name, port)

    def _advice_values(self, host: str) -> dict[str, str]:
        """The values that fill the remedies of TROUBLES."""
        settings = self.login.settings
        name, port = split_address(host)
        advice = {
            "host": name,
            "port": port_flag(port),
            "target": self._target_words(host),
            "key": "~/.ssh/id_ed25519",
            "give_key": "Put the public half of your key there",
            "by_hand": "",
            "hosts": settings.hosts or "the name of the host",
            "second_host": "",
        }
        if self.login.key:
            advice["key"] = shlex.quote(self.login.key)
        if settings.key:
            advice["give_key"] = (
                f"Set {settings.key}=/path/to/private_key, put its public half there"
            )
        if settings.reuse_only:
            advice["by_hand"] = (
                f". With a second factor: open a connection by hand and set {settings.reuse_only}=1"
            )
        if settings.second_host:
            advice["second_host"] = f"; {settings.second_host}"
        return advice

    def _crowded_error(self, host: str, crowded: Crowded) -> Unreachable:
        why = f"Others use all sessions that {host} allows over one connection."
        return Unreachable(f"{host}: {crowded}", why, "Try again later.")

    def _lost_error(self, host: str, lost: Lost) -> Unreachable:
        why = f"The connection to {host} was lost, or it is too busy."
        return Unreachable(
            f"{host}: {lost}",
            why,
            "Try again. If that does not help, try:",
            f"ssh {self._target_words(host)} true",
        )

    def _changed_key(self, host: str, words: str) -> HostKeyChanged:
        forget = forget_command(*split_address(host))
        said = re.search(r"ssh-keygen -f .+", words)
        if said:
            forget = said[0].strip()
        return HostKeyChanged(
            f"{host} shows another host key than the one known here.",
            "It was reinstalled, or someone stands between: ask its "
            "administrator which key is right.",
            f"If the new key is right, run: {forget} and then:",
            f"ssh -o StrictHostKeyChecking=accept-new {self._target_words(host)} true",
        )


DENIED = "ssh.denied"
# ssh's words -> code, why, what to do, and the command that does it. Source: OpenSSH 9.2's own
# messages.
TROUBLES: Sequence[tuple[str, str, str, str, str]] = (
    (KEY_UNKNOWN, "ssh.unknown_host_key", "This host's key is not known here.",
     (
         "Compare it with what its administrator says, then add it: ssh-keyscan {port}-H {host} >> "
         "~/.ssh/known_hosts"
     ), ""),
    ("UNPROTECTED PRIVATE KEY|bad permissions", DENIED,
         "A private key must be readable by you alone.",
     "Run:", "chmod 600 {key}"),
    ("Permission denied", DENIED,
         "Passwordless log-in does not work; nothing here may ask for a password.",
     (
         "{give_key}: ssh-copy-id -i {key}.pub {target}, and try: ssh -o "
         "BatchMode=yes {target} true{by_hand}"
     ), ""),
    (NO_SUCH_HOST, "ssh.no_such_host", "No such host.", "Check {hosts}.", ""),
    (f"{NO_ANSWER}|banner exchange",
     "ssh.host_down", "The host is down, takes no ssh there, or cannot be reached from here.",
     "Check {hosts}, the network and the VPN{second_host}.", ""),
    ("too long for Unix domain socket", "ssh.socket_path", "The socket's path is too long.",
     "Set XDG_RUNTIME_DIR to a short path.", ""),
)  # fmt: skip


def all_of(troubles: Sequence[Unreachable], settings: LoginSettings) -> Unreachable:
    """One error for the troubles of several hosts."""
    if not troubles:
        return Unreachable(
            "No host is named.", "There is none to log in to.", f"Set {settings.hosts or 'a host'}."
        )
    if len(troubles) == 1:
        return troubles[0]
    what = "No host can be reached. " + " ".join(f"{each.what.rstrip('.')}." for each in troubles)
    code, why = Unreachable.code, ""
    if len({each.code for each in troubles}) == 1:
        code, why = troubles[0].code, troubles[0].why
    advice = " ".join(dict.fromkeys(each.next for each in troubles))
    error = unreachable_as(code, what, why, advice, troubles[-1].command)
    error.nothing_sent = all(each.nothing_sent for each in troubles)
    return error


def read_output(
    process: subprocess.Popen[bytes], given: bytes, seconds: float, is_there: Callable[[], bool]
) -> bytes:
    """The whole output of a process that reads `given`. Raises Lost after `seconds`, HostSilent
    after PATIENCE seconds if `is_there` returns False then.
    """
    patience = min(seconds, PATIENCE)
    try:
        return process.communicate(given, timeout=patience)[0]
    except subprocess.TimeoutExpired:
        if seconds <= patience:
            raise Lost(f"no answer within {seconds:.0f} s") from None
    there = is_there()
    try:
        return process.communicate(timeout=seconds - patience if there else 0)[0]
    except subprocess.TimeoutExpired:
        if there:
            raise Lost(f"no answer within {seconds:.0f} s") from None
        raise HostSilent(f"no answer within {patience + ANSWER_SECONDS:.0f} s") from None


def lost_answer(words: str) -> Lost | Crowded:
    """The error for a script without an answer, from ssh's error output."""
    last = (words.splitlines() or ["the connection was lost before the answer had come"])[-1]
    if "session request failed" in words or "open refused" in words:
        return Crowded(last)
    return Lost(last)


def frame_script(script: str, mark: str) -> bytes:
    """The script between two marks. Output that a profile prints before is not its answer, and
    without the second mark there is no answer.
    """
    text = f"printf '%s\\n' {mark}\n(\n{script}\n)\nprintf '\\n%s %d\\n' {mark} $?\n"
    return text.encode("utf-8", "surrogateescape")


def read_framed(out: bytes, mark: str) -> tuple[int, bytes] | None:
    """The exit code and the output; None when the answer is not whole."""
    head, tail = f"{mark}\n".encode(), f"\n{mark} ".encode()
    begin, end = out.find(head), out.rfind(tail)
    code = out[end + len(tail) :].partition(b"\n")
    if begin < 0 or end < 0 or not code[1]:
        return None
    return int(code[0]), out[begin + len(head) : max(end, begin + len(head))]


def abandon_process(process: subprocess.Popen[bytes]) -> None:
    """End a session without waiting for its output: the shared connection holds the other end, and
    may hang.
    """
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.wait()


def lead_to(sock: str, own: str) -> None:
    """Make `sock` a link to a connection's own socket.

    When a connection ends, ssh removes its path, even if another connection listens there by then.
    So no two connections are given the same path.
    """
    link = Path(f"{own}.link")
    link.symlink_to(Path(own).name)
    link.replace(sock)


def remove_socket(sock: str) -> None:
    """Remove a link and the socket that it leads to."""
    path = Path(sock)
    with suppress(OSError):
        path.with_name(path.readlink().name).unlink()
    path.unlink(missing_ok=True)


def identify_socket(sock: str) -> SocketIdentity | None:
    """The identity of a socket: the next connection makes another socket by the same name. None if
    there is no socket.
    """
    try:
        found = Path(sock).stat()
    except OSError:
        return None
    return SocketIdentity(found.st_ino, found.st_mtime_ns)


def is_listening(sock: str) -> bool:
    """True if a process answers at a socket. A killed ssh leaves its file, and none answers
    there.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PROBE_SECONDS)
        try:
            probe.connect(sock)
        except OSError:
            return False
        return True


def free_session(sock: str) -> int | None:
    """The locked file descriptor of a free session; None if all are in use.

    Closing it gives the session back, and so does the end of this process.
    """
    for number in range(SESSIONS):
        fd = os.open(f"{sock}.{number}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
        else:
            return fd
    return None


def has_users(sock: str) -> bool:
    """True if a script of this user runs over the connection now."""
    free = [fd for _ in range(SESSIONS) if (fd := free_session(sock)) is not None]
    for fd in free:
        os.close(fd)
    return len(free) < SESSIONS


@contextmanager
def lock_file(path: str) -> Generator[None]:
    """Hold the lock of a file, which no other process has then."""
    with Path(path).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def remember_failure(path: str, trouble: Unreachable) -> None:
    """Write down why a log-in failed, for `raise_if_failed_since`."""
    record = {
        "time": time.time(),
        "code": trouble.code,
        "words": [trouble.what, trouble.why, trouble.next, trouble.command],
    }
    Path(path).write_text(json.dumps(record))


def raise_if_failed_since(path: str, began: float) -> None:
    """Raise the error of a log-in that failed since `began`, so that not all waiting processes try
    again.
    """
    try:
        record = json.loads(Path(path).read_text())
    except (OSError, ValueError):
        return
    if record["time"] >= began:
        if record["code"] == HostKeyChanged.code:
            raise HostKeyChanged(*record["words"])
        raise unreachable_as(record["code"], *record["words"])


def private_folder(runtime: str) -> Path:
    """A folder for sockets that only this user can enter. Its path is short, however long the
    home's is.
    """
    uid = os.geteuid()
    parents = [runtime, f"/run/user/{uid}", "/tmp", "/var/tmp", "/dev/shm"]
    for parent in filter(None, parents):
        folder = Path(parent, f"tao-ssh-{uid}")
        if len(os.fsencode(folder)) + 17 > LONGEST_SOCKET or not Path(parent).is_dir():
            continue
        with suppress(OSError):
            folder.mkdir(0o700)
        if is_private(folder):
            return folder
    raise Unreachable(
        "There is no private folder for ssh's sockets.",
        f"Tried: {', '.join(filter(None, parents))}.",
        f"Remove /tmp/tao-ssh-{uid} if it is not yours, or set "
        "XDG_RUNTIME_DIR to a folder of yours.",
    )  # fmt: skip


def is_private(folder: Path) -> bool:
    """True for a folder that only this user can enter and write to."""
    try:
        seen = folder.lstat()
    except OSError:
        return False
    ours = seen.st_uid == os.geteuid() and os.access(folder, os.W_OK | os.X_OK)
    return stat.S_ISDIR(seen.st_mode) and ours and not stat.S_IMODE(seen.st_mode) & 0o077
