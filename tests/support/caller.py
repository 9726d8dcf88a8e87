"""The environment of a caller: somebody with a home and a state folder of his own, who has named no
platform and no login yet.
"""

from __future__ import annotations

import os
from pathlib import Path

PLATFORM_NAMES = ("TAO_", "NGC_", "DOCKER_", "KUBE", "SLURM_", "SSH_")


def caller_environment(folder: Path, **own: str) -> dict[str, str]:
    """His home and state folder are below `folder`; `own` is what he has set besides."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(PLATFORM_NAMES)
    }
    return {**kept, **own, "HOME": str(home), "TAO_SDK_STATE_DIR": str(folder / "state")}
