"""S3 by the standard library: buckets and keys as the runner and the client use them.

    s3 = S3(web)                          endpoint, region, style and keys come from web.env
    s3.head(bucket, key)                  -> Entry, or None when there is no such key
    s3.list(bucket, prefix)               -> every Entry below a prefix, in the server's order, page by page
    s3.pages(bucket, query)               -> a listing's pages as they come
    s3.get(bucket, key, start, stop, version)   -> views of bytes [start, stop); Changed when it is not that version any more
    s3.put(bucket, key, body, only_new)   -> the version (ETag); body is bytes or a path; parallel parts when it is large

A refusal is a Failure with a code of its own (s3_words.py). Not here: what is fetched where (transfer.py), what an
address of a job means (s3_source.py).
"""

from __future__ import annotations

import threading
import time

from tao_sdk.net import percent
from tao_sdk.net.failure import Failure
from tao_sdk.net.s3_answer import check_document, check_object, region_named, regional, wants_https
from tao_sdk.net.s3_credentials import Credentials
from tao_sdk.net.s3_sign import Signer
from tao_sdk.net.s3_words import WORDS, is_bucket, refusal, words
from tao_sdk.net.s3_xml import elements, inner
from tao_sdk.net.shown import shown
from tao_sdk.net.web import Changed, Pages
from tao_sdk.net.wire import Garbled, digits, host_header, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tao_sdk.net.s3_credentials import Keys
    from tao_sdk.net.web import Answer, Headers, Sign, Web
    from tao_sdk.net.wire import Body

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT_URL")
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION", "CLOUD_REGION")
LESSONS = 4  # tries after a refusal that told how to do better
SKEW = 60.0  # seconds between the clocks that are worth a correction
LATE = ("RequestTimeTooSkewed", "RequestExpired")
ENDED = ("ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId")
MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
STYLES = ("AWS_S3_ADDRESSING_STYLE", "S3_ADDRESSING_STYLE")


class Entry:
    """One object as a listing or a head tells it."""

    def __init__(self, key: str, size: int, version: str, modified: str = "") -> None:
        self.key, self.size, self.version, self.modified = key, size, version, modified
        self.headers: Headers = {}  # of a head


