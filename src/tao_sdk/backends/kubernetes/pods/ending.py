"""Ending: an attempt is deleted, and its log followed to its last word."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPException
from typing import Any

from tao_sdk.backends.kubernetes import look, parse
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.look import core_path, jobs_path
from tao_sdk.backends.kubernetes.parse import Object, Seen
from tao_sdk.backends.kubernetes.pods.kept_log import KeptLogs
from tao_sdk.model import words
from tao_sdk.model.errors import TaoError
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.transports.kube import Kube, ignored

MARGIN = 15.0  # seconds beyond the grace until the Job is gone
LOG_SECONDS = 5.0  # for the last words, once the Job is gone
DELETES = 8  # pods that are deleted at once


@dataclass(frozen=True)
class Ending:
    """How one attempt is ended. `force`: its pods go at once, whether or not their node answers."""

    kube: Kube
    kept: KeptLogs
    ref: Ref

    def end(self, grace: timedelta) -> Observation:
        """Delete what runs. What has ended by itself stays as it was."""
        ref = self.ref
        job = look.find_job(self.kube, ref.namespace, ref.attempt)
        if job is None:
            return look.ABSENT
        pods = look.pods_of(self.kube, ref.namespace, ref.attempt, job)
        seen = look.parse_safely(Seen(job, pods))
        if seen.phase.ended:
            return seen
        copies = list(self._keep_logs(pods))
        self.delete(job, pods, max(int(grace.total_seconds()), 1))
        gone = self._wait_until_gone(job, max(grace.total_seconds(), begun_grace(pods)) + MARGIN)
        for copy in copies:
            copy.join(LOG_SECONDS if gone else 0)
        if not gone:
            return look.parse_safely(Seen({**job, "metadata": deleted(job)}, pods))
        if seen.phase is Phase.PENDING and not names.is_second(job):
            self.end(grace)  # its image has no bash, and somebody has just made the second Job
        why = words.why(Reason.CANCELED)
        return Observation(Phase.CANCELED, "deleted", reason=why.text, reason_code=why.code)

    def delete(self, job: Object, pods: Sequence[Object], grace: int) -> None:
        """The pods with the grace, then the Job, only this one as its uid says, in the foreground.

        In this order: the cluster deletes the pods of a deleted Job with their own grace, and a
        kubelet that has begun to end a pod takes no other grace for it.
        """
        delete_pods(self.kube, pods, grace)
        metadata = job["metadata"]
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
            "preconditions": {"uid": metadata["uid"]},
        }
        path = jobs_path(metadata["namespace"], metadata["name"])
        with ignored(404, 409):
            self.kube.ask("DELETE", path, options)

    def _keep_logs(self, pods: Sequence[Object]) -> Iterator[Any]:
        for pod in pods:
            if parse.may_have_log(pod):
                at, name = self.ref.namespace, pod["metadata"]["name"]
                uid, rank = self.ref.unique_id, parse.rank_of(pod)
                yield self.kept.begin(self.kube, at, name, uid, rank)

    def _wait_until_gone(self, job: Object, seconds: float) -> bool:
        """True once the Job is not there any more. One watch; asked anew where that breaks off."""
        give_up = time.monotonic() + seconds
        while (left := give_up - time.monotonic()) > 0:
            with suppress(TaoError, OSError, HTTPException, ValueError):
                if self._watch_end(job, left):
                    return True
            found = look.get_job(self.kube, self.ref.namespace, job["metadata"]["name"])
            if found is None or found["metadata"]["uid"] != job["metadata"]["uid"]:
                return True
            time.sleep(min(0.5, max(left, 0)))
        return False

    def _watch_end(self, job: Object, seconds: float) -> bool:
        metadata = job["metadata"]
        params = {
            "watch": "true",
            "fieldSelector": f"metadata.name={metadata['name']}",
            "resourceVersion": metadata["resourceVersion"],
            "timeoutSeconds": max(int(seconds), 1),
        }
        answer = self.kube.stream(jobs_path(metadata["namespace"]), params, read=seconds + 5)
        try:
            return any(event["type"] == "DELETED" for event in watch_events(answer.response))
        finally:
            answer.close()


def watch_events(response: Any) -> Iterator[Mapping[str, Any]]:
    """What a watch tells, one object a line. Ends at an error, after which one lists anew."""
    while line := response.readline(look.LONGEST_EVENT):
        event = json.loads(line)
        if event.get("type") == "ERROR":
            return
        yield event


def deleted(job: Object) -> dict[str, Any]:
    return {**job["metadata"], "deletionTimestamp": "now"}


def begun_grace(pods: Sequence[Object]) -> float:
    """Seconds that pods have which somebody has deleted before; 0.0 where there is none."""
    given = [pod["metadata"].get("deletionGracePeriodSeconds") or 0 for pod in pods]
    return float(max(given, default=0))


def delete_pods(kube: Kube, pods: Sequence[Object], grace: int) -> None:
    """Side by side: once one is deleted, the Job's controller deletes the others with their own
    grace.
    """
    with ThreadPoolExecutor(DELETES, thread_name_prefix="tao-delete") as threads:
        deletions = [threads.submit(delete_pod, kube, pod, grace) for pod in pods]
    for deletion in deletions:
        deletion.result()


def delete_pod(kube: Kube, pod: Object, grace: int) -> None:
    metadata = pod["metadata"]
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": grace,
        "preconditions": {"uid": metadata["uid"]},
    }
    with ignored(403, 404, 409):  # without the right its own grace counts
        kube.ask("DELETE", core_path(metadata["namespace"], "pods", metadata["name"]), options)
