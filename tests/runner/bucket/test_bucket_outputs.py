"""Results in a bucket: what is sent there while the command runs and at every end,
by real servers.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from support.bucket_jobs import let_go, newest, run, start, uploads, waits, wanted
from support.servers.endpoint_here import called
from support.servers.ports import free_port
from tao_sdk.runner.outputs.bucket import Bucket
from tao_sdk.runner.outputs.remote import Remote
from tao_sdk.runner.outputs.sending import Item, Sending
from tao_sdk.runner.results_folder import ResultsFolder
from tao_sdk.script_runner import build_entrypoint


def test_results_go_below_results_and_the_job_id_with_the_manifest_beside_them(jobs, store):
    ran = run(jobs, store, "mkdir train; echo 1 > train/epoch_1.pth; : > empty; echo said")
    assert (ran.code, ran.stages[-1]) == (0, "done"), ran.raw
    names = {
        ".tao/job.log",
        ".tao/manifest.json",
        "results_dir/empty",
        "results_dir/train/epoch_1.pth",
        "spec.json",
    }
    assert store.keys == {f"results/job-1/{name}" for name in names}
    assert store.read("results/job-1/.tao/job.log") == b"said\n"
    manifest = store.manifest()
    assert (manifest["job"], manifest["attempt"], manifest["whole"], manifest["exit_code"]) == (
        "job-1",
        1,
        True,
        0,
    )
    assert (
        store.listed()["results_dir/train/epoch_1.pth"]["sha256"]
        == hashlib.sha256(b"1\n").hexdigest()
    )


@pytest.mark.parametrize("given", [{}, {"bucket": False}])
def test_a_bucket_that_only_the_jobs_environment_names_gets_the_results(
    jobs, minio, monkeypatch, given
):
    monkeypatch.delenv("S3_BUCKET_NAME", raising=False)
    arguments = {
        "specs": {"results_dir": ""},
        "outputs": ["results_dir"],
        "config_format": "json",
        **given,
    }
    text = build_entrypoint(command="echo 1 > $TAO_RESULTS_DIR/results_dir/model.pth", **arguments)[
        "command"
    ]
    at, access, secret = (
        minio.env.pop(f"AWS_{name}")
        for name in ("ENDPOINT_URL", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
    )
    ran = jobs.run_text(
        text, env={**minio.env, "S3_ENDPOINT_URL": at, "ACCESS_KEY": access, "SECRET_KEY": secret}
    )
    assert (ran.code, ran.stages[-1]) == (0, "done"), ran.raw
    assert minio.read("results/job-1/results_dir/model.pth") == b"1\n"


def test_an_output_that_names_an_address_is_that_prefix_itself(jobs, store):
    ran = jobs.run(
        "cat {config_path}; cd $TAO_RESULTS_DIR/results_dir; echo 1 > x; echo 2 > "
        "$TAO_RESULTS_DIR/model/best.onnx",
        specs={
            "results_dir": f"s3://{store.name}/my/own/",
            "model": f"s3://{store.name}/models/best.onnx",
        },
        outputs={"results_dir": {"type": "folder"}, "model": {"type": "file"}},
        config_format="json",
        env={**store.env, "S3_BUCKET_NAME": ""},
    )
    assert ran.code == 0, ran.raw
    assert json.loads(ran.out)["results_dir"] == str(jobs.results / "results_dir")
    assert {"my/own/x", "my/own/.tao/manifest.json", "models/best.onnx"} <= store.keys
    assert not any(key.startswith("results/") for key in store.keys)
    assert "output.ephemeral" not in ran.warnings


def test_results_are_sent_although_those_that_stay_in_a_folder_cannot_be_kept(jobs, minio):
    ran = jobs.run(
        "echo 1 > $TAO_RESULTS_DIR/a/x; echo 2 > $TAO_RESULTS_DIR/b/x; mkdir "
        "$TAO_RESULTS_DIR/.tao/manifest.json",
        specs={"a": "", "b": f"s3://{minio.name}/mine"},
        outputs=["a", "b"],
        env={**minio.env, "TAO_RESULTS_ROOT": str(jobs.root)},
    )
    assert (ran.code, ran.failure["code"]) == (125, "output.lost"), ran.raw
    assert "manifest" in ran.failure["what"]
    assert minio.read("mine/x") == b"2\n"
    assert minio.manifest("mine")["whole"] is True


def test_a_root_may_be_a_prefix_in_a_bucket(jobs, store):
    root = f"s3://{store.name}/team/runs/"
    assert (
        run(jobs, store, "echo 1 > x", {"TAO_RESULTS_ROOT": root, "S3_BUCKET_NAME": "another"}).code
        == 0
    )
    assert "team/runs/job-1/results_dir/x" in store.keys


def test_paths_of_a_passthrough_job_go_below_their_last_names(jobs, store, tmp_path):
    out = tmp_path / "c" / "out"
    ran = jobs.run(
        f"mkdir -p {out}/deep; echo 1 > {out}/deep/x; echo m > {tmp_path}/model.onnx",
        outputs=[f"{out}/", f"{tmp_path}/model.onnx", f"{tmp_path}/never"],
        env=store.env,
    )
    assert (ran.code, ran.warnings) == (0, ["output.missing"]), ran.raw
    assert store.read("results/job-1/out/deep/x") == b"1\n"
    assert set(store.listed()) == {"out/deep/x", "model.onnx"}


def test_the_folder_that_results_lie_in_is_an_output_but_for_the_folders_of_jobs(jobs, store):
    (jobs.root / "other-abc1234567").mkdir(parents=True)
    (jobs.root / "other-abc1234567" / "theirs").write_text("theirs")
    ran = jobs.run(
        f"echo 1 > {jobs.root}/model.pth; mkdir {jobs.root}/train; echo 2 > "
        f"{jobs.root}/train/x; echo 3 > $TAO_RESULTS_DIR/y",
        outputs=[f"{jobs.root}/"],
        bucket=True,
        env=store.env,
    )
    assert (ran.code, ran.warnings) == (0, []), ran.raw
    assert set(store.listed()) == {"results/model.pth", "results/train/x", "y"}


def test_a_path_that_is_a_pipe_is_told_and_not_waited_for(jobs, minio, tmp_path):
    ran = jobs.run(f"mkfifo {tmp_path}/pipe", outputs=[f"{tmp_path}/pipe"], env=minio.env)
    assert (ran.code, ran.warnings) == (0, ["output.left_out"]), ran.raw
    assert ran.named("warning")[0].facts["paths"] == [f"{tmp_path}/pipe: not a file"]


def test_a_relative_path_is_what_the_command_sees_there_and_is_sent_once(
    jobs, store, tmp_path, monkeypatch
):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "earlier").write_text("of another run")
    monkeypatch.chdir(tmp_path)
    given = {"files": {"x.txt": "new"}, "outputs": ["out", "never"], "env": store.env}
    ran = jobs.run("mkdir out; cp x.txt out/", **given)
    assert (ran.code, ran.warnings) == (0, ["output.missing"]), ran.raw
    assert store.read("results/job-1/out/x.txt") == b"new"
    assert set(store.listed()) == {"work/x.txt", "out/x.txt"}


def test_a_root_that_is_a_folder_wins_over_the_bucket(jobs, store):
    assert run(jobs, store, "echo 1 > x", {"TAO_RESULTS_ROOT": str(jobs.root)}).code == 0
    assert store.keys == set()


@pytest.mark.parametrize("ending", ["exit 3", "kill -KILL $$", "kill -TERM $PPID; sleep 100"])
def test_results_are_sent_however_the_command_ends(jobs, minio, ending):
    ran = run(
        jobs,
        minio,
        f"echo 50 > epoch_50.pth; echo more > x; touch -d '1 hour ago' epoch_50.pth; {ending}",
    )
    assert minio.read("results/job-1/results_dir/epoch_50.pth") == b"50\n"
    assert minio.read("results/job-1/results_dir/x") == b"more\n"
    manifest = minio.manifest()
    assert manifest["whole"] is True
    assert manifest["exit_code"] == ran.code != 0
    assert minio.listed()["results_dir/epoch_50.pth"]["sha256"]
    assert minio.listed()["results_dir/x"]["sha256"] is None  # it may have been cut off


def test_outputs_are_sent_as_they_grow_and_a_file_in_motion_never_appears(
    jobs, minio, tmp_path, eventually
):
    job = start(
        jobs,
        minio,
        f"echo whole > still.pth; while [ ! -e {tmp_path}/stop ]; do "
        "echo line >> status.json; echo line >> moving.pth; echo said; sleep 0.01; done",
    )
    below = "results/job-1/results_dir"
    eventually(
        lambda: (
            {f"{below}/still.pth", f"{below}/status.json", "results/job-1/.tao/job.log"}
            <= minio.keys
        )
    )
    first = minio.read(f"{below}/status.json")
    eventually(lambda: len(minio.read(f"{below}/status.json")) > len(first))
    assert minio.read(f"{below}/status.json").startswith(first)
    eventually(lambda: minio.listed().get("results_dir/still.pth", {}).get("sha256"))
    manifest = minio.manifest()
    assert (manifest["whole"], manifest["exit_code"]) == (False, None)
    assert f"{below}/moving.pth" not in minio.keys
    (tmp_path / "stop").write_text("")
    assert job.ended().code == 0
    for name in ("status.json", "moving.pth", "still.pth"):
        assert minio.read(f"{below}/{name}") == (jobs.results / "results_dir" / name).read_bytes()
    assert minio.manifest()["whole"] is True


def test_the_log_goes_before_a_file_that_was_on_its_way_when_the_command_ended(
    jobs, line, eventually
):
    large = "head -c 24000000 /dev/urandom > large.pth"
    job = start(jobs, line, f"{large}; {waits(jobs)}; echo last; echo '{{}}' > status.json")
    line.link.faults(upload_rate=1_500_000, methods="PUT", match="large.pth")
    job.until(b"ready")
    eventually(lambda: line.link.counts.get("PUT") and "results/job-1/spec.json" in line.keys)
    let_go(jobs)
    manifest = eventually(
        lambda: line.manifest() if line.manifest().get("exit_code") == 0 else None
    )
    assert (manifest["whole"], manifest["unsent"], manifest["unsent_files"]) == (
        False,
        ["results_dir/large.pth"],
        1,
    )
    assert line.read("results/job-1/.tao/job.log").endswith(b"last\n")
    assert "results/job-1/results_dir/status.json" in line.keys
    assert "results/job-1/results_dir/large.pth" not in line.keys
    line.link.faults()
    assert job.ended().code == 0
    assert "results/job-1/results_dir/large.pth" in line.keys
    assert "unsent" not in line.manifest()


@pytest.mark.parametrize("store_is", ["slow", "silent", "gone"])
def test_a_job_that_is_told_to_end_is_gone_with_its_grace_whatever_the_store_does(
    jobs, line, eventually, store_is
):
    grace = 3
    command = "head -c 24000000 /dev/urandom > large.pth; echo ready; sleep 100"
    line.link.faults(upload_rate=20_000, methods="PUT", match="large.pth")
    job = start(jobs, line, command, {"TAO_GRACE": str(grace)})
    job.until(b"ready")
    eventually(lambda: line.link.counts.get("PUT") and "results/job-1/spec.json" in line.keys)
    if store_is != "slow":
        line.link.process.send_signal(signal.SIGSTOP if store_is == "silent" else signal.SIGKILL)
    told = time.monotonic()
    job.process.send_signal(signal.SIGTERM)
    ran = job.ended()
    assert time.monotonic() - told < grace + 2
    assert ran.code == 128 + signal.SIGTERM
    assert ran.failure["code"] == "output.lost"
    assert "results_dir/large.pth" in ran.failure["why"]
    if store_is == "slow":
        assert line.manifest()["unsent"] == ["results_dir/large.pth"]
        assert uploads(line) == []


def test_what_must_be_known_goes_before_what_takes_its_time(jobs, line):
    sizes = "head -c 30000000 /dev/urandom > large.pth; echo '{}' > status.json"
    job = start(jobs, line, f"{sizes}; echo ready; sleep 60", {"TAO_SYNC_SECONDS": "100"})
    job.until(b"ready")
    line.link.faults(latency_ms=300, methods="PUT POST", match="large.pth")
    job.process.send_signal(signal.SIGTERM)
    job.ended()
    manifest, log, status, large = (
        newest(line, name)
        for name in (
            ".tao/manifest.json",
            ".tao/job.log",
            "results_dir/status.json",
            "results_dir/large.pth",
        )
    )
    assert max(log, status) <= large <= manifest
    assert line.manifest()["whole"] is True


def test_a_large_log_is_sent_again_when_it_has_grown_by_an_eighth_or_is_another_and_not_at_every_look(
    minio,
):
    bucket = Bucket(Remote(minio.server.s3(), "s3://b"), [], ResultsFolder({}, "j"), [])
    bucket.sent_shapes["x.log"] = (16 << 20, 1.0)
    due = {
        size: bucket.is_due(Item("x.log", "x.log", (size << 20, 2.0), urgent=True))
        for size in (1, 16, 17, 18, 40)
    }
    assert due == {1: True, 16: False, 17: False, 18: True, 40: True}


def test_excluded_prefixes_are_not_sent(jobs, minio):
    ran = run(
        jobs,
        minio,
        "mkdir -p ../inputs ../inputs2; echo 1 > ../inputs/x; echo 2 > ../inputs2/y",
        upload_excludes=["inputs/"],
    )
    assert ran.code == 0
    assert set(minio.listed()) == {"inputs2/y", "spec.json"}
    assert "results/job-1/inputs/x" not in minio.keys


READ = ("s3:GetObject", "s3:ListBucket")


WRITE = ("s3:PutObject", "s3:AbortMultipartUpload", "s3:ListBucketMultipartUploads")


def test_a_job_without_the_right_to_write_ends_before_the_command_and_leaves_nothing(jobs, minio):
    ran = run(jobs, minio, "echo never", minio.lets_anybody(*READ))
    assert (ran.code, ran.out) == (125, b"")
    assert ran.failure["code"] == "s3.no_credentials"
    assert minio.keys == set()
    assert run(jobs, minio, "echo now", minio.lets_anybody(*READ, *WRITE)).code == 0


def test_a_right_that_is_lost_on_the_way_makes_the_job_an_error_that_says_where_the_files_still_are(
    jobs, minio
):
    anybody = minio.lets_anybody(*READ, *WRITE)
    job = start(jobs, minio, f"echo 1 > x; {waits(jobs)}", {"TAO_SYNC_SECONDS": "100", **anybody})
    job.until(b"ready")
    minio.lets_anybody(*READ)
    let_go(jobs)
    ran = job.ended()
    assert (ran.code, ran.failure["code"]) == (125, "output.lost")
    assert "AccessDenied" in ran.failure["why"]
    assert str(jobs.results) in ran.failure["next"]


def test_a_bucket_that_does_not_exist_ends_the_job_before_the_command_and_is_never_made(
    jobs, store
):
    ran = run(jobs, store, "echo never", {"S3_BUCKET_NAME": "no-such-bucket"})
    assert (ran.code, ran.out) == (125, b"")
    assert ran.failure["code"] == "s3.no_bucket"
    assert "s3://no-such-bucket/results/job-1/" in ran.failure["what"]
    assert store.server.s3().ask("HEAD", "no-such-bucket", "").status == 404


def test_a_store_that_does_not_answer_is_told_of_while_it_is_waited_for(jobs, store):
    away = f"127.0.0.1:{free_port()}"
    ran = run(
        jobs, store, "echo never", {"AWS_ENDPOINT_URL": f"http://{away}", "TAO_RETRY_SECONDS": "3"}
    )
    assert [each.facts["host"] for each in ran.named("waiting")] == [away]
    assert [each.name for each in ran.events][-1] == "failed"


def test_looking_whether_a_bucket_takes_results_leaves_nothing_behind(jobs, store):
    ran = jobs.run(
        "false", specs={"x": "/nowhere"}, inputs=["x"], outputs=["results_dir"], env=store.env
    )
    assert ran.failure["code"] == "input.missing"
    assert store.keys == set()
    assert "<Upload>" not in store.server.s3().ask("GET", store.name, "", {"uploads": ""}).text


def test_uploads_that_a_killed_runner_left_are_swept_by_the_next_attempt_and_those_of_others_are_not(
    jobs, line
):
    for job in ("job-1", "job-2"):
        line.server.s3().ask(
            "POST", line.name, f"results/{job}/results_dir/large.pth", {"uploads": ""}
        )
    assert run(jobs, line, "true", {"TAO_ATTEMPT": "2"}).code == 0
    begun = line.server.s3().ask("GET", line.name, "", {"uploads": ""}).text
    assert ("results/job-1/" in begun, "results/job-2/" in begun) == (False, True)


def test_a_command_that_takes_all_its_grace_leaves_time_to_send_its_results(jobs, minio):
    """The runner is killed when the grace is over, so the command is killed before."""
    job = start(
        jobs,
        minio,
        "trap '' TERM; echo 1 > x; echo ready; while :; do sleep 0.05; done",
        {"TAO_GRACE": "3"},
    )
    job.until(b"ready")
    told = time.time()
    job.process.send_signal(signal.SIGTERM)
    ran = job.ended()
    assert ran.code == 137
    assert ran.named("ended")[0].time - told < 3
    assert minio.read("results/job-1/results_dir/x") == b"1\n"


def test_links_are_sent_as_what_they_lead_to_and_once(jobs, minio):
    ran = run(
        jobs,
        minio,
        "echo 1 > epoch_1.pth; ln -s epoch_1.pth latest.pth; mkdir d; echo 2 > d/x; ln -s .. d/up",
    )
    assert ran.code == 0
    assert set(minio.listed()) == {
        "results_dir/epoch_1.pth",
        "results_dir/latest.pth",
        "results_dir/d/x",
        "spec.json",
    }


def test_a_link_to_a_folder_that_holds_the_results_is_not_sent_and_is_told(jobs, minio):
    (jobs.root / "another-job").mkdir(parents=True)
    (jobs.root / "another-job" / "theirs").write_text("1")
    ran = run(jobs, minio, "echo 1 > x; ln -s / all; ln -s ../.. jobs", timeout=300)
    assert ran.code == 0 and set(minio.listed()) == {"results_dir/x", "spec.json"}
    left_out = ran.named("warning")[0].facts["paths"]
    assert {each.split(":")[0] for each in left_out} == {"results_dir/all", "results_dir/jobs"}


def test_what_cannot_be_kept_costs_only_itself_and_is_told(jobs, minio):
    code = "import socket; socket.socket(socket.AF_UNIX).bind('sock')"
    ran = run(
        jobs,
        minio,
        f'echo 1 > good; ln -s /nowhere broken; mkfifo pipe; python3 -c "{code}"; exit 4',
    )
    assert ran.code == 4
    assert set(minio.listed()) == {"results_dir/good", "spec.json"}
    assert ran.warnings == ["output.left_out"]
    assert [each.split(":")[0] for each in ran.named("warning")[0].facts["paths"]] == [
        "results_dir/broken", "results_dir/pipe", "results_dir/sock",
    ]  # fmt: skip


def test_two_outputs_of_one_name_cost_only_the_second(jobs, minio):
    shared = f"s3://{minio.name}/same"
    ran = jobs.run(
        "echo 1 > $TAO_RESULTS_DIR/a/x; echo 2 > $TAO_RESULTS_DIR/b/x; echo 3 > "
        "$TAO_RESULTS_DIR/b/y",
        specs={"a": shared, "b": shared},
        outputs=["a", "b"],
        env=minio.env,
    )
    assert (ran.code, ran.warnings) == (0, ["output.left_out"]), ran.raw
    assert (minio.read("same/x"), minio.read("same/y")) == (b"1\n", b"3\n")


def test_names_of_any_characters_survive(jobs, store):
    names = ["ü 'q' \"x\"", "a+b%20c", "日本", "a b;c&d=e?f#g", "tab\there"]
    for name in names:
        (jobs.folder / "made").mkdir(exist_ok=True)
        (jobs.folder / "made" / name).write_text(name)
    ran = run(jobs, store, f"cp -r {jobs.folder}/made/. .")
    assert ran.code == 0, ran.raw
    for name in names:
        assert store.read(f"results/job-1/results_dir/{name}").decode() == name


DEEP = 'python3 -c \'import os\nfor _ in range(2500): os.mkdir("d"); os.chdir("d")\''


def test_a_file_that_cannot_be_read_and_folders_without_an_end_cost_only_themselves(
    jobs, minio, request
):
    """/proc/self/mem is a file by its looks, and reading it fails as a broken disk does."""
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", jobs.root], check=False))
    ran = run(jobs, minio, f"echo 1 > good.pth; ln -s /proc/self/mem broken.pth; {DEEP}; exit 4")
    assert (ran.code, set(minio.listed())) == (4, {"results_dir/good.pth", "spec.json"}), ran.raw
    told = " ".join(ran.named("warning")[0].facts["paths"])
    assert "broken.pth: Input/output error" in told and "File name too long" in told


def test_a_file_that_turns_into_a_folder_while_its_turn_comes_is_sent_as_one(
    jobs, line, tmp_path, eventually
):
    turned = f"{tmp_path}/turned"

    def turn() -> None:
        (jobs.results / "results_dir" / "b.pth").unlink()
        (jobs.results / "results_dir" / "b.pth").mkdir()
        (jobs.results / "results_dir" / "b.pth" / "x").write_text("inside")
        Path(turned).write_text("")

    with called(turn) as hook:
        command = (
            "echo 1 > a.pth; head -c 9000000 /dev/zero > b.pth; echo ready; while [ ! -e "
            f"{turned} ]; do sleep 0.05; done"
        )
        job = start(jobs, line, command, {"TAO_SYNC_SECONDS": "0.2"})
        job.until(b"ready")
        line.link.faults(hook=hook.url, hook_at=1, methods="PUT", match="a.pth")
        ran = job.ended()
    assert ran.code == 0, ran.raw
    assert line.read("results/job-1/results_dir/b.pth/x") == b"inside"
    assert line.manifest()["whole"] is True


def test_files_that_vanish_or_move_while_they_are_sent_at_the_end_cost_only_themselves(
    jobs, line, tmp_path
):
    """A daemon that has left the command's group may write on."""
    folder = jobs.results / "results_dir"

    def meddle() -> None:
        (folder / "gone.pth").unlink()
        (folder / "moves.pth").write_text("and on")

    with called(meddle) as hook:
        made = "for name in gone moves stays; do echo 1 > $name.pth; done; echo ready"
        job = start(
            jobs,
            line,
            f"{made}; until [ -e {tmp_path}/go ]; do sleep 0.05; done",
            {"TAO_SYNC_SECONDS": "100"},
        )
        job.until(b"ready")
        line.link.faults(hook=hook.url, hook_at=1, methods="PUT", match="job.log")
        (tmp_path / "go").write_text("")
        ran = job.ended()
    assert (ran.code, ran.warnings) == (0, ["output.left_out"]), ran.raw
    assert ["moves.pth" in each for each in ran.named("warning")[0].facts["paths"]] == [True]
    assert set(line.listed()) == {"results_dir/stays.pth", "spec.json"}
    assert line.manifest()["whole"] is True


