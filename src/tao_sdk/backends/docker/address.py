"""Which daemon is meant: DOCKER_HOST, else the docker context, else the socket of this machine."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tao_sdk.model.settings import Settings
from tao_sdk.transports.dockerd import Address

SOCKET = "unix:///var/run/docker.sock"


def find_address(settings: Settings) -> Address:
    verify = bool(settings.environ.get("DOCKER_TLS_VERIFY"))
    certificates = settings.environ.get("DOCKER_CERT_PATH", "")
    if host := settings.get("DOCKER_HOST"):
        secure = host.startswith("tcp://") and (verify or certificates)
        return Address(host, (certificates or str(folder(settings))) if secure else "", verify)
    return of_context(settings) or Address(SOCKET)


def folder(settings: Settings) -> Path:
    return Path(settings.environ.get("DOCKER_CONFIG") or settings.home / ".docker")


def config(settings: Settings) -> dict[str, Any]:
    """~/.docker/config.json; empty where there is none that can be read."""
    return read_json(folder(settings) / "config.json")


def of_context(settings: Settings) -> Address | None:
    """The address of the context in use; None for the default one."""
    name = settings.environ.get("DOCKER_CONTEXT") or config(settings).get("currentContext") or "default"
    if name == "default":
        return None
    key = hashlib.sha256(name.encode()).hexdigest()
    endpoint = (
        read_json(folder(settings) / "contexts" / "meta" / key / "meta.json").get("Endpoints", {}).get("docker", {})
    )
    tls = folder(settings) / "contexts" / "tls" / key / "docker"
    verify = not endpoint.get("SkipTLSVerify")
    return Address(endpoint["Host"], str(tls) if tls.is_dir() else "", verify) if endpoint.get("Host") else None


def read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def is_local(address: Address) -> bool:
    return address.url.startswith(("unix://", "npipe://", "/"))
