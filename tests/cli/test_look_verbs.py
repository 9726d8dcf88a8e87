"""`tao ls`, `status`, `events`, `why`, `results`, `files`: looking changes nothing."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from support import sweep
from support.machine import until
from support.servers import s3_here
from support.tao_command import COMMAND, TRAINING, Ended, Ran, Tao
from tao_sdk.backends.this_machine import this_machine
from tao_sdk.cli import show
from tao_sdk.model.clock import to_iso, utc_now
from tao_sdk.model.job import Job
from tao_sdk.model.log_reading import LogReading
from tao_sdk.model.pace import Pace
from tao_sdk.model.progress import Progress
from tao_sdk.model.progress_reader import ProgressReader
from tao_sdk.model.status import Status
from tao_sdk.store import NewEvent, Store


def test_ls_lists_the_newest_first(ended: Ended) -> None:
    lines = ended.tao("ls").out.splitlines()
    assert lines[0].split() == [
        "ID",
        "PLATFORM",
        "STATUS",
        "AGE",
        "TOOK",
        "PROGRESS",
        "BEST",
        "LABELS",
        "MESSAGE",
    ]
    assert [line.split()[0] for line in lines[1:]] == [ended.canceled, ended.failed, ended.complete]


def test_ls_chooses_by_status_label_and_number(ended: Ended) -> None:
    assert [job["id"] for job in ended.tao("ls", "--json", "--status", "error").json] == [
        ended.failed
    ]
    assert [job["id"] for job in ended.tao("ls", "--json", "--label", "team=vision").json] == [
        ended.complete
    ]
    assert [job["id"] for job in ended.tao("ls", "--json", "--limit", "1").json] == [ended.canceled]
    one = ended.tao("ls", "--limit", "1")
    assert len(one.out.splitlines()) == 2
    assert one.err.strip().endswith("This is the newest; all of them: tao ls --limit 0")


def test_an_empty_store_says_how_to_start(tao: Tao) -> None:
    ran = tao("ls")
    assert (ran.code, ran.out) == (0, "")
    assert "tao run" in ran.err


def test_a_list_that_is_empty_because_of_what_was_asked_for_says_so(ended: Ended) -> None:
    for asked in (
        ["--platform", "docker"],
        ["--status", "Running"],
        ["--label", "team=audio", "--platform", "local"],
    ):
        ran = ended.tao("ls", *asked)
        assert (ran.code, ran.out) == (0, "")
        assert "There are jobs, but none for " in ran.err
        assert all(word in ran.err for word in asked)
        assert "tao ls" in ran.err


def test_status_tells_everything_about_a_job_by_the_start_of_its_id(ended: Ended) -> None:
    ran = ended.tao("status", ended.complete[:8])
    assert ran.code == 0
    assert ended.complete in ran.out
    assert "Complete" in ran.out
    assert "team=vision" in ran.out


def test_status_names_a_results_folder_only_where_it_is(ended: Ended) -> None:
    kept = ended.tao("status", ended.complete).out
    assert f"runs/{ended.complete}" in kept
    failed = ended.tao("status", ended.failed).out.splitlines()
    assert [line.split() for line in failed if "results" in line] == [["results", "none"]]


def test_of_one_job_json_is_an_object_and_of_two_a_list(ended: Ended) -> None:
    assert ended.tao("status", "--json", ended.failed).json["exit_code"] == 3
    assert [
        job["status"] for job in ended.tao("status", "--json", ended.complete, ended.canceled).json
    ] == [
        "Complete",
        "Canceled",
    ]


def test_an_unknown_job_ends_with_3_and_no_traceback(ended: Ended) -> None:
    for verb in ("status", "logs", "why", "results", "cancel", "wait", "rm", "events"):
        ran = ended.tao(verb, "none-such")
        assert (verb, ran.code, ran.out) == (verb, 3, "")
        assert ran.err.startswith("error: ")
        assert "Traceback" not in ran.err


def test_events_tell_every_status_in_order_and_since_leaves_out_what_was_seen(ended: Ended) -> None:
    events = ended.tao("events", "--json", ended.complete).json
    assert [event["status"] for event in events if event["kind"] == "status"][-1] == "Complete"
    numbers = [event["seq"] for event in events]
    assert numbers == sorted(set(numbers))
    later = ended.tao("events", "--json", ended.complete, "--since", str(numbers[0])).json
    assert [event["seq"] for event in later] == numbers[1:]


def test_events_show_an_epoch_as_the_log_counts_and_json_counts_from_one(
    typed: Callable[..., Ran], tmp_path: Path
) -> None:
    reader = ProgressReader()
    reader.feed(b"epoch 0 loss 0.5\nepoch 1 loss 0.4\n")
    sweep.add(tmp_path, "zero-1111111111")
    with Store.open(tmp_path / "state" / "jobs.db") as store:
        job = store.get("zero-1111111111")
        data = {"epoch": 2, "loss": 0.4}
        store.update(
            replace(job, reading=LogReading(reader.progress)),
            [NewEvent(job.id, "progress", data=data), NewEvent(job.id, "hook-due", data=data)],
        )
    for follow in ((), ("--follow",)):
        lines = typed("events", "zero", *follow).out.splitlines()
        assert [line.split("  ")[-2] for line in lines[-2:]] == ["epoch=1", "epoch=1"]
    assert typed("events", "--json", "zero").json[-1]["data"]["epoch"] == 2


def test_following_the_events_of_an_ended_job_ends(ended: Ended) -> None:
    lines = ended.tao("events", "--json", "--follow", ended.complete).json_lines
    assert lines == ended.tao("events", "--json", ended.complete).json


def test_why_gives_the_cause_the_evidence_and_what_to_do(ended: Ended) -> None:
    ran = ended.tao("why", ended.failed)
    assert ran.code == 0
    assert ran.out.startswith("Error after ")
    assert "Do: " in ran.out
    assert ended.tao("why", "--json", ended.failed).json["diagnosis"]["err_class"] in (
        "ERR_PROGRAM",
        "ERR_USER",
    )


def test_why_says_whose_fault_it_is_and_whether_trying_again_helps(ended: Ended) -> None:
    lines = ended.tao("why", ended.failed).out.splitlines()
    assert lines[-2:] == ["Fault: your program", "Again: does not help"]


def test_ls_shows_why_a_job_failed(ended: Ended) -> None:
    row = next(line for line in ended.tao("ls").out.splitlines() if ended.failed in line)
    assert row.endswith("The GPU ran out of memory.")


def test_why_says_nothing_twice(tao: Tao) -> None:
    job = tao.run_detached("echo \"ModuleNotFoundError: No module named 'torchh'\"; exit 1")
    tao("wait", job)
    assert tao("why", job).out.count("No module named 'torchh'") == 1


def test_why_of_a_job_that_is_well_says_so(ended: Ended) -> None:
    assert ended.tao("why", ended.complete).out.startswith("Complete after ")
    assert ended.tao("why", "--json", ended.complete).json["diagnosis"] is None


def test_results_name_the_best_and_the_newest_checkpoint_and_fetch_copies_them(
    ended: Ended, tmp_path: Path
) -> None:
    shown = ended.tao("results", "--json", ended.complete).json
    assert len([file for file in shown["files"] if file["path"].endswith(".pth")]) == 3
    into = tmp_path / "copy"
    fetched = ended.tao("results", "--json", ended.complete, "--fetch", str(into)).json["fetched"]
    assert str(into / "train/model_epoch_003.pth") in fetched
    assert (into / "train/model_epoch_003.pth").read_text() == "3\n"
    assert (into / "curve.svg").is_file()


def test_checkpoints_that_a_failure_may_have_cut_off_are_called_so_by_the_end_of_run_and_by_results(
    tao: Tao,
) -> None:
    ran = tao(
        "run",
        "--gpus",
        "0",
        "--outputs",
        "train",
        "--",
        "mkdir train; echo 1 > train/model_epoch_001.pth; exit 3",
    )
    assert "1 checkpoint, none known to be whole" in ran.out
    job = ran.out.partition("tao logs ")[2].split()[0]
    told = tao("results", job).out
    assert "newest   -  (1 checkpoint, none known to be whole)" in told
    assert "may have left half of what it wrote in its last 5 seconds" in told
    assert "any other job begins anew" in told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("model_02.pt", "model_02.pt  (accuracy 0.500 at epoch 2)"),
        (
            "model_v2.pt",
            "best     -  (accuracy 0.500 at epoch 2; no checkpoint file names epoch 2)",
        ),
    ],
)
def test_results_say_whether_a_file_name_tells_the_best_epoch(
    tao: Tao, name: str, told: str
) -> None:
    script = f'echo epoch 2/2 accuracy 0.5; echo 1 > "$TAO_RESULTS_DIR/{name}"'
    assert tao("run", "--gpus", "0", "--name", "named", "--", script).code == 0
    assert told in tao("results", "named").out


def test_results_name_the_places_that_the_spec_chose_for_outputs(tao: Tao, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(f"results_dir: ''\nmodel: {tmp_path}/model\n")
    (tmp_path / "job.yaml").write_text(
        "command: echo 1 > $TAO_RESULTS_DIR/results_dir/x\nspecs: spec.yaml\ngpu_count: 0\n"
        "outputs: {results_dir: {type: folder}, model: {type: folder}}\n"
    )
    job = tao("run", str(tmp_path / "job.yaml"), "--json", "--detach").json["id"]
    tao("wait", job)
    assert "output   model\n" in tao("results", job).out
    assert tao("results", job, "--json").json["elsewhere"] == [f"{tmp_path}/model"]


def test_results_that_cannot_be_copied_there_are_an_error_that_says_so(
    ended: Ended, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("")
    ran = ended.tao("results", "--json", ended.complete, "--fetch", str(tmp_path / "taken"))
    assert (ran.code, ran.error["code"]) == (2, "results.not_written")
    assert str(tmp_path / "taken") in ran.error["message"]


def test_files_tells_what_a_path_is_and_ends_with_3_where_there_is_nothing(ended: Ended) -> None:
    folder = ended.tao("status", "--json", ended.complete).json["results_dir"]
    names = [
        file["path"].rpartition("/")[2]
        for file in ended.tao("files", "--json", f"{folder}/train").json["files"]
    ]
    assert names == ["model_epoch_001.pth", "model_epoch_002.pth", "model_epoch_003.pth"]
    assert (
        "model_epoch_001.pth"
        in ended.tao("files", f"file://{folder}/train/model_epoch_001.pth").out
    )
    assert ended.tao("files", f"{folder}/none").code == 3


def test_files_follows_a_persons_link_and_none_that_leads_out_of_a_jobs_results(tao: Tao) -> None:
    (tao.home / "secret").mkdir()
    (tao.home / "secret" / "key").write_text("mine")
    job = tao.run_detached(
        "mkdir -p $TAO_RESULTS_DIR/sub; cd $TAO_RESULTS_DIR; ln -s ../../secret out; ln -s sub "
        "in; echo 1 > sub/a"
    )
    tao("wait", job)
    (tao.home / "mine").symlink_to(f"runs/{job}")
    (tao.home / "runs" / "beside").symlink_to("../secret")
    for folder in (f"runs/{job}", f"{tao.home}/runs/{job}", f"file://{tao.home}/runs/{job}"):
        assert "key" not in tao("files", f"{folder}/out").out
        assert (tao("files", f"{folder}/out/key").code, tao("files", f"{folder}/in/a").code) == (
            3,
            0,
        )
        kinds = {
            Path(file["path"]).name: file["is_dir"]
            for file in tao("files", "--json", folder).json["files"]
        }
        assert kinds == {"in": True, "out": False, "sub": True}
    assert "leads out" in tao("files", f"runs/{job}/out/key").err
    assert "key" in tao("files", "runs/beside").out
    assert "sub" in tao("files", "mine").out


@pytest.mark.network
def test_files_looks_into_buckets_and_tells_nothing_there_from_no_such_bucket(
    typed: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = s3_here.versitygw()
    keys = {
        "ACCESS_KEY": s3_here.ACCESS,
        "SECRET_KEY": s3_here.SECRET,
        "S3_ENDPOINT_URL": server.url,
    }
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    s3, bucket = server.s3(), server.bucket()
    for key in ("data/a b.txt", "data/deep/x"):
        s3.put(bucket, key, b"12345")
    told = typed("files", "--json", f"s3://{bucket}/data").json["files"]
    assert [(each["path"], each["is_dir"], each["size"]) for each in told] == [
        (f"s3://{bucket}/data/a b.txt", False, 5), (f"s3://{bucket}/data/deep", True, 0),
    ]  # fmt: skip
    assert "a b.txt" in typed("files", f"s3://{bucket}/data/a b.txt").out
    nothing, no_bucket = (
        typed("files", f"s3://{bucket}/none"),
        typed("files", "s3://no-such-bucket/data"),
    )
    assert (nothing.code, no_bucket.code) == (3, 4)
    assert "There is no bucket no-such-bucket" in no_bucket.err


def test_a_closed_pipe_is_quiet(ended: Ended) -> None:
    command = " ".join([*COMMAND, "events", "|", "true"])
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ended.tao.home,
        env=ended.tao.env,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""


@pytest.mark.parametrize(
    "line", ["ls", "ls --json", "status", "logs JOB", "--help", "plan --gpus 0 -- true"]
)
def test_an_output_that_cannot_be_written_is_told_and_is_no_crash(ended: Ended, line: str) -> None:
    words = line.replace("JOB", ended.complete).split()
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=ended.tao.home,
            env=ended.tao.env,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 74
    assert done.stderr.splitlines()[-2:] == [
        "error: The output cannot be written: No space left on device.",
        "next:  Write it elsewhere; jobs that were started go on: tao ls",
    ]
    assert not (ended.tao.home / "state" / "crashes").exists()


def test_an_error_that_cannot_be_told_keeps_its_exit_code(ended: Ended) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "status", "nobody"], cwd=ended.tao.home, env=ended.tao.env, stderr=full
        )
    assert done.returncode == 3


def test_looking_loads_neither_yaml_nor_rich_nor_what_prepares_a_job(ended: Ended) -> None:
    unused = ("yaml", "rich", "tao_sdk.payload", "tao_sdk.engine.prepare", "tao_sdk.client.results")
    script = (
        "import sys, json; from tao_sdk.cli.main import run; code = run(['ls', '--json']);"
        f"print(json.dumps([name for name in {unused} if name in sys.modules]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ended.tao.home,
        env=ended.tao.env,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stderr) == []


def test_the_log_of_one_rank_or_of_all_is_asked_for_by_its_number(tao: Tao) -> None:
    job = tao.run_detached("echo one")
    tao("wait", job)
    for rank in ("0", "all"):
        ran = tao("logs", "--rank", rank, job)
        assert (ran.code, ran.out) == (0, "one\n")
    for rank, told in (("1", "rank 1"), ("-1", "-1"), ("first", "first")):
        refused = tao("logs", "--rank", rank, job)
        assert (refused.code, refused.out) == (2, "")
        assert told in refused.err


def test_a_name_that_several_jobs_have_means_the_newest_to_what_looks_and_is_asked_back_by_rm(
    tao: Tao,
) -> None:
    first, second = (tao.run_detached(f"echo {word}", "--name", "twin") for word in ("one", "two"))
    tao("wait", first, second)
    ran = tao("logs", "twin")
    assert (ran.code, ran.out) == (0, "two\n")
    assert f"{second}, the newest of 2 jobs named twin." in ran.err
    for verb in ("status", "why", "results", "wait", "events"):
        assert tao(verb, "twin").code == 0
    refused = tao("rm", "twin")
    assert refused.code == 2
    assert first in refused.err


@pytest.mark.parametrize("verb", ["wait", "watch", "attach"])
def test_who_sees_the_end_of_a_detached_job_leaves_its_curve_beside_the_results(
    tao: Tao, verb: str
) -> None:
    keeps = 'echo 1 > "$TAO_RESULTS_DIR/model.pth"; '
    job = tao.run_detached(keeps + TRAINING.replace("done", "sleep 0.2; done"))
    assert tao(verb, *([] if verb == "watch" else [job])).code == 0
    assert "accuracy" in (tao.home / "runs" / job / "curve.svg").read_text()


@pytest.mark.parametrize("verb", ["status", "results", "ls", "why"])
def test_who_looks_first_at_a_detached_job_that_has_ended_leaves_its_curve(
    tao: Tao, verb: str
) -> None:
    job = tao.run_detached(f'echo 1 > "$TAO_RESULTS_DIR/model.pth"; {TRAINING}; touch ended')
    curve = tao.home / "runs" / job / "curve.svg"
    until((tao.home / "ended").exists)
    words = (verb,) if verb == "ls" else (verb, job)
    until(lambda: tao(*words).code >= 0 and curve.exists())
    assert "accuracy" in curve.read_text()


def test_a_job_without_results_gets_no_curve(tao: Tao) -> None:
    ran = tao("run", "--gpus", "0", "--", TRAINING)
    assert ran.code == 0
    assert not (tao.home / "runs" / ran.out.split()[0] / "curve.svg").exists()


def test_a_curve_that_the_job_itself_has_drawn_is_not_written_over(tao: Tao) -> None:
    ran = tao("run", "--gpus", "0", "--", f'echo mine > "$TAO_RESULTS_DIR/curve.svg"; {TRAINING}')
    assert ran.code == 0
    job = ran.out.split()[0]
    assert (tao.home / "runs" / job / "curve.svg").read_text() == "mine\n"
    assert tao("results", job, "--fetch", "here").code == 0
    assert (tao.home / "here" / "curve.svg").read_text() == "mine\n"


def test_a_link_a_pipe_and_a_circle_among_the_results_cost_only_themselves(tao: Tao) -> None:
    odd = (
        "ln -s /nowhere gone; ln -s loop loop; mkfifo pipe; mkdir d; ln -s .. d/up; ln -s ../d "
        "d/self; echo 1 > d/model.pth"
    )
    job = tao.run_detached(f'cd "$TAO_RESULTS_DIR"; {odd}; echo 2 > z.txt')
    assert tao("wait", job).code == 0
    ran = tao("results", "--json", job, "--fetch", "copy")
    assert ran.code == 0
    names = sorted(path.partition("copy/")[2] for path in ran.json["fetched"])
    assert names == ["d/model.pth", "z.txt"]
    skipped = [
        json.loads(line)["note"].partition(" ")[0]
        for line in ran.err.splitlines()
        if "not copied" in line
    ]
    assert sorted(skipped) == ["gone", "loop", "pipe"]


def running(tao: Tao) -> str:
    """A detached job at its second of ten epochs, which goes on until the file `go` is there."""
    go = tao.home / "go"
    epochs = (
        f"echo epoch 1/10 loss 2.0; sleep 0.3; echo epoch 2/10 loss 0.15; while [ ! -e {go} ]; "
        "do sleep 0.1; done"
    )
    job = tao.run_detached(epochs)
    give_up = time.monotonic() + 300
    while "epoch 2/10" not in tao("logs", job).out:
        assert time.monotonic() < give_up
    return job


def test_a_look_at_a_running_job_tells_its_epoch_the_trend_and_the_time_left_as_of_now(
    tao: Tao,
) -> None:
    job = running(tao)
    began = utc_now()
    for shown in (tao("ls").out, tao("status", job).out):
        assert "2/10  loss 2.000 -> 0.150  ETA " in shown
        assert " ago" not in shown
    progress = tao("status", "--json", job).json["progress"]
    assert (progress["epoch"], progress["epochs"]) == (2, 10)
    assert progress["eta_seconds"] is not None
    assert datetime.fromisoformat(progress["as_of"].replace("Z", "+00:00")) >= began
    tao("cancel", "--grace", "0s", job)


def test_a_number_that_could_not_be_read_now_is_shown_with_its_age(tao: Tao) -> None:
    job = running(tao)
    tao("status", job)
    with sqlite3.connect(tao.home / "state" / "jobs.db") as db:
        (text,) = db.execute("SELECT progress FROM jobs").fetchone()
        old = {**json.loads(text), "as_of": to_iso(utc_now() - timedelta(minutes=7))}
        db.execute("UPDATE attempts SET endpoint = 'elsewhere'")
        db.execute("UPDATE jobs SET progress = ?", (json.dumps(old),))
    assert "2/10  loss 2.000 -> 0.150" in tao("ls").out
    assert "7m ago" in tao("ls").out
    with sqlite3.connect(tao.home / "state" / "jobs.db") as db:
        db.execute("UPDATE attempts SET endpoint = ?", (this_machine(),))
    tao("cancel", "--grace", "0s", job)


def test_events_and_waiting_tell_epochs_while_the_job_runs(tao: Tao) -> None:
    job = running(tao)
    following = tao.start("events", "-f", "--json", job)
    assert following.stdout is not None
    told = [json.loads(following.stdout.readline()) for _ in range(4)]
    assert [each["data"]["epoch"] for each in told if each["kind"] == "progress"][:1] == [1]
    following.kill()
    following.communicate()
    (tao.home / "go").touch()
    tao("wait", job)


def test_the_watcher_stores_an_epoch_when_it_happens(tao: Tao) -> None:
    job = running(tao)
    watching = tao.start("watch")
    give_up = time.monotonic() + 300
    with Store.open(tao.home / "state" / "jobs.db") as store:
        while store.get(job).progress.epoch != 2:
            assert time.monotonic() < give_up
            time.sleep(0.1)
    (tao.home / "go").touch()
    watching.communicate(timeout=300)


def test_the_curve_is_written_through_no_link_that_the_job_has_planted(tao: Tao) -> None:
    ran = tao(
        "run", "--gpus", "0", "--", f'ln -s {tao.home}/new "$TAO_RESULTS_DIR/curve.svg"; {TRAINING}'
    )
    job = ran.out.split()[0]
    assert tao("results", job, "--fetch", f"runs/{job}").code == 0
    assert not (tao.home / "new").exists()


def test_what_a_plain_command_saved_when_it_was_canceled_is_offered_and_every_checkpoint_is_listed(
    tao: Tao,
) -> None:
    save = "trap 'echo 7 > model_epoch_007.pth; exit 0' TERM"
    job = tao.run_detached(
        f'cd "$TAO_RESULTS_DIR"; echo 1 > model_epoch_001.pth; {save}; echo ready; sleep 100 & wait'
    )
    while "ready" not in tao("logs", job).out:
        time.sleep(0.1)
    ended = tao("cancel", job)
    assert ended.code == 0
    assert f"tao logs {job}" in ended.err
    assert f"runs/{job}" in ended.err
    ran = tao("results", job)
    assert f"newest   runs/{job}/model_epoch_007.pth" in ran.out
    rows = [line.split() for line in ran.out.splitlines() if line.startswith("  ")]
    assert [(row[0], row[-1]) for row in rows] == [
        ("model_epoch_001.pth", "whole"),
        ("model_epoch_007.pth", "whole"),
    ]
    listed = tao("results", "--json", job).json["checkpoints"]
    assert [(each["epoch"], each["complete"]) for each in listed] == [(1, True), (7, True)]


def test_results_of_a_running_job_tell_how_far_it_is_now(tao: Tao) -> None:
    job = tao.run_detached("echo epoch 1/3 loss 0.9; sleep 1; echo epoch 2/3 loss 0.5; sleep 60")
    while "epoch 2" not in tao("logs", job).out:
        time.sleep(0.1)
    assert "epoch    2/3  loss 0.500" in tao("results", job).out
    assert tao("results", "--json", job).json["progress"]["epoch"] == 2
    assert tao("cancel", job).code == 0


# as the runner says it
SAVING = """echo '@tao {"event": "stage", "time": 1, "stage": "outputs"}' >&2; sleep 60"""


def test_a_job_whose_outputs_are_being_saved_says_so(tao: Tao) -> None:
    job = tao.run_detached(SAVING)
    tao.until("saving outputs", "status", job)
    assert tao("ls").out.rstrip().endswith("saving outputs")
    assert tao("status", job, "--json").json["message"] == "saving outputs"
    tao("cancel", job)
    assert "saving outputs" not in tao("status", job).out


def test_attach_off_a_terminal_says_that_it_repeats_what_was_told(tao: Tao) -> None:
    job = tao.run_detached("echo epoch 1/2 loss 1; sleep 60")
    attached = tao.start("attach", job)
    assert attached.stdout is not None
    assert attached.stdout.readline().startswith(job)
    assert tao("cancel", job, "--grace", "0s").code == 0
    _, err = attached.communicate(timeout=300)
    assert f"New alone: tao logs -f -n 0 {job}" in err
    assert "New alone" not in tao("attach", job).err


def test_why_names_a_metric_that_is_nan_at_the_end_and_since_when(tao: Tao) -> None:
    failed = tao.run_detached("echo epoch 1/3 acc 0.5; echo epoch 2/3 acc nan; exit 3")
    complete = tao.run_detached("echo step 10 loss 0.5; echo step 20 loss nan")
    for job in (failed, complete):
        tao("wait", job)
    told = tao("why", failed).out
    assert "acc is NaN or infinite from epoch 2 on" in told
    assert "Lower the learning rate" in told
    assert tao("why", "--json", failed).json["diagnosis"]["rule"] == "nan_loss"
    assert "Its loss is NaN or infinite from step 20 on." in tao("why", complete).out


def test_a_job_without_epochs_shows_its_metrics_with_their_step(tao: Tao) -> None:
    job = tao.run_detached("echo step 100 loss 1.23; echo step 200 loss 1.30")
    tao("wait", job)
    shown = tao("status", job).out
    assert re.search(r"step +200  loss 1.230 -> 1.300", shown)
    assert re.search(r"best +loss 1.230 @step 100", shown)
    listed = tao("ls", "--sort", "loss").out
    assert "step 200  loss 1.230 -> 1.300" in listed
    assert "loss 1.230 @step 100" in listed


def test_an_evaluation_without_epochs_and_steps_shows_its_value_alone(tao: Tao) -> None:
    job = tao.run_detached("echo Test accuracy: 93.1%")
    tao("wait", job)
    assert re.search(r"metrics +test_accuracy 93.1$", tao("status", job).out, re.MULTILINE)
    assert "@0" not in tao("ls", "--sort", "test_accuracy").out


def test_results_show_the_best_so_far_while_the_best_epoch_is_not_whole(tao: Tao) -> None:
    job = tao.run_detached(
        "mkdir -p $TAO_RESULTS_DIR/train; cd $TAO_RESULTS_DIR/train; for n in 1 2 3; do "
        "echo $n > model_epoch_$n.pth; echo epoch $n/9 accuracy 0.$n; sleep 0.1; done; sleep 60"
    )
    tao.until("3/9", "status", job)
    told = tao("results", job).out
    assert "model_epoch_2.pth  (accuracy 0.200 at epoch 2, the best so far; " in told
    assert "epoch 3 has 0.300, and no whole checkpoint yet)" in told
    tao("cancel", job)


def test_an_epoch_is_asked_for_by_the_number_that_the_jobs_log_gives_it(tao: Tao) -> None:
    job = tao.run_detached(
        "mkdir -p $TAO_RESULTS_DIR/train; cd $TAO_RESULTS_DIR/train; "
        "for n in 0 1; do echo $n > epoch=$n.ckpt; echo epoch $n/2 accuracy 0.$n; done"
    )
    tao("wait", job)
    assert "epoch=0.ckpt" in tao("results", job, "--epoch", "0").out
    assert "epoch=1.ckpt" in tao("results", job, "--epoch", "1").out
    assert "no checkpoint of epoch 2." in tao("results", job, "--epoch", "2").err
    assert "epoch=1.ckpt  (accuracy 0.100 at epoch 1)" in tao("results", job).out


def test_a_job_that_may_hang_shows_since_when_no_epoch_came() -> None:
    began = utc_now()
    pace = Pace((1, began.timestamp()), (3, began.timestamp() + 60))
    reading = LogReading(Progress(3, 10), pace=pace, as_of=began + timedelta(seconds=121))
    job = Job("digits-a1", "digits", "local", Status.RUNNING, reading=reading)
    words = show.how_far(job, began + timedelta(seconds=121))
    assert "no epoch for 1m" in words
    assert not any("ETA" in word for word in words)


def test_messages_have_room_or_are_left_out() -> None:
    table = [("ID", "MESSAGE"), ("a" * 30, "The program raised KeyError: 'lr'.")]
    assert show.fits_message(table, None)
    assert show.fits_message(table, 44)
    assert not show.fits_message(table, 43)
    assert show.fits_message([("ID", "MESSAGE"), ("a" * 30, "exit 1")], 40)
