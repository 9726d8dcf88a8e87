"""Inputs in S3: s3://bucket/key is an object or a folder of objects; a look at the store decides
which.
"""

from __future__ import annotations

from binascii import a2b_base64

from tao_sdk.net.failure import Failure
from tao_sdk.net.s3 import S3
from tao_sdk.net.source import Found, Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tao_sdk.net.s3 import Entry
    from tao_sdk.net.web import Web


class S3Source(Source):
    """One object of a bucket."""

    def __init__(self, s3: S3, bucket: str, key: str, path: str, size: int, version: str) -> None:
        super().__init__(path, size, version)
        self.s3, self.bucket, self.key = s3, bucket, key
        self.headers: dict[str, str] = {}  # of an answer about the whole object, this version

    def read(self, start: int, stop: int) -> Iterator[memoryview]:
        whole = (start, stop) == (0, self.size)
        return self.s3.get(
            self.bucket, self.key, start, stop, self.version, self.headers if whole else None
        )

    def again(self) -> Source:
        now = self.s3.head(self.bucket, self.key)
        if now is None:
            raise Failure(
                "input.gone",
                f"s3://{self.bucket}/{self.key} was removed while it was read.",
                next="Store it again, or leave it out.",
            )
        return source_of_head(self.s3, self.bucket, self.path, now)

    def proof(self) -> tuple[str, str]:
        if not self.headers and self.size:
            now = self.s3.head(self.bucket, self.key)
            self.headers = now.headers if now and now.version == self.version else {}
        return stored_checksum(self.headers)


def stored_checksum(headers: dict[str, str]) -> tuple[str, str]:
    """(kind, hex) of the whole object's checksum in its headers; ("", "") for none."""
    if headers.get("x-amz-checksum-type", "FULL_OBJECT") == "FULL_OBJECT":
        for kind in ("crc32", "sha256", "sha1"):
            value = headers.get("x-amz-checksum-" + kind, "")
            if value and "-" not in value:
                return kind, to_hex(value)
    etag = headers.get("etag", "").strip('"')
    theirs = any("customer" in name for name in headers)
    encrypted = theirs or headers.get("x-amz-server-side-encryption", "AES256") != "AES256"
    return ("etag", etag) if len(etag) == 32 and not encrypted else ("", "")


def to_hex(checksum: str) -> str:
    """A base64 checksum as hex; `?`, which matches no file, for a text that is not base64."""
    try:
        return a2b_base64(checksum).hex()
    except ValueError:
        return "?"


def look(uri: str, kind: str, web: Web) -> Found:
    """The object with exactly that key, or all objects below it. The declared kind is tried first.
    Raises Failure.
    """
    bucket, _, key = uri.partition("://")[2].partition("/")
    s3 = S3(web)
    only_folder = not key or key.endswith("/")
    ways = [find_object, find_folder]
    if only_folder:
        ways = [find_folder]
    elif kind == "folder":
        ways.reverse()
    for way in ways:
        found = way(s3, bucket, key.rstrip("/"))
        if found:
            return found
    raise nothing_there(uri, bucket, only_folder and bool(find_object(s3, bucket, key.rstrip("/"))))


def nothing_there(uri: str, bucket: str, slash: bool) -> Failure:
    """The Failure for an address with nothing behind it."""
    return Failure(
        "input.nothing",
        f"Nothing is at {uri}.",
        f"The bucket answers; it has {'an' if slash else 'no'} object of "
        "that name, and none below it.",
        "Write it without the slash at its end."
        if slash
        else f"Check the key; `tao files s3://{bucket}/` lists what is there.",
    )


def find_object(s3: S3, bucket: str, key: str) -> Found | None:
    """The object with exactly that key, or None."""
    entry = s3.head(bucket, key) if key else None
    if entry is None:
        return None
    name = key.rpartition("/")[2]
    return Found(False, [source_of_head(s3, bucket, name, entry)], name)


def source_of_head(s3: S3, bucket: str, path: str, entry: Entry) -> S3Source:
    """The source of an object, with the checksum from its HEAD answer."""
    source = S3Source(s3, bucket, entry.key, path, entry.size, entry.version)
    source.headers = entry.headers
    return source


def find_folder(s3: S3, bucket: str, key: str) -> Found | None:
    """The objects below a key; None if there are none. A key that ends in a slash only marks a
    folder, and is left out.
    """
    prefix = key + "/" if key else ""
    sources: list[Source] = [
        S3Source(s3, bucket, each.key, each.key[len(prefix) :], each.size, each.version)
        for each in s3.list(bucket, prefix)
        if not each.key.endswith("/")
    ]
    return Found(True, sources, key.rpartition("/")[2] or bucket) if sources else None
