"""Idempotency: the key by which a caller names one submit, however often it is repeated.

Here: the key with a digest of the request, and the check of a key. Not here: how keys are stored
(store/store.py), and what a repeated submit does (engine/repeated.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from tao_sdk.model.errors import UsageError

LONGEST_KEY = 255  # characters


@dataclass(frozen=True)
class SubmitKey:
    """A key, and the digest of the request that came with it."""

    text: str
    request: str


def check_key(key: object) -> None:
    """Raise UsageError for an invalid idempotency key."""
    if not isinstance(key, str):
        what = f"The idempotency key is a {type(key).__name__}, not a text."
    elif not key.strip():
        what = "The idempotency key is empty."
    elif len(key) > LONGEST_KEY or not key.isprintable():
        what = "The idempotency key is too long, or has characters that cannot be printed."
    else:
        return
    why = "It is what a repeated submit is known by."
    raise UsageError(what, why, f"Give 1 to {LONGEST_KEY} printable characters, such as a UUID.")
