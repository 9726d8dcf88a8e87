"""Outputs: where they go, that nothing is lost, and what is known about them afterwards."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tao_sdk.runner.outputs import older_record
from tao_sdk.runner.outputs.copies import Copies
from tao_sdk.runner.outputs.tree import Tree
from tao_sdk.runner.results_folder import ResultsFolder
from tao_sdk.script_runner import build_entrypoint

BASH = ("bash", "-c")


def place_of(jobs, value, env=None, about=None):
    """Where the output `results_dir` is put when the spec says `value`."""
    ran = jobs.run(
        "cat {config_path}",
        specs={"results_dir": value},
        outputs={"results_dir": about or {"type": "folder"}},
        config_format="yaml",
        env=env,
    )
    return yaml.safe_load(ran.out)["results_dir"] if ran.code == 0 else ran


@pytest.mark.parametrize("natural", ["", None, "output", "./results", "a/b/"])
def test_an_output_goes_below_the_results_root_by_job_and_key(jobs, natural):
    place = place_of(jobs, natural)
    assert place == str(jobs.results / "results_dir")
    assert Path(place).is_dir()


def test_an_absolute_path_is_the_users_word_and_kept(jobs, tmp_path):
    assert place_of(jobs, f"{tmp_path}/mine") == f"{tmp_path}/mine"
    assert place_of(jobs, f"file://{tmp_path}/mine") == f"{tmp_path}/mine"


def test_a_nested_or_absent_output_key_is_filled_in(jobs):
    ran = jobs.run(
        "cat {config_path}", specs={"a": 1}, outputs=["train.out.dir"], config_format="yaml"
    )
    assert yaml.safe_load(ran.out) == {
        "a": 1,
        "train": {"out": {"dir": str(jobs.results / "train.out.dir")}},
    }


@pytest.mark.parametrize(
    ("given", "name"),
    [("", "onnx_file"), ("model.onnx", "model.onnx"), ("deep/model.onnx", "model.onnx")],
)
def test_an_output_file_has_a_folder_of_its_own(jobs, given, name):
    ran = jobs.run(
        "cat {config_path}",
        specs={"export": {"onnx_file": given}},
        outputs={"export.onnx_file": {"type": "file"}},
        config_format="json",
    )
    path = Path(json.loads(ran.out)["export"]["onnx_file"])
    assert path == jobs.results / "export.onnx_file" / name
    assert path.parent.is_dir() and not path.exists()


def test_the_results_root_wins_over_the_bucket(jobs):
    assert place_of(jobs, "", env={"S3_BUCKET_NAME": "bucket"}) == str(jobs.results / "results_dir")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may write to /results")
def test_without_root_and_bucket_results_are_in_the_container_and_the_loss_is_announced_twice(
    jobs, tmp_path
):
    job = f"test-{os.getpid()}"
    existed = Path("/results").exists()
    ran = jobs.run(
        "echo $TAO_RESULTS_DIR",
        outputs=[str(tmp_path / "o")],
        env={"TAO_RESULTS_ROOT": "", "TAO_JOB_ID": job},
    )
    assert ran.out.decode().strip() == f"/results/{job}"
    assert ran.warnings.count("output.ephemeral") == 2
    assert ran.err.endswith(b"is gone when the container is.\n")
    assert ran.err.count(b"WARNING: RESULTS WILL BE LOST") == 1
    shutil.rmtree(f"/results/{job}")
    if not existed:
        Path("/results").rmdir()


def test_results_that_cannot_be_written_end_the_job_before_its_work(jobs, tmp_path):
    (tmp_path / "file").write_text("")
    ran = place_of(jobs, "", env={"TAO_RESULTS_ROOT": str(tmp_path / "file")})
    assert (ran.code, ran.out) == (125, b"")
    assert ran.failure["code"] == "output.unwritable"


def test_a_job_that_keeps_nothing_runs_without_a_place_for_results(jobs, tmp_path):
    (tmp_path / "file").write_text("")
    ran = jobs.run(
        "cat {config_path} hello",
        specs={"a": 1},
        config_format="yaml",
        files={"hello": "hello"},
        env={"TAO_RESULTS_ROOT": str(tmp_path / "file")},
    )
    assert (ran.code, ran.out) == (0, b"a: 1\nhello"), ran.raw
    assert ran.warnings == ["results.unwritable"]
    assert list(tmp_path.glob("tao-*")) == []


def test_the_command_is_told_where_results_are_kept(jobs):
    assert jobs.run("echo $TAO_RESULTS_DIR").out.decode().strip() == str(jobs.results)


def test_the_manifest_lists_every_file_with_size_and_checksum(jobs):
    ran = jobs.run(
        "cd $TAO_RESULTS_DIR; mkdir -p a/b; printf one > a/b/1; : > empty; printf x > \"ü 'q'\n\""
    )
    assert ran.manifest["whole"] is True
    assert (
        ran.manifest["schema"],
        ran.manifest["job"],
        ran.manifest["attempt"],
        ran.manifest["exit_code"],
    ) == (
        1,
        "job-1",
        1,
        0,
    )
    assert set(ran.files) == {"a/b/1", "empty", "ü 'q'\n"}
    assert ran.files["a/b/1"]["size"] == 3
    assert ran.files["a/b/1"]["sha256"] == hashlib.sha256(b"one").hexdigest()


def test_the_manifest_is_renewed_while_the_command_runs_and_a_growing_file_has_no_checksum(
    jobs, eventually
):
    job = jobs.start(
        "cd $TAO_RESULTS_DIR; echo done > still; while [ ! -e stop ]; do echo line >> "
        "growing; sleep 0.01; done",
        env={"TAO_SYNC_SECONDS": "0.4"},
    )
    path = jobs.results / ".tao" / "manifest.json"

    def still_is_known():
        files = (
            {each["path"]: each for each in json.loads(path.read_text())["files"]}
            if path.exists()
            else {}
        )
        return files if files.get("still", {}).get("sha256") else None

    files = eventually(still_is_known)
    manifest = json.loads(path.read_text())
    (jobs.results / "stop").write_text("")
    assert (manifest["whole"], manifest["exit_code"], files["growing"]["sha256"]) == (
        False,
        None,
        None,
    )
    assert job.ended().files["growing"]["sha256"]


NO_MANIFEST = "mkdir $TAO_RESULTS_DIR/.tao/manifest.json"


def test_a_manifest_that_cannot_be_written_keeps_nothing_from_being_copied(jobs, tmp_path):
    ran = jobs.run(f"echo 1 > {tmp_path}/x; {NO_MANIFEST}", outputs=[f"{tmp_path}/x"])
    assert (ran.code, ran.failure["code"]) == (125, "output.lost")
    assert (jobs.results / "x").read_text() == "1\n"


def test_results_are_looked_after_once_a_minute_unless_the_job_says_otherwise():
    assert (
        ResultsFolder({}, "j").interval,
        ResultsFolder({"TAO_SYNC_SECONDS": "5"}, "j").interval,
    ) == (60, 5)


def test_excluded_prefixes_are_left_out_and_nothing_else(jobs):
    command = (
        "cd $TAO_RESULTS_DIR; mkdir -p inputs/deep inputs2 keep; touch inputs/x inputs/deep/y "
        "inputs2/z keep/inputs"
    )
    assert set(jobs.run(command, upload_excludes=["inputs/"]).files) == {"inputs2/z", "keep/inputs"}


def test_a_pattern_may_exclude_too(jobs):
    command = "cd $TAO_RESULTS_DIR; mkdir a; touch a/x.tmp a/y y.tmp"
    assert set(jobs.run(command, upload_excludes=["*.tmp"]).files) == {"a/y"}


def test_what_is_excluded_is_not_copied_either(jobs, tmp_path):
    out = tmp_path / "out"
    command = (
        f"mkdir -p {out}/cache {out}/keep; touch {out}/cache/x "
        f"{out}/keep/y {out}/keep/z.tmp {out}/w"
    )
    jobs.run(command, outputs={str(out): "folder"}, upload_excludes=["out/cache/", "*.tmp"])
    assert {each.name for each in (jobs.results / "out").rglob("*") if each.is_file()} == {"y", "w"}


def test_a_folder_that_is_an_output_is_there_for_the_command(jobs, tmp_path):
    assert jobs.run(f"echo 1 > {tmp_path}/made/x", outputs=[f"{tmp_path}/made/"]).code == 0
    assert (jobs.results / "made" / "x").exists()


def test_what_cannot_be_kept_costs_only_itself_and_is_told(jobs):
    code = "import socket; socket.socket(socket.AF_UNIX).bind('sock')"
    ran = jobs.run(
        "cd $TAO_RESULTS_DIR; echo 1 > good; ln -s /nowhere broken; mkfifo pipe; python3 -c "
        f'"{code}"; ln -s . loop'
    )
    assert ran.code == 0
    assert set(ran.files) == {"good"}
    assert ran.warnings == ["output.left_out"]
    assert [each.split(":")[0] for each in ran.named("warning")[0].facts["paths"]] == [
        "broken",
        "pipe",
        "sock",
    ]
    assert len(ran.manifest["left_out"]) == 3


def test_a_link_to_a_file_or_folder_is_kept_as_what_it_points_to(jobs, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("f")
    ran = jobs.run(
        "cd $TAO_RESULTS_DIR; echo 1 > epoch_1.pth; ln -s epoch_1.pth latest.pth; ln -s "
        f"{tmp_path}/outside linked"
    )
    assert set(ran.files) == {"epoch_1.pth", "latest.pth", "linked/f"}


def test_a_link_to_a_folder_that_holds_the_results_is_left_out_and_told(jobs, tmp_path):
    (jobs.root / "another-job").mkdir(parents=True)
    (jobs.root / "another-job" / "theirs").write_text("1")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "round").symlink_to(tmp_path)
    ran = jobs.run(
        "cd $TAO_RESULTS_DIR; echo 1 > x; ln -s . self; ln -s / all; ln -s .. jobs; ln -s "
        f"{tmp_path}/outside outside",
        timeout=300,
    )
    assert ran.code == 0 and set(ran.files) == {"x"}
    assert ran.warnings == ["output.left_out"]
    left_out = ran.named("warning")[0].facts["paths"]
    assert {each.split(":")[0] for each in left_out} == {"all", "jobs", "outside/round"}
    assert ran.manifest["whole"] is True


@pytest.mark.parametrize("ending", ["exit 3", "kill -KILL $$", "kill -TERM $PPID; sleep 100"])
def test_results_are_accounted_for_however_the_command_ends(jobs, ending):
    ran = jobs.run(
        f"cd $TAO_RESULTS_DIR; echo 1 > old; touch -d '1 hour ago' old; echo 1 > fresh; {ending}"
    )
    assert ran.manifest["whole"] is True
    assert ran.manifest["exit_code"] == ran.code != 0
    assert ran.files["old"]["sha256"]
    assert ran.files["fresh"]["sha256"] is None  # it may have been cut off


def test_passthrough_outputs_are_copied_below_their_last_names(jobs, tmp_path):
    out = tmp_path / "c" / "out"
    ran = jobs.run(
        f"mkdir -p {out}/deep; echo 1 > {out}/deep/x; echo m > {tmp_path}/model.onnx",
        outputs=[f"{out}/", f"{tmp_path}/model.onnx"],
    )
    assert (jobs.results / "out" / "deep" / "x").read_text() == "1\n"
    assert (jobs.results / "model.onnx").read_text() == "m\n"
    assert set(ran.files) == {"out/deep/x", "model.onnx"}


def test_a_relative_path_is_what_the_command_sees_there_also_beside_its_files(
    jobs, tmp_path, monkeypatch
):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "earlier").write_text("of another run")
    monkeypatch.chdir(tmp_path)
    ran = jobs.run("mkdir -p out; cp x.txt out/", files={"x.txt": "new"}, outputs=["out"])
    assert (ran.code, ran.warnings) == (0, [])
    assert set(ran.files) == {"work/x.txt", "work/out/x.txt", "out/x.txt"}


def test_passthrough_outputs_of_the_same_last_name_do_not_overwrite_each_other(jobs, tmp_path):
    a, b = tmp_path / "a" / "out", tmp_path / "b" / "out"
    ran = jobs.run(f"mkdir -p {a} {b}; echo A > {a}/x; echo B > {b}/x", outputs=[str(a), str(b)])
    assert {path: (jobs.results / path).read_text() for path in ran.files} == {
        f"{str(a)[1:]}/x": "A\n",
        f"{str(b)[1:]}/x": "B\n",
    }


def test_an_output_that_holds_the_results_or_lies_in_them_stays_where_it_is(jobs):
    ran = jobs.run(
        "mkdir $TAO_RESULTS_DIR/sub; echo 1 > $TAO_RESULTS_DIR/sub/x",
        outputs=[str(jobs.root) + "/", str(jobs.results / "sub")],
    )
    assert set(ran.files) == {"sub/x"}


def test_an_output_that_holds_the_results_is_all_that_lies_in_it_but_the_folders_of_jobs(jobs):
    for name in ("other-abc1234567", "marked/.tao"):
        (jobs.root / name).mkdir(parents=True)
        (jobs.root / name / "theirs").write_text("theirs")
    ran = jobs.run(
        f"echo 1 > {jobs.root}/model.pth; mkdir -p {jobs.root}/train/model-resnet50v1 $TAO_RESULTS_DIR/sub; "
        f"echo 2 > {jobs.root}/train/model-resnet50v1/x; mkdir {jobs.root}/my-resnet50v1; "
        f"echo 3 > {jobs.root}/my-resnet50v1/x; echo 4 > $TAO_RESULTS_DIR/sub/y",
        outputs=[f"{jobs.root}/"],
    )
    copied = {"results/model.pth", "results/train/model-resnet50v1/x", "results/my-resnet50v1/x"}
    assert (ran.code, ran.warnings) == (0, [])
    assert set(ran.files) == {"sub/y", *copied}


def test_an_output_above_the_place_of_results_leaves_jobs_out(jobs, tmp_path):
    above = tmp_path / "above"
    env = {"TAO_RESULTS_ROOT": f"{above}/runs"}
    ran = jobs.run(
        f"echo 1 > {above}/x; echo 2 > {above}/runs/y; echo 3 > $TAO_RESULTS_DIR/z",
        outputs=[f"{above}"],
        env=env,
    )
    assert (ran.code, ran.warnings) == (0, [])
    found = {
        str(path.relative_to(above / "runs" / "job-1"))
        for path in (above / "runs" / "job-1").rglob("[xyz]")
    }
    assert found == {"above/x", "above/runs/y", "z"}


def test_an_output_that_was_never_written_is_told(jobs, tmp_path):
    ran = jobs.run("true", outputs=[f"{tmp_path}/nothing"])
    assert (ran.code, ran.warnings) == (0, ["output.missing"])


def test_what_an_output_had_before_the_command_and_still_has_is_left_out(jobs, tmp_path):
    out = tmp_path / "o"
    out.mkdir()
    for name in ("ckpt_1.pt", "ckpt_2.pt", "again.pt", "kept_time.pt", "log.txt"):
        (out / name).write_text("old")
    (tmp_path / "one.pt").write_text("old")
    command = (
        f"cd {out}; test -e ckpt_9.pt && {{ echo 3 > ckpt_3.pt; exit; }}; echo 9 > ckpt_9.pt;"
        "echo more >> log.txt; echo -n old > again.pt; cp -p ckpt_1.pt c; cp -p c copied.pt;"
        "touch -r kept_time.pt t; echo -n new > kept_time.pt; touch -r t kept_time.pt; rm c t; exit 1"
    )
    outputs = [str(out), f"{tmp_path}/one.pt"]
    first = jobs.run(command, outputs=outputs)
    own = {f"o/{name}" for name in ("ckpt_9.pt", "again.pt", "kept_time.pt", "copied.pt")}
    assert (first.code, set(first.files)) == (1, own | {"o/log.txt"})
    assert first.warnings == ["output.older", "output.older"]
    facts = [event.facts["what"] for event in first.named("warning")]
    assert facts[0] == f"2 files of {out} are older than the job and were left out."
    # a further attempt keeps what the first one wrote
    second = jobs.run(command, outputs=outputs, env={"TAO_ATTEMPT": "2"})
    assert (second.code, set(second.files)) == (0, own | {"o/log.txt", "o/ckpt_3.pt"})


def test_of_very_many_files_the_older_ones_are_known_by_the_clock(tmp_path, monkeypatch):
    out = tmp_path / "o"
    out.mkdir()
    results = ResultsFolder({"TAO_RESULTS_ROOT": str(tmp_path / "results")}, "job-1")
    Path(results.own_folder).mkdir(parents=True)
    (tmp_path / "one").write_text("old")
    (out / "x.pt").write_text("old")
    monkeypatch.setattr(older_record, "MOST", 1)
    monkeypatch.setattr(older_record, "SKEW", -3600.0)  # as if an hour had passed
    copies = [{"path": str(path), "name": path.name} for path in (tmp_path / "one", out)]
    files = older_record.note_older_files(copies, results)
    assert set(files.marks) == {f"{tmp_path}/one"}
    assert files.own_files(str(out), Tree(str(out), [])) == {}
    files.unnoted_before -= 7200
    assert set(files.own_files(str(out), Tree(str(out), []))) == {"x.pt"}
    assert older_record.note_older_files(copies, results).marks == files.marks, (
        "read from its record"
    )


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_an_output_of_the_spec_that_was_never_written_is_told(jobs, kind):
    ran = jobs.run("true {config_path}", specs={"a": 1}, outputs={"out": {"type": kind}})
    assert (ran.code, ran.warnings, ran.stages[-1]) == (0, ["output.missing"], "done")
    assert str(jobs.results / "out") in ran.named("warning")[0].facts["what"]


def test_nothing_is_told_of_an_optional_output_that_was_never_written(jobs):
    wanted = {
        "out": {"type": "folder", "optional": True},
        "model": {"type": "file", "optional": True},
    }
    ran = jobs.run("true {config_path}", specs={"a": 1}, outputs=wanted)
    assert (ran.code, ran.warnings) == (0, [])
    ran = jobs.run("true", outputs={"/tmp/never/out": {"optional": True}, "/tmp/never/other": {}})
    assert (ran.code, len(ran.named("warning"))) == (0, 1)
    assert "/tmp/never/other" in ran.named("warning")[0].facts["what"]


@pytest.mark.parametrize(
    ("command", "env"),
    [
        ("echo 1 > {out}/x", {}),
        ("mkdir {out}/train; echo 1 > {out}/train/x", {}),
        ("exit 3", {}),
        ("true", {"TAO_RANK": "1"}),
    ],
)
def test_nothing_is_told_of_an_output_with_a_file_nor_after_a_failure_nor_by_a_further_rank(
    jobs, command, env
):
    ran = jobs.run(command, args={"out": ""}, outputs={"out": {"type": "folder"}}, env=env)
    assert ran.warnings == []


def test_outputs_are_kept_when_the_command_fails(jobs, tmp_path):
    ran = jobs.run(
        f"mkdir {tmp_path}/o; echo 50 > {tmp_path}/o/epoch_50.pth; exit 1",
        outputs=[f"{tmp_path}/o"],
    )
    assert ran.code == 1
    assert (jobs.results / "o" / "epoch_50.pth").read_text() == "50\n"


def test_outputs_are_copied_as_they_grow_and_a_file_in_motion_never_appears_half(
    jobs, tmp_path, eventually
):
    out, kept = tmp_path / "o", jobs.results / "o"
    job = jobs.start(
        f"mkdir {out}; echo whole > {out}/still.pth; while [ ! -e {tmp_path}/stop ]; do "
        f"echo line >> {out}/status.json; echo line >> {out}/moving.pth; sleep 0.01; done",
        outputs=[str(out)],
        env={"TAO_SYNC_SECONDS": "0.4"},
    )
    eventually(lambda: (kept / "still.pth").exists() and (kept / "status.json").exists())
    first = (kept / "status.json").read_bytes()
    inode = (kept / "status.json").stat().st_ino
    eventually(lambda: len((kept / "status.json").read_bytes()) > len(first))
    assert (kept / "status.json").read_bytes().startswith(first)
    assert (kept / "status.json").stat().st_ino == inode
    assert not (kept / "moving.pth").exists()
    (tmp_path / "stop").write_text("")
    assert job.ended().code == 0
    for name in ("status.json", "moving.pth", "still.pth"):
        assert (kept / name).read_bytes() == (out / name).read_bytes()


def test_a_growing_file_that_was_rewritten_is_copied_whole(jobs, tmp_path, eventually):
    out, kept = tmp_path / "o", jobs.results / "o" / "x.log"
    job = jobs.start(
        f"mkdir {out}; echo old > {out}/x.log; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; "
        f"echo a rewritten file > {out}/x.log",
        outputs=[str(out)],
        env={"TAO_SYNC_SECONDS": "0.05"},
    )
    eventually(kept.exists)
    (tmp_path / "go").write_text("")
    job.ended()
    assert kept.read_text() == "a rewritten file\n"


@pytest.mark.parametrize("looks", [1, 2])
def test_a_table_in_which_one_row_was_changed_is_kept_as_it_is(jobs, tmp_path, eventually, looks):
    """It begins and ends as before; a look may have taken it for a file that was
    only appended to.
    """
    out, kept = tmp_path / "out", jobs.results / "out" / "x.csv"
    rows = [f"row {number:05}" for number in range(30_000)]
    job = jobs.start(
        f"echo ready; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done",
        outputs={str(out): "folder"},
        env={"TAO_SYNC_SECONDS": "0.1" if looks == 2 else "0.5"},
    )
    job.until(b"ready")
    out.mkdir()
    (out / "x.csv").write_text("\n".join(rows))
    eventually(kept.exists)
    rows[15_000] = "row other"
    (out / "x.csv").write_text("\n".join(rows))
    if looks == 2:
        eventually(lambda: kept.stat().st_mtime == (out / "x.csv").stat().st_mtime)
    (tmp_path / "go").touch()
    assert job.ended().code == 0
    assert kept.read_text().split("\n") == rows


def test_output_that_could_not_be_copied_makes_the_job_fail_and_says_where_it_still_is(
    jobs, tmp_path
):
    out = tmp_path / "o"
    ran = jobs.run(
        f"mkdir {out}; echo 1 > {out}/x; mkdir -p $TAO_RESULTS_DIR; echo > $TAO_RESULTS_DIR/o",
        outputs=[str(out)],
    )
    assert ran.code == 125
    assert ran.failure["code"] == "output.lost"
    assert str(out / "x") in ran.failure["why"]
    assert ran.manifest["exit_code"] == 0


AS_NOBODY = (
    ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "bash", "-c")
    if os.geteuid() == 0
    else BASH
)


def test_a_file_that_nobody_can_read_costs_only_itself(jobs, tmp_path):
    out = tmp_path / "o"
    command = f"mkdir {out}; echo 1 > {out}/x; chmod 0 {out}/x; echo 2 > {out}/y"
    ran = jobs.run_text(
        build_entrypoint(command=command, outputs=[str(out)])["command"], shell=AS_NOBODY
    )
    assert (ran.code, ran.stages[-1], ran.warnings) == (0, "done", ["output.left_out"]), ran.raw
    assert [path.name for path in (jobs.results / "o").iterdir()] == ["y"]


def test_a_growing_file_that_may_only_be_read_is_copied_again_when_it_was_replaced(jobs, tmp_path):
    out = tmp_path / "o"
    for content in ("old", "old and new"):
        command = (
            f"mkdir -p {out}; rm -f {out}/x.txt; echo -n {content!r} > "
            f"{out}/x.txt; chmod 444 {out}/x.txt"
        )
        ran = jobs.run_text(
            build_entrypoint(command=command, outputs=[str(out)])["command"], shell=AS_NOBODY
        )
        assert ran.code == 0, ran.raw
        assert (jobs.results / "o" / "x.txt").read_text() == content


def test_a_full_disk_is_told_and_leaves_no_half_files(jobs, tmp_path, request):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)],
        capture_output=True,
        check=False,
    ).returncode:
        pytest.skip("needs the right to mount")
    request.addfinalizer(lambda: subprocess.run(["umount", "-l", str(small)], check=False))
    out = tmp_path / "o"
    ran = jobs.run(
        f"mkdir {out}; head -c 4000000 /dev/zero > {out}/big; echo 1 > {out}/zsmall",
        outputs=[str(out)],
        env={"TAO_RESULTS_ROOT": str(small)},
    )
    kept = small / "job-1" / "o"
    assert ran.failure["code"] == "output.lost"
    assert sorted(path.name for path in kept.iterdir()) == ["zsmall"]


def test_every_rank_has_its_own_log_and_rank_0_the_manifest(jobs, tmp_path):
    jobs.run("echo zero")
    before = (jobs.results / ".tao" / "manifest.json").read_bytes()
    jobs.run(
        f"mkdir {tmp_path}/o; echo 1 > {tmp_path}/o/x; echo two",
        outputs=[f"{tmp_path}/o"],
        env={"TAO_RANK": "2"},
    )
    own = jobs.results / ".tao"
    assert (own / "job.log").read_text() == "zero\n"
    assert (own / "job.rank-2.log").read_text() == "two\n"
    assert (own / "manifest.json").read_bytes() == before
    assert (jobs.results / ".rank-2" / "o" / "x").exists()


def test_an_earlier_attempts_log_is_kept_beside_the_new_one(jobs):
    jobs.run("echo first")
    jobs.run("echo second", env={"TAO_ATTEMPT": "2"})
    own = jobs.results / ".tao"
    assert (own / "job.log").read_text() == "second\n"
    assert (own / "job.log.attempt-1").read_text() == "first\n"


def test_a_log_is_for_its_owner_only(jobs):
    jobs.run("echo x", specs={"token": "x"})
    assert (jobs.results / ".tao" / "job.log").stat().st_mode & 0o777 == 0o600
    assert (jobs.results / "spec.toml").stat().st_mode & 0o777 == 0o600


@pytest.fixture
def coarse_disk(tmp_path):
    """A file system that has times to the second only."""
    if not shutil.which("mke2fs"):
        pytest.skip("there is no mke2fs")
    image, folder = tmp_path / "image", tmp_path / "coarse"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(8 << 20)
    subprocess.run(["mke2fs", "-q", "-t", "ext2", "-I", "128", image], capture_output=True)
    if subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True).returncode:
        pytest.skip("only root may mount a disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_what_stands_still_is_copied_once_also_to_a_disk_with_coarse_times(coarse_disk, tmp_path):
    out = tmp_path / "o"
    out.mkdir()
    (out / "x.pth").write_bytes(b"x")
    os.utime(out / "x.pth", (1_600_000_000.5, 1_600_000_000.5))
    copies = Copies(
        [{"path": str(out), "name": "o"}],
        ResultsFolder({"TAO_RESULTS_ROOT": str(coarse_disk)}, "job-1"),
        [],
    )
    copies.renew(final=False)
    copies.renew(final=False)
    first = (coarse_disk / "job-1" / "o" / "x.pth").open()  # keeps its number from being used again
    copies.renew(final=True)
    assert os.path.samestat(
        os.fstat(first.fileno()), (coarse_disk / "job-1" / "o" / "x.pth").stat()
    )
    (out / "x.pth").write_bytes(b"y")
    copies.renew(final=True)
    assert (coarse_disk / "job-1" / "o" / "x.pth").read_bytes() == b"y"
    first.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model.pth", "train.log"])
def test_a_file_replaced_by_one_of_its_size_while_it_is_copied_is_copied_again(tmp_path, name):
    """Else the kept one would have the old bytes and the new time, and nobody would ever look
    again.
    """
    size, out, new = 300_000_000, tmp_path / "o", tmp_path / "new"
    place = ResultsFolder({"TAO_RESULTS_ROOT": str(tmp_path / "results")}, "job-1")
    kept = Path(place.folder) / "o"
    for folder in (out, kept):
        folder.mkdir(parents=True)
    copies = Copies([{"path": str(out), "name": "o"}], place, [])

    def replace():
        while not any(each.stat().st_size for each in kept.iterdir()):
            time.sleep(0.001)
        new.replace(out / name)
        return over.is_set()

    late = True  # the copy was complete when it was replaced
    while late:
        over = threading.Event()
        with (out / name).open("wb") as old, new.open("wb") as other:
            old.truncate(size)
            other.truncate(size)
            other.write(b"new")
        os.utime(out / name, (1_600_000_000, 1_600_000_000))
        (kept / name).write_bytes(b"") if name.endswith("log") else (kept / name).unlink(
            missing_ok=True
        )
        with ThreadPoolExecutor() as pool:
            replaced = pool.submit(replace)
            copies.renew(True)
            over.set()
            late = replaced.result()
    copies.renew(True)
    assert (copies.failed, (kept / name).read_bytes()[:3]) == ([], b"new")


def test_a_file_with_the_longest_name_that_there_may_be_is_kept(jobs, tmp_path):
    names = ["模" * 83 + ".pth", "x" * 251 + ".pth"]
    files = " ".join(f"o/{name}" for name in names)
    ran = jobs.run(f"cd {tmp_path}; mkdir o; touch {files}", outputs=[f"{tmp_path}/o"])
    assert (ran.code, set(ran.files)) == (0, {f"o/{name}" for name in names})


def test_an_output_that_is_a_pipe_is_told_and_not_waited_for(jobs, tmp_path):
    ran = jobs.run(f"mkfifo {tmp_path}/pipe", outputs=[f"{tmp_path}/pipe"])
    assert (ran.code, ran.warnings) == (0, ["output.left_out"])
    assert ran.named("warning")[0].facts["paths"] == [f"{tmp_path}/pipe: not a file"]


def test_an_output_that_the_command_wrote_into_the_results_itself_is_not_said_to_be_missing(jobs):
    command = 'mkdir "$TAO_RESULTS_DIR/out"; echo 42 > "$TAO_RESULTS_DIR/out/x"'
    ran = jobs.run(command, outputs=["out"], files={"a": b"1"})
    assert (ran.code, ran.warnings) == (0, [])
    assert "out/x" in ran.files


@pytest.mark.parametrize("text", ['["x", {}]', "[" * 100_000, "[1" + "0" * 400 + ", {}]", "{}"])
def test_a_record_of_older_files_that_the_job_wrote_over_says_nothing(tmp_path, text):
    record = tmp_path / "older.json"
    record.write_text(text)
    record.chmod(0o600)
    assert older_record.read_record(str(record)) == ({}, 0.0)
