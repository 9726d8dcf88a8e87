"""HTTP session: requests to one server over connections that are used again, and the bytes of its
answers.

Here: the pool of idle connections, the head of a request, and the body of an answer. Not here: how
a connection is opened (a `Connect`), and what is asked.
"""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import quote, urlencode

from tao_sdk.model.errors import Unreachable
from tao_sdk.transports.chunks import Chunks

MOST_IDLE = 10  # connections kept open for the next request; sshd serves so many at once
BLOCK = 32 * 1024  # bytes of an answer that are read at once
SAFE_IN_PATH = "!$%&'()*+,/:;=@[]~"  # what a path keeps; the rest is percent-encoded
CUT_SHORT = "the answer ended in the middle"

Connect = Callable[[], HTTPConnection]
Timeout = float | tuple[float | None, float | None]  # seconds; a pair is (to connect, to read)


class Session:
    """Requests to one daemon, over connections that are used again. Safe to use from several
    threads.
    """

    def __init__(self, url: str, connect: Connect, api_version: str = "") -> None:
        self.url = url  # as people know it
        self.agreed = api_version  # the version of the API that both sides speak
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
        """The answer, of which the head has come. `timeout` is in seconds, or (to connect, to
        read). Raises OSError or HTTPException.
        """
        body, content = encoded_body(json, data)
        to_connect, to_read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        connection = self._take_connection(to_connect)
        try:
            line = connection.sock
            line.settimeout(to_read)
            send_request(
                connection,
                method,
                request_target(path, params),
                body,
                {**content, **(headers or {})},
            )
            return Answer(self, connection, line, connection.getresponse())
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Close the connections that nobody uses."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def give_back(self, connection: HTTPConnection) -> None:
        """Keep a connection whose answer was read to its end for the next request."""
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
        connection.timeout = timeout
        connection.connect()
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
        self.line = line  # what is under it, for an answer that has become a plain connection
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
        """What comes next of the body; empty at its end. Raises as `read_before`."""
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
        """Raises ConnectionError where the body ended before its length."""
        if not data and not self.response.chunked and self.response.length:
            raise ConnectionError(CUT_SHORT)

    def close(self) -> None:
        """Give the connection back, or close it where the answer was not read to its end."""
        was_read = self._was_read or self.response.isclosed()
        self.response.close()
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if was_read:
            self._session.give_back(connection)
        else:
            connection.close()


def encoded_body(data: Any, raw: bytes | None) -> tuple[bytes | None, dict[str, str]]:
    """(the bytes to send, the headers that say what they are)."""
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
    """True if the other side has closed an idle connection, or says what nobody asked for."""
    if line is None:
        return True
    poll = select.poll()
    poll.register(line, select.POLLIN)
    return bool(poll.poll(0))
