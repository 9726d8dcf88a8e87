"""The hooks that change what a container's own tools see, carried out by runc and crun in a real
container.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

import engines
from conftest import GO, SYSTEM_PATH, build, need

pytestmark = pytest.mark.engines
PARAMS = "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\nDeviceFileUID: 0\n"
# The driver's folder of /proc, in a mount namespace that ends with the command. crun refuses both
# cgroup versions at once.
WITH_DRIVER = """set -e
umount /sys/fs/cgroup/unified 2>/dev/null || true
mount -t tmpfs none /proc/driver
mkdir /proc/driver/nvidia
cp params /proc/driver/nvidia/params
exec "$@"
"""


@pytest.fixture(params=["runc", "crun"])
def runtime(request: pytest.FixtureRequest) -> str:
    need(request.param, shutil.which(request.param))
    if os.geteuid() != 0:
        pytest.skip("containers need root")
    return request.param


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    need("busybox", shutil.which("busybox"))
    engines.root_filesystem(tmp_path / "rootfs")
    (tmp_path / "params").write_text(PARAMS)
    return tmp_path


def printed(bundle: Path, runtime: str, prefix: Path, command: str, *hook: str) -> str:
    """What a command prints in a container that had this hook of ours at its creation."""
    subprocess.run(
        [runtime, "spec"], cwd=bundle, check=True, env={**os.environ, "PATH": SYSTEM_PATH}
    )
    spec = json.loads((bundle / "config.json").read_text())
    spec["process"] |= {"terminal": False, "args": ["sh", "-c", command]}
    spec["root"]["readonly"] = False
    # The host's /proc, where the driver's folder is: a new one would show it only on a host that
    # has the driver.
    for mount in spec["mounts"]:
        if mount["destination"] == "/proc":
            mount |= {"type": "bind", "source": "/proc", "options": ["rbind"]}
    spec["linux"]["namespaces"] = [
        one for one in spec["linux"]["namespaces"] if one["type"] != "pid"
    ]
    program = str(prefix / "bin/nvidia-ctk")
    spec["hooks"] = {"createContainer": [{"path": program, "args": ["nvidia-ctk", "hook", *hook]}]}
    (bundle / "config.json").write_text(json.dumps(spec))
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", WITH_DRIVER, "sh", runtime, "--root", bundle / "state", "run", f"box-{os.getpid()}"],
        cwd=bundle, env={**os.environ, "PATH": SYSTEM_PATH}, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_drivers_tools_are_told_to_make_no_device_nodes(
    bundle: Path, runtime: str, prefix: Path
) -> None:
    command = (
        "cat /proc/driver/nvidia/params; echo x > /proc/driver/nvidia/params || echo read-only"
    )
    assert printed(bundle, runtime, prefix, command, "disable-device-node-modification") == (
        PARAMS.replace("ModifyDeviceFiles: 1", "ModifyDeviceFiles: 0") + "read-only\n"
    )


@pytest.mark.parametrize(
    ("host", "used"), [("535.104.05", True), ("550.54.14", False), ("580.1", False)]
)
def test_newer_cuda_libraries_of_the_container_are_found_first(
    bundle: Path, runtime: str, prefix: Path, host: str, used: bool
) -> None:
    compat = bundle / "rootfs/usr/local/cuda/compat"
    compat.mkdir(parents=True)
    source = "int cuda(void) { return 0; }"
    library = compat / "libcuda.so.550.54.15"
    subprocess.run(
        ["gcc", "-shared", "-x", "c", "-", "-o", library, "-Wl,-soname,libcuda.so.1"],
        input=source,
        text=True,
        check=True,
    )
    (compat / "libcuda.so.1").symlink_to(library.name)
    command = "cat /etc/ld.so.conf.d/00-compat-* 2>/dev/null; grep -c /usr/local/cuda/compat/libcuda.so.1 /etc/ld.so.cache 2>/dev/null || true"
    said = printed(
        bundle, runtime, prefix, f"{command}", "enable-cuda-compat", f"--host-driver-version={host}"
    )
    assert said == ("/usr/local/cuda/compat\n1\n" if used else "")


def test_a_cache_holds_what_the_containers_own_ldconfig_would_find(
    tmp_path: Path, prefix: Path
) -> None:
    """In the same order: of two libraries with one name the first folder's is used."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    root = tmp_path / "root"
    (root / "etc/ld.so.conf.d").mkdir(parents=True)
    (root / "etc/more").mkdir()
    (root / "etc/ld.so.conf").write_text(
        "# mine\n/opt/last/\n include ld.so.conf.d/*.conf  /etc/more/a \nhwcap 1 x\n"
    )
    (root / "etc/ld.so.conf.d/b.conf").write_text("/opt/b\n/opt/none # none\n")
    (root / "etc/ld.so.conf.d/a.conf").write_text("/opt/a\ninclude ../more/*b\n")
    (root / "etc/ld.so.conf.d/.hidden.conf").write_text("/opt/hidden\n")
    (root / "etc/more/a").write_text("/opt/more-a")
    (root / "etc/more/bb").symlink_to("/etc/more/c")
    (root / "etc/more/c").write_text("/opt/linked\ninclude /etc/ld.so.conf.d/a.conf\n")
    for name in ("last", "a", "b", "hidden", "more-a", "linked", "given"):
        folder = root / "opt" / name
        folder.mkdir(parents=True)
        for library in (f"lib{name}.so.1", "libsame.so.1"):
            build("int x;", folder / library, "-shared", "-fPIC", f"-Wl,-soname,{library}")
    state = json.dumps({"ociVersion": "1.0.2", "bundle": str(tmp_path), "root": str(root)})
    words = ["hook", "update-ldcache", "--folder", "/opt/given"]
    subprocess.run([prefix / "bin/nvidia-ctk", *words], input=state, text=True, check=True)
    ours = subprocess.run(
        ["ldconfig", "-r", root, "-p"], capture_output=True, text=True, check=True
    ).stdout
    subprocess.run(["ldconfig", "-r", root], check=True)
    assert (
        ours
        == subprocess.run(
            ["ldconfig", "-r", root, "-p"], capture_output=True, text=True, check=True
        ).stdout
    )
    assert "libgiven.so.1" in ours
    assert "libhidden.so.1" not in ours


