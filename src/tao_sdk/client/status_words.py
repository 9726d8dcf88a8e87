"""Status words: the status that a word of another tool, or a misspelt one, stands for.

Not here: what a status is (model/status.py), and how it is typed (cli/command.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from tao_sdk.model.status import Status

# Other tools' words for a status.
OTHER_WORDS: Mapping[str, Status] = {
    "failed": Status.ERROR,
    "done": Status.COMPLETE,
    "finished": Status.COMPLETE,
    "succeeded": Status.COMPLETE,
    "queued": Status.PENDING,
    "waiting": Status.PENDING,
    "stopped": Status.CANCELED,
}
OUR_WORDS: Mapping[str, Status] = {status.value.lower(): status for status in Status}


def meant_status(word: str) -> Status | None:
    """The status that the word probably means; None if it is like none."""
    lower = word.lower()
    if lower in OTHER_WORDS:
        return OTHER_WORDS[lower]
    near_words = get_close_matches(lower, OUR_WORDS, n=1)
    if not near_words:
        return None
    return OUR_WORDS[near_words[0]]
