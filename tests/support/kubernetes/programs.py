"""The programs of the tests' Kubernetes cluster: Kubernetes' own servers and kubectl, etcd, and what
pretends GPUs, built from the Go modules that go.mod and go.sum pin. Those in oldest/ pin the API
server of the oldest release that we support.

Here: building them once. Not here: how they are started (kube_here.py). A first build takes four
minutes on two cores; the folder of a build is named by what it is built from, and is there whole or
not at all.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from support.servers import debian

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / ".cache" / "kubernetes"
VERSION_PACKAGE = "k8s.io/component-base/version"
# One program is all of these: the name by which it is called picks one.
NAMES = (
    *("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    *("kube-proxy", "kubelet", "kubectl"),
)


@dataclass(frozen=True)
class Source:
    """A module of ours, and the names by which its program `kubernetes` is called, too."""

    name: str
    folder: Path
    names: tuple[str, ...] = ()
    tags: str = ""  # of the build

    def files(self) -> list[Path]:
        commands = sorted(self.folder.glob("cmd/*/*.go"))
        return [Path(__file__), self.folder / "go.mod", self.folder / "go.sum", *commands]

    def checksum(self) -> str:
        """Of everything that the programs are built from."""
        whole = hashlib.sha256()
        for source in self.files():
            whole.update(hashlib.sha256(source.read_bytes()).digest())
        return whole.hexdigest()

    def release(self) -> str:
        """The release of Kubernetes that is built, such as 1.36.3."""
        text = (self.folder / "go.mod").read_text()
        found = re.search(r"^\tk8s\.io/kubernetes v(\S+)$", text, re.M)
        assert found, f"{self.folder}/go.mod does not require k8s.io/kubernetes"
        return found[1]


CLUSTER = Source("programs", HERE, NAMES)
OLDEST = Source("oldest", HERE / "oldest", tags="providerless")  # without the clouds' own parts


def programs() -> Path:
    """The folder of the cluster's programs, built where it is missing."""
    return built(CLUSTER)


def oldest() -> Path:
    """The folder of the API server of the oldest release that we support."""
    return built(OLDEST)


@functools.cache
def built(source: Source) -> Path:
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = CACHE / f"{source.name}-{source.checksum()[:12]}"
    with (CACHE / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            build(source, folder)
    return folder


def checksum() -> str:
    return CLUSTER.checksum()


def release() -> str:
    return CLUSTER.release()


def build(source: Source, folder: Path) -> None:
    if shutil.which("go") is None:
        debian.missing("kubernetes", "go is not installed, which builds the cluster's programs")
    for older in CACHE.glob(f"{source.name}-*"):
        shutil.rmtree(older)  # a build is 140 MB
    partial = Path(tempfile.mkdtemp(prefix="part-", dir=CACHE))
    try:
        compile_programs(source, partial)
        for name in source.names:
            (partial / name).symlink_to("kubernetes")
        partial.chmod(0o755)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def compile_programs(source: Source, folder: Path) -> None:
    flags = linker_flags(source.release())
    words = ["nice", "go", "build", "-trimpath", "-tags", source.tags, "-ldflags", flags]
    argv = [*words, "-o", f"{folder}/"]
    home = pwd.getpwuid(os.getuid()).pw_dir  # Go's caches lie there; a test may have another home
    environ = {**os.environ, "HOME": home, "CGO_ENABLED": "0"}
    done = subprocess.run(
        [*argv, "./cmd/..."], cwd=source.folder, env=environ, capture_output=True, text=True
    )
    if done.returncode:
        debian.missing("kubernetes", f"its programs cannot be built: {done.stderr[-1000:]}")


def linker_flags(release: str) -> str:
    """The version that the servers say: without one they say v0.0.0, and clients misbehave."""
    major, minor, _ = release.split(".")
    variables = {
        "gitVersion": f"v{release}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": "none",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    return "-s -w " + " ".join(
        f"-X {VERSION_PACKAGE}.{name}={value}" for name, value in variables.items()
    )


if __name__ == "__main__":
    print(programs())
