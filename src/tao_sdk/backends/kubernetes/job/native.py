"""Merge `native` into a Job: mappings key by key, lists of named items by name. Pure.

Not here: the merge for other platforms (backends/native_patch.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from tao_sdk.model.fields import FieldError

OURS = (
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "uid"),
    ("metadata", "ownerReferences"),
    ("spec", "selector"),
    ("spec", "suspend"),
    ("spec", "manualSelector"),
    ("spec", "completions"),
    ("spec", "completionMode"),
    ("spec", "parallelism"),
    ("apiVersion",),
    ("kind",),
)
LABELS = (("metadata", "labels"), ("spec", "template", "metadata", "labels"))


def patched_job(body: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The Job with the patch merged into it. Raises FieldError for a field that tao sets itself."""
    refuse_ours(body, patch)
    return merged_mapping(body, patch, "native")


def refuse_ours(body: Mapping[str, Any], patch: Mapping[str, Any]) -> None:
    for path in OURS:
        if has_path(patch, path):
            raise not_yours(path)
    for path in LABELS:
        own: Mapping[str, str] = value_at(body, path) or {}
        given: Any = value_at(patch, path) or {}
        for name in own:
            if name in given:
                raise not_yours((*path, name))


def not_yours(path: Sequence[str]) -> FieldError:
    return FieldError(
        "native",
        f"native.{'.'.join(path)} cannot be changed.",
        "The job is found and started by it.",
        "Leave it out.",
    )


def has_path(tree: Mapping[str, Any], path: Sequence[str]) -> bool:
    """True if the patch has this path. A null value counts too: it removes the field."""
    parent: Any = value_at(tree, path[:-1]) or {}
    return path[-1] in parent


def value_at(tree: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(tree, Mapping):
            return None
        tree = cast("Mapping[str, Any]", tree).get(name)
    return tree


def merged_mapping(
    value: Mapping[str, Any], patch: Mapping[str, Any], where: str
) -> dict[str, Any]:
    merged = dict(value)
    for name, given in patch.items():
        merged[name] = merged_value(merged.get(name), given, f"{where}.{name}")
    return merged


def merged_value(value: Any, patch: Any, where: str) -> Any:
    if isinstance(value, Mapping):
        if not isinstance(patch, Mapping):
            raise FieldError("native", f"{where} is {patch!r}; it must be a mapping.")
        return merged_mapping(
            cast("Mapping[str, Any]", value), cast("Mapping[str, Any]", patch), where
        )
    if isinstance(value, list):
        if not isinstance(patch, list):
            raise FieldError("native", f"{where} is {patch!r}; it must be a list.")
        return merged_list(cast("list[Any]", value), cast("list[Any]", patch), where)
    return patch


def merged_list(values: list[Any], patch: list[Any], where: str) -> list[Any]:
    """Merge items with the same name. A list is replaced if any item has no name."""
    if not all(map(has_name, (*values, *patch))):
        return patch
    merged = {each["name"]: each for each in values}
    for each in patch:
        name = each["name"]
        merged[name] = merged_value(merged.get(name), each, f"{where}[{name}]")
    return list(merged.values())


def has_name(value: Any) -> bool:
    return isinstance(value, Mapping) and "name" in value
