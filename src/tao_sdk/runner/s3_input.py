"""Inputs that lie in S3: s3://bucket/key is an object or a folder of them, told apart by looking."""

from __future__ import annotations

from .report import Failure
from .s3 import S3
from .transfer import Found, Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, List

    from .web import Web


class S3Source(Source):
    def __init__(self, s3: S3, bucket: str, key: str, path: str, size: int, version: str) -> None:
        super().__init__(path, size, version)
        self.s3, self.bucket, self.key = s3, bucket, key

    def read(self, start: int, stop: int) -> Iterator[memoryview]:
        return self.s3.get(self.bucket, self.key, start, stop, self.version)


def look(uri: str, kind: str, web: Web) -> Found:
    """An object of exactly that key, unless a slash ends the address; else everything below it."""
    bucket, _, key = uri.partition("://")[2].partition("/")
    key += "/" if kind == "folder" and key and not key.endswith("/") else ""
    s3 = S3(web)
    name = key.rstrip("/").rpartition("/")[2] or bucket
    if key and not key.endswith("/"):
        entry = s3.head(bucket, key)
        if entry:
            return Found(False, [S3Source(s3, bucket, key, name, entry.size, entry.version)], name)
    prefix = key.rstrip("/") + "/" if key else ""
    sources: List[Source] = [
        S3Source(s3, bucket, each.key, each.key[len(prefix) :], each.size, each.version)
        for each in s3.list(bucket, prefix)
        if not each.key.endswith("/")
    ]
    if not sources:
        raise Failure(
            "input.nothing",
            "Nothing is at %s." % uri,
            "The bucket answers, but it has neither an object of that key nor any below it.",
            "Check the key; `tao files` lists what is there.",
        )
    return Found(True, sources, name)
