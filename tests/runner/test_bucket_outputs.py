"""Results in a bucket: sent while the command runs and at every end, by real servers; what goes wrong costs only itself."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from support.servers import link_here, s3_here
from support.servers.endpoint_here import Endpoint, Keys, called
from tao_sdk.engine.bucket_files import BucketFiles
from tao_sdk.net.s3_xml import elements, inner
from tao_sdk.runner.outputs.bucket import Bucket
from tao_sdk.runner.outputs.ending import Ending
from tao_sdk.runner.outputs.remote import Remote
from tao_sdk.runner.outputs.sending import Item, Sending
from tao_sdk.runner.place import Place
from tao_sdk.runner.report import Report
from tao_sdk.script_runner import build_entrypoint

pytestmark = pytest.mark.network

KEY = "resume_training_checkpoint_path"


class Store:
    """A new bucket of a real server, as the job and the test see it."""

    def __init__(self, server: s3_here.Server, url: str = "") -> None:
        self.server, self.name = server, server.bucket()
        self.env = {**server.env(url), "S3_BUCKET_NAME": self.name, "TAO_RESULTS_ROOT": ""}

    @property
    def keys(self) -> set[str]:
        return {each.key for each in self.server.s3().list(self.name, "")}

    def read(self, key: str) -> bytes:
        return BucketFiles(self.server.s3()).read(f"s3://{self.name}/{key}")

    def manifest(self, folder: str = "results/job-1") -> dict:
        key = f"{folder}/.tao/manifest.json"
        return json.loads(self.read(key)) if key in self.keys else {}

    def listed(self, folder: str = "results/job-1") -> dict[str, dict]:
        return {each["path"]: each for each in self.manifest(folder).get("files", [])}

    def lets_anybody(self, *actions: str) -> dict[str, str]:
        """From now on everybody may do these, and what the environment of somebody without keys is."""
        may = {"Effect": "Allow", "Principal": "*", "Action": list(actions)}
        below = {**may, "Resource": [f"arn:aws:s3:::{self.name}", f"arn:aws:s3:::{self.name}/*"]}
        body = json.dumps({"Version": "2012-10-17", "Statement": [below]}).encode()
        answer = self.server.s3().ask("PUT", self.name, "", {"policy": ""}, body)
        assert answer.status in (200, 204), answer.text
        return {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}


@pytest.fixture(params=["versitygw", "minio"])
def store(request, jobs):
    jobs.env["TAO_LOCAL_ROOT"] = str(jobs.root)
    return Store(s3_here.SERVERS[request.param]())


@pytest.fixture
def minio(jobs):
    jobs.env["TAO_LOCAL_ROOT"] = str(jobs.root)
    return Store(s3_here.minio())


@pytest.fixture
def line(jobs):
    """A bucket behind a line that fails on demand."""
    jobs.env["TAO_LOCAL_ROOT"] = str(jobs.root)
    server = s3_here.versitygw()
    with link_here.Link(server.address) as link:
        store = Store(server, link.url)
        store.link = link
        yield store


def run(jobs, store, command, env=None, **more):
    """A job with one output, results_dir, in which the command starts."""
    return jobs.run(f"cd $TAO_RESULTS_DIR/results_dir; {command}", env={**store.env, **(env or {})}, **wanted(more))


def start(jobs, store, command, env=None, **more):
    env = {**store.env, "TAO_SYNC_SECONDS": "0.4", **(env or {})}
    return jobs.start(f"cd $TAO_RESULTS_DIR/results_dir; {command}", env=env, **wanted(more))


def waits(jobs) -> str:
    """Shell text that waits until the test has `let_go`."""
    return f"echo ready; until [ -e {jobs.folder}/go ]; do sleep 0.02; done"


def let_go(jobs) -> None:
    (jobs.folder / "go").touch()


def wanted(more):
    return {"specs": {"results_dir": ""}, "outputs": ["results_dir"], "config_format": "json", **more}


def test_results_go_below_results_and_the_job_id_with_the_manifest_beside_them(jobs, store):
    ran = run(jobs, store, "mkdir train; echo 1 > train/epoch_1.pth; : > empty; echo said")
    assert (ran.code, ran.stages[-1]) == (0, "done"), ran.raw
    names = {".tao/job.log", ".tao/manifest.json", "results_dir/empty", "results_dir/train/epoch_1.pth", "spec.json"}
    assert store.keys == {f"results/job-1/{name}" for name in names}
    assert store.read("results/job-1/.tao/job.log") == b"said\n"
    manifest = store.manifest()
    assert (manifest["job"], manifest["attempt"], manifest["whole"], manifest["exit_code"]) == ("job-1", 1, True, 0)
    assert store.listed()["results_dir/train/epoch_1.pth"]["sha256"] == hashlib.sha256(b"1\n").hexdigest()


@pytest.mark.parametrize("given", [{}, {"bucket": False}])
def test_a_bucket_that_only_the_jobs_environment_names_gets_the_results(jobs, minio, monkeypatch, given):
    monkeypatch.delenv("S3_BUCKET_NAME", raising=False)
    arguments = {"specs": {"results_dir": ""}, "outputs": ["results_dir"], "config_format": "json", **given}
    text = build_entrypoint(command="echo 1 > $TAO_RESULTS_DIR/results_dir/model.pth", **arguments)["command"]
    at, access, secret = (
        minio.env.pop(f"AWS_{name}") for name in ("ENDPOINT_URL", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
    )
    ran = jobs.run_text(text, env={**minio.env, "S3_ENDPOINT_URL": at, "ACCESS_KEY": access, "SECRET_KEY": secret})
    assert (ran.code, ran.stages[-1]) == (0, "done"), ran.raw
    assert minio.read("results/job-1/results_dir/model.pth") == b"1\n"


def test_an_output_that_names_an_address_is_that_prefix_itself(jobs, store):
    ran = jobs.run(
        "cat {config_path}; cd $TAO_RESULTS_DIR/results_dir; echo 1 > x; echo 2 > $TAO_RESULTS_DIR/model/best.onnx",
        specs={"results_dir": f"s3://{store.name}/my/own/", "model": f"s3://{store.name}/models/best.onnx"},
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
        "echo 1 > $TAO_RESULTS_DIR/a/x; echo 2 > $TAO_RESULTS_DIR/b/x; mkdir $TAO_RESULTS_DIR/.tao/manifest.json",
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
    assert run(jobs, store, "echo 1 > x", {"TAO_RESULTS_ROOT": root, "S3_BUCKET_NAME": "another"}).code == 0
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
        f"echo 1 > {jobs.root}/model.pth; mkdir {jobs.root}/train; echo 2 > {jobs.root}/train/x; echo 3 > $TAO_RESULTS_DIR/y",
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


def test_a_relative_path_is_what_the_command_sees_there_and_is_sent_once(jobs, store, tmp_path, monkeypatch):
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
    ran = run(jobs, minio, f"echo 50 > epoch_50.pth; echo more > x; touch -d '1 hour ago' epoch_50.pth; {ending}")
    assert minio.read("results/job-1/results_dir/epoch_50.pth") == b"50\n"
    assert minio.read("results/job-1/results_dir/x") == b"more\n"
    manifest = minio.manifest()
    assert manifest["whole"] is True
    assert manifest["exit_code"] == ran.code != 0
    assert minio.listed()["results_dir/epoch_50.pth"]["sha256"]
    assert minio.listed()["results_dir/x"]["sha256"] is None  # it may have been cut off


def test_outputs_are_sent_as_they_grow_and_a_file_in_motion_never_appears(jobs, minio, tmp_path, eventually):
    job = start(
        jobs,
        minio,
        f"echo whole > still.pth; while [ ! -e {tmp_path}/stop ]; do "
        "echo line >> status.json; echo line >> moving.pth; echo said; sleep 0.01; done",
    )
    below = "results/job-1/results_dir"
    eventually(lambda: {f"{below}/still.pth", f"{below}/status.json", "results/job-1/.tao/job.log"} <= minio.keys)
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


def test_the_log_goes_before_a_file_that_was_on_its_way_when_the_command_ended(jobs, line, eventually):
    large = "head -c 24000000 /dev/urandom > large.pth"
    job = start(jobs, line, f"{large}; {waits(jobs)}; echo last; echo '{{}}' > status.json")
    line.link.faults(upload_rate=1_500_000, methods="PUT", match="large.pth")
    job.until(b"ready")
    eventually(lambda: line.link.counts.get("PUT") and "results/job-1/spec.json" in line.keys)
    let_go(jobs)
    manifest = eventually(lambda: line.manifest() if line.manifest().get("exit_code") == 0 else None)
    assert (manifest["whole"], manifest["unsent"], manifest["unsent_files"]) == (False, ["results_dir/large.pth"], 1)
    assert line.read("results/job-1/.tao/job.log").endswith(b"last\n")
    assert "results/job-1/results_dir/status.json" in line.keys
    assert "results/job-1/results_dir/large.pth" not in line.keys
    line.link.faults()
    assert job.ended().code == 0
    assert "results/job-1/results_dir/large.pth" in line.keys
    assert "unsent" not in line.manifest()


@pytest.mark.parametrize("store_is", ["slow", "silent", "gone"])
def test_a_job_that_is_told_to_end_is_gone_with_its_grace_whatever_the_store_does(jobs, line, eventually, store_is):
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


def uploads(store) -> list[str]:
    """The keys of uploads that were begun and neither completed nor given up."""
    answer = store.server.s3().ask("GET", store.name, "", {"uploads": ""})
    return [inner(each, "Key") for each in elements(answer.text, "Upload")]


def test_what_must_be_known_goes_before_what_takes_its_time(jobs, line):
    sizes = "head -c 30000000 /dev/urandom > large.pth; echo '{}' > status.json"
    job = start(jobs, line, f"{sizes}; echo ready; sleep 60", {"TAO_SYNC_SECONDS": "100"})
    job.until(b"ready")
    line.link.faults(latency_ms=300, methods="PUT POST", match="large.pth")
    job.process.send_signal(signal.SIGTERM)
    job.ended()
    manifest, log, status, large = (
        newest(line, name)
        for name in (".tao/manifest.json", ".tao/job.log", "results_dir/status.json", "results_dir/large.pth")
    )
    assert max(log, status) <= large <= manifest
    assert line.manifest()["whole"] is True


def newest(store, name):
    s3 = store.server.s3()
    return next(each.modified for each in s3.list(store.name, f"results/job-1/{name}"))


def test_a_large_log_is_sent_again_when_it_has_grown_by_an_eighth_or_is_another_and_not_at_every_look(minio):
    bucket = Bucket(Remote(minio.server.s3(), "s3://b"), [], Place({}, "j"), [])
    bucket.sent["x.log"] = (16 << 20, 1.0)
    due = {size: bucket.is_due(Item("x.log", "x.log", (size << 20, 2.0), urgent=True)) for size in (1, 16, 17, 18, 40)}
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


def test_a_right_that_is_lost_on_the_way_makes_the_job_an_error_that_says_where_the_files_still_are(jobs, minio):
    anybody = minio.lets_anybody(*READ, *WRITE)
    job = start(jobs, minio, f"echo 1 > x; {waits(jobs)}", {"TAO_SYNC_SECONDS": "100", **anybody})
    job.until(b"ready")
    minio.lets_anybody(*READ)
    let_go(jobs)
    ran = job.ended()
    assert (ran.code, ran.failure["code"]) == (125, "output.lost")
    assert "AccessDenied" in ran.failure["why"]
    assert str(jobs.results) in ran.failure["next"]


def test_a_bucket_that_does_not_exist_ends_the_job_before_the_command_and_is_never_made(jobs, store):
    ran = run(jobs, store, "echo never", {"S3_BUCKET_NAME": "no-such-bucket"})
    assert (ran.code, ran.out) == (125, b"")
    assert ran.failure["code"] == "s3.no_bucket"
    assert "s3://no-such-bucket/results/job-1/" in ran.failure["what"]
    assert store.server.s3().ask("HEAD", "no-such-bucket", "").status == 404


def test_a_store_that_does_not_answer_is_told_of_while_it_is_waited_for(jobs, store):
    away = f"127.0.0.1:{s3_here.free_port()}"
    ran = run(jobs, store, "echo never", {"AWS_ENDPOINT_URL": f"http://{away}", "TAO_RETRY_SECONDS": "3"})
    assert [each.facts["host"] for each in ran.named("waiting")] == [away]
    assert [each.name for each in ran.events][-1] == "failed"


def test_looking_whether_a_bucket_takes_results_leaves_nothing_behind(jobs, store):
    ran = jobs.run("false", specs={"x": "/nowhere"}, inputs=["x"], outputs=["results_dir"], env=store.env)
    assert ran.failure["code"] == "input.missing"
    assert store.keys == set()
    assert "<Upload>" not in store.server.s3().ask("GET", store.name, "", {"uploads": ""}).text


def test_uploads_that_a_killed_runner_left_are_swept_by_the_next_attempt_and_those_of_others_are_not(jobs, line):
    for job in ("job-1", "job-2"):
        line.server.s3().ask("POST", line.name, f"results/{job}/results_dir/large.pth", {"uploads": ""})
    assert run(jobs, line, "true", {"TAO_ATTEMPT": "2"}).code == 0
    begun = line.server.s3().ask("GET", line.name, "", {"uploads": ""}).text
    assert ("results/job-1/" in begun, "results/job-2/" in begun) == (False, True)


def test_a_command_that_takes_all_its_grace_leaves_time_to_send_its_results(jobs, minio):
    """The runner is killed when the grace is over, so the command is killed before."""
    job = start(jobs, minio, "trap '' TERM; echo 1 > x; echo ready; while :; do sleep 0.05; done", {"TAO_GRACE": "3"})
    job.until(b"ready")
    told = time.time()
    job.process.send_signal(signal.SIGTERM)
    ran = job.ended()
    assert ran.code == 137
    assert ran.named("ended")[0].time - told < 3
    assert minio.read("results/job-1/results_dir/x") == b"1\n"


def test_links_are_sent_as_what_they_lead_to_and_once(jobs, minio):
    ran = run(jobs, minio, "echo 1 > epoch_1.pth; ln -s epoch_1.pth latest.pth; mkdir d; echo 2 > d/x; ln -s .. d/up")
    assert ran.code == 0
    assert set(minio.listed()) == {"results_dir/epoch_1.pth", "results_dir/latest.pth", "results_dir/d/x", "spec.json"}


def test_a_link_to_a_folder_that_holds_the_results_is_not_sent_and_is_told(jobs, minio):
    (jobs.root / "another-job").mkdir(parents=True)
    (jobs.root / "another-job" / "theirs").write_text("1")
    ran = run(jobs, minio, "echo 1 > x; ln -s / all; ln -s ../.. jobs", timeout=60)
    assert ran.code == 0 and set(minio.listed()) == {"results_dir/x", "spec.json"}
    left_out = ran.named("warning")[0].facts["paths"]
    assert {each.split(":")[0] for each in left_out} == {"results_dir/all", "results_dir/jobs"}


def test_what_cannot_be_kept_costs_only_itself_and_is_told(jobs, minio):
    code = "import socket; socket.socket(socket.AF_UNIX).bind('sock')"
    ran = run(jobs, minio, f'echo 1 > good; ln -s /nowhere broken; mkfifo pipe; python3 -c "{code}"; exit 4')
    assert ran.code == 4
    assert set(minio.listed()) == {"results_dir/good", "spec.json"}
    assert ran.warnings == ["output.left_out"]
    assert [each.split(":")[0] for each in ran.named("warning")[0].facts["paths"]] == [
        "results_dir/broken", "results_dir/pipe", "results_dir/sock",
    ]  # fmt: skip


def test_two_outputs_of_one_name_cost_only_the_second(jobs, minio):
    shared = f"s3://{minio.name}/same"
    ran = jobs.run(
        "echo 1 > $TAO_RESULTS_DIR/a/x; echo 2 > $TAO_RESULTS_DIR/b/x; echo 3 > $TAO_RESULTS_DIR/b/y",
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


def test_a_file_that_cannot_be_read_and_folders_without_an_end_cost_only_themselves(jobs, minio, request):
    """/proc/self/mem is a file by its looks, and reading it fails as a broken disk does."""
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", jobs.root], check=False))
    ran = run(jobs, minio, f"echo 1 > good.pth; ln -s /proc/self/mem broken.pth; {DEEP}; exit 4")
    assert (ran.code, set(minio.listed())) == (4, {"results_dir/good.pth", "spec.json"}), ran.raw
    told = " ".join(ran.named("warning")[0].facts["paths"])
    assert "broken.pth: Input/output error" in told and "File name too long" in told


def test_a_file_that_turns_into_a_folder_while_its_turn_comes_is_sent_as_one(jobs, line, tmp_path, eventually):
    turned = f"{tmp_path}/turned"

    def turn() -> None:
        (jobs.results / "results_dir" / "b.pth").unlink()
        (jobs.results / "results_dir" / "b.pth").mkdir()
        (jobs.results / "results_dir" / "b.pth" / "x").write_text("inside")
        Path(turned).write_text("")

    with called(turn) as hook:
        command = f"echo 1 > a.pth; head -c 9000000 /dev/zero > b.pth; echo ready; while [ ! -e {turned} ]; do sleep 0.05; done"
        job = start(jobs, line, command, {"TAO_SYNC_SECONDS": "0.2"})
        job.until(b"ready")
        line.link.faults(hook=hook.url, hook_at=1, methods="PUT", match="a.pth")
        ran = job.ended()
    assert ran.code == 0, ran.raw
    assert line.read("results/job-1/results_dir/b.pth/x") == b"inside"
    assert line.manifest()["whole"] is True


def test_files_that_vanish_or_move_while_they_are_sent_at_the_end_cost_only_themselves(jobs, line, tmp_path):
    """A daemon that has left the command's group may write on."""
    folder = jobs.results / "results_dir"

    def meddle() -> None:
        (folder / "gone.pth").unlink()
        (folder / "moves.pth").write_text("and on")

    with called(meddle) as hook:
        made = "for name in gone moves stays; do echo 1 > $name.pth; done; echo ready"
        job = start(jobs, line, f"{made}; until [ -e {tmp_path}/go ]; do sleep 0.05; done", {"TAO_SYNC_SECONDS": "100"})
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
        job = start(jobs, line, f"echo 1 > 1.pth; echo 22 > 2.pth; {waits(jobs)}", {"TAO_SYNC_SECONDS": "100"})
        job.until(b"ready")
        line.link.faults(hook=hook.url, hook_at=1, methods="PUT", match="/1.pth")
        let_go(jobs)
        ran = job.ended()
    assert (ran.code, arrived) == (0, [True]), ran.raw


