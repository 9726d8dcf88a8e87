"""Detached: how a verb ends that Ctrl-C interrupts. Not here: how that is told (failure.py)."""

from __future__ import annotations

from tao_sdk.model.errors import TaoError


class Detached(TaoError):
    """Ctrl-C: the command stops looking, the jobs go on. `back` is how to come back to them, where
    there are any.
    """

    code = "detached"

    def __init__(self, what: str, back: str = "") -> None:
        super().__init__(what, "", "Come back:" if back else "", back)
