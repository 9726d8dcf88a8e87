"""Resume: the newest complete checkpoint that an earlier attempt of this job left.

Complete means that the manifest lists it with its checksum, and that it still has that size and time: the newest file on
disk may be half written.
"""

from __future__ import annotations

import os

from .manifest import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Sequence, Tuple

    from .bucket import Bucket
    from .document import Document
    from .place import Place
    from .report import Report

    Fetch = Callable[[Dict[str, Any]], str]  # brings what a manifest lists here; its path, "" when it is not as listed

SUFFIXES = (".pth", ".pth.tar", ".pt", ".ckpt", ".tlt", ".hdf5", ".npz", ".safetensors")


def resumed(document: Document, place: Place, buckets: Sequence[Bucket], report: Report) -> Dict[str, str]:
    """The key that the checkpoint fills -> its path; nothing when there is none to trust, which is told."""
    path = checkpoint(place, document["files"], buckets)
    if path:
        report.event("resumed", path=path)
        return {document["resume"]: path}
    if os.path.exists(place.manifest) or any(each.entries for each in buckets):
        report.warn(
            "resume.nothing",
            "The command starts anew: no checkpoint of an earlier attempt is certainly complete.",
            "The manifest of that attempt lists none that is still there as it was.",
        )
    return {}


def checkpoint(place: Place, carried: List[str], buckets: Sequence[Bucket]) -> str:
    """Its path; "" when there is none to trust.

    `carried` are the files that travelled with the job: no checkpoints. One that lies in a bucket is brought here first.
    """
    manifest = load(place.manifest)
    here: List[Dict[str, Any]] = manifest["files"] if manifest.get("job") == place.job else []
    found: List[Tuple[Dict[str, Any], Fetch]] = [(each, in_folder(place.folder)) for each in here]
    for bucket in buckets:
        found += [(each, bucket.fetch) for each in bucket.checkpoints()]
    ours = {"work/" + path for path in carried}
    fitting = [each for each in found if each[0]["path"].endswith(SUFFIXES) and each[0]["path"] not in ours]
    for entry, fetch in sorted(fitting, key=lambda each: (each[0]["mtime"], each[0]["path"]), reverse=True):
        path = fetch(entry)
        if path:
            return path
    return ""


def in_folder(folder: str) -> Fetch:
    return lambda listed: os.path.join(folder, listed["path"]) if intact(listed, folder) else ""


def intact(listed: Dict[str, Any], folder: str) -> bool:
    try:
        found = os.stat(os.path.join(folder, listed["path"]))
    except OSError:
        return False
    return (found.st_size, found.st_mtime) == (listed["size"], listed["mtime"])
