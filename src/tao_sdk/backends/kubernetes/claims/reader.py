"""Reader: a short-lived Job whose pod mounts a claim and prints a listing or a file.

It needs no rights beyond those of a job. The Job has a deadline and a time to live of its own,
which count from its creation. If a client dies, the cluster or the next reader removes its Job.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPException
from typing import Any

from tao_sdk.backends.kubernetes import look, parse
from tao_sdk.backends.kubernetes.claims.known_claims import ClaimUnreadable, KnownClaim
from tao_sdk.backends.kubernetes.job import manifests, names
from tao_sdk.backends.kubernetes.job.start_script import SCRIPTS
from tao_sdk.backends.kubernetes.look import core_path, jobs_path, patch_job
from tao_sdk.backends.kubernetes.parse import Object, Seen
from tao_sdk.backends.kubernetes.pods.logs import BLOCK, broken, log_path
from tao_sdk.backends.kubernetes.starting import create_at, take_back
from tao_sdk.backends.shell import load_script
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import TaoError
from tao_sdk.transports.kube import Kube, KubeError

LABEL = "tao-sdk-reader"
MOUNT = "/tao-claim"
DEADLINE = 600  # seconds for which a reader may run
TTL = 60  # seconds after its end until the cluster removes it
START_SECONDS = 120.0  # until its pod has begun
PAUSE = 0.3  # seconds between looks for its pod
READ_SECONDS = 60.0  # of silence in its log
STALE = timedelta(seconds=2 * DEADLINE)
ASKED = {"cpu": "100m", "memory": "64Mi"}
ALLOWED = {"cpu": "1", "memory": "256Mi"}

Login = Callable[[str], Mapping[str, str]]  # registry -> user name and password


@dataclass(frozen=True)
class Reader:
    """Runs readers of one claim. `patience`: seconds to wait for a pod to begin."""

    kube: Kube
    known: KnownClaim
    login: Login
    patience: float = START_SECONDS

    def run(self, *arguments: str) -> Iterator[bytes]:
        """Run the script and yield its output as it comes. The Job is removed when the iteration
        ends.

        Raises Unreachable.
        """
        job = None
        try:
            self._sweep_readers()
            job = self._start_job(arguments)
            yield from self._stream_output(job)
        except KubeError as error:
            raise unreadable_claim(self.known, error.what) from error
        except (OSError, HTTPException) as error:
            if isinstance(error, TaoError):
                raise
            raise broken(error) from error
        finally:
            if job is not None:
                with suppress(TaoError):
                    take_back(self.kube, job)

    def _start_job(self, arguments: tuple[str, ...]) -> Object:
        registry = self.known.pull_registry
        login = self.login(registry)
        body = reader_job(self.known, arguments, with_login=bool(login))
        job = self.kube.ask("POST", jobs_path(self.known.namespace), body)
        if not login:
            return job
        try:
            secret = manifests.pull_secret(job, registry, login)
            create_at(self.kube, core_path(self.known.namespace, "secrets"), secret)
            return patch_job(self.kube, job, {}, {"parallelism": 1})
        except BaseException:  # Ctrl-C too: only this process knows of the Job
            take_back(self.kube, job)
            raise

    def _stream_output(self, job: Object) -> Iterator[bytes]:
        name = self._wait_for_pod(job)["metadata"]["name"]
        params = {"container": names.CONTAINER, "follow": "true"}
        answer = self.kube.stream(log_path(self.known.namespace, name), params, READ_SECONDS)
        try:
            while data := answer.response.read1(BLOCK):
                yield data
        finally:
            answer.close()

    def _wait_for_pod(self, job: Object) -> Object:
        """Wait for the Job's pod to begin, and return it. Raises Unreachable after `patience`."""
        give_up = time.monotonic() + self.patience
        while True:
            pods = self._list_pods(job)
            if pods and parse.has_begun(pods[0]):
                return pods[0]
            if time.monotonic() > give_up:
                raise unreadable_claim(self.known, self._why_waiting(job, pods))
            time.sleep(PAUSE)

    def _list_pods(self, job: Object) -> list[Object]:
        selector = f"batch.kubernetes.io/job-name={job['metadata']['name']}"
        path = core_path(self.known.namespace, "pods")
        return look.items(self.kube, path, labelSelector=selector)

    def _why_waiting(self, job: Object, pods: list[Object]) -> str:
        if pods:
            return ": ".join(filter(None, parse.readiness_issue(pods[0])))
        said = look.create_words(self.kube, self.known.namespace, [{**job, "status": {}}])
        return parse.without_pods(Seen(job, [], next(iter(said.values()), ""))).reason

    def _sweep_readers(self) -> None:
        """Remove old readers that a client left behind and the cluster has not removed."""
        found = look.items(
            self.kube, jobs_path(self.known.namespace), labelSelector=f"{LABEL}=true"
        )
        for job in found:
            created = parse.moment(job["metadata"].get("creationTimestamp"))
            if created is None or utc_now() - created > STALE:
                take_back(self.kube, job)


def reader_job(known: KnownClaim, arguments: tuple[str, ...], with_login: bool) -> dict[str, Any]:
    """The reader's Job. With a login it starts without a pod, because its Secret has to be created
    first. It is not suspended for that: the deadline of a suspended Job does not run.
    """
    name = f"tao-reader-{secrets.token_hex(6)}"
    labels = {**manifests.OURS, "tao-toolkit": "true", LABEL: "true"}
    spec = pod_spec(known, arguments)
    if with_login:
        spec["imagePullSecrets"] = [{"name": names.pull_name(name)}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": known.namespace, "labels": labels},
        "spec": {
            "parallelism": 0 if with_login else 1,
            "backoffLimit": 0,
            "activeDeadlineSeconds": DEADLINE,
            "ttlSecondsAfterFinished": TTL,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def pod_spec(known: KnownClaim, arguments: tuple[str, ...]) -> dict[str, Any]:
    command = ["/bin/sh", "-c", load_script(SCRIPTS, "read_claim"), "tao", *arguments]
    container: dict[str, Any] = {
        "name": names.CONTAINER,
        "image": known.image,
        "command": [manifests.literal(each) for each in command],
        "resources": {"requests": ASKED, "limits": ALLOWED},
        "volumeMounts": [{"name": "claim", "mountPath": MOUNT, "readOnly": True}],
    }
    if known.pull_policy:
        container["imagePullPolicy"] = known.pull_policy
    if known.security:
        container["securityContext"] = dict(known.security)
    return {
        **known.pod,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": known.claim}}],
    }


def unreadable_claim(known: KnownClaim, why: str) -> ClaimUnreadable:
    return ClaimUnreadable(
        f"The claim {known.claim} of namespace {known.namespace} cannot be looked at.",
        why,
        f"See what it waits for: kubectl describe pvc {known.claim} -n {known.namespace}",
    )
