"""Survey: read the state of a cluster before a job is planned, and submit the job as a dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from tao_sdk.backends.asking import ask_side_by_side, both
from tao_sdk.backends.kubernetes import look, render, rules
from tao_sdk.backends.kubernetes.cluster import gang_scheduler, nodes, rights
from tao_sdk.backends.kubernetes.cluster.claims import (
    claim_findings,
    place_findings,
    volume_of,
    waits_for_a_pod,
)
from tao_sdk.backends.kubernetes.cluster.rights import Right
from tao_sdk.backends.kubernetes.facts import KubernetesFacts, Node
from tao_sdk.backends.kubernetes.job.fitting import has_labels, repelling
from tao_sdk.backends.kubernetes.job.manifests import (
    NGC,
    create_secret,
    registry_of,
    secret_name,
)
from tao_sdk.backends.kubernetes.job.storage import VolumeMount, read_volume_mounts
from tao_sdk.backends.kubernetes.look import core_path, jobs_path
from tao_sdk.backends.kubernetes.options import WAIT, KubernetesOptions
from tao_sdk.backends.kubernetes.request import KubernetesRequest
from tao_sdk.model.finding import Finding, Severity, error, warning
from tao_sdk.model.plan import Attempt
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.transports.kube import Kube, KubeError, ignored

FORBIDDEN = 403
KINDS = {"pvc": "persistentvolumeclaims", "secret": "secrets", "configmap": "configmaps"}


def survey(
    kube: Kube, job: PreparedJob, options: KubernetesOptions, facts: KubernetesFacts
) -> KubernetesFacts:
    """Return `facts` with the cluster's answers. Raises SpecError, Unreachable, CredentialError.

    Independent queries run in parallel: a cluster may be far away.
    """
    namespace = options.namespace or facts.namespace
    see_nodes = partial(with_nodes, kube, options, facts, sees_use(job, options))
    facts, rules = both(see_nodes, partial(rights.own_rules, kube, namespace))
    facts = with_gang_scheduler(kube, job, options, facts)
    attempt = Attempt("dry-run-0000000000", 1, "kubernetes", facts.cluster, "")
    request = render.plan(job, options, facts, attempt).request
    denied = list(rights.missing_rights(kube, namespace, rights.rights_of(request), rules))
    questions: list[Callable[[], Iterable[Finding]]] = [
        partial(storage_findings, kube, job, request, usable_nodes(request, facts)),
        partial(pull_secret_findings, kube, job, options, namespace, facts.pull_registry),
        partial(queue_findings, kube, namespace, options.queue),
    ]
    if not any(finding.severity is Severity.ERROR for finding in denied):
        questions.append(partial(dry_run_findings, kube, request))
    questions.append(partial(only_here_findings, job))
    found = ask_side_by_side(lambda question: list(question()), questions)
    return replace(facts, refusals=(*facts.refusals, *denied, *chain.from_iterable(found)))


def sees_use(job: PreparedJob, options: KubernetesOptions) -> bool:
    """True if the job depends on the resources that pods hold on the nodes."""
    return job.spec.gpu_count != 0 or options.gang == WAIT


def with_gang_scheduler(
    kube: Kube, job: PreparedJob, options: KubernetesOptions, facts: KubernetesFacts
) -> KubernetesFacts:
    """The facts with the gang scheduler for a job with several ranks, or with a warning if the role
    may not use it.
    """
    decisions = render.decide(job.spec, options, facts)
    if not render.wants_scheduler(options, decisions.nodes):
        return facts
    scheduler = gang_scheduler.find_scheduler(kube)
    if scheduler is None:
        return facts
    if gang_scheduler.may_use(kube, decisions.namespace, scheduler):
        return replace(facts, gang_scheduler=scheduler.name)
    refusal = gang_scheduler.not_yours(decisions.namespace, scheduler)
    return replace(facts, refusals=(*facts.refusals, refusal))


def with_nodes(
    kube: Kube, options: KubernetesOptions, facts: KubernetesFacts, with_pods: bool
) -> KubernetesFacts:
    """The facts with the nodes, as far as the role may see them. `with_pods`: add the resources in
    use, and the pods that hold GPUs.
    """
    try:
        known = nodes.list_nodes(kube)
    except KubeError as refused:
        if refused.status != FORBIDDEN:
            raise
        return replace(facts, nodes_unseen="Your role may not list the cluster's nodes.")
    if not with_pods:
        return replace(facts, nodes=known)
    try:
        used, holders = nodes.with_use(kube, known, options.gpu_resource)
    except KubeError as refused:
        if refused.status != FORBIDDEN:
            raise
        return replace(facts, nodes=known, use_unseen=True)
    return replace(facts, nodes=used, holders=holders)


def dry_run_findings(kube: Kube, request: KubernetesRequest) -> Iterator[Finding]:
    """An error if the cluster would refuse the Job, else if it would refuse a pod of it. A pod is
    not judged if the role may not create pods.
    """
    template = request.job["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {**template["metadata"], "name": request.name, "namespace": request.namespace}
    jobs, pods = jobs_path(request.namespace), core_path(request.namespace, "pods")
    job_refused, pod_refused = ask_side_by_side(
        lambda question: refusal_of(kube, *question), [(jobs, request.job), (pods, pod)]
    )
    if job_refused:
        yield would_refuse("Job", job_refused, request.namespace)
    elif pod_refused and not is_own_right(pod_refused):
        yield would_refuse("pod", pod_refused, request.namespace)


def refusal_of(kube: Kube, path: str, body: Mapping[str, Any]) -> KubeError | None:
    """The cluster's refusal of the object in a dry run; None if it accepts it."""
    try:
        kube.ask("POST", path, body, {"dryRun": "All"})
    except KubeError as refused:
        return refused
    return None


