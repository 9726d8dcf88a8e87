"""Send files with a few threads at once: urgent files first, then small before large ones."""

from __future__ import annotations

import threading

from tao_sdk.net.crew import catch_error, start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tao_sdk.runner.outputs.tree import Shape

THREADS = 17  # one of them for urgent files, so that many files do not hold up the log
FEWEST = 2  # with fewer threads, nothing can be sent
LARGE = 8 << 20  # bytes; a larger file is sent in parallel parts
LARGE_AT_ONCE = 2


class Item:
    """A file to send. `is_final`: True if it no longer changes."""

    def __init__(self, name: str, path: str, shape: Shape, urgent: bool) -> None:
        self.name, self.path, self.shape, self.urgent = name, path, shape, urgent
        self.is_final = False
        self.is_large = shape[0] > LARGE

    @property
    def size(self) -> int:
        return self.shape[0]


class Sending:
    """The queue and its threads, which start with the first item. `send` is called for each item.

    If `send` raises an unexpected error, only that item fails, and `broke` is called with it.
    """

    def __init__(
        self, send: Callable[[Item], None], broke: Callable[[Item, BaseException], None]
    ) -> None:
        self.send, self.broke = send, broke
        self.queue: list[Item] = []
        self.busy: set[str] = set()  # the names in the queue or on their way
        self.changed = threading.Condition()
        self.threads = 0
        self.large_under_way = 0  # large files being sent
        self.closed = False

    def add(self, items: Iterable[Item]) -> None:
        """Queue the items that are not queued or being sent. Raises RuntimeError if no thread
        starts.
        """
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
                if item.is_large:
                    self.large_under_way += 1
            error = catch_error(self.send, item)
            with self.changed:
                if item.is_large:
                    self.large_under_way -= 1
                if isinstance(error, MemoryError) and self.threads > FEWEST:
                    self.threads -= 1  # this thread ends: its stack is memory for the others
                    self.queue.insert(0, item)
                    self.changed.notify_all()
                    return
            if error:
                self.broke(item, error)
            with self.changed:
                self.busy.discard(item.name)
                self.changed.notify_all()

    def next_item(self, only_urgent: bool) -> Item | None:
        """The next item to send, or None: urgent ones are first in the queue, large ones last."""
        if not self.queue or (only_urgent and not self.queue[0].urgent):
            return None
        first = self.queue[0]
        if first.urgent or not first.is_large or self.large_under_way < LARGE_AT_ONCE:
            return first
        return None

    def wait(
        self, names: Iterable[str], done: Callable[[], bool] = lambda: False, turn: float = 0.5
    ) -> None:
        """Wait until none of the names is queued or being sent, or until `done()`, which is checked
        every `turn` seconds, is true.
        """
        names = set(names)
        with self.changed:
            while not names.isdisjoint(self.busy) and not done():
                self.changed.wait(turn)

    def drop_queued(self) -> None:
        """Drop the queued items: they would fail now."""
        with self.changed:
            self.busy.difference_update(item.name for item in self.queue)
            self.queue = []
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()
