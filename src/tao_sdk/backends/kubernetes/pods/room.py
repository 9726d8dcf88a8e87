"""Room: for an attempt that no node takes, its requests, the nodes' resources and their holders.

Not here: the texts (job/checks.py), which the checks before submit use too.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from tao_sdk.backends.kubernetes import parse
from tao_sdk.backends.kubernetes.cluster import nodes
from tao_sdk.backends.kubernetes.facts import KubernetesFacts
from tao_sdk.backends.kubernetes.job import checks
from tao_sdk.backends.kubernetes.options import KubernetesOptions
from tao_sdk.backends.kubernetes.parse import Object, Seen
from tao_sdk.transports.kube import Kube, KubeError


def with_room_words(kube: Kube, seen: Seen) -> Seen:
    """The same, with details about the nodes after the scheduler's message, as far as the role may
    see the nodes.
    """
    if not any(map(parse.is_unschedulable, seen.pods)):
        return seen
    words = checks.room_words(seen.job, facts_now(kube, seen.job))
    if not words:
        return seen
    return replace(seen, pods=[parse.with_more_words(pod, words) for pod in seen.pods])


def facts_now(kube: Kube, job: Object) -> KubernetesFacts:
    """The nodes and the resources in use, without the parts that the role may not list."""
    facts = KubernetesFacts()
    with suppress(KubeError):
        facts = replace(facts, nodes=nodes.list_nodes(kube))
        used, holders = nodes.with_use(kube, facts.nodes or (), device_of(job))
        facts = replace(facts, nodes=used, holders=holders)
    return facts


def device_of(job: Object) -> str:
    """The first device resource that the Job's pods request, else the default one."""
    devices = filter(checks.is_device, checks.asked_of(job))
    return next(devices, KubernetesOptions().gpu_resource)
