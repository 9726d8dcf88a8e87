"""Starting: the objects of an attempt, created one by one, each step safe to do again.

The Job comes first, suspended, so that all others can be owned by it and go with it; then it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tao_sdk.backends.job_environment import revealed
from tao_sdk.backends.kubernetes.job import manifests, names
from tao_sdk.backends.kubernetes.look import core_path, get_job, jobs_path
from tao_sdk.backends.kubernetes.parse import Object
from tao_sdk.backends.kubernetes.request import KubernetesRequest
from tao_sdk.model.errors import Refused, Unreachable
from tao_sdk.model.plan import Plan
from tao_sdk.transports.kube import MERGE, Kube, KubeError, ignored

CONFLICT = 409


def start_attempt(
    kube: Kube,
    plan: Plan[KubernetesRequest],
    secrets: Mapping[str, str],
    login: Mapping[str, str] | None = None,
) -> Object:
    """The attempt's Job, which runs or waits in its queue. Raises KubeError, Refused.

    `login`: to the registry of its image, where a pull secret is made for it.
    """
    job = create_job(kube, plan)
    if has_started(job, plan.request):
        return job
    try:
        return complete(kube, job, plan, secrets, login)
    except KubeError:
        take_back(kube, job)
        raise
    except Unreachable as error:
        error.nothing_sent = False  # the Job is there: the next look finds and completes it
        raise


def complete(
    kube: Kube,
    job: Object,
    plan: Plan[KubernetesRequest],
    secrets: Mapping[str, str],
    login: Mapping[str, str] | None,
) -> Object:
    """What a suspended Job owns; then it runs."""
    request = plan.request
    if request.environment:
        values = revealed(request.environment, secrets)
        create(kube, request.namespace, "secrets", manifests.secret(job, values))
    if login:
        pull_secret = manifests.pull_secret(job, request.decisions.pull_registry, login)
        create(kube, request.namespace, "secrets", pull_secret)
    for part, file in enumerate(plan.files):
        create(kube, request.namespace, "configmaps", manifests.config_map(job, part, file.content))
    if request.service is not None:
        create(kube, request.namespace, "services", manifests.service(job, request.service))
    return job if request.waits_in_queue else resume(kube, job)


def take_back(kube: Kube, job: Object) -> None:
    """Remove a Job that never ran, and what it owns: the cluster refused the rest of it."""
    metadata = job["metadata"]
    options = {"propagationPolicy": "Background", "preconditions": {"uid": metadata["uid"]}}
    with ignored(403, 404, 409):
        kube.ask("DELETE", jobs_path(metadata["namespace"], metadata["name"]), options)


def create_job(kube: Kube, plan: Plan[KubernetesRequest]) -> Object:
    """The Job, made now or found. Raises Refused for a stranger's."""
    request = plan.request
    try:
        return kube.ask("POST", jobs_path(request.namespace), request.job)
    except KubeError as error:
        if error.status != CONFLICT:
            raise
    found = get_job(kube, request.namespace, request.name)
    if found is None:  # it went in between
        return kube.ask("POST", jobs_path(request.namespace), request.job)
    if not names.is_of(found, plan.attempt):
        raise Refused(
            f"The Job {request.name} in namespace {request.namespace} is that of another store.",
            "Nothing was submitted.",
        )
    return found


def has_started(job: Object, request: KubernetesRequest) -> bool:
    """True if nothing is left to do. One in a queue may have been let go by the queue."""
    return not job["spec"].get("suspend") and not request.waits_in_queue


def create(kube: Kube, namespace: str, kind: str, body: Mapping[str, Any]) -> None:
    """One object of the Job's. One of that name that another Job of the same name has left is made
    this Job's.
    """
    try:
        kube.ask("POST", core_path(namespace, kind), body)
    except KubeError as error:
        if error.status != CONFLICT:
            raise
        adopt(kube, namespace, kind, body)


def adopt(kube: Kube, namespace: str, kind: str, body: Mapping[str, Any]) -> None:
    owners = {"metadata": {"ownerReferences": body["metadata"]["ownerReferences"]}}
    path = core_path(namespace, kind, body["metadata"]["name"])
    kube.ask("PATCH", path, owners, content_type=MERGE)


def resume(kube: Kube, job: Object) -> Object:
    """Let the Job run: only this one, as its uid says."""
    metadata = job["metadata"]
    path = jobs_path(metadata["namespace"], metadata["name"])
    patch = {"metadata": {"uid": metadata["uid"]}, "spec": {"suspend": False}}
    return kube.ask("PATCH", path, patch, content_type=MERGE)
