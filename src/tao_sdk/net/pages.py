"""Count the pages of a listing, to notice a server whose listing never ends."""

from __future__ import annotations

from tao_sdk.net.failure import Failure

MOST_PAGES = 10_000  # of one listing: ten million files, as a rule


class Pages:
    """The pages of one listing so far. `code` and `what` are for the Failure."""

    def __init__(self, code: str, what: str) -> None:
        self.code, self.what = code, what
        self.marks: set[str] = set()
        self.first = ""

    def add_page(self, mark: str, first: str = "") -> None:
        """Add a page with its `mark`. If each page gets a new mark, `first` is its first entry.

        Raises Failure for a repeated page, and for more than MOST_PAGES.
        """
        if mark in self.marks or (first and first == self.first):
            raise self.endless_failure("The server gave the same page twice.")
        if len(self.marks) >= MOST_PAGES:
            raise self.endless_failure(f"It has more than {MOST_PAGES} pages.")
        self.marks.add(mark)
        self.first = first

    def endless_failure(self, why: str) -> Failure:
        next = "Name a folder below it, or the files one by one; ask who runs the server."
        return Failure(self.code, f"The list of {self.what} has no end.", why, next)
