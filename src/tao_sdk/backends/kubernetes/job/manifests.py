"""The manifests of an attempt's objects. Pure.

Here: the Job, its Service, the Secrets and the ConfigMaps. Not here: the decisions (render.py) and
their creation (starting.py).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tao_sdk.backends.image_name import HUB_IN_CONFIG, HUB_NAME, split_registry
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.job.start_script import PARTS, RUN
from tao_sdk.backends.kubernetes.job.storage import VolumeMount
from tao_sdk.backends.kubernetes.options import WAIT, KubernetesOptions
from tao_sdk.model.plan import Attempt
from tao_sdk.model.secrets import SecretRef
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.units import parse_size

GRACE = 30  # seconds between SIGTERM and SIGKILL unless the caller says otherwise
GiB = 1024**3
SHM = 8 * GiB
NGC = "nvcr.io"
NGC_LOGIN = "--docker-username='$oauthtoken' --docker-password=$NGC_KEY"
OTHER_LOGIN = "--docker-username=USER --docker-password=PASSWORD"
QUEUE = "kueue.x-k8s.io/queue-name"
BASH = "/bin/bash"
OURS = {"app.kubernetes.io/managed-by": "tao-sdk"}


@dataclass(frozen=True)
class PodNeeds:
    """The decisions for the pods of one attempt."""

    spec: JobSpec
    options: KubernetesOptions
    attempt: Attempt
    namespace: str
    nodes: int
    gpus: int
    script: str
    parts: int  # number of ConfigMaps with the command; 0 if it is the script's argument
    command: str
    variables: Mapping[str, str | SecretRef]
    mounts: Sequence[VolumeMount]
    results_dir: str
    pull_registry: str = ""  # submit makes a Secret with the login to it; "" for no Secret
    gang_scheduler: str = ""

    @property
    def owns(self) -> bool:
        """True if the Job will own objects that its pods need."""
        has_secret = any(isinstance(value, SecretRef) for value in self.variables.values())
        is_gang = self.nodes > 1 or self.gang_scheduler
        return bool(has_secret or self.pull_registry or self.parts or is_gang)

    @property
    def name(self) -> str:
        return names.job_name(self.attempt)


def job_manifest(needs: PodNeeds) -> dict[str, Any]:
    """The Job. It starts suspended if its queue starts it, or its pods need other objects first."""
    spec: dict[str, Any] = {
        "suspend": needs.owns or bool(needs.options.queue),
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": needs.options.ttl,
        "parallelism": needs.nodes,
        "completions": needs.nodes,
        "template": pod_template(needs),
    }
    if needs.nodes > 1:
        spec["completionMode"] = "Indexed"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": needs.name,
            "namespace": needs.namespace,
            "labels": {**OURS, **names.labels(needs.attempt), **queue_label(needs.options)},
            "annotations": job_annotations(needs),
        },
        "spec": spec,
    }


def queue_label(options: KubernetesOptions) -> dict[str, str]:
    return {QUEUE: options.queue} if options.queue else {}


def job_annotations(needs: PodNeeds) -> dict[str, str]:
    limit = needs.spec.time_limit
    timed = {names.TIME_LIMIT: f"{limit.total_seconds():g}"} if limit else {}
    pull = {names.PULL_TIMEOUT: f"{needs.options.pull_timeout.total_seconds():g}"}
    return {names.RESULTS: needs.results_dir, **pull, **timed, **gang_annotation(needs)}


def gang_annotation(needs: PodNeeds) -> dict[str, str]:
    if needs.nodes == 1 or needs.options.gang != WAIT:
        return {}
    return {names.GANG_TIMEOUT: f"{needs.options.gang_timeout.total_seconds():g}"}


def pod_template(needs: PodNeeds) -> dict[str, Any]:
    metadata: dict[str, Any] = {"labels": {**OURS, **names.labels(needs.attempt)}}
    if needs.options.annotations:
        metadata["annotations"] = dict(needs.options.annotations)
    return {"metadata": metadata, "spec": {**pod_spec(needs), **placement(needs)}}


def pod_spec(needs: PodNeeds) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE,
        "enableServiceLinks": False,
        "containers": [container(needs)],
        "volumes": volumes(needs),
    }
    if needs.nodes > 1:
        spec["subdomain"] = needs.name
    return spec


def placement(needs: PodNeeds) -> dict[str, Any]:
    """The fields of the pod spec for nodes, priority, service account and pull secrets."""
    options = needs.options
    given: dict[str, Any] = {
        "nodeSelector": dict(options.node_selector),
        "tolerations": [dict(one) for one in options.tolerations],
        "priorityClassName": options.priority_class,
        "serviceAccountName": options.service_account,
        "hostNetwork": options.host_network,
        "imagePullSecrets": [{"name": name} for name in pull_secrets(needs)],
    }
    if options.host_network:
        given["dnsPolicy"] = "ClusterFirstWithHostNet"
    asked = {name: value for name, value in given.items() if value}
    return {**asked, "automountServiceAccountToken": bool(options.service_account)}


def pull_secrets(needs: PodNeeds) -> list[str]:
    """The Secrets with the login to the image's registry: the caller's own, else the job's."""
    if needs.options.image_pull_secret:
        return [needs.options.image_pull_secret]
    return [names.pull_name(needs.name)] if needs.pull_registry else []


