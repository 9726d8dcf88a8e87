"""Jobs made without the SDK: what the tests of the cluster itself run on it."""

from __future__ import annotations

from typing import Any

from support.kubernetes.kube_api import ApiError
from support.kubernetes.kube_files import BUSYBOX
from support.kubernetes.kube_here import Cluster, namespaced


def job(name: str, *command: str, image: str = BUSYBOX, **pod: Any) -> dict[str, Any]:
    """The manifest of a Job of one container."""
    container = {"name": "main", "image": image, "command": list(command), **pod.pop("main", {})}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **pod}}
    return {"metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": template}}


def start(cluster: Cluster, namespace: str, manifest: dict[str, Any]) -> str:
    """The path of the Job that was made."""
    jobs = f"{namespaced(namespace, 'batch/v1')}/jobs"
    return f"{jobs}/{cluster.api.create(jobs, manifest)['metadata']['name']}"


def end(cluster: Cluster, path: str) -> str:
    """How a Job ended: Complete or Failed."""

    def condition() -> str:
        conditions = cluster.api.get(path)["status"].get("conditions", [])
        ends = [each["type"] for each in conditions if each["type"] in ("Complete", "Failed")]
        return "".join(ends)

    return cluster.wait_for(condition)


def printed(cluster: Cluster, namespace: str, job_name: str) -> str:
    """The logs of a Job's pods, one after the other."""
    pods = f"{namespaced(namespace)}/pods"
    found = cluster.api.get(f"{pods}?labelSelector=job-name={job_name}")["items"]
    logs = (cluster.api.read(f"{pods}/{each['metadata']['name']}/log") for each in found)
    return b"".join(logs).decode()


def until_pods_are_refused(
    cluster: Cluster,
    namespace: str,
    words: str,
    manifest: dict[str, Any],
    labels: dict[str, str] | None = None,
) -> None:
    """Wait until the API server refuses the Job's pods with these words: a quota or a limit holds
    a while after it was made. `labels`: of the pods.
    """
    metadata = {"name": "try", "labels": labels or {}}
    pod = {"metadata": metadata, "spec": manifest["spec"]["template"]["spec"]}

    def is_refused() -> bool:
        try:
            cluster.api.create(f"{namespaced(namespace)}/pods?dryRun=All", pod)
        except ApiError as refused:
            return words in str(refused)
        return False

    cluster.wait_for(is_refused)
