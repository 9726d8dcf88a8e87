"""Error field: which field of a job the errors of a block are of.

Here: for readers of one field that know no name, only a place in its value. Not here: errors that
name their field themselves (FieldError in fields.py).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tao_sdk.model.errors import SpecError


@contextmanager
def about_field(name: str) -> Generator[None]:
    """A SpecError that is raised inside is of this field, unless it is of another already."""
    try:
        yield
    except SpecError as error:
        error.field = error.field or name
        raise
