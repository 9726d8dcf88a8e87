"""Redirects: the targets that are followed, and those that are refused.

https never redirects to http, and no server elsewhere redirects to this machine itself, to
link-local addresses, or to the metadata service.
"""

from __future__ import annotations

import contextlib
from socket import AF_INET6, inet_aton, inet_ntoa, inet_ntop, inet_pton

from tao_sdk.net.address import shown
from tao_sdk.net.failure import Failure
from tao_sdk.net.wire import PORTS, host_header, split_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tao_sdk.net.wire import Connection

REDIRECTS = (301, 302, 303, 307, 308)
# Headers that are not secret and may go to the next host.
CARRIED = ("accept", "content-type", "if-match", "if-range", "range")
# Prefixes of addresses that only this machine reaches.
LOCAL_IPV4 = ("127.", "169.254.", "0.")
LOCAL_IPV6 = ("::1", "::")
LOCAL_IPV6_STARTS = ("fe8", "fe9", "fea", "feb", "fd00:ec2:")


def redirect_target(url: str, to: str) -> str:
    """The target of a redirect from `url`. Raises Failure for a target that is not allowed."""
    onward = resolve_location(url, to.replace(" ", "%20"))
    scheme, host, _ = split_url(onward)[0]
    if not in_one_line(onward):
        raise redirect_refused(
            url,
            "an address",
            "It contains a character that no address can have, such as a line end.",
        )
    if scheme not in PORTS or not host:
        raise redirect_refused(url, onward, "Only http and https addresses are followed.")
    if scheme == "http" and split_url(url)[0][0] == "https":
        raise redirect_refused(
            url,
            onward,
            "An https address must not lead to http: anybody on the way could change the data.",
        )
    return onward


def resolve_location(url: str, to: str) -> str:
    """The full address of a `location` header in an answer from `url`."""
    if "://" in to.partition("?")[0]:
        return to
    origin, target = split_url(url)
    path = target.partition("?")[0]
    if to.startswith("//"):
        return f"{origin[0]}:{to}"
    if to.startswith("?"):
        to = path + to
    elif not to.startswith("/"):
        to = path[: path.rindex("/") + 1] + to
    return f"{origin[0]}://{host_header(origin)}{to}"


def redirect_refused(url: str, to: str, why: str) -> Failure:
    """The Failure for a redirect that is not allowed."""
    source = f"{shown(url)} leads" if url else "An address led"
    return Failure(
        "web.redirect",
        f"{source} to {shown(to)}, and is not followed.",
        why,
        "Ask who runs the server, or name the address that the data really have.",
    )


def in_one_line(text: str) -> bool:
    """True if the text holds no control character."""
    return text.isprintable() or not any(map(is_control, text))


def is_control(char: str) -> bool:
    return char < " " or "\x7f" <= char <= "\x9f"


def ends_here(connection: Connection) -> bool:
    """True if the connection ends at this machine, or at an address that only it reaches."""
    if not connection.proxy:
        return is_local_address(connection.peer)
    host = connection.origin[1].rstrip(".")  # the proxy resolves the name
    return is_local_address(host) or host == "localhost" or host.endswith(".localhost")


def is_local_address(address: str) -> bool:
    """True for a loopback or link-local address in any notation."""
    with contextlib.suppress(OSError, ValueError):  # a host name, or an IPv4 address
        address = inet_ntop(AF_INET6, inet_pton(AF_INET6, address))  # the shortest notation
    address = address.rpartition("::ffff:")[2] if "." in address else address
    try:
        return inet_ntoa(inet_aton(address)).startswith(LOCAL_IPV4)
    except OSError:
        return address in LOCAL_IPV6 or (":" in address and address.startswith(LOCAL_IPV6_STARTS))
