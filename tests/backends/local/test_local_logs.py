"""A local job's log: every byte once, from anywhere, in flat memory."""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.machine import Machine, until
from tao_sdk.backends.contract import LogRequest
from tao_sdk.backends.local import logs
from tao_sdk.model.errors import PathNotFound, UsageError

TEN_MB = """
import os
for _ in range(160):
    os.write(1, (bytes(range(256)) + b"50 %\\r60 %\\r\\xff\\xfe\\n") * 240)
    os.write(2, b"e")
"""


def test_ten_megabytes_that_are_no_text_come_whole_while_they_are_written(
    machine: Machine, tmp_path: Path
) -> None:
    program = tmp_path / "prints.py"
    program.write_text(TEN_MB)
    line = bytes(range(256)) + b"50 %\r60 %\r\xff\xfe\n"
    log = machine.log(machine.submit(f"{sys.executable} {program}"))
    assert len(log) > 10_000_000
    assert log == (line * 240 + b"e") * 160


def test_following_can_be_cut_off_anywhere_and_goes_on_without_loss_or_repeat(
    machine: Machine,
) -> None:
    ref = machine.submit(
        "for i in $(seq 1 300); do echo line $i; [ $((i % 60)) = 0 ] && "
        "sleep 0.05; done; printf end"
    )
    got, cursor = b"", ""
    while not got.endswith(b"end"):
        for chunk in machine.backend.logs(ref, LogRequest(cursor=cursor, follow=True)):
            got, cursor = got + chunk.data, chunk.cursor
            break
    assert got == b"".join(b"line %d\n" % i for i in range(1, 301)) + b"end"
    assert int(cursor) == len(got)


@pytest.mark.slow
def test_following_ends_with_the_job_and_has_its_last_words(machine: Machine) -> None:
    for _ in range(10):
        assert machine.log(machine.submit("echo first; echo last; exit 1")) == b"first\nlast\n"


@pytest.mark.slow
def test_following_begins_before_the_job_does(machine: Machine) -> None:
    machine.has_gpus(1)
    first = machine.submit("sleep 0.5", gpu_count=1)
    assert machine.log(machine.submit("echo mine", gpu_count=1)) == b"mine\n"
    machine.end(first)


def test_a_log_outlives_the_supervisor(machine: Machine, tmp_path: Path) -> None:
    go = tmp_path / "go"
    ref = machine.submit(f"echo a; until [ -e {go} ]; do sleep 0.05; done; echo b")
    machine.says(ref, b"a")
    machine.kill_supervisor(ref)
    go.touch()
    assert machine.log(ref) == b"a\nb\n"


def test_a_log_that_was_removed_is_not_there(machine: Machine) -> None:
    ref = machine.submit("true")
    machine.end(ref)
    machine.backend.release(ref)
    with pytest.raises(PathNotFound):
        machine.log(ref)


def test_there_is_one_rank(machine: Machine) -> None:
    ref = machine.submit("true")
    with pytest.raises(UsageError, match="rank 1"):
        list(machine.backend.logs(ref, LogRequest(rank=1)))


@pytest.mark.slow
@given(st.lists(st.binary(max_size=12), max_size=8), st.integers(0, 10), st.integers(1, 9))
def test_a_tail_is_the_last_lines_whatever_the_blocks(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], number: int, block: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "tail"
    text = b"\n".join(lines)
    path.write_bytes(text)
    lines = keep(text)
    wanted = b"".join(lines[max(0, len(lines) - number) :])
    before, logs.CHUNK = logs.CHUNK, block
    try:
        got = b"".join(
            chunk.data for chunk in logs.read(path, LogRequest(tail=number), lambda: True)
        )
    finally:
        logs.CHUNK = before
    assert got == wanted


def keep(text: bytes) -> list[bytes]:
    """Lines as a terminal shows them: ended by a newline only."""
    lines = [line + b"\n" for line in text.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


FOLLOW = """
import hashlib, resource, sys
from pathlib import Path
from tao_sdk.backends.contract import LogRequest
from tao_sdk.backends.local import logs
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
digest = hashlib.sha256()
for chunk in logs.read(Path(sys.argv[1]), LogRequest(), lambda: True):
    digest.update(chunk.data)
print(digest.hexdigest(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_150_megabytes_are_read_in_flat_memory(tmp_path: Path) -> None:
    path, block, digest = tmp_path / "log", os.urandom(1 << 20), hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(150):
            file.write(block)
            digest.update(block)
    done = subprocess.run(
        [sys.executable, "-c", FOLLOW, str(path)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    seen, grown = done.stdout.split()
    assert seen == digest.hexdigest()
    assert int(grown) < 16 * 1024, f"grew by {grown} KiB"


@pytest.mark.slow
def test_an_idle_follower_costs_next_to_nothing(machine: Machine) -> None:
    ref = machine.submit("sleep 1")
    until(lambda: machine.processes(ref))
    begun, used = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    machine.log(ref)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime < 0.25 * (
        time.monotonic() - begun
    )
