"""Pods from recent looks, so that a log reader does not query for them again.

A pod that was removed since has no log. The reader then queries for the pod that took its place.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from tao_sdk.backends.kubernetes import parse
from tao_sdk.backends.kubernetes.parse import Object, Seen
from tao_sdk.backends.kubernetes.told import forget_oldest, shortened
from tao_sdk.model.plan import Attempt, Ref

MOST_PODS = 2_000  # beyond that, the pods seen longest ago are dropped

Key = tuple[Attempt, int]  # and rank


class RecentPods:
    """The last pod of each rank that a look has seen. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_rank: dict[Key, Object] = {}

    def note(self, found: Mapping[Ref, Seen | None]) -> None:
        """Remember the pods that may have a log. Forget the other pods of these attempts."""
        with self._lock:
            for ref, seen in found.items():
                for pod in seen.pods if seen else ():
                    key = ref.attempt, parse.rank_of(pod)
                    self._by_rank.pop(key, None)
                    if parse.may_have_log(pod):
                        self._by_rank[key] = shortened(pod)
            forget_oldest(self._by_rank, MOST_PODS)

    def find(self, ref: Ref, rank: int) -> Object | None:
        """The rank's pod as the last look saw it, or None."""
        with self._lock:
            return self._by_rank.get((ref.attempt, rank))

    def forget(self, ref: Ref, rank: int) -> None:
        """Drop a rank's pod: it is gone."""
        with self._lock:
            self._by_rank.pop((ref.attempt, rank), None)
