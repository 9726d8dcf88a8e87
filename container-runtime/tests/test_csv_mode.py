"""csv mode: what lists of files make of a container."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from conftest import Host
from nvidia_container_runtime import csv_mode

OPTIONS = ["ro", "nosuid", "nodev", "rbind", "rprivate"]


@pytest.fixture
def tegra(host: Host) -> Host:
    """A host with a few files and a folder for CSV lists."""
    files = host.root / "files"
    (files / "data").mkdir(parents=True)
    for name in ("libcuda.so.1.1", "libother.so.2"):
        (files / name).write_text(name)
    (files / "libcuda.so.1").symlink_to("libcuda.so.1.1")
    (files / "first.so").symlink_to("libcuda.so.1")
    (host.root / "csv").mkdir()
    host.configure(
        f'[nvidia-container-runtime.modes.csv]\nmount-spec-path = "{host.root}/csv"\n', mode="csv"
    )
    return host


def listed(host: Host, *lines: str, name: str = "l4t.csv") -> None:
    (host.root / "csv" / name).write_text("".join(f"{line}\n" for line in lines))


def links(after: dict[str, Any]) -> list[str]:
    hooks = [
        hook["args"]
        for hook in after["hooks"]["createContainer"]
        if "create-symlinks" in hook["args"]
    ]
    return [word for args in hooks for word in args if "::" in word]


def test_device_nodes_come_with_numbers_mode_and_a_cgroup_rule(tegra: Host) -> None:
    listed(tegra, "dev, /dev/null", "dev, /dev/full")
    after = tegra.created("NVIDIA_VISIBLE_DEVICES=all")
    assert after["linux"]["devices"] == [
        {"path": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666},
        {"path": "/dev/full", "type": "c", "major": 1, "minor": 7, "fileMode": 0o666},
    ]
    assert after["linux"]["resources"]["devices"][1:] == [
        {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"},
        {"allow": True, "type": "c", "major": 1, "minor": 7, "access": "rwm"},
    ]


def test_a_device_may_be_listed_by_its_name_in_dev(tegra: Host) -> None:
    listed(tegra, "dev, full", "dev, /null", "dev, dev/zero")
    after = tegra.created("NVIDIA_VISIBLE_DEVICES=all")
    assert [node["path"] for node in after["linux"]["devices"]] == [
        "/dev/full",
        "/dev/null",
        "/dev/zero",
    ]


def test_a_node_listed_twice_or_there_already_is_there_once(tegra: Host) -> None:
    listed(tegra, "dev, /dev/null", "dev, /dev/null")
    linux = {"devices": [{"path": "/dev/null", "type": "c", "major": 9, "minor": 9}]}
    after = tegra.created("NVIDIA_VISIBLE_DEVICES=all", linux=linux)
    assert [node["major"] for node in after["linux"]["devices"]] == [1]


def test_folders_and_libraries_are_mounted_where_their_links_end(tegra: Host) -> None:
    files = tegra.root / "files"
    listed(tegra, f"dir, {files}/data", f"lib, {files}/libcuda.so.1", f"lib, {files}/libo*.so.?")
    after = tegra.created("NVIDIA_VISIBLE_DEVICES=all")
    added = [mount for mount in after["mounts"] if mount["source"].startswith(str(files))]
    assert added == [
        {"destination": f"{files}/{name}", "source": f"{files}/{name}", "options": OPTIONS}
        for name in ("data", "libcuda.so.1.1", "libother.so.2")
    ]


def test_every_link_of_a_chain_is_made_in_the_container(tegra: Host) -> None:
    files = tegra.root / "files"
    listed(tegra, f"sym, {files}/first.so")
    assert links(tegra.created("NVIDIA_VISIBLE_DEVICES=all")) == [
        f"libcuda.so.1::{files}/libcuda.so",
        f"libcuda.so.1::{files}/first.so",
        f"libcuda.so.1.1::{files}/libcuda.so.1",
    ]


def test_below_a_driver_root_nothing_in_the_container_names_that_root(tegra: Host) -> None:
    """Upstream keeps the root in the links' names."""
    root = tegra.root / "files"
    tegra.configure(
        f'[nvidia-container-cli]\nroot = "{root}"\n[nvidia-container-runtime.modes.csv]\nmount-spec-path = "{tegra.root}/csv"\n',
        mode="csv",
    )
    listed(tegra, "sym, /first.so", "dir, /data")
    after = tegra.created("NVIDIA_VISIBLE_DEVICES=all")
    assert links(after) == [
        "libcuda.so.1::/libcuda.so",
        "libcuda.so.1::/first.so",
        "libcuda.so.1.1::/libcuda.so.1",
    ]
    assert {"destination": "/data", "source": f"{root}/data", "options": OPTIONS} in after["mounts"]


