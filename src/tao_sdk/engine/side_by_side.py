"""Side by side: the same for several jobs or endpoints at once, never for more than a few."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tao_sdk.model.errors import TaoError

MOST_AT_ONCE = 8

Subject = TypeVar("Subject")
Answer = TypeVar("Answer")


def side_by_side(
    act: Callable[[Subject], Answer], subjects: Sequence[Subject]
) -> list[Answer | TaoError]:
    """What `act` returns for each, in their order, or the TaoError that it raises for that one."""

    def answer(subject: Subject) -> Answer | TaoError:
        try:
            return act(subject)
        except TaoError as error:
            return error

    if len(subjects) < 2:
        return [answer(subject) for subject in subjects]
    workers = min(MOST_AT_ONCE, len(subjects))
    with ThreadPoolExecutor(workers, thread_name_prefix="tao-side-by-side") as pool:
        return list(pool.map(answer, subjects))
