"""A recorder before a daemon's socket: it passes everything on, and remembers what
was asked for.
"""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any


class Recorder:
    """Stands before the daemon's socket, passes everything on, and remembers what was sent."""

    def __init__(self, path: Path, behind: Path) -> None:
        self.behind, self.sent = behind, bytearray()
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(path))
        self.listening.listen(16)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                near = self.listening.accept()[0]
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(self.behind))
                threading.Thread(
                    target=self.pass_on, args=(near, far, self.sent), daemon=True
                ).start()
                threading.Thread(
                    target=self.pass_on, args=(far, near, bytearray()), daemon=True
                ).start()

    def pass_on(self, source: socket.socket, to: socket.socket, kept: bytearray) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                kept += data
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)

    def created(self, name: str = "tao-job-") -> dict[str, Any]:
        """The body of the request that makes a container whose name begins so."""
        path = b"/containers/create" + (f"?name={name}".encode() if name else b"")
        body = self.sent.partition(path)[2].partition(b"\r\n\r\n")[2]
        return json.JSONDecoder().raw_decode(body.decode("utf-8", "replace"))[0]
