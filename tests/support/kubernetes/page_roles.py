"""The Roles that docs/kubernetes.md shows: what a job needs, and what lets more be seen."""

from __future__ import annotations

from typing import Any

import yaml

from support.kubernetes.kube_here import Cluster
from support.pages import ROOT, blocks

PAGE = ROOT / "docs" / "kubernetes.md"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def role_of_the_page() -> dict[str, Any]:
    """All that a job needs in its namespace."""
    return roles()[0]


def roles() -> list[dict[str, Any]]:
    """The Role that a job needs, then the Role and ClusterRole of the further rights."""
    texts = [block.text for block in blocks(PAGE) if block.language == "yaml"]
    return [role for text in texts for role in yaml.safe_load_all(text)]


def grant_further_rights(cluster: Cluster, namespace: str, account: str) -> None:
    """To a service account of the namespace, whose Role has the account's name."""
    needed, further, seeing = roles()
    path = f"{RBAC}/namespaces/{namespace}/roles/{account}"
    cluster.api.patch(path, {"rules": [*needed["rules"], *further["rules"]]})
    name = f"{namespace}-{account}"
    cluster.api.create(f"{RBAC}/clusterroles", {**seeing, "metadata": {"name": name}})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    cluster.api.create(f"{RBAC}/clusterrolebindings", binding)


def revoke_further_rights(cluster: Cluster, namespace: str, account: str) -> None:
    """Those in the whole cluster; a namespace's own end with it."""
    for kind in ("clusterrolebindings", "clusterroles"):
        cluster.api.delete(f"{RBAC}/{kind}/{namespace}-{account}")