def test_the_drivers_profile_names_the_gpus_of_the_container(
    bundle: Path, runtime: str, prefix: Path
) -> None:
    """By their nodes' minor numbers: a GPU that the container did not get is not in the mask."""
    nodes = bundle / "rootfs/nodes"
    nodes.mkdir()
    for name, minor in (("nvidia0", 3), ("nvidia2", 5), ("nvidiactl", 7)):
        os.mknod(nodes / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
    (nodes / "nvidia5").write_text("no device")
    hook = str(prefix / "bin/nvidia-ctk")
    state = {"ociVersion": "1.0.2", "bundle": str(bundle), "root": str(bundle / "rootfs")}
    shutil.rmtree(bundle / "rootfs/dev")
    nodes.rename(bundle / "rootfs/dev")
    done = subprocess.run(
        [hook, "hook", "update-application-profile"],
        input=json.dumps(state),
        text=True,
        check=False,
    )
    assert done.returncode == 0
    written = bundle / "rootfs/etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf"
    assert '"EGLVisibleDGPUDevices",0x28]' in written.read_text()
    if (GO / "nvidia-ctk").exists():
        ours = written.read_text()
        written.unlink()
        subprocess.run(
            [GO / "nvidia-ctk", "hook", "update-application-profile"],
            input=json.dumps(state),
            text=True,
            check=True,
        )
        assert written.read_text().strip() == ours.strip()
    shown = printed(
        bundle,
        runtime,
        prefix,
        "ls /etc/nvidia/nvidia-application-profiles-rc.d",
        "update-application-profile",
    )
    assert shown == "10-container.conf\n"
