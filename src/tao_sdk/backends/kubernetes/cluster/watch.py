"""Watch the Jobs and pods of a cluster, so that no client has to poll them all the time.

Two threads a namespace serve all listeners, one for Jobs and one for pods. When a watch breaks off,
everything counts as changed, and the watch restarts.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from http.client import HTTPException

from tao_sdk.backends.change_stream import ChangeStream
from tao_sdk.backends.kubernetes import look
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.look import core_path, jobs_path
from tao_sdk.backends.kubernetes.pods.ending import watch_events
from tao_sdk.backends.kubernetes.told import ToldEnds
from tao_sdk.model.errors import TaoError
from tao_sdk.model.plan import Ref
from tao_sdk.model.turns import Turns
from tao_sdk.transports.http_session import Answer
from tao_sdk.transports.kube import Kube

WATCH_SECONDS = 300  # the server ends a watch after this time, and it restarts
SILENCE_SECONDS = 320.0
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
LOG_SECONDS = 10.0  # between two looks into logs: a watch does not report that one has grown
LOGS_PER_LOOK = 8

Key = tuple[str, str]  # job id, attempt


class Watch(ChangeStream[Key]):
    """The changes of objects of one kind, by attempt."""

    thread_name, most_changes = "tao-watch", 20_000

    def __init__(self, kube: Kube, path: str, ends: ToldEnds) -> None:
        super().__init__()
        self.kube, self.path, self.ends = kube, path, ends

    def listen(self) -> None:
        pause = PAUSE_SECONDS
        while self.is_wanted():
            began = time.monotonic()
            with suppress(TaoError, OSError, HTTPException, ValueError, KeyError, TypeError):
                self.hear()
            lasted = time.monotonic() - began
            self.end_stream()
            pause = PAUSE_SECONDS if lasted > PAUSE_SECONDS else 2 * pause
            pause = min(pause, LONGEST_PAUSE_SECONDS)
            broke_off = lasted < WATCH_SECONDS / 2
            if broke_off and self.is_wanted():
                time.sleep(pause)

    def hear(self) -> None:
        """Run one watch, from now on. A short list gives the resourceVersion to start from."""
        selector = {"labelSelector": names.OURS}
        listed = self.kube.list(self.path, {**selector, "limit": 1})
        params = {
            **selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": listed["metadata"]["resourceVersion"],
            "timeoutSeconds": WATCH_SECONDS,
        }
        answer = self.kube.stream(self.path, params, read=SILENCE_SECONDS)
        try:
            self.begin_stream(partial(break_off, answer))
            for event in watch_events(answer.response):
                if not self.is_wanted():
                    return
                if event["type"] != "BOOKMARK":
                    self.ends.note(event["object"])
                    job_id, attempt, _ = look.key_of(event["object"])
                    self.note_change((job_id, attempt))
        finally:
            answer.close()


def break_off(answer: Answer) -> None:
    """Shut the connection down, so that the reader of the answer sees its end."""
    with suppress(OSError):
        answer.line.shutdown(socket.SHUT_RDWR)


class Watches:
    """The watches of one cluster, created for each namespace when first needed."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self._lock = threading.Lock()
        self._of: dict[str, tuple[Watch, Watch]] = {}
        self.ends = ToldEnds()

    def of(self, namespace: str) -> tuple[Watch, Watch]:
        with self._lock:
            if namespace not in self._of:
                paths = jobs_path(namespace), core_path(namespace, "pods")
                jobs, pods = (Watch(self.kube, path, self.ends) for path in paths)
                self._of[namespace] = jobs, pods
            return self._of[namespace]

    def close(self) -> None:
        with self._lock:
            for pair in self._of.values():
                for watch in pair:
                    watch.close()


class KubernetesNews:
    """The changes that one listener has not received yet."""

    def __init__(self, watches: Watches) -> None:
        self.watches = watches
        self.heard: dict[int, int] = {}  # watch -> number of the last change received from it
        self.known: set[Ref] = set()
        self.logs_read_at = time.monotonic()
        self.log_turns: Turns[Ref] = Turns()
        self.tells = True

    def changed(self, refs: Sequence[Ref], seconds: float) -> Sequence[Ref]:
        listened = {ref.namespace: self.watches.of(ref.namespace) for ref in refs}
        for pair in listened.values():
            for watch in pair:
                watch.begin()
        new = [ref for ref in refs if ref not in self.known]
        self.known = set(refs)
        give_up = time.monotonic() + (0 if new else seconds)
        while True:
            found = [
                ref for ref in refs if ref in new or self.has_changed(ref, listened[ref.namespace])
            ]
            left = give_up - time.monotonic()
            if found or left <= 0:
                break
            self.wait(listened, left)
        for pair in listened.values():
            self.heard.update({id(watch): watch.number for watch in pair})
        self.tells = all(watch.is_open for pair in listened.values() for watch in pair)
        return found

    def has_changed(self, ref: Ref, pair: tuple[Watch, Watch]) -> bool:
        key = (ref.attempt.job_id, str(ref.attempt.number))
        return any(watch.changed_beyond(self.heard.get(id(watch), 0), [key]) for watch in pair)

    def wait(self, listened: Mapping[str, tuple[Watch, Watch]], seconds: float) -> None:
        """Wait until a watch reports a change, at most `seconds` and at most 0.25 s."""
        seconds = min(seconds, 0.25)
        watches = [watch for pair in listened.values() for watch in pair]
        if not watches:  # no attempt runs: a job waits for its retry
            time.sleep(seconds)
            return
        with watches[0].state:
            watches[0].state.wait(seconds)

    def grown(self, refs: Sequence[Ref]) -> Sequence[Ref]:
        """A few of the attempts, in turn, every LOG_SECONDS: their logs may have grown."""
        if time.monotonic() - self.logs_read_at < LOG_SECONDS:
            return []
        self.logs_read_at = time.monotonic()
        return self.log_turns.take(refs, LOGS_PER_LOOK)

    def close(self) -> None:
        """Do nothing: the threads end when nobody has asked for a while."""
