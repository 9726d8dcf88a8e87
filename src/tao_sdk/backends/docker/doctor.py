"""What a new user of Docker would trip over, each with the command that mends it."""

from __future__ import annotations

from tao_sdk.model.errors import TaoError
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.settings import Settings
from tao_sdk.transports.dockerd import Daemon


def examine(daemon: Daemon, settings: Settings) -> list[Finding]:
    try:
        info = daemon.get("/info")
    except TaoError as error:
        what = "MISSING: docker daemon not reachable. Start Docker."
        return [Finding(Severity.ERROR, error.code, what, str(error), error.next.partition("Run: ")[2] or error.next)]
    del settings
    return [Finding(Severity.OK, "docker.daemon", f"Docker {info['ServerVersion']} answers at {daemon.address.url}")]
