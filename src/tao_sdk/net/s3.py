"""S3 by the standard library: buckets and keys as the runner and the client use them.

    s3 = S3(web)                        endpoint, region, style and keys come from web.env
    s3.head(bucket, key)                -> Entry, or None when there is no such key
    s3.list(bucket, prefix)             -> every Entry below a prefix, in the server's order
    s3.pages(bucket, query)             -> a listing's pages as they come
    s3.get(bucket, key, start, stop, version)
                                        -> views of bytes [start, stop); Changed when the object is
                                           no longer that version
    s3.put(bucket, key, body, only_new) -> the version (ETag); body is bytes or a path; a large one
                                           goes in parallel parts

Each kind of refusal is a Failure with its own code (s3_words.py). Not here: the requests to a store
(s3_store.py), transfers to files (transfer.py), the addresses in a job (s3_source.py).
"""

from __future__ import annotations

from tao_sdk.net import percent
from tao_sdk.net.failure import Failure
from tao_sdk.net.pages import Pages
from tao_sdk.net.s3_answer import check_document
from tao_sdk.net.s3_put import Put
from tao_sdk.net.s3_store import Entry, Store, whole_number
from tao_sdk.net.s3_words import refusal
from tao_sdk.net.s3_xml import elements, inner
from tao_sdk.net.web import Changed
from tao_sdk.net.wire import Garbled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tao_sdk.net.web import Answer, Headers


class S3(Store):
    """The objects of one store; safe to use from many threads."""

    def list(self, bucket: str, prefix: str) -> Iterator[Entry]:
        """The objects whose keys begin with `prefix`, in key order. Raises Failure."""
        for page in self.pages(bucket, {"prefix": prefix}):
            yield from read_entries(page)

    def pages(self, bucket: str, query: Mapping[str, str]) -> Iterator[str]:
        """The XML of each page of a listing. Raises Failure, also for a listing without an end."""
        asked = {"list-type": "2", "encoding-type": "url", **query}
        pages = Pages("s3.listing", f"s3://{bucket}/{query['prefix']}")
        while True:
            answer = self.ask("GET", bucket, "", asked)
            if answer.status != 200:
                raise refusal(answer, bucket, query["prefix"], self)
            check_document(answer, "ListBucketResult", self)
            yield answer.text
            if inner(answer.text, "IsTruncated") != "true":
                return
            token = inner(answer.text, "NextContinuationToken")
            if not token:
                what = f"The list of s3://{bucket}/{query['prefix']} breaks off."
                why = (
                    "There is more, and the store does not say how to go on: it may know the "
                    "older listing only."
                )
                raise Failure(
                    "s3.listing",
                    what,
                    why,
                    "Name the objects one by one, or use a store with ListObjectsV2.",
                )
            pages.add_page(
                token, inner(answer.text, "Contents") or inner(answer.text, "CommonPrefixes")
            )
            asked["continuation-token"] = token

    def get(
        self,
        bucket: str,
        key: str,
        start: int,
        stop: int,
        version: str,
        whole: Headers | None = None,
    ) -> Iterator[memoryview]:
        """The bytes [start, stop) of that version. Raises Failure, Changed, and OSError if the body
        breaks off: then the caller can request the rest.

        `whole` is given if these are all bytes of the object. It is filled with the headers of the
        answer, including the checksum.
        """
        if start == stop:
            return
        headers = (
            {"range": f"bytes={start}-{stop - 1}"}
            if whole is None
            else {"x-amz-checksum-mode": "ENABLED"}
        )
        if version:
            headers["if-match"] = version
        with self.open(bucket, key, headers) as answer:
            if answer.status == 412 or (
                answer.status in (200, 206) and is_other_version(answer, version)
            ):
                raise Changed(f"s3://{bucket}/{key}")
            if answer.status not in (200, 206):
                raise refusal(answer, bucket, key, self)
            self.check_object(answer, bucket)
            if whole is not None:
                whole.update(answer.headers)
            elif not answer.headers.get("content-range", "").startswith(f"bytes {start}-"):
                raise Garbled("another range came than was asked for")
            if answer.headers.get("content-length", str(stop - start)) != str(stop - start):
                raise Garbled("another number of bytes came than was asked for")
            yield from answer.chunks()

    def put(
        self,
        bucket: str,
        key: str,
        body: bytes | str,
        only_new: bool = False,
        good: Callable[[], object] = object,
    ) -> str:
        """Store bytes, or the file at a path, and return the stored version.

        Raises Changed if `only_new` and the key exists, if the file becomes shorter meanwhile, and
        if `good()` is false after the parts of a large file were sent: its upload is then aborted.
        """

        return Put(self, bucket, key, only_new, good).store(body)


def is_other_version(answer: Answer, version: str) -> bool:
    """True if the answer is about another version than the requested one."""
    return bool(version) and answer.headers.get("etag", version) != version


def key_decoder(page: str) -> Callable[[str], str]:
    """The function that decodes the keys of a page: the page says if the store encoded them."""
    return decode_form if inner(page, "EncodingType") == "url" else str


def decode_form(text: str) -> str:
    return percent.unquote(text.replace("+", " "))


def read_entries(page: str) -> Iterator[Entry]:
    decode = key_decoder(page)
    for each in elements(page, "Contents"):
        key = decode(inner(each, "Key"))
        yield Entry(
            key,
            whole_number(inner(each, "Size"), key),
            inner(each, "ETag"),
            inner(each, "LastModified"),
        )
