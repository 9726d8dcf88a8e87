"""nvidia-ctk beside the Go one: the same configuration of engines and the same specs, but for what
the tests name.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tomllib
import yaml

from conftest import GO, Host, need

DOCKER = {
    "empty": "{}",
    "busy": """{"log-driver": "json-file", "features": {"buildkit": true}, "insecure-registries": ["a:5000"],
        "runtimes": {"kata": {"path": "/usr/bin/kata", "runtimeArgs": ["-x"]}}}""",
}
CONTAINERD = {
    "version 2": """version = 2
root = "/var/lib/containerd"
# a comment
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "registry.k8s.io/pause:3.8"
    [plugins."io.containerd.grpc.v1.cri".containerd]
      default_runtime_name = "crun"
      snapshotter = "overlayfs"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes]
        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
          runtime_type = "io.containerd.runc.v2"
        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun]
          runtime_type = "io.containerd.runc.v2"
          pod_annotations = ["a.b/*"]
          [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun.options]
            SystemdCgroup = true
""",
    "version 3": """version = 3
imports = ["/etc/containerd/more/*.toml"]
[plugins.'io.containerd.cri.v1.runtime']
  enable_selinux = false
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = '/usr/bin/runc'
      SystemdCgroup = false
""",
    "no runtimes": "version = 2\n",
    "no file": None,
}
CRIO = {
    "busy": """[crio]
storage_driver = "overlay"
[crio.runtime]
default_runtime = "crun"
conmon = "/usr/bin/conmon"
[crio.runtime.runtimes.crun]
runtime_path = "/usr/bin/crun"
runtime_root = "/run/crun"
monitor_path = "/usr/libexec/crio/conmon"
""",
    "empty": "",
    "no file": None,
}
FLAGS = [
    (),
    ("--set-as-default", "--cdi.enabled"),
    ("--nvidia-runtime-name", "nv", "--nvidia-runtime-path", "/opt/nv"),
]
SPEC = """---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
containerEdits:
  env: [A=b]
  hooks:
  - hookName: createContainer
    path: /r/usr/bin/nvidia-ctk
    args: [nvidia-ctk, hook, create-symlinks, --link, "x::/r/y", --link, "/r/a::/r/b"]
    env: [C=d]
  - hookName: createRuntime
    path: /bin/other
    args: [other, --folder, /r/lib]
    env: [C=d]
  mounts:
  - {hostPath: /r/lib/x.so, containerPath: /lib/x.so, options: [ro]}
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - {path: /r/dev/null, hostPath: /r/dev/null}
- name: all
  containerEdits:
    deviceNodes:
    - path: /dev/null
