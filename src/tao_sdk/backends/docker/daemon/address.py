"""Which daemon is meant: DOCKER_HOST, else the docker context, else the socket of this machine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from tao_sdk.backends.outcome import json_object
from tao_sdk.backends.registry_login import docker_folder
from tao_sdk.model.errors import UsageError
from tao_sdk.model.settings import Settings
from tao_sdk.transports.dockerd import Address

LONGEST_FILE = 4 << 20  # characters of docker's own files
SOCKET = "unix:///var/run/docker.sock"


# What docker's own command takes, too. Where ssh goes is for ssh to say.
KNOWN = re.compile(
    r"(unix|npipe)://.+|/.+|ssh://.*|(tcp|http|https)://(\[[0-9a-fA-F:.]+\]|[^/:\s]+)(:\d+)?/?"
)


def find_address(settings: Settings) -> Address:
    """Raises UsageError for what is no address of a daemon."""
    found = named(settings)
    if not KNOWN.fullmatch(found.url):
        where = "DOCKER_HOST" if settings.get("DOCKER_HOST") else "the docker context in use"
        raise UsageError(
            f"{found.url!r} is no address of a Docker daemon.",
            f"So says {where}.",
            "Write unix:///var/run/docker.sock, tcp://host:2376 or ssh://user@host.",
        )
    return found


def named(settings: Settings) -> Address:
    verify = bool(settings.get("DOCKER_TLS_VERIFY"))
    certificates = settings.get("DOCKER_CERT_PATH") or ""
    if host := settings.get("DOCKER_HOST"):
        secure = host.startswith("tcp://") and (verify or certificates)
        folder = (certificates or str(docker_folder(settings))) if secure else ""
        named_by = "" if "DOCKER_HOST" in settings.only_explicit else "DOCKER_HOST"
        return Address(host, folder, verify, named_by)
    return of_context(settings) or Address(SOCKET)


def config(settings: Settings) -> Mapping[str, Any]:
    """~/.docker/config.json; empty where there is none that can be understood."""
    return read_json(docker_folder(settings) / "config.json")


def of_context(settings: Settings) -> Address | None:
    """The address of the context in use; None for the default one. Raises UsageError for one that
    is not there.
    """
    name = str(
        settings.get("DOCKER_CONTEXT") or config(settings).get("currentContext") or "default"
    )
    if name == "default":
        return None
    key = hashlib.sha256(name.encode()).hexdigest()
    endpoint = mapping(
        mapping(
            read_json(docker_folder(settings) / "contexts" / "meta" / key / "meta.json"),
            "Endpoints",
        ),
        "docker",
    )
    tls = docker_folder(settings) / "contexts" / "tls" / key / "docker"
    verify = not endpoint.get("SkipTLSVerify")
    if not endpoint.get("Host"):
        why = "Jobs would run on another machine than is meant."
        raise UsageError(
            f"There is no docker context {name!r}.",
            why,
            "See docker context ls; set DOCKER_CONTEXT.",
        )
    certificates = str(tls) if tls.is_dir() else ""
    return Address(str(endpoint["Host"]), certificates, verify, f"The docker context {name!r}")


def way_to(address: Address) -> dict[str, str]:
    """The settings by which `find_address` finds it again, whatever docker context
    is then in use.
    """
    way = {"DOCKER_HOST": address.url}
    if address.certificates:
        way["DOCKER_CERT_PATH"] = address.certificates
        if address.verify:
            way["DOCKER_TLS_VERIFY"] = "1"
    return way


def mapping(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What is there under a name; empty for what is no mapping."""
    found: Any = data.get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def read_json(path: Path) -> Mapping[str, Any]:
    """The JSON object in a file; empty where there is none."""
    try:
        with path.open(encoding="utf-8") as file:
            return json_object(file.read(LONGEST_FILE)) or {}
    except (OSError, ValueError, RecursionError):
        return {}


def is_open(address: Address) -> bool:
    """Whether everybody on the way to the daemon can read what is sent."""
    return address.url.startswith("http://") or (
        address.url.startswith("tcp://") and not address.certificates
    )


def is_local(address: Address) -> bool:
    return address.url.startswith(("unix://", "npipe://", "/"))
