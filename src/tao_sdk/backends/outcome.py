"""Outcome: how an attempt ended, by the manifest that its runner left among the results.

The manifest outlives the attempt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from tao_sdk.backends.contract import Files, MiB
from tao_sdk.model.errors import PathNotFound
from tao_sdk.model.observation import Outcome

MANIFEST = ".tao/manifest.json"
MOST = 32 * MiB  # about 200,000 files; a longer manifest could use up this machine's memory


def read_outcome(files: Files, results_dir: str, attempt: int) -> Outcome | None:
    """Read the outcome of an attempt from its manifest.

    Returns None if there is no manifest, or it is another attempt's. Raises Unreachable.
    """
    return (
        outcome_of(read_manifest(files.below(results_dir), results_dir), attempt)
        if results_dir
        else None
    )


def read_manifest(files: Files, results_dir: str) -> Mapping[str, Any] | None:
    """Read the manifest, or return None if it is missing or unreadable. Raises Unreachable.

    A job may have put anything in its place.
    """
    try:
        text = files.read(f"{results_dir}/{MANIFEST}", 0, MOST + 1)
    except PathNotFound:
        return None
    return None if len(text) > MOST else json_object(text.decode("utf-8", "replace"))


def parse_manifest(text: str, attempt: int) -> Outcome | None:
    """The outcome in a manifest's text; None if it is another attempt's or no JSON object."""
    return outcome_of(json_object(text), attempt)


def outcome_of(record: Mapping[str, Any] | None, attempt: int) -> Outcome | None:
    if record is None or record.get("attempt") != attempt:
        return None
    code: Any = record.get("exit_code")
    known = isinstance(code, int) and 0 <= code < 256
    return Outcome(whole=record.get("whole") is True and known, exit_code=code if known else None)


def json_object(text: str) -> Mapping[str, Any] | None:
    """Parse a JSON object; None for anything else, such as half a file or too deep nesting."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else None
