"""`tao doctor`: what is missing or wrong here, and the command that mends it."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tao_sdk.backends.registry import is_known, unknown
from tao_sdk.cli import exit_codes, show
from tao_sdk.cli.command import Platform, command, platform_option
from tao_sdk.cli.submit import DEFAULT_PLATFORM, Asked, asked, set_option
from tao_sdk.client.smoke import IMAGE
from tao_sdk.client.smoke import smoke as smoke_finding
from tao_sdk.model.errors import SpecError, TaoError, Unreachable, UsageError
from tao_sdk.model.finding import Finding, Severity

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client

MENDED_HERE = frozenset({"extra.missing"})  # what --fix runs: installing a library into this Python


@command("doctor")
@click.argument("of", required=False, type=Platform(), metavar="[PLATFORM | JOB_FILE]")
@platform_option(help="Only this platform or endpoint. Default: all.")
@set_option
@click.option("--fix", is_flag=True, help="Run the commands that install missing libraries; others are only shown.")
@click.option("--smoke", is_flag=True, help="Also run a small job with one GPU there, and say what it saw.")
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
    """Find what is missing or wrong on this machine; with a job file, also what would stop that job on its platform.

    The exit code is 2 when no job could run on the platform that was named; on local, where none was.
    """
    job = asked(of, platform, (), {}, values) if of and not is_place(of, client) else None
    if values and job is None:
        raise UsageError(
            "--set changes a value of a job file, and none is named.", "", "tao doctor job.yaml --set KEY=VALUE"
        )
    platform = job.platform if job else platform or of
    found = looked_at(client, out, platforms_asked(client, platform), fix)
    if smoke:
        found[named(platform)].append(smoke_finding(client, named(platform), smoke_image))
    if job is not None:
        found[job.platform] += new(checked_job(client, job), found[job.platform])
    ready = [name for name, findings in found.items() if not any(each.severity is Severity.ERROR for each in findings)]
    told = [{"platform": name, **each.to_json()} for name, findings in found.items() for each in findings]
    out.object({"schema": 1, "ready": ready, "findings": told})
    out.lines([*finding_lines(found, out), *([] if platform else ready_lines(ready))])
    needed = platform or DEFAULT_PLATFORM  # what nobody asked for may be missing
    return exit_codes.DONE if needed in ready else exit_codes.WRONG


def named(platform: str | None) -> str:
    """Raises UsageError where none is: a job is run only where somebody asked for it."""
    if platform:
        return platform
    raise UsageError("--smoke runs a job, and no platform is named.", "", "Run:", "tao doctor docker --smoke")


def platforms_asked(client: Client, platform: str | None) -> list[str]:
    """The one that was named, else all. Raises UsageError for a name that nobody knows."""
    if not platform:
        return [*sorted(client.platforms(), key=lambda name: name != DEFAULT_PLATFORM), *client.endpoints()]
    if not is_known(platform) and platform not in client.endpoints():
        raise unknown(platform, client.endpoints())
    return [platform]


def looked_at(client: Client, out: Output, names: Sequence[str], fix: bool) -> dict[str, list[Finding]]:
    """What is found of each platform; with `fix`, after what can be mended here has been."""
    found = {name: checked(client, name) for name in names}
    for name in names if fix else ():
        mend(out, found[name])
        found[name] = checked(client, name)
    return found


def finding_lines(found: Mapping[str, Sequence[Finding]], out: Output) -> Iterator[str]:
    for name, findings in found.items():
        yield from (f"{name:<11}{show.finding(each, out)}" for each in findings)
        if not findings:
            yield f"{name:<11}{out.status('ok')}: nothing is wrong"


def ready_lines(ready: Sequence[str]) -> list[str]:
    """What the whole comes to: a platform that nobody uses here may well not be ready."""
    return ["", f"Jobs can run on: {', '.join(ready) or 'no platform yet'}"]


def is_place(word: str, client: Client) -> bool:
    """Whether it is a platform's or an endpoint's name, and no file's."""
    return is_known(word) or word in client.endpoints() or not (Path(word).exists() or Path(word).suffix)


def checked(client: Client, platform: str) -> list[Finding]:
    try:
        return client.doctor(platform)
    except TaoError as error:
        return [finding(error)]


def checked_job(client: Client, job: Asked) -> list[Finding]:
    """What would stop the job, or what it should know; good news where that is nothing."""
    try:
        seen = list(client.plan(job.spec, job.platform, job.options).findings)
    except SpecError as error:
        return [finding(job.located(error))]
    except TaoError as error:
        return [finding(error)]
    return seen or [Finding(Severity.OK, "job.ready", "Nothing would stop the job.")]


def new(findings: list[Finding], told: list[Finding]) -> list[Finding]:
    """Those that say what has not been said: what is wrong with the platform stops every job on it."""
    wrong = [each for each in told if each.severity is Severity.ERROR]
    codes, advice = {each.code for each in wrong}, {each.next for each in wrong if each.next}
    return [each for each in findings if each.code not in codes and each.next not in advice]


def finding(error: TaoError) -> Finding:
    """The error as a finding. Of what can be mended here the command stands alone."""
    if isinstance(error, Unreachable) or not error.command:
        return Finding.of_error(error)
    return Finding(Severity.ERROR, error.code, error.what, error.why, command=error.command)


def mend(out: Output, findings: list[Finding]) -> None:
    for each in findings:
        if each.code in MENDED_HERE and each.command:
            out.note(f"+ {each.command}")
            subprocess.run(shlex.split(each.command), check=False)
