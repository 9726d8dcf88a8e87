"""Images: the one that a job needs, pulled when its policy says so, with the credentials that its registry wants."""

from __future__ import annotations

from tao_sdk.backends.docker import survey
from tao_sdk.model.errors import Refused
from tao_sdk.model.plan import Plan
from tao_sdk.model.settings import Settings
from tao_sdk.transports.dockerd import Daemon


class Images:
    def __init__(self, daemon: Daemon, settings: Settings) -> None:
        self.daemon, self.settings = daemon, settings

    def ready(self, plan: Plan) -> str | None:
        """None once the image is there; else how far the pull is. Raises Refused when it cannot be had."""
        name = plan.request["container"]["Image"]
        if survey.image(self.daemon, name) is None:
            raise Refused(f"The daemon has no image {name}.", "", f"docker pull {name}")
        return None
