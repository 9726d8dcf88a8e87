"""A server that takes connections and never says anything, and how many it has taken."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress


class Silent:
    """Its address, and the connections that it has taken."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        self.taken: list[socket.socket] = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        with suppress(OSError):  # the server was closed
            while True:
                self.taken.append(self.server.accept()[0])


@contextmanager
def silent_server() -> Generator[Silent]:
    silent = Silent()
    try:
        yield silent
    finally:
        with suppress(OSError):
            silent.server.shutdown(socket.SHUT_RDWR)
        silent.server.close()
        for line in silent.taken:
            line.close()
