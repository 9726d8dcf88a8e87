"""The targets of a GPU host: the versions and packages that TAO's documents ask for.

The script that sets a host up holds them, because a bare host has nothing else. They are read from
it.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

SCRIPT = (
    Path(__file__).parents[1]
    / "skill_bank/skills/platform/tao-setup-nvidia-gpu-host/scripts/setup-nvidia-gpu-host.sh"
)
TARGET = re.compile(r"^([A-Z_]+)=\$\{\1:-([^${}\n]+)\}$", re.MULTILINE)


@functools.cache
def targets() -> dict[str, str]:
    """The script's settings: name -> default value."""
    return dict(TARGET.findall(SCRIPT.read_text(encoding="utf-8")))