def is_own_right(refused: KubeError) -> bool:
    """True if our role may not create the pod itself. The Job's pods do not need that right."""
    return refused.status == FORBIDDEN and "cannot create resource" in refused.backend_words


def would_refuse(what: str, refused: KubeError, namespace: str) -> Finding:
    if refused.status == 404:
        return error(
            "kubernetes.no_namespace",
            f"The cluster does not take the {what}.",
            refused.what,
            "Name one that is there (--namespace, TAO_K8S_NAMESPACE): kubectl get namespaces",
        )
    return error(
        "kubernetes.refused",
        f"The cluster would refuse the {what}: {refused.what}",
        "",
        rules.advice_on(refused.what, namespace)
        or "Change what it names: the job's fields, or native.",
    )


def usable_nodes(request: KubernetesRequest, facts: KubernetesFacts) -> list[Node]:
    """The nodes that the pods' selector and tolerations allow, as far as nodes are known."""
    pod = request.job["spec"]["template"]["spec"]
    selector: Mapping[str, str] = pod.get("nodeSelector") or {}
    tolerations: Sequence[Mapping[str, str]] = pod.get("tolerations") or ()
    allowed = [node for node in facts.nodes or () if has_labels(node, selector)]
    return [node for node in allowed if not repelling(node, tolerations)]


def storage_findings(
    kube: Kube, job: PreparedJob, request: KubernetesRequest, usable: Sequence[Node]
) -> Iterator[Finding]:
    """Errors about the job's mounts, and a warning about mounts that the role may not see."""
    unseen: dict[str, Right] = {}
    for mount in read_volume_mounts(job.spec.mounts):
        if mount.scheme not in KINDS:
            continue
        try:
            yield from object_findings(kube, mount, request, usable)
        except KubeError as refused:
            if refused.status != FORBIDDEN:
                raise
            kind = KINDS[mount.scheme]
            unseen[kind] = Right("", kind, "get")
    if unseen:
        yield rights.unseen("mount.unseen", request.namespace, list(unseen.values()))


