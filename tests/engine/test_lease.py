from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tao_sdk.engine import lease
from tao_sdk.store import Store

HOLD = """
import sys, time
from pathlib import Path
from tao_sdk.engine import lease
from tao_sdk.store import Store
assert lease.take(Store.open(Path(sys.argv[1])), "job:x", lease.this_process(), 600)
print("held", flush=True)
time.sleep(600)
"""


def test_a_lease_is_taken_over_from_the_dead_and_only_from_them(tmp_path: Path) -> None:
    path = tmp_path / "state" / "jobs.db"
    store = Store.open(path)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    me = lease.this_process()
    assert not lease.take(store, "job:x", me, 5)
    holder.kill()
    holder.wait()
    assert lease.take(store, "job:x", me, 5)


def test_a_lease_of_another_machine_is_waited_for(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "state" / "jobs.db")
    elsewhere = lease.SEPARATOR.join(["elsewhere", "some-boot", "1", "1", "token"])
    assert lease.take(store, "watch:x", elsewhere, 600)
    assert not lease.take(store, "watch:x", lease.this_process(), 5)
    assert lease.take(store, "watch:x", elsewhere, 0.1)
    time.sleep(0.2)
    assert lease.take(store, "watch:x", lease.this_process(), 5)


def test_a_holder_in_another_container_of_this_host_is_not_taken_for_dead() -> None:
    host, boot, pid, start, token = lease.this_process().split(lease.SEPARATOR)
    ended = lease.SEPARATOR.join([host, boot, pid, start + "0", token])
    assert lease.is_dead(ended)
    elsewhere = boot.partition("/")[0] + "/pid:[1]"
    assert not lease.is_dead(lease.SEPARATOR.join([host, elsewhere, pid, start + "0", token]))
