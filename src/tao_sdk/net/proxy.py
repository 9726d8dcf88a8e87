"""The proxy for a server, from HTTP_PROXY, ALL_PROXY and NO_PROXY."""

from __future__ import annotations

from tao_sdk.net.wire import split_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tao_sdk.net.wire import Origin, Proxy


def proxy_for(origin: Origin, env: Mapping[str, str]) -> Proxy | None:
    """The proxy that the environment sets for an origin, or None.

    None for the hosts in NO_PROXY, and for link-local addresses: a machine gets its keys from the
    metadata service there.
    """
    scheme, host, port = origin
    url = read_variable(env, scheme + "_proxy") or read_variable(env, "all_proxy")
    if (
        not url
        or host.startswith("169.254.")
        or is_excepted(host, port, read_variable(env, "no_proxy"))
    ):
        return None
    (_, proxy_host, proxy_port), _ = split_url(url if "://" in url else "http://" + url)
    login, at, _ = url.rpartition("://")[2].rpartition("@")
    return proxy_host, proxy_port, basic_authorization(login) if at else ""


def read_variable(env: Mapping[str, str], name: str) -> str:
    """The value of a variable in lower or upper case; lower case goes first."""
    return env.get(name) or env.get(name.upper()) or ""


def basic_authorization(login: str) -> str:
    """The authorization header's value for the percent-encoded `user:password` of an address."""
    from binascii import b2a_base64

    from tao_sdk.net.percent import unquote

    return "Basic " + b2a_base64(unquote(login).encode(), newline=False).decode()


def is_excepted(host: str, port: int, no_proxy: str) -> bool:
    """True if the list in NO_PROXY has the host, with this port or none."""
    return any(
        matches_exception(host, port, each) for each in no_proxy.replace(" ", ",").split(",")
    )


def matches_exception(host: str, port: int, exception: str) -> bool:
    """True if one entry of NO_PROXY names the host: `*`, a name, a domain or a network."""
    name, colon, its_port = exception.strip().lower().partition(":")
    if not name or (colon and its_port != str(port)):
        return False
    domain = name.lstrip(".*")
    return name == "*" or host == domain or host.endswith("." + domain) or is_in_network(host, name)


def is_in_network(host: str, network: str) -> bool:
    """True if the host is an address of a network such as 10.0.0.0/8."""
    if "/" not in network:
        return False
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
