"""Web connections: one connection to a web server, with TLS and through a proxy where there is one.

Here: how it is opened, and how a failure before anything was sent is told from a later one. Not
here: what is trusted, and the requests (http_session.py).
"""

from __future__ import annotations

import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection


class ConnectFailed(OSError):
    """No connection was made, so nothing was sent."""


class WebConnection(HTTPSConnection):
    """A connection that raises ConnectFailed if it cannot be opened. A later break raises another
    error.

    Without a `context` it is plain HTTP. `proxy`: its (host, port, authorization).
    """

    def __init__(
        self,
        host: str,
        port: int,
        context: ssl.SSLContext | None,
        server_name: str,
        proxy: tuple[str, int, str] | None,
    ) -> None:
        at = (proxy[0], proxy[1]) if proxy else (host, port)
        super().__init__(*at, context=context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        self._tls, self._name = context, server_name or host
        if proxy:
            self.set_tunnel(host, port, {"Proxy-Authorization": proxy[2]} if proxy[2] else {})

    def connect(self) -> None:
        try:
            HTTPConnection.connect(self)  # with the tunnel, without TLS
            if self._tls is not None:
                self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)
        except ssl.SSLCertVerificationError:
            raise
        except (OSError, HTTPException) as error:
            raise ConnectFailed(str(error) or type(error).__name__) from error
