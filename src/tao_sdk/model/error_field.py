"""Error field: add to the errors of a block the field of the job that they are about.

Here: for readers of one field that know no name, only a place in its value. Not here: errors that
name their field themselves (FieldError in fields.py).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tao_sdk.model.errors import SpecError


@contextmanager
def about_field(name: str) -> Generator[None]:
    """Set this field on a SpecError that the block raises, unless it names another already."""
    try:
        yield
    except SpecError as error:
        error.field = error.field or name
        raise
