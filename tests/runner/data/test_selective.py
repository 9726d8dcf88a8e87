"""Selective inputs: only the files that an annotation names are fetched."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from support.servers.trees import tree

FILES = {f"clips/{number:03}.mp4": os.urandom(100) for number in range(100)}
ROWS = [
    {"id": 1, "video": "clips/003.mp4"},
    {"id": 2, "video": "./clips/007.mp4"},
    {"id": 3, "video": "clips/003.mp4"},
]
WANTED = {name: FILES[name] for name in ("clips/003.mp4", "clips/007.mp4")}

ANNOTATIONS = {
    "a.json": json.dumps(ROWS),
    "b.jsonl": "\n\n".join(map(json.dumps, ROWS)) + "\n",
    "c.csv": "id,video\n" + "".join(f'{row["id"]},"{row["video"]}"\n' for row in ROWS),
    "nested.json": json.dumps(
        {"videos": [{"files": {"video": [row["video"] for row in ROWS]}}], "info": {}}
    ),
}


@pytest.fixture
def media(hub):
    hub.add("org/clips", FILES, kind="datasets")
    return "hf_dataset://org/clips"


def about(**more):
    return {
        "media": {"type": "folder", "selective": {"annotation": "list", **more}},
        "list": {"type": "file"},
    }


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_only_the_files_that_the_annotation_names_are_fetched(paths, hub, media, tmp_path, name):
    (tmp_path / name).write_text(ANNOTATIONS[name])
    found = paths({"media": media, "list": str(tmp_path / name)}, about(keys=["video"]))
    assert tree(found["media"]) == WANTED
    assert len(hub.asked("/resolve/")) == len(WANTED)


def test_the_annotation_may_be_fetched_itself_and_be_a_list_of_them(paths, web, media):
    web.files.update(
        {"/a.json": json.dumps(ROWS[:1]).encode(), "/b.json": json.dumps(ROWS[1:]).encode()}
    )
    found = paths({"media": media, "list": [f"{web.url}/a.json", f"{web.url}/b.json"]}, about())
    assert tree(found["media"]) == WANTED


def test_the_format_that_is_declared_counts_before_the_name(paths, media, tmp_path):
    (tmp_path / "list.txt").write_text(ANNOTATIONS["c.csv"])
    found = paths({"media": media, "list": str(tmp_path / "list.txt")}, about(format="csv"))
    assert tree(found["media"]) == WANTED


def test_several_keys(paths, media, tmp_path):
    (tmp_path / "x.csv").write_text("left,right,other\nclips/003.mp4,clips/007.mp4,clips/008.mp4\n")
    found = paths({"media": media, "list": str(tmp_path / "x.csv")}, about(keys=["left", "right"]))
    assert tree(found["media"]) == WANTED


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('[{"video": "../secret"}]', "'../secret'"),
        ('[{"video": "/etc/passwd"}]', "'/etc/passwd'"),
        ('[{"film": "clips/003.mp4"}]', "video"),
        ("[", "json"),
        (None, "Is a directory"),
    ],
)
def test_an_annotation_that_tells_nothing_or_leads_out_ends_the_job(
    refused, media, tmp_path, content, told
):
    (tmp_path / "x.json" / "sub").mkdir(parents=True) if content is None else (
        tmp_path / "x.json"
    ).write_text(content)
    found = refused({"media": media, "list": str(tmp_path / "x.json")}, about())
    assert found["code"] == "input.annotation" and told in found["why"] + found["next"]


def test_a_field_of_a_csv_may_be_long(paths, media, tmp_path):
    (tmp_path / "x.csv").write_text(f"video,mask\nclips/003.mp4,{'1 ' * 100_000}\nclips/007.mp4,\n")
    assert (
        tree(paths({"media": media, "list": str(tmp_path / "x.csv")}, about())["media"]) == WANTED
    )


def test_a_file_that_is_named_and_not_there_is_an_error_with_its_name(refused, media, tmp_path):
    (tmp_path / "x.json").write_text('[{"video": "clips/999.mp4"}, {"video": "clips/003.mp4"}]')
    found = refused({"media": media, "list": str(tmp_path / "x.json")}, about())
    assert (
        found["code"] == "input.missing"
        and "clips/999.mp4" in found["what"]
        and found["what"].startswith("1 ")
    )


def test_parquet_in_an_image_without_its_reader_is_told(refused, media, tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    found = refused(
        {"media": media, "list": str(tmp_path / "x.parquet")},
        about(),
        env={"PATH": "/usr/bin:/bin"},
    )
    assert found["code"] == "input.annotation" and "pyarrow" in found["why"] + found["next"]


def test_parquet_is_read_where_the_image_can(jobs, paths, media, tmp_path, clients):
    python = clients.python
    make = (
        "import pyarrow as a, pyarrow.parquet as p, sys; p.write_table(a.table({'video': "
        "sys.argv[2:]}), sys.argv[1])"
    )
    subprocess.run(
        [python, "-c", make, tmp_path / "x.parquet", *(row["video"] for row in ROWS)], check=True
    )
    env = {"PATH": f"{python.parent}:/usr/bin:/bin"}
    found = paths({"media": media, "list": str(tmp_path / "x.parquet")}, about(), env=env)
    assert tree(found["media"]) == WANTED


def test_of_a_folder_of_this_machine_nothing_is_fetched(paths, tmp_path):
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips" / "x").write_text("x")
    (tmp_path / "x.json").write_text(json.dumps(ROWS))
    found = paths({"media": str(tmp_path / "clips"), "list": str(tmp_path / "x.json")}, about())
    assert found["media"] == str(tmp_path / "clips")


ODD = {
    "deep.json": b"[" * 200_000,
    "deep.jsonl": b'{"video": ' + b"[" * 200_000,
    "nested.json": b'{"video": ' + b"[" * 900 + b"]" * 900 + b"}",
    "huge.json": b"[" + b"9" * 5000 + b"]",
    "bytes.json": b"\xff\xfe",
    "nul.csv": b"video\n\0\n",
}


@pytest.mark.parametrize("name", ODD)
def test_an_annotation_that_makes_no_sense_is_told_as_such(refused, media, tmp_path, name):
    (tmp_path / name).write_bytes(ODD[name])
    told = refused({"media": media, "list": str(tmp_path / name)}, about(keys=["video"]))
    assert told["code"] == "input.annotation"
