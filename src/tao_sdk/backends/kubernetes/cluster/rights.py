"""Rights: what the caller may do in a namespace, and the rule that grants what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from tao_sdk.backends.kubernetes.request import KubernetesRequest
from tao_sdk.model.finding import Finding, error, warning
from tao_sdk.transports.kube import Kube

AT_ONCE = 8  # questions: a distant server would be waited for after each
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True)
class Right:
    """One verb on one kind of object. Without a `needed` one no job can run."""

    group: str
    resource: str
    verb: str
    needed: bool = True

    @property
    def rule(self) -> str:
        """The rule of a Role that grants it."""
        return (
            f'apiGroups: ["{self.group}"], resources: ["{self.resource}"], verbs: ["{self.verb}"]'
        )


RUN = (
    Right("batch", "jobs", "create"),
    Right("batch", "jobs", "get"),
    Right("batch", "jobs", "list"),
    Right("batch", "jobs", "patch"),
    Right("batch", "jobs", "delete"),
    Right("", "pods", "list"),
    Right("", "pods/log", "get"),
    Right("batch", "jobs", "watch", needed=False),
    Right("", "pods", "watch", needed=False),
    Right("", "pods", "delete", needed=False),
    Right("", "events", "list", needed=False),
)
SECRETS = Right("", "secrets", "create")
FILES = Right("", "configmaps", "create")
SERVICES = Right("", "services", "create")


def rights_of(request: KubernetesRequest) -> list[Right]:
    """What submitting and watching this job needs."""
    secrets = request.environment or request.decisions.pull_registry
    own = {SECRETS: secrets, FILES: request.parts, SERVICES: request.service}
    return [*RUN, *(right for right, used in own.items() if used)]


def missing_rights(kube: Kube, namespace: str, rights: Sequence[Right]) -> Iterator[Finding]:
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="tao-rights") as threads:
        granted = list(threads.map(partial(is_granted, kube, namespace), rights))
    for right, is_there in zip(rights, granted, strict=True):
        if not is_there:
            yield missing_right(namespace, right)


def is_granted(kube: Kube, namespace: str, right: Right) -> bool:
    resource, _, part = right.resource.partition("/")
    attributes = {
        "namespace": namespace,
        "group": right.group,
        "resource": resource,
        "subresource": part,
        "verb": right.verb,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return bool(kube.ask("POST", REVIEWS, body)["status"].get("allowed"))


def missing_right(namespace: str, right: Right) -> Finding:
    what = f"You may not {right.verb} {right.resource} in namespace {namespace}."
    fix = f"Ask for a Role with this rule: {right.rule}."
    if right.needed:
        return error("kubernetes.right", what, "No job can run without it.", fix)
    return warning("kubernetes.right", what, "Less can be seen of a job without it.", fix)
