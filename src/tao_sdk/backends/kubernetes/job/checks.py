"""Checks of a plan: errors that would stop the job, and warnings for its user. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tao_sdk.backends.gpu_spread import fewer_nodes
from tao_sdk.backends.kubernetes.facts import KubernetesFacts, Node
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.job.fitting import has_labels, quantity, repelling
from tao_sdk.backends.kubernetes.request import KubernetesRequest
from tao_sdk.model.finding import Finding, error, warning
from tao_sdk.model.plan import Plan

NO_GPU = "No {resource} resources allocatable on the cluster"
MOST_PODS = 110  # pods that a kubelet runs
SHORT_TTL = 60  # seconds; a watcher looks every few seconds
OPERATOR = (
    "Install the NVIDIA GPU Operator: "
    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html"
)


def check(plan: Plan[KubernetesRequest], facts: KubernetesFacts) -> list[Finding]:
    """Errors that would stop the job, and warnings that its user should read."""
    return [
        *facts.refusals,
        *fit_findings(plan.request, facts),
        *gang_findings(plan.request, facts),
        *results_findings(plan),
        *node_folder_findings(plan.request),
        *ttl_findings(plan.request),
    ]


def results_findings(plan: Plan[KubernetesRequest]) -> Iterator[Finding]:
    if plan.results_at.startswith("the pod of"):
        yield warning(
            "output.ephemeral",
            "The results stay in the pod and are lost with it.",
            "No mount holds /results, and no bucket is named.",
            "Set TAO_RESULTS_ROOT=s3://bucket/prefix, or mount a claim: pvc://claim:/results.",
        )


def node_folder_findings(request: KubernetesRequest) -> Iterator[Finding]:
    """Warn of each mounted folder of the nodes: a node that lacks it gives an empty one."""
    pod: Mapping[str, Any] = request.job["spec"]["template"]["spec"]
    volumes: list[dict[str, Any]] = pod.get("volumes") or []
    for volume in volumes:
        folder: dict[str, Any] = volume.get("hostPath") or {}
        path = folder.get("path")
        if path and not folder.get("type"):
            yield warning(
                "mount.of_node",
                f"{path} is mounted from the node that runs the pod, not from this machine.",
                "A node that lacks it gives the job an empty folder.",
                "Where the nodes lack it, mount a claim: pvc://claim/folder:/place.",
            )


def ttl_findings(request: KubernetesRequest) -> Iterator[Finding]:
    """Warn if the Job may be removed before anybody has looked at it once."""
    ttl = request.job["spec"].get("ttlSecondsAfterFinished")
    if ttl is None or ttl >= SHORT_TTL:
        return
    yield warning(
        "kubernetes.short_ttl",
        f"ttl is {ttl}: the cluster may remove the Job before anybody sees how it ended.",
        "A job whose image has no /bin/bash is lost then: nobody starts it anew with /bin/sh.",
        f"Use ttl: {SHORT_TTL} or more.",
    )


def gang_findings(request: KubernetesRequest, facts: KubernetesFacts) -> Iterator[Finding]:
    """An error if the job has `gang: wait` and the role cannot see when all its ranks find room."""
    waits = names.GANG_TIMEOUT in request.job["metadata"]["annotations"]
    if not waits or (facts.nodes is not None and not facts.use_unseen):
        return
    yield error(
        "kubernetes.gang",
        "gang is wait, and your role may not list the cluster's nodes and pods.",
        "Nobody could see when all ranks find room.",
        "A ClusterRole with get and list of nodes and pods allows it; or use gang: none.",
    )


# Room on the nodes


def fit_findings(request: KubernetesRequest, facts: KubernetesFacts) -> Iterator[Finding]:
    asked = asked_of(request.job)
    if facts.nodes is None:
        if facts.nodes_unseen and request.decisions.gpus:
            yield warning(
                "kubernetes.nodes_unseen",
                f"{facts.nodes_unseen} Whether a node can take the job is not checked.",
                "",
                "A ClusterRole with get and list of nodes allows it.",
            )
        return
    missing = [name for name in asked if is_device(name) and not has_any(facts.nodes, name)]
    if missing:
        what = f"{NO_GPU.format(resource=missing[0])}."
        yield error("gpu.none", what, described(facts.nodes, missing[0]), OPERATOR)
        return
    pod = request.job["spec"]["template"]["spec"]
    usable = [node for node in facts.nodes if can_ever_take(node, pod, asked)]
    if len(usable) == 0:
        yield fits_nowhere(facts.nodes, pod, asked)
        return
    if total_pods(usable, asked) < request.decisions.nodes:
        yield too_many_pods(request, usable, asked)
        return
    yield from wait_findings(request, facts, usable, asked)


def asked_of(job: Mapping[str, Any]) -> dict[str, float]:
    """The resources that each pod of the Job requests, those from `native` too."""
    total: dict[str, float] = {}
    for container in job["spec"]["template"]["spec"]["containers"]:
        given: Mapping[str, Any] = container.get("resources") or {}
        asked: dict[str, Any] = {**(given.get("limits") or {}), **(given.get("requests") or {})}
        for name, text in asked.items():
            total[name] = total.get(name, 0) + quantity(text)
    return total


def is_device(resource: str) -> bool:
    """True for the resource of a device plugin, such as nvidia.com/gpu."""
    return "/" in resource


def has_any(nodes: Sequence[Node], resource: str) -> bool:
    return any(node.allocatable.get(resource) for node in nodes)


def can_ever_take(node: Node, pod: dict[str, Any], asked: dict[str, float]) -> bool:
    """True if the node, when empty and healthy, takes the pod."""
    return not why_not(node, pod, asked)


def why_not(node: Node, pod: dict[str, Any], asked: dict[str, float]) -> str:
    """Why the node can never take the pod; "" if it can."""
    selector: dict[str, str] = pod.get("nodeSelector") or {}
    tolerations: list[dict[str, str]] = pod.get("tolerations") or []
    if not has_labels(node, selector):
        wanted = ", ".join(f"{name}={value}" for name, value in selector.items())
        return f"is not labelled {wanted}"
    if taints := repelling(node, tolerations):
        return f"has the taint {taints[0].get('key')}:{taints[0].get('effect')}"
    for name, count in asked.items():
        has = node.allocatable.get(name, 0)
        if has < count:
            return f"has {amount(name, has)} of {name}"
    return ""


def amount(resource: str, count: float) -> str:
    if resource == "memory":
        return f"{count / 2**30:.1f} GiB"
    return f"{count:g}"


def fits_nowhere(nodes: Sequence[Node], pod: dict[str, Any], asked: dict[str, float]) -> Finding:
    wanted = asked_words(asked)
    reasons = grouped([why_not(node, pod, asked) for node in nodes])
    return error(
        "kubernetes.fits_nowhere",
        f"No node can take a pod that asks for {wanted or 'nothing'}, even if all were empty.",
        f"Of {len(nodes)} nodes {reasons}.",
        "Ask for less, or change node_selector and tolerations.",
    )


def grouped(reasons: Sequence[str]) -> str:
    """`3: has the taint a:NoSchedule; 2: ...`: each reason once, after the number of nodes."""
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    return "; ".join(f"{count}: {reason}" for reason, count in counts.items())


def pods_on(node: Node, asked: dict[str, float], free: bool = False) -> int:
    """The number of such pods that the node takes when it is empty; with `free`, now."""
    fits: list[float] = []
    for name, count in asked.items():
        there = node.allocatable.get(name, 0)
        if free:
            there = node.free(name)
        if count:
            fits.append(there // count)
    return int(min(fits, default=MOST_PODS))


def total_pods(nodes: Sequence[Node], asked: dict[str, float], free: bool = False) -> int:
    return sum(max(pods_on(node, asked, free), 0) for node in nodes)


def too_many_pods(
    request: KubernetesRequest, usable: Sequence[Node], asked: dict[str, float]
) -> Finding:
    nodes, gpus = request.decisions.nodes, request.decisions.gpus
    most = total_pods(usable, asked)
    spread = f" with {gpus} GPUs each" if gpus else ""
    return error(
        "kubernetes.fits_nowhere",
        f"The job has {nodes} pods{spread}, and the cluster takes {most} at once, even if it were "
        "empty.",
        "; ".join(f"{node.name}: {pods_on(node, asked)}" for node in usable[:10]),
        fewer_nodes(most, gpus),
    )


def wait_findings(
    request: KubernetesRequest,
    facts: KubernetesFacts,
    usable: Sequence[Node],
    asked: dict[str, float],
) -> Iterator[Finding]:
    """Warn if the job will have to wait, and say what each node lacks."""
    if room_for(usable, asked) >= request.decisions.nodes:
        return
    reasons = [reason for node in usable if (reason := why_later(node, facts, asked))]
    yield warning(
        "kubernetes.waits",
        "The job will wait: no node has room for it now.",
        "; ".join(reasons[:10]),
        "Submit it and wait, or ask for less.",
    )


def room_for(usable: Sequence[Node], asked: dict[str, float]) -> int:
    """The number of such pods that these nodes take now."""
    open_nodes = [node for node in usable if node.ready and not node.cordoned]
    return total_pods(open_nodes, asked, free=True)


def fits_now(job: Mapping[str, Any], nodes: Sequence[Node]) -> bool:
    """True if the nodes have room for all pods of the Job."""
    asked, pod = asked_of(job), job["spec"]["template"]["spec"]
    usable = [node for node in nodes if can_ever_take(node, pod, asked)]
    return room_for(usable, asked) >= job["spec"]["completions"]


def why_later(node: Node, facts: KubernetesFacts, asked: dict[str, float]) -> str:
    if not node.ready:
        return f"{node.name} is not ready"
    if node.cordoned:
        return f"{node.name} is cordoned"
    for name, count in asked.items():
        if node.free(name) < count:
            return f"{what_is_left(node, name)}{who_holds(node, facts, name)}"
    return ""


def what_is_left(node: Node, name: str) -> str:
    left = amount(name, max(node.free(name), 0))
    return f"{node.name} has {left} of {amount(name, node.allocatable.get(name, 0))} {name} left"


def who_holds(node: Node, facts: KubernetesFacts, name: str) -> str:
    """`, held by ...`: the pods that hold the node's devices; "" if none is known."""
    holders = facts.holders.get(node.name, ())
    if not holders or not is_device(name):
        return ""
    return f", held by {', '.join(holders)}"


def room_words(job: Mapping[str, Any], facts: KubernetesFacts) -> str:
    """The requests of each pod of the Job, and why each node does not take one now; "" if the nodes
    are not known. Nodes that can never take one are counted; the others are listed by name.
    """
    if not facts.nodes:
        return ""
    asked, pod = asked_of(job), job["spec"]["template"]["spec"]
    never = [why for node in facts.nodes if (why := why_not(node, pod, asked))]
    usable = [node for node in facts.nodes if can_ever_take(node, pod, asked)]
    later = [why for node in usable if (why := why_later(node, facts, asked))]
    counted = [f"of {len(facts.nodes)} nodes {grouped(never)}"] if never else []
    return "; ".join([f"each pod asks for {asked_words(asked)}", *counted, *later[:10]])


def asked_words(asked: Mapping[str, float]) -> str:
    return ", ".join(f"{amount(name, count)} of {name}" for name, count in asked.items())


def described(nodes: Sequence[Node], resource: str) -> str:
    return f"The cluster has {len(nodes)} nodes, none of them with {resource}."