def test_files_are_sent_side_by_side(jobs, line, eventually):
    """The first of them is held up until the other has arrived."""
    arrived = []

    def wait_for_the_other() -> None:
        arrived.append(eventually(lambda: "results/job-1/results_dir/2.pth" in line.keys))

    with called(wait_for_the_other) as hook:
        job = start(
            jobs,
            line,
            f"echo 1 > 1.pth; echo 22 > 2.pth; {waits(jobs)}",
            {"TAO_SYNC_SECONDS": "100"},
        )
        job.until(b"ready")
        line.link.faults(hook=hook.url, hook_at=1, methods="PUT", match="/1.pth")
        let_go(jobs)
        ran = job.ended()
    assert (ran.code, arrived) == (0, [True]), ran.raw


def test_a_container_that_gives_few_threads_sends_all_the_same(jobs, minio):
    """Each thread wants room for its stack: with little address space only a few can be started."""
    command = (
        "for i in $(seq 60); do echo $i > $i.pth; done; head -c 40000000 /dev/urandom > large.pth"
    )
    text = build_entrypoint(command=f"cd $TAO_RESULTS_DIR/results_dir; {command}", **wanted({}))[
        "command"
    ]
    little = ("/bin/sh", "-c", 'ulimit -v 300000; exec /bin/bash -c "$1"', "sh")
    ran = jobs.run_text(text, shell=little, env=minio.env)
    assert (ran.code, ran.named("failed")) == (0, []), ran.raw.decode()[-1500:]
    assert {f"results_dir/{n}.pth" for n in range(1, 61)} | {"results_dir/large.pth"} <= set(
        minio.listed()
    )


