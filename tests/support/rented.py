"""A place that costs money while it is kept: the local backend, with a machine that is rented for
each attempt.

A machine is a file in `rented` below the state folder, so that every process sees it. It goes some
time after it was told to, as a real one does: the first release marks it, a later one removes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tao_sdk.backends import by_name
from tao_sdk.backends.contract import LogChunk, LogRequest
from tao_sdk.backends.local.backend import LocalBackend
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.plan import Attempt, Plan, Ref
from tao_sdk.model.price import Price

PRICE = Price(2.5, "stand-in, 1 GPU")
GOING = "going"


class RentedBackend(LocalBackend):
    """Runs jobs as the local backend does, each attempt on a machine that is paid for.

    Its log cannot be fetched while the file `silent` is beside the machines.
    """

    capabilities = replace(LocalBackend.capabilities, costs_while_kept=True, poll_seconds=0)

    def plan(self, *what: Any) -> Plan[Any]:
        return replace(super().plan(*what), price=PRICE)

    def submit(self, plan: Plan[Any], secrets: Mapping[str, str]) -> Ref:
        self.machine(plan.attempt).touch()
        return super().submit(plan, secrets)

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        if (self.machine(ref.attempt).parent / "silent").exists():
            raise Unreachable("The machine does not answer.")
        return super().logs(ref, request)

    def release(self, ref: Ref) -> None:
        super().release(ref)
        machine = self.machine(ref.attempt)
        if machine.exists() and machine.read_text() != GOING:
            machine.write_text(GOING)
            raise Unreachable(f"{machine.name} is being deleted.")
        machine.unlink(missing_ok=True)

    def machine(self, attempt: Attempt) -> Path:
        folder = rented_folder(Path(self.home).parent)
        folder.mkdir(exist_ok=True)
        return folder / f"{attempt.job_id}.{attempt.number}"


def rented_folder(state: Path) -> Path:
    return state / "rented"


def rented_machines(state: Path) -> list[str]:
    """The machines that are paid for now: `JOB.ATTEMPT`."""
    return sorted(path.name for path in rented_folder(state).glob("*.*"))


def use_rented(monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform `local` rents machines until the test is over."""
    monkeypatch.setitem(by_name.BUILT_IN, "local", f"{__name__}:{RentedBackend.__name__}")
