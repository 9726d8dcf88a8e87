"""Inputs under names in the user's folder: each name has one source at a time, and goes with the
job.
"""

from __future__ import annotations

import contextlib
import http.server
import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.machine import Machine, until
from tao_sdk.backends.local.options import LocalOptions
from tao_sdk.backends.local.request import LocalRequest
from tao_sdk.model.errors import Refused
from tao_sdk.model.finding import Severity
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.model.spec import JobSpec, mint_id
from tao_sdk.payload.prepared_job import pack_spec

pytestmark = pytest.mark.slow
NAME = "data/train.txt"
WAIT = f"cat {NAME}; until test -e go; do sleep 0.02; done; cat {NAME}"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / name).write_text(f"{name}\n")
    return folder


@pytest.fixture
def web(sources: Path) -> Iterator[str]:
    handler = partial(Quiet, directory=str(sources))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


def planned(machine: Machine, source: object, command: str = WAIT) -> Plan[LocalRequest]:
    return looked_at(machine, source, command)[0]


def looked_at(machine: Machine, source: object, command: str = WAIT) -> tuple[Any, dict[str, Any]]:
    """(the plan, code -> what the checks say)."""
    spec = JobSpec(command=command, inputs={NAME: str(source)}, gpu_count=0)
    job = pack_spec(spec)
    facts = machine.backend.survey(job, LocalOptions())
    attempt = Attempt(mint_id("job"), 1, "local", machine.backend.endpoint, "store-1")
    plan = machine.backend.plan(job, LocalOptions(), facts, attempt)
    return plan, {each.code: each for each in machine.backend.check(plan, facts)}


def test_a_live_jobs_name_for_its_input_is_refused_to_a_job_with_other_data(
    machine: Machine, sources: Path
) -> None:
    first = machine.start(planned(machine, sources / "one"))
    machine.says(first, b"one")
    plan, found = looked_at(machine, sources / "two")
    assert found["input.taken"].severity is Severity.ERROR
    assert first.attempt.job_id in found["input.taken"].what
    with pytest.raises(Refused, match=first.attempt.job_id):
        machine.backend.submit(plan, {})
    assert not machine.folder_of(plan).exists()
    Path("go").touch()
    machine.end(first)
    assert machine.log(first).count(b"one\n") == 2
    assert b"two" not in machine.log(first)


def test_jobs_with_the_same_input_share_its_name_until_the_last_has_ended(
    machine: Machine, sources: Path
) -> None:
    first = machine.start(planned(machine, sources / "one", f"cat {NAME}"))
    second_plan, found = looked_at(machine, sources / "one")
    assert "input.taken" not in found and "input.in_the_way" not in found
    second = machine.start(second_plan)
    machine.says(second, b"one")
    machine.end(first)
    assert Path(NAME).is_symlink()
    Path("go").touch()
    machine.end(second)
    assert not Path("data").exists()


def test_an_input_leaves_nothing_in_the_folder_where_the_job_ran(
    machine: Machine, sources: Path, web: str
) -> None:
    for source in (sources / "one", f"{web}/one"):
        ref = machine.start(planned(machine, source, f"cat {NAME}"))
        machine.end(ref)
        assert b"one" in machine.log(ref)
        assert not Path("data").exists()


def test_data_that_two_jobs_fetch_do_not_mix(machine: Machine, web: str) -> None:
    first = machine.start(planned(machine, f"{web}/one"))
    machine.says(first, b"one")
    assert "input.taken" in looked_at(machine, f"{web}/two")[1]
    Path("go").touch()
    machine.end(first)
    second = machine.start(planned(machine, f"{web}/two"))
    machine.end(second)
    log = machine.log(second).splitlines()
    assert log.count(b"two") == 2 and b"one" not in log


