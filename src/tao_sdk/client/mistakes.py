"""Mistakes: everything that is wrong with one job file, reported at once.

Here: how mistakes are collected, and the error that reports several. Not here: what a mistake is
(job_file.py).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tao_sdk.client.document import DocumentError
from tao_sdk.model.errors import TaoError

MOST = 20  # mistakes that are told of one file


class Mistakes(DocumentError):
    """Several mistakes of one file. The error's own words are those of the first."""

    def __init__(self, mistakes: Sequence[DocumentError]) -> None:
        first = mistakes[0]
        super().__init__(first.place, "")
        self.what, self.why, self.next, self.command = (
            first.what,
            first.why,
            first.next,
            first.command,
        )
        self.key = first.key
        self.mistakes = tuple(mistakes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.mistakes))

    def redacted(self, redact: Callable[[str], str]) -> TaoError:
        for each in self.mistakes:
            each.redacted(redact)
        return super().redacted(redact)

    def to_json(self) -> dict[str, Any]:
        """The error object of the first, with all of them as `mistakes`."""
        return {**super().to_json(), "mistakes": [each.to_json() for each in self.mistakes]}


@dataclass
class Collected:
    """The mistakes of one file, in the order of its lines once all are there."""

    found: list[DocumentError] = field(default_factory=list[DocumentError])

    @contextmanager
    def of(self, key: str) -> Generator[None]:
        """Go on after a mistake in the value of `key`: others may follow."""
        try:
            yield
        except DocumentError as error:
            self.add(error, key)

    def add(self, error: DocumentError, key: str) -> None:
        error.key = error.key or key
        self.found.append(error)
        if len(self.found) >= MOST:
            self.tell()

    @property
    def keys(self) -> set[str]:
        """The fields that have a mistake already. An unknown key counts for the fields that it may
        mean.
        """
        top = {error.key.partition(".")[0] for error in self.found}
        meant = {error.meant for error in self.found if error.meant}
        return top | meant

    def tell(self) -> None:
        """Raise the one mistake, or one error with all of them."""
        if self.found:
            raise as_one(self.found)


def as_one(mistakes: Sequence[DocumentError]) -> DocumentError:
    """One error with all the mistakes, in the order of their lines."""
    ordered = sorted(mistakes, key=lambda error: (error.place.line, error.place.column))
    if len(ordered) == 1:
        return ordered[0]
    return Mistakes(ordered[:MOST])


def each_of(error: TaoError) -> Sequence[TaoError]:
    """The mistakes in an error; for any other error, the error itself."""
    if isinstance(error, Mistakes):
        return error.mistakes
    return (error,)
