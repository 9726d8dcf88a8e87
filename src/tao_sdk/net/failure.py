"""The one error of net/ and runner/: what went wrong, why, and what to do next."""

from __future__ import annotations


class Failure(Exception):
    """An operation failed. `code` is stable; what, why and next are for people.

    `host` is the server at fault, if the code alone is not enough to decide what helps.
    """

    def __init__(self, code: str, what: str, why: str = "", next: str = "", host: str = "") -> None:
        super().__init__(code, what, why, next, host)
        self.code, self.what, self.why, self.next = code, what, why, next
        self.host = host

    @property
    def facts(self) -> dict[str, str]:
        """The fields of this failure for an event."""
        facts = {"code": self.code, "what": self.what, "why": self.why, "next": self.next}
        return {**facts, "host": self.host} if self.host else facts
