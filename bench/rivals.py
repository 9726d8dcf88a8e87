"""Rivals: which contenders this run compares with; one that cannot be had is told once, loudly, and
left out.
"""

from __future__ import annotations

import sys

from bench.contenders import Contender, Environment, Missing


class Rivals:
    """`alone` compares with none."""

    def __init__(self, *, alone: bool = False) -> None:
        self.alone = alone
        self.missing: dict[str, str] = {}
        self._found: dict[str, Environment | None] = {}

    def environment(self, contender: Contender) -> Environment | None:
        """None when its rows have to be left out."""
        if self.alone:
            return None
        if contender.name not in self._found:
            self._found[contender.name] = self._look_for(contender)
        return self._found[contender.name]

    def _look_for(self, contender: Contender) -> Environment | None:
        try:
            return contender.environment()
        except Missing as reason:
            self.missing[contender.title] = str(reason)
            print(
                f"\n!!! NOT COMPARED: {contender.title} is missing; its "
                f"rows are left out.\n{reason}\n",
                file=sys.stderr,
            )
            return None
