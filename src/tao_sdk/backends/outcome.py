"""How an attempt ended by the manifest that its runner left among the results: the record that outlives the attempt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from tao_sdk.backends.contract import Files
from tao_sdk.model.errors import PathNotFound
from tao_sdk.model.observation import Outcome

MANIFEST = ".tao/manifest.json"


def read_outcome(files: Files, results_dir: str, attempt: int) -> Outcome | None:
    """None where there is no manifest, or it is another attempt's. Raises Unreachable when that could not be seen."""
    if not results_dir:
        return None
    try:
        text = files.read(f"{results_dir}/{MANIFEST}")
    except PathNotFound:
        return None
    return parse_manifest(text.decode("utf-8", "replace"), attempt)


def parse_manifest(text: str, attempt: int) -> Outcome | None:
    """What a manifest says of this attempt; another attempt's says nothing."""
    record = json_object(text)
    if record is None or record.get("attempt") != attempt:
        return None
    code: Any = record.get("exit_code")
    known = isinstance(code, int) and 0 <= code < 256
    return Outcome(whole=record.get("whole") is True and known, exit_code=code if known else None)


def json_object(text: str) -> Mapping[str, Any] | None:
    """The JSON object that a file holds; None for anything else, half a file for example."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        return None
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else None
