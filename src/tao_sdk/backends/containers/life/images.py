"""Images: what the life of a container needs of the images on its daemon."""

from __future__ import annotations

from typing import Protocol

from tao_sdk.backends.containers.request import ContainerRequest
from tao_sdk.model.plan import Attempt


class Images(Protocol):
    """How images get to one daemon. Each backend that has one brings its own."""

    def was_here(self, request: ContainerRequest) -> bool:
        """True if the request's image was there a moment ago, and need not be pulled."""
        ...

    def get_ready(self, attempt: Attempt, request: ContainerRequest) -> str | None:
        """None once the image is there, else how far the pull is. Raises Refused for an image
        that cannot be had.
        """
        ...

    def user(self, name: str) -> str:
        """Who the image's commands run as; "" if it does not say."""
        ...

    def forgo(self, job_id: str) -> None:
        """The job waits for no image any more."""
        ...
