"""Preparing a job: its spec is read once, whatever is planned, surveyed and checked from it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tao_sdk.backends.docker import render as docker
from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.job import checks as docker_checks
from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.backends.slurm import render as slurm
from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.facts import Partition, SlurmFacts
from tao_sdk.backends.slurm.job import checks as slurm_checks
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.client import Client
from tao_sdk.model.plan import Attempt
from tao_sdk.model.prepared_job import DataInput
from tao_sdk.model.spec import JobSpec
from tao_sdk.payload import declared
from tao_sdk.payload.declared import SpecKeys
from tao_sdk.payload.prepared_job import pack_spec

DATA = "/shared/train"
SPEC = JobSpec(
    image="any",
    command="train {config_path}",
    gpu_count=0,
    specs={
        "train": DATA,
        "more": "s3://bucket/more",
        "shared": "lustre:///shared/list",
        "out": "/out",
        "other": "/other",
    },
    inputs={"train": "folder"},
    outputs=["out"],
)
ATTEMPT = Attempt("job-0123456789", 1, "any", "here", "store")
NODES = {"polar": Partition("polar", nodes=2, cpus=8, default=True)}


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was read of specs since: one entry each time that all inputs, or all values, were gone
    through.
    """
    counted: list[str] = []
    inputs, leaves = SpecKeys.inputs, declared.leaves

    def counted_inputs(keys: SpecKeys, wanted: Any) -> Any:
        counted.append("inputs")
        return inputs(keys, wanted)

    def counted_leaves(tree: Any, way: list[Any]) -> Any:
        counted.extend(["values"] * (not way))
        return leaves(tree, way)

    monkeypatch.setattr(SpecKeys, "inputs", counted_inputs)
    monkeypatch.setattr(declared, "leaves", counted_leaves)
    return counted


def test_a_local_plan_walks_the_inputs_of_its_spec_once(
    client: Client, walks: list[str], tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    specs = {"train": str(tmp_path / "data"), "out": ""}
    spec = JobSpec(
        command="train {config_path}", gpu_count=0, specs=specs, inputs=["train"], outputs=["out"]
    )
    client.plan(spec, "local")
    assert walks.count("inputs") == 1


@pytest.mark.slow
def test_a_retry_reads_the_inputs_of_its_spec_once(client: Client, walks: list[str]) -> None:
    spec = JobSpec(
        command="exit 3",
        gpu_count=0,
        specs={"train": "/", "out": ""},
        inputs=["train"],
        outputs=["out"],
    )
    job = client.submit(spec, "local").job
    client.wait(job.id, timeout=300)
    walks.clear()
    client.retry_job(job.id)
    assert walks.count("inputs") == 1
    client.wait(job.id, timeout=300)


def test_backends_plan_and_check_without_reading_the_spec_again(walks: list[str]) -> None:
    job = pack_spec(SPEC)
    assert walks.count("inputs") == 1
    walks.clear()
    near = DockerFacts(local=True, cwd="/here", home="/home/me", uid=0, gid=0)
    docker_checks.check(docker.plan(job, DockerOptions(), near, ATTEMPT), near)
    cluster = SlurmFacts(
        Site("/base"), datetime.now(timezone.utc), base="/base", partitions=NODES, pyxis=True
    )
    slurm_checks.plan_findings(slurm.plan_job(job, SlurmOptions(), cluster, ATTEMPT), cluster)
    assert walks == []


def test_the_data_of_a_spec_is_sorted_by_what_becomes_of_it() -> None:
    data = pack_spec(SPEC).data
    assert data.inputs == (DataInput("train", DATA, "", DATA),)
    assert data.outputs == data.chosen_outputs == ("/out",)
    assert data.shared == (("shared", "/shared/list"),)
    assert data.passed_on == (("more", "s3://bucket/more"),)
    assert data.undeclared == (("other", "/other"),)


PACKED: list[Mapping[str, Any]] = [
    {
        "command": "run {config_path}",
        "specs": {"a": "/a", "b": "hf_model://org/name", "o": ""},
        "inputs": ["a"],
        "outputs": ["o"],
    },
    {"command": "run", "args": {"a": "s3://bucket/a", "c": "lustre:///c/*.tar"}, "inputs": ["a"]},
    {"command": "run", "inputs": {"/in": "https://host/file"}, "outputs": ["/out"]},
]


@pytest.mark.parametrize("fields", PACKED)
def test_a_job_that_is_packed_already_has_the_same_data(fields: Mapping[str, Any]) -> None:
    spec = JobSpec(**fields)
    first = pack_spec(spec)
    assert pack_spec(spec, first.command) == first
