"""The images of the tests' cluster, made on this computer: PYTHON (Debian with bash, python3 and
numpy), BUSYBOX (neither bash nor python3) and what holds a pod's namespaces; and a registry.

Here: archives that containerd reads, and the registry with a password. Not here: how they get into
a cluster (kube_here.py).
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from support.cluster import cluster_images
from support.dockerd import dockerd_here
from support.kubernetes import kube_files, programs
from support.kubernetes.kube_files import BUSYBOX, PAUSE, PYTHON
from support.servers import debian
from support.waiting import until

if TYPE_CHECKING:
    from support.kubernetes.kube_here import Cluster

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PACKAGES = {"debootstrap": "debootstrap", "busybox": "busybox-static"}
REGISTRY_PACKAGES = {"docker-registry": "docker-registry", "htpasswd": "apache2-utils"}
CONFIG = "application/vnd.docker.container.image.v1+json"
PULLED = "tests/busybox:1"  # in the registry, which wants a password for it
REGISTRY_USER, REGISTRY_PASSWORD = "$oauthtoken", cluster_images.NGC_KEY


def archive(name: str) -> Path:
    """A docker archive of an image, made of the same roots as the Docker tests' images."""
    debian.need("kubernetes", PACKAGES)
    dockerd_here.CACHE.mkdir(parents=True, exist_ok=True)
    kind = name.partition("/")[2].partition(":")[0]
    mark = f"-{programs.checksum()[:12]}" if name == PAUSE else ""
    made = programs.CACHE / f"image-{kind}{mark}.tar"
    with dockerd_here.alone(programs.CACHE / "images"):
        if not made.exists():
            write_archive(name, made)
    return made


def write_archive(name: str, made: Path) -> None:
    if name == PAUSE:
        program = (programs.programs() / "pause").read_bytes()
        root = dockerd_here.tar(programs.CACHE / "pause.tar", {"pause": program})
        return archive_root(root, name, made, entry_point=["/pause"])
    roots = {PYTHON: dockerd_here.debian_root, BUSYBOX: dockerd_here.busybox_root}
    return archive_root(roots[name](), name, made)


def archive_root(root: Path, name: str, made: Path, entry_point: list[str] | None = None) -> None:
    """An image of one layer, which is the tar file of a root."""
    config = image_config(name, digest(root), entry_point)
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
    partial = made.with_name(f"{made.name}.part")
    with tarfile.open(partial, "w") as out:
        out.add(root, "layer.tar")
        add_file(out, config_name, config)
        add_file(out, "manifest.json", json.dumps(manifest).encode())
    partial.rename(made)


def digest(path: Path) -> str:
    whole = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            whole.update(piece)
    return f"sha256:{whole.hexdigest()}"


def image_config(name: str, layer_digest: str, entry_point: list[str] | None) -> bytes:
    """The name makes each image another one: the kubelet asks for a password for an image that was
    pulled with one, under whatever name it is there.
    """
    config = {
        "author": name,
        "architecture": "amd64",
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {"Env": [PATH], "Entrypoint": entry_point},
        "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
        "history": [{"created": "1970-01-01T00:00:00Z"}],
    }
    return json.dumps(config).encode()


def add_file(out: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    out.addfile(entry, io.BytesIO(content))


class Registry(cluster_images.Registry):
    """Debian's docker-registry on the cluster's machine, with a password."""

    def __init__(self, cluster: Cluster) -> None:
        self.kubernetes, self.private = cluster, True
        self.folder = cluster.folder / "registry"
        self.address = f"http://{cluster.place.address}"

    def start(self) -> None:
        debian.need("kubernetes", REGISTRY_PACKAGES)
        self.folder.mkdir()
        made = subprocess.run(
            ["htpasswd", "-niB", REGISTRY_USER],
            input=REGISTRY_PASSWORD,
            check=True,
            capture_output=True,
            text=True,
        )
        (self.folder / "users").write_text(made.stdout.strip() + "\n")
        (self.folder / "config.yml").write_text(
            f"version: 0.1\nlog: {{level: info}}\nhttp: {{addr: ':{kube_files.REGISTRY_PORT}'}}\n"
            f"auth: {{htpasswd: {{realm: test, path: {self.folder}/users}}}}\n"
            f"storage: {{filesystem: {{rootdirectory: {self.folder}/store}}}}\n"
        )
        argv = ["docker-registry", "serve", str(self.folder / "config.yml")]
        self.kubernetes.run("registry", *argv)
        until(self.answers, words=self.kubernetes.words)

    def push(self, root: Path, name: str) -> str:
        """As the other cluster's, with the digests of the layers, which containerd compares."""
        path, _, tag = name.rpartition(":")
        layer = self.blob(path, gzip.compress(root.read_bytes(), 1))
        config = self.blob(path, image_config(name, digest(root), None))
        manifest = {
            "schemaVersion": 2,
            "mediaType": cluster_images.MANIFEST,
            "config": {"mediaType": CONFIG, **config},
            "layers": [{"mediaType": cluster_images.LAYER, **layer}],
        }
        body = json.dumps(manifest).encode()
        self.send("PUT", f"{self.address}/v2/{path}/manifests/{tag}", body, cluster_images.MANIFEST)
        return f"sha256:{hashlib.sha256(body).hexdigest()}"

    def answers(self) -> bool:
        return self.kubernetes.listens(kube_files.REGISTRY_PORT)


@functools.cache
def registry(cluster: Cluster) -> Registry:
    """The cluster's registry with the image PULLED; nvcr.io leads to it as well."""
    started = Registry(cluster)
    started.start()
    started.push(dockerd_here.busybox_root(), PULLED)
    return started
