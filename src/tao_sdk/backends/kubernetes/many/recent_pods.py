"""Recent pods: those that a look has just seen. Who reads their logs asks for them no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tao_sdk.backends.kubernetes import parse
from tao_sdk.backends.kubernetes.parse import Object, Seen
from tao_sdk.model.plan import Attempt, Ref

FRESH_SECONDS = 3.0
MOST_PODS = 2_000  # of one look; those of the attempts after them are asked for again


@dataclass(frozen=True)
class SeenPods:
    """The pods of one look, by attempt and rank."""

    by_rank: Mapping[tuple[Attempt, int], Object]
    seen_at: float  # time.monotonic()


class RecentPods:
    """Safe to use from several threads. Each look takes the place of the one before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = SeenPods({}, 0.0)

    def note(self, found: Mapping[Ref, Seen | None]) -> None:
        """Remember the pods that may have a log."""
        there = {ref: seen.pods for ref, seen in found.items() if seen is not None}
        pods = {
            (ref.attempt, parse.rank_of(pod)): pod
            for ref, pods_of_job in there.items()
            for pod in pods_of_job
            if parse.may_have_log(pod)
        }
        with self._lock:
            self._last = SeenPods(dict(list(pods.items())[:MOST_PODS]), time.monotonic())

    def find(self, ref: Ref, rank: int) -> Object | None:
        """The rank's pod, if it was seen a moment ago."""
        with self._lock:
            last = self._last
        if time.monotonic() - last.seen_at > FRESH_SECONDS:
            return None
        return last.by_rank.get((ref.attempt, rank))
