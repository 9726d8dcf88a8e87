"""Access to a Kubernetes cluster, by kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from tao_sdk.model.finding import Finding, Severity, error
from tao_sdk.model.machines import Gpu, Machines, image_archs, labelled_gpus, most_gpus
from tao_sdk.model.printable import printable
from tao_sdk.preflight.access import Access, find_image, read_mapping, smoke_by_package
from tao_sdk.preflight.commands import Answer
from tao_sdk.preflight.datasets import NotSeen, Place
from tao_sdk.preflight.kubectl_trouble import Target, trouble_finding
from tao_sdk.preflight.places import Unseen

TARGET = "jsonpath={.current-context} {.clusters[0].cluster.server}"
NO_POD = (
    "A path of a claim is seen from a pod only.",
    "Mount the claim in a pod and look there, or put the data in a bucket: s3://...",
)


class KubernetesAccess(Access):
    """A cluster, by kubectl."""

    def kubectl(self, *words: str) -> Answer:
        context = self.check.environ.get("TAO_K8S_CONTEXT", "")
        return self.check.ask("kubectl", *(("--context", context) if context else ()), *words)

    def paths(self) -> Place:
        return Unseen(*NO_POD)

    def findings(self) -> Iterator[Finding]:
        space = self.check.environ.get("TAO_K8S_NAMESPACE") or "default"
        answer = self.kubectl("auth", "can-i", "create", "jobs.batch", "--namespace", space)
        told = answer.out.strip()
        if told == "yes":
            yield Finding(Severity.OK, "kubernetes.jobs", f"You may create Jobs in {space}.")
        elif told == "no":
            yield error(
                "kubernetes.jobs",
                f"You may not create Jobs in the namespace {space}.",
                "",
                "Ask the cluster's administrator, or set TAO_K8S_NAMESPACE.",
            )
        else:
            yield trouble_finding(answer.words, self.target())
        if self.check.image:
            yield from self.image_findings()
        if self.check.smoke_image:
            yield smoke_by_package("kubernetes", self.check.smoke_image)

    def target(self) -> Target:
        """The cluster that kubectl asks, from the kubeconfig alone."""
        shown = self.kubectl("config", "view", "--minify", "-o", TARGET)
        context, _, server = shown.out.strip().partition(" ")
        if not shown.ok:
            return Target(self.check.environ.get("TAO_K8S_CONTEXT", ""))
        return Target(printable(context), printable(server))

    def image_findings(self) -> Iterator[Finding]:
        """Check an image that the nodes' kubelets fetch."""
        try:
            archs = image_archs(map(node_arch, self.nodes()))
        except NotSeen:
            archs = ()  # the GPUs are looked for by the same question, and say so
        _, findings, _ = find_image(self.check, Machines(archs=archs))
        yield from findings

    def gpus(self) -> list[Gpu]:
        """The GPUs of the largest node."""
        return most_gpus(map(node_gpus, self.nodes()))

    def nodes(self) -> list[Any]:
        """The nodes of the cluster. Raises NotSeen."""
        answer = self.kubectl("get", "nodes", "-o", "json")
        if not answer.ok:
            raise NotSeen(answer.words, "Allow your role to list nodes.")
        items: Any = read_mapping(answer.out).get("items")
        return cast("list[Any]", items) if isinstance(items, list) else []


# Nodes


def node_gpus(node: Any) -> list[Gpu]:
    """The GPUs that the node offers, with the labels of GPU feature discovery."""
    try:
        labels: dict[str, str] = node["metadata"].get("labels") or {}
        count = int(node["status"]["allocatable"].get("nvidia.com/gpu", "0"))
        return labelled_gpus(labels, count)
    except (AttributeError, KeyError, TypeError, ValueError):
        return []


def node_arch(node: Any) -> str:
    try:
        return str(node["status"]["nodeInfo"]["architecture"])
    except (KeyError, TypeError):
        return ""
