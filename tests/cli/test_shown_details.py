"""What `tao status` shows of the facts that a platform keeps of a job."""

from __future__ import annotations

from tao_sdk.cli import show
from tao_sdk.model.job import Job


def test_a_docker_daemon_is_shown_by_its_address_alone() -> None:
    details = {"daemon": "ssh://me@host", "daemon_identity": "FEFT:MJAO /var/lib/docker"}
    job = Job(id="one-aaaaaaaaaa", name="one", platform="docker", backend_details=details)
    facts = show.job_facts(job, "")
    assert facts["daemon"] == "ssh://me@host"
    assert not [value for value in facts.values() if "FEFT" in str(value)]
