"""Networks: the one that we make for jobs that name none, and its end when no container has it any
more.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from tao_sdk.backends.docker.daemon.recent import Recent
from tao_sdk.backends.docker.daemon.turns import Turns
from tao_sdk.transports.dockerd import Daemon, ignore_status

OURS = "tao-toolkit"  # the label of what we make
TRIES = 50
# What a start says when others remove, or make, one of that name in the same moment.
UNSETTLED = re.compile(r"network \S+ (not found|is ambiguous)")


class Networks:
    """Of one daemon. `folder` holds whose turn it is to make or remove one."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon, self.turns = daemon, Turns(folder)
        self.recent: Recent[str] = Recent()  # name -> id

    def made(self, name: str) -> str:
        """The id of the network of that name, which is made when it is not there."""
        if seen := self.recent.get(name):
            return seen
        with self.turns.taken(name):
            return self.recent.keep(name, self.only(name))

    def only(self, name: str) -> str:
        """Clients that make it at once get several of that name, and a daemon starts nothing in
        such a one.

        Whoever sees them removes all but the one that is in use, else the oldest.
        """
        for _ in range(TRIES):
            same = self.named(name)
            if len(same) == 1:
                return same[0]
            if not same:
                with ignore_status(409):  # another was first
                    self.make(name)
            for each in self.superfluous(same):
                with ignore_status(403, 404, 409):  # it has come into use, or is gone
                    self.daemon.ask("DELETE", f"/networks/{each}")
            time.sleep(0.05 if same else 0)
        return name

    def superfluous(self, same: list[str]) -> list[str]:
        kept = next((each for each in same if self.users(each)), same[0] if same else "")
        return [each for each in same if each != kept]

    def users(self, network: str, **more: Any) -> list[Any]:
        """The containers that run in it; with `all`, those too that do not run."""
        return self.daemon.ask("GET", "/containers/json", filters={"network": [network]}, **more)

    def named(self, name: str) -> list[str]:
        """The ids of those of that name, the oldest first."""
        same = [each for each in self.daemon.get("/networks") if each["Name"] == name]
        return [each["Id"] for each in sorted(same, key=lambda each: (each["Created"], each["Id"]))]

    def make(self, name: str) -> None:
        body = {"Name": name, "CheckDuplicate": True, "Driver": "bridge", "Labels": {OURS: "true"}}
        self.daemon.ask("POST", "/networks/create", body)

    def forget(self, name: str) -> None:
        self.recent.forget(name)

    def release(self, name: str) -> None:
        """Remove it if we made it and no container has it any more, not even one that has ended."""
        self.forget(name)
        with self.turns.taken(name):
            for each in self.daemon.ask(
                "GET", "/networks", filters={"name": [name], "label": [OURS]}
            ):
                if not self.users(each["Id"], all=1):
                    with ignore_status(403, 404, 409):  # somebody began to use it, or removed it
                        self.daemon.ask("DELETE", f"/networks/{each['Id']}")