def only_here_findings(job: PreparedJob) -> Iterator[Finding]:
    """A warning for each input that is a path of this machine and lies on no mount of the job."""
    mounts = read_volume_mounts(job.spec.mounts)
    for key, path in job.absolute_inputs().items():
        if render.innermost(mounts, path) is None and is_here(path):
            yield warning(
                "input.not_mounted",
                f"The input {key} is {path} of this machine, and on no mount of the job.",
                "Unless the image has that path, the job ends before its command begins.",
                f"Send a small file with the job (--files NAME={path}), or name one on a claim "
                "(pvc://claim/path) or in a bucket (s3://bucket/key).",
            )


def is_here(path: str) -> bool:
    """True if this machine has the path, as far as this user may see."""
    with suppress(OSError, ValueError):
        return Path(path).exists()
    return False


def object_findings(
    kube: Kube, mount: VolumeMount, request: KubernetesRequest, usable: Sequence[Node]
) -> Iterator[Finding]:
    """Findings about a claim, secret or configmap that is missing or cannot be mounted."""
    kind, namespace = KINDS[mount.scheme], request.namespace
    found = look.get(kube, core_path(namespace, kind, mount.source))
    if found is None:
        yield error(
            "mount.missing",
            f"{mount.scheme}://{mount.source} is mounted and is not there.",
            f"Namespace {namespace} has no {kind} {mount.source}.",
            f"Correct the name: kubectl get {kind} -n {namespace}",
        )
    elif mount.scheme == "pvc":
        yield from claim_findings(found, waits_for_a_pod(kube, found), request.decisions.nodes)
        volume = volume_of(kube, found)
        if volume is not None:
            yield from place_findings(found, volume, usable)


def queue_findings(kube: Kube, namespace: str, queue: str) -> Iterator[Finding]:
    """A warning if nothing would start the job: no Kueue, or no such queue."""
    if not queue:
        return
    if look.get(kube, f"/apis/{look.KUEUE}") is None:
        what = f"The cluster has no Kueue: nothing starts a job of the queue {queue}."
        yield warning("kubernetes.queue", what, "", "Leave queue out, or install Kueue.")
        return
    path = f"/apis/{look.KUEUE}/{look.KUEUE_VERSIONS[0]}/namespaces/{namespace}/localqueues"
    with ignored(FORBIDDEN):
        if look.get(kube, f"{path}/{queue}") is None:
            what = f"Namespace {namespace} has no queue {queue}: the job waits until it has."
            yield warning("kubernetes.queue", what, "", f"kubectl get localqueues -n {namespace}")


def pull_secret_findings(
    kube: Kube,
    job: PreparedJob,
    options: KubernetesOptions,
    namespace: str,
    pull_registry: str,
) -> Iterator[Finding]:
    """An error for a missing pull secret, a warning for an NGC image without one."""
    name = options.image_pull_secret
    if not name:
        if job.spec.image.startswith(f"{NGC}/") and not pull_registry:
            what = f"{job.spec.image} is pulled without a log-in to {NGC}: NGC_KEY is not set."
            yield warning("kubernetes.pull_secret", what, "", pull_secret_advice(NGC, namespace))
        return
    try:
        found = look.get(kube, core_path(namespace, "secrets", name))
    except KubeError as refused:
        if refused.status != FORBIDDEN:
            raise
        yield rights.unseen("kubernetes.pull_secret", namespace, [Right("", "secrets", "get")])
        return
    if found is None:
        what = f"The pull secret {name} is not in namespace {namespace}."
        fix = pull_secret_advice(registry_of(job.spec.image), namespace, name)
        yield error("kubernetes.pull_secret", what, "", fix)


def pull_secret_advice(registry: str, namespace: str, name: str = "") -> str:
    secret = name or secret_name(registry)
    command = create_secret(registry, namespace, secret)
    return f"If it needs one: {command}, and image_pull_secret: {secret}."
