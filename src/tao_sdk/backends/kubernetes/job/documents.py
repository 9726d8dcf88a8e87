"""Documents: the objects of a plan as input for `kubectl apply`, without secret values. Pure.

Not here: how submit creates them, each owned by the Job (starting.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tao_sdk.backends.contract import PlanDocuments
from tao_sdk.backends.kubernetes.job import manifests
from tao_sdk.backends.kubernetes.request import KubernetesRequest
from tao_sdk.model.plan import Plan

Document = Mapping[str, Any]
NO_LOGIN = manifests.encoded(b"{}")  # accepted by the cluster as a login to no registry


def plan_documents(plan: Plan[KubernetesRequest]) -> PlanDocuments:
    """The documents of a plan, the Job last: the objects that it needs come first."""
    request = plan.request
    documents = [without_owner(each) for each in owned_documents(plan)]
    return PlanDocuments((*documents, request.job), tuple(notes(request)))


def owned_documents(plan: Plan[KubernetesRequest]) -> Iterator[Document]:
    """The Job's objects as submit creates them once it knows the Job's uid."""
    request = plan.request
    job = {**request.job, "metadata": {**request.job["metadata"], "uid": ""}}
    if request.environment:
        yield manifests.secret(job, dict.fromkeys(request.environment, ""))
    if request.decisions.pull_registry:
        yield without_login(manifests.pull_secret(job, "", {"username": "", "password": ""}))
    for part, file in enumerate(plan.files):
        yield manifests.config_map(job, part, file.content)
    if request.service is not None:
        yield manifests.service(job, request.service)
    if request.pod_group is not None:
        yield request.pod_group


def without_login(secret: Document) -> Document:
    return {**secret, "data": dict.fromkeys(secret["data"], NO_LOGIN)}


def without_owner(document: Document) -> Document:
    """The document without its owner, which exists only once the Job does. A Secret is not
    immutable here, so that its values can be added.
    """
    metadata = {
        name: value for name, value in document["metadata"].items() if name != "ownerReferences"
    }
    kept = {**document, "metadata": metadata}
    if document["kind"] == "Secret":
        kept.pop("immutable")
    return kept


def notes(request: KubernetesRequest) -> Iterator[str]:
    yield "These documents are what submit creates: kubectl apply --server-side -f FILE"
    if request.environment or request.decisions.pull_registry:
        yield f"The values of Secrets are left out: kubectl edit secret -n {request.namespace} NAME"
    if request.job["spec"]["suspend"] and not request.waits_in_queue:
        resume = f"kubectl patch job -n {request.namespace} {request.name} --type merge"
        yield f"""The Job is suspended: {resume} -p '{{"spec": {{"suspend": false}}}}'"""
    yield "A Job that is applied by hand is not known to tao."
