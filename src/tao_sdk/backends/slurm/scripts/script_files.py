"""Script files: the shell text in this folder, in the form that is sent to the cluster."""

from __future__ import annotations

from pathlib import Path

from tao_sdk.backends import shell

SCRIPTS = Path(__file__).parent


def load_script(name: str) -> str:
    """scripts/NAME.sh without its head and its directives for shellcheck."""
    return shell.load_script(SCRIPTS, name)
