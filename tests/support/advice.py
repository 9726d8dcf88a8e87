"""Advice of findings: what holds for every one that a doctor gives."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable

from tao_sdk.model.finding import Finding, Severity

PLACEHOLDER = re.compile(r"\.\.\.|<[^ ]+>|\buser@host\b|\bHOST\b|\bPATH/TO\b")
COMMAND = re.compile(r"(export|sudo|apt-get|pip|docker|tao|ssh|chmod) ")


def check_advice(findings: Iterable[Finding]) -> None:
    """Each one that is not good news has a command that can be run as it stands, or a hint in
    words.
    """
    for finding in findings:
        told = finding.to_json()
        command, hint = told["next"], told["hint"]
        if finding.severity is not Severity.OK:
            assert command or hint, f"{finding.code} says nothing to do"
        assert not PLACEHOLDER.search(command), f"{finding.code}: {command}"
        assert not COMMAND.match(hint), f"{finding.code} has a command as its hint: {hint}"
        done = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True)
        assert done.returncode == 0, f"{finding.code}: {command}: {done.stderr}"