def test_what_nobody_foresaw_in_a_sending_thread_costs_its_file_and_is_told():
    """The queue's own promise: whoever waits for an item is never left waiting, and the others go
    on.
    """
    sent, broken = [], []

    def send(item):
        if item.name == "b":
            raise RecursionError
        sent.append(item.name)

    sending = Sending(send, lambda item, error: broken.append((item.name, type(error))))
    sending.add(
        [Item(name, name, (number, 0.0), urgent=False) for number, name in enumerate("abc")]
    )
    sending.wait("abc")
    sending.close()
    assert (sorted(sent), broken) == (["a", "c"], [("b", RecursionError)])


def test_a_sending_thread_without_memory_ends_and_leaves_its_file_to_the_others():
    """The room of its stack is what the others want."""
    room, full = threading.Semaphore(3), threading.Event()
    kept: set[threading.Thread] = set()
    ended, sent, broken = set(), [], []

    def send(item):
        if threading.current_thread() not in kept and not room.acquire(blocking=False):
            ended.add(threading.current_thread())
            full.set()
            raise MemoryError
        kept.add(threading.current_thread())
        full.wait(10)
        sent.append(item.name)

    names = [f"{number}.pth" for number in range(100)]
    sending = Sending(send, lambda item, error: broken.append((item.name, type(error))))
    sending.add([Item(name, name, (1, 0.0), urgent=False) for name in names])
    sending.wait(names)
    sending.close()
    assert (sorted(sent), broken) == (sorted(names), [])
    assert len(kept) == 3 and not ended & kept


