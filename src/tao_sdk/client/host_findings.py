"""Findings about this machine as a host of GPU containers: the results of the set-up script's
check.

Not here: what is checked, and how it is mended. The script has both, and a bare host runs it alone.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tao_sdk.backends.by_name import backend_class, is_known, platforms
from tao_sdk.backends.contract import Capabilities
from tao_sdk.model.errors import TaoError, UsageError
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.gpu_host import SCRIPT
from tao_sdk.model.printable import printable

HOST = "host"  # in the place of a platform's name
SECONDS = 180  # the script gives each of its programs 15
STRICT, WITH_CUDA = "--strict", "--with-cuda"  # flags of the check, by the script's names


def host_findings(
    platform: str | None, environ: Mapping[str, str], flags: Sequence[str] = ()
) -> list[Finding]:
    """Run the host check for the containers of this platform and return its findings. None stands
    for the first platform that has hosts.

    `flags` are STRICT and WITH_CUDA. Raises UsageError for a platform that needs no host of its
    own.
    """
    hosted = [name for name in platforms() if host_setup(name)]
    setup = host_setup(platform or hosted[0])
    if not setup:
        what = f"A host is set up for {' or '.join(hosted)}, not for {printable(platform or '')}."
        raise UsageError(what, "", "Run:", "tao doctor host")
    argv = ["bash", str(SCRIPT), "--backend", setup, "--check-only", "--json", *flags]
    try:
        done = subprocess.run(
            argv,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [not_checked(str(error))]
    return read_findings(done.stdout) or [not_checked(done.stderr)]


def host_setup(platform: str) -> str:
    """The script's name for the platform; "" if no host is set up for it."""
    if not is_known(platform):
        return ""
    try:
        capabilities: Capabilities = backend_class(platform).capabilities
    except TaoError:  # a platform to come
        return ""
    return capabilities.host_setup


def read_findings(text: str) -> list[Finding]:
    """The findings of the script's JSON; none where it is something else."""
    try:
        document = cast("dict[str, Any]", json.loads(text))
        return [read_finding(told) for told in document["findings"]]
    except (ValueError, KeyError, TypeError):
        return []


def read_finding(told: Mapping[str, str]) -> Finding:
    return Finding(
        Severity(told["severity"]),
        told["code"],
        told["what"],
        told["evidence"],
        told["hint"],
        told["next"],
    )


def not_checked(words: str) -> Finding:
    lines = words.strip().splitlines()
    why = printable(lines[-1]) if lines else "The script printed nothing."
    return Finding(
        Severity.ERROR,
        "host.not_checked",
        "This machine could not be checked.",
        why,
        "See that bash runs here, then try again.",
    )
