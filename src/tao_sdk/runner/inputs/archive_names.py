"""Archives by their names: what is one, and whether an input is to be unpacked."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.runner.document import Input

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")


def archive_stem(name: str) -> str:
    """`images` of images.tar.gz; "" for what is no archive, going by its name."""
    lower = name.lower()
    suffix = max((ending for ending in ARCHIVES if lower.endswith(ending)), key=len, default="")
    if suffix and len(name) > len(suffix):
        return name[: -len(suffix)]
    return ""


def must_unpack(wanted: Input) -> bool:
    """Whether an input is to be unpacked, going by its address and what was declared."""
    how = wanted["options"].get("extract", "")
    return how in ("yes", "parent") or (
        not how and wanted["uri"].partition("?")[0].lower().endswith(ARCHIVES)
    )