def test_a_container_that_gives_few_threads_sends_all_the_same(jobs, minio):
    """Each thread wants room for its stack: with little address space only a few can be started."""
    command = "for i in $(seq 60); do echo $i > $i.pth; done; head -c 40000000 /dev/urandom > large.pth"
    text = build_entrypoint(command=f"cd $TAO_RESULTS_DIR/results_dir; {command}", **wanted({}))["command"]
    little = ("/bin/sh", "-c", 'ulimit -v 300000; exec /bin/bash -c "$1"', "sh")
    ran = jobs.run_text(text, shell=little, env=minio.env)
    assert (ran.code, ran.named("failed")) == (0, []), ran.raw.decode()[-1500:]
    assert {f"results_dir/{n}.pth" for n in range(1, 61)} | {"results_dir/large.pth"} <= set(minio.listed())


def test_what_nobody_foresaw_in_a_sending_thread_costs_its_file_and_is_told():
    """The queue's own promise: whoever waits for an item is never left waiting, and the others go on."""
    sent, broken = [], []

    def send(item):
        if item.name == "b":
            raise RecursionError
        sent.append(item.name)

    sending = Sending(send, lambda item, error: broken.append((item.name, type(error))))
    sending.add([Item(name, name, (number, 0.0), urgent=False) for number, name in enumerate("abc")])
    sending.wait("abc")
    sending.close()
    assert (sorted(sent), broken) == (["a", "c"], [("b", RecursionError)])


