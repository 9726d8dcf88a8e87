"""HTTP session: requests to one server over connections that are used again, and the bytes of its
answers.

Here: the pool of idle connections, the head of a request, and the body of an answer. Not here: how
a connection is opened (a `Connect`), and what is asked.
"""

from __future__ import annotations

import json
import math
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import quote, urlencode

from tao_sdk.model.errors import Unreachable
from tao_sdk.transports.chunks import Chunks
from tao_sdk.transports.silence import Silence, seconds_left
from tao_sdk.transports.slow_answer import SLOW_SECONDS, tell_slow

MOST_IDLE = 10  # connections kept open for the next request; sshd serves so many at once
BLOCK = 32 * 1024  # bytes of an answer that are read at once
SAFE_IN_PATH = "!$%&'()*+,/:;=@[]~"  # kept in a path; the rest is percent-encoded
LONGEST_POLL = 86400.0  # seconds
CUT_SHORT = "the answer ended in the middle"

Connect = Callable[[], HTTPConnection]
Timeout = float | tuple[float | None, float | None]  # seconds; a pair is (to connect, to read)


@dataclass(frozen=True)
class Server:
    """A server, and what is remembered of it from one session to the next.

    A server that has not begun to answer a GET after `patience` seconds is asked for `ping`. One
    that answers that within `ping_seconds` is only slow, and is waited for; any other is silent.
    """

    name: str  # as people know it
    ping: str
    patience: float
    ping_seconds: float
    silence: Silence


class Session:
    """Requests to one server, over connections that are used again. Safe to use from several
    threads.
    """

    def __init__(self, url: str, connect: Connect, server: Server) -> None:
        self.url = url  # as people know it
        self.agreed = ""  # the version of the API that both sides speak, where it has one
        self.server = server
        self._connect = connect
        self._idle: list[HTTPConnection] = []
        self._lock = threading.Lock()
        self._closed = False

    def request(
        self,
        method: str,
        path: str,
        timeout: Timeout,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        data: bytes | None = None,
    ) -> Answer:
        """The answer, once its head has come. `timeout` is in seconds, or (to connect, to read).
        Raises OSError or HTTPException; at once for a server that was silent a moment ago.
        """
        body, content = encoded_body(json, data)
        to_connect, to_read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        self.server.silence.refuse_question()
        connection = self._take_connection(to_connect)
        try:
            line = connection.sock
            line.settimeout(time_left(to_read))
            send_request(
                connection,
                method,
                request_target(path, params),
                body,
                {**content, **(headers or {})},
            )
            if method == "GET":
                self._await_answer(line, to_connect if to_read is None else to_read)
            answer = Answer(self, connection, line, connection.getresponse())
        except BaseException:
            connection.close()
            raise
        self.server.silence.end()
        return answer

    def _await_answer(self, line: socket.socket, most: float | None) -> None:
        """Wait until the answer begins. Raises TimeoutError after `most` seconds, and earlier if
        the server is silent.
        """
        most = seconds_left(math.inf if most is None else most)
        patience = min(most, self.server.patience)
        if has_answer(line, min(patience, SLOW_SECONDS)):
            return
        tell_slow(self.server.name, most)
        if has_answer(line, patience - SLOW_SECONDS):
            return
        if seconds_left() and not self._answers_ping():
            self.server.silence.begin()
            waited = patience + self.server.ping_seconds
            raise TimeoutError(f"It did not answer within {waited:g} s")
        if not has_answer(line, most - patience):
            raise TimeoutError(f"It did not answer within {most:g} s")

    def _answers_ping(self) -> bool:
        """True if the server answers a cheap question, whatever the answer."""
        connection = self._connect()
        connection.timeout = self.server.ping_seconds
        try:
            connection.connect()
            connection.sock.settimeout(self.server.ping_seconds)
            send_request(connection, "GET", self.server.ping, None, {})
            connection.getresponse()
        except (OSError, HTTPException, Unreachable):
            return False
        finally:
            connection.close()
        return True

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def give_back(self, connection: HTTPConnection) -> None:
        """Keep a connection for the next request. Its answer was read to its end."""
        with self._lock:
            keeps = not self._closed and len(self._idle) < MOST_IDLE
            if keeps and connection.sock is not None:
                self._idle.append(connection)
                return
        connection.close()

    def _take_connection(self, timeout: float | None) -> HTTPConnection:
        while (connection := self._take_idle()) is not None:
            if not was_dropped(connection.sock):
                return connection
            connection.close()
        connection = self._connect()
        connection.timeout = time_left(timeout)
        try:
            connection.connect()
        except OSError as error:
            timed_out = isinstance(error, TimeoutError) or isinstance(error.__cause__, TimeoutError)
            if timed_out and seconds_left():
                self.server.silence.begin()
            raise
        return connection

    def _take_idle(self) -> HTTPConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None


