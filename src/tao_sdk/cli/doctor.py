"""`tao doctor`: what is missing or wrong here, and the command that mends it."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from tao_sdk.cli import exit_codes, show
from tao_sdk.cli.command import Platform, command, platform_option
from tao_sdk.cli.submit import asked, set_option
from tao_sdk.client.doctor import (
    asked_platforms,
    install_commands,
    is_platform,
    job_findings,
    new_findings,
    platform_findings,
    ready_platforms,
)
from tao_sdk.client.job_request import DEFAULT_PLATFORM
from tao_sdk.client.smoke import IMAGE
from tao_sdk.client.smoke import smoke as smoke_finding
from tao_sdk.client.views import doctor_view
from tao_sdk.model.errors import UsageError

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client import Client
    from tao_sdk.model.finding import Finding


@command("doctor")
@click.argument("of", required=False, type=Platform(), metavar="[PLATFORM | JOB_FILE]")
@platform_option(help="Only this platform or endpoint. Default: all.")
@set_option
@click.option(
    "--fix",
    is_flag=True,
    help="Run the commands that install missing libraries; others are only shown.",
)
@click.option(
    "--smoke", is_flag=True, help="Also run a small job with one GPU there, and say what it saw."
)
@click.option("--smoke-image", default=IMAGE, show_default=True, help="The image of that job.")
def doctor(
    client: Client,
    out: Output,
    of: str | None,
    platform: str | None,
    values: tuple[str, ...],
    fix: bool,
    smoke: bool,
    smoke_image: str,
) -> int:
    """Find what is missing or wrong on this machine; with a job file, also what would stop that job
    on its platform.

    The exit code is 2 when no job could run on the platform that was named; on local, where none
    was.
    """
    job = asked(of, platform, (), {}, values) if of and not is_platform(of, client) else None
    if values and job is None:
        raise UsageError(
            "--set changes a value of a job file, and none is named.",
            "",
            "tao doctor job.yaml --set KEY=VALUE",
        )
    platform = job.platform if job else platform or of
    found = looked_at(client, out, asked_platforms(client, platform), fix)
    if smoke:
        found[named(platform)].append(smoke_finding(client, named(platform), smoke_image))
    if job is not None:
        found[job.platform] += new_findings(job_findings(client, job), found[job.platform])
    ready = ready_platforms(found)
    out.object(doctor_view(found, ready))
    out.lines([*finding_lines(found, out), *([] if platform else ready_lines(ready))])
    needed = platform or DEFAULT_PLATFORM  # what nobody asked for may be missing
    if needed in ready:
        return exit_codes.DONE
    return exit_codes.WRONG


def named(platform: str | None) -> str:
    """Raises UsageError where none is: a job is run only where somebody asked for it."""
    if platform:
        return platform
    raise UsageError(
        "--smoke runs a job, and no platform is named.", "", "Run:", "tao doctor local --smoke"
    )


def looked_at(
    client: Client, out: Output, names: Sequence[str], fix: bool
) -> dict[str, list[Finding]]:
    """What is found of each platform; with `fix`, after what can be mended here has been."""
    found = {name: platform_findings(client, name) for name in names}
    for name in names if fix else ():
        install_missing(out, found[name])
        found[name] = platform_findings(client, name)
    return found


def finding_lines(found: Mapping[str, Sequence[Finding]], out: Output) -> Iterator[str]:
    for name, findings in found.items():
        yield from (f"{name:<11}{show.finding(each, out)}" for each in findings)
        if not findings:
            yield f"{name:<11}{out.status('ok')}: nothing is wrong"


def ready_lines(ready: Sequence[str]) -> list[str]:
    """What the whole comes to: a platform that nobody uses here may well not be ready."""
    return ["", f"Jobs can run on: {', '.join(ready) or 'no platform yet'}"]


def install_missing(out: Output, findings: Sequence[Finding]) -> None:
    for line in install_commands(findings):
        out.note(f"+ {line}")
        subprocess.run(shlex.split(line), check=False)
