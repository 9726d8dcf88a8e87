"""What the tests with Docker have from other machines, fetched before they start: those that run in
a network of their own (tools/python-apart) reach no other machine.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from support.dockerd import dockerd_here
from support.servers import go_programs


def fetch() -> None:
    dockerd_here.need(*dockerd_here.NEEDS, "docker-registry", "openssl")
    with ThreadPoolExecutor() as threads:
        fetched = [threads.submit(dockerd_here.debian_root)]
        fetched += [threads.submit(go_programs.built, name) for name in go_programs.PACKAGES]
    for each in fetched:
        each.result()


if __name__ == "__main__":
    with suppress(pytest.skip.Exception):  # each test says so itself
        fetch()
