"""Ports for servers that must know theirs before they start, or start again at the same one."""

from __future__ import annotations

import random
import socket

# Below those that the kernel gives to outgoing connections: one of these could take a port between
# its choice and the start of its server.
CHOICE = range(20_000, 32_000)


def free_port(host: str = "127.0.0.1") -> int:
    """A port of this address at which nobody listens."""
    while True:
        port = random.SystemRandom().choice(CHOICE)
        if is_free(host, port):
            return port


def is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
