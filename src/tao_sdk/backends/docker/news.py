"""News of containers, from the daemon's events.

One thread reads the events for all listeners. It reads STREAM_SECONDS of events per request, each
from the end of the last one, and stops when nobody has asked for a while. While the daemon is away
there is no news, and callers poll as often as without news.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from tao_sdk.backends.change_stream import ChangeStream
from tao_sdk.backends.containers.window import epoch_seconds as moment_of
from tao_sdk.model.errors import TaoError
from tao_sdk.model.plan import Ref
from tao_sdk.transports.dockerd import Daemon

STREAM_SECONDS = 30.0
PAST_SECONDS = 10.0  # before it opens that the first stream tells of
EARLY_SECONDS = 2.0  # a stream that ends this much before its time was cut off
PAUSE_SECONDS = 2.0  # after a stream that failed
LONGEST_PAUSE_SECONDS = 60.0
LOG_SECONDS = 10.0  # between two reads of a log: no event says that it has grown
LONGEST_ID = 64
FILTERS = {
    "type": ["container"],
    "label": ["tao-sdk-job-id"],
    "event": ["start", "die", "oom", "pause", "unpause", "rename", "destroy"],
}


class ContainerEvents(ChangeStream[str]):
    """The changes to containers, by their ids."""

    thread_name, most_changes = "tao-events", 10_000

    def __init__(self, daemon: Daemon) -> None:
        super().__init__()
        self.daemon = daemon
        self.unseen: set[str] = set()  # containers with an event that no look has followed

    def take_unseen(self, containers: Sequence[str]) -> set[str]:
        """Which of these containers had an event since the last call.

        The daemon tells of a container's end before its own list has it: the list may say for
        seconds that the container runs. To inspect a container waits until its end is complete.
        """
        with self.state:
            unseen = self.unseen.intersection(containers)
            self.unseen -= unseen
        return unseen

    def wait_beyond(
        self, number: int, containers: Sequence[str], seconds: float
    ) -> tuple[set[str], int]:
        """Wait up to `seconds` for an event after the event `number`.

        Returns the containers that had an event, and the number of the last event. Returns all
        containers if the daemon's events cannot be read.
        """
        with self.state:
            self.state.wait_for(lambda: self.changed_beyond(number, containers), seconds)
            return self.changed_beyond(number, containers), self.number

    def listen(self) -> None:
        """Read streams while somebody asks. Each failure makes the next pause longer."""
        pause = PAUSE_SECONDS
        while self.is_wanted():
            with suppress(TaoError, KeyError, TypeError, ValueError):  # `observe` reports the cause
                self.hear_streams()
            pause = PAUSE_SECONDS if self.is_open else min(2 * pause, LONGEST_PAUSE_SECONDS)
            self.end_stream()
            time.sleep(pause if self.is_wanted() else 0)

    def hear_streams(self) -> None:
        """Read streams until one ends before its time, or nobody asks any more. The first begins a
        while ago: a container that ended just before may still be listed as running.
        """
        since = moment_of(self.daemon.info(at_most=0)["SystemTime"]) - PAST_SECONDS
        until = time.monotonic() - PAST_SECONDS
        while self.is_wanted() and time.monotonic() > until - EARLY_SECONDS:
            until += STREAM_SECONDS
            self.hear_stream(since)
            since += STREAM_SECONDS

    def hear_stream(self, since: float) -> None:
        with self.daemon.events(since, STREAM_SECONDS, FILTERS) as stream:
            self.begin_stream(stream.stop)
            for event in stream:
                self.note_event(str(event["Actor"]["ID"])[:LONGEST_ID])
            self.stop_stream = None  # another request may use the connection from here on

    def note_event(self, container: str) -> None:
        with self.state:
            if len(self.unseen) >= self.most_changes:  # of jobs that nobody looks at any more
                self.unseen.clear()
            self.unseen.add(container)
        self.note_change(container)


class DockerNews:
    """The new changes for one listener."""

    def __init__(self, events: ContainerEvents) -> None:
        self.events = events
        self.heard = 0  # the number of the newest event read
        self.known: set[str] = set()  # containers that were asked about before
        self.logs_read_at = time.monotonic()
        events.begin()

    @property
    def tells(self) -> bool:
        return self.events.is_open

    def changed(self, refs: Sequence[Ref], seconds: float) -> list[Ref]:
        self.events.begin()
        containers = [ref.unique_id for ref in refs]
        new = set(containers) - self.known
        wait_seconds = 0 if new else seconds
        changed, self.heard = self.events.wait_beyond(self.heard, containers, wait_seconds)
        self.known = set(containers)
        return [ref for ref in refs if ref.unique_id in changed or ref.unique_id in new]

    def grown(self, refs: Sequence[Ref]) -> Sequence[Ref]:
        """All `refs` once every LOG_SECONDS, else none."""
        if time.monotonic() - self.logs_read_at < LOG_SECONDS:
            return []
        self.logs_read_at = time.monotonic()
        return refs

    def close(self) -> None:
        """Do nothing: the thread ends when nobody has asked for a while."""
