"""A file at a web address, read in ranges; for plain addresses and those of a hub's or NGC's API.

An address may redirect to a store, with a link that is valid for a while. The link is reused until
the store refuses it. The credentials for the first address never go to the second (web.py).
"""

from __future__ import annotations

import os

from tao_sdk.net.failure import Failure
from tao_sdk.net.source import Source
from tao_sdk.net.web import Changed
from tao_sdk.net.wire import split_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tao_sdk.net.web import Answer, Web

EXPIRED = (400, 401, 403, 404, 410)
# a repository with one such file means that file
WEIGHTS = (".pth", ".pth.tar", ".pt", ".ckpt", ".hdf5", ".tlt")


class HttpSource(Source):
    """One file at a web address. `refusal` turns an unsuccessful answer into a Failure; `validator`
    is an ETag or a date for If-Range.
    """

    validator = ""  # may be set even without ranges, when `version` is empty
    check: tuple[str, str] = ("", "")  # the kind of a checksum, and its value

    def __init__(
        self,
        web: Web,
        url: str,
        headers: dict[str, str],
        refusal: Callable[[Answer], Failure],
        file: tuple[str, int, str],
    ) -> None:
        super().__init__(*file)
        self.web, self.url, self.headers, self.refusal = web, url, headers, refusal
        self.direct = ""  # the target of the address's last redirect
        self.outside = False  # True if a server elsewhere gave that target

    def proof(self) -> tuple[str, str]:
        return self.check

    def read(self, start: int, stop: int) -> Iterator[memoryview]:
        if start == stop:
            return
        asked: dict[str, str] = {}
        if self.known:
            asked["range"] = f"bytes={start}-{stop - 1}"
            if self.validator:
                asked["if-range"] = self.validator
        with self.open_answer(asked) as answer:
            if answer.status == 416 or (
                answer.status in (200, 206) and self.is_other_version(answer, start, stop)
            ):
                raise Changed(self.path)
            if answer.status not in (200, 206):
                answer.body = answer.read()
                raise self.refusal(answer)
            yield from answer.chunks()

    def open_answer(self, asked: dict[str, str]) -> Answer:
        """The answer from the last redirect's target, or from the address if that has expired."""
        if self.direct:
            answer = self.web.open("GET", self.direct, asked, outside=self.outside)
            if answer.status not in EXPIRED:
                return answer
            with answer:
                answer.read()
            self.direct = ""
        url = self.located()
        answer = self.web.open("GET", url, {**self.headers, **asked}, outside=self.outside)
        if answer.status in (200, 206) and split_url(answer.url)[0] != split_url(self.url)[0]:
            self.direct, self.outside = answer.url, self.outside or answer.outside
        return answer

    def located(self) -> str:
        return self.url

    def is_other_version(self, answer: Answer, start: int, stop: int) -> bool:
        """True if the answer has bytes of another version, or of another range than requested."""
        if self.validator and validator(answer) not in ("", self.validator):
            return True
        if answer.status == 206:
            return not answer.headers.get("content-range", "").startswith(f"bytes {start}-")
        return self.known and (start, stop) != (0, self.size)


def validator(answer: Answer) -> str:
    """The mark of this version: a strong ETag, else the time of the last change, else ""."""
    etag = answer.headers.get("etag", "")
    if etag.startswith('"'):
        return etag
    return answer.headers.get("last-modified", "")


def join_url(base: str, path: str) -> str:
    """The address of a path below another address."""
    return base.rstrip("/") + "/" + path.lstrip("/")


def one_file(folder: str) -> str:
    """The path of a model's weights if the folder has exactly one such file (WEIGHTS); else the
    folder.
    """
    names = [os.path.join(top, name) for top, _, names in os.walk(folder) for name in names]
    found = [each for each in names if each.endswith(WEIGHTS)]
    return found[0] if len(found) == 1 else folder
