"""Requests to an S3 store. A refused request is sent again if the refusal gives a better region or
time, asks for https, or says that the keys have expired.
"""

from __future__ import annotations

import time

from tao_sdk.net.failure import Failure
from tao_sdk.net.s3_answer import has_amazon_headers, has_root, is_html, no_store, wants_https
from tao_sdk.net.s3_endpoint import Endpoint, region_named
from tao_sdk.net.s3_words import describe_refusal, refusal
from tao_sdk.net.s3_xml import inner
from tao_sdk.net.wire import host_header, parse_number, split_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tao_sdk.net.s3_credentials import Keys
    from tao_sdk.net.web import Answer, Headers
    from tao_sdk.net.wire import Body

LESSONS = 4  # retries after refusals that helped to correct the request
SKEW = 60.0  # seconds between the clocks from which a correction is worth while
RECENT = 5.0  # seconds for which a listing proves that the server is a store
LATE = ("RequestTimeTooSkewed", "RequestExpired")
ENDED = (
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidToken",
    "TokenRefreshRequired",
    "InvalidAccessKeyId",
)


class Entry:
    """One object, from a listing or a HEAD answer."""

    def __init__(self, key: str, size: int, version: str, modified: str = "") -> None:
        self.key, self.size, self.version, self.modified = key, size, version, modified
        self.headers: Headers = {}  # of a HEAD answer


class Store(Endpoint):
    """Sends requests to one endpoint. Thread-safe."""

    def ask(
        self,
        method: str,
        bucket: str,
        key: str,
        query: Mapping[str, str] | None = None,
        body: bytes | Body = b"",
        headers: Headers | None = None,
    ) -> Answer:
        """Send a request and return the whole answer. It is sent again, at most LESSONS times,
        while the refusals help to correct it (`learn_from`). Raises Failure.
        """
        left = LESSONS
        while True:
            sign = self.signer(bucket)
            answer = self.web.ask(
                method, self.url(bucket, key, query), headers, body, sign, follow=False
            )
            if not (left and self.learn_from(bucket, answer)):
                return answer
            left -= 1

    def open(self, bucket: str, key: str, headers: Headers) -> Answer:
        """As `ask`, but the caller reads the body. The body of a refusal is already read."""
        left = LESSONS
        while True:
            answer = self.web.open(
                "GET", self.url(bucket, key, None), headers, self.signer(bucket), follow=False
            )
            if answer.status in (200, 206):
                return answer
            with answer:
                answer.body = answer.read()
            if not (left and self.learn_from(bucket, answer)):
                return answer
            left -= 1

    def check_object(self, answer: Answer, bucket: str) -> None:
        """Raise a Failure unless this success is about an object of that bucket.

        Some stores send no Amazon headers, and no version or an HTML content type. Such an answer
        is accepted if the bucket's listing comes from a store.
        """
        versioned = bool(answer.headers.get("etag"))
        if has_amazon_headers(answer) or (versioned and not is_html(answer)):
            return
        if versioned and time.monotonic() - self.believed < RECENT:
            return
        listing = self.ask("GET", bucket, "", {"list-type": "2", "max-keys": "0"})
        if not (has_root(listing.text, "ListBucketResult") or has_root(listing.text, "Error")):
            raise no_store(answer, self)
        self.believed = time.monotonic()

    def learn_from(self, bucket: str, answer: Answer) -> bool:
        """Apply the correction in a refusal: region, https, time, new keys, or host style. True if
        a retry may succeed now.
        """
        if answer.status < 300 or answer.status in (404, 412):
            return False
        said = inner(answer.text, "Code")
        if self.learn_region(bucket, answer) or self.learn_https(answer):
            return True
        if said in LATE or (not said and answer.status == 403):
            return self.learn_time(bucket, answer)
        if said in ENDED:
            used: Keys | None = getattr(self.mine, "keys", None)
            return used is not None and self.credentials.renew_keys(used)
        if said == "SecondLevelDomainForbidden" and not self.virtual:
            self.virtual = True
            return True
        return False

    def learn_region(self, bucket: str, answer: Answer) -> bool:
        """Use the region in a refusal from now on. True if it is a new one."""
        region = (
            inner(answer.text, "Region")
            or answer.headers.get("x-amz-bucket-region", "")
            or region_named(answer)
        )
        if answer.status not in (301, 307, 400) or region in (
            "",
            self.regions.get(bucket, self.region),
        ):
            return False
        if not region.replace("-", "").isalnum():  # it becomes part of a host's name
            return False
        self.regions[bucket] = region
        return True

    def learn_https(self, answer: Answer) -> bool:
        """Use https on the same host from now on, if a redirect asks only for that. True if so."""
        secure = wants_https(answer)
        if not secure or not self.endpoint.lower().startswith("http://"):
            return False
        (_, host, _), path = split_url(self.endpoint)
        self.endpoint = "https://" + host_header(("https", host, secure)) + path.rstrip("/")
        return True

    def learn_time(self, bucket: str, answer: Answer) -> bool:
        """Use the server's time from now on, with a warning. True if ours was wrong."""
        ahead = self.clock_ahead(answer)
        with self.lock:
            if abs(ahead - self.skew) <= SKEW:
                return False
            self.skew = ahead
        what, next = describe_refusal("clock", answer, bucket, "", self)
        why = (
            "A request is signed with the time, and a store refuses one from "
            "another hour: its time is used."
        )
        self.web.tell("warning", code="s3.clock", what=what, why=why, next=next)
        return True

    def head(self, bucket: str, key: str) -> Entry | None:
        """One object's size, version and headers; None if it does not exist. Raises Failure."""
        answer = self.ask("HEAD", bucket, key, headers={"x-amz-checksum-mode": "ENABLED"})
        if answer.status == 404:
            return None
        if answer.status != 200:  # an answer to HEAD has no body that says why
            answer = self.ask("GET", bucket, key, headers={"range": "bytes=0-0"})
            if answer.status not in (200, 206, 416):
                raise refusal(answer, bucket, key, self)
        self.check_object(answer, bucket)
        return head_entry(key, answer)


def head_entry(key: str, answer: Answer) -> Entry:
    headers = answer.headers
    size = headers.get("content-range", "").rpartition("/")[2] or headers.get("content-length", "0")
    found = Entry(
        key, whole_number(size, key), headers.get("etag", ""), headers.get("last-modified", "")
    )
    found.headers = headers
    return found


def whole_number(text: str, key: str) -> int:
    """Parse the size of an object. Raises Failure for a text that is not a number."""
    size = parse_number(text)
    if size < 0:
        raise Failure(
            "s3.listing", f"The store does not say how large {key} is.", f"It says {text[:40]!r}."
        )
    return size
