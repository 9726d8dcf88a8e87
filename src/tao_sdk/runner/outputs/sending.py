"""Sending files from a few threads at once: what is urgent first, then small ones before large
ones.
"""

from __future__ import annotations

import threading

from tao_sdk.net.crew import catch_error, start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tao_sdk.runner.outputs.tree import Shape

THREADS = 17  # one of them for what is urgent, so that many files do not hold up the log
FEWEST = 2  # with fewer nothing can be sent
LARGE = 8 << 20  # bytes; such a file is sent in parts, side by side as well
LARGE_AT_ONCE = 2


class Item:
    """A file to send. `still` says that it no longer changes."""

    def __init__(self, name: str, path: str, shape: Shape, urgent: bool) -> None:
        self.name, self.path, self.shape, self.urgent = name, path, shape, urgent
        self.still = False

    @property
    def size(self) -> int:
        return self.shape[0]


class Sending:
    """The queue and its threads, which come with the first item. `send` is called for each item.

    What it raises, which nobody foresaw, costs that item alone: `broke` is told.
    """

    def __init__(
        self, send: Callable[[Item], None], broke: Callable[[Item, BaseException], None]
    ) -> None:
        self.send, self.broke = send, broke
        self.queue: list[Item] = []
        self.busy: set[str] = set()  # the names in the queue or on their way
        self.changed = threading.Condition()
        self.threads = 0
        self.large = 0  # how many large ones are on their way
        self.closed = False

    def add(self, items: Iterable[Item]) -> None:
        """Queue those that are not on their way already."""
        with self.changed:
            new = [item for item in items if item.name not in self.busy]
            self.busy.update(item.name for item in new)
            self.queue = sorted(self.queue + new, key=lambda item: (not item.urgent, item.size))
            self.changed.notify_all()
        for number in range(self.threads, min(THREADS, len(new) + 1)):
            if start_thread(self.send_queued, number == 0) is None:
                break
            with self.changed:
                self.threads += 1
        if new and self.threads < FEWEST:
            raise RuntimeError("no threads")

    def send_queued(self, only_urgent: bool) -> None:
        while True:
            with self.changed:
                item = self.next_item(only_urgent)
                while item is None:
                    if self.closed:
                        return
                    self.changed.wait()
                    item = self.next_item(only_urgent)
                self.queue.remove(item)
                self.large += item.size > LARGE
            error = catch_error(self.send, item)
            with self.changed:
                self.large -= item.size > LARGE
                if isinstance(error, MemoryError) and self.threads > FEWEST:
                    self.threads -= 1  # this one ends: its stack is room for the others
                    self.queue.insert(0, item)
                    self.changed.notify_all()
                    return
            if error:
                self.broke(item, error)
            with self.changed:
                self.busy.discard(item.name)
                self.changed.notify_all()

    def next_item(self, only_urgent: bool) -> Item | None:
        """The first in the queue whose turn it is: the urgent stand first, the large last."""
        if not self.queue or (only_urgent and not self.queue[0].urgent):
            return None
        first = self.queue[0]
        if first.urgent or first.size <= LARGE or self.large < LARGE_AT_ONCE:
            return first
        return None

    def wait(
        self, names: Iterable[str], done: Callable[[], bool] = lambda: False, turn: float = 0.5
    ) -> None:
        """Until none of the names is on its way any more, or `done`, which is asked now and then,
        says so.
        """
        names = set(names)
        with self.changed:
            while not names.isdisjoint(self.busy) and not done():
                self.changed.wait(turn)

    def drop_queued(self) -> None:
        """Forget what is queued: it has no prospects now."""
        with self.changed:
            self.busy.difference_update(item.name for item in self.queue)
            self.queue = []
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()
