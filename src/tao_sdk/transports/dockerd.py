"""A Docker daemon over its API: requests and answers, nothing decided.

How the bytes travel is http_session.py's. The docker library reads addresses and logins, and is
loaded at the first request.

Errors: Unreachable when the daemon did not answer, DaemonError when it did and refused.
"""

from __future__ import annotations

import io
import json
import math
import os
import posixpath
import socket
import tarfile
import threading
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, cast

from tao_sdk.model.errors import (
    MissingExtra,
    TaoError,
    Unreachable,
    UsageError,
    install_command,
)
from tao_sdk.transports.dockerd_http import connect_to, words_of
from tao_sdk.transports.http_session import Answer, Connect, Server, Session, Timeout
from tao_sdk.transports.silence import Silence, seconds_left
from tao_sdk.transports.slow_answer import tell_when_slow

TIMEOUT = 60.0  # seconds for an answer to begin
# seconds after which a daemon that has not begun to answer is taken to be silent, unless it answers
# a ping in some seconds more; behind ssh each connection is a log-in
PATIENCE, PING_SECONDS = 6.0, 2.0
SSH_PATIENCE, SSH_PING_SECONDS = 12.0, 3.0
FRESH = 10.0  # seconds for which a daemon is believed to be as it was
AT_ONCE = 32 * 1024  # bytes that a connection takes before the other side reads
MOST_JSON = 64 << 20  # bytes of one answer
LONGEST_LINE = 1 << 20  # bytes of one line of a pull or of events
LONGEST_WORDS = 8000  # characters of a refusal
LONGEST_ANSWER = 200  # characters that are shown of an answer which is none of Docker's
OTHER_PROGRAM = "What answers there is no Docker daemon"
BECOME_ONE = (
    "Become one of those who may use its socket: sudo usermod -aG docker $USER; then log in anew."
)
NEWEST = "1.47"  # version of the API that we speak

CERTIFICATES = ("ca.pem", "cert.pem", "key.pem")

Json = dict[str, Any]


class DaemonError(TaoError):
    """The daemon answered and refused. `status` is the HTTP status, `what` its words."""

    code = "docker.refused"

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status = status
        self.backend_words = what


class SocketDenied(Unreachable):
    """The system does not let this user open the daemon's socket."""


@contextmanager
def ignore_status(*statuses: int) -> Generator[None]:
    """Pass over a DaemonError with one of these HTTP statuses."""
    try:
        yield
    except DaemonError as error:
        if error.status not in statuses:
            raise


@dataclass(frozen=True)
class Address:
    """The address of a daemon. `certificates` is a folder with CERTIFICATES; `verify` checks the
    daemon's name. `named_by` is the setting with this address, if it is known.
    """

    url: str
    certificates: str = ""
    verify: bool = True
    named_by: str = field(default="", compare=False)


@dataclass(frozen=True)
class EventStream:
    """Events of a daemon, as they come."""

    answer: Answer

    def __iter__(self) -> Iterator[Json]:
        for line in short_lines(self.answer.read_blocks()):
            event = json.loads(line)
            if isinstance(event, dict):
                yield cast("Json", event)

    def stop(self) -> None:
        """End the stream, from another thread."""
        with suppress(OSError):
            self.answer.line.shutdown(socket.SHUT_RDWR)


