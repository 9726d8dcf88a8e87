"""Find the cluster of the settings, and the settings with which a later process finds it again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tao_sdk.model.settings import Settings
from tao_sdk.transports.kubeconfig import Cluster, find_cluster

DEFAULT_NAMESPACE = "default"


def kubeconfigs(settings: Settings) -> list[Path]:
    """The files in $KUBECONFIG, separated by `:`; without it ~/.kube/config."""
    given = settings.get("KUBECONFIG") or settings.environ.get("KUBECONFIG") or ""
    named = [Path(path) for path in given.split(os.pathsep) if path]
    return named or [settings.home / ".kube" / "config"]


def cluster(settings: Settings) -> Cluster:
    """The cluster of the settings.

    Raises CredentialError with each place that was tried and why it failed, UsageError for a
    context that does not exist.
    """
    return find_cluster(
        kubeconfigs(settings),
        settings.get("TAO_K8S_CONTEXT") or "",
        settings.environ.get("KUBERNETES_SERVICE_HOST", ""),
        settings.environ.get("KUBERNETES_SERVICE_PORT", ""),
    )


def namespace(settings: Settings) -> str:
    return settings.get("TAO_K8S_NAMESPACE") or DEFAULT_NAMESPACE


def way(found: Cluster, settings: Settings) -> Mapping[str, str]:
    """The settings that lead to this cluster. None of them is a secret."""
    given = {
        "KUBECONFIG": os.pathsep.join(str(Path(file).absolute()) for file in found.files),
        "TAO_K8S_CONTEXT": found.context,
        "TAO_K8S_NAMESPACE": settings.get("TAO_K8S_NAMESPACE") or "",
    }
    return {name: value for name, value in given.items() if value}
