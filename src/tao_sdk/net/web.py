"""The HTTP and HTTPS client of jobs: requests, retries, and reused connections.

Here: Web and its answers. Not here: the sockets (wire.py), the times of retries (retries.py), the
targets of redirects (redirects.py), the texts of failures (unreachable.py), or the meaning of a
status to a store (s3.py).

    web = Web(env)
    answer = web.ask("GET", url, {"accept": "text/plain"})  # reads the whole body, retries included
    answer.status, answer.headers["etag"], answer.body
    with web.open("GET", url, headers) as answer:  # the caller reads the body; OSError if it breaks
        for view in answer.chunks(): ...           # a view is valid until the next one

`sign(method, url, headers)` returns the headers of one try, because a signature contains the time.
A request's body is bytes, or a `Body` (wire.py). Header names are lower case in requests and
answers. An unsuccessful status is an answer like any other, after the retries for 429, 500, 502,
503 and 504. A server that is never reached raises a Failure.

Credentials are sent to one scheme, host and port only. They are dropped if a redirect or an address
in an answer leads elsewhere. `outside` marks an address that a server elsewhere gave.
"""

from __future__ import annotations

import threading
import time
from socket import gaierror

from tao_sdk.net.environment import number
from tao_sdk.net.failure import Failure
from tao_sdk.net.proxy import proxy_for
from tao_sdk.net.redirects import (
    CARRIED,
    REDIRECTS,
    ends_here,
    in_one_line,
    redirect_refused,
    redirect_target,
)
from tao_sdk.net.retries import BUSY, PATIENCE, Retry
from tao_sdk.net.wire import Connection, Garbled, TlsTrust, host_header, split_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from tao_sdk.net.wire import Body, Origin

    Headers = dict[str, str]
    Sign = Callable[[str, str, Headers], Headers]

MOST_REDIRECTS = 8
IDLE = 20.0  # seconds that a connection may be idle; servers close idle ones after 30 or more
LARGEST = 64 << 20  # bytes of an answer in memory


class Changed(Exception):
    """The content is not the requested version, or not the one that a transfer began with."""


