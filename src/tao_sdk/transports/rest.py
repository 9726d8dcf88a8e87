"""Rest: requests to one HTTP API that takes a token and speaks JSON, over kept connections.

Here: JSON in and out, time limits, a busy server's pauses, and refusals as errors. Not here: what
is asked, what the answer means, and how a token is called (the backend).
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta, timezone
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException
from typing import Any, cast
from urllib.parse import urlsplit

from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import TaoError, Unreachable
from tao_sdk.net.failure import Failure
from tao_sdk.net.proxy import proxy_for
from tao_sdk.net.wire import TlsTrust, split_url
from tao_sdk.transports.http_session import Answer, Server, Session
from tao_sdk.transports.silence import Silence, seconds_left
from tao_sdk.transports.web_connection import ConnectFailed, WebConnection

CONNECT_SECONDS, READ_SECONDS = 5.0, 10.0
GIVE_UP_SECONDS = 30.0  # for one call, with the pauses that a busy server asks for
# seconds after which a server that has not begun to answer is taken to be silent, unless it answers
# a ping in some seconds more
PATIENCE, PING_SECONDS = 6.0, 2.0
LARGEST = 64 * 1024 * 1024  # bytes of an answer
BUSY = 429
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds that a busy server may ask for
BROKEN_PAUSE = 0.5  # seconds until a question is asked again that a broken server has not answered
BROKEN_TRIES = 2  # of a GET; another request is never sent twice
NO_TIME = "there was no time left to ask"
WORDS = 4000  # characters of a refusal that are kept
WORD_KEYS = ("message", "error", "detail")  # where a refusal's sentence may stand


class RestRefusal(TaoError):
    """The server answered and refused. `status` is the HTTP status, `what` its sentence, `why` the
    request.
    """

    code = "rest.refused"

    def __init__(self, status: int, what: str, why: str) -> None:
        super().__init__(what, why)
        self.status = status
        self.backend_words = what


class AnswerTooLarge(Unreachable):
    """The answer has more than LARGEST bytes. Less may be asked for at once."""


@dataclass(frozen=True)
class RestServer:
    """An API: its address without a slash at the end, its name for people, a path that any server
    answers, and the token.
    """

    url: str
    name: str
    ping: str
    token: str = field(repr=False)


class Rest:
    """One API. Safe to use from several threads. The constructor sends no request."""

    def __init__(self, server: RestServer, environ: Mapping[str, str]) -> None:
        self.server, self.environ = server, environ
        self.requests = 0  # requests sent
        self.clock_ahead = timedelta()  # of the server, before this machine's; by its last answer
        self._path = urlsplit(server.url).path.rstrip("/")
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._known = Server(
            server.name, self._path + server.ping, PATIENCE, PING_SECONDS, Silence()
        )

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        read: float = READ_SECONDS,
        least: float = 0.0,
    ) -> Any:
        """The answer's JSON; None for an empty one. Raises RestRefusal, Unreachable, and of the
        latter AnswerTooLarge.

        A GET is asked again after a server error. Any other request is sent once, unless the server
        was busy and did not take it. No request is sent with `least` seconds left or fewer: the
        answer to one that changes something must have time to come.
        """
        deadline = time.monotonic() + seconds_left(GIVE_UP_SECONDS)
        tries = BROKEN_TRIES if method == "GET" else 1
        while True:
            left = seconds_left(read)
            if left <= least:
                raise self._unreachable(OSError(NO_TIME), nothing_sent=True)
            answer = self._sent(method, path, body, params, left)
            self._note_clock(answer)
            try:
                if answer.status < 300:
                    return self._value(answer, deadline)
                refusal = self._refusal(answer, deadline, f"{method} {path}")
                pause = pause_of(answer)
            finally:
                answer.close()
            if refusal.status != BUSY:
                tries -= 1
            if refusal.status < 500 and refusal.status != BUSY:
                raise refusal
            if not tries or time.monotonic() + pause > deadline:
                raise self._unanswered(refusal)
            time.sleep(pause)

    def close(self) -> None:
        """Close the connections; the next request opens others."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()

    def _sent(
        self, method: str, path: str, body: Any, params: Mapping[str, Any] | None, read: float
    ) -> Answer:
        session = self._open_session()
        headers = {"Authorization": f"Bearer {self.server.token}", "Accept": "application/json"}
        with self._lock:
            self.requests += 1
        try:
            return session.request(
                method,
                self._path + path,
                (CONNECT_SECONDS, read),
                params=params,
                headers=headers,
                json=body,
            )
        except ConnectFailed as error:
            raise self._unreachable(error, nothing_sent=True) from error
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from error

    def _note_clock(self, answer: Answer) -> None:
        with suppress(ValueError, TypeError):  # no Date, or none that can be read
            date = parsedate_to_datetime(str(answer.headers.get("Date")))
            self.clock_ahead = date.astimezone(timezone.utc) - utc_now()

    def _open_session(self) -> Session:
        with self._lock:
            if self._session is None:
                connect = connecting(self.server.url, self.environ)
                self._session = Session(self.server.url, connect, self._known)
            return self._session

    def _value(self, answer: Answer, deadline: float) -> Any:
        try:
            data = answer.read_before(deadline, LARGEST)
        except ValueError as error:
            what = f"{self.server.name} gave too large an answer."
            raise AnswerTooLarge(what, f"{error}.", "Ask for less at once.") from error
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from error
        try:
            return json.loads(data) if data.strip() else None
        except (ValueError, RecursionError) as error:
            raise self.not_understood(f"It is no JSON: {error}.") from error

    def not_understood(self, why: str) -> Unreachable:
        """The error for an answer that says something else than was asked."""
        what = f"{self.server.name} gave an answer that cannot be understood."
        return Unreachable(what, why, "Check its address, and the proxy.")

    def _refusal(self, answer: Answer, deadline: float, request: str) -> RestRefusal:
        data = b""  # the status says enough where the words do not come
        with suppress(OSError, HTTPException, ValueError):
            data = answer.read_before(deadline, LARGEST)
        words = refusal_words(data.decode("utf-8", "replace"))
        return RestRefusal(answer.status, words or f"HTTP status {answer.status}", request)

    def _unanswered(self, refusal: RestRefusal) -> Unreachable:
        """The error for a server that answered, but not the question."""
        what = f"{self.server.name} could not answer (HTTP {refusal.status})."
        return Unreachable(what, refusal.what, "Try again.")

    def _unreachable(self, error: Exception, nothing_sent: bool = False) -> Unreachable:
        """The error for a server that gave no answer. `nothing_sent`: it got no request."""
        words = str(error) or type(error).__name__
        if isinstance(error, ssl.SSLCertVerificationError):
            words = f"its certificate is not trusted ({error.verify_message})"
        elif isinstance(error, TimeoutError):
            words = "it did not answer in time"
        told = Unreachable(
            f"{self.server.name} cannot be reached.", words, "Check the network and the proxy."
        )
        told.nothing_sent = nothing_sent
        return told


