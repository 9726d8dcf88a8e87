"""Recognize archives by their names, and decide if an input must be unpacked."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.runner.document import Input

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")


def archive_stem(name: str) -> str:
    """`images` for images.tar.gz; "" if the name is not an archive's."""
    lower = name.lower()
    suffix = max((ending for ending in ARCHIVES if lower.endswith(ending)), key=len, default="")
    if suffix and len(name) > len(suffix):
        return name[: -len(suffix)]
    return ""


def must_unpack(wanted: Input) -> bool:
    """True if an input must be unpacked, by its address and its `extract` option."""
    how = wanted["options"].get("extract", "")
    return how in ("yes", "parent") or (
        not how and wanted["uri"].partition("?")[0].lower().endswith(ARCHIVES)
    )