class Answer:
    """One answer: its head, and its body as it comes. Must be closed."""

    def __init__(
        self,
        session: Session,
        connection: HTTPConnection,
        line: socket.socket,
        response: HTTPResponse,
    ) -> None:
        self.status, self.headers = response.status, response.headers
        self.line = line  # the socket, for an answer that has become a plain connection
        self.response = response
        self._session = session
        self._connection = connection
        self._was_read = False

    @property
    def raw(self) -> Any:
        """The body as a file that can be read once."""
        return self

    def read(self, size: int) -> bytes:
        """The next `size` bytes of the body; fewer at its end. Raises Unreachable when it breaks
        off.
        """
        try:
            data = self.response.read(size)
            self._check_end(data)
        except (OSError, HTTPException) as error:
            raise Unreachable(
                f"The connection to {self._session.url} broke.", str(error), "Try again."
            ) from error
        return data

    def read_before(self, deadline: float, most: int) -> bytes:
        """The whole body, of at most `most` bytes. Raises TimeoutError if it has not come by the
        deadline of time.monotonic(), ValueError if it is larger; OSError or HTTPException when it
        breaks off.
        """
        body = bytearray()
        while data := self._read_some(deadline):
            body += data
            if len(body) > most:
                raise ValueError(f"the answer is larger than {most} bytes")
        self.response.read(1)  # to its end, so that the connection can be used again
        return bytes(body)

    def _read_some(self, deadline: float) -> bytes:
        """Read the next part of the body; empty at its end. Raises as `read_before`."""
        patience = deadline - time.monotonic()
        if patience <= 0:
            raise TimeoutError
        silence = self.line.gettimeout()
        self.line.settimeout(min(patience, silence or patience))
        data = self.response.read1(BLOCK)
        self._check_end(data)
        return data

    def read_blocks(self) -> Iterator[bytes]:
        """The body in the blocks in which it comes. Raises OSError or HTTPException when it breaks
        off.
        """
        length_is_known = self.response.length is not None
        read = self.response.read if length_is_known else self.response.read1
        while data := read(BLOCK):
            yield data
        self._check_end(b"")

    def read_large_blocks(self) -> Iterator[bytes]:
        """The body in fewer and larger blocks: a log has a chunk for each of its lines."""
        if not self.response.chunked:
            yield from self.read_blocks()
            return
        chunks = Chunks(self.response.fp)
        yield from chunks
        self._was_read = chunks.ended_cleanly

    def _check_end(self, data: bytes) -> None:
        """Raise ConnectionError if the body ended before its length."""
        if not data and not self.response.chunked and self.response.length:
            raise ConnectionError(CUT_SHORT)

    def close(self) -> None:
        """Give the connection back, or close it if the answer was not read to its end."""
        was_read = self._was_read or self.response.isclosed()
        self.response.close()
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if was_read:
            self._session.give_back(connection)
        else:
            connection.close()


def time_left(most: float | None) -> float | None:
    """`most` seconds, or fewer if this thread has less time left; None without a limit. Raises
    TimeoutError if no time is left.
    """
    left = seconds_left(math.inf if most is None else most)
    if not left:
        raise TimeoutError("There was no time left to ask")
    return None if math.isinf(left) else left


def has_answer(line: socket.socket, seconds: float) -> bool:
    """True once the other side has sent something, or has closed the connection."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    return bool(poll.poll(1000 * min(max(seconds, 0.0), LONGEST_POLL)))


def encoded_body(data: Any, raw: bytes | None) -> tuple[bytes | None, dict[str, str]]:
    """The bytes to send, and the headers that describe them."""
    if data is None:
        return raw, {}
    return json.dumps(data, allow_nan=False).encode(), {"Content-Type": "application/json"}


def send_request(
    connection: HTTPConnection,
    method: str,
    where: str,
    body: bytes | None,
    headers: Mapping[str, str],
) -> None:
    try:
        connection.request(method, where, body, {"User-Agent": "tao-sdk", **headers})
    except BrokenPipeError:
        return  # a daemon that refuses need not read it all; its answer says why


def request_target(path: str, params: Mapping[str, Any] | None) -> str:
    """A path with its query, as HTTP writes them; parameters that are None are left out."""
    where = quote(path, safe=SAFE_IN_PATH)
    given = {name: value for name, value in (params or {}).items() if value is not None}
    if not given:
        return where
    return f"{where}?{urlencode(given, doseq=True)}"


def was_dropped(line: socket.socket | None) -> bool:
    """True if the other side has closed an idle connection, or has sent bytes that nobody asked
    for.
    """
    return line is None or has_answer(line, 0)
