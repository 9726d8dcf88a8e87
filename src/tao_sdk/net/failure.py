"""The one error of net/ and runner/: what went wrong, why, and what to do next."""

from __future__ import annotations

import errno

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)  # the disk, or the user's share of it, is full


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


def unwritable_failure(error: OSError, code: str, what: str, next: str = "") -> Failure:
    """The Failure for a file of the job that cannot be written; its code is disk.full if there is
    no room.
    """
    why = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    if error.errno in NO_ROOM:
        advice = "Free space there, or let the results lie elsewhere."
        return Failure("disk.full", what, why, advice)
    return Failure(code, what, why, next)
