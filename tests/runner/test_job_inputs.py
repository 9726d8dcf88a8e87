"""Inputs of this machine: found by looking, hardly ever copied, and never quietly missing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import yaml

from tao_sdk.script_runner import build_entrypoint


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    (folder / "images").mkdir(parents=True)
    (folder / "images" / "a.png").write_text("a")
    (folder / "list.json").write_text("[]")
    return folder


def spec_of(ran):
    assert ran.code == 0, ran.raw
    return yaml.safe_load(ran.out)


def show(jobs, specs, inputs, **more):
    return jobs.run("cat {config_path}", specs=specs, inputs=inputs, config_format="yaml", **more)


@pytest.mark.parametrize("prefix", ["", "file://", "file://localhost", "lustre://"])
def test_a_local_address_becomes_its_absolute_path(jobs, data, prefix):
    ran = show(jobs, {"a": {"b": [{"c": f"{prefix}{data}/list.json"}]}}, ["a.b[0].c"])
    assert spec_of(ran) == {"a": {"b": [{"c": f"{data}/list.json"}]}}


def test_a_relative_path_is_below_the_place_where_the_command_starts(jobs, data):
    ran = show(jobs, {"in": "sub/x.txt"}, ["in"], files={"sub/x.txt": "x"})
    assert spec_of(ran) == {"in": str(jobs.results / "work" / "sub" / "x.txt")}


@pytest.mark.parametrize("declared", ["file", "folder", ""])
def test_what_an_input_is_decides_looking_and_not_the_declared_type(jobs, data, declared):
    specs = {"in": {"folder": f"{data}/images/", "file": f"{data}/list.json"}}
    ran = show(jobs, specs, {"in.folder": {"type": declared}, "in.file": {"type": declared}})
    assert spec_of(ran) == {"in": {"folder": f"{data}/images", "file": f"{data}/list.json"}}


def test_each_item_of_a_list_is_an_input(jobs, data):
    ran = show(jobs, {"in": [f"file://{data}/list.json", f"{data}/images"]}, ["in"])
    assert spec_of(ran) == {"in": [f"{data}/list.json", f"{data}/images"]}


@pytest.mark.parametrize("literal", ["list", "local_glob"])
def test_a_literal_list_or_glob_is_left_to_the_program(jobs, literal):
    specs = {"urls": "/nowhere/*.mp4", "captions": ["a cat", "s3://not-an-input"]}
    ran = show(jobs, specs, {"urls": {"type": literal}, "captions": {"type": literal}})
    assert spec_of(ran) == specs


def test_a_name_with_percent_signs_is_found_as_written_and_as_decoded(jobs, data):
    (data / "a%20b").write_text("literal")
    (data / "c d").write_text("decoded")
    ran = show(jobs, {"x": f"file://{data}/a%20b", "y": f"file://{data}/c%20d"}, ["x", "y"])
    assert spec_of(ran) == {"x": f"{data}/a%20b", "y": f"{data}/c d"}


@pytest.mark.parametrize("value", ["", None])
def test_an_optional_input_that_is_empty_is_skipped(jobs, value):
    ran = show(
        jobs, {"in": value, "a": 1}, {"in": {"optional": True}, "not.there": {"optional": True}}
    )
    assert spec_of(ran) == {"in": value, "a": 1}


def test_an_optional_input_that_is_given_and_missing_is_an_error(jobs):
    assert (
        show(jobs, {"in": "/nowhere/x"}, {"in": {"optional": True}}).failure["code"]
        == "input.missing"
    )


def test_a_missing_input_ends_the_job_before_the_command_with_place_and_advice(jobs, data):
    ran = jobs.run("echo never", specs={"in": f"{data}/imagez/a.png"}, inputs=["in"])
    assert (ran.code, ran.out) == (125, b"")
    assert ran.failure["code"] == "input.missing"
    assert f"{data}/imagez/a.png" in ran.failure["what"]
    assert str(data) in ran.failure["why"]
    assert "mounted" in ran.failure["next"]


def test_a_dangling_link_is_told_as_one(jobs, data):
    (data / "link").symlink_to("/nowhere")
    assert "link" in show(jobs, {"in": f"{data}/link"}, ["in"]).failure["why"]


def test_an_empty_folder_is_told(jobs, tmp_path):
    (tmp_path / "empty").mkdir()
    ran = show(jobs, {"in": str(tmp_path / "empty")}, ["in"])
    assert ran.warnings == ["input.empty"]


def test_container_path_puts_the_input_where_the_program_wants_it(jobs, data, tmp_path):
    target = tmp_path / "in" / "container" / "root"
    specs = {"in": {"root": str(data / "images")}}
    for _ in range(2):  # a restart finds its own link
        ran = show(jobs, specs, {"in.root": {"type": "folder", "container_path": str(target)}})
        assert spec_of(ran) == {"in": {"root": str(target)}}
    assert (target / "a.png").read_text() == "a"


def test_the_items_of_a_list_go_into_their_container_path(jobs, data, tmp_path):
    specs = {"in": [f"{data}/images/", f"{data}/list.json"]}
    ran = show(jobs, specs, {"in": {"container_path": f"{tmp_path}/c"}})
    assert spec_of(ran) == {"in": [f"{tmp_path}/c/images", f"{tmp_path}/c/list.json"]}
    assert (tmp_path / "c" / "images" / "a.png").exists()


def test_a_passthrough_input_is_there_under_its_path_file_or_folder(jobs, data, tmp_path):
    ran = jobs.run(
        f"cat {tmp_path}/x/list.json {tmp_path}/y/imgs/a.png {tmp_path}/z/list.json",
        inputs={
            f"{tmp_path}/x/list.json": f"{data}/list.json",
            f"{tmp_path}/y/imgs/": f"file://{data}/images/",
            f"{tmp_path}/z/": f"{data}/list.json",
        },
    )
    assert (ran.code, ran.out) == (0, b"[]a[]")


def test_an_empty_folder_of_the_image_gives_way_to_a_passthrough_input(jobs, data, tmp_path):
    (tmp_path / "imgs").mkdir()
    ran = jobs.run(f"ls {tmp_path}/imgs/", inputs={f"{tmp_path}/imgs": f"{data}/images"})
    assert ran.out == b"a.png\n"


def test_data_in_the_way_of_a_passthrough_input_is_never_replaced(jobs, data, tmp_path):
    (tmp_path / "imgs").mkdir()
    (tmp_path / "imgs" / "mine").write_text("mine")
    ran = jobs.run("echo never", inputs={f"{tmp_path}/imgs": f"{data}/images"})
    assert ran.failure["code"] == "input.in_the_way"
    assert (tmp_path / "imgs" / "mine").read_text() == "mine"


LINKS = """
import os, sys
from tao_sdk.runner.inputs import target as inputs
while not os.path.exists(sys.argv[1] + "/go"): pass
for number in range(500):
    for kind in "new", "old":
        wanted = {"key": "k", "uri": "u", "kind": "", "target": "%s/%s-%d" % (sys.argv[1], kind, number), "options": {}}
        inputs.put_input(wanted, sys.argv[1] + "/data", "/elsewhere/")
        assert os.listdir(wanted["target"]) == ["x"]
