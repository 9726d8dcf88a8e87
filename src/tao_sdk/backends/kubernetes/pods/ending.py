"""Ending: delete an attempt, and follow its log to the end."""

from __future__ import annotations

import json
import threading
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
from tao_sdk.backends.kubernetes.look import core_path, jobs_path, patch_job
from tao_sdk.backends.kubernetes.parse import Object, Seen
from tao_sdk.backends.kubernetes.pods.kept_log import KeptLogs, LogCopy
from tao_sdk.model import words
from tao_sdk.model.errors import TaoError
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.transports.kube import Kube, ignored

MARGIN = 15.0  # seconds beyond the grace until the Job is gone
LOG_SECONDS = 5.0  # to finish the log copies once the Job is gone
OPEN_SECONDS = 5.0  # for the API to begin sending the logs of the pods to delete
LATE_SECONDS = 1.0  # between two looks for pods that were created late
LATE_SHARE = 0.4  # of the grace; a pod that still runs after it ends late
KILLED = 137  # exit code of a process that SIGKILL ended
DELETES = 8  # pods deleted in parallel


@dataclass(frozen=True)
class Ending:
    """Ends one attempt."""

    kube: Kube
    kept: KeptLogs
    ref: Ref

    def end(self, grace: timedelta) -> Observation:
        """Delete the attempt and return its observation. An attempt that has ended by itself is not
        touched.
        """
        pods = self._pods()
        job = self._find_job(pods)
        if job is None:
            return look.absent(self.kube, self.ref.namespace, [self.ref])[self.ref]
        pods = parse.pods_of_job(job, pods)
        seen = look.parse_safely(Seen(job, pods))
        if seen.phase.ended:
            return seen
        has_gone = threading.Event()
        copies = self._keep_logs(pods, has_gone)
        seconds = max(int(grace.total_seconds()), 1)
        late_ends = LateEnds(self.kube, self.ref, job, seconds * LATE_SHARE, has_gone)
        left = self.delete(job, pods, seconds)
        late_ends.start()
        late = seconds if len(pods) < Seen(left, pods).ranks else None
        gone = self._wait_until_gone(left, max(seconds, begun_grace(pods)) + MARGIN, late)
        if gone:
            has_gone.set()
        for copy in copies:
            copy.join(LOG_SECONDS if gone else 0)
        if not gone:
            return look.parse_safely(Seen({**job, "metadata": deleted(job)}, self._pods()))
        if seen.phase is Phase.PENDING and not names.is_second(job):
            self.end(grace)  # without bash: another client may just have made the second Job
        late_ends.join(LATE_SECONDS)
        return canceled(late_ends.was_killed)

    def force(self) -> bool:
        """Delete the attempt at once, even if its node does not answer. True once all is gone."""
        delete_pods(self.kube, self._pods(), 0)
        job = look.find_job(self.kube, self.ref.namespace, self.ref.attempt)
        if job is not None:
            delete_job(self.kube, job, "Background")
        give_up = time.monotonic() + MARGIN
        while (left := self._pods()) and time.monotonic() < give_up:
            time.sleep(0.5)
        return not left

    def _pods(self) -> list[Object]:
        return look.pods_of(self.kube, self.ref.namespace, self.ref.attempt)

    def _find_job(self, pods: Sequence[Object]) -> Object | None:
        """The attempt's Job. If all pods run, build it from them and save a query."""
        if pods and all(map(parse.runs_undisturbed, pods)):
            owned = parse.job_of_pods(pods)
            if owned is not None:
                return owned
        return look.find_job(self.kube, self.ref.namespace, self.ref.attempt)

    def delete(self, job: Object, pods: Sequence[Object], grace: int) -> Object:
        """Delete the pods with this grace, then the Job in the foreground. Only objects with these
        uids are deleted. Returns the Job as the cluster then has it.

        The order matters: the cluster deletes the pods of a deleted Job with their own grace, and a
        kubelet that has begun to end a pod accepts no other grace for it.
        """
        if len(pods) > 1:
            hold_controller(self.kube, job, len(pods))
        delete_pods(self.kube, pods, grace)
        return delete_job(self.kube, job, "Foreground")

    def _keep_logs(self, pods: Sequence[Object], has_gone: threading.Event) -> list[LogCopy]:
        """Start copies of the pods' logs. Wait OPEN_SECONDS at most for the API to send them."""
        loud = filter(parse.may_have_log, pods)
        uid = self.ref.unique_id
        copies = [self.kept.begin(self.kube, pod, uid, has_gone) for pod in loud]
        give_up = time.monotonic() + OPEN_SECONDS
        for copy in copies:
            copy.began.wait(max(give_up - time.monotonic(), 0))
        return copies

    def _wait_until_gone(self, job: Object, seconds: float, late_grace: int | None) -> bool:
        """Wait until the Job is gone; False after `seconds`. Watch it, and query it again when the
        watch breaks off.

        `late_grace`: the grace for pods that the Job's controller made after they were listed; None
        if there can be none. The garbage collector would give them their own grace.
        """
        give_up = time.monotonic() + seconds
        while (left := give_up - time.monotonic()) > 0:
            with suppress(TaoError, OSError, HTTPException, ValueError, KeyError):
                if late_grace is not None:
                    self._delete_late_pods(job, late_grace)
                    left = min(left, LATE_SECONDS)
                if self._watch_end(job, left):
                    return True
            found = look.get_job(self.kube, self.ref.namespace, job["metadata"]["name"])
            if found is None or found["metadata"]["uid"] != job["metadata"]["uid"]:
                return True
            job = found
            time.sleep(min(0.5, max(left, 0)))
        return False

    def _delete_late_pods(self, job: Object, grace: int) -> None:
        pods = look.pods_of(self.kube, self.ref.namespace, self.ref.attempt, job)
        delete_pods(self.kube, [pod for pod in pods if has_longer_grace(pod, grace)], grace)

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


