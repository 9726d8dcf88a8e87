"""Asking: several questions at once, at most MOST_AT_ONCE.

Neither Ctrl-C nor the end of this process waits for a question. Not here: calls that change
something (engine/side_by_side.py).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Generic, TypeVar

MOST_AT_ONCE = 8

Subject = TypeVar("Subject")
Answer = TypeVar("Answer")
First = TypeVar("First")
Second = TypeVar("Second")


def ask_side_by_side(
    ask: Callable[[Subject], Answer], subjects: Sequence[Subject], most: int = MOST_AT_ONCE
) -> list[Answer]:
    """Return what `ask` returns for each subject, in order. Raises the errors that `ask` raises.

    `ask` must not change anything: Ctrl-C ends the wait at once. Threads that still wait for a
    silent place end with this process.
    """
    if len(subjects) < 2:
        return [ask(subject) for subject in subjects]
    asking = Asking(ask, subjects)
    for _ in range(min(most, len(subjects))):
        run = copy_context().run  # the caller's time limit also holds in the threads
        threading.Thread(target=run, args=(asking.work,), name="tao-ask", daemon=True).start()
    return [asking.answer_to(index) for index in range(len(subjects))]


def both(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Ask two questions at once and return both answers. Raises as `ask_side_by_side`."""
    questions: list[Callable[[], Any]] = [first, second]
    answers = ask_side_by_side(lambda question: question(), questions)
    return answers[0], answers[1]


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
        """Take questions off the queue and ask them, until the queue is empty."""
        with suppress(queue.Empty):
            while True:
                self._ask_one(*self._left.get_nowait())

    def _ask_one(self, index: int, subject: Subject) -> None:
        try:
            answer = self._ask(subject)
        except BaseException as error:  # noqa: BLE001  `answer_to` raises it in the waiting thread
            with self._news:
                self._errors[index] = error
                self._news.notify_all()
        else:
            with self._news:
                self._answers[index] = answer
                self._news.notify_all()

    def answer_to(self, index: int) -> Answer:
        """Wait for one answer and return it. Raises the error that its question raised."""
        with self._news:
            self._news.wait_for(lambda: index in self._answers or index in self._errors)
        if index in self._errors:
            raise self._errors[index]
        return self._answers[index]
