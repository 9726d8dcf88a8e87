"""Inputs from S3, through a job that runs: what the command finds, and what a job is told that
finds nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.servers import link_here, s3_here
from support.servers.trees import tree

pytestmark = pytest.mark.network

FILES = {
    "a.txt": b"a",
    "deep/er/b.bin": os.urandom(9_000_000),
    "with space+plus&ü.txt": b"odd",
    "empty": b"",
}


@pytest.fixture(params=s3_here.SERVERS)
def server(request, jobs):
    found = s3_here.SERVERS[request.param]()
    jobs.env.update(found.env())
    return found


@pytest.fixture
def bucket(server):
    s3, name = server.s3(), server.bucket()
    for path, content in FILES.items():
        s3.put(name, f"data/images/{path}", content)
    s3.put(name, "data/labels.json", b"{}")
    return name


def test_objects_and_folders_are_told_apart_by_looking(paths, bucket):
    found = paths({
        "folder": f"s3://{bucket}/data/images",
        "slash": f"s3://{bucket}/data/images/",
        "file": f"s3://{bucket}/data/labels.json",
        "deep": f"s3://{bucket}/data/images/deep/er/b.bin",
    })  # fmt: skip
    assert tree(found["folder"]) == tree(found["slash"]) == FILES
    assert Path(found["file"]).read_bytes() == b"{}"
    assert Path(found["deep"]).read_bytes() == FILES["deep/er/b.bin"]
    assert (Path(found["folder"]).name, Path(found["file"]).name) == ("images", "labels.json")


@pytest.mark.parametrize("declared", ["file", "folder"])
def test_a_declared_type_is_a_hint(paths, bucket, declared):
    specs = {"x": f"s3://{bucket}/data/images", "y": f"s3://{bucket}/data/labels.json"}
    found = paths(specs, {"x": {"type": declared}, "y": {"type": declared}})
    assert tree(found["x"]) == FILES
    assert Path(found["y"]).read_bytes() == b"{}"


def test_a_whole_bucket_is_a_folder(paths, bucket):
    found = paths({"x": f"s3://{bucket}"})["x"]
    assert tree(found) == {
        "data/labels.json": b"{}",
        **{f"data/images/{path}": body for path, body in FILES.items()},
    }


def test_a_passthrough_input_is_at_the_path_in_the_job(jobs, bucket, tmp_path):
    target = tmp_path / "there"
    ran = jobs.run(
        f"ls {target}/images; cat {target}/labels/labels.json",
        inputs={
            f"{target}/images/": f"s3://{bucket}/data/images/",
            f"{target}/labels/": f"s3://{bucket}/data/labels.json",
        },
    )
    assert ran.code == 0, ran.raw.decode()
    assert tree(target / "images") == FILES
    assert ran.out.endswith(b"{}")


@pytest.mark.parametrize("path", ["data/imag", "data/images/nothing", "data/nothing/"])
def test_an_address_that_matches_nothing_is_an_error_and_never_an_empty_folder(
    refused, bucket, path
):
    told = refused({"x": f"s3://{bucket}/{path}"})
    assert told["code"] == "input.nothing"
    assert f"s3://{bucket}/{path}" in told["what"]


def test_a_slash_behind_an_object_is_told(refused, bucket):
    told = refused({"x": f"s3://{bucket}/data/labels.json/"})
    assert told["code"] == "input.nothing"
    assert "without the slash" in told["next"]


def test_a_mark_of_a_folder_is_no_file(paths, refused):
    server = s3_here.minio()  # the other keeps folders as folders
    name = server.bucket()
    server.s3().put(name, "data/", b"")
    environ = server.env()
    assert refused({"x": f"s3://{name}/data"}, env=environ)["code"] == "input.nothing"
    server.s3().put(name, "data/a", b"1")
    server.s3().put(name, "data/sub/", b"")
    assert tree(paths({"x": f"s3://{name}/data"}, env=environ)["x"]) == {"a": b"1"}


def test_a_bucket_that_is_not_there_is_told_and_not_made(refused, server):
    assert refused({"x": "s3://no-such-bucket-here/k"})["code"] == "s3.no_bucket"
    assert server.s3().ask("HEAD", "no-such-bucket-here", "").status == 404


def test_a_secret_is_in_no_event_and_no_file(jobs, bucket):
    wrong = "this-is-not-the-secret-0123"
    ran = jobs.run(
        "true", inputs={"/nowhere/x": f"s3://{bucket}/data"}, env={"AWS_SECRET_ACCESS_KEY": wrong}
    )
    assert ran.failure["code"] == "s3.wrong_secret"
    assert wrong.encode() not in ran.raw + ran.out
    assert not [
        path
        for path in jobs.folder.rglob("*")
        if path.is_file() and wrong.encode() in path.read_bytes()
    ]


def test_a_login_in_the_address_of_the_store_is_not_told(jobs, refused):
    minio = s3_here.minio()
    jobs.env.update(minio.env(minio.url.replace("://", "://me:pass-word@")))
    told = refused({"x": "s3://there-is-no-such-bucket/x"})
    assert told["code"] == "s3.no_bucket"
    assert "pass-word" not in str(told)


def test_progress_is_told_with_bytes_files_rate_and_what_remains(jobs):
    server = s3_here.minio()
    name = server.bucket()
    server.s3().put(name, "large", bytes(30_000_000))
    with link_here.Link(server.address) as link:
        link.faults(rate=3e6)
        jobs.env.update(server.env(link.url))
        ran = jobs.run("true", inputs={str(jobs.folder / "x"): f"s3://{name}/large"})
    told = [event.facts for event in ran.named("transfer")]
    assert told, ran.raw
    assert {"bytes", "total_bytes", "files", "rate", "eta"} <= told[0].keys()
    sizes = [each["bytes"] for each in told]
    assert sizes == sorted(sizes) and sizes[-1] <= 30_000_000
