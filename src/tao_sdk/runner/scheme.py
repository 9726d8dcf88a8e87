"""The schemes that this runner knows, each with the module that fetches it.

A scheme is one module, packed only into jobs that use it, together with what it needs: `find(uri) -> path` where nothing
has to be fetched, else `look(uri, kind, web) -> Found` (transfer.py).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .document import Input

MODULES = {
    "": "local",
    "file": "local",
    "lustre": "local",
    "slurm": "local",
    "s3": "s3_input",
    "hf_model": "hub_input",
    "hf_dataset": "hub_input",
    "ngc": "ngc_input",
    "http": "http_input",
    "https": "http_input",
}
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")


def scheme(uri: str) -> str:
    """`s3` of s3://bucket/key; "" of a plain path."""
    head, mark, _ = uri.partition("://")
    return head.lower() if mark and head.replace("_", "").replace("+", "").replace("-", "").isalnum() else ""


def packed(wanted: Input) -> bool:
    """Whether an input is to be unpacked, going by its address and what was declared."""
    how = wanted["options"].get("extract", "")
    return how in ("yes", "parent") or (not how and wanted["uri"].partition("?")[0].lower().endswith(ARCHIVES))