def attempt(jobs, store, number, command="true", env=None):
    return run(
        jobs,
        store,
        command + "; cat {config_path}",
        {"TAO_ATTEMPT": str(number), **(env or {})},
        specs={"train": {KEY: ""}, "results_dir": ""},
    )


def elsewhere(jobs):
    """The next attempt starts on another machine."""
    jobs.results.rename(jobs.folder / f"lost-{time.monotonic_ns()}")


def resumed_from(ran):
    assert ran.code == 0, ran.raw
    return json.loads(ran.out[ran.out.index(b"{") :])["train"][KEY]


CHECKPOINTS = 'for n in 9 1 2; do echo $n > epoch_$n.pth; touch -d "$((20 - n % 9)) min ago" epoch_$n.pth; done'


def test_a_new_attempt_elsewhere_goes_on_from_the_newest_complete_checkpoint(jobs, store):
    attempt(jobs, store, 1, CHECKPOINTS)
    elsewhere(jobs)
    ran = attempt(jobs, store, 2)
    path = jobs.results / "results_dir" / "epoch_2.pth"
    assert resumed_from(ran) == str(path)
    assert path.read_text() == "2\n"
    assert set(store.listed()) == {f"results_dir/epoch_{n}.pth" for n in (9, 1, 2)} | {"spec.json"}


