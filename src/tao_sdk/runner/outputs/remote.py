"""One prefix of a bucket as a place for results: list, send and fetch files. Names are below the
prefix.
"""

from __future__ import annotations

import hashlib
import os

from tao_sdk.net.atomic import Replacing
from tao_sdk.net.retries import Patience
from tao_sdk.net.s3_put import part_size, sweep, upload_id
from tao_sdk.net.s3_words import refusal
from tao_sdk.net.s3_xml import inner
from tao_sdk.net.web import Changed
from tao_sdk.runner.outputs.tree import file_digest, read_chunks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tao_sdk.net.s3 import S3

PROBE = ".tao/probe"
IN_MEMORY = 1 << 20  # bytes; a smaller file is read into memory and then sent


class Remote:
    """A prefix. `address` is s3://bucket or s3://bucket/prefix, without a slash at its end."""

    def __init__(self, s3: S3, address: str) -> None:
        self.s3, self.address = s3, address
        self.bucket, _, self.prefix = address.partition("://")[2].partition("/")

    def full_key(self, name: str) -> str:
        if self.prefix:
            return f"{self.prefix}/{name}"
        return name

    def check_writable(self) -> None:
        """Raise Failure if nothing can be written here. It begins and aborts an upload, so nothing
        stays behind.
        """
        key = self.full_key(PROBE)
        begun = upload_id(
            self.s3.ask("POST", self.bucket, key, {"uploads": ""}), self.bucket, key, self.s3
        )
        self.s3.ask("DELETE", self.bucket, key, {"uploadId": begun})

    def list_files(self) -> dict[str, tuple[int, str]]:
        """Name -> size and version of everything below the prefix."""
        below = self.full_key("")
        entries = self.s3.list(self.bucket, below)
        return {entry.key[len(below) :]: (entry.size, entry.version) for entry in entries}

    def read_object(self, name: str) -> bytes | None:
        """The content of a small object; None if it does not exist. Raises Failure."""
        answer = self.s3.ask("GET", self.bucket, self.full_key(name))
        if answer.status == 404 and inner(answer.text, "Code") in ("NoSuchKey", ""):
            return None
        if answer.status != 200:
            raise refusal(answer, self.bucket, self.full_key(name), self.s3)
        self.s3.check_object(answer, self.bucket)
        return answer.body

    def write_object(self, name: str, data: bytes) -> None:
        self.s3.put(self.bucket, self.full_key(name), data)

    def send_file(self, name: str, path: str, good: Callable[[], bool]) -> str:
        """Send a file, completely or not at all, and return its version. Raises Changed unless
        `good()` is still true at the end.
        """
        if os.path.getsize(path) > IN_MEMORY:
            return self.s3.put(self.bucket, self.full_key(name), path, good=good)
        with open(path, "rb") as file:
            data = file.read()
        if not good():
            raise Changed(path)
        return self.s3.put(self.bucket, self.full_key(name), data)

    def sweep_uploads(self) -> None:
        """Abort the unfinished uploads of a killed runner."""
        sweep(self.s3, self.bucket, self.full_key(""))

    def give_up(self, names: set[str]) -> None:
        """Abort the uploads of these files in progress."""
        sweep(self.s3, self.bucket, self.full_key(""), {self.full_key(name) for name in names})

    def fetch_file(self, name: str, path: str, size: int) -> None:
        """Fetch a file that nobody writes any more, completely. Raises Failure, OSError."""
        with Replacing(path) as file:
            for view in self.read_chunks(name, size):
                file.write(view)

    def read_chunks(self, name: str, size: int) -> Iterator[memoryview]:
        """The first `size` bytes of a file. If the connection breaks, request the rest again."""
        patience = Patience(self.s3.web.patience)
        at = 0
        while at < size:
            try:
                for view in self.s3.get(self.bucket, self.full_key(name), at, size, ""):
                    at += len(view)
                    patience.reset()
                    yield view
            except OSError:
                if not patience.wait():
                    raise


def is_version(version: str, path: str) -> bool:
    """True if the version is that of the file: the MD5 of an object sent in one piece, or the MD5
    of its parts' MD5s.
    """
    text, _, parts = version.strip('"').partition("-")
    try:
        if parts:
            return parts.isdigit() and md5_of_parts(path) == text
        return len(text) == 32 and file_digest(path, "md5") == text
    except ValueError:  # a python that was built without MD5
        return False


def md5_of_parts(path: str) -> str:
    """The MD5 of the MD5s of the file's parts, as a store has it for an upload in parts."""
    left = size = part_size(os.path.getsize(path))
    whole, part = hashlib.new("md5"), hashlib.new("md5")
    for data in read_chunks(path):
        part.update(data[:left])
        if len(data) >= left:
            whole.update(part.digest())
            part = hashlib.new("md5", data[left:])
            left += size
        left -= len(data)
    if left < size:
        whole.update(part.digest())
    return whole.hexdigest()
