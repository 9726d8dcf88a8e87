"""Find the cluster's gang scheduler, which starts all ranks of a job or none."""

from __future__ import annotations

from tao_sdk.backends.kubernetes import look
from tao_sdk.backends.kubernetes.cluster.rights import Right, is_granted
from tao_sdk.backends.kubernetes.job.pod_group import SCHEDULERS, GangScheduler
from tao_sdk.model.finding import Finding, warning
from tao_sdk.transports.kube import Kube


def find_scheduler(kube: Kube) -> GangScheduler | None:
    """The first gang scheduler whose API serves PodGroups, or None."""
    return next((each for each in SCHEDULERS.values() if serves_groups(kube, each)), None)


def serves_groups(kube: Kube, scheduler: GangScheduler) -> bool:
    served = look.get(kube, f"/apis/{scheduler.api}") or {}
    return any(each.get("name") == "podgroups" for each in served.get("resources") or ())


def may_use(kube: Kube, namespace: str, scheduler: GangScheduler) -> bool:
    return all(is_granted(kube, namespace, right) for right in rights_of(scheduler))


def rights_of(scheduler: GangScheduler) -> tuple[Right, ...]:
    return tuple(Right(scheduler.group, "podgroups", verb) for verb in ("create", "patch"))


def not_yours(namespace: str, scheduler: GangScheduler) -> Finding:
    rules = "; ".join(right.rule for right in rights_of(scheduler))
    return warning(
        "kubernetes.gang",
        f"The ranks of the job do not wait for each other: {scheduler.title} would start all at "
        f"once, but you may not create podgroups in namespace {namespace}.",
        "Ranks that run hold their GPUs while others wait.",
        f"Ask for a Role with these rules: {rules}; or use gang: wait.",
    )