def test_a_checkpoint_that_is_damaged_or_was_replaced_in_the_bucket_is_not_used(jobs, minio):
    attempt(jobs, minio, 1, CHECKPOINTS)
    elsewhere(jobs)
    minio.server.s3().put(minio.name, "results/job-1/results_dir/epoch_2.pth", b"X\n")
    assert resumed_from(attempt(jobs, minio, 2)) == str(jobs.results / "results_dir" / "epoch_1.pth")


FOLDERS = "; ".join(
    f"mkdir {name}; for n in 1 2 3; do echo {name} $n > {name}/model-$n.safetensors; done; touch -d '{age} min ago' {name}/*"
    for name, age in (("checkpoint-900", 9), ("checkpoint-1000", 2))
)


def test_a_checkpoint_that_is_a_folder_comes_back_whole(jobs, store):
    attempt(jobs, store, 1, FOLDERS)
    elsewhere(jobs)
    path = jobs.results / "results_dir" / "checkpoint-1000"
    assert resumed_from(attempt(jobs, store, 2)) == str(path)
    assert {each.name: each.read_text() for each in path.iterdir()} == {
        f"model-{n}.safetensors": f"checkpoint-1000 {n}\n" for n in (1, 2, 3)
    }


@pytest.mark.parametrize("change", ["lost", "replaced"])
def test_a_folder_of_which_a_file_is_missing_or_another_is_not_used(jobs, minio, change):
    """Its runner may have been killed while the folder was on its way."""
    attempt(jobs, minio, 1, FOLDERS)
    elsewhere(jobs)
    key = "results/job-1/results_dir/checkpoint-1000/model-2.safetensors"
    assert minio.server.s3().ask("DELETE", minio.name, key).status == 204
    if change == "replaced":
        minio.server.s3().put(minio.name, key, b"checkpoint-1000 X\n")
    assert resumed_from(attempt(jobs, minio, 2)) == str(jobs.results / "results_dir" / "checkpoint-900")


def test_a_folder_that_is_being_written_is_not_vouched_for(jobs, minio, tmp_path, eventually):
    """Its first files stand still for long while the others are still being written."""
    growing = f"while [ ! -e {tmp_path}/stop ]; do echo x >> step_5/b.pt; sleep 0.01; done"
    command = f"{FOLDERS}; mkdir step_5; echo 1 > step_5/a.pt; {growing}"
    job = start(jobs, minio, command, {"TAO_SYNC_SECONDS": "0.2"})
    eventually(lambda: "results_dir/step_5/a.pt" in minio.listed() and len(minio.manifest()["folders"]) == 3)
    assert minio.manifest()["folders"]["results_dir/step_5"] == [-1, -1]
    assert minio.manifest()["folders"]["results_dir/checkpoint-1000"][0] == 3
    (tmp_path / "stop").write_text("")
    assert job.ended().code == 0
    assert minio.manifest()["folders"]["results_dir/step_5"][0] == 2


