"""Resume: the newest complete checkpoint that an earlier attempt of this job left.

Complete means that the manifest lists it with its checksum, and that it still has that size and
time: the newest file on disk may be half written. A folder, as distributed checkpoints and Hugging
Face's are, is complete when the manifest says so of it and each of its files is.
"""

from __future__ import annotations

import os
import re

from tao_sdk.runner.outputs.manifest import load_manifest
from tao_sdk.runner.outputs.tree import WEIGHTS, checkpoint_folder, is_growing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from tao_sdk.runner.document import Document
    from tao_sdk.runner.outputs.bucket import Bucket
    from tao_sdk.runner.place import Place
    from tao_sdk.runner.report import Report

    Entry = dict[str, Any]
    Fetch = Callable[
        [str, list[Entry]], str
    ]  # brings what is listed here; its path, "" when it is not as listed

ALONE = tuple(
    each for each in WEIGHTS if each not in (".distcp", ".bin")
)  # what one file of it can be gone on from
SAYS_WHICH = re.compile(r"(?:epoch|step|iter)[=_. -]*\d", re.IGNORECASE)


def resume_values(
    document: Document, place: Place, buckets: Sequence[Bucket], report: Report
) -> dict[str, str]:
    """The key that the checkpoint fills -> its path; nothing when there is none to trust, which is
    told.
    """
    path = find_checkpoint(place, document["files"], buckets)
    if path:
        report.tell_event("resumed", path=path)
        return {document["resume"]: path}
    if os.path.exists(place.manifest_path) or any(bucket.entries for bucket in buckets):
        report.warn(
            "resume.nothing",
            "The command starts anew: no checkpoint of an earlier attempt is certainly complete.",
            "The manifest of that attempt lists none that is still there as it was.",
            "Write checkpoints earlier: those of the last 5 s before a failure do not count.",
        )
    return {}


def find_checkpoint(place: Place, carried: list[str], buckets: Sequence[Bucket]) -> str:
    """Its path; "" when there is none to trust.

    `carried` are the files that travelled with the job: no checkpoints. One that lies in a bucket
    is brought here first.
    """
    candidates: list[tuple[float, str, list[Entry], Fetch]] = []
    manifest = load_manifest(place.manifest_path)
    if manifest.get("job") == place.job:
        candidates += [
            (*candidate, in_folder(place.folder))
            for candidate in complete_checkpoints(manifest["files"], manifest["folders"])
        ]
    for bucket in buckets:
        candidates += [
            (*candidate, in_bucket(bucket))
            for candidate in complete_checkpoints(bucket.intact_entries(), bucket.folders)
        ]
    ours = {"work/" + path for path in carried}
    for _, name, entries, fetch in sorted(
        candidates, key=lambda candidate: candidate[:2], reverse=True
    ):
        path = "" if name in ours else fetch(name, entries)
        if path:
            return path
    return ""


def complete_checkpoints(
    entries: list[Entry], folders: dict[str, list[int]]
) -> Iterator[tuple[float, str, list[Entry]]]:
    """(time, name, its files) of each checkpoint: a folder of files, or a file that is none of such
    a folder's.
    """
    inside: dict[str, list[Entry]] = {}
    for entry in entries:
        folder = checkpoint_folder(entry["path"])
        alone = folder not in folders or SAYS_WHICH.search(os.path.basename(entry["path"]))
        if alone and entry["path"].endswith(ALONE):
            yield entry["mtime"], entry["path"], [entry]
        elif not alone and not is_growing(entry["path"]):
            inside.setdefault(folder, []).append(entry)
    for folder, files in inside.items():
        if folders[folder] == [len(files), sum(entry["size"] for entry in files)]:
            name = (
                files[0]["path"] if len(files) == 1 and files[0]["path"].endswith(ALONE) else folder
            )
            yield max(entry["mtime"] for entry in files), name, files


def in_bucket(bucket: Bucket) -> Fetch:
    """What lies in a bucket is fetched and verified."""
    from tao_sdk.runner.outputs.earlier import bring_back

    return lambda name, entries: bring_back(bucket, name, entries)


def in_folder(folder: str) -> Fetch:
    """Take a checkpoint from the results folder, if it is unchanged and its folder has no other
    files.
    """

    def fetch(name: str, entries: list[Entry]) -> str:
        path = os.path.join(folder, name)
        listed = {os.path.join(folder, entry["path"]) for entry in entries}
        if all(is_intact(entry, folder) for entry in entries) and whole_files(path) <= listed:
            return path
        return ""

    return fetch


def whole_files(folder: str) -> set[str]:
    """The files in it, at any depth, but for those that are only appended to."""
    paths = {os.path.join(top, name) for top, _, names in os.walk(folder) for name in names}
    return {path for path in paths if not is_growing(path)}


def is_intact(listed: Entry, folder: str) -> bool:
    try:
        status = os.stat(os.path.join(folder, listed["path"]))
    except OSError:
        return False
    return (status.st_size, status.st_mtime) == (listed["size"], listed["mtime"])
