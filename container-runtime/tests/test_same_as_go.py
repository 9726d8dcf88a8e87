"""The whole shim beside the Go one, over generated bundles: the same container, but for what
docs/decisions.md lists.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import GO, PLAIN_SPEC, Host, need

EXAMPLES = settings(
    max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
DEVICES = st.lists(
    st.sampled_from(
        [
            "all",
            "none",
            "void",
            "",
            "0",
            "1",
            "GPU-x",
            "nvidia.com/gpu=0",
            "nvidia.com/gpu=both",
            "other.com/x=y",
            " 0 ",
            "9",
        ]
    ),
    max_size=3,
    unique=True,
).map(",".join)
MAYBE = st.sampled_from([None, None, None, "x"])
ENV = st.fixed_dictionaries({}, optional={
    "NVIDIA_VISIBLE_DEVICES": DEVICES,
    "NVIDIA_DRIVER_CAPABILITIES": st.sampled_from(["", "all", "compute", "utility,compute"]),
    "SWARM": DEVICES,
    "NVIDIA_REQUIRE_CUDA": st.sampled_from(["cuda>=11.0", "bogus>=1"]),
    "NVIDIA_DISABLE_REQUIRE": st.sampled_from(["true", "no", "1"]),
    "CUDA_VERSION": st.sampled_from(["9.0.176", ""]),
    "NVIDIA_REQUIRE_JETPACK": st.sampled_from(["csv-mounts=all", "csv-mounts=base"]),
    "BROKEN": st.just("yes"),
})  # fmt: skip
BOXES = st.fixed_dictionaries({
    "mode": st.sampled_from(["legacy", "csv", "cdi", "cdi"]),
    "env": ENV,
    "mounts": st.lists(st.sampled_from(["0", "all", "nvidia.com", "cdi/nvidia.com/gpu/both", "none"]), max_size=2, unique=True),
    "annotations": st.fixed_dictionaries({}, optional={"cdi.k8s.io/a": st.sampled_from(["nvidia.com/gpu=1", "nvidia.com/gpu=0,nvidia.com/gpu=1", "bad=", "x"])}),
    "hook": st.sampled_from([None, "/usr/bin/nvidia-container-runtime-hook", "/bin/other"]),
    "privileged": st.booleans(), "unprivileged_ok": st.booleans(), "mounts_ok": st.booleans(), "swarm": st.booleans(),
    "user": st.sampled_from([0, 1000]),
})  # fmt: skip


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, prefix: Path, recorder: Path) -> Host:
    need("the Go shim", (GO / "nvidia-container-runtime").exists())
    need("gcc", shutil.which("gcc"))
    host = Host(tmp_path_factory.mktemp("pair"), prefix, recorder)
    files = host.root / "files"
    (files / "data").mkdir(parents=True)
    (files / "libone.so.1").write_text("x")
    (files / "link").symlink_to("libone.so.1")
    for name in ("csv", "cdi"):
        (host.root / name).mkdir()
    (host.root / "csv/l4t.csv").write_text(
        f"dev, /dev/null\ndir, {files}/data\nlib, {files}/libone.so.1\nsym, {files}/link\ndev, /dev/absent\n"
    )
    (host.root / "csv/more.csv").write_text("dev, /dev/full\n")
    (host.root / "cdi/spec.yaml").write_text(CDI.format(files=files))
    (host.root / "cdi/broken.json").write_text("{")
    return host


CDI = """---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
containerEdits:
  env: [COMMON=1, TERM=changed]
  mounts:
  - hostPath: {files}/data
    containerPath: /data/deep
    options: [ro, bind]
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/null
    - path: /dev/as-other
      hostPath: /dev/full
      permissions: rw
- name: "1"
  containerEdits:
    env: [ONE=1]
    hooks:
    - hookName: createContainer
      path: /bin/true
      args: ["true", "x"]
- name: both
  containerEdits:
    deviceNodes:
    - path: /dev/zero
    mounts:
    - hostPath: {files}
      containerPath: /top
