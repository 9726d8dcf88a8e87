"""A file at a web address, read in ranges: the same for plain addresses and for those that a hub's
or NGC's API gives.

An address may lead on to a store, by a link that holds good for a while. It is kept until the store
refuses it; what authorizes us at the first address never goes to the second (web.py).
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
WEIGHTS = (
    ".pth",
    ".pth.tar",
    ".pt",
    ".ckpt",
    ".hdf5",
    ".tlt",
)  # a repository with one such file means that file


class HttpSource(Source):
    """`refusal` tells what an answer that is no success means; `validator` is an ETag or a date
    that If-Range takes.
    """

    validator = ""  # also where there are no ranges, so that `version` is empty
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
        self.direct = ""  # where the address led to the last time
        self.outside = False  # a server of elsewhere told that

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
        """The answer of the store that the address led to before, else of the address."""
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
        """True if the answer has bytes of another version, or not those that were asked for."""
        if self.validator and validator(answer) not in ("", self.validator):
            return True
        if answer.status == 206:
            return not answer.headers.get("content-range", "").startswith(f"bytes {start}-")
        return self.known and (start, stop) != (0, self.size)


def validator(answer: Answer) -> str:
    """What tells this version from others: a strong ETag, else the time of the last change; "" for
    nothing.
    """
    etag = answer.headers.get("etag", "")
    if etag.startswith('"'):
        return etag
    return answer.headers.get("last-modified", "")


def join_url(base: str, path: str) -> str:
    """The address of a path below another address."""
    return base.rstrip("/") + "/" + path.lstrip("/")


def one_file(folder: str) -> str:
    """The weights of a model, when they are one file of a kind that programs name;
    else the folder.
    """
    names = [os.path.join(top, name) for top, _, names in os.walk(folder) for name in names]
    found = [each for each in names if each.endswith(WEIGHTS)]
    return found[0] if len(found) == 1 else folder
