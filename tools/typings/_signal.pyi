"""What Python's `signal` wraps: the same functions."""

from signal import *  # noqa: F403
