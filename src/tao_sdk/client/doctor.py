"""Doctor: problems of each platform, and problems that would stop one job, as findings that say
each thing once.

Not here: what a platform looks at (the doctor of its backend), and how findings are shown.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from tao_sdk.backends.by_name import is_known, unknown
from tao_sdk.client.job_request import DEFAULT_PLATFORM
from tao_sdk.client.launch_checks import LaunchNeeds, launch_findings
from tao_sdk.client.mistakes import each_of
from tao_sdk.model.errors import SpecError, TaoError, Unreachable
from tao_sdk.model.finding import Finding, Severity

if TYPE_CHECKING:
    from tao_sdk.client.client import Client
    from tao_sdk.client.job_request import JobRequest

# findings whose command installs a library into this Python
INSTALLED_HERE = frozenset({"extra.missing"})
PUBLISHED_AUTOML = "nvidia-tao-automl"


def asked_platforms(client: Client, platform: str | None) -> list[str]:
    """The named platform or endpoint, else all of them. Raises UsageError for an unknown name."""
    if not platform:
        return [
            *sorted(client.platforms(), key=lambda name: name != DEFAULT_PLATFORM),
            *client.endpoints(),
        ]
    if not is_known(platform) and platform not in client.endpoints():
        raise unknown(platform, client.endpoints())
    return [platform]


def is_platform(word: str, client: Client) -> bool:
    """True if it is the name of a platform or an endpoint, and not that of a file."""
    if is_known(word) or word in client.endpoints():
        return True
    return not (Path(word).exists() or Path(word).suffix)


def platform_findings(client: Client, platform: str) -> list[Finding]:
    """Findings about the platform. An error while it is checked becomes a finding, too. Those of
    the default platform begin with what is wrong with this Python.
    """
    python = list(package_findings()) if platform == DEFAULT_PLATFORM else []
    try:
        return [*python, *client.doctor(platform)]
    except TaoError as error:
        return [*python, error_finding(error)]


def package_findings() -> Iterator[Finding]:
    """A finding about a published package that has taken the place of a part of this one."""
    try:
        version = metadata.version(PUBLISHED_AUTOML)
    except metadata.PackageNotFoundError:
        return
    python = shlex.quote(sys.executable or "python3")
    ours = "'nvidia-tao-sdk>=8'"
    yield Finding(
        Severity.WARNING,
        "package.automl",
        f"{PUBLISHED_AUTOML} {version} is installed.",
        "It brings a tao_automl of its own, and asks for the SDK of its own version; this one has "
        "AutoML in it.",
        "Remove it, and install what it wrote over:",
        f"{python} -m pip uninstall --yes {PUBLISHED_AUTOML} && "
        f"{python} -m pip install --force-reinstall --no-deps {ours}",
    )


def job_findings(
    client: Client, request: JobRequest, needs: LaunchNeeds | None = None
) -> list[Finding]:
    """Findings for the job: what would stop it, warnings, and what the launch checks saw."""
    try:
        planned = client.plan(request.spec, request.platform, request.options)
    except SpecError as error:
        return [error_finding(each) for each in each_of(request.located(error))]
    except TaoError as error:
        return [error_finding(error)]
    findings = list(launch_findings(client, request, planned, needs or LaunchNeeds()))
    if all(finding.severity is Severity.OK for finding in findings):
        findings.append(Finding(Severity.OK, "job.ready", "Nothing would stop the job."))
    return findings


def new_findings(findings: Sequence[Finding], known: Sequence[Finding]) -> list[Finding]:
    """The findings that `known` does not cover. A platform error stops every job on it, so a
    finding with the code or the advice of such an error is left out.
    """
    errors = [finding for finding in known if finding.severity is Severity.ERROR]
    codes = {finding.code for finding in errors}
    advice = {finding.next for finding in errors if finding.next}
    return [
        finding for finding in findings if finding.code not in codes and finding.next not in advice
    ]


def ready_platforms(findings: Mapping[str, Sequence[Finding]]) -> list[str]:
    """The names of the platforms without an error."""
    return [
        name
        for name, each in findings.items()
        if not any(one.severity is Severity.ERROR for one in each)
    ]


def install_commands(findings: Sequence[Finding]) -> list[str]:
    """The commands that install missing packages into this Python. A person runs the other
    commands.
    """
    return [
        finding.command
        for finding in findings
        if finding.code in INSTALLED_HERE and finding.command
    ]


def error_finding(error: TaoError) -> Finding:
    """The error as a finding. If it can be mended here, its only advice is the command."""
    if isinstance(error, Unreachable) or not error.command:
        return Finding.of_error(error)
    return Finding(Severity.ERROR, error.code, error.what, error.why, command=error.command)
