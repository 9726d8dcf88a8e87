"""Measurement: the figures of one group, when and on what they were measured, and who was left out.

Each group is measured by itself and kept below .cache/bench, so that the page can be written from
groups of different moments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figure import Figure
from bench.folder import CACHE
from bench.machine import Machine

KEPT = CACHE / "figures"
SCHEMA = 1


@dataclass(frozen=True)
class Measurement:
    group: str
    machine: Machine  # and the moment and the load when it began
    load_after: float
    figures: Sequence[Figure]
    missing: Mapping[str, str]  # contenders that could not be installed, and why
    failed: Sequence[str]  # contenders that failed: who, in which figure, why

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "group": self.group,
            "machine": {**self.machine.to_json(), "load_after": self.load_after},
            "not_compared": dict(self.missing),
            "left_out": list(self.failed),
            "figures": [figure.to_json() for figure in self.figures],
        }

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> Measurement:
        machine = dict(known["machine"])
        load_after = machine.pop("load_after")
        return cls(
            known["group"],
            Machine(**machine),
            load_after,
            [Figure.from_json(figure) for figure in known["figures"]],
            known["not_compared"],
            known["left_out"],
        )


def keep(measurement: Measurement, folder: Path) -> None:
    """Whole or not at all: a run may be interrupted at any time."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{measurement.group}.part"
    part.write_text(json.dumps(measurement.to_json(), indent=2), encoding="utf-8")
    part.replace(folder / f"{measurement.group}.json")


def kept(groups: Iterable[str], folder: Path) -> dict[str, Measurement]:
    """The last measurement of each of these groups that has one."""
    documents = [read(folder / f"{group}.json") for group in groups]
    return {
        known["group"]: Measurement.from_json(known)
        for known in documents
        if known.get("schema") == SCHEMA
    }


def read(path: Path) -> dict[str, Any]:
    """Empty where there is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
