"""Leases: who may act on a job or an endpoint. A lease is taken over at once if its holder has died
on this machine.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tao_sdk.model.errors import StoreError
from tao_sdk.model.job import Endpoint
from tao_sdk.store import Store

SEPARATOR = "|"


def this_process() -> str:
    """A name for this process as a lease holder: it says where to look, and no other process
    has it.
    """
    pid = int(Path("/proc/self").resolve().name)
    return SEPARATOR.join(
        [os.uname().nodename, _boot(), str(pid), _start_of(pid), os.urandom(4).hex()]
    )


def take(store: Store, name: str, owner: str, seconds: float) -> bool:
    """Take or renew the lease. False while another holder, alive or out of sight, has it."""
    if store.acquire(name, owner, seconds):
        return True
    holder = store.lease_holder(name)
    if holder is None or not is_dead(holder):
        return False
    store.release_lease(name, holder)
    return store.acquire(name, owner, seconds)


def is_held(store: Store, name: str) -> bool:
    """True while a holder, alive or out of sight, has the lease."""
    holder = store.lease_holder(name)
    return holder is not None and store.is_leased(name) and not is_dead(holder)


def of_watch(endpoint: Endpoint) -> str:
    """The name of the lease of an endpoint's watcher."""
    return "watch:" + "/".join(endpoint)


@contextmanager
def kept(store: Store, name: str, owner: str, seconds: float) -> Generator[None]:
    """Renew a lease that we hold in time, until the block ends, however long it takes."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(seconds / 3):
            with suppress(StoreError):  # there is time for another try
                store.acquire(name, owner, seconds)

    thread = threading.Thread(target=renew, name=f"tao-lease {name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def is_dead(owner: str) -> bool:
    """True only if that can be seen from here: same machine, same boot, and the process is gone."""
    host, boot, pid, start, _ = owner.split(SEPARATOR)
    if (host, boot) != (os.uname().nodename, _boot()):
        return False
    return _start_of(int(pid)) != start


def _boot() -> str:
    """An id of the kernel's boot and of its process table: the containers of a host have one table
    each.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"


def _start_of(pid: int) -> str:
    """The time when the process started, in ticks since boot; "" if there is none, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
