"""Leftovers: containers of earlier attempts that could not be removed: their files were busy.

Each was renamed, so that the next attempt can use its name. A later look removes it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from tao_sdk.backends.containers.containers import BUSY, Container, Containers, container_name
from tao_sdk.model.errors import Unreachable
from tao_sdk.transports.dockerd import DaemonError, ignore_status

log = logging.getLogger("tao_sdk.containers")
MARK = ".left-"  # in a leftover's name, followed by the start of its id
TRIES = 10  # tries to remove a container before the next attempt starts, 0.1 s apart
PAUSE_SECONDS = 30.0  # between two tries to remove the leftovers


def clear_name(containers: Containers, found: Container, job_id: str) -> None:
    """Remove a container to free its name. If its files are busy, rename it instead."""
    try:
        containers.remove(found.id, TRIES)
    except DaemonError as error:
        if not BUSY.search(error.backend_words):
            raise
        aside = f"{container_name(job_id)}{MARK}{found.id[:12]}"
        with ignore_status(404):
            containers.daemon.ask("POST", f"/containers/{found.id}/rename", name=aside)
        log.warning(
            "an earlier container of %s cannot be removed now, later looks try again: %s",
            job_id,
            error.what,
        )


class Leftovers:
    """The leftovers of one daemon."""

    def __init__(self, containers: Containers) -> None:
        self.containers = containers
        self.tried_at = -math.inf

    def remove_listed(self, listed: Sequence[Mapping[str, Any]]) -> None:
        """Try to remove the leftovers in a list of containers, in the background."""
        found = [str(container["Id"]) for container in listed if is_leftover(container)]
        if found and time.monotonic() - self.tried_at >= PAUSE_SECONDS:
            self.tried_at = time.monotonic()
            threading.Thread(
                target=self._remove, args=(found,), name="tao-leftovers", daemon=True
            ).start()

    def _remove(self, containers: Sequence[str]) -> None:
        for container in containers:
            with suppress(DaemonError, Unreachable):  # a later look tries again
                self.containers.remove(container, 1)


def is_leftover(listed: Mapping[str, Any]) -> bool:
    names: Sequence[str] = listed.get("Names") or ()
    return any(MARK in name for name in names)
