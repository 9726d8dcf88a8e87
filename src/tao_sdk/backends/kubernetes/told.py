"""Ends of Jobs that the watches reported, saved for Jobs that are removed before anyone looks.

Not here: what such an end means (parse.py), and how the cluster is watched (watch.py).
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from tao_sdk.backends.kubernetes import look, parse
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.parse import Object, Seen
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Ref

MOST_JOBS, MOST_PODS = 2_000, 10_000
LAG_SECONDS = 2.0  # between the watch of Jobs and the one of pods
KEPT_OF_METADATA = (
    "name", "namespace", "uid", "labels", "annotations", "creationTimestamp", "ownerReferences"
)  # fmt: skip
KEPT_OF_SPEC = ("completions", "suspend", "nodeName")

Key = tuple[str, ...]


@dataclass(frozen=True)
class ToldJob:
    job: Object
    told_at: float


class ToldEnds:
    """The ended Jobs and pods. Thread-safe. When there are too many, the oldest are dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[Key, ToldJob] = {}
        self._pods: dict[str, Object] = {}  # by uid

    def note(self, thing: Object) -> None:
        """Save a Job or a pod as a watch reported it, if it has ended."""
        if "completions" in thing["spec"]:
            self._note_job(thing)
        elif parse.terminated(thing) or parse.disruption(thing):
            with self._lock:
                self._pods.pop(thing["metadata"]["uid"], None)
                self._pods[thing["metadata"]["uid"]] = shortened(thing)
                forget_oldest(self._pods, MOST_PODS)

    def _note_job(self, job: Object) -> None:
        """Save a Job that has ended. Skip one that is being deleted: its deletion makes it fail,
        which is not an end of its own.
        """
        if parse.is_being_deleted(job) or not any(parse.condition(job, end) for end in parse.ENDS):
            return
        with self._lock:
            self._jobs.pop(look.key_of(job), None)
            self._jobs[look.key_of(job)] = ToldJob(shortened(job), time.monotonic())
            forget_oldest(self._jobs, MOST_JOBS)

    def end_of(self, ref: Ref) -> Observation | None:
        """How the attempt ended; None if no watch has reported an end, or its pods may yet come."""
        attempt = ref.attempt
        with self._lock:
            told = self._jobs.get((attempt.job_id, str(attempt.number), attempt.store_id))
            pods = list(self._pods.values())
        if told is None or not names.is_of(told.job, attempt):
            return None
        own = parse.pods_of_job(told.job, pods)
        seen = look.parse_safely(Seen(told.job, own))
        comes_late = not own and time.monotonic() - told.told_at < LAG_SECONDS
        if not seen.phase.ended or (seen.phase is Phase.FAILED and comes_late):
            return None
        return seen


def shortened(thing: Object) -> Object:
    """The object with only the fields that parse.py reads."""
    metadata, spec = thing["metadata"], thing["spec"]
    return {
        "metadata": {name: metadata[name] for name in KEPT_OF_METADATA if name in metadata},
        "spec": {name: spec[name] for name in KEPT_OF_SPEC if name in spec},
        "status": thing.get("status") or {},
    }


def forget_oldest(things: dict[Any, Any], most: int) -> None:
    while len(things) > most:
        del things[next(iter(things))]
