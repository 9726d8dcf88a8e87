"""The first trials: the spec as it stands, then what the user wants tried, before any sampler."""

from __future__ import annotations

from tao_automl.state import Search
from tao_automl.trial import Params

SPEC, START = "spec", "start"


def first_params(search: Search) -> tuple[Params, str] | None:
    """The values of the next trial and who proposed them; None where a sampler's turn has come.

    The spec as it stands has the defaults that are known and allowed, and leaves the rest alone.
    """
    number = len(search.trials)
    if search.settings.first_as_is:
        if number == 0:
            return search.space.defaults(), SPEC
        number -= 1
    if number < len(search.settings.start):
        return search.settings.start[number], START
    return None
