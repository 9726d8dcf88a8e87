"""Following a job until it has ended: its log and its status feed a Scene. Not here: what a scene
is (scene.py).
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from tao_sdk.client.scene import Scene
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import TaoError
from tao_sdk.model.job import Job
from tao_sdk.model.progress import Progress

if TYPE_CHECKING:
    from tao_sdk.client.client import Client

TICK_SECONDS = 0.1  # the longest time between two changes that are shown
LOOK_SECONDS = (
    0.5  # between looks into the store; the watcher asks the backend, as often as is polite there
)
SLOWEST_SECONDS = 5.0  # between looks at the backend itself
LAST_WORDS_SECONDS = 10.0  # the longest wait for the log of an ended job
CATCH_UP_SECONDS = 30.0  # a log that never pauses is taken to be caught up with by then
PIECES = 64  # the most pieces of the log to hold

OnChange = Callable[
    [Scene, list[Progress]], None
]  # the epochs are those that are new since the last call


def follow_job(client: Client, scene: Scene, on_change: OnChange) -> None:
    """Feed the scene until the job has ended and its log is read to the end, or says nothing
    more.
    """
    feed, looks = LogFeed(client, scene.job), LookTimes(client.polite_seconds(scene.job))
    on_change(scene, [])
    while not (scene.job.status.terminal and feed.is_done()):
        epochs = [
            epoch
            for chunk in feed.take_pieces()
            for epoch in scene.take_log(chunk, time.monotonic(), feed.is_live)
        ]
        if looks.is_due(asking=feed.over):
            epochs += scene.take_job(current_job(client, scene, asking=feed.over))
            scene.read_at = read_at(scene.job)
        on_change(scene, epochs)
    on_change(scene, scene.end_log(time.monotonic()))


def began_at(job: Job) -> float:
    """The time, by time.monotonic, when the newest attempt began to run. Before that, when the job
    began to wait.
    """
    return steady_time(job.newest_start or job.started or job.created)


def read_at(job: Job) -> float:
    """The time, by time.monotonic, when any process last read the job's log to its end."""
    return steady_time(job.progress.as_of or utc_now())


def steady_time(moment: datetime) -> float:
    """The moment by time.monotonic. A moment in the future counts as now."""
    return time.monotonic() - max((utc_now() - moment).total_seconds(), 0)


def current_job(client: Client, scene: Scene, asking: bool) -> Job:
    """The job as it is now. Its status file is read if its log reports no epochs."""
    job = client.get_job(scene.job.id, look=asking)
    if scene.hears_epochs or job.started is None:
        return job
    return client.refresh_progress(job)


class LogFeed:
    """The log of the job's newest attempt and of later ones. A thread reads it, so that the screen
    moves while the job is silent.
    """

    def __init__(self, client: Client, job: Job) -> None:
        self._pieces: queue.Queue[bytes | None] = queue.Queue(maxsize=PIECES)
        self.over = False
        self._began_at = self._heard_at = time.monotonic()
        self._has_paused = False
        threading.Thread(target=self._read, args=(client, job), name="tao-log", daemon=True).start()

    def _read(self, client: Client, job: Job) -> None:
        try:
            for chunk in client.follow_logs(job.id, events=True, rank=0, from_attempt=job.attempt):
                self._pieces.put(chunk)
        except (TaoError, sqlite3.ProgrammingError):
            pass  # the job's status tells its end; a closed store is somebody's Ctrl-C
        finally:
            self._pieces.put(None)

    @property
    def is_live(self) -> bool:
        """True once the older part of the log has come: from then on, pieces come as the job writes
        them.
        """
        return self._has_paused or time.monotonic() - self._began_at > CATCH_UP_SECONDS

    def is_done(self) -> bool:
        """True when the log is over, or has been silent for so long that no more is expected."""
        return self.over or time.monotonic() - self._heard_at > LAST_WORDS_SECONDS

    def take_pieces(self) -> Iterator[bytes]:
        """The pieces that have come since the last call; waits a tick for them."""
        if self.over:
            time.sleep(TICK_SECONDS)
        while not self.over:
            try:
                piece = self._pieces.get(timeout=TICK_SECONDS)
            except queue.Empty:
                self._has_paused = True
                return
            self.over, self._heard_at = piece is None, time.monotonic()
            if piece is not None:
                yield piece
            if self._pieces.empty():
                return


class LookTimes:
    """The times to look again: at the store often; at the backend itself ever less often, if no log
    tells of the end.
    """

    def __init__(self, polite_seconds: float) -> None:
        self._next_at = 0.0
        self._wait = TICK_SECONDS
        self._pause = max(LOOK_SECONDS, polite_seconds / 2)

    def is_due(self, asking: bool) -> bool:
        """True when it is time to look. `asking`: the backend itself is asked."""
        now = time.monotonic()
        begins_to_ask = asking and self._wait == TICK_SECONDS
        if now < self._next_at and not begins_to_ask:
            return False
        if asking:
            self._wait = min(self._wait * 1.5, SLOWEST_SECONDS)
            self._next_at = now + self._wait
            return True
        self._wait = TICK_SECONDS
        self._next_at = now + self._pause
        return True