"""


def test_ranks_that_put_an_input_at_one_place_do_not_disturb_each_other(tmp_path):
    for name in ("data", "before"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "x").touch()
    for number in range(500):
        (tmp_path / f"old-{number}").symlink_to("before")
    ranks = [
        subprocess.Popen([sys.executable, "-c", LINKS, tmp_path], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    (tmp_path / "go").touch()
    assert [rank.wait() for rank in ranks] == [0, 0, 0]
    assert len(list(tmp_path.iterdir())) == 1003


def test_a_passthrough_input_that_is_not_there_never_becomes_an_empty_folder(jobs, tmp_path):
    for path in (f"{tmp_path}/imgs/", f"{tmp_path}/imgs"):
        ran = jobs.run("echo never", inputs={path: "/nowhere/images/"})
        assert (ran.failure["code"], ran.out) == ("input.missing", b"")
        assert not (tmp_path / "imgs").exists()


def test_a_path_that_is_mounted_already_is_only_looked_for(jobs, data):
    assert jobs.run("true", inputs=[f"{data}/images"]).code == 0
    assert jobs.run("true", inputs=["/nowhere/images"]).failure["code"] == "input.missing"


def test_an_input_that_may_not_be_read_is_told_with_the_user(jobs, data):
    (data / "list.json").chmod(0)
    as_nobody = (
        ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "bash", "-c")
        if os.geteuid() == 0
        else ("bash", "-c")
    )
    text = build_entrypoint(command="echo never", specs={"in": f"{data}/list.json"}, inputs=["in"])[
        "command"
    ]
    ran = jobs.run_text(text, shell=as_nobody)
    assert (ran.failure["code"], ran.out) == ("input.unreadable", b"")
    assert f"user {os.geteuid()}" in ran.failure["why"]


def test_files_of_the_job_lie_where_it_says_and_scripts_can_be_run(jobs, tmp_path):
    files = {
        "bin/run": "#!/bin/sh\necho ran $1\n",
        f"{tmp_path}/abs/x": b"\x00\xff",
        "a b/'c'": "é",
    }
    ran = jobs.run(f"bin/run it; cat {tmp_path}/abs/x \"a b/'c'\"; pwd", files=files)
    assert ran.out == b"ran it\n\x00\xff\xc3\xa9" + str(jobs.results / "work").encode() + b"\n"
    assert ran.named("fetched")[0].facts["bytes"] == sum(
        len(text.encode() if isinstance(text, str) else text) for text in files.values()
    )


def test_without_files_the_command_starts_where_the_image_says(jobs, tmp_path):
    assert jobs.run("pwd").out.decode().strip() == str(tmp_path)
    assert jobs.run("pwd", files={f"{tmp_path}/only/absolute": ""}).out.decode().strip() == str(
        tmp_path
    )


def test_a_file_that_cannot_be_written_is_told(jobs, tmp_path):
    (tmp_path / "file").write_text("")
    ran = jobs.run("echo never", files={f"{tmp_path}/file/below": "x"})
    assert (ran.failure["code"], ran.out) == ("file.unwritable", b"")


def test_a_file_in_the_jobs_own_folder_is_a_copy_that_the_command_may_write_over(jobs, data):
    ran = jobs.run(
        "cat list.json; echo mine > list.json",
        inputs={"list.json": f"{data}/list.json"},
        files={"a.py": "pass"},
    )
    assert (ran.code, ran.out) == (0, b"[]")
    assert (data / "list.json").read_text() == "[]"
    assert (jobs.results / "work" / "list.json").read_text() == "mine\n"
    assert ran.warnings == []


def test_a_further_attempt_gets_the_file_as_its_source_has_it_now(jobs, data):
    inputs, files = {"list.json": f"{data}/list.json"}, {"a.py": "pass"}
    jobs.run("echo mine > list.json", inputs=inputs, files=files)
    (data / "list.json").write_text("new")
    assert jobs.run("cat list.json", inputs=inputs, files=files).out == b"new"


def test_a_large_file_and_a_folder_are_links_and_never_copied(jobs, data):
    with (data / "large").open("wb") as file:
        file.truncate((64 << 20) + 1)
    ran = jobs.run(
        "readlink large images",
        inputs={"large": f"{data}/large", "images": f"{data}/images"},
        files={"a.py": "pass"},
    )
    assert ran.out.decode().split() == [f"{data}/large", f"{data}/images"]


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("echo mine > list.json", "list.json"),
        ("echo more > images/b.png", "images"),
        ("echo more > images/a.png", "images"),
        ("rm images/a.png", "images"),
        ("echo mine > list.json; exit 3", "list.json"),
    ],
)
def test_a_command_that_writes_to_an_input_through_its_link_is_told(jobs, data, command, written):
    names = ("list.json", "images")
    ran = jobs.run(command, inputs={name: f"{data}/{name}" for name in names})
    warning = ran.named("warning")[0].facts
    assert ran.warnings == ["input.changed"]
    assert f"{data}/{written}" in warning["what"]
    assert f"WARNING: {warning['what']}".encode() in ran.err


def test_an_input_that_is_only_read_is_not_told_of(jobs, data):
    assert jobs.run("cat list.json", inputs={"list.json": f"{data}/list.json"}).warnings == []
    assert show(jobs, {"in": f"{data}/images"}, ["in"]).warnings == []


def test_only_the_first_rank_tells_of_a_changed_input(jobs, data):
    env = {"TAO_RANK": "1"}
    ran = jobs.run("echo > list.json", inputs={"list.json": f"{data}/list.json"}, env=env)
    assert ran.warnings == []


def test_an_input_that_holds_the_jobs_results_is_not_said_to_have_changed(jobs, data):
    ran = jobs.run("echo 1 > $TAO_RESULTS_DIR/x", inputs=[str(jobs.folder)], outputs=["/nothing/"])
    assert "input.changed" not in ran.warnings


def test_an_input_whose_name_begins_the_results_name_is_told_of(jobs):
    beside = jobs.results.with_name(jobs.results.name[:-1])
    beside.mkdir(parents=True)
    ran = jobs.run(f"echo 1 > {beside}/x", inputs=[str(beside)])
    assert "input.changed" in ran.warnings


def test_an_input_that_the_command_removes_is_told_of(jobs, data):
    ran = jobs.run(f"rm -r {data}", inputs=[f"{data}/list.json"])
    assert (ran.code, ran.warnings) == (0, ["input.changed"])


COUNT_FOLDERS = """
import sys
from tao_sdk.runner.inputs.fetch import check_local, tree_shape
read = []
sys.addaudithook(lambda event, _: read.append(event) if event in ("os.scandir", "os.listdir") else None)
check_local({"key": "data", "uri": sys.argv[1]}, None)
looked_at = len(tree_shape(sys.argv[1]))
print(looked_at, read.count("os.scandir"), read.count("os.listdir"))
"""


def test_few_folders_of_a_large_input_are_read_before_the_command_starts(tmp_path):
    for number in range(1100):
        (tmp_path / f"{number % 50}" / f"{number}").mkdir(parents=True)
    counted = subprocess.run(
        [sys.executable, "-c", COUNT_FOLDERS, tmp_path], capture_output=True, text=True, check=True
    )
    looked_at, scanned, listed = map(int, counted.stdout.split())
    assert (looked_at, listed) == (1000, 0)
    assert scanned <= 2 + 50
