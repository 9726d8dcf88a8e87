"""Logs: every byte once, in order, unchanged, in flat memory, for as long as anybody may ask."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from support import TESTS
from support.places import Place
from support.waiting import until
from tao_sdk.backends.contract import LogRequest
from tao_sdk.client import Client
from tao_sdk.model.spec import JobSpec

ODD = (
    "import os; os.write(1, bytes(range(256)) * 40 + b'50 %\\r60 "
    "%\\rdone\\n' + b'\\xff\\xfe no newline')"
)


def run(client: Client, place: Place, command: str, **more: object) -> str:
    return client.submit(JobSpec(command=command, gpu_count=0, **more), place.platform).job.id  # pyright: ignore[reportArgumentType]


def test_bytes_that_are_no_text_and_carriage_returns_pass_unchanged(
    client: Client, place: Place
) -> None:
    job = run(client, place, f'python3 -c "{ODD}"')
    whole = b"".join(client.follow_logs(job))
    written = bytes(range(256)) * 40 + b"50 %\r60 %\rdone\n\xff\xfe no newline"
    assert whole == (written.decode(errors="replace").encode() if place.text_logs else written)


def test_what_a_python_program_prints_can_be_read_while_it_runs(
    client: Client, place: Place
) -> None:
    job = run(client, place, "python3 -c 'import time; print(1); time.sleep(600)'")
    until(lambda: client.get_job_logs(job) == "1\n")
    client.cancel_job(job, grace=0)


def test_the_runners_own_lines_are_left_out_unless_asked_for(client: Client, place: Place) -> None:
    job = run(client, place, "printf 'no newline at the end'", mode="passthrough", outputs=["out"])
    assert b"".join(client.follow_logs(job)) == b"no newline at the end"
    assert b"@tao {" in b"".join(client.follow_logs(job, events=True))
    assert client.get_job_logs(job, tail=1) == "no newline at the end"


def test_a_line_that_stands_open_while_it_is_followed_hides_no_event(
    client: Client, place: Place, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    job = run(
        client, place, f"printf open; until [ -e {go} ]; do sleep 0.05; done", outputs=["out"]
    )
    got = list[bytes]()
    follower = threading.Thread(target=lambda: got.extend(client.follow_logs(job)))
    follower.start()
    latest = time.monotonic() + 3  # not every platform shows an unfinished line at once
    while not (got or time.monotonic() > latest) or client.get_job(job).status == "Pending":
        time.sleep(0.05)
    go.touch()
    follower.join()
    assert b"".join(got) == b"open"


def test_a_tail_is_the_end_and_following_goes_on_from_it(
    client: Client, place: Place, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    job = run(client, place, f"seq 1 5000; until [ -e {go} ]; do sleep 0.05; done; seq 5001 5003")
    until(lambda: client.get_job_logs(job, tail=1) == "5000\n")
    assert client.get_job_logs(job, tail=2) == "4999\n5000\n"
    got = b""
    for data in client.follow_logs(job, tail=1):
        got += data
        go.touch()
    assert got == b"5000\n5001\n5002\n5003\n"
    assert client.get_job_logs(job, tail=0) == ""


def test_a_tail_counts_the_commands_lines_and_not_the_runners(
    client: Client, place: Place, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    job = run(
        client, place, f"seq 5; until [ -e {go} ]; do sleep 0.05; done; echo last", outputs=["out"]
    )
    until(lambda: client.get_job_logs(job, tail=1) == "5\n")
    got = b""
    for data in client.follow_logs(job, tail=2):
        got += data
        go.touch()
    assert got == b"4\n5\nlast\n"
    assert client.get_job_logs(job, tail=3) == "4\n5\nlast\n"
    assert client.get_job_logs(job, tail=100) == "1\n2\n3\n4\n5\nlast\n"
    assert b"".join(client.follow_logs(job, tail=0)) == b""


def test_reading_resumes_from_any_cursor_without_loss_or_repeat(
    client: Client, place: Place
) -> None:
    job = client.get_job(
        run(
            client,
            place,
            "for i in $(seq 1 300); do echo line $i; [ $((i % 50)) = 0 ] && sleep 0.05; done; true",
        )
    )
    ref = client.engine.ref_of(job)
    assert ref is not None
    backend, cursor, got = client.engine.backend_of(job), "", b""
    while got.count(b"\n") < 300:
        for chunk in backend.logs(ref, LogRequest(cursor=cursor, follow=True)):
            got, cursor = got + chunk.data, chunk.cursor
            break
    assert got == b"".join(f"line {i}\n".encode() for i in range(1, 301))


FOLLOW = """
import hashlib, resource, sys
from pathlib import Path
from support.places import PLACES
client = PLACES[sys.argv[1]](Path(sys.argv[2])).client()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
digest, size = hashlib.sha256(), 0
for data in client.follow_logs(sys.argv[3]):
    digest.update(data); size += len(data)
print(size, digest.hexdigest(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_log_of_150_mb_is_followed_whole_in_16_mb_of_memory(
    client: Client, place: Place, tmp_path: Path
) -> None:
    if place.rotates_logs:
        pytest.skip(f"{place.platform} removes the beginning of a long log before it is read")
    line, lines = "x" * 499, 300_000
    if place.text_logs:
        lines //= 5  # they come as JSON, page by page
    job = run(client, place, f"yes {line} | head -n {lines}", time_limit=None)
    argv = [sys.executable, "-c", FOLLOW, place.platform, str(tmp_path), job]
    env = {**place.environ(), "PYTHONPATH": str(TESTS)}
    answer = subprocess.run(argv, capture_output=True, text=True, env=env, cwd=tmp_path, check=True)
    size, digest, grown_kb = answer.stdout.split()
    assert int(size) == 500 * lines
    assert digest == hashlib.sha256(f"{line}\n".encode() * lines).hexdigest()
    assert int(grown_kb) <= 16 * 1024


def test_a_follower_that_dies_disturbs_nobody(client: Client, place: Place, tmp_path: Path) -> None:
    job = run(client, place, "for i in $(seq 1 20); do echo $i; sleep 0.05; done")
    argv = [sys.executable, "-c", FOLLOW, place.platform, str(tmp_path), job]
    env = {**place.environ(), "PYTHONPATH": str(TESTS)}
    follower = subprocess.Popen(argv, env=env, cwd=tmp_path, stdout=subprocess.DEVNULL)
    time.sleep(0.4)
    follower.kill()
    follower.wait()
    assert b"".join(client.follow_logs(job)) == b"".join(f"{i}\n".encode() for i in range(1, 21))
    assert client.wait(job, timeout=300).status == "Complete"
