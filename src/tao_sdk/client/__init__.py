"""The client: the base of the SDK classes, the `tao` command and every other door. Names are loaded
on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tao_sdk.backends.contract import FileStat as FileStat
    from tao_sdk.client.client import Client as Client
    from tao_sdk.client.platform_sdk import PlatformSDK as PlatformSDK
    from tao_sdk.client.results import Results as Results
    from tao_sdk.engine.prepare import Planned as Planned
    from tao_sdk.engine.submit import Submission as Submission

# Name -> the module that it is defined in. The last three are what calls of the client return.
_HOMES = {
    "Client": "tao_sdk.client.client",
    "PlatformSDK": "tao_sdk.client.platform_sdk",
    "Results": "tao_sdk.client.results",
    "FileStat": "tao_sdk.backends.contract",
    "Planned": "tao_sdk.engine.prepare",
    "Submission": "tao_sdk.engine.submit",
}

__all__ = ["Client", "FileStat", "Planned", "PlatformSDK", "Results", "Submission"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tao_sdk.client' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