def test_what_stood_still_over_two_looks_is_in_the_bucket(jobs, minio, tmp_path):
    """Each manifest that is seen is a look; what was on disk at one is listed, complete, three
    looks later.
    """
    job = start(
        jobs,
        minio,
        f"i=0; while [ ! -e {tmp_path}/stop ]; do i=$((i+1)); echo $i > $i.pth; sleep 0.02; done",
        {"TAO_SYNC_SECONDS": "0.2"},
    )
    looks: list[tuple[set[str], set[str]]] = []
    while len(looks) < 12:
        made = {path.name for path in (jobs.results / "results_dir").glob("*.pth")}
        listed = {Path(path).name for path, each in minio.listed().items() if each["sha256"]}
        if listed and (not looks or listed != looks[-1][1]):
            looks.append((made, listed))
        time.sleep(0.02)
    (tmp_path / "stop").write_text("")
    job.ended()
    for (made, _), (_, listed) in zip(looks, looks[3:], strict=False):
        assert made <= listed


def test_how_far_the_sending_is_is_told(jobs, line):
    line.link.faults(latency_ms=320, methods="PUT")
    ran = run(jobs, line, "for i in $(seq 120); do head -c 1000 /dev/urandom > $i.pth; done")
    told = [each.facts for each in ran.named("transfer")]
    assert told and all(
        each["stage"] == "outputs" and 0 <= each["bytes"] <= each["total_bytes"] for each in told
    )
    assert all(each["files"] <= each["total_files"] >= 120 and each["rate"] >= 0 for each in told)
    sent = ran.named("sent")[0].facts
    assert (sent["what"], sent["files"] >= 120, sent["bytes"] >= 120_000) == ("outputs", True, True)


