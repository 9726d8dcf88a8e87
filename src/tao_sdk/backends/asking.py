"""Asking: several questions at once, never more than a few.

What only asks is not waited for on Ctrl-C, nor when this process ends. Not here: what acts
(engine/side_by_side.py).
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


def both(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """The answers to two questions that are asked at once. Raises as `ask_side_by_side`."""
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
