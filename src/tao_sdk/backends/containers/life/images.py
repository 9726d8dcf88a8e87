"""Images: the functions for a daemon's images that starting and ending a container need."""

from __future__ import annotations

from typing import Protocol

from tao_sdk.backends.containers.request import ContainerRequest
from tao_sdk.model.plan import Attempt


class Images(Protocol):
    """Brings images to one daemon. Each backend with a daemon has its own class."""

    def was_here(self, request: ContainerRequest) -> bool:
        """True if the request's image was there a moment ago, and need not be pulled."""
        ...

    def get_ready(self, attempt: Attempt, request: ContainerRequest) -> str | None:
        """Pull the image if needed. Returns None once it is there, else the pull's progress.

        Raises Refused if the image cannot be pulled.
        """
        ...

    def user(self, name: str) -> str:
        """The user of the image's commands; "" if the image names none."""
        ...

    def forgo(self, job_id: str) -> None:
        """Note that the job no longer waits for an image."""
        ...