@dataclass
class Daemon:
    """One daemon. Safe to use from several threads."""

    address: Address
    _session: Session | None = None
    _silence: Silence = field(default_factory=Silence)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _info: tuple[float, Json] = (-math.inf, {})  # when it was asked for, and the answer

    @property
    def session(self) -> Session:
        """The session with the daemon, begun at the first use. Raises as `connect`."""
        if (session := self._session) is not None:
            return session
        made = connect(self.address, self._silence)  # without the lock: that may take its time
        with self._lock:
            session = self._session = self._session or made
        if session is not made:
            made.close()
        return session

    def close(self) -> None:
        """Let go of the connections; the next request makes others."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()

    def ask(
        self, method: str, path: str, body: Any = None, timeout: float = TIMEOUT, **query: Any
    ) -> Any:
        """The JSON of an answer; None for an empty one. Raises DaemonError, Unreachable."""
        answer = self.request(
            method, path, json=body, params=query_parameters(query), timeout=timeout, stream=True
        )
        with self.reading_answer(answer):
            data = read_bounded(answer, MOST_JSON)
            return json.loads(data) if data else None

    def put_archive(self, container: str, folder: str, data: bytes) -> None:
        """Unpack a tar in a folder of a container, running or not. Raises DaemonError."""
        self.request(
            "PUT",
            f"/containers/{container}/archive",
            params={"path": folder},
            data=data,
            timeout=TIMEOUT,
        )

    @contextmanager
    def type_into(self, container: str, data: bytes) -> Generator[None]:
        """Start the container inside. `data` is its standard input, and lies ready before the start
        if it is not much.

        Nobody has to stay for it then: the daemon has the data, or the kernel between us.
        """
        if not data:
            yield
            return
        answer = self.request(
            "POST",
            f"/containers/{container}/attach",
            params={"stream": 1, "stdin": 1},
            headers={"Connection": "Upgrade", "Upgrade": "tcp"},
            stream=True,
            timeout=TIMEOUT,
        )
        line = answer.line
        sender = threading.Thread(target=send_input, args=(line, data), daemon=True)
        try:
            (sender.start if len(data) > AT_ONCE else sender.run)()
            yield
            if sender.is_alive():
                sender.join(TIMEOUT)
        finally:
            line.close()
            answer.close()

    def info(self, at_most: float = FRESH) -> Json:
        """The daemon's /info, at most `at_most` seconds old. It is reused because asking takes as
        long as the rest of a submit.
        """
        when, said = self._info
        if time.monotonic() - when > at_most:
            when, said = time.monotonic(), self.get("/info")
            self._info = (when, said)
        return said

    def get(self, path: str) -> Any:
        """The JSON of the answer to a GET. Raises DaemonError, Unreachable."""
        return self.ask("GET", path)

    @contextmanager
    def stream(self, path: str, **query: Any) -> Generator[Iterable[bytes]]:
        """The bytes of an answer that may go on for ever. Raises Unreachable when the daemon goes
        away in the middle.
        """
        answer = self.request(
            "GET", path, params=query_parameters(query), stream=True, timeout=(TIMEOUT, None)
        )
        try:
            yield answer.read_large_blocks()
        except (OSError, HTTPException) as error:
            raise connection_broke(self.address, error) from error
        finally:
            answer.close()

    @contextmanager
    def reading_answer(self, answer: Answer) -> Generator[None]:
        """Raise Unreachable for an answer that breaks off, has no end, or is not in its form."""
        try:
            yield
        except (OSError, HTTPException, TooMuch) as error:
            raise connection_broke(self.address, error) from error
        except (ValueError, RecursionError, tarfile.TarError) as error:
            what = f"The answer of {self.address.url} cannot be understood."
            fix = "Check that a Docker daemon answers there."
            raise Unreachable(what, str(error)[:LONGEST_WORDS], fix) from error
        finally:
            answer.close()

    def read_lines(
        self, method: str, path: str, headers: Mapping[str, str], **query: Any
    ) -> Iterator[Json]:
        """One JSON object per line, as a pull sends its progress."""
        answer = self.request(
            method,
            path,
            params=query_parameters(query),
            headers=dict(headers),
            stream=True,
            timeout=(TIMEOUT, None),
        )
        with self.reading_answer(answer):
            for line in short_lines(answer.read_blocks()):
                said = json.loads(line)
                if isinstance(said, dict):
                    yield cast("Json", said)

    @contextmanager
    def events(
        self, since: float, seconds: float, filters: Mapping[str, Sequence[str]]
    ) -> Generator[EventStream]:
        """The daemon's events of `seconds` seconds, as they come. `since` is a time of the daemon's
        clock.

        Once this is entered, the daemon reports all events. Raises Unreachable if it goes away.
        """
        moments = {"since": f"{since:.6f}", "until": f"{since + seconds:.6f}"}
        answer = self.request(
            "GET",
            "/events",
            params=query_parameters({"filters": filters, **moments}),
            stream=True,
            timeout=(TIMEOUT, seconds + TIMEOUT),
        )
        with self.reading_answer(answer):
            yield EventStream(answer)

    def read_file(self, container: str, path: str) -> bytes | None:
        """The bytes of a file in a container, running or not; None if there is none. Raises
        Unreachable for more than MOST_JSON bytes.
        """
        where = f"/containers/{container}/archive"
        try:
            answer = self.request("GET", where, params={"path": path}, timeout=TIMEOUT, stream=True)
        except DaemonError as error:
            if error.status == 404:
                return None
            raise
        with (
            self.reading_answer(answer),
            tarfile.open(fileobj=io.BytesIO(read_bounded(answer, MOST_JSON))) as archive,
        ):
            member = archive.next()
            content = archive.extractfile(member) if member and member.isreg() else None
            return content.read() if content else None

    def list_names(self, container: str, folder: str, most: int) -> list[str] | None:
        """The paths of a folder in a container and of all below it. None if they take more than
        `most` bytes.
        """
        where = f"/containers/{container}/archive"
        answer = self.request("GET", where, params={"path": folder}, timeout=TIMEOUT, stream=True)
        with self.reading_answer(answer):
            try:
                data = read_bounded(answer, most)
            except TooMuch:
                return None
            with tarfile.open(fileobj=io.BytesIO(data), mode="r:", errors="replace") as archive:
                above = posixpath.dirname(folder)
                return [posixpath.join(above, name) for name in archive.getnames()]

    def request(
        self,
        method: str,
        path: str,
        timeout: Timeout,
        stream: bool = False,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        data: bytes | None = None,
    ) -> Answer:
        """The answer, read to its end and closed unless `stream`. Raises DaemonError for a refusal,
        Unreachable when none comes.
        """
        session = self.session
        where = f"/v{session.agreed}{path}"
        try:
            answer = session.request(method, where, timeout, params, headers, json, data)
        except (OSError, HTTPException) as error:
            raise no_answer(self.address, error) from error
        if answer.status >= 400:
            with self.reading_answer(answer):
                refusal = refusal_words(answer)
            raise DaemonError(answer.status, refusal)
        if not stream:
            with self.reading_answer(answer):
                read_bounded(answer, MOST_JSON)
        return answer


def server_at(address: Address, silence: Silence) -> Server:
    """The daemon as a Server for a Session."""
    patience, ping_seconds = PATIENCE, PING_SECONDS
    if address.url.startswith("ssh://"):
        patience, ping_seconds = SSH_PATIENCE, SSH_PING_SECONDS
    name = f"the Docker daemon at {address.url}"
    return Server(name, "/_ping", patience, ping_seconds, silence)


def connect(address: Address, silence: Silence | None = None) -> Session:
    """A session with the newest API that both sides know. Raises MissingExtra, UsageError or
    Unreachable.
    """
    check_config()
    must_have_certificates(address)
    try:
        server = server_at(address, silence or Silence())
        session = Session(address.url, connect_by(address), server)
        with tell_when_slow(server.name, seconds_left(TIMEOUT)):
            answer = session.request("GET", "/version", TIMEOUT)
        try:
            session.agreed = min(newest_api(address, answer), NEWEST, key=version_numbers)
        finally:
            answer.close()
        return session
    except TimeoutError as error:
        raise no_answer(address, error) from error
    except (OSError, HTTPException, TooMuch) as error:
        raise daemon_unreachable(address, failure_words(error)) from error


def failure_words(error: Exception) -> str:
    """The reason why no daemon was reached: the system's words, or the answer in place of HTTP."""
    if isinstance(error, OSError) or not isinstance(error, HTTPException):
        return cause_of(error)
    words = " ".join(cause_of(error).split())
    return f"{OTHER_PROGRAM}: {words[:LONGEST_ANSWER]}"


