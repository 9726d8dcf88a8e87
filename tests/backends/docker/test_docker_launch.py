"""What `tao doctor JOB_FILE` sees of a job of a Docker daemon."""

from __future__ import annotations

from pathlib import Path

from support.dockerd.dockerd_here import BUSYBOX
from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.job.checks import architecture_findings
from tao_sdk.client import Client
from tao_sdk.client.doctor import job_findings
from tao_sdk.client.job_request import JobRequest
from tao_sdk.client.launch_checks import LaunchNeeds
from tao_sdk.model.finding import Severity
from tao_sdk.model.spec import JobSpec
from tao_sdk.preflight.requirements import DataNeeds


def test_the_records_of_a_file_in_a_mount_are_counted(client: Client, tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('[{"fps": 1}, {}]')
    spec = JobSpec(
        image=BUSYBOX,
        command="cat {config_path}",
        gpu_count=0,
        specs={"notes": "/data/notes.json", "media": "/etc"},
        inputs={"notes": {"type": "file"}, "media": {"type": "folder"}},
        mounts=[f"{tmp_path}:/data:ro", f"{tmp_path}:/results"],
    )
    request = JobRequest(spec, "docker", {}, None)
    found = {each.code: each for each in job_findings(client, request)}
    assert found["dataset.records"].what == f"notes: {tmp_path}/notes.json records=2"
    assert found["dataset.there"].what == "media: /etc"
    assert found["job.ready"]
    needs = LaunchNeeds(DataNeeds({"notes": ("fps",), "media": ("fps",)}))
    errors = [
        each.code
        for each in job_findings(client, request, needs)
        if each.severity is Severity.ERROR
    ]
    assert errors == ["dataset.field_missing", "dataset.not_annotations"]


def test_an_image_of_another_architecture_is_told() -> None:
    facts = DockerFacts(True, "/", "/", 0, 0, info={"Architecture": "x86_64"})
    assert not list(architecture_findings("a", {"Architecture": "amd64"}, facts))
    assert not list(architecture_findings("a", {}, facts))
    (told,) = architecture_findings("a", {"Architecture": "arm64"}, facts)
    assert told.what == "a is made for arm64; the machine of the daemon is amd64."
