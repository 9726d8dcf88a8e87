"""Detached: the end of a verb that Ctrl-C interrupts. Not here: its message (failure.py)."""

from __future__ import annotations

from tao_sdk.model.errors import TaoError


class Detached(TaoError):
    """Ctrl-C: the command stops looking, the jobs go on. `back` is the command that comes back to
    them, if there are any.
    """

    code = "detached"

    def __init__(self, what: str, back: str = "") -> None:
        super().__init__(what, "", "Come back:" if back else "", back)