def pause_of(answer: Answer) -> float:
    """The seconds until the server is asked again: its own number, within bounds."""
    text = str(answer.headers.get("Retry-After") or "")
    if not text.isdigit():
        return BROKEN_PAUSE
    return min(max(float(text), SHORTEST_PAUSE), LONGEST_PAUSE)


def refusal_words(text: str) -> str:
    """The sentence in the body of a refusal: a part of a JSON object, else the text itself."""
    try:
        said: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()[:WORDS]
    if isinstance(said, dict):
        parts = cast("Mapping[str, Any]", said)
        words = next((parts[key] for key in WORD_KEYS if isinstance(parts.get(key), str)), "")
        return words[:WORDS] or text.strip()[:WORDS]
    return text.strip()[:WORDS]


def connecting(url: str, environ: Mapping[str, str]) -> Callable[[], HTTPConnection]:
    """A function that opens connections to the server. Raises Unreachable if the bundle of
    certificates that the environment names cannot be read.
    """
    origin, _ = split_url(url)
    scheme, host, port = origin
    proxy = proxy_for(origin, environ)
    try:
        context = TlsTrust(environ).context() if scheme == "https" else None
    except Failure as failure:
        raise Unreachable(failure.what, failure.why, failure.next) from failure
    return lambda: WebConnection(host, port, context, "", proxy)
