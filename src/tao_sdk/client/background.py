"""Background watch: the threads of a client that carry live jobs to their end.

Not here: what a watcher does (engine/watch.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tao_sdk.engine import hooks
from tao_sdk.engine.engine import Engine


@dataclass
class BackgroundWatch:
    """A watcher thread that starts when there is something to watch and ends when no job is live.
    It may be started again.
    """

    engine: Engine
    callbacks: hooks.Callbacks
    poll_interval: float | None  # seconds; None: as often as each backend says is polite
    _thread: threading.Thread | None = None
    _is_more: bool = False  # jobs have come since the watcher last began
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        with self._lock:
            self._is_more = True
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._watch_on, name="tao-watch", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """Stop watching, and wait until the watcher has stopped."""
        self._closed.set()
        if (thread := self._thread) is not None:
            thread.join()

    def watch(self, stop: threading.Event | None = None) -> None:
        """Watch in this thread. Returns when no job is live, or when `stop` is set; without `stop`,
        when this object is closed.
        """
        from tao_sdk.engine.watch import Watcher  # not needed to submit

        Watcher(self.engine, self.callbacks, stop or self._closed, self.poll_interval).run()

    def _watch_on(self) -> None:
        """Watch for as long as jobs come. A job that is submitted while the watcher is about to
        leave is watched too.
        """
        while self._take_more():
            self.watch()

    def _take_more(self) -> bool:
        with self._lock:
            is_more = self._is_more and not self._closed.is_set()
            self._is_more = False
            if not is_more:
                self._thread = None
            return is_more

    @contextmanager
    def carrying(self) -> Generator[Callable[[], None]]:
        """Give a function that starts a watcher in this process if there is none. It stops at the
        block's end.

        A watcher ends when no job is live. The next call of the function starts another one.
        """
        stop = threading.Event()
        carriers: list[threading.Thread] = []

        def carry() -> None:
            if self._thread is not None or any(one.is_alive() for one in carriers):
                return
            carrier = threading.Thread(
                target=self.watch, args=(stop,), name="tao-carry", daemon=True
            )
            carriers[:] = [carrier]
            carrier.start()

        try:
            yield carry
        finally:
            stop.set()
            for carrier in carriers:
                carrier.join()
