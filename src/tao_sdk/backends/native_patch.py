"""`native` of a job file: a patch for the request that a backend has rendered.

Here: how to merge one mapping into another. Not here: the fields that a backend protects from
patches (its own render), and how sbatch's directives are written (slurm/job/directives.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from tao_sdk.model.fields import FieldError
from tao_sdk.model.finding import Finding, error

KINDS: Mapping[type, str] = {str: "a text", list: "a list", Mapping: "a mapping"}


def patched(
    body: Mapping[str, Any], patch: Mapping[str, Any], where: str = "native"
) -> dict[str, Any]:
    """Return the body with the patch merged in, mapping by mapping.

    Raises SpecError if a value has another kind than the value that it replaces.
    """
    merged = dict(body)
    for name, value in patch.items():
        merged[name] = patched_value(merged.get(name), value, f"{where}.{name}")
    return merged


def patched_value(value: Any, patch: Any, where: str) -> Any:
    kind = next((kind for kind in KINDS if isinstance(value, kind)), None)
    if kind and not isinstance(patch, kind):
        raise FieldError("native", f"{where} is {patch!r}; it must be {KINDS[kind]}.")
    if kind is Mapping:
        return patched(cast("Mapping[str, Any]", value), cast("Mapping[str, Any]", patch), where)
    return patch


def nothing_to_patch(names: Iterable[str], platform: str) -> Finding:
    """The error for `native` on a platform that sends no request."""
    what = (
        f"native has {', '.join(names)}; there is no request of the {platform} platform to patch."
    )
    return error("native.unknown", what, "", "Leave it out.")
