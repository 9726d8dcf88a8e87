"""The root of a job's results is checked before anything is stored; one that got into a store harms
no other job.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tao_sdk.client import Client
from tao_sdk.engine.prepare import Request, plan_and_check
from tao_sdk.engine.submit import keep, lease_of, settle
from tao_sdk.model.errors import SpecError, Unreachable
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.spec import JobSpec


def rooted(root: str, command: str = "true") -> JobSpec:
    return JobSpec(command=command, gpu_count=0, env_vars={"TAO_RESULTS_ROOT": root})


@pytest.mark.parametrize(
    "root",
    [
        "s3:///results",
        "s3://",
        "s3://ab/x",
        f"s3://{'a' * 64}/x",
        "s3://a..b/x",
        "s3://my bucket",
        "s3://ü-x-y/x",
    ],
)
def test_a_root_in_a_bucket_that_cannot_be_is_refused_before_anything_is_stored(
    client: Client, root: str
) -> None:
    with pytest.raises(SpecError, match=r"TAO_RESULTS_ROOT is s3://.* Write s3://bucket/key"):
        client.submit(rooted(root), "local")
    assert client.list_jobs() == []


@pytest.mark.parametrize(
    ("root", "told"),
    [
        ("gs://acme/res", "gs:// is not a scheme of a job"),
        ("hf_model://acme/x", "results cannot be written to hf_model://"),
        ("http://x/y", "results cannot be written to http://"),
        ("s3:/acme/res", "Did you mean s3://"),
        ("file://results", "Write file:///absolute/path"),
    ],
)
def test_a_root_of_another_scheme_is_refused_as_an_output_is(
    client: Client, root: str, told: str
) -> None:
    with pytest.raises(SpecError, match=told):
        client.submit(rooted(root), "local")
    assert not [path for path in Path.cwd().iterdir() if path.name.endswith(":")]


@pytest.mark.parametrize("scheme", ["file", "lustre", "slurm"])
def test_a_root_that_names_a_path_is_that_path(client: Client, scheme: str, tmp_path: Path) -> None:
    planned = client.plan(rooted(f"{scheme}://{tmp_path}/kept"), "local")
    assert planned.plan.results_dir.startswith(f"{tmp_path}/kept/")


def test_a_root_in_a_bucket_is_kept_as_it_is_written(client: Client) -> None:
    spec = rooted("s3://acme.data-1/results")
    spec = replace(spec, env_vars={**spec.env_vars, "AWS_EC2_METADATA_DISABLED": "false"})
    assert client.plan(spec, "local").plan.results_dir.startswith("s3://acme.data-1/res")


class ByName:
    """The real backend, which sends the results to the bucket that S3_BUCKET_NAME names, as those
    of containers do.
    """

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def plan(self, job: PreparedJob, *rest: Any) -> Any:
        bucket = job.spec.env_vars["S3_BUCKET_NAME"]
        return replace(self._backend.plan(job, *rest), results_dir=f"s3://{bucket}/results/job")


def test_a_bucket_that_is_named_by_itself_is_held_to_the_same(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = ByName(client.engine.backend("local"))
    monkeypatch.setattr(client.engine, "backend", lambda platform, endpoint: backend)
    with pytest.raises(SpecError, match="cannot be the name of a bucket"):
        client.submit(
            JobSpec(command="true", gpu_count=0, env_vars={"S3_BUCKET_NAME": "s3://acme"}), "local"
        )
    assert client.list_jobs() == []


@pytest.mark.slow
@pytest.mark.parametrize("address", ["s3:///results/job", f"s3://{'a' * 64}/results/job"])
def test_a_store_that_holds_a_job_of_such_a_place_stays_usable(
    client: Client, address: str
) -> None:
    request = Request(JobSpec(command="true", gpu_count=0), "local")
    planned = plan_and_check(client.engine, request)
    job = keep(
        client.engine, replace(planned, plan=replace(planned.plan, results_dir=address)), request
    )
    client.engine.give_back(lease_of(job.id))
    settle(client.engine, job)
    assert client.wait(job.id, timeout=300).status == "Complete"
    assert [each.id for each in client.list_jobs()] == [job.id]
    with pytest.raises(
        Unreachable, match="name of the server cannot be resolved|cannot be the name of a bucket"
    ):
        client.results(job.id)
    client.remove(job.id)
    assert client.list_jobs() == []
