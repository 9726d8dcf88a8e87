"""Networks: our own network for jobs that name none. It is removed once no container uses it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from tao_sdk.backends.containers.life.name_locks import NameLocks
from tao_sdk.backends.containers.life.recent import Recent
from tao_sdk.transports.dockerd import Daemon, ignore_status

OURS = "tao-toolkit"  # the label of the networks that we make
TRIES = 50
# The daemon's error for a start while other clients remove or make a network of that name.
UNSETTLED = re.compile(r"network \S+ (not found|is ambiguous)")


class Networks:
    """The networks of one daemon. `folder` holds the locks for making or removing a network."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon, self.locks = daemon, NameLocks(folder)
        self.recent: Recent[str] = Recent()  # name -> id

    def get_or_create(self, name: str) -> str:
        """The id of the network of that name. Creates the network if it is not there."""
        recent_id = self.recent.get(name)
        if recent_id:
            return recent_id
        with self.locks.hold(name):
            return self.recent.keep(name, self.settle_name(name))

    def settle_name(self, name: str) -> str:
        """Make sure that there is exactly one network of that name, and return its id.

        Clients that create it at the same time get several networks of that name, and a daemon
        starts no container in such a network. Each client that sees several removes all except the
        one in use, or all except the oldest. Returns the name itself after TRIES tries.
        """
        for _ in range(TRIES):
            same = self.ids_of_name(name)
            if len(same) == 1:
                return same[0]
            if not same:
                with ignore_status(409):  # another was first
                    self.create(name)
                continue
            for network in self.spare_networks(same):
                with ignore_status(403, 404, 409):  # it is used by now, or gone
                    self.daemon.ask("DELETE", f"/networks/{network}")
            time.sleep(0.05)
        return name

    def spare_networks(self, same: list[str]) -> list[str]:
        """All networks except the first one in use. If none is in use, all except the oldest."""
        used = next((network for network in same if self.list_containers(network)), same[0])
        return [network for network in same if network != used]

    def list_containers(self, network: str, **more: Any) -> list[Any]:
        """The running containers of a network; with `all=1`, also those that do not run."""
        return self.daemon.ask("GET", "/containers/json", filters={"network": [network]}, **more)

    def ids_of_name(self, name: str) -> list[str]:
        """The ids of the networks of that name, the oldest first."""
        same = [network for network in self.daemon.get("/networks") if network["Name"] == name]
        same.sort(key=lambda network: (network["Created"], network["Id"]))
        return [network["Id"] for network in same]

    def create(self, name: str) -> None:
        body = {"Name": name, "CheckDuplicate": True, "Driver": "bridge", "Labels": {OURS: "true"}}
        self.daemon.ask("POST", "/networks/create", body)

    def forget(self, name: str) -> None:
        self.recent.forget(name)

    def remove_unused(self, name: str) -> None:
        """Remove a network if we made it and no container uses it, not even an ended one."""
        self.forget(name)
        filters = {"name": [name], "label": [OURS]}
        with self.locks.hold(name):
            for network in self.daemon.ask("GET", "/networks", filters=filters):
                if not self.list_containers(network["Id"], all=1):
                    with ignore_status(403, 404, 409):  # somebody began to use it, or removed it
                        self.daemon.ask("DELETE", f"/networks/{network['Id']}")
