"""`tao doctor`: what is missing or wrong here, and the command that mends it."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

import click

from tao_sdk.cli import exit_codes, show
from tao_sdk.cli.command import Platform, command, platform_option
from tao_sdk.cli.submit import DEFAULT_PLATFORM
from tao_sdk.model.errors import TaoError, Unreachable
from tao_sdk.model.finding import Finding, Severity

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client

MENDED_HERE = frozenset({"extra.missing"})  # what --fix runs: installing a library into this Python


@command("doctor")
@click.argument("named", required=False, type=Platform(), metavar="[PLATFORM]")
@platform_option(help="Only this platform. Default: all.")
@click.option("--fix", is_flag=True, help="Run the commands that install missing libraries; others are only shown.")
def doctor(client: Client, out: Output, named: str | None, platform: str | None, fix: bool) -> int:
    """Find what is missing or wrong on this machine.

    The exit code is 2 when something has to be mended, for the platform that was named, else for local.
    """
    platform = platform or named
    names = [platform] if platform else sorted(client.platforms(), key=lambda name: name != DEFAULT_PLATFORM)
    found = {name: checked(client, name) for name in names}
    for name in found if fix else ():
        mend(out, found[name])
        found[name] = checked(client, name)
    out.object(
        {
            "schema": 1,
            "findings": [{"platform": name, **each.to_json()} for name, findings in found.items() for each in findings],
        }
    )
    for name, findings in found.items():
        out.lines(f"{name:<11}{show.finding(each, out)}" for each in findings)
        if not findings:
            out.line(f"{name:<11}{out.status('ok')}: nothing is wrong")
    needed = [platform or DEFAULT_PLATFORM]  # what nobody asked for may be missing
    wrong = any(each.severity is Severity.ERROR for name in needed for each in found.get(name, ()))
    return exit_codes.WRONG if wrong else exit_codes.DONE


def checked(client: Client, platform: str) -> list[Finding]:
    try:
        return client.doctor(platform)
    except Unreachable as error:
        return [Finding(Severity.ERROR, error.code, error.what, error.why, error.next)]
    except TaoError as error:
        fix = error.next.partition("Run: ")[2] or error.next
        return [Finding(Severity.ERROR, error.code, error.what, error.why, fix)]


def mend(out: Output, findings: list[Finding]) -> None:
    for each in findings:
        if each.code in MENDED_HERE and each.fix:
            out.note(f"+ {each.fix}")
            subprocess.run(shlex.split(each.fix), check=False)
