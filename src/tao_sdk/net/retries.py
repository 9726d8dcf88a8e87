"""Retries: for how long a request is retried, and the pauses between tries."""

from __future__ import annotations

import os
import time
from socket import gaierror

from tao_sdk.net.unreachable import silent_host, unreachable
from tao_sdk.net.wire import ProxyAway, ProxyRefused, parse_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from tao_sdk.net.wire import Origin

    class Servers(Protocol):
        """The state of the servers, which Web keeps."""

        env: Mapping[str, str]
        patience: float
        known: dict[Origin, bool]
        awaited: set[Origin]
        away: dict[Origin, tuple[float, float]]
        tell: Callable[..., None]


BUSY = (429, 500, 502, 503, 504)  # statuses that are worth a retry
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 15.0  # seconds between tries
LONGEST_RETRY_AFTER = 30.0  # seconds that a server can ask us to wait
PATIENCE = 300.0  # seconds of retries for a server that has answered before
STRANGER = 20.0  # for a server that never has: more likely a wrong name than a short absence
TRIES_BEFORE_EVENT = 3  # most failures are over before this try
AWAY = (
    90.0  # seconds after a failed try in which a server counts as away; the next try comes by then
)
NAMELESS_TRIES = 3  # for a host name that does not resolve, if its server has never answered


class Patience:
    """The time limit for all tries, and growing random pauses between them."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.reset()

    def reset(self) -> None:
        """Restart the time and the pauses, because data arrived."""
        self.started = 0.0
        self.count = 0

    def wait(self, least: float = 0.0) -> bool:
        """Sleep until the next try, at least `least` seconds. False when the time is up."""
        now = time.monotonic()
        self.started = self.started or now
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self.count)
        pause = max(least, longest * (0.5 + ord(os.urandom(1)) / 512))
        if now + pause > self.started + self.seconds:
            return False
        self.count += 1
        time.sleep(pause)
        return True


class Retry(Patience):
    """The tries of one request. `patience`: seconds; 0: the usual time for this server."""

    def __init__(self, servers: Servers, origin: Origin, patience: float = 0.0) -> None:
        usual = servers.patience
        if not servers.known.get(origin):
            usual = min(STRANGER, usual)
        super().__init__(patience or usual)
        self.servers, self.origin, self.given = servers, origin, patience

    def wait(self, least: float = 0.0) -> bool:
        """Sleep until the next try. All requests to a server that is away share one patience."""
        if not self.given:
            now = time.monotonic()
            since, last_try = self.servers.away.get(self.origin, (now, now))
            if now >= last_try + AWAY:
                since = now
            self.servers.away[self.origin] = since, now
            self.started = self.started or since
        return super().wait(least)

    def after_error(self, error: OSError) -> None:
        """Sleep until the next try. Raises Failure if a retry cannot help, or the time is up."""
        if is_permanent(error) or self.is_wrong_name(error) or not self.wait():
            raise unreachable(error, self.origin, self.servers.env) from error
        if self.count == TRIES_BEFORE_EVENT and not self.given:
            self.tell_waiting(error)

    def is_wrong_name(self, error: OSError) -> bool:
        """True if the host name failed to resolve NAMELESS_TRIES times, and its server has never
        answered.
        """
        if not is_unknown_name(error) or self.servers.known.get(self.origin):
            return False
        return self.count + 1 >= NAMELESS_TRIES

    def tell_waiting(self, error: OSError) -> None:
        """Report once that this server does not answer."""
        if self.origin not in self.servers.awaited:
            self.servers.awaited.add(self.origin)
            self.servers.tell("waiting", host=silent_host(error, self.origin, self.servers.env))

    def after_busy(self, retry_after: str) -> bool:
        """Sleep as long as a busy server asks. False when the time is up.

        The server has answered, so it gets the time limit of a known server.
        """
        self.seconds = self.given or self.servers.patience
        return self.wait(retry_after_seconds(retry_after))


def retry_after_seconds(value: str) -> float:
    """The seconds of a retry-after header, at most LONGEST_RETRY_AFTER; 0 for any other text."""
    return min(LONGEST_RETRY_AFTER, float(max(0, parse_number(value))))


def is_permanent(error: OSError) -> bool:
    """True if no retry helps: an untrusted certificate, or a proxy that refuses us."""
    if isinstance(error, ProxyRefused):
        return 400 <= error.status < 500 and error.status not in BUSY
    return type(error).__name__ == "SSLCertVerificationError"


def is_unknown_name(error: OSError) -> bool:
    """True if the name of the server, or of its proxy, does not resolve."""
    cause = error.__cause__ if isinstance(error, ProxyAway) else error
    return isinstance(cause, (gaierror, UnicodeError))
