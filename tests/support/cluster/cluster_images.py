"""The images of the tests' cluster, as squashfs files on it and in two real registries, one of
which wants a password.

Here: how they get there. Not here: what fetches them (stand_ins/enroot).
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from support.cluster.cluster_files import PRIVATE_REGISTRY, REGISTRY
from support.cluster.cluster_here import START_SECONDS, Cluster, listens, need, until
from support.dockerd import dockerd_here

CACHE = dockerd_here.ROOT / ".cache" / "slurm"
IMAGES = "/lustre/images"  # as the cluster sees them
PYTHON, BUSYBOX = f"{IMAGES}/python.sqsh", f"{IMAGES}/busybox.sqsh"
HUB_NAME = "tests/busybox:1"  # in the registry without a password, which stands for Docker Hub
NGC_NAME = "nvcr.io/nvidia/tao/busybox:1"  # in the one with
NGC_KEY = "nvapi-for-the-tests-alone"
PACKAGES = {
    "/usr/bin/docker-registry": "docker-registry", "/usr/bin/htpasswd": "apache2-utils",
    "/usr/bin/mksquashfs": "squashfs-tools", "/usr/bin/busybox": "busybox-static",
    "/usr/sbin/debootstrap": "debootstrap",
}  # fmt: skip
ROOTS = {PYTHON: dockerd_here.debian_root, BUSYBOX: dockerd_here.busybox_root}
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def place(cluster: Cluster) -> None:
    """PYTHON and BUSYBOX are there."""
    for path, made in make_all().items():
        there = cluster.path(path)
        if not there.exists():
            subprocess.run(["cp", "--reflink=auto", made, there], check=True)


def make_all() -> dict[str, Path]:
    """The images by their paths on a cluster. Made once for all sessions, of the same roots as the
    Docker tests' images.
    """
    need(PACKAGES)
    dockerd_here.CACHE.mkdir(parents=True, exist_ok=True)
    images = {path: CACHE / Path(path).name for path in ROOTS}
    for path, made in images.items():
        with dockerd_here.alone(CACHE):
            if not made.exists():
                make(ROOTS[path](), made)
    return images


def make(root: Path, made: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        subprocess.run(["tar", "-C", folder, "-xf", root], check=True)
        for name in ("proc", "sys", "dev", "tmp"):
            (Path(folder) / name).mkdir(exist_ok=True)
        fast = [
            "-noappend",
            "-no-progress",
            "-quiet",
            "-comp",
            "lzo",
            "-Xalgorithm",
            "lzo1x_1",
            "-noI",
        ]
        subprocess.run(
            ["mksquashfs", folder, f"{made}.part", *fast], check=True, capture_output=True
        )
    Path(f"{made}.part").rename(made)


class Registry:
    """Debian's docker-registry on a port of the cluster, with a password or without one."""

    def __init__(self, cluster: Cluster, private: bool) -> None:
        self.cluster, self.private = cluster, private
        self.port = cluster.place.port(PRIVATE_REGISTRY if private else REGISTRY)
        self.address = f"http://127.0.0.1:{self.port}"
        self.folder = cluster.folder / ("private-registry" if private else "registry")

    def start(self) -> None:
        self.folder.mkdir()
        auth = ""
        if self.private:
            made = subprocess.run(
                ["htpasswd", "-niB", "$oauthtoken"],
                input=NGC_KEY,
                check=True,
                capture_output=True,
                text=True,
            )
            (self.folder / "users").write_text(made.stdout.strip() + "\n")
            auth = f"auth: {{htpasswd: {{realm: test, path: {self.folder}/users}}}}\n"
        (self.folder / "config.yml").write_text(
            f"version: 0.1\nlog: {{level: info}}\nhttp: {{addr: '127.0.0.1:{self.port}'}}\n{auth}"
            f"storage: {{filesystem: {{rootdirectory: {self.folder}/store}}}}\n"
        )
        name = self.folder.name
        self.cluster.run("", name, "docker-registry", "serve", str(self.folder / "config.yml"))
        until(lambda: listens("127.0.0.1", self.port), START_SECONDS, self.cluster.words)

    def push(self, root: Path, name: str) -> str:
        """An image of one layer, under `path:tag`; its digest."""
        path, _, tag = name.rpartition(":")
        layer = self.blob(path, gzip.compress(root.read_bytes(), 1))
        config = self.blob(
            path, json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {}}).encode()
        )
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json", **config},
            "layers": [{"mediaType": LAYER, **layer}],
        }
        body = json.dumps(manifest).encode()
        self.send("PUT", f"{self.address}/v2/{path}/manifests/{tag}", body, MANIFEST)
        return f"sha256:{hashlib.sha256(body).hexdigest()}"

    def blob(self, path: str, data: bytes) -> dict[str, str | int]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        where = self.send("POST", f"{self.address}/v2/{path}/blobs/uploads/")
        self.send(
            "PUT",
            f"{where}{'&' if '?' in where else '?'}digest={digest}",
            data,
            "application/octet-stream",
        )
        return {"digest": digest, "size": len(data)}

    def send(
        self, method: str, address: str, data: bytes = b"", kind: str = "application/json"
    ) -> str:
        request = urllib.request.Request(
            address, data=data, method=method, headers={"Content-Type": kind}
        )
        if self.private:
            who = base64.b64encode(f"$oauthtoken:{NGC_KEY}".encode()).decode()
            request.add_header("Authorization", f"Basic {who}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.headers.get("Location") or ""

    def pulls(self, name: str) -> int:
        """How often somebody has asked for an image's manifest and got it."""
        path, _, tag = name.rpartition(":")
        log = (self.cluster.folder / "log" / f"{self.folder.name}.out").read_text(errors="replace")
        wanted = f'"GET /v2/{path}/manifests/{tag} HTTP'
        return sum(1 for line in log.splitlines() if wanted in line and '" 200 ' in line)


@functools.cache
def registries(cluster: Cluster) -> tuple[Registry, Registry]:
    """The one without a password (Docker Hub to the cluster) and the one with (nvcr.io), each with
    the busybox image.
    """
    need(PACKAGES)
    dockerd_here.CACHE.mkdir(parents=True, exist_ok=True)
    public, private = Registry(cluster, private=False), Registry(cluster, private=True)
    for registry, name in ((public, HUB_NAME), (private, NGC_NAME.removeprefix("nvcr.io/"))):
        registry.start()
        registry.push(dockerd_here.busybox_root(), name)
    (cluster.folder / "bin/registries").write_text(
        f"hub {public.address}\nnvcr.io {private.address}\n"
    )
    return public, private
