"""Options of the local backend: how to run a job on this machine."""

from __future__ import annotations

from dataclasses import dataclass

from tao_sdk.model import fields as f
from tao_sdk.model.fields import setting


@f.lists_fields()
@dataclass(frozen=True)
class LocalOptions:
    """What only the local platform understands."""

    gpu_ids: tuple[int, ...] = setting(
        f.integers(0), (), "Exactly these GPUs, by nvidia-smi's index."
    )
    venv_path: str = setting(
        f.TEXT, "", "Virtual environment whose python the command finds first."
    )
