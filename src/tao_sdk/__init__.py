"""TAO Execution SDK: run training jobs, and lose no job, log or result.

    from tao_sdk.platforms.local import LocalSDK

    with LocalSDK() as sdk:
        job = sdk.create_job(command="python train.py", gpu_count=1)
        print(sdk.wait(job.id).status, sdk.get_job_logs(job.id, tail=20))

help(LocalSDK) has the calls, help(JobSpec) the fields of a job, tao_sdk.model.errors the errors.
Names are loaded on first use.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # typing itself takes longer to import than all else here
if TYPE_CHECKING:
    from typing import Any

    from tao_sdk.client import Client as Client
    from tao_sdk.client import PlatformSDK as PlatformSDK
    from tao_sdk.model.errors import CredentialError as CredentialError
    from tao_sdk.model.errors import TaoError as TaoError
    from tao_sdk.model.errors import TaoWarning as TaoWarning
    from tao_sdk.model.job import Job as Job
    from tao_sdk.model.job import JobStatus as JobStatus
    from tao_sdk.model.progress import Progress as Progress
    from tao_sdk.model.secrets import Secret as Secret
    from tao_sdk.model.spec import JobSpec as JobSpec
    from tao_sdk.model.status import Status as Status

__version__ = "8.0.0"

_HOMES = {
    "Client": "tao_sdk.client",
    "PlatformSDK": "tao_sdk.client",
    "CredentialError": "tao_sdk.model.errors",
    "TaoError": "tao_sdk.model.errors",
    "TaoWarning": "tao_sdk.model.errors",
    "Job": "tao_sdk.model.job",
    "JobStatus": "tao_sdk.model.job",
    "JobSpec": "tao_sdk.model.spec",
    "Progress": "tao_sdk.model.progress",
    "Secret": "tao_sdk.model.secrets",
    "Status": "tao_sdk.model.status",
}

__all__ = [  # noqa: RUF022  in the order in which a reader meets them
    "Client", "PlatformSDK", "JobSpec", "Job", "JobStatus", "Status", "Progress", "Secret",
    "TaoError",
    "CredentialError", "TaoWarning",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tao_sdk' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
