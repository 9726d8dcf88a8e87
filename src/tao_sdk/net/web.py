"""HTTP and HTTPS as the runner speaks them: what to ask, how often, and how it is said when nobody
answers.

Here: retries, redirects and the words of failures. Not here: the sockets (wire.py) or what a status
means to a store (s3.py).

    web = Web(env)
    answer = web.ask("GET", url, {"accept": "text/plain"})     # the whole body is read, again where
    it broke answer.status, answer.headers["etag"], answer.body with web.open("GET", url, headers)
    as answer:              # the body is read by the caller; it may break: OSError
        for view in answer.chunks(): ...                       # a view is good until the next one

`sign(method, url, headers)` gives the headers of one try anew: a signature has a time in it. A body
to send is bytes, or a `Body` (wire.py). Names of headers are lower case in what is given and in
what comes back. A status that is no success is an answer like any other, after the retries that
429, 500, 502, 503 and 504 are worth. A server that cannot be reached to the end is a Failure.

Where a server leads us on (a redirect, the link to a next page, an address in its answer), what
says who we are stays behind unless scheme, host and port are the same; https never leads to http,
and no server of elsewhere to this machine itself or to its metadata: `outside` marks an address
that such a server told.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from socket import AF_INET6, gaierror, inet_aton, inet_ntoa, inet_ntop, inet_pton

from tao_sdk.net.address import shown
from tao_sdk.net.environment import number
from tao_sdk.net.failure import Failure
from tao_sdk.net.wire import (
    PORTS,
    WANTS_LOGIN,
    Connection,
    Garbled,
    ProxyAway,
    Refused,
    TlsTrust,
    digits,
    host_header,
    proxy_for,
    split,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from tao_sdk.net.wire import Body, Origin, Proxy

    Headers = dict[str, str]
    Sign = Callable[[str, str, Headers], Headers]

BUSY = (429, 500, 502, 503, 504)
REDIRECTS = (301, 302, 303, 307, 308)
CARRIED = (
    "accept",
    "content-type",
    "if-match",
    "if-range",
    "range",
)  # headers that are no secret of one host's
HERE = (
    "127.",
    "169.254.",
    "0.",
)  # how addresses of this machine begin, and of what only this machine reaches
HERE_6 = ("::1", "::", "fe8", "fe9", "fea", "feb", "fd00:ec2:")
MOST_PAGES = 10_000  # of one listing: ten million files, as a rule
HOPS = 8
IDLE = 20.0  # seconds that a connection may have lain unused; servers close them at 30 or later
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 15.0
MOST = 30.0  # seconds that a server can ask for
PATIENCE = 300.0  # seconds for a server that has answered before
STRANGER = 20.0  # seconds for one that never has: more likely a wrong name than a short absence
WORTH_TELLING = 3  # tries; most that is broken answers before
# seconds after a try that failed, in which a server still counts as away: the next looks come by
# then
AWAY = 90.0
# tries of a name that nobody knows; a server that has answered before is waited for all the same
NAMELESS = 3
LARGEST = 64 << 20  # bytes of an answer that is held in memory


class Changed(Exception):
    """The thing has another content than the version that was asked for, or that was begun to be
    sent.
    """


class Answer:
    """What a server said. After `ask` the body is in `body`; after `open` it is still to be read,
    by `chunks`.
    """

    def __init__(
        self, url: str, status: int, headers: Headers, connection: Connection, web: Web
    ) -> None:
        self.url, self.status, self.headers = url, status, headers
        self.connection, self.web = connection, web
        self.outside = False  # a server of elsewhere told the address
        self.body = b""
        # its connection is somebody else's by now; what was read of the body is in `body`
        self.over = False

    def chunks(self) -> Iterator[memoryview]:
        return iter((memoryview(self.body),)) if self.over else self.connection.body()

    def read(self) -> bytes:
        """All of the body that is still to come."""
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
        """True where the addresses that this answer tells are those of a server of elsewhere."""
        return self.outside or not is_here(self.connection)

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class Web:
    """Connections to any number of hosts, kept for the next request; safe to use
    from many threads.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.trust = TlsTrust(env)
        self.patience = number(env.get("TAO_RETRY_SECONDS"), PATIENCE)
        self.idle: dict[Origin, list[tuple[float, Connection]]] = {}
        self.known: dict[Origin, bool] = {}
        self.awaited: set[Origin] = set()  # it was told that these do not answer
        self.away: dict[
            Origin, tuple[float, float]
        ] = {}  # those that serve nobody: since when, and the last try
        self.lock = threading.Lock()
        self.closed = False
        self.tell: Callable[..., None] = unheard  # takes an event and its facts, from any thread

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
        """One question and its whole answer. `patience` in seconds."""
        pause = Pause(self, split(url)[0], patience)
        while True:
            try:
                with self.one(method, url, headers or {}, body, sign, follow, outside) as answer:
                    answer.body = answer.read()
            except OSError as error:
                pause.after(error)
                continue
            if answer.status not in BUSY or not pause.again(answer):
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
        """One question; the body of the answer is the caller's to read, inside `with`."""
        pause = Pause(self, split(url)[0])
        while True:
            try:
                answer = self.one(method, url, headers or {}, b"", sign, follow, outside)
                if answer.status not in BUSY:
                    return answer
                with answer:
                    answer.body = answer.read()
            except OSError as error:
                pause.after(error)
                continue
            if not pause.again(answer):
                return answer

    def one(
        self,
        method: str,
        url: str,
        headers: Headers,
        body: bytes | Body,
        sign: Sign | None,
        follow: bool,
        outside: bool,
    ) -> Answer:
        """One try, through all redirects."""
        for _ in range(HOPS):
            sent = sign(method, url, dict(headers)) if sign else dict(headers)
            answer = self.exchange(method, url, sent, body, outside)
            answer.outside = outside
            to = answer.headers.get("location", "")
            if not (follow and answer.status in REDIRECTS and to):
                return answer
            with answer:
                answer.read()
            if answer.status == 303:
                method, body = "GET", b""
            onward = led(url, to)
            if split(onward)[0] != split(url)[0]:
                headers = {name: value for name, value in headers.items() if name in CARRIED}
                sign = None
                if body:
                    raise astray(url, onward, "What is sent was meant for the first server only.")
            url, outside = onward, answer.leads_outside
        raise Garbled(f"more than {HOPS} redirects")

    def exchange(
        self, method: str, url: str, headers: Headers, body: bytes | Body, outside: bool
    ) -> Answer:
        """Send and hear the head of the answer. A connection that the server had closed meanwhile
        costs nothing.
        """
        check(url, headers)
        origin, target = split(url)
        while True:
            connection = self.take(origin)
            if outside and is_here(connection):
                connection.close()
                raise astray(
                    "",
                    url,
                    "That is this machine itself, and a server of elsewhere told the address.",
                )
            try:
                status, heard = connection.request(method, target, headers, body)
            except OSError:
                connection.close()
                if connection.used and not connection.heard:
                    continue
                raise
            except BaseException:
                connection.close()
                raise
            self.known[origin] = True
            self.awaited.discard(origin)
            if status not in BUSY:
                self.away.pop(origin, None)
            return Answer(url, status, heard, connection, self)

    def take(self, origin: Origin) -> Connection:
        """A connection that lay idle, or a new one."""
        with self.lock:
            idle = self.idle.get(origin, [])
            while idle:
                since, connection = idle.pop()
                if time.monotonic() - since < IDLE:
                    connection.used = True
                    return connection
                connection.close()
        try:
            return Connection(origin, proxy_for(origin, self.env), self.trust)
        except (UnicodeError, OverflowError):
            raise gaierror("no host can be called so") from None

    def give_back(self, connection: Connection) -> None:
        """Keep it for the next request if its answer was read to the end."""
        if not connection.reusable or self.closed:
            connection.close()
            return
        with self.lock:
            self.idle.setdefault(connection.origin, []).append((time.monotonic(), connection))

    def close(self) -> None:
        self.closed = True
        with self.lock:
            for idle in self.idle.values():
                for _, connection in idle:
                    connection.close()
            self.idle.clear()


