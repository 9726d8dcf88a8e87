"""A place that costs money while it is kept: the local backend, with a machine that is rented for
each job.

The machine is a file, so that another process sees it, too. It goes some time after it was told to,
as a real one does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tao_sdk.backends import by_name
from tao_sdk.backends.local.backend import LocalBackend
from tao_sdk.model.plan import Plan
from tao_sdk.model.price import Price

PRICE = Price(2.5, "stand-in, 1 GPU")


class RentedBackend(LocalBackend):
    """Runs jobs as the local backend does, and says what their machines cost."""

    def plan(self, *what: Any) -> Plan[Any]:
        return replace(super().plan(*what), price=PRICE)


def use_rented(monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform `local` rents machines until the test is over."""
    monkeypatch.setitem(by_name.BUILT_IN, "local", f"{__name__}:{RentedBackend.__name__}")
