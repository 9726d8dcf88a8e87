"""What the tests with Docker have from other machines, fetched before they start: those that run in
a network of their own (tools/python-apart) reach no other machine.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from support.dockerd import dockerd_here
from support.servers import go_programs


def fetch() -> None:
    dockerd_here.need(*dockerd_here.NEEDS, "docker-registry", "openssl")
    dockerd_here.debian_root()
    for name in go_programs.PACKAGES:
        go_programs.built(name)


if __name__ == "__main__":
    with suppress(pytest.skip.Exception):  # each test says so itself
        fetch()