def connect_by(address: Address) -> Connect:
    """Return a function that opens connections to the daemon. Raises OSError for certificates that
    cannot be used.
    """
    import docker.utils
    from docker.errors import DockerException

    if address.url.startswith("ssh://"):
        from tao_sdk.transports.dockerd_ssh import connect_through

        return connect_through(address.url)
    if address.url.startswith("npipe://"):
        raise daemon_unreachable(address, "The npipe:// protocol is only supported on Windows")
    try:
        url = docker.utils.parse_host(address.url, tls=bool(address.certificates))
    except DockerException as error:
        raise daemon_unreachable(address, str(error)) from error
    return connect_to(str(url), address.certificates, address.verify)


def check_config() -> None:
    """Raise UsageError if the docker command could not read its own config file, either."""
    try:
        import docker.auth
        import docker.utils.config
    except ImportError as error:
        what = "The docker library is not installed."
        raise MissingExtra(what, str(error), "Run:", install_command("docker")) from error
    with reading_config():
        config: Any = docker.utils.config.load_general_config()  # pyright: ignore
        config.get("proxies", {}).get("default")  # pyright: ignore
        docker.auth.load_config(config_dict=config)  # pyright: ignore


def must_have_certificates(address: Address) -> None:
    """Raise Unreachable that names the missing files. The library does not name them."""
    wanted = [Path(address.certificates) / name for name in CERTIFICATES if address.certificates]
    missing = [str(path) for path in wanted if not os.access(path, os.R_OK)]
    if missing:
        raise Unreachable(
            f"The certificates for the Docker daemon at {address.url} are not all there.",
            f"Not there, or not to be read: {', '.join(missing)}.",
            f"Set DOCKER_CERT_PATH to the folder that has {', '.join(CERTIFICATES[:-1])} and "
            f"{CERTIFICATES[-1]}.",
        )


