"""Fetch the files that an earlier attempt left in a bucket to their local paths."""

from __future__ import annotations

import os

from tao_sdk.net.s3_source import S3Source
from tao_sdk.net.transfer import fetch
from tao_sdk.runner.outputs.bucket import Bucket, shape_now
from tao_sdk.runner.outputs.tree import file_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Entry = dict[str, Any]  # of the manifest


def bring_back(bucket: Bucket, name: str, entries: list[Entry]) -> str:
    """Fetch a file or folder with these entries, and return its local path; "" if a file does not
    match the manifest.
    """
    missing = [entry for entry in entries if not is_unchanged(bucket, entry)]
    if missing:
        download_entries(bucket, missing)
    intact = [keep_if_intact(bucket.local_path(entry["path"]), entry) for entry in missing]
    if not all(intact):
        return ""
    return bucket.local_path(name)


def is_unchanged(bucket: Bucket, entry: Entry) -> bool:
    return shape_now(bucket.local_path(entry["path"])) == (entry["size"], entry["mtime"])


def download_entries(bucket: Bucket, entries: list[Entry]) -> None:
    """Fetch each file into the runner's own folder, then move it to its path when complete. Raises
    Failure, OSError.
    """
    remote, aside = bucket.remote, os.path.join(bucket.results.own_folder, "fetched")
    sources = [
        S3Source(
            remote.s3,
            remote.bucket,
            remote.full_key(entry["path"]),
            entry["path"],
            entry["size"],
            entry["version"],
        )
        for entry in entries
    ]
    fetch(list(sources), aside, tell_nothing)
    for entry in entries:
        path = bucket.local_path(entry["path"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.replace(os.path.join(aside, entry["path"]), path)


def keep_if_intact(path: str, entry: Entry) -> bool:
    """Keep a fetched file that has the manifest's checksum, with the manifest's time (also written
    to `entry`). Remove any other, and return False.
    """
    if file_digest(path, "sha256") != entry["sha256"]:
        os.unlink(path)
        return False
    os.utime(path, (entry["mtime"], entry["mtime"]))
    entry["mtime"] = os.stat(path).st_mtime  # with the precision of the file system
    return True


def tell_nothing(size: int, files: int) -> None:
    """Do nothing: the progress of a checkpoint is not reported as that of inputs is."""
