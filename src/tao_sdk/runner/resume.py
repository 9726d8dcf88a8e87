"""Resume: the newest complete checkpoint that an earlier attempt of this job left.

Complete means that the manifest lists it with its checksum, and that it still has that size and time: the newest file on
disk may be half written.
"""

from __future__ import annotations

import os

from .manifest import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    from .place import Place

SUFFIXES = (".pth", ".pth.tar", ".pt", ".ckpt", ".tlt", ".hdf5", ".npz", ".safetensors")


def checkpoint(place: Place, carried: List[str]) -> str:
    """Its path; "" when there is none to trust. `carried` are the files that travelled with the job: no checkpoints."""
    manifest = load(place.manifest)
    if manifest.get("job") != place.job:
        return ""
    ours = {"work/" + path for path in carried}
    files = [each for each in manifest["files"] if each["path"].endswith(SUFFIXES) and each["path"] not in ours]
    complete = [each for each in files if intact(each, place.folder)]
    if not complete:
        return ""
    newest = max(complete, key=lambda each: (each["mtime"], each["path"]))
    return os.path.join(place.folder, newest["path"])


def intact(listed: Dict[str, Any], folder: str) -> bool:
    try:
        found = os.stat(os.path.join(folder, listed["path"]))
    except OSError:
        return False
    return (found.st_size, found.st_mtime) == (listed["size"], listed["mtime"])
