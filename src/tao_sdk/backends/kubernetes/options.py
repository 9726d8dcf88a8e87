"""Options of the Kubernetes backend: how to run a job on a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from tao_sdk.model import fields as f
from tao_sdk.model.fields import Kind, setting

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
AUTO, WAIT, NONE = "auto", "wait", "none"
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


def read_label(value: Any) -> str:
    return read_matching(LABEL, value)


def read_subdomain(value: Any) -> str:
    return read_matching(SUBDOMAIN, value)


def read_matching(form: re.Pattern[str], value: Any) -> str:
    text = str(value)
    if text and not form.fullmatch(text):  # empty: as if it were not given
        raise ValueError
    return text


def read_tolerations(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Mappings as Kubernetes has them, or texts as `kubectl taint` writes taints."""
    if isinstance(value, (str, Mapping)) or not hasattr(value, "__iter__"):
        raise TypeError
    return tuple(read_toleration(one) for one in cast("list[Any]", value))


def read_toleration(value: Any) -> Mapping[str, Any]:
    """`key=value:Effect`, `key:Effect` or `key`; a mapping is taken as it is."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    taint, _, effect = str(value).partition(":")
    key, equals, wanted = taint.partition("=")
    if not key:
        raise ValueError
    toleration = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        toleration["value"] = wanted
    if effect:
        toleration["effect"] = effect
    return toleration


NAMESPACE = Kind("a name of lower-case letters, digits and -", read_label, {"type": "string"})
NAME = Kind("a name of lower-case letters, digits, - and .", read_subdomain, {"type": "string"})
TOLERATIONS = Kind(
    "a list of tolerations: mappings, or texts such as key=value:NoSchedule",
    read_tolerations,
    {"type": "array", "items": {"type": ["string", "object"]}},
    multiple=True,
)


@f.lists_fields()
@dataclass(frozen=True)
class KubernetesOptions:
    """What only the Kubernetes platform understands."""

    namespace: str = setting(
        NAMESPACE, "", "Namespace of the job. Default: $TAO_K8S_NAMESPACE, else default."
    )
    context: str = setting(
        f.TEXT, "", "Context of the kubeconfig. Default: $TAO_K8S_CONTEXT, else its current one."
    )
    image_pull_secret: str = setting(
        NAME, "", "Secret with the login to the image's registry, which is there already."
    )
    pull_secret: str = setting(
        f.choice(AUTO, NONE),
        AUTO,
        "auto: a Secret with your own login to the image's registry is made for the job.",
    )
    image_pull_policy: str | None = setting(
        f.choice(*PULL_POLICIES),
        None,
        "When nodes pull the image. Default: Kubernetes' own: missing, or :latest.",
    )
    pull_timeout: timedelta = setting(
        f.DURATION,
        timedelta(minutes=10),
        "How long nodes may fail to reach the image's registry until the attempt has failed.",
    )
    node_selector: Mapping[str, str] = setting(
        f.MAP_OF_TEXT, {}, "Labels that the job's nodes must have."
    )
    tolerations: tuple[Mapping[str, Any], ...] = setting(
        TOLERATIONS, (), "Taints of nodes that the job tolerates, such as gpu=yes:NoSchedule."
    )
    service_account: str = setting(
        NAME, "", "Service account whose token the job gets. Default: no token."
    )
    priority_class: str = setting(NAME, "", "Priority class of the job's pods.")
    resources: Mapping[str, str] = setting(
        f.MAP_OF_TEXT, {}, "Further resources of each pod, such as rdma/ib=1."
    )
    gpu_resource: str = setting(
        f.TEXT,
        "nvidia.com/gpu",
        "The resource that gpu_count counts, such as nvidia.com/mig-1g.5gb.",
    )
    host_network: bool = setting(f.YES_OR_NO, False, "The pods use the network of their nodes.")
    annotations: Mapping[str, str] = setting(f.MAP_OF_TEXT, {}, "Annotations of the job's pods.")
    queue: str = setting(
        NAME, "", "Queue (Kueue) that starts the job. It stays suspended until the queue does."
    )
    gang: str = setting(
        f.choice(AUTO, WAIT, NONE),
        AUTO,
        "How the ranks of a job start together. auto: by the cluster's gang scheduler, if it has "
        "one. wait: ranks that run give their nodes back if the others find none in time.",
    )
    gang_timeout: timedelta = setting(
        f.DURATION,
        timedelta(minutes=5),
        "With gang wait: how long ranks hold their nodes while others find none.",
    )
    ttl: int = setting(
        f.integer(0), 3600, "Seconds after its end until Kubernetes removes the job."
    )
