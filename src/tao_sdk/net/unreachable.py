"""The texts for a server or proxy that was not reached: code, sentence and next step."""

from __future__ import annotations

from tao_sdk.net.failure import Failure
from tao_sdk.net.proxy import proxy_for
from tao_sdk.net.wire import WANTS_LOGIN, ProxyAway, ProxyRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tao_sdk.net.wire import Origin, Proxy

# type of error -> code, sentence, next step
WORDS = {
    "gaierror": (
        "web.dns",
        "The name of the server cannot be resolved: %s",
        "Check the address for a typo, and that this machine's or container's DNS knows the name.",
    ),
    "ConnectionRefusedError": (
        "web.refused",
        "Nothing answers at %s",
        (
            "Check host and port of the address, and that the server runs. In a container, "
            "localhost is the container."
        ),
    ),
    "SSLCertVerificationError": (
        "web.tls",
        "The certificate of %s is not trusted",
        "For a certificate of your own authority, mount its file into the job and name it in "
        "AWS_CA_BUNDLE or SSL_CERT_FILE. An image without certificates needs its "
        "package ca-certificates.",
    ),
    "SSLError": (
        "web.tls",
        "No secure connection to %s",
        "Check whether the server speaks https at this port; http:// is another one.",
    ),
    "timeout": (
        "web.timeout",
        "%s did not answer in time",
        "Check the network between the job and the server.",
    ),
    "TimeoutError": (
        "web.timeout",
        "%s did not answer in time",
        "Check the network between the job and the server.",
    ),
    "OSError": (
        "web.broken",
        "The connection to %s broke again and again",
        "Check the network, then start it again.",
    ),
}


def unreachable(error: OSError, origin: Origin, env: Mapping[str, str]) -> Failure:
    """The Failure for a server that was not reached, or for the proxy on the way to it."""
    server = f"{origin[1]}:{origin[2]}"
    proxy = proxy_for(origin, env)
    if proxy and isinstance(error, (ProxyAway, ProxyRefused)):
        return proxy_failure(error, origin[0], server, proxy)
    through = f" through the proxy {proxy[0]}:{proxy[1]}" if proxy else ""
    code, what, next = WORDS[known_kind(error)]
    return Failure(code, what % server + through + ".", error_reason(error), next, origin[1])


def known_kind(error: OSError) -> str:
    """The name of the error's nearest type in WORDS."""
    return next(each.__name__ for each in type(error).__mro__ if each.__name__ in WORDS)


def proxy_failure(error: OSError, scheme: str, server: str, proxy_at: Proxy) -> Failure:
    """The Failure if the proxy is the reason. It does not show the proxy's login."""
    proxy, variable = f"{proxy_at[0]}:{proxy_at[1]}", f"{scheme.upper()}_PROXY"
    spare = "or name the server in NO_PROXY where it can be reached without one."
    if not isinstance(error, ProxyRefused):
        what = f"The proxy {proxy} does not answer, on the way to {server}."
        return Failure(
            "web.proxy",
            what,
            error_reason(error),
            f"Check {variable} (or ALL_PROXY) of the job, {spare}",
        )
    if error.status == WANTS_LOGIN:
        how = "takes no such login" if proxy_at[2] else "wants a login"
        what = f"The proxy {proxy} {how}, on the way to {server}."
        next = (
            "Write it as %s=http://user:password@%s, with what is no letter or digit "
            "percent-encoded, %s"
        )
        return Failure("web.proxy", what, error_reason(error), next % (variable, proxy, spare))
    what = f"The proxy {proxy} lets nobody through to {server}."
    return Failure("web.proxy", what, error_reason(error), f"Ask who runs the proxy, {spare}")


def error_reason(error: OSError) -> str:
    """The system's message for an error. It never contains sent data."""
    said = (
        getattr(error, "verify_message", "") or error.strerror or str(error) or type(error).__name__
    )
    return f"{said.rstrip('.')}."


def silent_host(error: OSError, origin: Origin, env: Mapping[str, str]) -> str:
    """`host:port` of the server that does not answer, or of the proxy on the way there."""
    proxy = proxy_for(origin, env)
    if proxy and isinstance(error, ProxyAway):
        return f"{proxy[0]}:{proxy[1]}"
    return f"{origin[1]}:{origin[2]}"
