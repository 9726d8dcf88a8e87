"""Inputs at plain web addresses: http(s)://host/path is one file. A web server has no folders."""

from __future__ import annotations

from tao_sdk.net import percent
from tao_sdk.net.address import shown
from tao_sdk.net.atomic import PART_END
from tao_sdk.net.failure import Failure
from tao_sdk.net.file_names import cut
from tao_sdk.net.http_source import HttpSource, validator
from tao_sdk.net.proxy import basic_authorization
from tao_sdk.net.source import Found
from tao_sdk.net.wire import parse_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.net.source import Source
    from tao_sdk.net.web import Answer, Web


SIGNED = (
    "x-amz-",
    "x-goog-",
    "signature=",
    "expires=",
    "sig=",
    "se=",
    "sp=",
    "sv=",
    "sr=",
    "key-pair-id=",
    "policy=",
    "token=",
)
TO_SHELLS = "$`\"'|&;<>*?!~#"
IN_ADDRESSES = (
    "!#$%&'()*+,/:;=?@[]"  # allowed unencoded, besides the unreserved characters: RFC 3986
)


class HttpFile(HttpSource):
    """One file at a web address."""

    given = ""  # the original address, login included

    def again(self) -> Source:
        return look(self.given, "file", self.web).sources[0]


def look(uri: str, kind: str, web: Web) -> Found:  # noqa: ARG001  it is always a file
    """The file at an address, with its size and version. Raises Failure.

    It asks for the first byte only: some servers refuse HEAD, and the answer shows whether the
    server supports ranges.
    """
    uri = percent.quote(uri, IN_ADDRESSES)
    if path_of(uri).endswith("/"):
        raise Failure(
            "input.nothing",
            f"{shown(uri)} is no file.",
            "A slash at the end means a folder, and a web server does not "
            "tell which files lie in one.",
            "Name each file, or an archive (.tar.gz, .zip) of the folder.",
        )
    login = uri.partition("://")[2].partition("/")[0].rpartition("@")[0]
    headers: dict[str, str] = {}
    if login:
        headers["authorization"] = basic_authorization(login)
    with web.open("GET", uri, {**headers, "range": "bytes=0-0"}) as answer:
        if answer.status not in (200, 206) and not is_empty(answer):
            answer.body = answer.read()
            raise refusal(answer, uri)
        file = describe_file(answer, uri)
        source = HttpFile(web, uri, headers, lambda told: refusal(told, uri), file)
        source.validator, source.given = validator(answer), uri
    found = Found(False, [source], source.path)
    found.asks = lasting_query(uri)
    return found


def describe_file(answer: Answer, uri: str) -> tuple[str, int, str]:
    """(name, size, version) of the file. Size -1 if the server does not say; version "" if it does
    not support ranges.
    """
    ranges = answer.status == 206
    total = answer.headers.get("content-range", "").rpartition("/")[2]
    if ranges:
        size = total
    elif answer.status == 416:
        size = "0"
    else:
        size = answer.headers.get("content-length", "")
    length = parse_number(size)
    version = ""
    if length == 0 or (length > 0 and ranges):
        version = validator(answer)
    name = disposition_name(answer.headers.get("content-disposition", ""))
    return name or last_name(path_of(uri)), length, version


def path_of(uri: str) -> str:
    """The address without its query and fragment."""
    return uri.partition("?")[0].partition("#")[0]


def lasting_query(uri: str) -> str:
    """The query of an address, without the values that change at each signing."""
    query = uri.partition("?")[2].partition("#")[0]
    return "&".join(
        sorted(each for each in query.split("&") if not each.lower().startswith(SIGNED))
    )


def require_data(uri: str, web: Web) -> None:
    """Raise Failure unless the file is there. Looking costs one request."""
    look(uri, "file", web)


def is_empty(answer: Answer) -> bool:
    """True for the answer to a range request for an empty file."""
    return answer.status == 416 and answer.headers.get("content-range", "").strip().endswith("*/0")


def last_name(path: str) -> str:
    """The last name in the address, or the host's name; `download` if it is no safe file name."""
    rest = path.partition("://")[2].rpartition("@")[2]
    return safe_name(percent.unquote(rest.rpartition("/")[2])) or "download"


def disposition_name(disposition: str) -> str:
    """The name that the server gives the file: filename*=UTF-8''a%20b before filename="a b"."""
    found = ""
    for part in disposition.split(";")[1:]:
        name, _, value = part.strip().partition("=")
        value = value.strip().strip('"')
        if name.strip().lower() == "filename*":
            return safe_name(percent.unquote(value.rpartition("'")[2]))
        if name.strip().lower() == "filename":
            found = value
    return safe_name(found)


def safe_name(name: str) -> str:
    """Make a text a plain file name: no path, and no character that is special to a shell. "" if it
    cannot be a file's name.
    """
    name = name.replace("\\", "/").rpartition("/")[2]
    name = "".join(
        "_" if char in TO_SHELLS else char for char in name if char.isprintable()
    ).strip()
    if name.startswith(".."):
        name = name.lstrip(".")
    name = cut(name)
    if name in ("", ".") or name.endswith(PART_END):
        return ""
    return name


def refusal(answer: Answer, uri: str) -> Failure:
    """The Failure for an unsuccessful answer."""
    where = shown(uri)
    if answer.status in (401, 403, 407):
        return Failure(
            "http.denied",
            f"{where} may not be read: the server answers {answer.status}.",
            "It needs a login, or the address holds a signature that is over.",
            "Write a fresh signed address, or https://user:password@host/path; or put the "
            "file into a bucket.",
        )
    if answer.status in (404, 410):
        return Failure(
            "input.nothing",
            f"Nothing is at {where}.",
            f"The server answers {answer.status}.",
            "Check the address.",
        )
    return Failure(
        "http.failed",
        f"{where} cannot be read.",
        f"The server answers {answer.status}.",
        "Try the address with curl from the same machine; ask who runs the server.",
    )
