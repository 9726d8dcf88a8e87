"""Time as we write it: UTC, aware, ISO 8601."""

from __future__ import annotations

from datetime import datetime, timezone


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


def to_iso(moment: datetime | None) -> str | None:
    """`2026-11-21T05:04:00.123Z`: milliseconds are enough for people and sort as text."""
    if moment is None:
        return None
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def whole_milliseconds(moment: datetime) -> datetime:
    """The moment as it comes back from `to_iso` and `from_iso`."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def from_iso(text: str | None) -> datetime | None:
    """Parse the text of `to_iso`. None for None and ""."""
    if not text:
        return None
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