def test_results_of_a_user_who_may_not_write_to_results_are_sent_from_a_private_folder(
    jobs, minio, tmp_path
):
    (tmp_path / "file").write_text("")
    ran = run(jobs, minio, "echo 1 > x; pwd", {"TAO_LOCAL_ROOT": str(tmp_path / "file")})
    assert (ran.code, ran.warnings) == (0, []), ran.raw
    assert minio.read("results/job-1/results_dir/x") == b"1\n"
    assert not Path(ran.out.decode().strip()).exists()


def test_no_key_appears_in_what_is_told_or_kept(jobs, minio):
    ran = run(jobs, minio, "echo 1 > x", {"AWS_SECRET_ACCESS_KEY": "a-wrong-but-secret-value"})
    assert b"a-wrong-but-secret-value" not in ran.raw + ran.out
    assert ran.failure["code"].startswith("s3.")


def test_an_output_that_the_command_wrote_into_the_results_itself_is_sent_and_not_said_to_be_missing(
    jobs, minio
):
    command = 'mkdir "$TAO_RESULTS_DIR/out"; echo 42 > "$TAO_RESULTS_DIR/out/x"'
    ran = jobs.run(command, outputs=["out"], files={"a": b"1"}, env=minio.env)
    assert (ran.code, ran.warnings) == (0, []), ran.raw
    assert "results/job-1/out/x" in minio.keys
