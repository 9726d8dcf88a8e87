"""The plain value inside a type that people and libraries pass: an Enum, a path, a number or an
array of numpy.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import Any, cast


def unwrap_value(value: object) -> object:
    """The plain value inside; any other value as it is. numpy is recognized, never imported."""
    while isinstance(value, Enum):
        value = value.value
    if isinstance(value, os.PathLike):
        return os.fsdecode(cast("os.PathLike[str]", value))
    if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
        return cast(Any, value).tolist()
    return value