def unheard(*_: object, **__: object) -> None:
    """For whoever has no report to tell it in."""


class Patience:
    """The time between tries: longer each time, never the same twice, at least what the server asks
    for.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.reset()

    def reset(self) -> None:
        """Something came: the time starts anew."""
        self.started = 0.0
        self.count = 0

    def wait(self, least: float = 0.0) -> bool:
        """Sleep until the next try. False when the time is up."""
        now = time.monotonic()
        self.started = self.started or now
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self.count)
        pause = max(least, longest * (0.5 + ord(os.urandom(1)) / 512))
        if now + pause > self.started + self.seconds:
            return False
        self.count += 1
        time.sleep(pause)
        return True


class Pause(Patience):
    """The patience that one question deserves."""

    def __init__(self, web: Web, origin: Origin, patience: float = 0.0) -> None:
        usual = web.patience if web.known.get(origin) else min(STRANGER, web.patience)
        super().__init__(patience or usual)
        self.web, self.origin, self.given = web, origin, patience

    def wait(self, least: float = 0.0) -> bool:
        """A server that serves nobody has one patience, whoever asks it."""
        if not self.given:
            now = time.monotonic()
            since, latest = self.web.away.get(self.origin, (now, now))
            since = since if now < latest + AWAY else now
            self.web.away[self.origin] = since, now
            self.started = self.started or since
        return super().wait(least)

    def after(self, error: OSError) -> None:
        """Wait, or raise the Failure that tells why waiting is no use."""
        nameless = is_unknown_name(error) and not self.web.known.get(self.origin)
        if hopeless(error) or (nameless and self.count + 1 >= NAMELESS) or not self.wait():
            raise failure(error, self.origin, self.web) from error
        if self.count == WORTH_TELLING and not self.given and self.origin not in self.web.awaited:
            self.web.awaited.add(self.origin)
            self.web.tell("waiting", host=awaited(error, self.origin, self.web))

    def again(self, answer: Answer) -> bool:
        """Wait as long as a busy server asks for; it has answered, so it is none that is not there.
        False when its time is up.
        """
        self.seconds = self.given or self.web.patience
        return self.wait(seconds(answer.headers.get("retry-after", "")))


def seconds(retry_after: str) -> float:
    """A date, which it may be as well, is left to our own pauses."""
    return min(MOST, float(max(0, digits(retry_after))))


def check(url: str, headers: Headers) -> None:
    """Nothing that ends a line may get into a request: what stands behind it would be headers of
    somebody else's.
    """
    for name, text in (("address", url.replace(" ", "\n")), *headers.items()):
        if not in_one_line(text):
            raise Failure(
                "web.request",
                "A request to "
                f"{host_header(split(url)[0]).encode('ascii', 'backslashreplace').decode()} "
                "cannot be sent.",
                f"Its {name} holds a character that cannot stand there, as the end of a line.",
                "Look at the address, and at the keys and tokens in the job's environment: "
                "one was cut from a file, perhaps.",
            )


def in_one_line(text: str) -> bool:
    """True without control characters."""
    return text.isprintable() or not any(char < " " or "\x7f" <= char <= "\x9f" for char in text)


def is_here(connection: Connection) -> bool:
    """True where it ends at this machine, or at what only this machine reaches: its metadata, its
    neighbours on the link.
    """
    if not connection.proxy:
        return is_local(connection.peer)
    host = connection.origin[1].rstrip(".")  # a proxy finds out where a name leads
    return is_local(host) or host == "localhost" or host.endswith(".localhost")


def is_local(address: str) -> bool:
    """True for loopback, link-local and the like; in any of the ways in which an address can be
    written.
    """
    with contextlib.suppress(OSError, ValueError):  # a name, or an address of four numbers
        address = inet_ntop(
            AF_INET6, inet_pton(AF_INET6, address)
        )  # of the ways to write one, the shortest
    address = address.rpartition("::ffff:")[2] if "." in address else address
    try:
        return inet_ntoa(inet_aton(address)).startswith(HERE)
    except OSError:
        return ":" in address and (address in HERE_6[:2] or address.startswith(HERE_6[2:]))


def led(url: str, to: str) -> str:
    """The address that the server at `url` leads to. Raises Failure for one that nobody follows."""
    onward = resolved(url, to.replace(" ", "%20"))
    scheme, host, _ = split(onward)[0]
    if not in_one_line(onward):
        raise astray(
            url, "an address", "It holds a character that cannot stand there, as the end of a line."
        )
    if scheme not in PORTS or not host:
        raise astray(url, onward, "Only http and https addresses are followed.")
    if scheme == "http" and split(url)[0][0] == "https":
        raise astray(
            url,
            onward,
            "What is asked for by https is not taken from where "
            "everybody on the way can change it.",
        )
    return onward


def astray(url: str, to: str, why: str) -> Failure:
    source = f"{shown(url)} leads" if url else "An address led"
    return Failure(
        "web.redirect",
        f"{source} to {shown(to)}, and is not followed.",
        why,
        "Ask who runs the server, or name the address that the data really have.",
    )


class Pages:
    """Counts the pages of a listing, so that a server that never comes to an end is noticed."""

    def __init__(self, code: str, what: str) -> None:
        self.code, self.what = code, what
        self.marks: set[str] = set()
        self.first = ""

    def turn(self, mark: str, first: str = "") -> None:
        """One more page, told from the others by its mark; `first` is its first entry, where each
        page has a new mark.

        Raises Failure for one that was there before, and for too many.
        """
        if mark in self.marks or (first and first == self.first):
            raise self.endless("The server gave the same page twice.")
        if len(self.marks) >= MOST_PAGES:
            raise self.endless(f"It has more than {MOST_PAGES} pages.")
        self.marks.add(mark)
        self.first = first

    def endless(self, why: str) -> Failure:
        next = "Name a folder below it, or the files one by one; ask who runs the server."
        return Failure(self.code, f"The list of {self.what} has no end.", why, next)


def resolved(url: str, to: str) -> str:
    """Where a `location` points, seen from `url`."""
    if "://" in to.partition("?")[0]:
        return to
    origin, target = split(url)
    if to.startswith("//"):
        return f"{origin[0]}:{to}"
    path = target.partition("?")[0]
    if not to.startswith("/"):
        to = (path if to.startswith("?") else path[: path.rindex("/") + 1]) + to
    return f"{origin[0]}://{host_header(origin)}{to}"


def hopeless(error: OSError) -> bool:
    """A certificate that is not trusted will not be trusted in a second either, and no proxy lets
    us in unasked.
    """
    if isinstance(error, Refused):
        return 400 <= error.status < 500 and error.status not in BUSY
    return type(error).__name__ == "SSLCertVerificationError"


def is_unknown_name(error: OSError) -> bool:
    cause = error.__cause__ if isinstance(error, ProxyAway) else error
    return isinstance(cause, (gaierror, UnicodeError))


def awaited(error: OSError, origin: Origin, web: Web) -> str:
    """Host and port of who does not answer: the server, or the proxy on the way there."""
    via = proxy_for(origin, web.env)
    host, port = via[:2] if via and isinstance(error, ProxyAway) else origin[1:]
    return f"{host}:{port}"


def failure(error: OSError, origin: Origin, web: Web) -> Failure:
    """What a person reads when a server was not reached."""
    where = f"{origin[1]}:{origin[2]}"
    via = proxy_for(origin, web.env)
    if via and isinstance(error, (ProxyAway, Refused)):
        return proxy_failure(error, origin[0], where, via)
    through = f" through the proxy {via[0]}:{via[1]}" if via else ""
    for name in [each.__name__ for each in type(error).__mro__]:
        if name in WORDS:
            code, what, next = WORDS[name]
            return Failure(code, what % where + through + ".", reason(error), next, origin[1])
    code, what, next = WORDS["OSError"]
    return Failure(code, what % where + through + ".", reason(error), next)


def proxy_failure(error: OSError, scheme: str, server: str, via: Proxy) -> Failure:
    """What a person reads when a proxy is the reason. Its login is not told."""
    proxy, variable = f"{via[0]}:{via[1]}", f"{scheme.upper()}_PROXY"
    spare = "or name the server in NO_PROXY where it can be reached without one."
    if not isinstance(error, Refused):
        what = f"The proxy {proxy} does not answer, on the way to {server}."
        return Failure(
            "web.proxy", what, reason(error), f"Check {variable} (or ALL_PROXY) of the job, {spare}"
        )
    if error.status == WANTS_LOGIN:
        how = "takes no such login" if via[2] else "wants a login"
        what = f"The proxy {proxy} {how}, on the way to {server}."
        next = (
            "Write it as %s=http://user:password@%s, with what is no letter or digit "
            "percent-encoded, %s"
        )
        return Failure("web.proxy", what, reason(error), next % (variable, proxy, spare))
    what = f"The proxy {proxy} lets nobody through to {server}."
    return Failure("web.proxy", what, reason(error), f"Ask who runs the proxy, {spare}")


def reason(error: OSError) -> str:
    """The system's words, which never hold what was sent."""
    said = (
        getattr(error, "verify_message", "") or error.strerror or str(error) or type(error).__name__
    )
    return f"{said.rstrip('.')}."


# what broke -> the code, the sentence, what to do
WORDS = {
    "gaierror": (
        "web.dns",
        "The name of the server cannot be resolved: %s",
        "Check the address for a typo, and that this machine's or container's DNS knows the name.",
    ),
    "ConnectionRefusedError": (
        "web.refused",
        "Nothing answers at %s",
        (
            "Check host and port of the address, and that the server runs. In a container, "
            "localhost is the container."
        ),
    ),
    "SSLCertVerificationError": (
        "web.tls",
        "The certificate of %s is not trusted",
        "For a certificate of your own authority, mount its file into the job and name it in AWS_CA_BUNDLE or "
        "SSL_CERT_FILE. An image without certificates needs its package ca-certificates.",
    ),
    "SSLError": (
        "web.tls",
        "No secure connection to %s",
        "Check whether the server speaks https at this port; http:// is another one.",
    ),
    "timeout": (
        "web.timeout",
        "%s did not answer in time",
        "Check the network between the job and the server.",
    ),
    "TimeoutError": (
        "web.timeout",
        "%s did not answer in time",
        "Check the network between the job and the server.",
    ),
    "OSError": (
        "web.broken",
        "The connection to %s broke again and again",
        "Check the network, then start it again.",
    ),
}