"""


def write(host: Host, box: dict[str, Any]) -> None:
    text = f"accept-nvidia-visible-devices-envvar-when-unprivileged = {json.dumps(box['unprivileged_ok'])}\n"
    text += f"accept-nvidia-visible-devices-as-volume-mounts = {json.dumps(box['mounts_ok'])}\n"
    text += 'swarm-resource = "SWARM"\n' if box["swarm"] else ""
    text += f'[nvidia-container-runtime]\nmode = "{box["mode"]}"\nruntimes = ["{host.recorder}"]\n'
    text += f'[nvidia-container-runtime.modes.csv]\nmount-spec-path = "{host.root}/csv"\n'
    text += f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["{host.root}/cdi"]\nannotation-prefixes = ["cdi.k8s.io/"]\n'
    host.config_file.write_text(text)
    spec = copy.deepcopy(PLAIN_SPEC)
    spec["process"]["env"] += [
        key if key == "BROKEN" and len(box["env"]) == 1 else f"{key}={value}"
        for key, value in box["env"].items()
    ]
    spec["process"]["user"]["uid"] = box["user"]
    spec["process"]["capabilities"]["bounding"] = ["CAP_SYS_ADMIN"] if box["privileged"] else []
    spec["mounts"] += [
        {"source": "/dev/null", "destination": f"/var/run/nvidia-container-devices/{name}"}
        for name in box["mounts"]
    ]
    spec["annotations"] = box["annotations"]
    if box["hook"]:
        spec["hooks"] = {"prestart": [{"path": box["hook"]}]}
    host.write_spec(spec)


def outcome(host: Host, program: Path) -> tuple[int, Any, str]:
    words = [program, "create", "--bundle", str(host.bundle), "x"]
    done = subprocess.run(words, env=host.environment, capture_output=True, text=True, check=False)
    return done.returncode, meaning(host.read_spec()), done.stderr


def meaning(spec: dict[str, Any]) -> dict[str, Any]:
    """What of a spec the modes change, with the listed differences taken out: no hook of ours is
    without an environment.
    """
    hooks = {stage: found for stage, found in (spec.get("hooks") or {}).items() if found}
    for hook in hooks.get("prestart", []):
        hook.pop("env", None)
    for hook in [hook for found in hooks.values() for hook in found]:
        hook.setdefault("env", ["NVIDIA_CTK_DEBUG=false"])
    process, linux = spec.get("process", {}), spec.get("linux", {})
    user = {key: value for key, value in process.get("user", {}).items() if value}
    return {
        "env": process.get("env"),
        "user": user,
        "hooks": hooks,
        "mounts": spec.get("mounts"),
        "devices": in_any_order(linux.get("devices")),
        "rules": in_any_order(linux.get("resources", {}).get("devices")),
    }


def in_any_order(nodes: list[Any] | None) -> list[Any] | None:
    """Device nodes and their rules mean the same in any order."""
    return nodes and sorted(nodes, key=json.dumps)


def lacks_graphics_driver(said: str) -> bool:
    """The original refuses graphics on a machine without a driver; ours warns (decisions.md)."""
    return "libnvidia-ml.so" in said


def nothing_requested(ours: str) -> bool:
    return "no devices requested" in ours


@EXAMPLES
@given(BOXES)
def test_a_generated_container_comes_out_the_same(pair: Host, box: dict[str, Any]) -> None:
    write(pair, box)
    before = pair.raw_spec()
    go_code, go_spec, go_said = outcome(pair, GO / "nvidia-container-runtime")
    (pair.bundle / "config.json").write_bytes(before)
    pair.log.unlink(missing_ok=True)
    our_code, our_spec, our_said = outcome(pair, pair.prefix / "bin/nvidia-container-runtime")
    if lacks_graphics_driver(go_said):
        assert our_code == 0
        return
    assert our_code == go_code, (go_said, our_said)
    if go_code:
        assert pair.raw_spec() == before
        return
    if our_spec == meaning(json.loads(before)) and box["mode"] != "legacy":
        go_spec["hooks"] = our_spec[
            "hooks"
        ]  # nothing was asked for: our file stays as it was, hook and all
    assert our_spec == go_spec


@pytest.mark.parametrize(
    "words",
    [
        ("state", "x"),
        ("kill", "x", "KILL"),
        ("delete", "--force", "x"),
        ("--log", "/dev/null", "start", "x"),
        (),
    ],
)
def test_other_commands_reach_the_runtime_alike(pair: Host, words: tuple[str, ...]) -> None:
    pair.configure()
    seen = []
    for program in (GO / "nvidia-container-runtime", pair.prefix / "bin/nvidia-container-runtime"):
        subprocess.run([program, *words], env=pair.environment, check=True)
        record = pair.record
        seen.append(
            (record.argv, sorted(one for one in record.environment if not one.startswith(b"PWD=")))
        )
    assert seen[0] == seen[1]


# --- the driver's own devices


@pytest.mark.parametrize(
    "wanted", ["all", "0", "1", "GPU-00000000-0000-0000-0000-000000000001", "none", "7"]
)
def test_a_gpu_of_the_driver_comes_with_the_same_things(
    pair: Host, stub_nvml: Path, tmp_path: Path, wanted: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to make device nodes")
    driver = tmp_path / "driver"
    for name in ("dev", "usr/lib64", "usr/bin", "lib/firmware/nvidia/550.54.15"):
        (driver / name).mkdir(parents=True)
    for name in (
        "nvidia0",
        "nvidia1",
        "nvidiactl",
        "nvidia-uvm",
        "nvidia-uvm-tools",
        "nvidia-modeset",
    ):
        os.mknod(driver / "dev" / name, 0o020666, os.makedev(1, 3))
        (driver / "dev" / name).chmod(0o666)
    for name in ("libnvidia-ml", "libcuda"):
        shutil.copy(stub_nvml / "libnvidia-ml.so.1", driver / f"usr/lib64/{name}.so.550.54.15")
        (driver / f"usr/lib64/{name}.so.1").symlink_to(f"{name}.so.550.54.15")
    (driver / "usr/bin/nvidia-smi").write_text("#!/bin/sh\n")
    (driver / "usr/bin/nvidia-smi").chmod(0o755)
    (driver / "lib/firmware/nvidia/550.54.15/gsp_ga10x.bin").write_text("x")
    pair.configure(f'[nvidia-container-cli]\nroot = "{driver}"\n', mode="jit-cdi")
    environment = {**pair.environment, "LD_LIBRARY_PATH": str(stub_nvml), "STUB_GPUS": "A;B"}
    seen = []
    for program in (GO / "nvidia-container-runtime", pair.prefix / "bin/nvidia-container-runtime"):
        pair.spec(f"NVIDIA_VISIBLE_DEVICES={wanted}")
        words = [program, "create", "-b", str(pair.bundle), "x"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        found = meaning(pair.read_spec())
        found["hooks"] = [
            hook["args"]
            for hook in found["hooks"].get("createContainer", [])
            if "update-application-profile" not in hook["args"]
        ]
        seen.append((done.returncode, found))
    assert seen[1] == seen[0]


# --- the hook

HOOK_ENV = st.fixed_dictionaries({}, optional={
    "NVIDIA_VISIBLE_DEVICES": DEVICES,
    "NVIDIA_DRIVER_CAPABILITIES": st.sampled_from(["", "all", "compute", "video,utility,compute", "bogus", "none", "graphics,graphics"]),
    "NVIDIA_REQUIRE_CUDA": st.sampled_from(["cuda>=11.0", ""]),
    "NVIDIA_DISABLE_REQUIRE": st.sampled_from(["true", "no"]),
    "CUDA_VERSION": st.sampled_from(["9.0.176", "8.0", "", "10"]),
    "NVIDIA_MIG_CONFIG_DEVICES": st.sampled_from(["all", ""]),
    "NVIDIA_MIG_MONITOR_DEVICES": st.sampled_from(["all"]),
    "NVIDIA_IMEX_CHANNELS": st.sampled_from(["0", "1,2", "all", ""]),
})  # fmt: skip
HOOK_BOXES = st.fixed_dictionaries({
    "env": HOOK_ENV, "privileged": st.booleans(), "mounts": st.lists(st.sampled_from(["0", "all", "imex/1"]), max_size=2, unique=True),
    "config": st.sets(st.sampled_from([
        'C no-pivot = true', 'C load-kmods = false', 'C ldcache = "/c"', 'C debug = "/tmp/d"', 'C user = "u:g"', 'C no-cgroups = true', 'C root = "/r"',
        'T disable-require = true', 'T accept-nvidia-visible-devices-as-volume-mounts = true',
        'T accept-nvidia-visible-devices-envvar-when-unprivileged = false', 'T supported-driver-capabilities = "compute,utility,video"',
    ]), max_size=4),
})  # fmt: skip


@EXAMPLES
@given(HOOK_BOXES)
def test_the_hook_calls_the_cli_alike(pair: Host, mock_cli: Path, box: dict[str, Any]) -> None:
    need("the Go hook", (GO / "nvidia-container-runtime-hook").exists())
    top = "".join(line[2:] + "\n" for line in sorted(box["config"]) if line.startswith("T"))
    cli = "".join(line[2:] + "\n" for line in sorted(box["config"]) if line.startswith("C"))
    pair.config_file.write_text(
        f'{top}[nvidia-container-runtime]\nmode = "legacy"\n[nvidia-container-cli]\npath = "{mock_cli}"\n{cli}'
    )
    spec = copy.deepcopy(PLAIN_SPEC)
    spec["process"]["env"] += [f"{key}={value}" for key, value in box["env"].items()]
    spec["process"]["capabilities"]["bounding"] = ["CAP_SYS_ADMIN"] if box["privileged"] else []
    spec["mounts"] += [
        {"source": "/dev/null", "destination": f"/var/run/nvidia-container-devices/{name}"}
        for name in box["mounts"]
    ]
    pair.write_spec(spec)
    seen = []
    for program in (
        GO / "nvidia-container-runtime-hook",
        pair.prefix / "bin/nvidia-container-runtime-hook",
    ):
        calls = pair.root / "calls"
        calls.unlink(missing_ok=True)
        environment = {
            **pair.environment,
            "MOCK_CALLS": str(calls),
            "MOCK_HELP": "--cuda-compat-mode --no-create-imex-channels --imex-channel",
        }
        state = json.dumps({"pid": 7, "bundle": str(pair.bundle)})
        done = subprocess.run(
            [program, "prestart"],
            env=environment,
            input=state,
            capture_output=True,
            text=True,
            cwd=pair.bundle,
            check=False,
        )
        words = calls.read_text().splitlines() if calls.exists() else []
        required = sorted(word for word in words if word.startswith("--require"))
        seen.append(
            (
                done.returncode,
                [word for word in words if not word.startswith("--require")],
                required,
            )
        )
        said = done.stderr
    assert seen[1] == seen[0], said
