"""Words that the repository keeps out: they name what a reader cannot see, or hide what a file is
for.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
VAGUE = re.compile(r"(^|_)(utils?|helpers?|managers?|handlers?|common|misc)(_|\.|$)")
HOSTS = re.compile(
    "|".join(
        (
            "pypi" + r"\.org",
            "files" + r"\.pythonhosted",
            "proxy" + r"\.golang",
            "registry" + r"\.npmjs",
        )
    )
)


def tracked() -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_is_named_vaguely() -> None:
    assert not [path.name for path in tracked() if VAGUE.search(path.name)]


def test_no_package_index_is_named() -> None:
    named = [
        str(path) for path in tracked() if HOSTS.search(path.read_bytes().decode("utf-8", "ignore"))
    ]
    assert not named
