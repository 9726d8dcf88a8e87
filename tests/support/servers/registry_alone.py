"""Debian's docker-registry with a password and without TLS on this machine's loopback, and nothing
else: no daemon, no cluster.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support import marks
from support.cluster import cluster_images
from support.cluster.cluster_here import listens
from support.cluster.cluster_images import LAYER, MANIFEST, NGC_KEY
from support.servers import debian
from support.servers.ports import free_port
from support.waiting import until

NEEDS = {"docker-registry": "docker-registry", "htpasswd": "apache2-utils"}
USER = "$oauthtoken"
INDEX = "application/vnd.oci.image.index.v1+json"


class LoneRegistry(cluster_images.Registry):
    def __init__(self, folder: Path) -> None:
        self.folder, self.private = folder / "registry", True
        self.port = free_port()
        self.name = f"127.0.0.1:{self.port}"
        self.address = f"http://{self.name}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        marks.need("network")
        debian.need("network", NEEDS)
        self.folder.mkdir()
        argv = ["htpasswd", "-niB", USER]
        made = subprocess.run(argv, input=NGC_KEY.encode(), check=True, capture_output=True)
        (self.folder / "users").write_bytes(made.stdout.strip() + b"\n")
        (self.folder / "config.yml").write_text(
            f"version: 0.1\nlog: {{level: error}}\nhttp: {{addr: '{self.name}'}}\n"
            f"auth: {{htpasswd: {{realm: test, path: {self.folder}/users}}}}\n"
            f"storage: {{filesystem: {{rootdirectory: {self.folder}/store}}}}\n"
        )
        with (self.folder / "log").open("wb") as log:
            words = ["docker-registry", "serve", str(self.folder / "config.yml")]
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        until(lambda: listens("127.0.0.1", self.port))

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(60)

    def image(self, name: str, arch: str, layer: bytes) -> dict[str, Any]:
        """An image for an architecture, under `path:tag`; how an index names it."""
        path, _, tag = name.rpartition(":")
        config = self.blob(path, json.dumps({"architecture": arch, "os": "linux"}).encode())
        kind = "application/vnd.docker.container.image.v1+json"
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": kind, **config},
            "layers": [{"mediaType": LAYER, **self.blob(path, layer)}],
        }
        body = json.dumps(manifest).encode()
        self.send("PUT", f"{self.address}/v2/{path}/manifests/{tag}", body, MANIFEST)
        platform = {"architecture": arch, "os": "linux"}
        return {"mediaType": MANIFEST, "platform": platform, "size": len(body), **digest_of(body)}

    def index(self, name: str, images: Sequence[dict[str, Any]]) -> None:
        """Several images under one name."""
        path, _, tag = name.rpartition(":")
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": images}
        where = f"{self.address}/v2/{path}/manifests/{tag}"
        self.send("PUT", where, json.dumps(index).encode(), INDEX)

    def log_in(self, folder: Path) -> str:
        """A folder with what `docker login` keeps for the registry."""
        word = base64.b64encode(f"{USER}:{NGC_KEY}".encode()).decode()
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps({"auths": {self.name: {"auth": word}}}))
        return str(folder)


def digest_of(data: bytes) -> dict[str, str]:
    import hashlib

    return {"digest": f"sha256:{hashlib.sha256(data).hexdigest()}"}


@contextmanager
def lone_registry(folder: Path) -> Generator[LoneRegistry]:
    """With three images: tests/one:1 (amd64), tests/arm:1, and tests/both:1, an index of two."""
    registry = LoneRegistry(folder)
    registry.start()
    try:
        registry.image("tests/one:1", "amd64", b"x" * 1000)
        registry.image("tests/arm:1", "arm64", b"x" * 1000)
        images = [
            registry.image(f"tests/both:{arch}", arch, b"x" * size)
            for arch, size in (("amd64", 1000), ("arm64", 2000))
        ]
        registry.index("tests/both:1", images)
        yield registry
    finally:
        registry.stop()
