"""The cluster's DNS, as far as jobs need it: `cluster_dns.py ADDRESS SERVER PKI`.

Answers what a pod asks for a Service, `<service>.<namespace>.svc.cluster.local`, and for one pod of
a headless one, `<hostname>.<service>.<namespace>.svc.cluster.local`. Every other name does not
exist: the tests' cluster has no way to the outside.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from support.kubernetes.kube_api import Api, ApiError

DOMAIN = ".svc.cluster.local"
SERVICES = "/api/v1/services"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
ADDRESS_TYPE, ANY_TYPE = 1, 255
NO_SUCH_NAME = 3
SECONDS_TO_KEEP = 5

Objects = dict[tuple[str, str], dict[str, Any]]


class Directory:
    """The Services and EndpointSlices of the cluster, kept up to date by watches."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.services: Objects = {}
        self.slices: Objects = {}

    def begin(self) -> None:
        for path, objects in ((SERVICES, self.services), (SLICES, self.slices)):
            threading.Thread(target=self.keep, args=(path, objects), daemon=True).start()

    def keep(self, path: str, objects: Objects) -> None:
        while True:
            try:
                self.follow(path, objects)
            except (OSError, ApiError, ValueError):
                traceback.print_exc()
                time.sleep(0.5)

    def follow(self, path: str, objects: Objects) -> None:
        for kind, item in self.api.follow(path):
            if kind == "RESTART":
                objects.clear()
                continue
            name = (item["metadata"]["namespace"], item["metadata"]["name"])
            if kind == "DELETED":
                objects.pop(name, None)
            else:
                objects[name] = item

    def addresses(self, name: str) -> list[str] | None:
        """The IPv4 addresses of a name, or None where it does not exist."""
        if not name.endswith(DOMAIN):
            return None
        labels = name.removesuffix(DOMAIN).split(".")
        if len(labels) not in (2, 3):
            return None
        service, namespace = labels[-2:]
        hostname = labels[0] if len(labels) == 3 else ""
        found = self.services.get((namespace, service))
        if found is None:
            return None
        own_address = found["spec"].get("clusterIP", "None")
        if own_address != "None":
            return None if hostname else [own_address]
        return self.pod_addresses(namespace, service, hostname) or None

    def pod_addresses(self, namespace: str, service: str, hostname: str) -> list[str]:
        addresses: set[str] = set()
        for (slice_namespace, _), endpoint_slice in list(self.slices.items()):
            labels = endpoint_slice["metadata"].get("labels", {})
            if (slice_namespace, labels.get("kubernetes.io/service-name")) != (namespace, service):
                continue
            for endpoint in endpoint_slice.get("endpoints") or []:
                if answers(endpoint, hostname):
                    addresses.update(endpoint["addresses"])
        return sorted(addresses)


def answers(endpoint: dict[str, Any], hostname: str) -> bool:
    """True for a ready pod of this name. `publishNotReadyAddresses` is in `ready` already."""
    if endpoint.get("conditions", {}).get("ready") is False:
        return False
    return not hostname or endpoint.get("hostname") == hostname


def asked(query: bytes) -> tuple[str, int, int]:
    """The name and type that a query asks for, and where its question ends."""
    labels: list[str] = []
    position = 12
    while length := query[position]:
        labels.append(query[position + 1 : position + 1 + length].decode())
        position += 1 + length
    [kind] = struct.unpack(">H", query[position + 1 : position + 3])
    return ".".join(labels).lower(), kind, position + 5


def reply(query: bytes, directory: Directory) -> bytes:
    name, kind, end = asked(query)
    addresses = directory.addresses(name)
    code = NO_SUCH_NAME if addresses is None else 0
    wanted = addresses or []
    if kind not in (ADDRESS_TYPE, ANY_TYPE):
        wanted = []
    header = query[:2] + struct.pack(">HHHHH", 0x8580 | code, 1, len(wanted), 0, 0)
    records = [
        b"\xc0\x0c"
        + struct.pack(">HHIH", ADDRESS_TYPE, 1, SECONDS_TO_KEEP, 4)
        + socket.inet_aton(address)
        for address in wanted
    ]
    return header + query[12:end] + b"".join(records)


def main(address: str, server: str, pki: str) -> None:
    directory = Directory(Api(server, Path(pki), "admin"))
    directory.begin()
    port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port.bind((address, 53))
    while True:
        query, peer = port.recvfrom(4096)
        port.sendto(reply(query, directory), peer)


if __name__ == "__main__":
    main(*sys.argv[1:])
