"""Claim files: list and read `pvc://claim/path` through a reader's pod.

Each query starts a pod. To need few, a folder's whole tree is listed once, and a read continues
where the last one ended. Links are left out.
"""

from __future__ import annotations

import base64
import binascii
import stat as modes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tao_sdk.backends.contract import FileStat, MiB
from tao_sdk.backends.kubernetes.claims.known_claims import (
    SCHEME,
    ClaimUnreadable,
    claim_and_path,
)
from tao_sdk.backends.kubernetes.claims.reader import Reader
from tao_sdk.model.errors import PathNotFound, TaoError

MISSING, BEGIN, END = b"tao-missing", b"tao-begin", b"tao-end"
MOST_LISTED = 64 * MiB  # size of one listing
TREE, FOLDER = "0", "1"  # depth of a listing; 0: the whole tree

FindReader = Callable[[str], Reader]  # address -> its reader; raises Unreachable


@dataclass
class ClaimFiles:
    """Files of claims. `root`: the folder whose whole tree is listed at once; "" lists folder by
    folder.
    """

    find_reader: FindReader
    root: str = ""
    # folder -> the entries at and below it, by address
    listings: dict[str, dict[str, FileStat]] = field(default_factory=dict[str, dict[str, FileStat]])
    stream: OpenFile | None = None

    def below(self, folder: str) -> ClaimFiles:
        return ClaimFiles(self.find_reader, normal_address(folder))

    def stat(self, path: str) -> FileStat:
        path = normal_address(path)
        found = self._list_around(path).get(path)
        if found is None:
            raise nothing_at(path)
        return found

    def list(self, path: str) -> list[FileStat]:
        path = normal_address(path)
        here = self.stat(path)
        if not here.is_dir:
            return [here]
        return [each for each in self._list_around(path).values() if folder_of(each.path) == path]

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        path = normal_address(path)
        if self.root in self.listings and self.stat(path).is_dir:
            raise nothing_at(path)
        if self.stream is None or (self.stream.path, self.stream.offset) != (path, offset):
            self._close_stream()
            pieces = self.find_reader(path).run("read", path_in(path), str(offset + 1))
            self.stream = OpenFile(path, offset, pieces)
        try:
            return self.stream.read(limit)
        except TaoError:
            self._close_stream()
            raise

    def _close_stream(self) -> None:
        if self.stream is not None:
            self.stream.close()
        self.stream = None

    def _list_around(self, path: str) -> dict[str, FileStat]:
        """The entries at a path and in it, by address. A path in `root` gives all of `root`."""
        in_root = bool(self.root) and f"{path}/".startswith(f"{self.root}/")
        folder = self.root if in_root else path
        if folder not in self.listings:
            self.listings[folder] = self._ask_reader(folder, TREE if in_root else FOLDER)
        return self.listings[folder]

    def _ask_reader(self, folder: str, depth: str) -> dict[str, FileStat]:
        reader = self.find_reader(folder)
        data = bytearray()
        for piece in reader.run("list", path_in(folder), depth):
            data += piece
            if len(data) > MOST_LISTED:
                raise broken_reader(folder, "The folder has too many files.")
        return read_listing(bytes(data), folder)


class OpenFile:
    """A file from `offset` on, decoded from the base64 that a reader prints."""

    def __init__(self, path: str, offset: int, pieces: Iterator[bytes]) -> None:
        self.path, self.offset = path, offset
        self._pieces = pieces
        self._text = b""  # not decoded yet
        self._data = bytearray()
        self._began = self._ended = False

    def read(self, limit: int | None) -> bytes:
        """The next `limit` bytes, or all; fewer only at the file's end. Raises PathNotFound,
        Unreachable.
        """
        while not self._ended and (limit is None or len(self._data) < limit):
            self._take_piece()
        size = len(self._data) if limit is None else limit
        data = bytes(self._data[:size])
        del self._data[:size]
        self.offset += len(data)
        return data

    def close(self) -> None:
        """Stop the reader."""
        close: Callable[[], None] | None = getattr(self._pieces, "close", None)
        if close is not None:
            close()

    def _take_piece(self) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            raise broken_reader(self.path, "What its reader printed broke off.")
        self._text += piece
        if self._began or self._read_first_line():
            self._decode_piece()

    def _decode_piece(self) -> None:
        text, newline, rest = self._text.partition(b"\n")
        whole = len(text) - len(text) % 4
        try:
            self._data += base64.b64decode(text[:whole], validate=True)
        except binascii.Error as error:
            raise broken_reader(self.path, "What its reader printed is no file.") from error
        self._text = text[whole:] + newline + rest
        if rest.startswith(END + b"\n") and whole == len(text):
            self._ended = True
            self.close()

    def _read_first_line(self) -> bool:
        """True once the whole first line has come."""
        head, newline, rest = self._text.partition(b"\n")
        if not newline:
            return False
        if head == MISSING:
            raise nothing_at(self.path)
        if head != BEGIN:
            raise broken_reader(self.path, head.decode("utf-8", "replace"))
        self._text, self._began = rest, True
        return True


def read_listing(data: bytes, folder: str) -> dict[str, FileStat]:
    """Parse a reader's listing of a folder: address -> entry. Raises PathNotFound, Unreachable."""
    lines = data.split(b"\n")
    if lines[0] == MISSING:
        raise nothing_at(folder)
    mark, _, real = lines[0].partition(b" ")
    if mark != BEGIN or END not in lines[-2:]:
        raise broken_reader(folder, lines[0].decode("utf-8", "replace"))
    found: dict[str, FileStat] = {}
    for line in lines[1:]:
        entry = read_entry(line, real, folder)
        if entry is not None:
            found[entry.path] = entry
    return found


def read_entry(line: bytes, real: bytes, folder: str) -> FileStat | None:
    """Parse one line `MODE SIZE SECONDS NAME`; None for a link, or a line of another form."""
    mode, size, seconds, name = (*line.split(b" ", 3), b"", b"", b"")[:4]
    try:
        kind, bytes_, changed = int(mode, 16), int(size), int(seconds)
    except ValueError:
        return None
    inside = name.removeprefix(real).decode("utf-8", "surrogateescape")
    if not name.startswith(real) or not (modes.S_ISDIR(kind) or modes.S_ISREG(kind)):
        return None
    is_dir = modes.S_ISDIR(kind)
    return FileStat(f"{folder}{inside}", is_dir, 0 if is_dir else bytes_, float(changed))


def normal_address(address: str) -> str:
    claim, path = claim_and_path(address)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not claim or ".." in parts:
        raise nothing_at(address)
    return "/".join((f"{SCHEME}{claim}", *parts))


def path_in(address: str) -> str:
    """The path below the claim's top."""
    return claim_and_path(address)[1]


def folder_of(address: str) -> str:
    return address.rpartition("/")[0]


def nothing_at(address: str) -> PathNotFound:
    return PathNotFound(f"There is nothing at {address}.", "", "Check the path.")


def broken_reader(address: str, why: str) -> ClaimUnreadable:
    return ClaimUnreadable(f"{address} could not be read.", why, "Try again.")


def unknown_claim(address: str, namespace: str) -> ClaimUnreadable:
    claim, _ = claim_and_path(address)
    return ClaimUnreadable(
        f"{address} cannot be looked at.",
        f"No job of yours has mounted {claim} of namespace {namespace}, so no image is known to be "
        "there.",
        "Submit a job that mounts it, or look with a pod of your own.",
    )
