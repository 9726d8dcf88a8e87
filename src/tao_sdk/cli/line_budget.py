"""LineBudget: how many lines of a program may be shown beside its progress, so that one that prints
thousands a second does not flood the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence

MOST_AT_ONCE = 40  # lines, as of a table after an epoch
LINES_A_SECOND = 1.0  # lines that may follow


class LineBudget:
    """Room for MOST_AT_ONCE lines, which grows again by LINES_A_SECOND."""

    def __init__(self) -> None:
        self._room = float(MOST_AT_ONCE)
        self._at: float | None = None

    def newest_lines(self, lines: Sequence[str], at: float) -> list[str]:
        """The last ones of the lines, as many as there is room for at the time `at` (seconds, any
        steady clock).
        """
        passed = 0.0 if self._at is None else at - self._at
        self._at = at
        self._room = min(self._room + passed * LINES_A_SECOND, MOST_AT_ONCE)
        count = min(len(lines), int(self._room))
        self._room -= count
        return list(lines[len(lines) - count :])
