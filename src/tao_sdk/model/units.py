"""Durations and sizes as people write them: `4h`, `30m`, `1-12:00:00`, `8g`, `512MiB`."""

from __future__ import annotations

import re
from datetime import timedelta

from tao_sdk.model.lazy_pattern import lazy_compile

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = lazy_compile(r"(?:\d+(?:\.\d+)?[smhdw])+", re.ASCII)
_CLOCK = lazy_compile(r"(?:(\d+)-)?(\d+):([0-5]?\d):([0-5]?\d)|(\d+)-(\d+):([0-5]?\d)", re.ASCII)
_SIZE = lazy_compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?b?)", re.ASCII | re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def parse_duration(text: str) -> timedelta:
    """Parse `90s`, `4h`, `1h30m`, `2d`, `04:00:00`, `1-12:00:00` and `1-12:00` (SLURM's
    days-hours).

    Raises ValueError, also for `30:00`, which can be minutes or hours.
    """
    text = text.strip().lower()
    if _DURATION.fullmatch(text):
        parts = re.findall(r"([\d.]+)([smhdw])", text)
        return timedelta(seconds=sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts))
    if match := _CLOCK.fullmatch(text):
        parts = [int(part or 0) for part in match.groups()]
        days, hours, minutes, seconds = parts[:4] if match[2] else [*parts[4:], 0]
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    raise ValueError("a duration such as 30s, 45m, 4h, 1h30m, 2d or 04:00:00")


def format_duration(duration: timedelta) -> str:
    """Return the shortest form that `parse_duration` reads as the same duration."""
    seconds = duration.total_seconds()
    for unit in ("d", "h", "m"):
        if seconds and seconds % _UNIT_SECONDS[unit] == 0:
            return f"{seconds / _UNIT_SECONDS[unit]:.0f}{unit}"
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


def parse_size(text: str) -> int:
    """Parse `512m`, `8g`, `8GiB`, `1.5T` or `1024` into bytes. Units are powers of 1024, as docker
    has them. Raises ValueError.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError("a size such as 512m, 8g or 1.5T")
    return int(float(match[1]) * 1024 ** _POWER[match[2].lower()])


def format_size(size: float) -> str:
    """`0.3 MB`, as people read sizes: powers of 1000."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit * 0.1 and (name != "kB" or size >= unit):
            return f"{size / unit:.1f} {name}"
    return f"{int(size)} B"


def format_clock(seconds: float) -> str:
    """`0:21`, `1:02:03`."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minute:02}:{second:02}"
    return f"{minute}:{second:02}"
