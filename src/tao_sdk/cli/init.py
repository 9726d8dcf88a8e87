"""`tao init`: a job file to begin with, that runs as it is and explains its keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tao_sdk.cli.command import command, platform_option
from tao_sdk.client.first_job_file import IMAGE, write_job_file
from tao_sdk.client.views import job_file_view

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output


@command("init")
@click.argument(
    "job_file", default="job.yaml", type=click.Path(path_type=Path), metavar="[JOB.yaml]"
)
@click.option(
    "--name",
    metavar="TEXT",
    help="The job's name. Default: the file's, or its folder's for job.yaml.",
)
@click.option(
    "--image",
    metavar="TEXT",
    help=f"The container image. Default: {IMAGE} where the platform needs one.",
)
@platform_option(default="local", show_default=True, help="Where the job is to run.")
def init(out: Output, job_file: Path, name: str | None, image: str | None, platform: str) -> None:
    """Write a job file that runs as it is, with comments that explain its keys. A file that is
    there is left alone.
    """
    written = write_job_file(job_file, name, image, platform)
    out.object(job_file_view(job_file, written))
    out.line(f"{job_file} is written. Run it: tao run {job_file}")
