"""Create the objects of an attempt. Each step is safe to repeat.

A Job that owns nothing runs at once. Any other Job is created first, suspended: it then owns the
objects that its pods need, and they are deleted with it. At last it is resumed.
If the image has no bash, a second Job takes the place of the first (job/plain_shell.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tao_sdk.backends.asking import ask_side_by_side
from tao_sdk.backends.job_environment import revealed
from tao_sdk.backends.kubernetes import parse
from tao_sdk.backends.kubernetes.job import manifests, names, plain_shell
from tao_sdk.backends.kubernetes.job.manifests import QUEUE
from tao_sdk.backends.kubernetes.job.pod_group import (
    collection_path,
    owned_pod_group,
    pod_group_path,
)
from tao_sdk.backends.kubernetes.look import core_path, get_job, jobs_path, patch_job, see
from tao_sdk.backends.kubernetes.parse import Object
from tao_sdk.backends.kubernetes.request import KubernetesRequest
from tao_sdk.model.errors import Refused, TaoError, Unreachable
from tao_sdk.model.observation import Observation
from tao_sdk.model.plan import Plan, Ref
from tao_sdk.transports.kube import MERGE, Kube, KubeError, ignored

CONFLICT = 409


def start_attempt(
    kube: Kube,
    plan: Plan[KubernetesRequest],
    secrets: Mapping[str, str],
    login: Mapping[str, str] | None = None,
) -> Object:
    """Start the attempt and return its Job, which runs or waits in its queue. Raises KubeError,
    Refused.

    `login`: the login to the image's registry, if a pull secret is made for it.
    """
    job = create_job(kube, plan.request.job)
    if has_started(job, plan.request):
        return job
    try:
        return complete(kube, job, plan, secrets, login)
    except KubeError:
        take_back(kube, job)
        raise
    except Unreachable as error:
        error.nothing_sent = False  # the Job exists: the next look finds and completes it
        raise


def complete(
    kube: Kube,
    job: Object,
    plan: Plan[KubernetesRequest],
    secrets: Mapping[str, str],
    login: Mapping[str, str] | None,
) -> Object:
    """Create the objects that a suspended Job owns, then resume it unless a queue starts it.

    Raises the first refusal, after every object was tried.
    """
    answers = ask_side_by_side(
        partial(refusal_of, kube), list(owned_objects(job, plan, secrets, login))
    )
    for refusal in filter(None, answers):
        raise refusal
    return job if plan.request.waits_in_queue else resume(kube, job)


def owned_objects(
    job: Object,
    plan: Plan[KubernetesRequest],
    secrets: Mapping[str, str],
    login: Mapping[str, str] | None,
) -> Iterator[tuple[str, Object]]:
    """The objects that the Job owns, each after the path of its kind."""
    request = plan.request
    path = partial(core_path, request.namespace)
    if request.environment:
        values = revealed(request.environment, secrets)
        yield path("secrets"), manifests.secret(job, values)
    if login:
        registry = request.decisions.pull_registry
        yield path("secrets"), manifests.pull_secret(job, registry, login)
    for part, file in enumerate(plan.files):
        yield path("configmaps"), manifests.config_map(job, part, file.content)
    if request.service is not None:
        yield path("services"), manifests.service(job, request.service)
    if request.pod_group is not None:
        group = owned_pod_group(job, request.pod_group)
        yield collection_path(group), group


def refusal_of(kube: Kube, owned: tuple[str, Object]) -> TaoError | None:
    """Create the object, and return the error if that failed. It does not raise, so that the
    other objects are tried too.
    """
    try:
        create_at(kube, *owned)
    except TaoError as error:
        return error
    return None


def take_back(kube: Kube, job: Object) -> None:
    """Remove a Job that never ran and the objects it owns, if our role may: the cluster refused
    the rest of them.
    """
    with ignored(403):
        remove(kube, job)


def remove(kube: Kube, job: Object) -> None:
    """Delete the Job, and then what it owns. A Job of the same name with another uid stays."""
    metadata = job["metadata"]
    options = {"propagationPolicy": "Background", "preconditions": {"uid": metadata["uid"]}}
    with ignored(404, CONFLICT):
        kube.ask("DELETE", jobs_path(metadata["namespace"], metadata["name"]), options)


def create_job(kube: Kube, manifest: Object) -> Object:
    """Create the Job, or return the existing one. Raises Refused if that is another store's."""
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    try:
        return kube.ask("POST", jobs_path(namespace), manifest)
    except KubeError as error:
        if error.status != CONFLICT:
            raise
    try:
        found = get_job(kube, namespace, name)
    except Unreachable as error:
        error.nothing_sent = False  # a Job of this name is there
        raise
    if found is None:  # removed in between
        return kube.ask("POST", jobs_path(namespace), manifest)
    if not names.same_attempt(found, manifest):
        raise Refused(
            f"The Job {name} in namespace {namespace} is that of another store.",
            "Nothing was submitted.",
            "Submit the job again: it gets another id.",
        )
    return found


