"""Backends by name: this package's own, and those that other packages add as entry points.

A backend is imported when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_sdk.model.endpoint import NamedEndpoint
from tao_sdk.model.errors import TaoError, UsageError
from tao_sdk.model.settings import Settings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from tao_sdk.backends.contract import AnyBackend

GROUP = "tao_sdk.backends"

BUILT_IN = {
    "local": "tao_sdk.backends.local.backend:LocalBackend",
    "docker": "tao_sdk.backends.docker.backend:DockerBackend",
    "slurm": "tao_sdk.backends.slurm.backend:SlurmBackend",
    "kubernetes": "tao_sdk.backends.kubernetes.backend:KubernetesBackend",
    "lepton": "tao_sdk.backends.lepton.backend:LeptonBackend",
}
NOT_BUILT = ("brev",)
# Platforms' own command lines. People type their subcommands to ours by habit.
TOOLS = frozenset({"docker", "podman", "kubectl"})
ALIASES = {"local-docker": "docker", "remote-docker": "docker", "k8s": "kubernetes"}


class NotBuilt(TaoError, ImportError):
    """The documents name this platform, but this version does not have it."""

    code = "platform.not_built"

    __str__ = TaoError.__str__


def platform_name(name: str) -> str:
    """Our name for a platform: `k8s` is kubernetes."""
    return ALIASES.get(name, name)


def platforms() -> list[str]:
    """Every platform that can be used here."""
    return sorted({*BUILT_IN, *_brought()})


def backend_class(name: str) -> type[Any]:
    """The class of a platform's backend.

    Raises UsageError for an unknown name, NotBuilt for a platform of a later version.
    """
    name = platform_name(name)
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return getattr(import_module(module), attribute)
    brought = _brought()
    if name in brought:
        return brought[name].load()
    if name in NOT_BUILT:
        raise not_built(name)
    raise unknown(name)


def platform_of_scheme(scheme: str) -> str:
    """The platform whose files have addresses of that scheme; "" if none has."""
    for name in platforms():
        if scheme in backend_class(name).capabilities.path_schemes:
            return name
    return ""


def open_backend(name: str, settings: Settings, state_dir: Path | None = None) -> AnyBackend:
    return backend_class(name)(settings, state_dir or settings.state_dir)


def _brought() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP) if point.name not in BUILT_IN}


def is_known(name: str) -> bool:
    """True if it names a platform, even one of a later version."""
    return name in (*BUILT_IN, *NOT_BUILT, *ALIASES) or name in _brought()


def endpoints(settings: Settings) -> Mapping[str, NamedEndpoint]:
    """The endpoints in config.yaml, by name. Raises UsageError with the file and line at fault."""
    return {name: checked_endpoint(endpoint) for name, endpoint in settings.endpoints.items()}


def checked_endpoint(endpoint: NamedEndpoint) -> NamedEndpoint:
    if is_known(endpoint.name):
        raise UsageError(
            f"{endpoint.place}: {endpoint.name} is the name of a platform.",
            "",
            "Name it otherwise.",
        )
    if not is_known(endpoint.platform):
        error = unknown(endpoint.platform)
        raise UsageError(
            f"{endpoint.platform_place}: unknown platform {endpoint.platform!r}.",
            "",
            error.next,
            error.command,
        )
    checked = replace(endpoint, platform=platform_name(endpoint.platform))
    checked.read_settings()
    return checked


def platform_at(name: str, settings: Settings) -> str:
    """The platform for the name of a platform or of an endpoint.

    Raises UsageError if the name is neither.
    """
    known = endpoints(settings)
    if name in known:
        return known[name].platform
    if not is_known(name):
        raise unknown(name, known)
    return platform_name(name)


def not_built(name: str) -> NotBuilt:
    return NotBuilt(
        f"The platform {name} is not part of this version.",
        "",
        f"Here are: {', '.join(platforms())}.",
    )


def unknown(name: str, endpoints: Collection[str] = ()) -> UsageError:
    """The error for an unknown platform, with the nearest known name or all of them."""
    import difflib

    known = [*sorted({*platforms(), *NOT_BUILT, *ALIASES}), *endpoints]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Known are: {', '.join(known)}."
    return UsageError(f"unknown platform: {name!r}", "", hint)
