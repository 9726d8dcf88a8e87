"""The one error of net/ and runner/: what went wrong, why, and what to do next."""

from __future__ import annotations


class Failure(Exception):
    """What was asked for cannot be done. `code` is stable; what, why and next are for people."""

    def __init__(self, code: str, what: str, why: str = "", next: str = "") -> None:
        super().__init__(code, what, why, next)
        self.code, self.what, self.why, self.next = code, what, why, next
