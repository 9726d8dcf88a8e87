"""Recent pods: those that looks have seen. Who reads their logs asks for them no more.

One that has gone since has no log, and whoever reads it then asks which pod has taken its place.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from tao_sdk.backends.kubernetes import parse
from tao_sdk.backends.kubernetes.parse import Object, Seen
from tao_sdk.backends.kubernetes.told import forget_oldest, shortened
from tao_sdk.model.plan import Attempt, Ref

MOST_PODS = 2_000  # those that were seen longest ago are asked for again

Key = tuple[Attempt, int]  # and rank


class RecentPods:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_rank: dict[Key, Object] = {}

    def note(self, found: Mapping[Ref, Seen | None]) -> None:
        """Remember the pods that may have a log, and no other of these attempts."""
        with self._lock:
            for ref, seen in found.items():
                for pod in seen.pods if seen else ():
                    key = ref.attempt, parse.rank_of(pod)
                    self._by_rank.pop(key, None)
                    if parse.may_have_log(pod):
                        self._by_rank[key] = shortened(pod)
            forget_oldest(self._by_rank, MOST_PODS)

    def find(self, ref: Ref, rank: int) -> Object | None:
        """The rank's pod as it was seen last."""
        with self._lock:
            return self._by_rank.get((ref.attempt, rank))

    def forget(self, ref: Ref, rank: int) -> None:
        """The pod is gone."""
        with self._lock:
            self._by_rank.pop((ref.attempt, rank), None)
