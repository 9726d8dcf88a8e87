"""SpaceError: what is wrong with a parameter, or with a value of one."""

from __future__ import annotations

from tao_sdk.model.errors import SpecError


class SpaceError(SpecError):
    """A parameter that cannot be searched as it is written, or a value that it cannot have.
    `field` is its key.
    """

    code = "automl.space"


def space_mistake(key: str, what: str, next: str = "", why: str = "") -> SpaceError:
    """The error about one key; `what` goes on from the key: `is 3; it must be at most 2`."""
    error = SpaceError(f"{key} {what}.", why, next)
    error.field = key
    return error
