"""Surroundings: the part of the settings that the reader of a skill bank needs.

`Settings` has it. Where the package is not installed, the environment alone does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class Surroundings(Protocol):
    """The caller's environment and configuration."""

    def get(self, name: str) -> str | None:
        """The value of `name`, or None; an empty one counts as not set."""
        ...

    @property
    def home(self) -> Path: ...


@dataclass(frozen=True)
class Environment:
    """The variables of a process, and no configuration file."""

    variables: Mapping[str, str]

    def get(self, name: str) -> str | None:
        return self.variables.get(name) or None

    @property
    def home(self) -> Path:
        return Path(self.variables.get("HOME") or Path.home())


def surroundings_here() -> Surroundings:
    """The settings of this process."""
    from tao_sdk.model.settings import Settings

    return Settings.load()
