"""Claims of the tests' cluster, with volumes that are folders of this computer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.kubernetes.kube_here import Cluster, namespaced
from support.waiting import until


def make_claim(
    cluster: Cluster,
    namespace: str,
    name: str,
    folder: Path | None = None,
    nodes: list[str] | None = None,
    **spec: Any,
) -> None:
    """A claim; with a folder of the node, one that is bound to it. `nodes`: those of its volume."""
    wants: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
        **spec,
    }
    if folder is not None:
        claim = {"namespace": namespace, "name": name}
        make_volume(cluster, f"{namespace}-{name}", folder, claim, nodes or [])
        wants["volumeName"] = f"{namespace}-{name}"
    claims = f"{namespaced(namespace)}/persistentvolumeclaims"
    cluster.api.create(claims, {"metadata": {"name": name}, "spec": wants})
    if folder is not None:
        until(lambda: cluster.api.get(f"{claims}/{name}")["status"].get("phase") == "Bound")


def make_volume(
    cluster: Cluster, name: str, folder: Path, claim: dict[str, str], nodes: list[str]
) -> None:
    on_them = {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}
    terms = [{"matchExpressions": [on_them]}]
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "hostPath": {"path": str(folder)},
        "claimRef": claim,
    }
    if nodes:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    cluster.api.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
