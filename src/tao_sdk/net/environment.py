"""Values of environment variables."""

from __future__ import annotations


def number(text: str | None, default: float) -> float:
    """The number in an environment variable's text; `default` for anything else."""
    try:
        return float(text) if text and "." in text else int(text or default)
    except ValueError:
        return default
