"""The nodes that a job may use, and the sizes of their resources. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tao_sdk.backends.kubernetes.facts import Node
from tao_sdk.backends.kubernetes.options import KubernetesOptions

SUFFIXES: Mapping[str, float] = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "E": 1e18, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip
KEEPS_OUT = ("NoSchedule", "NoExecute")


def quantity(text: Any) -> float:
    """Parse a resource quantity: `500m` is 0.5, `2Gi` is 2147483648. 0 for any other text."""
    given = str(text)
    number = given.rstrip("numkKMGTPEi")
    try:
        return float(number) * SUFFIXES[given[len(number) :]]
    except (ValueError, KeyError):
        return 0.0


def may_use(node: Node, options: KubernetesOptions) -> bool:
    """True if the job's selector and tolerations allow the node, healthy or not."""
    return has_labels(node, options.node_selector) and not repelling(node, options.tolerations)


def has_labels(node: Node, selector: Mapping[str, str]) -> bool:
    return all(node.labels.get(name) == str(value) for name, value in selector.items())


def repelling(node: Node, tolerations: Sequence[Mapping[str, Any]]) -> list[Mapping[str, str]]:
    """The taints of the node that keep the job out."""
    return [
        taint
        for taint in node.taints
        if taint.get("effect") in KEEPS_OUT
        and not any(tolerates(toleration, taint) for toleration in tolerations)
    ]


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    key = toleration.get("key")
    if key and key != taint.get("key"):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(key) and str(toleration.get("value", "")) == taint.get("value", "")
