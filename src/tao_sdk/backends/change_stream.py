"""Change stream: a place tells of what happens to jobs, and one thread hears it for all who listen.

What is heard is kept under numbers that grow, so that each listener knows what it has not heard
yet. Not here: how a place is heard, and for how long one waits after a failure (the backends).
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from tao_sdk.transports.silence import seconds_left

IDLE_SECONDS = 30.0  # without a question, after which nobody is taken to listen
OPENING_SECONDS = 5.0  # the longest wait for the place to begin to tell

Key = TypeVar("Key")


class ChangeStream(ABC, Generic[Key]):
    """What has happened to the things of one place. Safe to use from several threads."""

    thread_name: str
    most_changes: int  # things that are remembered as changed

    def __init__(self) -> None:
        self.number = 0  # of the newest change
        self.gap = 0  # changes up to this number may not have been told
        self.changes: dict[Key, int] = {}  # thing -> number of its newest change
        self.is_open = False
        self.asked_at = 0.0
        self.state = threading.Condition()
        self.listener: threading.Thread | None = None
        self.stop_stream: Callable[[], None] | None = None  # while one can be stopped

    @abstractmethod
    def listen(self) -> None:
        """Hear the place while somebody wants it: `begin_stream`, `note_change`, `end_stream`."""

    def begin(self) -> None:
        """Hear the place from now on, if nobody does. Waits until it tells, or cannot."""
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
        """Those that have changed after that number. All of them, where nobody can tell."""
        if not self.is_open or self.gap > number:
            return set(things)
        return {thing for thing in things if self.changes.get(thing, 0) > number}

    def begin_stream(self, stop: Callable[[], None]) -> None:
        """The place tells from here on. `stop` breaks that off."""
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
        """Whoever asks next is told that everything may have changed."""
        self.number += 1
        self.gap = self.number
        self.changes.clear()

    def close(self) -> None:
        """Nobody listens any more."""
        with self.state:
            self.asked_at = float("-inf")
            if self.stop_stream is not None:
                self.stop_stream()