def test_a_checkpoint_outlives_an_attempt_that_added_none(jobs, minio):
    attempt(jobs, minio, 1, CHECKPOINTS)
    elsewhere(jobs)
    attempt(jobs, minio, 2, "exit 1")
    elsewhere(jobs)
    assert resumed_from(attempt(jobs, minio, 3)) == str(jobs.results / "results_dir" / "epoch_2.pth")


def test_another_jobs_checkpoints_under_the_same_prefix_are_not_resumed_from(jobs, minio):
    specs = {"train": {KEY: ""}, "results_dir": f"s3://{minio.name}/shared"}
    run(jobs, minio, "echo 1 > epoch_1.pth", specs=specs)
    ran = run(jobs, minio, "cat {config_path}", {"TAO_JOB_ID": "job-2"}, specs=specs)
    assert resumed_from(ran) == ""
    elsewhere(jobs)
    assert resumed_from(run(jobs, minio, "cat {config_path}", {"TAO_JOB_ID": "job-2"}, specs=specs)) == ""


def test_every_attempts_log_is_kept(jobs, minio):
    run(jobs, minio, "echo first")
    elsewhere(jobs)
    run(jobs, minio, "echo second", {"TAO_ATTEMPT": "2"})
    assert minio.read("results/job-1/.tao/job.log") == b"second\n"
    assert minio.read("results/job-1/.tao/job.log.attempt-1") == b"first\n"


def test_what_is_there_whole_is_not_sent_again(jobs, line):
    command = (
        "for i in 1 2 3; do [ -e $i.pth ] || head -c 12000000 /dev/urandom > $i.pth; done; echo $TAO_ATTEMPT > new"
    )
    run(jobs, line, command)
    line.link.faults(match=".pth", methods="PUT")
    before = {each.key: each.modified for each in line.server.s3().list(line.name, "") if each.key.endswith(".pth")}
    (jobs.results / ".tao" / "job.log").unlink()
    for manifest in (True, False):
        if not manifest:  # the runner was killed before it could write one
            line.server.s3().ask("DELETE", line.name, "results/job-1/.tao/manifest.json")
        assert run(jobs, line, command, {"TAO_ATTEMPT": "2"}).code == 0
        assert before == {
            each.key: each.modified for each in line.server.s3().list(line.name, "") if each.key.endswith(".pth")
        }
    assert {f"results_dir/{n}.pth" for n in (1, 2, 3)} <= set(line.listed())


def opened(jobs, store, attempt=1, rank=0, folder="zero", url=""):
    """The results of an attempt that begins, as its runner sends them; the test writes and says when to look."""
    env = {"TAO_ATTEMPT": str(attempt), "TAO_RANK": str(rank), "TAO_SYNC_SECONDS": "9"}
    place = Place({**env, "TAO_LOCAL_ROOT": str(jobs.folder / folder), "S3_BUCKET_NAME": store.name}, "job-1")
    Path(place.own).mkdir(parents=True, exist_ok=True)
    s3 = store.server.s3(url, TAO_RETRY_SECONDS="0.3")
    bucket = Bucket(Remote(s3, place.remote), [(place.folder, "")], place, [])
    bucket.open()
    return bucket


def write(bucket, name, text):
    """As programs do that keep one whole file under the name."""
    path = Path(bucket.place.folder, name)
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def look(*buckets, times=1):
    for each in buckets * times:
        each.sync(lambda: False)


def finish(bucket, exit_code=0):
    bucket.finish(Ending(exit_code, time.time()), lambda: False, Report())


def look_without_a_reply(line, bucket, name):
    """The store takes the file and cannot say so: as far as the job knows, it was refused."""
    line.link.faults(busy=1, methods="PUT", match=name)
    look(bucket)
    assert list(bucket.refused) == [name]
    line.server.s3().put(line.name, f"results/job-1/{name}", Path(bucket.place.folder, name).read_bytes())
    line.link.faults()


@pytest.mark.parametrize("replies", [True, False])
def test_a_file_that_is_again_as_an_earlier_attempt_left_it_is_sent_again(jobs, line, replies):
    first = opened(jobs, line)
    write(first, "latest.txt", "200")
    finish(first)
    second = opened(jobs, line, attempt=2, url=line.link.url)
    write(second, "latest.txt", "100")
    look(second) if replies else look_without_a_reply(line, second, "latest.txt")
    assert line.read("results/job-1/latest.txt") == b"100"
    write(second, "latest.txt", "200")
    finish(second)
    assert line.read("results/job-1/latest.txt") == b"200"
    assert (line.manifest()["whole"], second.failure) == (True, None)


def test_a_file_that_gets_its_earlier_name_and_time_back_is_sent_again(jobs, line):
    """Another stood in its place for a while."""
    bucket = opened(jobs, line, url=line.link.url)
    kept, aside = Path(bucket.place.folder, "kept.txt"), jobs.folder / "aside"
    write(bucket, "kept.txt", "200")
    look(bucket)
    kept.rename(aside)
    write(bucket, "kept.txt", "100")
    look_without_a_reply(line, bucket, "kept.txt")
    aside.rename(kept)
    finish(bucket)
    assert line.read("results/job-1/kept.txt") == b"200"


@pytest.mark.parametrize("once", ["not there", "not readable"])
def test_a_file_that_once_could_not_be_read_is_missed_when_the_store_refuses_it_at_the_end(jobs, line, once):
    bucket = opened(jobs, line, url=line.link.url)
    path = Path(bucket.place.folder, "best.pth")
    if once == "not readable":
        path.mkdir()
    bucket.send(Item("best.pth", str(path), (3, 1.0), urgent=False))
    assert "best.pth" in (bucket.gone if once == "not there" else bucket.unread)
    if once == "not readable":
        path.rmdir()
    write(bucket, "best.pth", "200")
    line.link.faults(busy=1, methods="PUT", match="best.pth")
    finish(bucket)
    assert bucket.failure and bucket.failure.what.startswith("1 of 1 files")
    assert line.manifest()["whole"] is False


