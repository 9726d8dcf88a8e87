"""Where a container's results go, by what the job names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tao_sdk.backends
from tao_sdk.backends.results_place import bucket_root, container_root
from tao_sdk.model.spec import JobSpec

ROOT, BUCKET = "TAO_RESULTS_ROOT", "S3_BUCKET_NAME"


@pytest.mark.parametrize(
    ("named", "has_mount", "folder", "bucket"),
    [
        ({}, False, "", ""),
        ({}, True, "/results", ""),
        ({ROOT: "/data//runs/"}, False, "/data/runs", ""),
        ({ROOT: "s3://b/p"}, True, "", "s3://b/p"),
        ({BUCKET: "b"}, False, "", "s3://b/results"),
        ({BUCKET: "b"}, True, "/results", ""),
        ({ROOT: "/data", BUCKET: "b"}, False, "/data", ""),
        ({ROOT: "s3://b/p", BUCKET: "c"}, True, "", "s3://b/p"),
    ],
)
def test_a_named_root_comes_before_a_mount_and_a_mount_before_the_bucket(
    named: dict[str, str], has_mount: bool, folder: str, bucket: str
) -> None:
    spec = JobSpec(command="true", env_vars=dict(named))
    assert container_root(spec, has_mount) == folder
    assert bucket_root(spec, folder) == bucket


@pytest.mark.slow
def test_the_folder_of_results_in_a_container_is_written_once() -> None:
    places = [
        file.name
        for file in Path(tao_sdk.backends.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "'/results'"
    ]
    assert places == ["results_place.py"]