class Answer:
    """An answer of a server. After `ask` its body is in `body`; after `open`, `chunks` reads it."""

    def __init__(
        self, url: str, status: int, headers: Headers, connection: Connection, web: Web
    ) -> None:
        self.url, self.status, self.headers = url, status, headers
        self.connection, self.web = connection, web
        self.outside = False  # True if a server elsewhere gave the address
        self.body = b""
        self.over = False  # True once another request may use the connection

    def chunks(self) -> Iterator[memoryview]:
        """The body in pieces. Raises OSError if the connection breaks."""
        if self.over:
            return iter((memoryview(self.body),))
        return self.connection.read_body()

    def read(self) -> bytes:
        """The rest of the body. Raises Garbled if it is larger than LARGEST."""
        parts: list[bytes] = []
        size = 0
        for view in self.chunks():
            size += len(view)
            if size > LARGEST:
                raise Garbled(f"an answer of more than {LARGEST} bytes")
            parts.append(bytes(view))
        return b"".join(parts)

    def __enter__(self) -> Answer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.over:
            self.over = True
            self.web.give_back(self.connection)

    @property
    def leads_outside(self) -> bool:
        """True if the addresses in this answer come from a server outside this machine."""
        return self.outside or not ends_here(self.connection)

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class Web:
    """Reused connections to any number of hosts. Threads may share it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.trust = TlsTrust(env)
        self.patience = number(env.get("TAO_RETRY_SECONDS"), PATIENCE)
        self.idle: dict[Origin, list[tuple[float, Connection]]] = {}
        self.known: dict[Origin, bool] = {}
        self.awaited: set[Origin] = set()  # servers whose silence an event has reported
        # server that does not answer -> since when, and the time of the last try
        self.away: dict[Origin, tuple[float, float]] = {}
        self.lock = threading.Lock()
        self.closed = False
        self.tell: Callable[..., None] = (
            ignore_event  # called with an event and its facts, from any thread
        )

    def ask(
        self,
        method: str,
        url: str,
        headers: Headers | None = None,
        body: bytes | Body = b"",
        sign: Sign | None = None,
        follow: bool = True,
        patience: float = 0.0,
        outside: bool = False,
    ) -> Answer:
        """Send a request, with retries, and return the answer with its whole body. `patience`:
        seconds for all tries; 0: the usual time. Raises Failure.
        """
        retry = Retry(self, split_url(url)[0], patience)
        while True:
            try:
                with self.request_once(
                    method, url, headers or {}, body, sign, follow, outside
                ) as answer:
                    answer.body = answer.read()
            except OSError as error:
                retry.after_error(error)
                continue
            if answer.status not in BUSY or not retry.after_busy(
                answer.headers.get("retry-after", "")
            ):
                return answer

    def open(
        self,
        method: str,
        url: str,
        headers: Headers | None = None,
        sign: Sign | None = None,
        follow: bool = True,
        outside: bool = False,
    ) -> Answer:
        """Send a request, with retries, and return the answer. The caller reads its body inside
        `with`. Raises Failure.
        """
        retry = Retry(self, split_url(url)[0])
        while True:
            try:
                answer = self.request_once(method, url, headers or {}, b"", sign, follow, outside)
                if answer.status not in BUSY:
                    return answer
                with answer:
                    answer.body = answer.read()
            except OSError as error:
                retry.after_error(error)
                continue
            if not retry.after_busy(answer.headers.get("retry-after", "")):
                return answer

    def request_once(
        self,
        method: str,
        url: str,
        headers: Headers,
        body: bytes | Body,
        sign: Sign | None,
        follow: bool,
        outside: bool,
    ) -> Answer:
        """Send a request once and follow all redirects. Raises OSError, Failure."""
        for _ in range(MOST_REDIRECTS):
            sent = dict(headers)
            if sign:
                sent = sign(method, url, sent)
            answer = self.exchange(method, url, sent, body, outside)
            answer.outside = outside
            location = answer.headers.get("location", "")
            if not (follow and answer.status in REDIRECTS and location):
                return answer
            with answer:
                answer.read()
            if answer.status == 303:
                method, body = "GET", b""
            onward = redirect_target(url, location)
            if split_url(onward)[0] != split_url(url)[0]:
                headers = {name: value for name, value in headers.items() if name in CARRIED}
                sign = None
                if body:
                    why = "What is sent was meant for the first server only."
                    raise redirect_refused(url, onward, why)
            url, outside = onward, answer.leads_outside
        raise Garbled(f"more than {MOST_REDIRECTS} redirects")

    def exchange(
        self, method: str, url: str, headers: Headers, body: bytes | Body, outside: bool
    ) -> Answer:
        """Send a request and read the head of its answer, without redirects or retries.

        An idle connection that the server has closed meanwhile is replaced by another one.
        """
        check_request(url, headers)
        origin, target = split_url(url)
        while True:
            connection = self.take_connection(origin)
            if outside and ends_here(connection):
                connection.close()
                why = "That is this machine itself, and a server of elsewhere told the address."
                raise redirect_refused("", url, why)
            try:
                status, answered = connection.request(method, target, headers, body)
            except OSError:
                connection.close()
                if connection.used and not connection.heard:
                    continue
                raise
            except BaseException:
                connection.close()
                raise
            self.note_answer(origin, status)
            return Answer(url, status, answered, connection, self)

    def note_answer(self, origin: Origin, status: int) -> None:
        """Note that the server answers. Unless it is busy, it no longer counts as away."""
        self.known[origin] = True
        self.awaited.discard(origin)
        if status not in BUSY:
            self.away.pop(origin, None)

    def take_connection(self, origin: Origin) -> Connection:
        """A connection to the server: an idle one, or a new one."""
        return self.take_idle(origin) or self.connect(origin)

    def take_idle(self, origin: Origin) -> Connection | None:
        """An idle connection that is fresh enough, or None. Older ones are closed."""
        with self.lock:
            idle = self.idle.get(origin, [])
            while idle:
                since, connection = idle.pop()
                if time.monotonic() - since < IDLE:
                    connection.used = True
                    return connection
                connection.close()
        return None

    def connect(self, origin: Origin) -> Connection:
        """A new connection. Raises OSError."""
        try:
            return Connection(origin, proxy_for(origin, self.env), self.trust)
        except (UnicodeError, OverflowError):
            raise gaierror("invalid host name or port") from None

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next request if its answer was read to the end."""
        if not connection.reusable or self.closed:
            connection.close()
            return
        with self.lock:
            self.idle.setdefault(connection.origin, []).append((time.monotonic(), connection))

    def close(self) -> None:
        """Close the idle connections, and keep no more."""
        self.closed = True
        with self.lock:
            for idle in self.idle.values():
                for _, connection in idle:
                    connection.close()
            self.idle.clear()


def ignore_event(*_: object, **__: object) -> None:
    """Do nothing: the `tell` of a client without a listener."""


def check_request(url: str, headers: Headers) -> None:
    """Raise Failure for an address or header with a control character: after a line end, the rest
    would become headers.
    """
    for name, text in (("address", url.replace(" ", "\n")), *headers.items()):
        if in_one_line(text):
            continue
        server = host_header(split_url(url)[0]).encode("ascii", "backslashreplace").decode()
        raise Failure(
            "web.request",
            f"A request to {server} cannot be sent.",
            f"Its {name} holds a control character, such as the end of a line.",
            "Look at the address, and at the keys and tokens in the job's environment: "
            "one was cut from a file, perhaps.",
        )
