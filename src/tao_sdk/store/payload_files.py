"""Payload files: values too large for a row, stored beside the database under the sha256 of their
bytes.

Here: how a JSON object is split into a part for its row and parts for files, and joined when it is
read. Not here: which rows refer to which file (the payloads table, store.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from tao_sdk.model.errors import StoreError
from tao_sdk.store.private_files import explained, name_in, write_whole

LARGEST_IN_A_ROW = 64 * 1024


class PayloadFiles:
    """The payload files of one store."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, text: str) -> str:
        """Store `text` and return its name for `read`. It is on disk when this returns."""
        data = text.encode()
        name = hashlib.sha256(data).hexdigest()
        write_whole(self.directory / name, data)
        return name

    def read(self, name: str) -> str:
        """Return the text of that name. Raises StoreError if the file is gone or damaged."""
        path = name_in(self.directory, name)
        with explained(path):
            data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != name:
            raise StoreError(
                f"{path} is damaged.",
                "Its content no longer has the checksum that is its name.",
                "Submit the job as a new one: tao run",
            )
        return data.decode()

    def names(self) -> list[str]:
        """The names of all files of the store. Raises StoreError."""
        with explained(self.directory):
            if not self.directory.is_dir():
                return []
            return [path.name for path in self.directory.iterdir()]

    def remove(self, name: str) -> None:
        with explained(self.directory):
            (self.directory / name).unlink(missing_ok=True)


class Document(Mapping[str, Any]):
    """A JSON object from a row, parsed when it is first read. A large member's file is read when
    the member is.
    """

    __slots__ = ("_files", "_inline", "_payloads", "_text")

    def __init__(self, text: str, payloads: PayloadFiles) -> None:
        self._text = text
        self._payloads = payloads
        self._inline: dict[str, Any] | None = None
        self._files: dict[str, str] = {}

    def _members(self) -> dict[str, Any]:
        if self._inline is None:
            inline, self._files = json.loads(self._text)
            self._inline = cast("dict[str, Any]", inline)
        return self._inline

    def __getitem__(self, key: str) -> Any:
        members = self._members()
        if key in self._files:
            return json.loads(self._payloads.read(self._files[key]))
        return members[key]

    def __contains__(self, key: object) -> bool:
        return key in self._members() or key in self._files

    def __iter__(self) -> Iterator[str]:
        yield from self._members()
        yield from self._files

    def __len__(self) -> int:
        return len(self._members()) + len(self._files)

    def __repr__(self) -> str:
        return f"Document({', '.join(self)})"


def split(value: Mapping[str, Any], payloads: PayloadFiles) -> tuple[str, list[str]]:
    """Return (the text for the row, the names of the files that it refers to). Members above 64 KB
    go to files.
    """
    inline: list[str] = []
    files: dict[str, str] = {}
    for key, member in value.items():
        text = to_text(member)
        if len(text) > LARGEST_IN_A_ROW:
            files[key] = payloads.write(text)
        else:
            inline.append(f"{json.dumps(key)}:{text}")
    return f"[{{{','.join(inline)}}},{json.dumps(files)}]", list(files.values())


def to_text(value: Any) -> str:
    """Return JSON in ASCII, so that text that is no proper Unicode (a file name, say) comes back as
    it was.
    """
    return _encode(value)


def _as_dict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    raise TypeError(f"{type(value).__name__} cannot be stored")


# json.dumps would make an encoder for each value
_encode = json.JSONEncoder(default=_as_dict, separators=(",", ":")).encode
