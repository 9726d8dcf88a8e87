"""Real engines for the tests: a dockerd and a containerd of their own, in a temporary folder,
stopped by process id.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from protobuf import decode, encode

APPLETS = (
    "sh",
    "ls",
    "cat",
    "echo",
    "true",
    "sleep",
    "env",
    "dd",
    "stat",
    "readlink",
    "test",
    "grep",
    "mount",
)
READY_TRIES = 300


def root_filesystem(target: Path) -> Path:
    """Busybox and a stand-in nvidia-smi."""
    for name in ("bin", "dev", "proc", "sys", "etc", "tmp", "usr/bin"):
        (target / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "/bin/busybox", target / "bin/busybox")
    for name in APPLETS:
        (target / "bin" / name).symlink_to("busybox")
    (target / "bin/nvidia-smi").write_text(
        '#!/bin/sh\necho "NVIDIA-SMI stand-in, devices: $NVIDIA_VISIBLE_DEVICES"\n'
    )
    (target / "bin/nvidia-smi").chmod(0o755)
    return target


def layer(filesystem: Path) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.add(filesystem, arcname=".")
    return stream.getvalue()


def image_archive(filesystem: Path, name: str) -> bytes:
    """An image as `docker save` writes it, which containerd imports."""
    content = layer(filesystem)
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "config": {"Cmd": ["sleep", "1000"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]},
    }).encode()  # fmt: skip
    manifest = json.dumps(
        [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    ).encode()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for file, text in (
            ("config.json", config),
            ("manifest.json", manifest),
            ("layer.tar", content),
        ):
            info = tarfile.TarInfo(file)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    return stream.getvalue()


class Daemon:
    """A daemon in a folder of its own: started, waited for, stopped with everything it started."""

    def __init__(
        self, words: list[str], folder: Path, environment: dict[str, str], ready: Callable[[], bool]
    ) -> None:
        self.log = folder / "daemon.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                words, env=environment, stdout=log, stderr=log, cwd=folder
            )
        for _ in range(READY_TRIES):
            if self.process.poll() is not None or ready():
                break
            time.sleep(0.1)
        if self.process.poll() is not None or not ready():
            self.stop()
            raise RuntimeError(f"{words[0]} did not start:\n{self.log.read_text()[-3000:]}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Docker:
    """dockerd without a network, with our programs first in its PATH."""

    def __init__(self, folder: Path, prefix: Path, environment: dict[str, str]) -> None:
        self.socket = folder / "docker.sock"
        self.program = "/usr/bin/docker" if Path("/usr/bin/docker").exists() else "docker"
        daemon_json = folder / "daemon.json"
        registered = subprocess.run(
            [prefix / "bin/nvidia-ctk", "runtime", "configure", "--config", daemon_json, "--nvidia-runtime-path", prefix / "bin/nvidia-container-runtime"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert registered.returncode == 0, registered.stderr
        words = ["dockerd", "--config-file", daemon_json, "--data-root", folder / "data", "--exec-root", folder / "exec", "-H", f"unix://{self.socket}",
                 "--pidfile", folder / "pid", "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
                 "--storage-driver=vfs"]  # fmt: skip
        path = {"PATH": f"{prefix}/bin:{os.environ['PATH']}"}
        self.daemon = Daemon(
            [str(word) for word in words],
            folder,
            {**os.environ, **environment, **path},
            self.answers,
        )

    def answers(self) -> bool:
        return self.socket.exists() and self.call("version").returncode == 0

    def call(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        command = [self.program, "-H", f"unix://{self.socket}", *words]
        return subprocess.run(
            command,
            capture_output=True,
            text=more.pop("text", True),
            timeout=120,
            check=False,
            **more,
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.call("run", "--rm", "--network=none", *words)


class Containerd:
    """containerd with its CRI service, called over its socket as a kubelet does."""

    def __init__(self, folder: Path, prefix: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.socket = folder / "containerd.sock"
        config = folder / "config.toml"
        config.write_text(
            f'version = 2\nroot = "{folder}/root"\nstate = "{folder}/state"\n[grpc]\n  address = "{self.socket}"\n'
            '[plugins."io.containerd.grpc.v1.cri"]\n  sandbox_image = "local/box:1" # a comment\n  disable_apparmor = true\n  restrict_oom_score_adj = true\n'
            '  [plugins."io.containerd.grpc.v1.cri".containerd]\n    snapshotter = "native"\n'
            '  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]\n    runtime_type = "io.containerd.runc.v2"\n'
            '    container_annotations = ["cdi.k8s.io/*"]\n'
        )
        registered = subprocess.run(
            [prefix / "bin/nvidia-ctk", "runtime", "configure", "--runtime", "containerd", "--config", config,
             "--nvidia-runtime-path", prefix / "bin/nvidia-container-runtime"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert registered.returncode == 0, registered.stderr
        self.daemon = Daemon(
            ["containerd", "--config", str(config)],
            folder,
            {**os.environ, **environment},
            self.answers,
        )
        self.channel = grpc.insecure_channel(f"unix://{self.socket}")

    def answers(self) -> bool:
        return self.socket.exists() and self.ctr("plugins", "ls").returncode == 0

    def ctr(self, *words: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["ctr", "-a", str(self.socket), "-n", "k8s.io", *words],
            capture_output=True,
            timeout=120,
            check=False,
            **more,
        )

    def call(self, method: str, *fields: tuple[int, object]) -> dict[int, object]:
        send = self.channel.unary_unary(
            f"/runtime.v1.RuntimeService/{method}",
            request_serializer=None,
            response_deserializer=None,
        )
        return decode(send(encode(list(fields)), timeout=120))

    def pod(self, handler: str) -> str:
        """A sandbox on the host's network, so that no network plugin is needed."""
        on_node = (8, [(2, [(1, [(1, 2)])])])
        self.config = [
            (1, [(1, "pod"), (2, "uid"), (3, "default")]),
            (3, str(self.folder)),
            on_node,
        ]
        return self.call("RunPodSandbox", (1, self.config), (2, handler))[1].decode()  # type: ignore[attr-defined]

    def container(
        self, pod: str, env: dict[str, str], annotations: dict[str, str] | None = None
    ) -> str:
        variables = [(6, [(1, key), (2, value)]) for key, value in env.items()]
        notes = [(10, [(1, key), (2, value)]) for key, value in (annotations or {}).items()]
        security = (15, [(2, [(3, [(1, 2)])])])
        config = [
            (1, [(1, "box")]),
            (2, [(1, "local/box:1")]),
            (3, "sleep"),
            (4, "1000"),
            *variables,
            *notes,
            security,
        ]
        made = self.call("CreateContainer", (1, pod), (2, config), (3, self.config))[1].decode()  # type: ignore[attr-defined]
        self.call("StartContainer", (1, made))
        return made

    def exec(self, container: str, *words: str) -> str:
        answer = self.call("ExecSync", (1, container), *((2, word) for word in words), (3, 60))
        return (answer.get(1, b"") + answer.get(2, b"")).decode()  # type: ignore[operator]

    def remove(self, pod: str) -> None:
        self.call("StopPodSandbox", (1, pod))
        self.call("RemovePodSandbox", (1, pod))

    def stop(self) -> None:
        self.channel.close()
        self.daemon.stop()
