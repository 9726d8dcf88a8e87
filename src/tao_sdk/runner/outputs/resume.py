"""Resume: find the newest complete checkpoint of an earlier attempt of this job.

A checkpoint is complete if the manifest lists it with its checksum, and its size and time are still
the same: the newest file on disk may be half written. A checkpoint folder (distributed checkpoints,
Hugging Face) is complete if the manifest says so, and each of its files is complete.
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
    from tao_sdk.runner.report import Report
    from tao_sdk.runner.results_folder import ResultsFolder

    Entry = dict[str, Any]
    Fetch = Callable[
        [str, list[Entry]], str
    ]  # fetches the listed files and returns the path; "" if they are not as listed

# files that are a checkpoint on their own
ALONE = tuple(each for each in WEIGHTS if each not in (".distcp", ".bin"))
SAYS_WHICH = re.compile(r"(?:epoch|step|iter)[=_. -]*\d", re.IGNORECASE)


def resume_values(
    document: Document, results: ResultsFolder, buckets: Sequence[Bucket], report: Report
) -> dict[str, str]:
    """The checkpoint's key -> its path; empty, with a warning if there was an earlier attempt, if
    no checkpoint can be trusted.
    """
    path = find_checkpoint(results, document["files"], buckets)
    if path:
        report.tell_event("resumed", path=path)
        return {document["resume"]: path}
    if os.path.exists(results.manifest_path) or any(bucket.entries for bucket in buckets):
        report.warn(
            "resume.nothing",
            "The command starts anew: no checkpoint of an earlier attempt is certainly complete.",
            "The manifest of that attempt lists none that is still there as it was.",
            "Write checkpoints earlier: those of the last 5 s before a failure do not count.",
        )
    return {}


def find_checkpoint(results: ResultsFolder, carried: list[str], buckets: Sequence[Bucket]) -> str:
    """The path of the newest complete checkpoint; "" if there is none.

    `carried` are the files packed with the job, which are no checkpoints. A checkpoint in a bucket
    is fetched first.
    """
    candidates: list[tuple[float, str, list[Entry], Fetch]] = []
    manifest = load_manifest(results.manifest_path)
    if manifest.get("job") == results.job:
        candidates += [
            (*candidate, in_folder(results.folder))
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
    """(time, name, its files) of each complete checkpoint: a folder of files, or a single file
    outside such a folder.
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
    """Fetch a checkpoint from a bucket, and verify it."""
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
    """The files in a folder, at any depth, except growing files."""
    paths = {os.path.join(top, name) for top, _, names in os.walk(folder) for name in names}
    return {path for path in paths if not is_growing(path)}


def is_intact(listed: Entry, folder: str) -> bool:
    try:
        status = os.stat(os.path.join(folder, listed["path"]))
    except OSError:
        return False
    return (status.st_size, status.st_mtime) == (listed["size"], listed["mtime"])
