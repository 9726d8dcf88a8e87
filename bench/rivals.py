"""Rivals: which contenders this run compares with. One that cannot be had is told once, loudly, and
left out; one that fails is left out of that figure.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection

from bench.contenders import Contender, Environment, Missing
from bench.rounds import ContenderFailed


class Rivals:
    """`alone` compares with none."""

    def __init__(self, *, alone: bool = False) -> None:
        self.alone = alone
        self.missing: dict[str, str] = {}
        self.failed: list[str] = []  # who, in which figure, and why
        self._found: dict[str, Environment | None] = {}

    def environment(self, contender: Contender) -> Environment | None:
        """None when its rows have to be left out."""
        if self.alone:
            return None
        if contender.name not in self._found:
            self._found[contender.name] = self._look_for(contender)
        return self._found[contender.name]

    def leave_out_of(
        self, figure: str, needed: Collection[str] = ("ours",)
    ) -> Callable[[str, ContenderFailed], None]:
        """For `interleaved`: tells of a rival's failure. That of one that is needed ends the
        group.
        """

        def leave_out(name: str, failure: ContenderFailed) -> None:
            if name in needed:
                raise failure
            self.failed.append(f"{name} in “{figure}”: {failure}")
            print(f"\n!!! LEFT OUT: {self.failed[-1]}\n", file=sys.stderr)

        return leave_out

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