def test_the_folders_of_libraries_go_into_the_ldcache(tegra: Host) -> None:
    files = tegra.root / "files"
    listed(tegra, f"lib, {files}/libother.so.2", f"dir, {files}/data")
    hooks = tegra.created("NVIDIA_VISIBLE_DEVICES=all")["hooks"]["createContainer"]
    assert hooks == [
        {
            "path": "/usr/bin/nvidia-ctk",
            "args": ["nvidia-ctk", "hook", "update-ldcache", "--folder", str(files)],
            "env": ["NVIDIA_CTK_DEBUG=false"],
        }
    ]


def test_a_hook_program_of_another_name_gets_no_hook_verb(tegra: Host) -> None:
    files = tegra.root / "files"
    tegra.configure(
        f'[nvidia-ctk]\npath = "/opt/nvidia-cdi-hook"\n[nvidia-container-runtime.modes.csv]\nmount-spec-path = "{tegra.root}/csv"\n',
        mode="csv",
    )
    listed(tegra, f"lib, {files}/libother.so.2")
    hook = tegra.created("NVIDIA_VISIBLE_DEVICES=all")["hooks"]["createContainer"][0]
    assert hook == {
        "path": "/opt/nvidia-cdi-hook",
        "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", str(files)],
        "env": ["NVIDIA_CTK_DEBUG=false"],
    }


