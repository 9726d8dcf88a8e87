"""Node affinity: match nodes against a required affinity of Kubernetes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tao_sdk.backends.kubernetes.facts import Node

Object = Mapping[str, Any]
Test = Callable[[str | None, Sequence[str]], bool]


def is_number(text: str | None) -> bool:
    return (text or "").removeprefix("-").isdigit()


def is_greater(label: str | None, values: Sequence[str]) -> bool:
    return is_number(label) and int(label or 0) > int(values[0])


def is_less(label: str | None, values: Sequence[str]) -> bool:
    return is_number(label) and int(label or 0) < int(values[0])


# Operator -> test of a label's value (None without the label) against the operator's values.
OPERATORS: Mapping[str, Test] = {
    "In": lambda label, values: label in values,
    "NotIn": lambda label, values: label not in values,
    "Exists": lambda label, _: label is not None,
    "DoesNotExist": lambda label, _: label is None,
    "Gt": is_greater,
    "Lt": is_less,
}


def is_named(node: Node, required: Object) -> bool:
    """True if one of the affinity's terms matches the node, or if there is no affinity."""
    terms: Sequence[Object] = required.get("nodeSelectorTerms") or ()
    return not terms or any(meets_term(node, term) for term in terms)


def meets_term(node: Node, term: Object) -> bool:
    by_label: Sequence[Object] = term.get("matchExpressions") or ()
    by_name: Sequence[Object] = term.get("matchFields") or ()
    if not by_label and not by_name:  # an empty term matches no node
        return False
    labels = all(meets(node.labels.get(each["key"]), each) for each in by_label)
    return labels and all(meets(node.name, each) for each in by_name)


def meets(label: str | None, wanted: Object) -> bool:
    """True if the label meets the expression. An unknown operator counts as met: the cluster
    decides.
    """
    test = OPERATORS.get(str(wanted.get("operator")))
    return test is None or test(label, wanted.get("values") or ())
