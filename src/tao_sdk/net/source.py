"""What an address turned out to be: sources, each one file to fetch, in a folder or alone.

A scheme's module tells it: `look(uri, kind, web) -> Found`; `kind` is the declared one (file,
folder or ""), a hint.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Source:
    """One file to fetch. A scheme derives from it and gives `read`; the rest where it has better.

    `read` may break with OSError, then the rest is asked for again; it raises `Changed` (web.py)
    when the source is not that version any more.
    """

    def __init__(self, path: str, size: int, version: str) -> None:
        self.path = path  # relative, with slashes
        self.size = (
            size  # bytes; -1 when nobody knows: such a file comes in one piece and is never resumed
        )
        self.version = (
            version  # an ETag or a commit: changes when the content does; "" when there is none
        )

    def read(self, start: int, stop: int) -> Iterator[memoryview]:
        """The bytes [start, stop) of this version; stop -1 is the end. A view is good until the
        next. Raises OSError, Changed, Failure.
        """
        raise NotImplementedError

    def again(self) -> Source:
        """The source as it is now, after `Changed`."""
        return self

    def proof(self) -> tuple[str, str]:
        """(kind, hex) of the checksum that the file has to have; ("", "") where there is none.

        Kinds: crc32, md5, sha1, sha256, and etag for what may be an MD5. Asked after some bytes
        have come, perhaps more than once.
        """
        return "", ""

    @property
    def known(self) -> bool:
        """True if its parts can be told from those of another version."""
        return self.size >= 0 and bool(self.version)


class Found:
    """What an address turned out to be: one file (`folder` False, one source) or a folder of them,
    and its last name.

    `asks` is what the address asks for besides its path; `meant` tells which path of a folder it
    means.
    """

    asks = ""
    meant: Callable[[str], str] = str

    def __init__(self, folder: bool, sources: list[Source], name: str = "") -> None:
        self.folder, self.sources, self.name = folder, sources, name
