"""Plain shell: the second Job of an attempt whose image has no bash. Pure.

A Job's command cannot be changed, so another Job takes the first one's place: the same Job with
/bin/sh, and `-sh` behind its name. Here: its manifest, and the objects that it takes over. Not
here: the order of the steps (starting.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.job.manifests import BASH, QUEUE, headless_service, owner_of

SH = "/bin/sh"
# Labels that the cluster adds to a Job to select its pods.
CLUSTERS_OWN = ("controller-uid", "job-name")
CLUSTERS_LABELS = {f"{prefix}{name}" for name in CLUSTERS_OWN for prefix in ("", names.BATCH)}

Object = Mapping[str, Any]


def second_job(first: Object) -> dict[str, Any]:
    """The same Job with /bin/sh, suspended. The first Job owns it until it is started, so that the
    cluster removes both together.
    """
    metadata, name = first["metadata"], first["metadata"]["name"]
    left_out = ("selector", "manualSelector")
    spec = {key: value for key, value in first["spec"].items() if key not in left_out}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": names.second_name(name),
            "namespace": metadata["namespace"],
            "labels": plain_labels(metadata["labels"]),
            "annotations": second_annotations(metadata),
            "ownerReferences": [owner_of(first)],
        },
        "spec": {**spec, "suspend": True, "template": second_template(name, spec["template"])},
    }


def plain_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Our labels only. The queue's label is left out: the queue would start the Job too early."""
    unwanted = {QUEUE, *CLUSTERS_LABELS}
    return {name: value for name, value in labels.items() if name not in unwanted}


def second_annotations(metadata: Object) -> dict[str, str]:
    """The annotations of the first Job, and the name of the queue that is to start the second."""
    given: Mapping[str, str] = metadata.get("annotations") or {}
    kept = {name: text for name, text in given.items() if not name.startswith(names.BATCH)}
    queue = metadata["labels"].get(QUEUE)
    return {**kept, names.QUEUED_BY: queue} if queue else kept


def second_template(first_name: str, template: Object) -> dict[str, Any]:
    """The second Job's pod template: with /bin/sh, and with its own DNS names."""
    text = json.dumps(template).replace(rank0(first_name), rank0(names.second_name(first_name)))
    changed = cast("dict[str, Any]", json.loads(text))
    changed["metadata"]["labels"] = plain_labels(changed["metadata"]["labels"])
    if changed["spec"].get("subdomain") == first_name:
        changed["spec"]["subdomain"] = names.second_name(first_name)
    for container in changed["spec"]["containers"]:
        if runs_bash(container):
            container["command"][0] = SH
    return changed


def rank0(name: str) -> str:
    """The DNS name of rank 0's pod for the other ranks."""
    return f"{name}-0.{name}"


def runs_bash(container: Object) -> bool:
    return container["name"] == names.CONTAINER and (container.get("command") or [""])[0] == BASH


def second_service(second: Object) -> dict[str, Any] | None:
    """The Service of a second Job with several ranks; None for one rank."""
    name = second["metadata"]["name"]
    if second["spec"]["template"]["spec"].get("subdomain") != name:
        return None
    return headless_service(second)


def owned_objects(first: Object) -> Iterator[tuple[str, str]]:
    """(kind, name) of the Secrets and ConfigMaps that the Job owns and its pods read."""
    name, pod = first["metadata"]["name"], first["spec"]["template"]["spec"]
    text = json.dumps(pod)
    for secret in (names.secret_name(name), names.pull_name(name)):
        if json.dumps(secret) in text:
            yield "secrets", secret
    part = 0
    while json.dumps(names.files_name(name, part)) in text:
        yield "configmaps", names.files_name(name, part)
        part += 1
