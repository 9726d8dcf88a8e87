"""jit-cdi mode: a spec made of what NVML says. A stub library speaks for the driver, device nodes
are real.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Host

VERSION = "550.54.15"


@pytest.fixture
def gpus(host: Host, stub_nvml: Path) -> Host:
    """Two GPUs, and a driver root with their nodes, a library, nvidia-smi and firmware."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make device nodes")
    root = host.root / "driver"
    for name in ("dev", "usr/lib64", "usr/bin", f"lib/firmware/nvidia/{VERSION}"):
        (root / name).mkdir(parents=True)
    for number, name in enumerate(("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm")):
        os.mknod(root / "dev" / name, 0o020666, os.makedev(1, (3, 7, 5, 9)[number]))
        (root / "dev" / name).chmod(0o666)
    shutil.copy(stub_nvml / "libnvidia-ml.so.1", root / f"usr/lib64/libnvidia-ml.so.{VERSION}")
    (root / f"usr/lib64/libcuda.so.{VERSION}").write_text("x")
    (root / "usr/bin/nvidia-smi").write_text("#!/bin/sh\n")
    (root / "usr/bin/nvidia-smi").chmod(0o755)
    (root / f"lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin").write_text("x")
    host.configure(f'[nvidia-container-cli]\nroot = "{root}"\npath = "/no/such"\n', mode="jit-cdi")
    host.environment |= {"LD_LIBRARY_PATH": str(stub_nvml), "STUB_GPUS": "Stub A;Stub B"}
    return host


def nodes(after: dict[str, Any]) -> list[str]:
    return [node["path"] for node in after["linux"]["devices"]]


COMMON = ["/dev/nvidia-uvm", "/dev/nvidiactl"]


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("all", ["/dev/nvidia0", "/dev/nvidia1"]), ("0", ["/dev/nvidia0"]), ("1", ["/dev/nvidia1"]), ("1,0,1", ["/dev/nvidia1", "/dev/nvidia0"]),
        ("GPU-00000000-0000-0000-0000-000000000001", ["/dev/nvidia1"]), ("runtime.nvidia.com/gpu=0", ["/dev/nvidia0"]),
    ],
)  # fmt: skip
def test_devices_by_index_uuid_and_all(gpus: Host, asked: str, given: list[str]) -> None:
    after = gpus.created(f"NVIDIA_VISIBLE_DEVICES={asked}")
    assert nodes(after) == given + COMMON
    assert after["linux"]["devices"][0]["minor"] == (3 if given[0] == "/dev/nvidia0" else 7)


def test_the_driver_comes_with_them(gpus: Host) -> None:
    after = gpus.created("NVIDIA_VISIBLE_DEVICES=0")
    mounts = {mount["destination"]: mount["source"] for mount in after["mounts"]}
    root = gpus.root / "driver"
    for place in (
        f"/usr/lib64/libcuda.so.{VERSION}",
        "/usr/bin/nvidia-smi",
        f"/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin",
    ):
        assert mounts[place] == f"{root}{place}"
    assert {"NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_CTK_LIBCUDA_DIR=/usr/lib64"} <= set(
        after["process"]["env"]
    )
    assert "NVIDIA_VISIBLE_DEVICES=0" not in after["process"]["env"]
    hooks = {hook["args"][2]: hook["args"][3:] for hook in after["hooks"]["createContainer"]}
    assert hooks["update-ldcache"] == ["--folder", "/usr/lib64"]
    assert hooks["enable-cuda-compat"] == [f"--host-driver-version={VERSION}"]
    assert "libcuda.so.1::/usr/lib64/libcuda.so" in hooks["create-symlinks"]


def test_none_gives_the_driver_without_a_gpu(gpus: Host) -> None:
    after = gpus.created("NVIDIA_VISIBLE_DEVICES=none")
    assert "NVCT_EMPTY_DEVICE=" in after["process"]["env"]
    assert nodes(after) == COMMON
    assert f"/usr/lib64/libcuda.so.{VERSION}" in [mount["destination"] for mount in after["mounts"]]


@pytest.mark.parametrize("asked", ["2", "GPU-none", "0:0", "../0", "runtime.nvidia.com/gpu=7"])
def test_a_gpu_that_is_not_there_is_an_error(gpus: Host, asked: str) -> None:
    gpus.spec(f"NVIDIA_VISIBLE_DEVICES={asked}")
    assert "unresolvable CDI devices runtime.nvidia.com/gpu=" in gpus.refused()