def test_why_results_were_lost_is_told_of_those_and_not_of_one_that_is_no_longer_there(jobs, line):
    bucket = opened(jobs, line, url=line.link.url)
    write(bucket, "temporary.txt", "1")
    line.link.faults(busy=1, methods="PUT", match="temporary.txt")
    look(bucket)
    assert list(bucket.refused) == ["temporary.txt"]
    Path(bucket.place.folder, "temporary.txt").unlink()
    write(bucket, "best.pth", "200")
    line.link.faults(expired=s3_here.ACCESS, methods="PUT", match="best.pth")
    finish(bucket)
    assert bucket.failure and "expired" in bucket.failure.why


def test_other_ranks_send_only_what_differs_to_a_folder_of_their_own(jobs, minio):
    env = {"TAO_LOCAL_ROOT": str(jobs.folder / "zero")}
    same = "echo same > same.pth; touch -d '1 hour ago' same.pth"
    run(jobs, minio, f"{same}; echo zero > differs", env)
    manifest = minio.manifest()
    env = {"TAO_LOCAL_ROOT": str(jobs.folder / "two"), "TAO_RANK": "2", "TAO_SYNC_SECONDS": "1"}
    assert run(jobs, minio, f"{same}; echo two > differs; echo own > own; echo heard", env).code == 0
    below = "results/job-1/results_dir"
    assert {key for key in minio.keys if "rank" in key} == {
        f"{below}/.rank-2/differs", f"{below}/.rank-2/own",
        "results/job-1/.rank-2/spec.json", "results/job-1/.tao/job.rank-2.log",
    }  # fmt: skip
    assert minio.read(f"{below}/differs") == b"zero\n"
    assert minio.manifest() == manifest


def of_rank_1(store):
    return {key.partition(".rank-1/")[2]: store.read(key) for key in store.keys if ".rank-1/" in key}


def test_another_rank_does_not_send_while_it_runs_what_rank_0_has_sent(jobs, minio):
    """The other rank looks first each time, and still gives rank 0 the time to send what both have."""
    zero, one = opened(jobs, minio), opened(jobs, minio, rank=1)
    write(zero, "epoch_1.pth", "same")
    look(one, zero, times=4)
    write(zero, "epoch_2.pth", "same as well")
    look(one, zero, times=4)
    assert set(minio.listed()) == {"epoch_1.pth", "epoch_2.pth"}
    finish(zero)
    finish(one)
    assert of_rank_1(minio) == {}


def test_what_differs_is_sent_although_rank_0_had_the_same_once(jobs, minio):
    """Also what rank 0 has of an earlier attempt: it writes it anew, and the other rank does not."""
    zero, one = opened(jobs, minio), opened(jobs, minio, rank=1, folder="one")
    for each in (zero, one):
        write(each, "early.pth", "same")
        write(each, "late.pth", "same")
    look(zero, one, times=4)
    assert of_rank_1(minio) == {}
    write(zero, "early.pth", "another")
    look(zero, one, times=3)
    assert of_rank_1(minio) == {"early.pth": b"same"}
    write(zero, "late.pth", "another")
    finish(zero)
    finish(one)
    assert of_rank_1(minio) == {"early.pth": b"same", "late.pth": b"same"}


@pytest.mark.parametrize("attempt", [1, 2])
def test_what_rank_0_replaced_just_before_it_was_killed_is_not_taken_for_what_its_manifest_says(jobs, minio, attempt):
    """Each file goes before the manifest that lists it; a rank that believed the last one kept its own nowhere."""
    zero, one = opened(jobs, minio), opened(jobs, minio, rank=1, folder="one", attempt=attempt)
    for each in (zero, one):
        write(each, "last.pth", "same")
        write(each, "first.pth", "same")
    look(zero, one, times=4)
    assert of_rank_1(minio) == {}
    zero.remote.write("last.pth", b"another")
    zero.sending.close()
    one.place.interval = 0.1  # how long it waits for rank 0
    finish(one)
    assert (of_rank_1(minio), one.failure) == ({"last.pth": b"same"}, None)


def test_what_differs_is_sent_although_size_and_time_are_the_same(jobs, minio):
    zero, one = opened(jobs, minio), opened(jobs, minio, rank=1, folder="one")
    for each, text in ((zero, "0"), (one, "1")):
        write(each, "metrics.npz", text)
        os.utime(Path(each.place.folder, "metrics.npz"), (1_000_000_000, 1_000_000_000))
    finish(zero)
    finish(one)
    assert of_rank_1(minio) == {"metrics.npz": b"1"}


def test_what_a_rank_has_sent_once_is_renewed_when_it_becomes_what_rank_0_has(jobs, minio):
    zero, one = opened(jobs, minio), opened(jobs, minio, rank=1, folder="one")
    write(zero, "best.pth", "final")
    write(one, "best.pth", "not yet")
    look(zero, one, times=4)
    write(one, "best.pth", "final")
    finish(zero)
    finish(one)
    assert of_rank_1(minio) == {"best.pth": b"final"}


def test_a_rank_that_cannot_hear_of_rank_0_sends_its_results(jobs, line):
    one = opened(jobs, line, rank=1, url=line.link.url)
    line.link.faults(busy=1, methods="GET", match="manifest.json")
    write(one, "best.pth", "200")
    look(one, times=4)
    assert of_rank_1(line) == {"best.pth": b"200"}
    write(one, "last.pth", "300")
    one.place.interval = 1.0  # how long it waits for rank 0
    finish(one)
    assert (of_rank_1(line)["last.pth"], one.failure) == (b"300", None)


