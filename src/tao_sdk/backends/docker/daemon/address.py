"""Address of the daemon: DOCKER_HOST, else the docker context, else this machine's socket."""

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
SYSTEM_SOCKETS = (SOCKET, "unix:///run/docker.sock")  # the daemon that systemctl starts


# The addresses that docker's own command takes. The host of ssh:// is left to ssh.
KNOWN = re.compile(
    r"(unix|npipe)://.+|/.+|ssh://.*|(tcp|http|https)://(\[[0-9a-fA-F:.]+\]|[^/:\s]+)(:\d+)?/?"
)


def find_address(settings: Settings) -> Address:
    """The address of the daemon in use. Raises UsageError for an invalid address."""
    address = configured_address(settings)
    if not KNOWN.fullmatch(address.url):
        where = "DOCKER_HOST" if settings.get("DOCKER_HOST") else "the docker context in use"
        raise UsageError(
            f"{address.url!r} is no address of a Docker daemon.",
            f"So says {where}.",
            "Write unix:///var/run/docker.sock, tcp://host:2376 or ssh://user@host.",
        )
    return address


def configured_address(settings: Settings) -> Address:
    host = settings.get("DOCKER_HOST")
    if host:
        return host_address(host, settings)
    return context_address(settings) or Address(SOCKET)


def host_address(host: str, settings: Settings) -> Address:
    """The address in DOCKER_HOST, with TLS by DOCKER_TLS_VERIFY and DOCKER_CERT_PATH."""
    verify = bool(settings.get("DOCKER_TLS_VERIFY"))
    certificates = settings.get("DOCKER_CERT_PATH") or ""
    if verify and not certificates:
        certificates = str(docker_folder(settings))
    if not host.startswith("tcp://"):
        certificates = ""
    named_by = "" if "DOCKER_HOST" in settings.only_explicit else "DOCKER_HOST"
    return Address(host, certificates, verify, named_by)


def docker_config(settings: Settings) -> Mapping[str, Any]:
    """The content of ~/.docker/config.json; empty if it is missing or invalid."""
    return read_json(docker_folder(settings) / "config.json")


def context_address(settings: Settings) -> Address | None:
    """The address of the context in use; None for the default one.

    Raises UsageError for a context that is not there.
    """
    name = context_name(settings)
    if name == "default":
        return None
    contexts = docker_folder(settings) / "contexts"
    key = hashlib.sha256(name.encode()).hexdigest()
    meta = read_json(contexts / "meta" / key / "meta.json")
    endpoint = inner_mapping(inner_mapping(meta, "Endpoints"), "docker")
    if not endpoint.get("Host"):
        raise UsageError(
            f"There is no docker context {name!r}.",
            "Jobs would run on another machine than is meant.",
            "See docker context ls; set DOCKER_CONTEXT.",
        )
    tls = contexts / "tls" / key / "docker"
    certificates = str(tls) if tls.is_dir() else ""
    verify = not endpoint.get("SkipTLSVerify")
    return Address(str(endpoint["Host"]), certificates, verify, f"The docker context {name!r}")


def context_name(settings: Settings) -> str:
    """The name of the docker context in use, "default" for docker's own."""
    name = settings.get("DOCKER_CONTEXT") or docker_config(settings).get("currentContext")
    return str(name or "default")


def is_system_socket(address: Address) -> bool:
    """True for the daemon that this machine's service `docker` starts."""
    return address.url in SYSTEM_SOCKETS


def way_to(address: Address) -> dict[str, str]:
    """The settings by which `find_address` finds this address again in any docker context."""
    way = {"DOCKER_HOST": address.url}
    if address.certificates:
        way["DOCKER_CERT_PATH"] = address.certificates
        if address.verify:
            way["DOCKER_TLS_VERIFY"] = "1"
    return way


def inner_mapping(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The mapping under a name; empty if it is missing or no mapping."""
    value: Any = data.get(name)
    if not isinstance(value, dict):
        return {}
    return cast("Mapping[str, Any]", value)


def read_json(path: Path) -> Mapping[str, Any]:
    """The JSON object in a file; empty if there is none."""
    try:
        with path.open(encoding="utf-8") as file:
            return json_object(file.read(LONGEST_FILE)) or {}
    except (OSError, ValueError, RecursionError):
        return {}


def is_open(address: Address) -> bool:
    """True if anyone on the way to the daemon can read what is sent."""
    if address.url.startswith("tcp://"):
        return not address.certificates
    return address.url.startswith("http://")


def is_local(address: Address) -> bool:
    return address.url.startswith(("unix://", "npipe://", "/"))
