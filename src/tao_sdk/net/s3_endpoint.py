"""The target and the signature of requests to S3: endpoint, region, style and keys, with the
servers' corrections to them.

Not here: the requests themselves (s3_store.py), and the texts of failures (s3_words.py).
"""

from __future__ import annotations

import threading
import time

from tao_sdk.net import percent
from tao_sdk.net.address import shown
from tao_sdk.net.failure import Failure
from tao_sdk.net.redirects import resolve_location
from tao_sdk.net.s3_credentials import Credentials
from tao_sdk.net.s3_sign import Signer
from tao_sdk.net.s3_xml import inner
from tao_sdk.net.wire import host_header, split_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tao_sdk.net.web import Answer, Headers, Sign, Web
    from tao_sdk.net.wire import Origin

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT_URL")
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION", "CLOUD_REGION")
AWS = (".amazonaws.com", ".amazonaws.com.cn")
GLOBAL = "s3.amazonaws.com"  # AWS's endpoint without a region
STYLES = ("AWS_S3_ADDRESSING_STYLE", "S3_ADDRESSING_STYLE")
# what may stand between the letters and digits of a bucket's name
BETWEEN = str.maketrans("", "", "._-")

BUCKET_NAME = (
    "%(bucket)s cannot be the name of a bucket.",
    "Write s3://bucket/key: 3 to 63 lower-case letters, digits, dots and hyphens, then the key.",
)


class Endpoint:
    """One endpoint with its keys. Thread-safe."""

    def __init__(self, web: Web) -> None:
        self.web = web
        self.endpoint = shown(first_value(web.env, ENDPOINTS)).rstrip("/")
        self.region = first_value(web.env, REGIONS) or "us-east-1"
        self.virtual = (
            first_value(web.env, STYLES) or ("path" if self.endpoint else "virtual")
        ) == "virtual"
        self.credentials = Credentials(web, on_aws=not self.endpoint)
        self.signers: dict[str, Signer] = {}
        self.regions: dict[str, str] = {}  # bucket -> its region, if a server said so
        # when it was seen to be a store, on the monotonic clock (s3_answer.py)
        self.believed = -3600.0
        self.skew = 0.0  # seconds that the server's clock is ahead of ours
        self.lock = threading.Lock()
        self.mine = threading.local()  # the keys that this thread's last request was signed with

    def url(self, bucket: str, key: str, query: Mapping[str, str] | None) -> str:
        """The address of a bucket, or of a key in it, with its query."""
        if self.endpoint and not self.endpoint.lower().startswith(("http://", "https://")):
            raise Failure(
                "s3.endpoint",
                f"S3_ENDPOINT_URL must begin with http:// or https://: {self.endpoint}",
            )
        check_bucket(bucket)
        region = self.regions.get(bucket, self.region)
        china = ".cn" if region.startswith("cn-") else ""
        endpoint = self.endpoint or f"https://s3.{region}.amazonaws.com{china}"
        if bucket in self.regions:
            endpoint = regional_endpoint(endpoint, region)
        path = "/" + percent.path(key)
        if self.virtual and (self.endpoint or "." not in bucket):
            scheme, _, host = endpoint.partition("://")
            endpoint = f"{scheme}://{bucket}.{host}"
        else:
            path = f"/{bucket}{path}" if key else f"/{bucket}"
        return endpoint + path + ("?" + percent.query(query) if query else "")

    def signer(self, bucket: str) -> Sign:
        """A function that signs each try of a request for a bucket, with the keys and time then."""
        region = self.regions.get(bucket, self.region)
        signer = self.signers.setdefault(region, Signer(region))

        def sign(method: str, url: str, headers: Headers) -> Headers:
            keys = self.credentials.current_keys()
            self.mine.keys = keys
            if keys is None:
                return headers
            origin, target = split_url(url)
            return signer.sign(
                keys, method, host_header(origin), target, headers, time.time() + self.skew
            )

        return sign

    def clock_ahead(self, answer: Answer) -> float:
        """The seconds by which the server's clock is ahead of ours; 0.0 if it does not say."""
        date = unix_time(answer.headers.get("date", ""))
        return date - time.time() if date else 0.0


def check_bucket(bucket: str) -> None:
    """Raise Failure if the text cannot be a bucket's name."""
    if not is_bucket(bucket):
        what, next = BUCKET_NAME
        raise Failure("s3.bucket_name", what % {"bucket": bucket}, "", next)


def is_bucket(name: str) -> bool:
    """True if the text can be a bucket's name. A : or # in it would make another host of it, and
    that host would get a token.
    """
    return name.isascii() and name.translate(BETWEEN).isalnum()


def unix_time(date: str) -> float:
    """Unix seconds of `Sat, 21 Nov 2026 08:26:14 GMT`; 0 for any other text."""
    from calendar import timegm

    try:
        return float(timegm(time.strptime(date, "%a, %d %b %Y %H:%M:%S GMT")))
    except ValueError:
        return 0.0


def first_value(env: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The value of the first of these variables that is set; "" if none is."""
    return next((env[name] for name in names if env.get(name)), "")


# Regions of AWS, which are part of its endpoints' names


def region_named(answer: Answer) -> str:
    """The region in the target of a redirect by AWS; "" if the answer is not from AWS."""
    if not on_aws(split_url(answer.url)[0]):
        return ""
    named = (
        inner(answer.text, "Endpoint")
        or split_url(resolve_location(answer.url, answer.headers.get("location", "")))[0][1]
    )
    return region_of(named.lower())


def on_aws(origin: Origin) -> bool:
    """True for a host of AWS."""
    return origin[1].endswith(AWS)


def region_of(host: str) -> str:
    """The region in a host: eu-west-3 for bucket.s3.eu-west-3.amazonaws.com; "" without one."""
    suffix = next((each for each in AWS if host.endswith(each)), "")
    if not suffix:
        return ""
    label = host[: -len(suffix)].rpartition(".")[2]
    if label.startswith("s3-"):
        label = label[len("s3-") :]
    if label.count("-") < 2 or not label.replace("-", "").isalnum():
        return ""
    return label


def regional_endpoint(endpoint: str, region: str) -> str:
    """AWS's endpoint for another region. An endpoint outside AWS stays as it is."""
    origin, _ = split_url(endpoint)
    host = origin[1]
    if not on_aws(origin):
        return endpoint
    if host == GLOBAL:
        return endpoint.replace(GLOBAL, f"s3.{region}.amazonaws.com", 1)
    here = region_of(host)
    return endpoint.replace(here, region, 1) if here else endpoint