@pytest.mark.parametrize("place", ["csv/l4t.csv", "csv"])
@pytest.mark.parametrize("how", ["owner", "world-writable", "group-writable"])
def test_a_list_that_another_user_can_write_is_refused(tegra: Host, place: str, how: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give a file away")
    listed(tegra, "dev, /dev/null")
    path = tegra.root / place
    if how == "owner":
        os.chown(path, 65534, 0)
    elif how == "world-writable":
        path.chmod(0o777)
    else:
        os.chown(path, 0, 65534)
        path.chmod(0o775)
    tegra.spec("NVIDIA_VISIBLE_DEVICES=all")
    assert "refusing CSV file" in tegra.refused()


def test_a_hooks_program_is_never_named_by_a_path_in_the_container(tegra: Host) -> None:
    """A hook may run in the container's root folder."""
    (tegra.bundle / "nvidia-ctk").write_text("#!/bin/sh\n")
    (tegra.bundle / "nvidia-ctk").chmod(0o755)
    listed(tegra, f"lib, {tegra.root}/files/libother.so.2")
    tegra.spec("NVIDIA_VISIBLE_DEVICES=all")
    done = tegra.run(
        "create", "x", cwd=tegra.bundle, env={"PATH": f".::{tegra.environment['PATH']}"}
    )
    assert done.returncode == 0, done.stderr
    assert tegra.read_spec()["hooks"]["createContainer"][0]["path"] == "/usr/bin/nvidia-ctk"


def test_what_is_missing_is_told_and_left_out(tegra: Host) -> None:
    listed(
        tegra,
        "dev, /dev/no-such",
        "lib, /no/such/lib.so",
        "dir, /no/such",
        "sym, /no/such/link",
        "dev, /dev/null",
        "dev, /etc/passwd",
    )
    after = tegra.created("NVIDIA_VISIBLE_DEVICES=all")
    assert [node["path"] for node in after["linux"]["devices"]] == ["/dev/null"]
    assert tegra.log.read_text().count("Could not locate") == 5


def test_only_the_base_lists_are_read_unless_all_are_required(tegra: Host) -> None:
    listed(tegra, "dev, /dev/null")
    listed(tegra, "dev, /dev/full", name="Extra.CSV")
    listed(tegra, "dev, /dev/zero", name="extra.txt")
    (tegra.root / "csv/folder.csv").mkdir()
    assert [
        node["path"] for node in tegra.created("NVIDIA_VISIBLE_DEVICES=all")["linux"]["devices"]
    ] == ["/dev/null"]
    everything = tegra.created(
        "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_JETPACK=csv-mounts=all"
    )
    assert [node["path"] for node in everything["linux"]["devices"]] == ["/dev/full", "/dev/null"]


def test_the_container_sees_that_its_devices_are_given(tegra: Host) -> None:
    listed(tegra, "dev, /dev/null")
    assert (
        tegra.created("NVIDIA_VISIBLE_DEVICES=all")["process"]["env"][-1]
        == "NVIDIA_VISIBLE_DEVICES=void"
    )


def test_the_hook_of_docker_gpus_is_taken_out(tegra: Host) -> None:
    listed(tegra, "dev, /dev/null")
    hooks = {
        "prestart": [
            {"path": "/usr/bin/nvidia-container-runtime-hook"},
            {"path": "/opt/nvidia-container-toolkit"},
            {"path": "/bin/x"},
        ]
    }
    assert tegra.created("NVIDIA_VISIBLE_DEVICES=0", hooks=hooks)["hooks"]["prestart"] == [
        {"path": "/bin/x"}
    ]


def test_the_group_of_a_node_that_is_not_open_to_all_is_added(tegra: Host) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to make a device node")
    (tegra.root / "files/dev").mkdir()
    node = tegra.root / "files/dev/secret"
    os.mknod(node, 0o020660, os.makedev(1, 3))
    os.chown(node, 0, 44)
    node.chmod(0o660)
    text = f'[nvidia-container-cli]\nroot = "{tegra.root}/files"\n[nvidia-container-runtime.modes.csv]\nmount-spec-path = "{tegra.root}/csv"\n'
    tegra.configure(text, mode="csv")
    listed(tegra, "dev, /dev/secret")
    after = tegra.created("NVIDIA_VISIBLE_DEVICES=all")
    assert after["process"]["user"]["additionalGids"] == [44]
    assert after["linux"]["devices"][0] == {
        "path": "/dev/secret",
        "type": "c",
        "major": 1,
        "minor": 3,
        "fileMode": 0o660,
        "gid": 44,
    }
    tegra.configure(text + "[features]\nno-additional-gids-for-device-nodes = true\n", mode="csv")
    assert "additionalGids" not in tegra.created("NVIDIA_VISIBLE_DEVICES=all")["process"]["user"]


def test_a_user_in_a_nodes_group_can_open_the_node(tegra: Host) -> None:
    """A Jetson image that drops root: the low-level runtime makes the node with the group that the
    host gives it.
    """
    if os.geteuid() != 0:
        pytest.skip("needs root to make a device node")
    (tegra.root / "files/dev").mkdir()
    node = tegra.root / "files/dev/secret"
    os.mknod(node, 0o020660, os.makedev(1, 3))
    os.chown(node, 0, 44)
    node.chmod(0o660)
    tegra.configure(
        f'[nvidia-container-cli]\nroot = "{tegra.root}/files"\n[nvidia-container-runtime.modes.csv]\nmount-spec-path = "{tegra.root}/csv"\n',
        mode="csv",
    )
    listed(tegra, "dev, /dev/secret")
    spec = tegra.spec("NVIDIA_VISIBLE_DEVICES=all")
    spec["process"]["user"] = {"uid": 1000, "gid": 1001}
    tegra.write_spec(spec)
    assert tegra.create().returncode == 0
    given = tegra.read_spec()["linux"]["devices"][0]
    assert (given["fileMode"], given["gid"]) == (0o660, 44)


def test_a_container_users_nodes_belong_to_that_user(tegra: Host) -> None:
    listed(tegra, "dev, /dev/null")
    spec = tegra.spec("NVIDIA_VISIBLE_DEVICES=all")
    spec["process"]["user"] = {"uid": 1000, "gid": 1001}
    tegra.write_spec(spec)
    assert tegra.create().returncode == 0
    node = tegra.read_spec()["linux"]["devices"][0]
    assert (node["uid"], node["gid"]) == (1000, 1001)


@pytest.mark.parametrize("device", ["5", "GPU-1234", "nvgpu"])
def test_a_device_that_a_tegra_has_not_is_an_error(tegra: Host, device: str) -> None:
    tegra.spec(f"NVIDIA_VISIBLE_DEVICES={device}")
    assert f"unsupported device id: {device}" in tegra.refused()


def test_requirements_are_checked_here(tegra: Host) -> None:
    tegra.spec("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=11.0")
    assert "requirements not met" in tegra.refused()
    listed(tegra, "dev, /dev/null")
    tegra.created(
        "NVIDIA_VISIBLE_DEVICES=all",
        "NVIDIA_REQUIRE_CUDA=cuda>=11.0",
        "NVIDIA_DISABLE_REQUIRE=true",
    )


def test_with_nvml_newer_cuda_libraries_of_the_container_may_be_used(
    tegra: Host, stub_nvml: Path
) -> None:
    listed(tegra, "dev, /dev/null")
    tegra.environment |= {"LD_LIBRARY_PATH": str(stub_nvml), "STUB_GPUS": "Orin (nvgpu)"}
    hooks = tegra.created("NVIDIA_VISIBLE_DEVICES=all")["hooks"]["createContainer"]
    assert hooks[0]["args"] == [
        "nvidia-ctk", "hook", "enable-cuda-compat", "--host-cuda-version=12.4", "--cuda-compat-container-root=/usr/local/cuda/compat_orin",
    ]  # fmt: skip


def test_lines_that_are_none_are_skipped() -> None:
    items, skipped = csv_mode.parse("dev,/a\n\n#x\nDEV, /b\nlib,\nsym , /c, d \nfoo, /e\n")
    assert [(item.kind, item.path) for item in items] == [("dev", "/a"), ("sym", "/c, d")]
    assert skipped == ["#x", "DEV, /b", "lib,", "foo, /e"]


@pytest.mark.parametrize(
    "path", ["/../../../etc/passwd", "/dev/../dev/no\tsuch", "/dev/[", "/dev/*\\", "/" + "a" * 5000]
)
def test_a_path_that_is_an_attack_harms_nothing(tegra: Host, path: str) -> None:
    root = tegra.root / "files"
    tegra.configure(
        f'[nvidia-container-cli]\nroot = "{root}"\n[nvidia-container-runtime.modes.csv]\nmount-spec-path = "{tegra.root}/csv"\n',
        mode="csv",
    )
    listed(tegra, f"dev, {path}", f"sym, {path}", f"dir, {path}")
    after = tegra.created("NVIDIA_VISIBLE_DEVICES=all")
    assert not after["linux"].get("devices")
    assert [mount["destination"] for mount in after["mounts"]] == ["/proc"]


def test_a_link_below_a_driver_root_is_followed_inside_it(tegra: Host) -> None:
    root = tegra.root / "files"
    (root / "absolute").symlink_to("/data")
    (root / "up").symlink_to("../../../../../../data")
    (root / "out").symlink_to(str(tegra.root / "csv"))
    tegra.configure(
        f'[nvidia-container-cli]\nroot = "{root}"\n[nvidia-container-runtime.modes.csv]\nmount-spec-path = "{tegra.root}/csv"\n',
        mode="csv",
    )
    listed(tegra, "dir, /absolute", "dir, /up", "dir, /out", "dir, /../csv")
    after = tegra.created("NVIDIA_VISIBLE_DEVICES=all")
    assert [mount["source"] for mount in after["mounts"][1:]] == [f"{root}/data"]