class S3:
    """One endpoint with its keys; safe to use from many threads."""

    def __init__(self, web: Web) -> None:
        self.web = web
        self.endpoint = shown(first(web.env, ENDPOINTS)).rstrip("/")
        self.region = first(web.env, REGIONS) or "us-east-1"
        self.virtual = (first(web.env, STYLES) or ("path" if self.endpoint else "virtual")) == "virtual"
        self.credentials = Credentials(web, on_aws=not self.endpoint)
        self.signers: dict[str, Signer] = {}
        self.regions: dict[str, str] = {}  # of buckets, where a server told
        self.believed = -3600.0  # when it was seen to be a store, on the monotonic clock (s3_answer.py)
        self.skew = 0.0  # seconds that the server's clock is ahead of ours
        self.lock = threading.Lock()
        self.mine = threading.local()  # the keys that this thread's last request was signed with

    def head(self, bucket: str, key: str) -> Entry | None:
        answer = self.ask("HEAD", bucket, key, headers={"x-amz-checksum-mode": "ENABLED"})
        if answer.status == 404:
            return None
        if answer.status != 200:  # a head has no body that would tell why
            answer = self.ask("GET", bucket, key, headers={"range": "bytes=0-0"})
            if answer.status not in (200, 206, 416):
                raise refusal(answer, bucket, key, self)
        check_object(answer, bucket, self)
        return entry(key, answer)

    def list(self, bucket: str, prefix: str) -> Iterator[Entry]:
        for page in self.pages(bucket, {"prefix": prefix}):
            yield from contents(page)

    def pages(self, bucket: str, query: Mapping[str, str]) -> Iterator[str]:
        asked = {"list-type": "2", "encoding-type": "url", **query}
        pages = Pages("s3.listing", "s3://%s/%s" % (bucket, query["prefix"]))
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
                what = "The list of s3://%s/%s breaks off." % (bucket, query["prefix"])
                why = "There is more, and the store does not say how to go on: it may know the older listing only."
                raise Failure(
                    "s3.listing", what, why, "Name the objects one by one, or use a store with ListObjectsV2."
                )
            pages.turn(token)
            pages.turn_to(inner(answer.text, "Contents") or inner(answer.text, "CommonPrefixes"))
            asked["continuation-token"] = token

    def get(
        self, bucket: str, key: str, start: int, stop: int, version: str, whole: Headers | None = None
    ) -> Iterator[memoryview]:
        """The bytes [start, stop) of that version. The body may break: OSError, and the rest can be asked for.

        Where these are all its bytes, `whole` is filled with the headers of the answer: its checksum is among them.
        """
        if start == stop:
            return
        headers = {"range": "bytes=%d-%d" % (start, stop - 1)} if whole is None else {"x-amz-checksum-mode": "ENABLED"}
        if version:
            headers["if-match"] = version
        with self.open(bucket, key, headers) as answer:
            if answer.status == 412 or (answer.status in (200, 206) and other(answer, version)):
                raise Changed("s3://%s/%s" % (bucket, key))
            if answer.status not in (200, 206):
                raise refusal(answer, bucket, key, self)
            check_object(answer, bucket, self)
            if whole is not None:
                whole.update(answer.headers)
            elif not answer.headers.get("content-range", "").startswith("bytes %d-" % start):
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
        """Store bytes, or the file of that path as long as it is now; its version.

        Raises Changed when `only_new` and something is there already, when the file becomes shorter meanwhile, and when
        `not good()` once the parts of a large one have been sent: then it is given up instead of completed.
        """
        from tao_sdk.net.s3_put import Put

        return Put(self, bucket, key, only_new, good).store(body)

    def ask(
        self,
        method: str,
        bucket: str,
        key: str,
        query: Mapping[str, str] | None = None,
        body: bytes | Body = b"",
        headers: Headers | None = None,
    ) -> Answer:
        """One request with its whole answer; asked again where the server told a better region or time, or keys ended."""
        left = LESSONS
        while True:
            sign = self.signer(bucket)
            answer = self.web.ask(method, self.url(bucket, key, query), headers, body, sign, follow=False)
            if not (left and self.learn(bucket, answer)):
                return answer
            left -= 1

    def open(self, bucket: str, key: str, headers: Headers) -> Answer:
        """As `ask`, for a body that is read by the caller; that of a refusal is read already."""
        left = LESSONS
        while True:
            answer = self.web.open("GET", self.url(bucket, key, None), headers, self.signer(bucket), follow=False)
            if answer.status in (200, 206):
                return answer
            with answer:
                answer.body = answer.read()
            if not (left and self.learn(bucket, answer)):
                return answer
            left -= 1

    def url(self, bucket: str, key: str, query: Mapping[str, str] | None) -> str:
        if self.endpoint and not self.endpoint.lower().startswith(("http://", "https://")):
            raise Failure("s3.endpoint", "S3_ENDPOINT_URL must begin with http:// or https://: %s" % self.endpoint)
        check_bucket(bucket)
        region = self.regions.get(bucket, self.region)
        endpoint = self.endpoint or "https://s3.%s.amazonaws.com%s" % (region, ".cn" if region[:3] == "cn-" else "")
        if bucket in self.regions:
            endpoint = regional(endpoint, region)
        path = "/" + percent.path(key)
        if self.virtual and (self.endpoint or "." not in bucket):
            scheme, _, host = endpoint.partition("://")
            endpoint = "%s://%s.%s" % (scheme, bucket, host)
        else:
            path = "/%s%s" % (bucket, path if key else "")
        return endpoint + path + ("?" + percent.query(query) if query else "")

    def signer(self, bucket: str) -> Sign:
        """What signs requests for a bucket, each with the keys and the time of its own try."""
        region = self.regions.get(bucket, self.region)
        signer = self.signers.setdefault(region, Signer(region))

        def sign(method: str, url: str, headers: Headers) -> Headers:
            keys = self.credentials.get()
            self.mine.keys = keys
            if keys is None:
                return headers
            origin, target = split(url)
            return signer.sign(keys, method, host_header(origin), target, headers, time.time() + self.skew)

        return sign

    def learn(self, bucket: str, answer: Answer) -> bool:
        """Whether a refusal told something that makes another try worthwhile: a region, the time, the end of keys."""
        if answer.status < 300 or answer.status in (404, 412):
            return False
        said = inner(answer.text, "Code")
        if self.learn_region(bucket, answer) or self.learn_https(answer):
            return True
        if said in LATE or (not said and answer.status == 403):
            return self.learn_time(bucket, answer)
        if said in ENDED:
            used: Keys | None = getattr(self.mine, "keys", None)
            return used is not None and self.credentials.renew(used)
        if said == "SecondLevelDomainForbidden" and not self.virtual:
            self.virtual = True
            return True
        return False

    def learn_region(self, bucket: str, answer: Answer) -> bool:
        region = inner(answer.text, "Region") or answer.headers.get("x-amz-bucket-region", "") or region_named(answer)
        if answer.status not in (301, 307, 400) or region in ("", self.regions.get(bucket, self.region)):
            return False
        if not region.replace("-", "").isalnum():  # it becomes part of a host's name
            return False
        self.regions[bucket] = region
        return True

    def learn_https(self, answer: Answer) -> bool:
        """Take the same host's https, where it wants nothing else. What follows stays there: a login never goes back."""
        secure = wants_https(answer)
        if not secure or not self.endpoint.lower().startswith("http://"):
            return False
        (_, host, _), path = split(self.endpoint)
        self.endpoint = "https://" + host_header(("https", host, secure)) + path.rstrip("/")
        return True

    def learn_time(self, bucket: str, answer: Answer) -> bool:
        """Take the server's time for ours, and tell so."""
        ahead = self.ahead(answer)
        with self.lock:
            if abs(ahead - self.skew) <= SKEW:
                return False
            self.skew = ahead
        what, next = words("clock", answer, bucket, "", self)
        self.web.tell("warning", code="s3.clock", what=what, next=next)
        return True

    def ahead(self, answer: Answer) -> float:
        """Seconds that the server's clock is ahead of ours."""
        date = unix_time(answer.headers.get("date", ""))
        return date - time.time() if date else 0.0