def test_a_mig_slice_needs_its_capability_nodes(gpus: Host) -> None:
    gpus.environment["STUB_GPUS"] = "A100+mig"
    gpus.spec("NVIDIA_VISIBLE_DEVICES=0:0")
    assert "no minor number for MIG device gpu0/gi1/access" in gpus.refused()


def test_a_mig_slice_comes_with_its_capability_nodes(gpus: Host) -> None:
    gpus.environment["STUB_GPUS"] = "A100+mig"
    gpus.spec("NVIDIA_VISIBLE_DEVICES=MIG-00000000-0000-0000-0000-000000000000")
    caps = gpus.root / "driver/dev/nvidia-caps"
    caps.mkdir()
    for minor in (3, 4):
        os.mknod(caps / f"nvidia-cap{minor}", 0o020444, os.makedev(1, minor))
        (caps / f"nvidia-cap{minor}").chmod(0o444)
    fake = gpus.root / "proc-driver/nvidia-caps"
    fake.mkdir(parents=True)
    (fake / "mig-minors").write_text("config 1\ngpu0/gi1/access 3\ngpu0/gi1/ci0/access 4\n")
    script = f"mount --bind {gpus.root}/proc-driver /proc/driver && exec {gpus.prefix}/bin/nvidia-container-runtime create -b {gpus.bundle} x"
    subprocess.run(["unshare", "-m", "sh", "-c", script], env=gpus.environment, check=True)
    assert nodes(gpus.read_spec())[:3] == [
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap3",
        "/dev/nvidia-caps/nvidia-cap4",
    ]


def test_imex_channels_and_gated_features_come_where_they_are_asked_for(gpus: Host) -> None:
    channels = gpus.root / "driver/dev/nvidia-caps-imex-channels"
    channels.mkdir()
    os.mknod(channels / "channel3", 0o020666, os.makedev(1, 3))
    os.mknod(gpus.root / "driver/dev/nvidia-fs0", 0o020666, os.makedev(1, 3))
    after = gpus.created("NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_IMEX_CHANNELS=3", "NVIDIA_GDS=enabled")
    assert {"/dev/nvidia-caps-imex-channels/channel3", "/dev/nvidia-fs0"} <= set(nodes(after))
    gpus.spec("NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_IMEX_CHANNELS=../../sda")
    assert "invalid IMEX channel" in gpus.refused()


def test_the_drivers_library_is_found_below_the_driver_root(gpus: Host) -> None:
    """A driver container: nothing of the driver is where the host's dynamic linker looks."""
    del gpus.environment["LD_LIBRARY_PATH"]
    assert nodes(gpus.created("NVIDIA_VISIBLE_DEVICES=1")) == ["/dev/nvidia1", *COMMON]


def test_a_nodes_group_is_kept(gpus: Host) -> None:
    os.chown(gpus.root / "driver/dev/nvidia0", 0, 44)
    (gpus.root / "driver/dev/nvidia0").chmod(0o660)
    after = gpus.created("NVIDIA_VISIBLE_DEVICES=0")
    node = after["linux"]["devices"][0]
    assert (node["path"], node["fileMode"], node["gid"]) == ("/dev/nvidia0", 0o660, 44)
    assert after["process"]["user"]["additionalGids"] == [44]


def test_graphics_files_come_with_the_driver_and_gbm_finds_it(gpus: Host) -> None:
    root = gpus.root / "driver"
    (root / "usr/share/vulkan/icd.d").mkdir(parents=True)
    (root / "usr/share/vulkan/icd.d/nvidia_icd.json").write_text("x")
    for name in (f"libnvidia-allocator.so.{VERSION}", "libnvidia-egl-gbm.so.1.1.1"):
        (root / "usr/lib64" / name).write_text("x")
    after = gpus.created("NVIDIA_VISIBLE_DEVICES=0")
    mounts = {mount["destination"]: mount["source"] for mount in after["mounts"]}
    assert (
        mounts["/etc/vulkan/icd.d/nvidia_icd.json"]
        == f"{root}/usr/share/vulkan/icd.d/nvidia_icd.json"
    )
    assert (
        mounts["/usr/lib64/libnvidia-egl-gbm.so.1.1.1"]
        == f"{root}/usr/lib64/libnvidia-egl-gbm.so.1.1.1"
    )
    links = [
        word for hook in after["hooks"]["createContainer"] for word in hook["args"] if "::" in word
    ]
    assert links[0] == "../libnvidia-allocator.so.1::/usr/lib64/gbm/nvidia-drm_gbm.so"