@contextmanager
def reading_config(path: str | None = None) -> Generator[None]:
    """Turn the library's errors about docker's config file into a UsageError, inside the block."""
    import docker.utils.config
    from docker.errors import InvalidConfigFile

    try:
        yield
    except (AttributeError, TypeError, ValueError, InvalidConfigFile) as error:
        file = docker.utils.config.find_config_file(path)
        raise UsageError(
            f"{file} is not as docker writes it.",
            "It is to hold one JSON object, with what docker login has kept under auths.",
            "Correct it; or move it away, and run docker login again where a registry wants that.",
        ) from error


def newest_api(address: Address, answer: Answer) -> str:
    """The newest API version of the daemon, from its own words. Raises Unreachable."""
    said = read_bounded(answer, MOST_JSON)
    try:
        return str(json.loads(said)["ApiVersion"])
    except (ValueError, KeyError, TypeError, RecursionError):
        words = f"{OTHER_PROGRAM}: {answer_words(answer, said)}"
        raise daemon_unreachable(address, words) from None


def answer_words(answer: Answer, said: bytes) -> str:
    """`HTTP status 404 of nginx, not found`: the words of an answer that is not Docker's. A web
    page is left out.
    """
    server = answer.headers.get("Server", "")
    head = f"HTTP status {answer.status}" + (f" of {server}" if server else "")
    words = " ".join(words_of(said).split())
    if words and not words.startswith("<"):
        head = f"{head}, {words}"
    return head[:LONGEST_ANSWER]


def connection_broke(address: Address, error: Exception) -> Unreachable:
    """The error for an answer that broke off."""
    return Unreachable(f"The connection to {address.url} broke.", str(error), "Try again.")


def no_answer(address: Address, error: Exception) -> Unreachable:
    """The error for a daemon that took the question, or at least the connection."""
    what = f"The Docker daemon at {address.url} does not answer."
    return Unreachable(what, cause_of(error), "Try again once it does.")


