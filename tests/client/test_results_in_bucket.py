"""Results in a bucket, seen from here: keys that no file can be called as, uploads that nobody
ends, what was not sent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.servers import s3_here
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.platforms.local import LocalSDK

pytestmark = pytest.mark.network


@pytest.fixture
def server() -> s3_here.Server:
    """One that takes every key."""
    return s3_here.moto()


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: s3_here.Server) -> Any:
    monkeypatch.chdir(tmp_path)
    keys = {
        "ACCESS_KEY": s3_here.ACCESS,
        "SECRET_KEY": s3_here.SECRET,
        "S3_ENDPOINT_URL": server.url,
    }
    state = {"HOME": str(tmp_path), "TAO_SDK_STATE_DIR": str(tmp_path / "state")}
    with LocalSDK(settings=Settings({"PATH": "/usr/bin:/bin", **state, **keys})) as sdk:
        yield sdk


@pytest.fixture
def submit(sdk: LocalSDK, server: s3_here.Server) -> Callable[..., Job]:
    """Starts a job whose command runs in its one output; that goes to a new bucket."""

    def start(command: str, **env: str) -> Job:
        return sdk.create_job(
            command=f"cd $TAO_RESULTS_DIR/results_dir; {command}",
            specs={"results_dir": ""},
            outputs=["results_dir"],
            gpu_count=0,
            env_vars={"TAO_RESULTS_ROOT": f"s3://{server.bucket()}/runs", **env},
        )

    return start


def test_keys_that_no_file_can_be_called_as_cost_only_themselves(
    sdk: LocalSDK, submit: Callable[..., Job], server: s3_here.Server, tmp_path: Path
) -> None:
    job = submit("echo 1 > ok.pth")
    assert sdk.wait(job.id, timeout=300).status == "Complete", sdk.get_job_logs(job.id)
    bucket = job.results_dir.split("/")[2]
    odd = [
        "/lead",
        "a//b",
        "//",
        "a//c//d",
        "x/../../up",
        "./dot",
        "both",
        "both/below",
        "n" * 300,
        "d/" + "m" * 300,
    ]
    for name in odd:
        server.s3().put(bucket, f"runs/{job.id}/{name}", b"x")
    server.s3().put(bucket, "/top", b"x")
    listed = {stat.path.removeprefix(f"{job.results_dir}/") for stat in sdk.results(job.id).files}
    assert {"/lead", "a//b", "a//c//d", "both", "both/below", "n" * 300, "d/" + "m" * 300} <= listed
    skipped: dict[str, str] = {}
    paths = sdk.fetch_results(
        job.id, tmp_path / "here", on_skip=lambda name, why: skipped.update({name: why})
    )
    copied = {str(path.relative_to(tmp_path / "here")) for path in paths}
    assert {"results_dir/ok.pth", "both/below"} <= copied
    assert not copied & set(odd) - {"both/below"}
    assert {"/lead", "a//b", "a//c//d", "both", "n" * 300, "d/" + "m" * 300} <= set(skipped)
    assert not (tmp_path / "up").exists()
    assert "top" in sdk.list_path(f"s3://{bucket}")


def test_uploads_that_a_job_which_is_over_left_begun_are_given_up(
    sdk: LocalSDK, submit: Callable[..., Job], server: s3_here.Server
) -> None:
    job = submit("true")
    sdk.wait(job.id, timeout=300)
    bucket = job.results_dir.split("/")[2]
    for name in (f"runs/{job.id}/large.pth", "runs/another/large.pth"):
        server.s3().ask("POST", bucket, name, {"uploads": ""})
    sdk.results(job.id)
    begun = server.s3().ask("GET", bucket, "", {"uploads": ""}).text
    assert (job.id in begun, "runs/another" in begun) == (False, True)


def test_what_a_canceled_job_had_not_sent_is_named(
    sdk: LocalSDK, submit: Callable[..., Job], server: s3_here.Server
) -> None:
    job = submit(
        "echo 1 > model_epoch_1.pth; echo ready; sleep 100",
        TAO_SYNC_SECONDS="100",
        TAO_RETRY_SECONDS="100",
    )
    while "ready" not in sdk.get_job_logs(job.id):
        time.sleep(0.1)
    server.stop()
    try:
        assert sdk.cancel_job(job.id, grace=10)
        assert sdk.get_job(job.id).status == "Canceled"
        assert "results_dir/model_epoch_1.pth" in sdk.lost_results(job.id)
    finally:
        server.start()
        server.bucket(job.results_dir.split("/")[2])
    assert "results_dir/model_epoch_1.pth" in sdk.results(job.id).lost


def test_files_that_the_manifest_names_as_not_sent_are_told(
    sdk: LocalSDK, submit: Callable[..., Job], server: s3_here.Server
) -> None:
    job = submit("echo 1 > model_epoch_1.pth")
    sdk.wait(job.id, timeout=300)
    bucket, key = job.results_dir.split("/")[2], f"runs/{job.id}/.tao/manifest.json"
    manifest = dict(sdk.results(job.id).manifest or {})
    assert sdk.results(job.id).unsent == []
    server.s3().put(
        bucket, key, json.dumps({**manifest, "whole": False, "unsent": ["a/b.pth"]}).encode()
    )
    assert sdk.results(job.id).unsent == ["a/b.pth"]
