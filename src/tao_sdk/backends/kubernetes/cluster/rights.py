"""Rights of the caller in a namespace: check them, and say what fails without one and which rule
grants it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from tao_sdk.backends.asking import ask_side_by_side
from tao_sdk.backends.kubernetes.request import KubernetesRequest
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.finding import Finding, error, warning
from tao_sdk.transports.kube import Kube, KubeError

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"

Rule = Mapping[str, Any]  # of a Role, as the cluster returns it


@dataclass(frozen=True)
class Right:
    """One verb on one kind of object. `needed`: True if no job can run without it."""

    group: str
    resource: str
    verb: str
    needed: bool = True

    @property
    def rule(self) -> str:
        """The rule of a Role that grants this right."""
        return (
            f'apiGroups: ["{self.group}"], resources: ["{self.resource}"], verbs: ["{self.verb}"]'
        )

    @property
    def kind(self) -> str:
        """The kind of object. A subresource, such as a pod's log, counts as its kind."""
        return self.resource.partition("/")[0]


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
# Right -> what does not work without it.
WITHOUT: Mapping[tuple[str, str], str] = {
    ("jobs", "create"): "no job can be submitted",
    ("jobs", "get"): "no job can be seen",
    ("jobs", "list"): "no list of jobs can be seen",
    ("jobs", "patch"): "no job can be started",
    ("jobs", "delete"): "no job can be canceled or removed",
    ("jobs", "watch"): "ends are seen later",
    ("pods", "list"): (
        "whether a job runs, why it waits and why it failed cannot be seen, nor its ranks and its "
        "log, and none can be canceled"
    ),
    ("pods", "watch"): "changes are seen later",
    ("pods", "delete"): "a cancel takes the grace of the pods, not the one that it is given",
    ("pods/log", "get"): "no log can be read, and no progress",
    ("events", "list"): "less is told of why a job waits or failed",
    ("secrets", "create"): "no job with a secret or a private image can be submitted",
    ("configmaps", "create"): "no job with a long command or files can be submitted",
    ("services", "create"): "no job of several nodes can be submitted",
    ("persistentvolumeclaims", "get"): "whether a claim is there and has a volume is not checked",
    ("secrets", "get"): "whether a Secret that the job names is there is not checked",
    ("configmaps", "get"): "whether a ConfigMap that the job names is there is not checked",
    ("storageclasses", "get"): (
        "whether a claim without a volume waits for the job's first pod is not checked"
    ),
}
# The API server's message when a role lacks a right.
REFUSED = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[\w/]+)" in API group "(?P<group>[\w.]*)"'
    r'(?: in the namespace "(?P<namespace>[\w-]+)")?'
)
FORBIDDEN = 403
SECRETS = Right("", "secrets", "create")
FILES = Right("", "configmaps", "create")
SERVICES = Right("", "services", "create")
ALL = (*RUN, SECRETS, FILES, SERVICES)


def rights_of(request: KubernetesRequest) -> list[Right]:
    """The rights to submit and watch this job."""
    secrets = request.environment or request.decisions.pull_registry
    own = {SECRETS: secrets, FILES: request.parts, SERVICES: request.service}
    return [*RUN, *(right for right, used in own.items() if used)]


def missing_rights(
    kube: Kube, namespace: str, rights: Sequence[Right], rules: Sequence[Rule]
) -> Iterator[Finding]:
    """One finding for each kind of object with missing rights. `rules`: the caller's own.

    For each right that no rule grants, ask the cluster: it need not return all its rules.
    """
    left = [right for right in rights if not any(grants(rule, right) for rule in rules)]
    granted = ask_side_by_side(partial(is_granted, kube, namespace), left)
    missing = [right for right, is_there in zip(left, granted, strict=True) if not is_there]
    for _, of_kind in groupby(sorted(missing, key=by_kind), key=by_kind):
        yield missing_finding(namespace, list(of_kind))


def own_rules(kube: Kube, namespace: str) -> Sequence[Rule]:
    """The caller's rules in the namespace; empty if the cluster does not return all of them."""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    try:
        status: Mapping[str, Any] = kube.ask("POST", RULES, body)["status"]
    except KubeError:
        return ()
    return () if status.get("incomplete") else status.get("resourceRules") or ()


def grants(rule: Rule, right: Right) -> bool:
    """True if the rule grants the right on every object of the kind."""
    _, slash, part = right.resource.partition("/")
    resources = {"*", right.resource, f"*/{part}" if slash else "*"}
    return bool(
        not rule.get("resourceNames")
        and {"*", right.verb} & set(rule.get("verbs") or ())
        and {"*", right.group} & set(rule.get("apiGroups") or ())
        and resources & set(rule.get("resources") or ())
    )


def by_kind(right: Right) -> str:
    return right.kind


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


def missing_finding(namespace: str, missing: Sequence[Right]) -> Finding:
    """An error if no job can run without one of these rights."""
    make = error if any(right.needed for right in missing) else warning
    return make(
        "kubernetes.right",
        lacks(namespace, missing),
        consequence(missing),
        request_for(missing, namespace),
    )


def unseen(code: str, namespace: str, missing: Sequence[Right]) -> Finding:
    """A warning that something could not be checked. `namespace`: "" for the whole cluster."""
    fix = request_for(missing, namespace)
    return warning(code, lacks(namespace, missing), consequence(missing), fix)


def refused_right(refused: KubeError) -> Unreachable | None:
    """The error for a role that lacks a right; None for a refusal of another kind."""
    found = REFUSED.search(refused.backend_words) if refused.status == FORBIDDEN else None
    if found is None:
        return None
    missing = [Right(found["group"], found["resource"], found["verb"])]
    namespace = found["namespace"] or ""
    return Unreachable(
        lacks(namespace, missing), consequence(missing), request_for(missing, namespace)
    )


def lacks(namespace: str, missing: Sequence[Right]) -> str:
    where = f"in namespace {namespace}" if namespace else "in the whole cluster"
    verbs: dict[str, list[str]] = {}
    for right in missing:
        verbs.setdefault(right.resource, []).append(right.verb)
    told = [f"{joined(names)} {resource}" for resource, names in verbs.items()]
    return f"You may not {joined(told)} {where}."


def joined(words: Sequence[str]) -> str:
    """`a, b or c`."""
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def consequence(missing: Iterable[Right]) -> str:
    """A sentence that says what does not work without these rights; "" if WITHOUT lists none."""
    known = [WITHOUT.get((right.resource, right.verb), "") for right in missing]
    told = "; ".join(dict.fromkeys(filter(None, known)))
    return f"{told[:1].upper()}{told[1:]}." if told else ""


def request_for(missing: Sequence[Right], namespace: str) -> str:
    """Advice with the rules that grant the rights, for a Role; for a ClusterRole if `namespace` is
    "".
    """
    kind = "Role" if namespace else "ClusterRole"
    return f"Ask for a {kind} with: {'; '.join(right.rule for right in missing)}."
