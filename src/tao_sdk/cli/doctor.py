"""`tao doctor`: what is missing or wrong here, and the command that mends it."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tao_sdk.cli import exit_codes, show
from tao_sdk.cli.command import Platform, command, platform_option
from tao_sdk.cli.submit import Submitting, asked, asks_for_job, option_option, set_option
from tao_sdk.client.doctor import (
    asked_platforms,
    install_commands,
    is_platform,
    job_findings,
    new_findings,
    platform_findings,
    ready_platforms,
)
from tao_sdk.client.host_findings import HOST, STRICT, WITH_CUDA, host_findings
from tao_sdk.client.job_request import DEFAULT_PLATFORM
from tao_sdk.client.launch_checks import TypedNeeds, read_typed_needs
from tao_sdk.client.smoke import IMAGE
from tao_sdk.client.smoke import smoke as smoke_finding
from tao_sdk.client.views import doctor_view
from tao_sdk.model.errors import UsageError

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client import Client
    from tao_sdk.client.job_request import JobRequest
    from tao_sdk.model.finding import Finding

NO_JOB_FOR_NEEDS = "A need of a job is given, and no job is named."
# the flags for what a launch needs, in the order of TypedNeeds
NEEDS = (
    *("fields", "batches"),
    *("gpu_min_count", "gpu_min_memory_gb", "archs", "min_free_disk_gb"),
)
NAME_A_JOB = "Name a job file: tao doctor job.yaml"


@command("doctor", cls=Submitting)
@click.argument("of", required=False, type=Platform(), metavar="[PLATFORM | host | JOB_FILE]")
@platform_option(help="Only this platform or endpoint. Default: all.")
@set_option
@option_option
@click.option(
    "--json-required-field",
    "fields",
    multiple=True,
    metavar="KEY=FIELD[,FIELD]",
    help="Fields that every record of the annotation file, an input of the job, has to have.",
)
@click.option(
    "--effective-batch-limit",
    "batches",
    multiple=True,
    metavar="KEY=BATCH,SHARDS",
    help="No shard of the annotation file may have fewer records than a batch.",
)
@click.option(
    "--gpu-min-count",
    type=click.IntRange(0, 999_999),
    default=0,
    help="GPUs of the largest node.",
)
@click.option(
    "--gpu-min-memory-gb", type=click.FloatRange(0, 1e9), default=0.0, help="Of each GPU."
)
@click.option(
    "--gpu-arch-allowlist",
    "archs",
    multiple=True,
    metavar="NAME=sm_80[,sm_90]",
    help="The GPU architectures that the image NAME is built for. Each list has to have the GPU.",
)
@click.option(
    "--min-free-disk-gb",
    type=click.FloatRange(0, 1e9),
    default=0.0,
    help="On the disk of Docker's images, of local results, or of a cluster's base directory.",
)
@click.option(
    "--fix",
    is_flag=True,
    help="Run the commands that install missing libraries; others are only shown.",
)
@click.option(
    "--smoke", is_flag=True, help="Also run a small job with one GPU there, and say what it saw."
)
@click.option("--smoke-image", default=IMAGE, show_default=True, help="The image of that job.")
@click.option(
    STRICT,
    is_flag=True,
    help="Of host: accept only the versions that the documents name, and ask for CUDA.",
)
@click.option(WITH_CUDA, is_flag=True, help="Of host: ask for the CUDA Toolkit, too.")
def doctor(
    client: Client,
    out: Output,
    of: str | None,
    platform: str | None,
    values: tuple[str, ...],
    option: tuple[str, ...],
    fix: bool,
    smoke: bool,
    smoke_image: str,
    strict: bool,
    with_cuda: bool,
    **params: Any,
) -> int:
    """Find what is missing or wrong on this machine. With a job file, or flags as `tao run` takes
    them, also what would stop that job on its platform: what cannot be looked at is an error.
    `host` is this machine: its driver, its container toolkit and its Docker.

    Nothing is installed, pulled or started without --fix or --smoke.

    \b
      tao doctor
      tao doctor host
      tao doctor job.yaml --platform slurm
      tao doctor --model digits --action train
      tao doctor job.yaml --json-required-field data.notes=video_fps

    The exit code is 2 when no job could run on the platform that was named; on local, where none
    was.
    """
    needs = read_typed_needs(TypedNeeds(*map(params.pop, NEEDS)))
    typed = Typed(params, values, option)
    host_flags = [flag for flag, is_typed in ((STRICT, strict), (WITH_CUDA, with_cuda)) if is_typed]
    if of == HOST and HOST not in client.endpoints():
        refuse_other_flags(typed, needs.any or fix or smoke)
        return examine_host(client, out, platform, host_flags)
    refuse_host_flags(host_flags)
    job = job_to_check(client, of, platform, typed)
    if job is None and needs.any:
        raise UsageError(NO_JOB_FOR_NEEDS, "", NAME_A_JOB)
    platform = job.platform if job else platform or of
    findings = examine_platforms(client, out, asked_platforms(client, platform), fix)
    if smoke:
        smoke_platform = require_platform(platform)
        findings[smoke_platform].append(smoke_finding(client, smoke_platform, smoke_image))
    if job is not None:
        of_job = job_findings(client, job, needs)
        findings[job.platform] += new_findings(of_job, findings[job.platform])
    ready = ready_platforms(findings)
    out.object(doctor_view(findings, ready))
    out.lines(finding_lines(findings, out))
    if not platform:
        out.lines(ready_lines(ready))
    needed = platform or DEFAULT_PLATFORM  # platforms that nobody asked for may be missing
    if needed in ready:
        return exit_codes.DONE
    return exit_codes.WRONG


def examine_host(client: Client, out: Output, platform: str | None, flags: Sequence[str]) -> int:
    """Show what this machine lacks for the containers of a platform."""
    findings = {HOST: host_findings(platform, client.settings.environ, flags)}
    ready = ready_platforms(findings)
    out.object(doctor_view(findings, ready))
    out.lines(finding_lines(findings, out))
    return exit_codes.DONE if ready else exit_codes.WRONG


@dataclass(frozen=True)
class Typed:
    """Flags of a job as they were typed."""

    params: Mapping[str, Any]
    values: Sequence[str]  # of --set
    option: Sequence[str]


def refuse_other_flags(typed: Typed, has_others: bool) -> None:
    """Raise UsageError for a flag of jobs or libraries: the host is only looked at."""
    has_others = has_others or asks_for_job(typed.params)
    if has_others or typed.values or typed.option:
        what = "tao doctor host only looks: it takes no flags of a job, and no --fix or --smoke."
        raise UsageError(what, "", "Run:", "tao doctor host")


def refuse_host_flags(flags: Sequence[str]) -> None:
    """Raise UsageError for a flag of the host's check if something else is looked at."""
    if flags:
        raise UsageError(
            f"{flags[0]} is a flag of host.", "", "Run:", f"tao doctor host {flags[0]}"
        )


