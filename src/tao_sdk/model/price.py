"""Price: what a rented place costs while a job has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Price:
    """The price of the place that an attempt rents."""

    per_hour: float  # US dollars
    what: str  # the rented place, such as "g6e.xlarge"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Price | None:
        """Read a price; None for a plan without one, or of a version that had none."""
        return cls(float(data["per_hour"]), str(data["what"])) if data else None


def hourly_words(per_hour: float) -> str:
    """`$2.24 per hour`; "" for a place that costs nothing."""
    return f"${per_hour:.2f} per hour" if per_hour else ""