def check_bucket(bucket: str) -> None:
    """Raise Failure for what cannot be the name of a bucket."""
    if not is_bucket(bucket):
        what, next = WORDS["bucket_name"]
        raise Failure("s3.bucket_name", what % {"bucket": bucket}, "", next)


def other(answer: Answer, version: str) -> bool:
    return bool(version) and answer.headers.get("etag", version) != version


def unix_time(date: str) -> float:
    """Of Sat, 21 Nov 2026 08:26:14 GMT; 0 when it is no such date."""
    from calendar import timegm

    try:
        _, day, month, year, clock, _ = date.split()
        hour, minute, second = map(int, clock.split(":"))
        return float(timegm((int(year), MONTHS.index(month) // 3 + 1, int(day), hour, minute, second)))
    except (ValueError, OverflowError):
        return 0.0


def entry(key: str, answer: Answer) -> Entry:
    headers = answer.headers
    size = headers.get("content-range", "").rpartition("/")[2] or headers.get("content-length", "0")
    found = Entry(key, whole_number(size, key), headers.get("etag", ""), headers.get("last-modified", ""))
    found.headers = headers
    return found


def decoder(page: str) -> Callable[[str], str]:
    return unplus if inner(page, "EncodingType") == "url" else str


def unplus(text: str) -> str:
    return percent.unquote(text.replace("+", " "))


def contents(page: str) -> Iterator[Entry]:
    decode = decoder(page)
    for each in elements(page, "Contents"):
        key = decode(inner(each, "Key"))
        yield Entry(key, whole_number(inner(each, "Size"), key), inner(each, "ETag"), inner(each, "LastModified"))


def whole_number(text: str, key: str) -> int:
    size = digits(text)
    if size < 0:
        raise Failure("s3.listing", "The store does not say how large %s is." % key, "It says %r." % text[:40])
    return size


def first(env: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((env[name] for name in names if env.get(name)), "")