def job_to_check(
    client: Client, of: str | None, platform: str | None, typed: Typed
) -> JobRequest | None:
    """The job of the named file, or of the flags; None if there is neither. Then raises UsageError
    for --set and --option.
    """
    job_file = of if of and not is_platform(of, client) else None
    if job_file or asks_for_job(typed.params):
        place = platform or (None if job_file else of)
        return asked(client, job_file, place, typed.option, typed.params, typed.values)
    if typed.values or typed.option:
        flag = "--set" if typed.values else "--option"
        raise UsageError(f"{flag} changes a job, and none is named.", "", NAME_A_JOB)
    return None


def require_platform(platform: str | None) -> str:
    """Raise UsageError if no platform is named: a job runs only on a platform that a person asked
    for.
    """
    if platform:
        return platform
    raise UsageError(
        "--smoke runs a job, and no platform is named.", "", "Run:", "tao doctor local --smoke"
    )


def examine_platforms(
    client: Client, out: Output, names: Sequence[str], fix: bool
) -> dict[str, list[Finding]]:
    """The findings of each platform. With `fix`, problems that can be mended here are mended
    first.
    """
    findings = {name: platform_findings(client, name) for name in names}
    if not fix:
        return findings
    for name in names:
        install_missing(out, findings[name])
        findings[name] = platform_findings(client, name)
    return findings


def finding_lines(found: Mapping[str, Sequence[Finding]], out: Output) -> Iterator[str]:
    for name, findings in found.items():
        for finding in findings:
            yield f"{name:<11}{show.finding(finding, out)}"
        if not findings:
            yield f"{name:<11}{out.status('ok')}: nothing is wrong"


def ready_lines(ready: Sequence[str]) -> list[str]:
    """The last lines: the platforms that are ready. Others may well not be ready, as nobody uses
    them here.
    """
    return ["", f"Jobs can run on: {', '.join(ready) or 'no platform yet'}"]


def install_missing(out: Output, findings: Sequence[Finding]) -> None:
    for line in install_commands(findings):
        out.note(f"+ {line}")
        subprocess.run(shlex.split(line), check=False)