class LateEnds(threading.Thread):
    """Watches for a pod that SIGKILL ended because it used up a cancel's grace.

    A deleted pod takes its exit code with it. So this thread watches the pods that still run after
    LATE_SHARE of the grace. Most cancels are over before that, and cost no further request.
    """

    def __init__(
        self, kube: Kube, ref: Ref, job: Object, seconds: float, has_gone: threading.Event
    ) -> None:
        super().__init__(name="tao-late-ends", daemon=True)
        self._kube, self._ref, self._uid = kube, ref, job["metadata"]["uid"]
        self._seconds, self._has_gone = seconds, has_gone
        self.was_killed = False

    def run(self) -> None:
        if self._has_gone.wait(self._seconds):
            return
        with suppress(TaoError, OSError, HTTPException, ValueError, KeyError):
            self._watch()

    def _watch(self) -> None:
        """Watch until the pods that run now are gone."""
        patience = self._seconds / LATE_SHARE + MARGIN
        params = {
            "watch": "true",
            "labelSelector": look.selector_of(self._ref.attempt),
            "timeoutSeconds": int(patience),
        }
        path = core_path(self._ref.namespace, "pods")
        answer = self._kube.stream(path, params, read=patience)
        left = set[str]()
        try:
            for event in watch_events(answer.response):
                pod = event["object"]
                if self._uid in parse.owners_of(pod):
                    self.was_killed |= parse.terminated(pod).get("exitCode") == KILLED
                    left.add(pod["metadata"]["uid"])
                if event["type"] == "DELETED":
                    left.discard(pod["metadata"]["uid"])
                    if not left:
                        return
        finally:
            answer.close()


def canceled(was_killed: bool) -> Observation:
    why, code = words.why(Reason.CANCELED), KILLED if was_killed else None
    return Observation(Phase.CANCELED, "deleted", code, reason=why.text, reason_code=why.code)


def watch_events(response: Any) -> Iterator[Mapping[str, Any]]:
    """The events of a watch, one JSON object a line. Ends at an ERROR event: then list again."""
    while line := response.readline(look.LONGEST_EVENT):
        event = json.loads(line)
        if event.get("type") == "ERROR":
            return
        yield event


def deleted(job: Object) -> dict[str, Any]:
    return {**job["metadata"], "deletionTimestamp": "now"}


def begun_grace(pods: Sequence[Object]) -> float:
    """The longest grace, in seconds, of pods that are already being deleted; 0.0 without any."""
    given = [pod["metadata"].get("deletionGracePeriodSeconds") or 0 for pod in pods]
    return float(max(given, default=0))


def has_longer_grace(pod: Object, grace: int) -> bool:
    """True for a pod that is not being deleted, or that has a longer grace than this."""
    given = pod["metadata"].get("deletionGracePeriodSeconds")
    return given is None or given > grace


def hold_controller(kube: Kube, job: Object, pods: int) -> None:
    """Let the Job fail only after this many pods have ended. Otherwise its controller would, at the
    first deleted pod, delete the others with their own grace. It recreates a pod after ten seconds.
    """
    with ignored(403, 404, 409, 422):  # without the right its own grace counts
        patch_job(kube, job, {}, {"backoffLimit": pods})


def delete_job(kube: Kube, job: Object, how: str) -> Object:
    """Delete the Job with this uid, and return it as the cluster then has it, if it says so.

    `how`: Foreground keeps the Job until its pods are gone, Background does not.
    """
    metadata = job["metadata"]
    options = delete_options(job, propagationPolicy=how)
    path = jobs_path(metadata["namespace"], metadata["name"])
    with ignored(404, 409):
        answer = kube.ask("DELETE", path, options)
        return answer if parse.part(answer, "metadata").get("uid") == metadata["uid"] else job
    return job


def delete_pods(kube: Kube, pods: Sequence[Object], grace: int) -> None:
    """Delete the pods in parallel, so that all are told to end at about the same moment."""
    with ThreadPoolExecutor(DELETES, thread_name_prefix="tao-delete") as threads:
        deletions = [threads.submit(delete_pod, kube, pod, grace) for pod in pods]
    for deletion in deletions:
        deletion.result()


def delete_pod(kube: Kube, pod: Object, grace: int) -> None:
    metadata = pod["metadata"]
    options = delete_options(pod, gracePeriodSeconds=grace)
    with ignored(403, 404, 409):  # without the right its own grace counts
        kube.ask("DELETE", core_path(metadata["namespace"], "pods", metadata["name"]), options)


def delete_options(thing: Object, **how: str | int) -> dict[str, Any]:
    """The body of a delete request. Its uid protects a later object of the same name."""
    precondition = {"uid": thing["metadata"]["uid"]}
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": precondition, **how}
