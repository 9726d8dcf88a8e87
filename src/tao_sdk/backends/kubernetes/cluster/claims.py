"""Claims: check that the job's pods can mount a PersistentVolumeClaim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tao_sdk.backends.kubernetes import look, parse
from tao_sdk.backends.kubernetes.cluster import rights
from tao_sdk.backends.kubernetes.cluster.node_affinity import is_named
from tao_sdk.backends.kubernetes.facts import Node
from tao_sdk.backends.kubernetes.parse import Object
from tao_sdk.model.finding import Finding, error, warning
from tao_sdk.transports.kube import Kube, ignored

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLASS = rights.Right("storage.k8s.io", "storageclasses", "get")
FORBIDDEN = 403
MOST_NAMED = 5  # nodes in one finding
ONE_NODE = {"ReadWriteOnce", "ReadWriteOncePod"}


def claim_findings(claim: Object, waits: bool | None, pods: int) -> Iterator[Finding]:
    """Findings about a claim's state and access modes.

    `waits`: True if the volume is created once a pod uses the claim; None if the role cannot see
    that. `pods`: the number of the job's pods.
    """
    name, namespace = claim["metadata"]["name"], claim["metadata"]["namespace"]
    look_at = f"kubectl describe pvc {name} -n {namespace}"
    phase = claim["status"].get("phase")
    if phase == "Lost":
        yield error("mount.missing", f"The claim {name} has lost its volume.", "", look_at)
    elif phase != "Bound" and waits is None:
        yield rights.unseen("mount.unseen", "", [CLASS])
    elif phase != "Bound" and not waits:
        yield error(
            "mount.unbound",
            f"The claim {name} has no volume: it is {phase}.",
            "The job's pods would wait for it.",
            f"See what it waits for, and submit the job once it is Bound: {look_at}",
        )
    modes = set(claim["spec"].get("accessModes") or ())
    if pods > 1 and modes <= ONE_NODE:
        yield warning(
            "mount.one_node",
            f"The claim {name} is {', '.join(sorted(modes))}, and the job has {pods} pods.",
            "Only pods of one node can mount it; the others wait.",
            "Use a claim that is ReadWriteMany, or one node.",
        )


def place_findings(claim: Object, volume: Object, nodes: Sequence[Node]) -> Iterator[Finding]:
    """An error if the volume can be mounted on none of the nodes that the job may use."""
    affinity = parse.part(parse.part(volume["spec"], "nodeAffinity"), "required")
    if not nodes or any(is_named(node, affinity) for node in nodes):
        return
    name, namespace = claim["metadata"]["name"], claim["metadata"]["namespace"]
    may_use = ", ".join(node.name for node in nodes[:MOST_NAMED])
    yield error(
        "mount.elsewhere",
        f"The claim {name} cannot be mounted on any node that the job may use.",
        f"Its volume {volume['metadata']['name']} is tied to other nodes than {may_use}.",
        "Change node_selector or tolerations, or mount another claim: kubectl describe pv "
        f"{volume['metadata']['name']}; kubectl describe pvc {name} -n {namespace}",
    )


def volume_of(kube: Kube, claim: Object) -> Object | None:
    """The claim's volume; None without one, or without the right to read it."""
    name = claim["spec"].get("volumeName")
    if not name:
        return None
    with ignored(FORBIDDEN):
        return look.get(kube, f"/api/v1/persistentvolumes/{name}")
    return None


def waits_for_a_pod(kube: Kube, claim: Object) -> bool | None:
    """True if the storage class creates the volume only when a pod uses the claim; None if the role
    may not see the class.
    """
    name = claim["spec"].get("storageClassName")
    if claim["status"].get("phase") != "Pending" or not name:
        return False
    with ignored(FORBIDDEN):
        found = look.get(kube, f"{CLASSES}/{name}")
        return found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"
    return None
