"""Identity: which daemon answers at an address.

A new daemon may replace the old one at the same address. It does not know the old one's containers.
"""

from __future__ import annotations

from tao_sdk.backends.containers import parse
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.plan import Ref
from tao_sdk.transports.dockerd import FRESH, Daemon


def identity(daemon: Daemon, at_most: float = FRESH) -> str:
    """The identity of the daemon that answers, read at most `at_most` seconds ago."""
    return parse.identity(daemon.info(at_most))


def identity_in(ref: Ref) -> str:
    """The identity of the daemon that started the attempt; "" if it is not known."""
    details = ref.details
    return details.get("daemon_identity") or details.get("daemon", "")  # as older versions wrote it


def is_the_daemon(daemon: Daemon, wanted: str, at_most: float = FRESH) -> bool:
    return not wanted or wanted == identity(daemon, at_most)


def must_be_the_daemon(
    daemon: Daemon, wanted: str, fix: str = "Start that one.", at_most: float = FRESH
) -> None:
    if not is_the_daemon(daemon, wanted, at_most):
        raise Unreachable(
            f"{another_daemon(daemon)}.", "What the job's one has cannot be known.", fix
        )


def another_daemon(daemon: Daemon) -> str:
    return f"Another Docker daemon than the job's answers at {daemon.address.url}"
