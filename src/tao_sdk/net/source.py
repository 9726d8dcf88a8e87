"""The result of a look at an address: sources, each one file to fetch, in a folder or alone.

A scheme's module has the look: `look(uri, kind, web) -> Found`. `kind` (file, folder or "") is what
the job declares, a hint.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Source:
    """One file to fetch. A scheme's subclass implements `read`, and may override the rest.

    If `read` breaks off with OSError, the caller requests the rest again. It raises `Changed`
    (web.py) if the source is no longer that version.
    """

    def __init__(self, path: str, size: int, version: str) -> None:
        self.path = path  # relative, with slashes
        self.size = (
            size  # bytes; -1 if not known: such a file comes in one piece and is never resumed
        )
        self.version = (
            version  # an ETag or a commit, which changes with the content; "" if there is none
        )

    def read(self, start: int, stop: int) -> Iterator[memoryview]:
        """The bytes [start, stop) of this version; stop -1 is the end. A view is valid until the
        next one. Raises OSError, Changed, Failure.
        """
        raise NotImplementedError

    def again(self) -> Source:
        """The source as it is now, after `Changed`."""
        return self

    def proof(self) -> tuple[str, str]:
        """(kind, hex) of the checksum that the file must have; ("", "") if there is none.

        Kinds: crc32, md5, sha1, sha256, and etag, which may be an MD5. It is called after some
        bytes have arrived, perhaps more than once.
        """
        return "", ""

    @property
    def known(self) -> bool:
        """True if its parts can be distinguished from those of another version."""
        return self.size >= 0 and bool(self.version)


class Found:
    """The result of a look: one file (`folder` False, one source) or a folder of files, and the
    last name in the address.

    `asks`: what the address requests besides its path. `meant(folder)`: the path in a fetched
    folder that the address means.
    """

    asks = ""
    meant: Callable[[str], str] = str

    def __init__(self, folder: bool, sources: list[Source], name: str = "") -> None:
        self.folder, self.sources, self.name = folder, sources, name