def test_a_file_that_is_written_anew_just_before_the_command_fails_is_not_vouched_for(jobs, minio):
    bucket = opened(jobs, minio)
    write(bucket, "latest.pth", "whole")
    look(bucket, times=2)
    assert minio.listed()["latest.pth"]["sha256"]
    write(bucket, "latest.pth", "ha")
    finish(bucket, exit_code=1)
    assert minio.read("results/job-1/latest.pth") == b"ha"
    assert minio.listed()["latest.pth"]["sha256"] is None


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
    line.link.faults(busy=5, cut_upload=4, cut_at=1000, methods="PUT", last=10)  # no body can be cut three times
    ran = run(jobs, line, "for i in 1 2 3 4 5 6 7 8; do head -c 100000 /dev/urandom > $i.pth; done")
    assert (ran.code, ran.warnings) == (0, []), ran.raw
    for n in range(1, 9):
        name = f"results_dir/{n}.pth"
        assert line.read(f"results/job-1/{name}") == (jobs.results / name).read_bytes()


def test_a_server_that_stays_away_makes_the_job_an_error_that_says_where_the_files_still_are(jobs, line):
    job = start(jobs, line, f"echo 1 > x; {waits(jobs)}", {"TAO_SYNC_SECONDS": "100", "TAO_RETRY_SECONDS": "1"})
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


def test_a_store_that_falls_silent_is_waited_for_once_and_not_at_each_step_of_the_end(jobs, line, monkeypatch):
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
    )  # it was the first step that had its time: later ones would have asked for as many files at once


def test_a_failing_commands_exit_code_is_kept_when_its_results_cannot_be(jobs, line):
    job = start(jobs, line, f"{waits(jobs)}; exit 3", {"TAO_SYNC_SECONDS": "100", "TAO_RETRY_SECONDS": "1"})
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


def test_a_file_that_is_written_anew_while_it_is_sent_never_appears_mixed(jobs, line, tmp_path, eventually):
    """It stood still when its turn came. When its last part is about to go, all of the file is written anew."""
    path = jobs.results / "results_dir" / "x.pth"

    def write_anew() -> None:
        (tmp_path / "go").write_text("")
        eventually((tmp_path / "written").exists)

    fill = "python3 -c 'import sys; sys.stdout.buffer.write(sys.argv[1].encode() * 24000000)'"
    with called(write_anew) as hook:
        job = start(
            jobs,
            line,
            f"{fill} a > x.pth; touch -d '1 hour ago' x.pth; echo ready; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; "
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
    """A real endpoint as containers have it gives keys for seconds; it is asked again, and what it gives then is used."""
    keys = {"AccessKeyId": s3_here.ACCESS, "SecretAccessKey": s3_here.SECRET}

    def reply(*_):
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3))
        return 200, json.dumps({**keys, "Expiration": ends})

    with Endpoint(reply) as endpoint:
        env = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": endpoint.url}
        ran = start(jobs, minio, "for i in 1 2 3 4 5 6; do echo $i > $i.pth; sleep 0.5; done", env).ended()
    assert ran.code == 0, ran.raw
    assert len(endpoint.asked) > 1
    assert {f"results_dir/{n}.pth" for n in range(1, 7)} <= set(minio.listed())


@pytest.fixture
def minio_line(jobs):
    """A store that knows sessions, behind a line that fails on demand."""
    jobs.env["TAO_LOCAL_ROOT"] = str(jobs.root)
    server = s3_here.minio()
    with link_here.Link(server.address) as link:
        store = Store(server, link.url)
        store.link = link
        yield store


LARGE = "head -c 60000000 /dev/urandom > large.pth; for i in 1 2 3 4; do echo $i > $i.pth; done"
REFUSALS = [(403, "ExpiredToken"), (400, "ExpiredToken"), (403, "InvalidAccessKeyId")]  # AWS, AWS, versitygw


@pytest.mark.parametrize(("status", "code"), REFUSALS)
def test_keys_that_the_store_refuses_in_mid_upload_are_renewed(jobs, minio_line, status, code):
    with Keys(minio_line.server) as keys:
        job = start(jobs, minio_line, f"echo ready; {LARGE}", {**keys.environ, "TAO_SYNC_SECONDS": "100"})
        job.until(b"ready")
        expired = {"expired": keys.given[0]["AccessKeyId"], "expired_status": status, "expired_code": code}
        minio_line.link.faults(methods="PUT POST", match="large.pth", expired_at=4, **expired)
        ran = job.ended()
        counts = minio_line.link.counts
    assert (ran.code, len(keys.given)) == (0, 2), ran.raw
    assert counts[str(status)] >= 1  # it was refused, and the rest went on with the others
    name = "results_dir/large.pth"
    assert minio_line.read(f"results/job-1/{name}") == (jobs.results / name).read_bytes()
    assert minio_line.manifest()["whole"] is True


def test_without_newer_keys_the_job_says_in_mid_upload_that_they_expired_and_where_the_files_are(jobs, minio_line):
    with Keys(minio_line.server, last=1) as keys:
        job = start(jobs, minio_line, f"echo ready; {LARGE}", {**keys.environ, "TAO_SYNC_SECONDS": "100"})
        job.until(b"ready")
        minio_line.link.faults(
            methods="PUT POST", match="large.pth", expired_at=4, expired=keys.given[0]["AccessKeyId"]
        )
        ran = job.ended()
    assert (ran.code, ran.failure["code"]) == (125, "output.lost")
    assert "have expired" in ran.failure["why"] and str(jobs.results) in ran.failure["next"]
    assert {f"results_dir/{n}.pth" for n in (1, 2, 3, 4)} <= set(minio_line.listed())
    assert keys.given[0]["SecretAccessKey"].encode() not in ran.raw


@pytest.mark.parametrize("newer", [True, False])
def test_keys_that_expire_in_mid_download_are_renewed_or_told(jobs, minio_line, tmp_path, newer):
    data = os.urandom(60_000_000)
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
                env={**minio_line.env, **keys.environ, "S3_BUCKET_NAME": "", "TAO_RESULTS_ROOT": str(jobs.root)},
            )
    if newer:
        assert (ran.code, len(keys.given)) == (0, 2), ran.raw
        assert ran.out.split()[0].decode() == hashlib.sha256(data).hexdigest()
    else:
        assert (ran.code, ran.failure["code"]) == (125, "s3.expired")
        assert ran.out == b""


