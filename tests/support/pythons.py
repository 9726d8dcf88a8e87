"""The Pythons that are here, and a PATH on which one of them is alone."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 8  # minor version that our programs outside of the package run on
VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def pythons() -> dict[str, Path]:
    """Version -> interpreter, one of each minor version that is installed."""
    places = [
        *Path.home().glob(".pyenv/versions/*/bin/python3"),
        *Path("/usr/bin").glob("python3*"),
        Path(sys.executable),
    ]
    found: dict[str, Path] = {}
    for place in sorted(places):
        if re.fullmatch(r"python3(\.\d+)?", place.name):
            version = subprocess.run(
                [place, "-ISc", VERSION], capture_output=True, text=True, check=False
            ).stdout.strip()
            found.setdefault(version, place)
    return {version: place for version, place in found.items() if version}


def minor(version: str) -> int:
    """8 of 3.8."""
    return int(version.split(".")[1])


PYTHONS = pythons()
NEW_ENOUGH = {version: path for version, path in PYTHONS.items() if minor(version) >= OLDEST}
TOO_OLD = {version: path for version, path in PYTHONS.items() if version not in NEW_ENOUGH}


def alone(folder: Path, python: Path) -> str:
    """A PATH on which `python3` is this one and there is no other."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "cat", "ls"):
        (tools / name).symlink_to(str(shutil.which(name)))
    (tools / "python3").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    (tools / "python3").chmod(0o755)
    return str(tools)
