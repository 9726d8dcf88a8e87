"""A connection that is slow: a program between a client and a server that lets only so many bytes a
second through.
"""

from __future__ import annotations

import socket
import threading
import time

CHUNK = 8 * 1024


class SlowLink:
    """Passes on what comes to `port`. All connections share the speed; `busy` is
    how many are open.
    """

    def __init__(self, host: str, target: int, bytes_per_second: int) -> None:
        self.host, self.target, self.speed = host, target, bytes_per_second
        self.listener = socket.create_server((host, 0))
        self.port = self.listener.getsockname()[1]
        self.busy = 0
        self._next = time.monotonic()
        self._turn = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, socket.create_connection((self.host, self.target)) as far:
            self.busy += 1
            there = threading.Thread(target=self._pass, args=(near, far), daemon=True)
            there.start()
            self._pass(far, near)
            there.join()
            self.busy -= 1

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(CHUNK):
                time.sleep(self._wait(len(data)))
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def _wait(self, size: int) -> float:
        """Seconds until so many bytes may go."""
        with self._turn:
            now = time.monotonic()
            self._next = max(self._next, now) + size / self.speed
            return self._next - now