def offer_one(host: Host, kind: str) -> None:
    """One CDI device, 0, and cdi mode."""
    (host.root / "cdi").mkdir()
    device = {"name": "0", "containerEdits": {"env": ["A=1"]}}
    (host.root / "cdi/a.json").write_text(
        json.dumps({"cdiVersion": "0.5.0", "kind": kind, "devices": [device]})
    )
    driver = f'[nvidia-container-cli]\nroot = "{host.root}/driver"\n'
    host.configure(
        f'{driver}[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["{host.root}/cdi"]\n',
        mode="cdi",
    )


@pytest.mark.parametrize("mode", ["jit-cdi", "cdi"])
def test_conditions_on_the_driver_hold_in_the_modes_that_inject_devices(
    gpus: Host, mode: str
) -> None:
    if mode == "cdi":
        offer_one(gpus, "nvidia.com/gpu")
    device, image = (
        "NVIDIA_VISIBLE_DEVICES=0",
        "NVIDIA_REQUIRE_CUDA=cuda>={} brand=tesla,driver>=470,driver<471",
    )
    gpus.created(
        device,
        image.format("12.4"),
        "NVIDIA_REQUIRE_DRIVER=driver>=550",
        "NVIDIA_REQUIRE_ARCH=arch>=9.0",
    )
    gpus.spec(device, image.format("99.0"))
    assert (
        "requirements not met: cuda>=99.0||brand=tesla&&driver>=470&&driver<471 not met"
        in gpus.refused()
    )
    gpus.spec(device, "NVIDIA_REQUIRE_DRIVER=driver<500")
    assert "unsatisfied condition: driver<500 (driver=550.54.15)" in gpus.refused()
    gpus.created(device, image.format("99.0"), "NVIDIA_DISABLE_REQUIRE=true")


def test_conditions_on_a_driver_that_cannot_be_asked_are_a_warning(host: Host) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("a driver is here")
    offer_one(host, "a.com/b")
    host.created("NVIDIA_VISIBLE_DEVICES=a.com/b=0", "NVIDIA_REQUIRE_CUDA=cuda>=99")
    assert "Conditions on the driver are not checked" in host.log.read_text()


def test_no_link_in_a_driver_root_leads_out_of_it(gpus: Host) -> None:
    """A driver container's root is a root: its links mean what they mean inside."""
    root, outside = gpus.root / "driver", gpus.root / "outside"
    for name in ("udev", "lib", "bin", "nodes"):
        (outside / name).mkdir(parents=True)
    (outside / "bin/nvidia-debugdump").write_text("")
    (outside / "bin/nvidia-debugdump").chmod(0o755)
    os.mknod(outside / "nodes/nvidia-fs0", 0o020666, os.makedev(1, 3))
    (root / "dev").rename(root / "nodes")
    (root / "dev").symlink_to("/nodes")
    (root / "usr/lib64").rename(root / "libraries")
    (root / "usr/lib64").symlink_to("/libraries")
    (root / "usr/sbin").symlink_to(outside / "bin")
    (root / "run").mkdir()
    (root / "run/udev").symlink_to(outside / "udev")
    (root / "etc").mkdir()
    (root / "etc/cufile.json").symlink_to(outside / "udev")
    after = gpus.created("NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_GDS=enabled")
    assert {node["path"]: node["minor"] for node in after["linux"]["devices"]} == {
        "/dev/nvidia0": 3, "/dev/nvidia-uvm": 9, "/dev/nvidiactl": 5,
    }  # fmt: skip
    mounts = {mount["destination"]: mount["source"] for mount in after["mounts"]}
    assert mounts[f"/libraries/libcuda.so.{VERSION}"] == f"{root}/libraries/libcuda.so.{VERSION}"
    assert not [
        source
        for source in mounts.values()
        if source.startswith((str(outside), f"{root}/run", f"{root}/etc"))
    ]
    assert not {"/usr/sbin/nvidia-debugdump", "/run/udev", "/etc/cufile.json"} & set(mounts)


def test_without_a_driver_the_error_names_nvml(host: Host) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("a driver is here")
    host.configure(mode="jit-cdi")
    host.spec("NVIDIA_VISIBLE_DEVICES=all")
    assert (
        "error modifying OCI spec: failed to create the automatic CDI modifier: failed to generate CDI spec for mode"
        ' \\"auto\\": failed to construct device spec generators: failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND'
    ) in host.refused()


def test_a_real_driver_gives_its_gpu(host: Host) -> None:
    if not Path("/dev/nvidiactl").exists():
        pytest.skip("no NVIDIA driver on this machine: only the stub speaks for one")
    host.configure(mode="jit-cdi")
    after = host.created("NVIDIA_VISIBLE_DEVICES=0")
    assert "/dev/nvidiactl" in nodes(after)
    assert any("libcuda.so." in mount["destination"] for mount in after["mounts"])
