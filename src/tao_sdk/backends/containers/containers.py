"""Containers: inspect, stop and remove the containers of one daemon."""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any

from tao_sdk.backends.containers import parse
from tao_sdk.backends.containers.start_script import GRACE, GRACE_FILE
from tao_sdk.backends.containers.window import epoch_seconds
from tao_sdk.backends.job_environment import grace_text
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.plan import Attempt
from tao_sdk.transports.dockerd import Daemon, DaemonError, ignore_status, make_archive

MOST_EVENTS = 1000  # per container; a daemon remembers fewer than this in all
MARGIN = 30.0  # seconds beyond the grace for the daemon to answer a stop
REMOVALS = 100  # tries, 0.1 s apart
# A storage driver's words while another process still uses the files of a container.
BUSY = re.compile("device or resource busy", re.IGNORECASE)


def container_name(job_id: str) -> str:
    """The name of a job's container. The job's attempts use the name one after the other."""
    return f"tao-job-{job_id}"


@dataclass(frozen=True)
class Container:
    """A container as it was inspected."""

    seen: Mapping[str, Any]

    @property
    def id(self) -> str:
        return self.seen["Id"]

    @property
    def begun(self) -> bool:
        return parse.has_begun(self.seen["State"])

    @property
    def running(self) -> bool:
        return self.seen["State"]["Status"] == "running"

    @property
    def own_grace(self) -> timedelta:
        """The default time for its job to end after SIGTERM."""
        return timedelta(seconds=self.seen["Config"].get("StopTimeout") or GRACE)

    def is_of(self, attempt: Attempt) -> bool:
        return parse.belongs_to(self.seen, attempt.job_id, attempt.number, attempt.store_id)


class Containers:
    """The containers of one daemon, by name or id."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon

    def inspect(self, name: str) -> Container | None:
        # A job may have no container yet. Without a name, the daemon would list all containers.
        if not name:
            return None
        with ignore_status(404):
            return Container(self.daemon.get(f"/containers/{name}/json"))
        return None

    def write_grace(self, container: Container, grace: timedelta) -> None:
        """Write the grace into the container, for the job to read.

        A container with a read-only root keeps its own grace.
        """
        folder, name = posixpath.split(GRACE_FILE[1:])
        files = [(name, grace_text(grace).encode(), 0o644)]
        with suppress(DaemonError, Unreachable):
            archive = make_archive(files, (0, 0), folder, 0o755)
            self.daemon.put_archive(container.id, "/", archive)

    def stop(self, container: Container, seconds: float) -> None:
        if container.seen["State"].get("Paused"):
            self.daemon.ask("POST", f"/containers/{container.id}/unpause")
        left = int(seconds)
        if seconds % 1:
            self.end_within(container, seconds)
            left = 0
        self.daemon.ask("POST", f"/containers/{container.id}/stop", timeout=left + MARGIN, t=left)

    def end_within(self, container: Container, seconds: float) -> None:
        """Send SIGTERM and wait up to `seconds` for the end.

        The daemon's own stop counts whole seconds only.
        """
        until = time.monotonic() + seconds
        with ignore_status(409):  # it has ended
            self.daemon.ask("POST", f"/containers/{container.id}/kill", signal="SIGTERM")
            while time.monotonic() < until and self.lives(container):
                time.sleep(min(0.05, seconds / 10))

    def lives(self, container: Container) -> bool:
        left = self.inspect(container.id)
        return left is not None and not parse.observation(left.seen).phase.over

    def remove(self, container: str, tries: int | None = None) -> None:
        """Remove a container with its anonymous volumes.

        Waits for a removal that is already under way, and retries while the container's files are
        busy: `tries` times, 0.1 s apart. Raises DaemonError.
        """
        for tries_left in reversed(range(tries or REMOVALS)):
            try:
                self.daemon.ask("DELETE", f"/containers/{container}", force=1, v=1)
                return
            except DaemonError as error:
                if error.status == 404:
                    return
                is_busy = tries_left and BUSY.search(error.backend_words)
                if error.status != 409 and not is_busy:
                    raise
            time.sleep(0.1)

    def recorded_events(self, container: Container) -> list[Mapping[str, Any]]:
        """The events of a container that the daemon still remembers."""
        began = parse.moment(container.seen.get("Created"))
        since = f"{began.timestamp():.6f}" if began else "0"
        wanted = {"container": [container.id], "event": ["kill", "oom", "die", "start", "stop"]}
        # Use the daemon's clock, which may differ from ours: it waits for a time in its future.
        now = epoch_seconds(self.daemon.info(at_most=0)["SystemTime"])
        events = self.daemon.read_lines(
            "GET", "/events", {}, since=since, until=f"{now:.6f}", filters=wanted
        )
        return list(islice(events, MOST_EVENTS))
