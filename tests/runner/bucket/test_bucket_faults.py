"""A store or a line that fails, keys that end, a disk that is full: results come all the same, or
it is told.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import threading
import time

import pytest

from support.bucket_jobs import finish, let_go, opened, run, start, waits, write
from support.servers import link_here, s3_here
from support.servers.endpoint_here import Endpoint, Keys, called


def test_a_name_that_no_bucket_takes_costs_only_its_file(jobs, store):
    ran = run(jobs, store, "echo 1 > $'caf\\xe9.txt'; echo 2 > $'caf\\xc3\\xa9 +%41\\n.txt'")
    assert (ran.code, ran.stages[-1], ran.warnings) == (0, "done", ["output.left_out"]), ran.raw
    assert store.read("results/job-1/results_dir/café +%41\n.txt") == b"2\n"


def test_a_server_that_was_away_for_a_while_costs_nothing(jobs, line):
    line.link.faults(busy_seconds=3)
    ran = run(jobs, line, "echo 1 > x")
    assert (ran.code, ran.warnings) == (0, []), ran.raw
    assert line.read("results/job-1/results_dir/x") == b"1\n"


def test_connections_that_break_and_bodies_that_are_cut_cost_nothing(jobs, line):
    line.link.faults(
        busy=5, cut_upload=4, cut_at=1000, methods="PUT", last=10
    )  # no body can be cut three times
    ran = run(jobs, line, "for i in 1 2 3 4 5 6 7 8; do head -c 100000 /dev/urandom > $i.pth; done")
    assert (ran.code, ran.warnings) == (0, []), ran.raw
    for n in range(1, 9):
        name = f"results_dir/{n}.pth"
        assert line.read(f"results/job-1/{name}") == (jobs.results / name).read_bytes()


def test_a_server_that_stays_away_makes_the_job_an_error_that_says_where_the_files_still_are(
    jobs, line
):
    job = start(
        jobs,
        line,
        f"echo 1 > x; {waits(jobs)}",
        {"TAO_SYNC_SECONDS": "100", "TAO_RETRY_SECONDS": "1"},
    )
    job.until(b"ready")
    line.link.process.kill()
    let_go(jobs)
    ran = job.ended()
    assert ran.code == 125
    assert ran.failure["code"] == "output.lost"
    assert f"s3://{line.name}/results/job-1" in ran.failure["what"]
    assert str(jobs.results) in ran.failure["next"]
    assert (jobs.results / "results_dir" / "x").read_text() == "1\n"
    assert ran.named("ended")[0].facts["exit_code"] == 0


def test_a_store_that_stays_busy_is_waited_for_once_and_not_for_each_file(jobs, line):
    job = start(jobs, line, waits(jobs), {"TAO_SYNC_SECONDS": "100", "TAO_RETRY_SECONDS": "2"})
    job.until(b"ready")
    for number in range(200):
        (jobs.results / "results_dir" / f"{number:03}.pth").write_text("x")
    line.link.faults(busy=1)
    let_go(jobs)
    ran = job.ended()
    assert (ran.code, ran.failure["code"]) == (125, "output.lost"), ran.raw
    lost = int(ran.failure["what"].split()[0])
    assert lost > 200 and "results_dir/000.pth" in ran.failure["why"]
    assert line.link.counts["503"] < lost  # most were not even tried: the store had its time


def test_a_store_that_falls_silent_is_waited_for_once_and_not_at_each_step_of_the_end(
    jobs, line, monkeypatch
):
    bucket = opened(jobs, line, url=line.link.url)
    for number in range(40):
        write(bucket, f"{number}.pth", "x")
    line.link.process.kill()
    line.link.process.wait()
    monkeypatch.setattr("tao_sdk.net.wire.SILENCE", 0.5)
    asked = []
    with socket.create_server(("127.0.0.1", line.link.port)) as silent:

        def keep():
            with contextlib.suppress(OSError):
                while True:
                    asked.append(silent.accept())

        threading.Thread(target=keep, daemon=True).start()
        finish(bucket)
    assert bucket.failure and bucket.failure.what.startswith("40 of 40 files")
    assert (
        len(asked) < 17
        # it was the first step that had its time: later ones would have asked for as many files at
        # once
    )


def test_a_failing_commands_exit_code_is_kept_when_its_results_cannot_be(jobs, line):
    job = start(
        jobs, line, f"{waits(jobs)}; exit 3", {"TAO_SYNC_SECONDS": "100", "TAO_RETRY_SECONDS": "1"}
    )
    job.until(b"ready")
    line.link.process.kill()
    let_go(jobs)
    assert job.ended().code == 3


def test_a_server_that_is_restarted_while_the_job_runs_costs_nothing(jobs, line, eventually):
    job = start(jobs, line, "for i in $(seq 40); do echo $i > $i.pth; echo $i; sleep 0.05; done")
    eventually(line.listed)
    address = line.link.address
    line.link.process.kill()
    time.sleep(1)
    with link_here.Link(line.server.address, listen=address):
        ran = job.ended()
    assert (ran.code, [code for code in ran.warnings if code != "output.left_out"]) == (0, [])
    assert {f"results_dir/{n}.pth" for n in range(1, 41)} <= set(line.listed())


def test_a_file_that_is_written_anew_while_it_is_sent_never_appears_mixed(
    jobs, line, tmp_path, eventually
):
    """It stood still when its turn came. When its last part is about to go, all of the file is
    written anew. It comes whole into the folder, so that no empty one is sent before it.
    """
    path = jobs.results / "results_dir" / "x.pth"

    def write_anew() -> None:
        (tmp_path / "go").write_text("")
        eventually((tmp_path / "written").exists)

    fill = "python3 -c 'import sys; sys.stdout.buffer.write(sys.argv[1].encode() * 24000000)'"
    with called(write_anew) as hook:
        job = start(
            jobs,
            line,
            f"{fill} a > {tmp_path}/x.pth; touch -d '1 hour ago' {tmp_path}/x.pth; mv {tmp_path}/x.pth .; echo ready; "
            f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; "
            f"{fill} b | dd of=x.pth conv=notrunc status=none; touch {tmp_path}/written; "
            f"while [ ! -e {tmp_path}/stop ]; do sleep 0.01; done",
            {"TAO_SYNC_SECONDS": "0.2"},
        )
        job.until(b"ready")
        line.link.faults(hook=hook.url, hook_at=1, methods="PUT", match="partNumber=3")
        key = "results/job-1/results_dir/x.pth"
        eventually(lambda: key in line.keys)
        seen = set(line.read(key))
        (tmp_path / "stop").write_text("")
        assert job.ended().code == 0
    assert seen == set(line.read(key)) == set(path.read_bytes()) == {ord("b")}


def test_keys_that_end_while_the_job_runs_are_renewed(jobs, minio):
    """A real endpoint as containers have it gives keys for seconds; it is asked again, and what it
    gives then is used.
    """
    keys = {"AccessKeyId": s3_here.ACCESS, "SecretAccessKey": s3_here.SECRET}

    def reply(*_):
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3))
        return 200, json.dumps({**keys, "Expiration": ends})

    with Endpoint(reply) as endpoint:
        env = {
            "AWS_ACCESS_KEY_ID": "",
            "AWS_SECRET_ACCESS_KEY": "",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": endpoint.url,
        }
        ran = start(
            jobs, minio, "for i in 1 2 3 4 5 6; do echo $i > $i.pth; sleep 0.5; done", env
        ).ended()
    assert ran.code == 0, ran.raw
    assert len(endpoint.asked) > 1
    assert {f"results_dir/{n}.pth" for n in range(1, 7)} <= set(minio.listed())


LARGE = "head -c 60000000 /dev/urandom > large.pth; for i in 1 2 3 4; do echo $i > $i.pth; done"


REFUSALS = [
    (403, "ExpiredToken"),
    (400, "ExpiredToken"),
    (403, "InvalidAccessKeyId"),
]  # AWS, AWS, versitygw


@pytest.mark.parametrize(("status", "code"), REFUSALS)
def test_keys_that_the_store_refuses_in_mid_upload_are_renewed(jobs, minio_line, status, code):
    with Keys(minio_line.server) as keys:
        job = start(
            jobs, minio_line, f"echo ready; {LARGE}", {**keys.environ, "TAO_SYNC_SECONDS": "100"}
        )
        job.until(b"ready")
        expired = {
            "expired": keys.given[0]["AccessKeyId"],
            "expired_status": status,
            "expired_code": code,
        }
        minio_line.link.faults(methods="PUT POST", match="large.pth", expired_at=4, **expired)
        ran = job.ended()
        counts = minio_line.link.counts
    assert (ran.code, len(keys.given)) == (0, 2), ran.raw
    assert counts[str(status)] >= 1  # it was refused, and the rest went on with the others
    name = "results_dir/large.pth"
    assert minio_line.read(f"results/job-1/{name}") == (jobs.results / name).read_bytes()
    assert minio_line.manifest()["whole"] is True


def test_without_newer_keys_the_job_says_in_mid_upload_that_they_expired_and_where_the_files_are(
    jobs, minio_line
):
    with Keys(minio_line.server, last=1) as keys:
        job = start(
            jobs, minio_line, f"echo ready; {LARGE}", {**keys.environ, "TAO_SYNC_SECONDS": "100"}
        )
        job.until(b"ready")
        minio_line.link.faults(
            methods="PUT POST",
            match="large.pth",
            expired_at=4,
            expired=keys.given[0]["AccessKeyId"],
        )
        ran = job.ended()
    assert (ran.code, ran.failure["code"]) == (125, "output.lost")
    assert "have expired" in ran.failure["why"] and str(jobs.results) in ran.failure["next"]
    assert {f"results_dir/{n}.pth" for n in (1, 2, 3, 4)} <= set(minio_line.listed())
    assert keys.given[0]["SecretAccessKey"].encode() not in ran.raw


@pytest.mark.parametrize("newer", [True, False])
def test_keys_that_expire_in_mid_download_are_renewed_or_told(jobs, minio_line, tmp_path, newer):
    data = os.urandom(
        160_000_000
    )  # more parts than are asked for at once: some are asked for after the end of the keys
    minio_line.server.s3().put(minio_line.name, "data/large", data)
    with Keys(minio_line.server, last=2 if newer else 1) as keys:
        minio_line.link.faults()
        key = "AccessKeyId"

        def expire():
            minio_line.link.faults(methods="GET", match="data/large", expired=keys.given[0][key])

        with called(expire) as hook:
            minio_line.link.faults(methods="GET", match="data/large", hook=hook.url, hook_at=3)
            ran = jobs.run(
                f"sha256sum {tmp_path}/in",
                inputs={f"{tmp_path}/in": f"s3://{minio_line.name}/data/large"},
                env={
                    **minio_line.env,
                    **keys.environ,
                    "S3_BUCKET_NAME": "",
                    "TAO_RESULTS_ROOT": str(jobs.root),
                },
            )
    if newer:
        assert (ran.code, len(keys.given)) == (0, 2), ran.raw
        assert ran.out.split()[0].decode() == hashlib.sha256(data).hexdigest()
    else:
        assert (ran.code, ran.failure["code"]) == (125, "s3.expired")
        assert ran.out == b""


def test_a_store_that_slows_down_in_mid_upload_is_waited_for(jobs, line):
    """Each connection gets less and less: what comes takes long, and nothing is given up or sent
    twice.
    """
    job = start(jobs, line, f"echo ready; {LARGE}", {"TAO_SYNC_SECONDS": "100"})
    job.until(b"ready")
    line.link.faults(methods="PUT", upload_rate=1_500_000)
    ran = job.ended()
    counts = line.link.counts
    assert (ran.code, ran.warnings) == (0, []), ran.raw
    name = "results_dir/large.pth"
    assert line.read(f"results/job-1/{name}") == (jobs.results / name).read_bytes()
    assert counts["PUT"] <= 8 + 4 + 4  # parts, small files, log and manifests


def test_a_store_that_answers_slow_down_for_a_full_minute_costs_nothing(jobs, line, tmp_path):
    """The one test that takes that minute: the store is busy from the job's first request on."""
    data = os.urandom(20_000_000)
    line.server.s3().put(line.name, "data/large", data)
    line.link.faults(busy_seconds=60)
    ran = jobs.run(
        f"cp {tmp_path}/in {tmp_path}/out.pth",
        inputs={f"{tmp_path}/in": f"s3://{line.name}/data/large"},
        outputs=[f"{tmp_path}/out.pth"],
        env={**line.env, "TAO_RETRY_SECONDS": ""},  # as it is where nobody sets it
        timeout=300,
    )
    assert (ran.code, ran.warnings) == (0, []), ran.raw
    assert line.link.counts["503"] > 5
    assert line.read("results/job-1/out.pth") == data


def test_a_full_disk_under_the_results_costs_only_what_did_not_fit(jobs, minio, request):
    small = jobs.folder / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)],
        capture_output=True,
        check=False,
    ).returncode:
        pytest.skip("needs the right to mount")
    request.addfinalizer(lambda: subprocess.run(["umount", "-l", str(small)], check=False))
    ran = run(
        jobs,
        minio,
        "echo 1 > epoch_1.pth; head -c 9000000 /dev/zero > epoch_2.pth; "
        "echo failed to write >&2; exit 1",
        {"TAO_LOCAL_ROOT": str(small)},
    )
    assert (ran.code, ran.named("failed")) == (1, []), ran.raw
    assert minio.read("results/job-1/results_dir/epoch_1.pth") == b"1\n"
    assert minio.manifest()["whole"] is True
    assert minio.listed()["results_dir/epoch_2.pth"]["sha256"] is None