"""


class Pair:
    """The two programs, each with a folder of its own."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.programs = {"go": GO / "nvidia-ctk", "ours": host.prefix / "bin/nvidia-ctk"}
        self.folder = folder / "here"
        self.environment = host.environment

    def each(
        self, files: dict[str, str | None], *words: str | Path
    ) -> list[tuple[str, dict[str, str]]]:
        """What each prints and leaves in the folder `here`, Go's first."""
        found: list[tuple[str, dict[str, str]]] = []
        for name, program in self.programs.items():
            (self.folder / "drop-ins").mkdir(parents=True)
            for file, text in files.items():
                if text is not None:
                    (self.folder / file).write_text(text)
            done = subprocess.run(
                [program, *words],
                env=self.environment,
                cwd=self.folder,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{name}: {done.stderr}"
            left = {
                file.name: file.read_text() for file in self.folder.rglob("*") if file.is_file()
            }
            self.folder.rename(
                self.folder.with_name(f"{name}-{len(list(self.folder.parent.iterdir()))}")
            )
            found.append((done.stdout, left))
        return found


@pytest.fixture
def pair(host: Host, tmp_path: Path) -> Pair:
    need("the Go nvidia-ctk", (GO / "nvidia-ctk").exists())
    return Pair(host, tmp_path)


def parsed(texts: dict[str, str]) -> dict[str, Any]:
    return {name: tomllib.loads(text) for name, text in texts.items()}


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
@pytest.mark.parametrize("before", DOCKER)
def test_dockers_file_is_the_same(pair: Pair, before: str, flags: tuple[str, ...]) -> None:
    words = ["runtime", "configure", "--config", pair.folder / "daemon.json", *flags]
    (_, go), (_, ours) = pair.each({"daemon.json": DOCKER[before]}, *words)
    expected, found = json.loads(go["daemon.json"]), json.loads(ours["daemon.json"])
    if flags[:1] == ("--set-as-default",) and before == "busy":
        assert found["features"] == {
            "buildkit": True,
            "cdi": True,
        }  # the Go one may lose other features
        expected["features"] = found["features"]
    assert found == expected
    (go_shown, _), (shown, _) = pair.each({"daemon.json": DOCKER[before]}, *words, "--dry-run")
    assert json.loads(go_shown)["runtimes"] == json.loads(shown)["runtimes"]


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
@pytest.mark.parametrize("before", CONTAINERD)
def test_containerds_drop_in_and_its_import_are_the_same(
    pair: Pair, before: str, flags: tuple[str, ...]
) -> None:
    words = [
        "runtime",
        "configure",
        "--runtime",
        "containerd",
        "--config",
        pair.folder / "config.toml",
    ]
    (_, go), (_, ours) = pair.each(
        {"config.toml": CONTAINERD[before]},
        *words,
        f"--drop-in-config={pair.folder}/drop-ins/99.toml",
        *flags,
    )
    assert parsed(ours) == parsed(go)


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
@pytest.mark.parametrize("before", CRIO)
def test_cri_os_drop_in_is_the_same(pair: Pair, before: str, flags: tuple[str, ...]) -> None:
    words = ["runtime", "configure", "--runtime", "crio", "--config", pair.folder / "crio.conf"]
    (_, go), (_, ours) = pair.each(
        {"crio.conf": CRIO[before]},
        *words,
        f"--drop-in-config={pair.folder}/drop-ins/99.toml",
        *flags,
    )
    assert parsed(ours) == parsed(go)


def test_the_default_configuration_differs_in_the_runtimes_alone(pair: Pair) -> None:
    (go, _), (ours, _) = pair.each({}, "config", "default")
    assert ours.replace('["docker-runc", "runc", "crun"]', '["runc", "crun"]') == go


@pytest.mark.parametrize(
    "words",
    [
        ("--set", "nvidia-container-runtime.mode=cdi"),
        ("--set", "nvidia-container-runtime.runtimes=a:b"),
        ("--set", "features.disable-imex-channel-creation"),
        (
            "--set",
            "features.allow-ldconfig-from-container=true",
            "--set",
            "nvidia-container-cli.load-kmods=false",
        ),
    ],
)
def test_values_are_set_to_the_same(pair: Pair, words: tuple[str, ...]) -> None:
    text = (
        '[nvidia-container-runtime]\nmode = "csv"\n[nvidia-container-cli]\nenvironment = ["A=b"]\n'
    )
    (go, _), (ours, _) = pair.each(
        {"c.toml": text}, "config", "--config-file", pair.folder / "c.toml", *words
    )
    assert tomllib.loads(ours) == tomllib.loads(go)


def test_specs_are_listed_and_moved_alike(pair: Pair) -> None:
    (go, _), (ours, _) = pair.each({"spec.yaml": SPEC}, "cdi", "list", "--spec-dir", pair.folder)
    assert ours == go
    for words in (("--to", "/new"), ("--to", "/"), ("--to", "/new", "--relative-to", "container")):
        (go, _), (ours, _) = pair.each(
            {"spec.yaml": SPEC},
            "cdi",
            "transform",
            "root",
            "--from",
            "/r",
            "--input",
            pair.folder / "spec.yaml",
            *words,
        )
        assert yaml.safe_load(ours) == yaml.safe_load(go)


# --- cdi generate


@pytest.fixture
def driver(host: Host, stub_nvml: Path) -> Path:
    """A driver root with nodes of every kind, one of them the group video's."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make device nodes")
    root = host.root / "driver"
    for name in (
        "nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-fs0", "gdrdrv", "infiniband/uverbs0",
        "nvidia-caps-imex-channels/channel0", "nvidia-caps-imex-channels/channel3", "nvidia-nvswitchctl", "nvidia-caps/nvidia-cap1",
    ):  # fmt: skip
        (root / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
        os.mknod(root / "dev" / name, 0o020660, os.makedev(1, 3))
        if "imex" not in name:  # the Go one leaves out the group of channels
            os.chown(root / "dev" / name, 0, 44)
        (root / "dev" / name).chmod(0o660)
    (root / "usr/lib64").mkdir(parents=True)
    shutil.copy(stub_nvml / "libnvidia-ml.so.1", root / "usr/lib64/libnvidia-ml.so.550.54.15")
    (root / "usr/lib64/libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.550.54.15")
    (root / "usr/lib64/libcuda.so.550.54.15").write_text("x")
    host.environment["STUB_GPUS"] = "A;B"
    return root


def essence(text: str) -> dict[str, Any]:
    """A spec by what it gives, in any order. Ours leave numbers and modes of nodes to the time of
    use.
    """
    spec = yaml.safe_load(text)
    parts = {device["name"]: device["containerEdits"] for device in spec["devices"]}
    parts["for all"] = spec.get("containerEdits") or {}
    return {name: essential(edits) for name, edits in parts.items()} | {
        "version": spec["cdiVersion"]
    }


def essential(edits: dict[str, Any]) -> dict[str, Any]:
    return {
        "env": sorted(edits.get("env") or []),
        "gids": edits.get("additionalGids") or [],
        "mounts": sorted(mount["containerPath"] for mount in edits.get("mounts") or []),
        "nodes": sorted(
            (node["path"], node["hostPath"], node.get("gid"))
            for node in edits.get("deviceNodes") or []
        ),
        "hooks": [
            [word for word in hook["args"] if word not in ("nvidia-ctk", "nvidia-cdi-hook", "hook")]
            for hook in edits.get("hooks") or []
            if "apply-cuda-memory-limits" not in hook["args"]
        ],
    }


@pytest.mark.parametrize(
    "words",
    [
        ("--mode=nvml",),
        ("--mode=nvml", "--device-id=1", "--no-all-device"),
        (
            "--mode=nvml",
            "--disable-hook=all",
            "--enable-hook=update-ldcache",
            "--ldconfig-path=/sbin/x",
        ),
        ("--mode=nvml", "--disable-hook=enable-cuda-compat"),
        *(
            (f"--mode={mode}",)
            for mode in ("management", "gds", "gdrcopy", "mofed", "nvswitch", "imex")
        ),
        ("--mode=imex", "--device-id=3"),
    ],
    ids=" ".join,
)
def test_a_spec_of_the_driver_gives_the_same(
    pair: Pair, driver: Path, words: tuple[str, ...]
) -> None:
    (go, _), (ours, _) = pair.each({}, "cdi", "generate", "--driver-root", driver, *words)
    assert essence(ours) == essence(go)
