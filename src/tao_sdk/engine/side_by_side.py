"""Side by side: act on several jobs at once, at most a few. An action that has begun is finished.

Not here: calls that only ask (backends/asking.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import Context, copy_context
from threading import Condition
from typing import TypeVar

from tao_sdk.backends.contract import Capabilities
from tao_sdk.model.errors import TaoError

MOST_AT_ONCE = 8

Subject = TypeVar("Subject")
Answer = TypeVar("Answer")


def side_by_side(
    act: Callable[[Subject], Answer], subjects: Sequence[Subject], most: int = MOST_AT_ONCE
) -> list[Answer | TaoError]:
    """Return, in order, what `act` returns for each subject, or the TaoError that it raises."""
    if len(subjects) < 2:
        return [answer(act, subject) for subject in subjects]
    return in_threads(act, subjects, most)


def all_answers(
    act: Callable[[Subject], Answer], subjects: Sequence[Subject], most: int = MOST_AT_ONCE
) -> list[Answer]:
    """Like `side_by_side`, where no error is expected: raise the first TaoError after all have
    ended.
    """
    return [or_raise(one) for one in side_by_side(act, subjects, most)]


def or_raise(one: Answer | TaoError) -> Answer:
    if isinstance(one, TaoError):
        raise one
    return one


def in_threads(
    act: Callable[[Subject], Answer], subjects: Sequence[Subject], most: int
) -> list[Answer | TaoError]:
    """Like `side_by_side`, with a thread for each subject, `most` at once. The caller's deadline
    for asking applies in the threads, too.

    Ctrl-C interrupts no action that has begun: it is raised once those have ended, and no other
    begins.
    """

    from concurrent.futures import ThreadPoolExecutor

    under_way = UnderWay()

    def in_context(context: Context, subject: Subject) -> Answer | TaoError:
        with under_way:
            return context.run(lambda: answer(act, subject))

    contexts = [copy_context() for _ in subjects]
    workers = max(1, min(most, len(subjects)))
    with ThreadPoolExecutor(workers, thread_name_prefix="tao-side-by-side") as pool:
        try:
            return list(pool.map(in_context, contexts, subjects))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            under_way.close()
            raise


class UnderWay:
    """Counts the actions that have begun and not ended. The pool itself forgets a thread during
    whose start it was interrupted.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._count = 0
        self._closed = False

    def __enter__(self) -> None:
        with self._changed:
            if self._closed:
                from concurrent.futures import CancelledError

                raise CancelledError
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Let no further action begin, and return when all have ended."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._count)


def answer(act: Callable[[Subject], Answer], subject: Subject) -> Answer | TaoError:
    """Return what `act` returns, or the TaoError that it raises."""
    try:
        return act(subject)
    except TaoError as error:
        return error


def submits_at_once(capabilities: Capabilities, gpu_counts: Iterable[int]) -> int:
    """The number of jobs with these GPU counts that are planned and submitted at once."""
    if capabilities.picks_gpus and any(gpu_counts):
        return 1
    return capabilities.submits
