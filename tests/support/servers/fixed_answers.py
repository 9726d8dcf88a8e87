"""A server whose answers are bytes that a test gives."""

from __future__ import annotations

import socket
import threading


class FixedAnswers:
    """A server that answers each connection's requests with given bytes, and keeps what it was
    sent.
    """

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.asked = list(answers), []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while self.answers:
            client = self.socket.accept()[0]
            with client:
                data = b""
                while self.answers and (more := client.recv(65536)):
                    data += more
                    while b"\r\n\r\n" in data and self.answers:
                        head, _, data = data.partition(b"\r\n\r\n")
                        self.asked.append(head.decode())
                        client.sendall(self.answers.pop(0))