def container(needs: PodNeeds) -> dict[str, Any]:
    argument = "" if needs.parts else needs.command
    given: dict[str, Any] = {
        "name": names.CONTAINER,
        "image": needs.spec.image,
        "command": [BASH, "-c", literal(needs.script), "tao", literal(argument)],
        "env": [variable(needs, name, value) for name, value in needs.variables.items()],
        "resources": resources(needs),
        "volumeMounts": volume_mounts(needs),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if needs.options.image_pull_policy:
        given["imagePullPolicy"] = needs.options.image_pull_policy
    return given


def literal(text: str) -> str:
    """Escape the text for the kubelet, which replaces $(NAME), and $$ by $."""
    return text.replace("$", "$$")


def variable(needs: PodNeeds, name: str, value: str | SecretRef) -> dict[str, Any]:
    if isinstance(value, SecretRef):
        key = {"name": names.secret_name(needs.name), "key": name}
        return {"name": name, "valueFrom": {"secretKeyRef": key}}
    return {"name": name, "value": literal(value)}


def resources(needs: PodNeeds) -> dict[str, Any]:
    """The limits, and requests equal to them, so that a pod gets all that it may use."""
    limits = {name: str(value) for name, value in needs.options.resources.items()}
    if needs.gpus:
        limits[needs.options.gpu_resource] = str(needs.gpus)
    if needs.spec.cpus:
        limits["cpu"] = f"{round(needs.spec.cpus * 1000)}m"
    if needs.spec.memory:
        limits["memory"] = str(parse_size(needs.spec.memory))
    return {"limits": limits, "requests": dict(limits)} if limits else {}


def shm_bytes(spec: JobSpec) -> int:
    """The size of /dev/shm in bytes: the spec's, else half of the memory, else 8 GiB."""
    if spec.shm_size:
        return parse_size(spec.shm_size)
    if spec.memory:
        return parse_size(spec.memory) // 2
    return SHM


def volumes(needs: PodNeeds) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {
            "name": "tao-shm",
            "emptyDir": {"medium": "Memory", "sizeLimit": str(shm_bytes(needs.spec))},
        }
    ]
    found += [mount.volume(name) for name, mount in own_volumes(needs.mounts).values()]
    if needs.parts:
        maps = [names.files_name(needs.name, part) for part in range(needs.parts)]
        sources = [{"configMap": {"name": name}} for name in maps]
        found.append({"name": "tao-parts", "projected": {"sources": sources}})
        found.append({"name": "tao-run", "emptyDir": {}})
    return found


def volume_mounts(needs: PodNeeds) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": "tao-shm", "mountPath": "/dev/shm"}]
    own = own_volumes(needs.mounts)
    found += [mount.mount(own[mount.storage][0]) for mount in needs.mounts]
    if needs.parts:
        found.append({"name": "tao-parts", "mountPath": PARTS, "readOnly": True})
        found.append({"name": "tao-run", "mountPath": RUN})
    return found


