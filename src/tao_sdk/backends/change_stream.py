"""Change stream: a place reports changes to jobs, and one thread receives them for all listeners.

Each change gets a number, and the numbers grow, so each listener knows which changes are new to
it. Not here: how to read a place's stream, and the pause after a failure (the backends).
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from tao_sdk.transports.silence import seconds_left

IDLE_SECONDS = 30.0  # without a question: then nobody listens any more
OPENING_SECONDS = 5.0  # the longest wait for the stream to open

Key = TypeVar("Key")


class ChangeStream(ABC, Generic[Key]):
    """Changes to the things of one place. Safe to use from several threads."""

    thread_name: str
    most_changes: int  # the most things remembered as changed

    def __init__(self) -> None:
        self.number = 0  # of the newest change
        self.gap = 0  # changes up to this number may have been missed
        self.changes: dict[Key, int] = {}  # thing -> number of its newest change
        self.is_open = False
        self.asked_at = 0.0
        self.state = threading.Condition()
        self.listener: threading.Thread | None = None
        self.stop_stream: Callable[[], None] | None = None  # None while no stream can be stopped

    @abstractmethod
    def listen(self) -> None:
        """Read the place's stream while `is_wanted`.

        Calls `begin_stream`, then `note_change` for each change, then `end_stream`.
        """

    def begin(self) -> None:
        """Start the listening thread unless it runs.

        A new thread is given up to OPENING_SECONDS to open its stream, or to fail.
        """
        with self.state:
            self.asked_at = time.monotonic()
            if self.listener is None or not self.listener.is_alive():
                self.listener = threading.Thread(
                    target=self.listen, name=self.thread_name, daemon=True
                )
                self.listener.start()
                self.state.wait(seconds_left(OPENING_SECONDS))

    def is_wanted(self) -> bool:
        return time.monotonic() - self.asked_at < IDLE_SECONDS

    def changed_beyond(self, number: int, things: Collection[Key]) -> set[Key]:
        """The things that have changed after that number; all of them if this is not known."""
        if not self.is_open or self.gap > number:
            return set(things)
        return {thing for thing in things if self.changes.get(thing, 0) > number}

    def begin_stream(self, stop: Callable[[], None]) -> None:
        """Note that the stream is open. `stop` breaks it off."""
        with self.state:
            self.stop_stream = stop
            if not self.is_open:
                self.forget_changes()
            self.is_open = True
            self.state.notify_all()

    def end_stream(self) -> None:
        with self.state:
            self.is_open, self.stop_stream = False, None
            self.state.notify_all()

    def note_change(self, thing: Key) -> None:
        with self.state:
            self.number += 1
            self.changes[thing] = self.number
            if len(self.changes) > self.most_changes:
                self.forget_changes()
            self.state.notify_all()

    def forget_changes(self) -> None:
        """Drop all changes. Each listener learns next that everything may have changed."""
        self.number += 1
        self.gap = self.number
        self.changes.clear()

    def close(self) -> None:
        """Stop the stream, because nobody listens any more."""
        with self.state:
            self.asked_at = float("-inf")
            if self.stop_stream is not None:
                self.stop_stream()
