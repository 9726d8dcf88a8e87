"""Watch: the cluster tells of what happens to Jobs and pods, so that nobody asks all the time.

Two threads a namespace hear it for all who listen, one for Jobs and one for pods. Where a watch
breaks off, everything may have changed, and it is begun anew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from typing import Any

from tao_sdk.backends.kubernetes import look
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.look import core_path, jobs_path
from tao_sdk.backends.kubernetes.pods.ending import watch_events
from tao_sdk.model.errors import TaoError
from tao_sdk.model.plan import Ref
from tao_sdk.transports.dockerd_http import Answer
from tao_sdk.transports.kube import Kube

WATCH_SECONDS = 300  # after which the server ends a watch, and it is begun anew
SILENCE_SECONDS = 320.0
IDLE_SECONDS = 30.0  # without a question, after which nobody is taken to listen
OPENING_SECONDS = 5.0
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
LOG_SECONDS = 10.0  # between two looks into a log: the cluster does not tell that it has grown
MOST_CHANGES = 20_000

Key = tuple[str, str]  # job id, attempt


class Watch:
    """What has happened to objects of one kind, under numbers that grow. Safe to use from several
    threads.
    """

    def __init__(self, kube: Kube, path: str) -> None:
        self.kube, self.path = kube, path
        self.number = 0
        self.gap = 0  # changes up to this number may not have been told
        self.changes: dict[Key, int] = {}
        self.is_open = False
        self.asked_at = 0.0
        self.state = threading.Condition()
        self.listener: threading.Thread | None = None
        self.answer: Answer | None = None

    def begin(self) -> None:
        """Hear the cluster from now on, if nobody does. Waits until it tells, or cannot."""
        with self.state:
            self.asked_at = time.monotonic()
            if self.listener is None or not self.listener.is_alive():
                self.listener = threading.Thread(target=self.listen, name="tao-watch", daemon=True)
                self.listener.start()
                self.state.wait(OPENING_SECONDS)

    def changed_beyond(self, number: int, keys: Sequence[Key]) -> set[Key]:
        if not self.is_open or self.gap > number:
            return set(keys)
        return {key for key in keys if self.changes.get(key, 0) > number}

    def listen(self) -> None:
        pause = PAUSE_SECONDS
        while self.is_wanted():
            began = time.monotonic()
            with suppress(TaoError, OSError, HTTPException, ValueError, KeyError, TypeError):
                self.hear()
            lasted = time.monotonic() - began
            pause = (
                PAUSE_SECONDS if lasted > PAUSE_SECONDS else min(2 * pause, LONGEST_PAUSE_SECONDS)
            )
            self.end_stream()
            time.sleep(pause if self.is_wanted() and lasted < WATCH_SECONDS / 2 else 0)

    def is_wanted(self) -> bool:
        return time.monotonic() - self.asked_at < IDLE_SECONDS

    def hear(self) -> None:
        """One watch, from what there is now on. Its first number comes with an empty list."""
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
            self.begin_stream(answer)
            for event in watch_events(answer.response):
                if not self.is_wanted():
                    return
                if event["type"] != "BOOKMARK":
                    self.note(event["object"])
        finally:
            answer.close()

    def begin_stream(self, answer: Answer) -> None:
        with self.state:
            self.answer = answer
            self.forget()
            self.is_open = True
            self.state.notify_all()

    def end_stream(self) -> None:
        with self.state:
            self.is_open, self.answer = False, None
            self.state.notify_all()

    def note(self, thing: Mapping[str, Any]) -> None:
        job_id, attempt, _ = look.key_of(thing)
        with self.state:
            self.number += 1
            self.changes[job_id, attempt] = self.number
            if len(self.changes) > MOST_CHANGES:
                self.forget()
            self.state.notify_all()

    def forget(self) -> None:
        """Whoever asks next is told that everything may have changed."""
        self.number += 1
        self.gap = self.number
        self.changes.clear()

    def close(self) -> None:
        with self.state:
            self.asked_at = float("-inf")
            if self.answer is not None:
                with suppress(OSError):
                    self.answer.line.shutdown(2)


class Watches:
    """The watches of one cluster, begun where they are first needed."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self._lock = threading.Lock()
        self._of: dict[str, tuple[Watch, Watch]] = {}

    def of(self, namespace: str) -> tuple[Watch, Watch]:
        with self._lock:
            if namespace not in self._of:
                paths = jobs_path(namespace), core_path(namespace, "pods")
                self._of[namespace] = Watch(self.kube, paths[0]), Watch(self.kube, paths[1])
            return self._of[namespace]

    def close(self) -> None:
        with self._lock:
            for pair in self._of.values():
                for watch in pair:
                    watch.close()


class KubernetesNews:
    """What one listener has not heard yet."""

    def __init__(self, watches: Watches) -> None:
        self.watches = watches
        self.heard: dict[int, int] = {}  # watch -> the number up to which it was heard
        self.known: set[Ref] = set()
        self.logs_read_at = time.monotonic()
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
        """Until a watch tells something, at most so long."""
        seconds = min(seconds, 0.25)
        watches = [watch for pair in listened.values() for watch in pair]
        if not watches:  # no attempt runs: one waits for its retry
            time.sleep(seconds)
            return
        with watches[0].state:
            watches[0].state.wait(seconds)

    def grown(self, refs: Sequence[Ref]) -> Sequence[Ref]:
        """All of them now and then."""
        if time.monotonic() - self.logs_read_at < LOG_SECONDS:
            return []
        self.logs_read_at = time.monotonic()
        return refs

    def close(self) -> None:
        """The threads end when nobody has asked for a while."""
