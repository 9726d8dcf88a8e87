"""TAO AutoML: the best settings of a training, searched by jobs that are trials.

AutoML is a search by ask and tell. Below it `create_search` makes a Search, `advance` says what to
do next, and a driver does it. Names are loaded on first use; the package itself needs the standard
library alone.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # typing itself takes longer to import than all else here
if TYPE_CHECKING:
    from typing import Any

    from tao_automl.automl import AutoML as AutoML
    from tao_automl.automl import SearchFailed as SearchFailed
    from tao_automl.recommendation import Recommendation as Recommendation
    from tao_automl.result_text import format_result as format_result
    from tao_automl.runner import AutoMLRunner as AutoMLRunner
    from tao_automl.search import Advance as Advance
    from tao_automl.search import advance as advance
    from tao_automl.search import create_search as create_search
    from tao_automl.settings import SearchSettings as SearchSettings
    from tao_automl.settings import read_settings as read_settings
    from tao_automl.state import Search as Search
    from tao_automl.status_query import query_status as query_status
    from tao_automl.trial import Objective as Objective
    from tao_automl.trial import Trial as Trial

_HOMES = {
    "AutoML": "tao_automl.automl",
    "AutoMLRunner": "tao_automl.runner",
    "format_result": "tao_automl.result_text",
    "query_status": "tao_automl.status_query",
    "SearchFailed": "tao_automl.automl",
    "Recommendation": "tao_automl.recommendation",
    "Advance": "tao_automl.search",
    "advance": "tao_automl.search",
    "create_search": "tao_automl.search",
    "SearchSettings": "tao_automl.settings",
    "read_settings": "tao_automl.settings",
    "Search": "tao_automl.state",
    "Objective": "tao_automl.trial",
    "Trial": "tao_automl.trial",
}

__all__ = [  # noqa: RUF022  in the order in which a reader meets them
    "AutoMLRunner", "AutoML", "query_status", "format_result", "Recommendation", "SearchFailed",
    "create_search", "advance", "Search", "Advance",
    "Trial", "Objective", "SearchSettings", "read_settings",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tao_automl' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
