"""Pull login: the caller's own login to the registry of a job's image, for a Secret of the job."""

from __future__ import annotations

from collections.abc import Mapping

from tao_sdk.backends.image_name import HUB_NAME
from tao_sdk.backends.kubernetes.job.manifests import registry_of
from tao_sdk.backends.kubernetes.options import AUTO, KubernetesOptions
from tao_sdk.backends.registry_login import find_login
from tao_sdk.model.errors import Refused, UsageError
from tao_sdk.model.finding import Finding, error
from tao_sdk.model.settings import Settings


def pull_registry(image: str, options: KubernetesOptions, settings: Settings) -> str:
    """The registry for which submit makes a pull secret; "" if it makes none."""
    if options.pull_secret != AUTO or options.image_pull_secret:
        return ""
    registry = registry_of(image)
    return registry if find_password(registry, settings) else ""


def find_password(registry: str, settings: Settings) -> Mapping[str, str]:
    """The caller's login to a registry; empty without one that has a user name and a password.

    The package docker reads Docker's logins. It need not be installed.
    """
    if not registry:
        return {}
    try:
        login, _ = find_login(registry, settings)
    except (ImportError, UsageError):  # a broken Docker file stops no job here
        return {}
    return login if login.get("username") and login.get("password") else {}


def no_login(registry: str) -> Refused:
    return Refused(
        f"There is no login to {registry}.",
        "The job was planned with a pull secret that is made of it.",
        f"Export NGC_KEY for nvcr.io; else run: docker login {registry}",
    )


def unused_login(registry: str) -> Finding:
    """The error for a private image if the job has no login to its registry."""
    name = registry or HUB_NAME
    return error(
        "kubernetes.pull_secret",
        f"The image is private, and the job brings no login to {name}.",
        "It names no image_pull_secret, and pull_secret makes none.",
        "Name one of the namespace: --image-pull-secret NAME, or have one made: --pull-secret auto",
    )