def daemon_unreachable(address: Address, why: str) -> Unreachable:
    """The error for a daemon that does not answer. `why` is the system's message, or the answer of
    another program at the address.
    """
    what, cause = f"The Docker daemon at {address.url} cannot be reached.", f"{why.rstrip('.')}."
    if "Permission denied" in why:
        return SocketDenied(what, cause, BECOME_ONE)
    return Unreachable(what, cause, start_advice(address))


def start_advice(address: Address) -> str:
    """Advice for a daemon that does not answer. It names the setting with the address, if it is
    known.
    """
    if address.named_by:
        return f"{address.named_by} names it: correct that, or start the daemon there."
    if address.url.startswith(("unix://", "npipe://", "/")):
        return "Start Docker, or set DOCKER_HOST or DOCKER_CONTEXT to where it runs."
    return "Start the daemon there. If an endpoint of config.yaml names it, correct that."


def send_input(line: Any, data: bytes) -> None:
    """Send the standard input of a container. A container that has ended does not read it."""
    with suppress(OSError):  # a container that ended does not read; that it did tells why
        line.sendall(data)


def version_numbers(version: str) -> tuple[int, ...]:
    """(1, 43) of 1.43."""
    return tuple(map(int, version.split(".")))


def query_parameters(query: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a query as the API takes them: mappings as JSON."""
    return {
        name: json.dumps(value) if isinstance(value, Mapping) else value
        for name, value in query.items()
    }


class TooMuch(Exception):
    """An answer is longer than any expected one."""


def read_bounded(answer: Answer, most: int) -> bytes:
    """All bytes of an answer. Raises TooMuch for more than `most`."""
    data = bytearray()
    for block in answer.read_blocks():
        data += block
        if len(data) > most:
            raise TooMuch(f"it sends more than {most >> 20} MiB at once")
    return bytes(data)


def short_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines that are not empty. Raises TooMuch for a line without an end."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from filter(bytes.strip, lines)
        if len(rest) > LONGEST_LINE:
            raise TooMuch("it sends a line without an end")
    if rest.strip():
        yield rest


def refusal_words(answer: Answer) -> str:
    """The text of a refusal, in at most LONGEST_WORDS characters."""
    said = words_of(read_bounded(answer, MOST_JSON))
    return (said or f"HTTP status {answer.status}")[:LONGEST_WORDS]


def cause_of(error: BaseException) -> str:
    """The innermost of the errors that a library has nested."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__  # pyright: ignore[reportAssignmentType]
    return str(error)


def make_archive(
    files: Sequence[tuple[str, bytes, int]],
    owner: tuple[int, int],
    folder: str,
    folder_mode: int = 0o700,
) -> bytes:
    """A tar of (name, content, mode) in a folder that, unless `folder_mode` says otherwise, only
    its owner can enter.
    """
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo(folder)
        entry.type, entry.mode = tarfile.DIRTYPE, folder_mode
        entry.uid, entry.gid = owner
        tar.addfile(entry)
        for name, content, mode in files:
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode = len(content), mode
            entry.uid, entry.gid = owner
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def stored_login(
    registry: str, config: str, environ: Mapping[str, str]
) -> tuple[Mapping[str, str], str]:
    """The login that `docker login` has kept for a registry, itself or by a credential helper, and
    the reason why a helper gave nothing.

    Raises UsageError for a config file that cannot be understood.
    """
    import docker.auth
    from docker.errors import DockerException

    with reading_config(config):
        kept = docker.auth.load_config(config, credstore_env=dict(environ))  # pyright: ignore
        kept.get_credential_store(registry)  # pyright: ignore
    try:
        with warnings.catch_warnings():
            # of a helper that is not there: the error tells it
            warnings.simplefilter("ignore")
            return kept.resolve_authconfig(registry) or {}, ""  # pyright: ignore
    except ValueError:  # a helper's answer is JSON
        return {}, "(the credential helper's answer cannot be understood)"
    except DockerException as error:
        return {}, f"({cause_of(error)})"


def login_header(login: Mapping[str, str]) -> Mapping[str, str]:
    """The header that carries a login to a registry; none without a login."""
    import base64

    if not login:
        return {}
    return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(dict(login)).encode()).decode()}
