"""Side by side: the same for several jobs or endpoints at once, never for more than a few."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from tao_sdk.backends.contract import Capabilities
from tao_sdk.model.errors import TaoError

MOST_AT_ONCE = 8

Subject = TypeVar("Subject")
Answer = TypeVar("Answer")


def side_by_side(
    act: Callable[[Subject], Answer], subjects: Sequence[Subject], most: int = MOST_AT_ONCE
) -> list[Answer | TaoError]:
    """What `act` returns for each, in their order, or the TaoError that it raises for that one."""
    if len(subjects) < 2:
        return [answer(act, subject) for subject in subjects]
    return in_threads(act, subjects, most)


def all_answers(
    act: Callable[[Subject], Answer], subjects: Sequence[Subject], most: int = MOST_AT_ONCE
) -> list[Answer]:
    """The same where no error is expected: one that comes all the same is raised at the end."""
    answers: list[Answer] = []
    for one in side_by_side(act, subjects, most):
        if isinstance(one, TaoError):
            raise one
        answers.append(one)
    return answers


def in_threads(
    act: Callable[[Subject], Answer], subjects: Sequence[Subject], most: int
) -> list[Answer | TaoError]:
    """The same, with each one in a thread, `most` at once.

    Ctrl-C interrupts none that has begun: it is raised once those have ended, and no other begins.
    """
    workers = max(1, min(most, len(subjects)))
    with ThreadPoolExecutor(workers, thread_name_prefix="tao-side-by-side") as pool:
        try:
            return list(pool.map(partial(answer, act), subjects))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def answer(act: Callable[[Subject], Answer], subject: Subject) -> Answer | TaoError:
    """What `act` returns, or the TaoError that it raises."""
    try:
        return act(subject)
    except TaoError as error:
        return error


def submits_at_once(capabilities: Capabilities, gpu_counts: Iterable[int]) -> int:
    """How many jobs that need so many GPUs are planned and submitted at once."""
    if capabilities.picks_gpus and any(gpu_counts):
        return 1
    return capabilities.submits