def own_volumes(mounts: Sequence[VolumeMount]) -> dict[tuple[str, str], tuple[str, VolumeMount]]:
    """The volumes of the mounts: storage -> (name of its volume, a mount of it). Mounts of one
    claim share a volume: a node may wait for ever for a second one.
    """
    found: dict[tuple[str, str], tuple[str, VolumeMount]] = {}
    for index, mount in enumerate(mounts):
        found.setdefault(mount.storage, (f"mount-{index}", mount))
    return found


def service_manifest(needs: PodNeeds) -> dict[str, Any] | None:
    """The headless Service that lets ranks find each other; None for one pod."""
    if needs.nodes == 1:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": needs.name,
            "namespace": needs.namespace,
            "labels": {**OURS, **names.labels(needs.attempt)},
        },
        "spec": headless_spec(needs.name),
    }


def headless_spec(job: str) -> dict[str, Any]:
    """The spec of a Service that resolves each pod of the Job by name, before it is ready too."""
    return {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {f"{names.BATCH}job-name": job},
    }


# Objects that are created once the Job's uid is known


def owner_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """The owner reference to this Job: the cluster deletes the object with it."""
    metadata = job["metadata"]
    names_job = {"name": metadata["name"], "uid": metadata["uid"]}
    return {"apiVersion": "batch/v1", "kind": "Job", **names_job}


def owned(kind: str, name: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """The head of an object that its Job owns."""
    metadata = job["metadata"]
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": own_labels(metadata["labels"]),
            "ownerReferences": [owner_of(job)],
        },
    }


def own_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The Job's labels without the queue's label, which would queue the object as well."""
    return {name: value for name, value in labels.items() if name != QUEUE}


def secret(job: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    name = names.secret_name(job["metadata"]["name"])
    data = {key: encoded(value.encode("utf-8", "surrogateescape")) for key, value in values.items()}
    return {**owned("Secret", name, job), "type": "Opaque", "immutable": True, "data": data}


def pull_secret(job: Mapping[str, Any], registry: str, login: Mapping[str, str]) -> dict[str, Any]:
    """The Secret with the login to a registry, in the form that nodes use."""
    name = names.pull_name(job["metadata"]["name"])
    pair = f"{login['username']}:{login['password']}".encode("utf-8", "surrogateescape")
    known = {"auths": {registry_key(registry): {"auth": encoded(pair)}}}
    data = {".dockerconfigjson": encoded(json.dumps(known).encode())}
    head = owned("Secret", name, job)
    return {**head, "type": "kubernetes.io/dockerconfigjson", "immutable": True, "data": data}


def registry_key(registry: str) -> str:
    """The key of a registry in a Docker login file."""
    return HUB_IN_CONFIG if registry == HUB_NAME else registry


def registry_of(image: str) -> str:
    return split_registry(image)[0] or HUB_NAME


def secret_name(registry: str) -> str:
    """The name that advice suggests for a new Secret with a login."""
    return "ngc-pull-secret" if registry == NGC else "pull-secret"


def create_secret(registry: str, namespace: str, name: str) -> str:
    """The kubectl command that creates a Secret with the login to a registry."""
    login = NGC_LOGIN if registry == NGC else OTHER_LOGIN
    return (
        f"kubectl create secret docker-registry {name} "
        f"--docker-server={registry_key(registry)} {login} -n {namespace}"
    )


def config_map(job: Mapping[str, Any], part: int, content: bytes) -> dict[str, Any]:
    name = names.files_name(job["metadata"]["name"], part)
    data = {f"command-{part:03}": encoded(content)}
    return {**owned("ConfigMap", name, job), "immutable": True, "binaryData": data}


def service(job: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    head = owned("Service", manifest["metadata"]["name"], job)
    return {**head, "spec": manifest["spec"]}


def headless_service(job: Mapping[str, Any]) -> dict[str, Any]:
    """The Service of an existing Job, under the Job's name."""
    name = job["metadata"]["name"]
    return {**owned("Service", name, job), "spec": headless_spec(name)}


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
