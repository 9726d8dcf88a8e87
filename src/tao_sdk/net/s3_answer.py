"""Check that an answer comes from a store: a captive portal, a web server and a proxy's page say
200 to everything, too.

Here: the marks of a store's answers, the redirects that may be followed, and the Failures for other
answers. Not here: the refusals of a store itself (s3_words.py).
"""

from __future__ import annotations

from tao_sdk.net.failure import Failure
from tao_sdk.net.proxy import proxy_for
from tao_sdk.net.redirects import REDIRECTS, resolve_location
from tao_sdk.net.s3_xml import inner
from tao_sdk.net.wire import host_header, split_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.net.s3_endpoint import Endpoint
    from tao_sdk.net.web import Answer

PAGES = ("<!doctype html", "<html")
START = 500  # characters of a body that show its kind
LONGEST_HOST = 200
# a page with this status or more may come from the load balancer of a busy store
SERVER_ERROR = 500


def check_document(answer: Answer, root: str, store: Endpoint) -> None:
    """Raise a Failure unless this success is an XML document with that root."""
    if not has_root(answer.text, root):
        raise no_store(answer, store)


def has_root(text: str, name: str) -> bool:
    """True if the text is XML whose first element has that name."""
    text = text.lstrip("\ufeff \t\r\n")
    if text.startswith("<?"):
        text = text.partition("?>")[2].lstrip()
    return text.startswith((f"<{name}>", f"<{name} ", f"<{name}/>"))


def is_html(answer: Answer) -> bool:
    """True if the answer calls itself HTML."""
    return "html" in answer.headers.get("content-type", "").lower()


def has_amazon_headers(answer: Answer) -> bool:
    """True if the answer has headers of S3."""
    return any(name.startswith("x-amz-") for name in answer.headers)


def is_page(answer: Answer) -> bool:
    """True if a refusal is a web page, not a store's own document."""
    return answer.status < SERVER_ERROR and answer.text[:START].lstrip().lower().startswith(PAGES)


def no_store(answer: Answer, store: Endpoint) -> Failure:
    """The Failure for an answer that no store gives."""
    origin = split_url(answer.url)[0]
    proxy = proxy_for(origin, store.web.env)
    through = f" through the proxy {proxy[0]}:{proxy[1]}" if proxy else ""
    kind = "a web page" if is_html(answer) or is_page(answer) else "an answer that no store gives"
    return Failure(
        "web.page",
        f"{store.endpoint or 'AWS'} answers, but not as an S3 store does.",
        f"What came is {kind} (status {answer.status}){through}: "
        "a captive portal that wants a login, a proxy, or another server.",
        "Check that S3_ENDPOINT_URL is the address of the store's API and not of its "
        "console, and that nothing stands "
        "between: open a page of the network's own to log in, or name the store in NO_PROXY.",
    )


# Redirects


def led_to(answer: Answer) -> str:
    """The scheme, host and port of a redirect to another server, safe to show; "" without one."""
    here = split_url(answer.url)[0]
    location, named = answer.headers.get("location", ""), inner(answer.text, "Endpoint")
    if answer.status not in REDIRECTS or not (location or named):
        return ""
    there = split_url(
        resolve_location(answer.url, location) if location else f"{here[0]}://{named}"
    )[0]
    if there == here:
        return ""
    return f"{plain_host(there[0])}://{plain_host(host_header(there))}"


def plain_host(host: str) -> str:
    """The start of a text, with only the characters of a host's name: anyone may have sent it."""
    return "".join(char for char in host[:LONGEST_HOST] if char.isalnum() or char in ".-_:[]")


def redirect_failure(to: str, answer: Answer, store: Endpoint) -> Failure:
    """The Failure for a redirect to an endpoint that the request was not signed for."""
    return Failure(
        "web.redirect",
        f"{store.endpoint or 'AWS'} sends us to {to} instead of answering.",
        f"Status {answer.status}. A request is signed for one store, so that another one is "
        "not asked in its place.",
        "If that is the endpoint of the bucket, set S3_ENDPOINT_URL to it. If it is the login of a "
        "network (a captive portal) or of a proxy, log in there, or name the store in NO_PROXY.",
    )


def wants_https(answer: Answer) -> int:
    """The port, if the answer redirects to the same host and path by https; else 0."""
    location = answer.headers.get("location", "")
    if answer.status not in REDIRECTS or not location:
        return 0
    (scheme, host, _), target = split_url(answer.url)
    to, its_target = split_url(resolve_location(answer.url, location))
    if (
        (scheme, to[0]) != ("http", "https")
        or to[1] != host
        or path_of(target) != path_of(its_target)
    ):
        return 0
    return to[2]


def path_of(target: str) -> str:
    return target.partition("?")[0]