def test_a_store_that_slows_down_in_mid_upload_is_waited_for(jobs, line):
    """Each connection gets less and less: what comes takes long, and nothing is given up or sent twice."""
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
        timeout=150,
    )
    assert (ran.code, ran.warnings) == (0, []), ran.raw
    assert line.link.counts["503"] > 5
    assert line.read("results/job-1/out.pth") == data


def test_a_full_disk_under_the_results_costs_only_what_did_not_fit(jobs, minio, request):
    small = jobs.folder / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)], capture_output=True, check=False
    ).returncode:
        pytest.skip("needs the right to mount")
    request.addfinalizer(lambda: subprocess.run(["umount", "-l", str(small)], check=False))
    ran = run(
        jobs,
        minio,
        "echo 1 > epoch_1.pth; head -c 9000000 /dev/zero > epoch_2.pth; echo failed to write >&2; exit 1",
        {"TAO_LOCAL_ROOT": str(small)},
    )
    assert (ran.code, ran.named("failed")) == (1, []), ran.raw
    assert minio.read("results/job-1/results_dir/epoch_1.pth") == b"1\n"
    assert minio.manifest()["whole"] is True
    assert minio.listed()["results_dir/epoch_2.pth"]["sha256"] is None


def child_of(pid):
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


MANY = (
    "[ -e 1.pth ] || { for i in $(seq 20); do echo $i-$RANDOM > $i.pth; done; head -c 9000000 /dev/urandom > large.pth; }; "
    "while [ ! -e ../stop ]; do date +%N >> status.json; echo said; sleep 0.01; done"
)
POINTS = random.Random(1).sample(range(1, 60), 50)


@pytest.mark.parametrize("fresh", [False, True], ids=["on the same machine", "elsewhere"])
def test_a_runner_killed_at_any_moment_of_sending_loses_and_damages_nothing(jobs, line, fresh):
    with called(lambda: kill_as_if_its_machine_were_gone(killed[0])) as hook:
        killed = []
        kill_at_every_point(jobs, line, fresh, hook.url, killed)


def kill_as_if_its_machine_were_gone(job):
    os.killpg(child_of(job.process.pid), signal.SIGSTOP)
    job.process.kill()


def kill_at_every_point(jobs, line, fresh, url, killed):
    for point in POINTS[::2] if fresh else POINTS[1::2]:
        env = {"TAO_JOB_ID": f"job-{point}", "TAO_SYNC_SECONDS": "0.1"}
        folder, below = jobs.root / f"job-{point}", f"results/job-{point}"
        killed[:] = [start(jobs, line, MANY, env)]
        killed[0].until(b"said")
        line.link.faults(hook=url, hook_at=point, methods="PUT POST")
        group = child_of(killed[0].process.pid)
        assert killed[0].ended().code == -signal.SIGKILL
        os.killpg(group, signal.SIGKILL)
        before = line.listed(below)
        made = {path.name: path.read_bytes() for path in (folder / "results_dir").glob("*.pth")}
        there = whole_ones(line, below, made)
        assert {Path(path).name for path, each in before.items() if each["sha256"] and path.endswith(".pth")} <= there
        line.link.faults()
        if fresh:
            folder.rename(jobs.folder / f"lost-{point}")
        again = "true" if fresh else "touch ../stop; " + MANY
        assert run(jobs, line, again, {**env, "TAO_ATTEMPT": "2"}).code == 0
        assert whole_ones(line, below, made) >= (there if fresh else set(made))
        after = line.listed(below)
        assert {path for path in before if path.endswith(".pth")} <= set(after)
        assert line.manifest(below)["whole"] is True


def whole_ones(store, below, made):
    """The checkpoints in the bucket; each is the one that was made, to the last byte."""
    names = {
        key.rpartition("/")[2] for key in store.keys if key.startswith(f"{below}/results_dir/") and key.endswith(".pth")
    }
    for name in names:
        assert store.read(f"{below}/results_dir/{name}") == made[name], name
    return names


def test_what_stood_still_over_two_looks_is_in_the_bucket(jobs, minio, tmp_path):
    """Each manifest that is seen is a look; what was on disk at one is listed, complete, three looks later."""
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
    assert told and all(each["stage"] == "outputs" and 0 <= each["bytes"] <= each["total_bytes"] for each in told)
    assert all(each["files"] <= each["total_files"] >= 120 and each["rate"] >= 0 for each in told)
    sent = ran.named("sent")[0].facts
    assert (sent["what"], sent["files"] >= 120, sent["bytes"] >= 120_000) == ("outputs", True, True)


def test_results_of_a_user_who_may_not_write_to_results_are_sent_from_a_private_folder(jobs, minio, tmp_path):
    (tmp_path / "file").write_text("")
    ran = run(jobs, minio, "echo 1 > x; pwd", {"TAO_LOCAL_ROOT": str(tmp_path / "file")})
    assert (ran.code, ran.warnings) == (0, []), ran.raw
    assert minio.read("results/job-1/results_dir/x") == b"1\n"
    assert not Path(ran.out.decode().strip()).exists()


def test_no_key_appears_in_what_is_told_or_kept(jobs, minio):
    ran = run(jobs, minio, "echo 1 > x", {"AWS_SECRET_ACCESS_KEY": "a-wrong-but-secret-value"})
    assert b"a-wrong-but-secret-value" not in ran.raw + ran.out
    assert ran.failure["code"].startswith("s3.")


def test_an_output_that_the_command_wrote_into_the_results_itself_is_sent_and_not_said_to_be_missing(jobs, minio):
    command = 'mkdir "$TAO_RESULTS_DIR/out"; echo 42 > "$TAO_RESULTS_DIR/out/x"'
    ran = jobs.run(command, outputs=["out"], files={"a": b"1"}, env=minio.env)
    assert (ran.code, ran.warnings) == (0, []), ran.raw
    assert "results/job-1/out/x" in minio.keys
