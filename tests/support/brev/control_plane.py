"""What stands behind the stand-in `brev`: an account's instances and what is rented to it, in a file
under a lock.

Here: the life of an instance, what is offered, and what is to go wrong next. Not here: the words
and streams of the command (program.py) and the machines themselves (machines.py).
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Record = dict[str, Any]

NEXT_STATES = {"DEPLOYING": "RUNNING", "STARTING": "RUNNING", "STOPPING": "STOPPED"}
NO_PORT = 1  # at which nobody listens
# Seconds that an instance stays in a state, unless a test sets others.
TIMES = {"DEPLOYING": 0.0, "STARTING": 0.0, "STOPPING": 0.0, "DELETING": 0.0}


def offer(kind: str, gpu: str, gpus: int, price: float, **more: Any) -> Record:
    """What `brev search` says of a type."""
    memory = 0 if not gpus else 80 if gpu in ("H100", "A100") else 48
    return {
        "type": kind,
        "cloud": "aws",
        "provider": "aws",
        "gpu_name": gpu,
        "gpu_count": gpus,
        "vram_per_gpu_gb": memory,
        "total_vram_gb": memory * gpus,
        "capability": 8.9 if gpus else 0,
        "vcpus": 8 * max(gpus, 1),
        "memory": f"{32 * max(gpus, 1)} GiB",
        "ram_gb": 32 * max(gpus, 1),
        "arch": "x86_64",
        "disk_min_gb": 50,
        "disk_max_gb": 1000,
        "disk_price_per_gb_mo": 0.1,
        "boot_time_seconds": 240,
        "stoppable": True,
        "rebootable": True,
        "flex_ports": False,
        "target_disk_gb": 120,
        "price_per_hour": price,
        **more,
    }


OFFERS = (
    offer("g6e.xlarge", "L40S", 1, 2.24),
    offer("g6e.12xlarge", "L40S", 4, 12.6),
    offer("massedcompute_L40", "L40", 1, 1.1, cloud="massedcompute", provider="massedcompute"),
    offer("massedcompute_L40S", "L40S", 1, 1.2, cloud="massedcompute", provider="massedcompute"),
    offer(
        "hyperstack_H100",
        "H100",
        1,
        2.7,
        cloud="hyperstack",
        provider="hyperstack",
        stoppable=False,
    ),
    offer("a2-highgpu-1g:nvidia-tesla-a100:1", "A100", 1, 4.1, cloud="gcp", provider="gcp"),
    offer("m7i.large", "", 0, 0.13),
)
ORGANIZATIONS = ({"name": "acme", "id": "org-1"}, {"name": "private", "id": "org-2"})


def new_account(release: str) -> Record:
    """The state of an account that has rented nothing."""
    return {
        "release": release,
        "notices": [],  # lines that come before every output
        "flags_of_create": [],  # flags that this `brev create` has besides
        "tokens": ["session:device"],
        "api_keys": {},  # key -> the organization's id
        "organizations": list(ORGANIZATIONS),
        "offers": list(OFFERS),
        "sold_out": [],  # types without capacity
        "times": dict(TIMES),
        "fates": [],  # of the next creates
        "faults": {},  # command -> what goes wrong with its next calls
        "instances": [],
    }


class ControlPlane:
    """The account that a state file holds. Any number of processes use it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "state.json"

    @contextmanager
    def changing(self) -> Iterator[Record]:
        """The state as it is now. What is done to it is kept."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = json.loads(self.file.read_text())
            state["instances"] = [each for each in state["instances"] if live_on(each, state)]
            try:
                yield state
            finally:
                self.write_state(state)

    def write_state(self, state: Record) -> None:
        partial = self.folder / "state.new"
        partial.write_text(json.dumps(state, indent=1))
        partial.replace(self.file)

    def read_state(self) -> Record:
        with self.changing() as state:
            return state

    def take_fault(self, command: str) -> str:
        """What goes wrong with this call of a command; "" if nothing does."""
        with self.changing() as state:
            faults = state["faults"].get(command, [])
            return faults.pop(0) if faults else ""


def live_on(instance: Record, state: Record) -> bool:
    """Bring an instance to the state that its time has led to. False once it is gone."""
    status = instance["status"]
    seconds = state["times"].get(status)
    if seconds is None or time.time() - instance["since"] < seconds:
        return True
    if status == "DELETING":
        return False
    ends = instance["fate"].get("end", "RUNNING")
    move_to(instance, ends if status == "DEPLOYING" else NEXT_STATES[status])
    return True


def move_to(instance: Record, status: str) -> None:
    instance.update(status=status, since=time.time())


def named(state: Record, name: str) -> Record | None:
    """The instance of this name or id."""
    return next((each for each in state["instances"] if name in (each["name"], each["id"])), None)


def new_instance(state: Record, name: str, kind: str, owner: Record, fate: Record) -> Record:
    """Rent a machine of this type."""
    rented = next(each for each in state["offers"] if each["type"] == kind)
    instance = {
        "name": name,
        "id": os.urandom(5).hex()[:9],
        "org": owner["org"],
        "owner": owner["owner"],
        "type": kind,
        "gpu": rented["gpu_name"],
        "gpu_count": rented["gpu_count"],
        "stoppable": rented["stoppable"],
        "status": "DEPLOYING",
        "since": time.time(),
        "fate": fate,
        "port": NO_PORT,  # of its sshd, once there is one
    }
    state["instances"].append(instance)
    return instance


def shown_row(instance: Record) -> Record:
    """What `brev ls` says of an instance. Neither its price nor its age nor why it failed."""
    fate = instance["fate"]
    runs = instance["status"] == "RUNNING"
    built = fate.get("build", "COMPLETED") if runs else ""
    health = fate.get("health", "HEALTHY") if runs else ""
    return {
        "name": instance["name"],
        "id": instance["id"],
        "status": health if health == "UNHEALTHY" else instance["status"],
        "build_status": built,
        "shell_status": "READY" if built == "COMPLETED" else "NOT READY",
        "health_status": health,
        "instance_type": instance["type"],
        "instance_kind": "gpu" if instance["gpu_count"] else "cpu",
        "gpu": instance["gpu"],
    }
