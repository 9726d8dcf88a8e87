"""Fetching: many sources at once, in parts, each file complete and verified before it has its name.

A scheme's module tells what there is: `look(uri, kind, web) -> Found`; `kind` is the declared one (file, folder or ""), a
hint. Here is what happens then, the same for every scheme:

    fetch(found.sources, folder, tell)       each source to folder/source.path

A `Source` is one file somewhere else. Its `version` changes when its content does; `read` raises `Changed` when it has.
Reads may break with OSError; the rest is asked for again. `Changed` is web.py's.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from .atomic import temporary_name
from .report import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator, List


class Source:
    """One file to fetch. A scheme derives from it and gives `read`."""

    def __init__(self, path: str, size: int, version: str) -> None:
        self.path = path  # relative, with slashes, checked by `fetch` to stay inside the folder
        self.size = size  # bytes; -1 when nobody knows before the end
        self.version = version  # an ETag or a commit; "" when there is none: then a file is never continued

    def read(self, start: int, stop: int) -> Iterator[memoryview]:
        """The bytes [start, stop) of this version, in views that are good until the next; stop -1 is the end."""
        raise NotImplementedError

    def again(self) -> Source:
        """The source as it is now, after `Changed`."""
        return self


class Found:
    """What an address turned out to be: one file (`folder` False, one source) or a folder of them."""

    def __init__(self, folder: bool, sources: List[Source], name: str = "") -> None:
        self.folder, self.sources, self.name = folder, sources, name


def fetch(sources: List[Source], folder: str, tell: Callable[[int, int], None]) -> None:
    """Every source complete at folder/path, or a Failure. `tell(bytes, files)` is called as they come."""

    def one(source: Source) -> None:
        path = os.path.join(folder, source.path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = temporary_name(path)
        with open(temporary, "xb") as file:
            for view in source.read(0, source.size):
                file.write(view)
                tell(len(view), 0)
            if source.size >= 0 and file.tell() != source.size:
                raise Failure("fetch.short", "%s ended early." % source.path)
        os.replace(temporary, path)
        tell(0, 1)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(one, sources))
