"""Smoke: run a small job with one GPU, to see if jobs with GPUs run on a platform, and what they
see.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from tao_sdk.model.errors import TaoError
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.job import Job
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

if TYPE_CHECKING:
    from tao_sdk.client.client import Client

CODE = "gpu.smoke"
IMAGE = "ubuntu"  # the documents' own check runs nvidia-smi in it
COMMAND = "nvidia-smi -L"
NO_PROGRAM = 127  # exit code of a shell that did not find the command
HOST_ADVICE: Mapping[str, str] = {
    "local": "Install the NVIDIA driver on this machine, then run nvidia-smi here.",
    "docker": (
        "Install the NVIDIA driver and the NVIDIA Container Toolkit on the machine of the daemon."
    ),
}
OTHER_HOST = "Name a partition or a node with GPUs, or have the NVIDIA driver installed there."
SECONDS = 300.0  # its image may have to be pulled


def smoke(client: Client, platform: str, image: str = IMAGE) -> Finding:
    """Run a job with one GPU and return its finding. The job is removed again."""
    spec = JobSpec(
        name="smoke",
        image=image,
        command=COMMAND,
        gpu_count=1,
        time_limit=timedelta(seconds=SECONDS),
    )
    try:
        job = client.submit(spec, platform).job
        try:
            return finding_of(client, client.wait_all([job.id], SECONDS)[0])
        finally:
            client.remove(job.id, force=True)
    except TaoError as error:
        what = f"A job with one GPU did not run: {error.what}"
        return Finding(Severity.ERROR, CODE, what, error.why, error.next, error.command)


def finding_of(client: Client, job: Job) -> Finding:
    log = client.get_job_logs(job.id, tail=10).strip()
    if job.status is Status.COMPLETE:
        return Finding(Severity.OK, CODE, "A job with one GPU ran, and saw it.", log)
    if job.exit_code == NO_PROGRAM:
        return no_driver(job.platform, log)
    diagnosis = client.diagnose(job.id)
    what, advice = (diagnosis.what, diagnosis.next) if diagnosis else (job.message, "")
    return Finding(Severity.ERROR, CODE, f"A job with one GPU failed: {what}", log, advice)


def no_driver(platform: str, log: str) -> Finding:
    """The finding if the job had no nvidia-smi. nvidia-smi comes from the host, not from
    the image.
    """
    what = "A job with one GPU found no nvidia-smi: the NVIDIA driver is not there."
    return Finding(Severity.ERROR, CODE, what, log, HOST_ADVICE.get(platform, OTHER_HOST))