@pytest.mark.parametrize("looks", [True, False])
def test_links_of_a_killed_job_are_swept_by_the_next_look_and_by_the_next_job(
    machine: Machine, sources: Path, looks: bool
) -> None:
    first = machine.start(planned(machine, sources / "one"))
    machine.says(first, b"one")
    machine.kill_supervisor(first)
    for pid in machine.processes(first):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: not machine.processes(first))
    assert Path(NAME).is_symlink()
    if looks:
        machine.end(first)
        assert not Path("data").exists()
    plan, found = looked_at(machine, sources / "two", f"cat {NAME}")
    assert not {"input.taken", "input.in_the_way"} & set(found)
    second = machine.start(plan)
    machine.end(second)
    assert b"two" in machine.log(second)
    assert not Path("data").exists()


def unread(path: Path) -> tuple[int, ...]:
    """What looking at a file does not change."""
    stat = os.lstat(path)
    return stat.st_ino, stat.st_mode, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling"])
def test_what_a_user_has_there_is_neither_replaced_nor_removed(
    machine: Machine, sources: Path, tmp_path: Path, kind: str
) -> None:
    plan = planned(machine, sources / "one")
    own = Path(NAME)
    own.parent.mkdir()
    if kind == "file":
        own.write_text("mine\n")
    elif kind == "folder":
        own.mkdir()
    else:
        own.symlink_to(sources / "two" if kind == "link" else tmp_path / "nowhere")
    before = unread(own)
    assert looked_at(machine, sources / "one")[1]["input.in_the_way"].severity is Severity.ERROR
    ref = machine.start(plan)  # planned before it was there
    assert machine.end(ref).exit_code
    assert NAME in machine.folder(ref).read_text("exit")
    assert unread(own) == before


def test_a_users_own_link_to_the_input_stays(machine: Machine, sources: Path) -> None:
    Path("data").mkdir()
    Path(NAME).symlink_to(sources / "one")
    ref = machine.start(planned(machine, sources / "one", f"cat {NAME}"))
    assert machine.end(ref).exit_code == 0
    assert Path(NAME).is_symlink()


UNREADABLE = {
    "empty": b"",
    "cut": b'[["/data/one", "/sources',
    "not UTF-8": b"\xff\xfe\x00",
    "a number": b"5",
    "an object": b'{"target": "/data/one"}',
    "too few fields": b'[["/data/one"]]',
    "fields of other kinds": b"[[1, 2, 3, 4]]",
    "nested without end": b"[" * 200_000,
}


@pytest.fixture(params=UNREADABLE)
def unreadable(request: pytest.FixtureRequest) -> bytes:
    return UNREADABLE[request.param]


def links_file(machine: Machine, attempt: str) -> Path:
    return machine.state / "local" / ".links" / attempt


def test_an_unreadable_record_of_a_dead_job_is_removed_by_the_next_job(
    machine: Machine, sources: Path, unreadable: bytes
) -> None:
    record = links_file(machine, "job-dead.1")
    record.parent.mkdir(parents=True)
    record.write_bytes(unreadable)
    ref = machine.start(planned(machine, sources / "one", f"cat {NAME}"))
    assert machine.end(ref).exit_code == 0
    assert not record.exists()
    assert not Path("data").exists()


def test_an_unreadable_record_of_a_live_job_stays_and_stops_no_other_job(
    machine: Machine, sources: Path, unreadable: bytes
) -> None:
    first = machine.start(planned(machine, sources / "one"))
    machine.says(first, b"one")
    record = links_file(machine, Path(machine.folder(first).path).name)
    record.write_bytes(unreadable)
    second = machine.start(planned(machine, sources / "one", f"cat {NAME}"))
    assert machine.end(second).exit_code == 0
    assert record.exists()
    assert "input.in_the_way" in looked_at(machine, sources / "two")[1]
    Path("go").touch()
    assert machine.end(first).exit_code == 0
    assert not record.exists()


def test_an_attempt_that_is_not_started_yet_writes_its_unreadable_record_anew(
    machine: Machine, sources: Path, unreadable: bytes
) -> None:
    plan = planned(machine, sources / "one", f"cat {NAME}")
    record = links_file(machine, machine.folder_of(plan).name)
    record.parent.mkdir(parents=True)
    record.write_bytes(unreadable)
    assert machine.end(machine.start(plan)).exit_code == 0
    assert not Path("data").exists()
