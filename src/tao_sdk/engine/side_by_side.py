"""Side by side: the same for several jobs or endpoints at once, never for more than a few.

What acts (`side_by_side`) is finished once it has begun. What only asks (`ask_side_by_side`) is not
waited for on Ctrl-C, nor when this process ends.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Generic, TypeVar

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
    return [or_raise(one) for one in side_by_side(act, subjects, most)]


def or_raise(one: Answer | TaoError) -> Answer:
    if isinstance(one, TaoError):
        raise one
    return one


def ask_side_by_side(
    ask: Callable[[Subject], Answer], subjects: Sequence[Subject], most: int = MOST_AT_ONCE
) -> list[Answer]:
    """What `ask` returns for each, in their order; an error that it raises is raised here.

    It only asks: Ctrl-C ends the wait at once, and the threads that still wait for a place that
    does not answer end with this process.
    """
    if len(subjects) < 2:
        return [ask(subject) for subject in subjects]
    asking = Asking(ask, subjects)
    for _ in range(min(most, len(subjects))):
        run = copy_context().run  # the time within which the caller may ask is that of the threads
        threading.Thread(target=run, args=(asking.work,), name="tao-ask", daemon=True).start()
    return [asking.answer_to(index) for index in range(len(subjects))]


class Asking(Generic[Subject, Answer]):
    """Questions that several threads ask, and the answers as they come."""

    def __init__(self, ask: Callable[[Subject], Answer], subjects: Sequence[Subject]) -> None:
        self._ask = ask
        self._left: queue.SimpleQueue[tuple[int, Subject]] = queue.SimpleQueue()
        for numbered in enumerate(subjects):
            self._left.put(numbered)
        self._answers: dict[int, Answer] = {}
        self._errors: dict[int, BaseException] = {}
        self._news = threading.Condition()

    def work(self) -> None:
        """Ask what nobody has asked, until nothing is left."""
        with suppress(queue.Empty):
            while True:
                self._ask_one(*self._left.get_nowait())

    def _ask_one(self, index: int, subject: Subject) -> None:
        try:
            answer = self._ask(subject)
        except BaseException as error:  # noqa: BLE001  raised in the thread that waits for it
            with self._news:
                self._errors[index] = error
                self._news.notify_all()
        else:
            with self._news:
                self._answers[index] = answer
                self._news.notify_all()

    def answer_to(self, index: int) -> Answer:
        """Wait for one answer. Raises what its question raised."""
        with self._news:
            self._news.wait_for(lambda: index in self._answers or index in self._errors)
        if index in self._errors:
            raise self._errors[index]
        return self._answers[index]


def in_threads(
    act: Callable[[Subject], Answer], subjects: Sequence[Subject], most: int
) -> list[Answer | TaoError]:
    """The same, with each one in a thread, `most` at once. The time within which the caller may ask
    is that of the threads.

    Ctrl-C interrupts none that has begun: it is raised once those have ended, and no other begins.
    """

    def in_context(context: Context, subject: Subject) -> Answer | TaoError:
        return context.run(lambda: answer(act, subject))

    contexts = [copy_context() for _ in subjects]
    workers = min(most, len(subjects))
    with ThreadPoolExecutor(workers, thread_name_prefix="tao-side-by-side") as pool:
        try:
            return list(pool.map(in_context, contexts, subjects))
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