def has_started(job: Object, request: KubernetesRequest) -> bool:
    """True if nothing is left to do. A Job in a queue counts as not started: its queue may have
    resumed it before all that it owns was there.
    """
    if parse.is_parked(job):
        return True
    return not job["spec"].get("suspend") and not request.waits_in_queue


def create_at(kube: Kube, path: str, body: Object) -> None:
    """Create one object that a Job owns. If an earlier Job of the same name left such an object,
    make it this Job's.
    """
    metadata = body["metadata"]
    try:
        kube.ask("POST", path, body)
    except KubeError as error:
        if error.status != CONFLICT:
            raise
        change_owner(kube, f"{path}/{metadata['name']}", metadata["ownerReferences"])


def change_owner(kube: Kube, path: str, owners: Sequence[Object]) -> None:
    patch = {"metadata": {"ownerReferences": owners}}
    kube.ask("PATCH", path, patch, content_type=MERGE)


def resume(kube: Kube, job: Object) -> Object:
    """Resume the Job and return it."""
    return patch_job(kube, job, {}, {"suspend": False})


# An image without bash


def restart_without_bash(kube: Kube, observed: Mapping[Ref, Observation]) -> dict[Ref, Observation]:
    """Restart the attempts whose image has no bash. Return new observations of those that could
    not be restarted.
    """
    failed: dict[Ref, Observation] = {}
    for ref, seen in observed.items():
        if seen.backend_words == parse.NO_BASH:
            try:
                start_with_sh(kube, ref)
            except TaoError as error:  # the next look tries again
                failed[ref] = replace(seen, reason=f"{seen.reason}; not yet: {error.what}")
    return failed


def start_with_sh(kube: Kube, ref: Ref) -> None:
    """Start the command of an attempt with /bin/sh: no part of it could run in bash.

    Any client may repeat each step, also while another client does. The second Job runs only once
    the first is gone; so a client that finds the first Job knows that no second has ever run.
    """
    seen = see(kube, ref)
    if seen is None:
        return
    second: Object | None = seen.job
    if parse.lacks_bash(seen):
        second = take_place(kube, seen.job)
    if second is not None and parse.waits_for_let_go(second) and not parse.owners_of(second):
        let_go(kube, second)


def take_place(kube: Kube, first: Object) -> Object | None:
    """Remove the first Job, and return the second, suspended, with everything that the first owned.

    None if another client removes the first Job (the cluster then removes the second with it), or
    while the first is still there.
    """
    second = create_job(kube, plain_shell.second_job(first))
    if not is_kept(kube, first):
        return None
    hand_over(kube, first, second)
    second = patch_job(kube, second, {"ownerReferences": []}, {})
    remove(kube, first)
    metadata = first["metadata"]
    return second if get_job(kube, metadata["namespace"], metadata["name"]) is None else None


def is_kept(kube: Kube, job: Object) -> bool:
    """True if the Job exists and is not being deleted."""
    metadata = job["metadata"]
    found = get_job(kube, metadata["namespace"], metadata["name"])
    if found is None or found["metadata"]["uid"] != metadata["uid"]:
        return False
    return not found["metadata"].get("deletionTimestamp")


def hand_over(kube: Kube, first: Object, second: Object) -> None:
    """Make the second Job the owner of the first Job's objects, and create its service."""
    namespace = second["metadata"]["namespace"]
    for kind, name in plain_shell.owned_objects(first):
        change_owner(kube, core_path(namespace, kind, name), [manifests.owner_of(second)])
    if path := pod_group_path(first):
        change_owner(kube, path, [manifests.owner_of(second)])
    service = plain_shell.second_service(second)
    if service is not None:
        create_at(kube, core_path(namespace, "services"), service)


def let_go(kube: Kube, second: Object) -> None:
    """Resume the Job, or put it in its queue, which then resumes it."""
    queue = parse.part(second["metadata"], "annotations").get(names.QUEUED_BY)
    if not queue:
        resume(kube, second)
        return
    patch_job(kube, second, {"labels": {QUEUE: queue}}, {})
