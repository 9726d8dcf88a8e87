"""Values of environment variables."""

from __future__ import annotations


def number(text: str | None, default: float) -> float:
    """A number from the environment; what cannot be read as one counts as not given."""
    try:
        return float(text) if text and "." in text else int(text or default)
    except ValueError:
        return default
