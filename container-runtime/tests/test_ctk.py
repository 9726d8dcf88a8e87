"""nvidia-ctk: registering with engines, the configuration, CDI specs, device links, hooks."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tomllib
import yaml

from conftest import SYSTEM_PATH, Host, need
from nvidia_container_runtime import cdi_spec
from nvidia_container_runtime.ctk import hooks
from nvidia_container_runtime.ctk.hook_root import Root
from nvidia_container_runtime.errors import RuntimeFault

CRI = 'plugins."io.containerd.grpc.v1.cri"'


@pytest.fixture
def ctk(host: Host) -> Any:
    def call(*words: str | Path, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        environment = {**host.environment, "PATH": SYSTEM_PATH, **env}
        program = host.prefix / "bin/nvidia-ctk"
        return subprocess.run(
            [program, *words],
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def good(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- docker


def test_docker_is_told_of_the_runtime_and_everything_else_is_kept(
    ctk: Any, tmp_path: Path
) -> None:
    file = tmp_path / "daemon.json"
    before = {
        "log-driver": "journald",
        "runtimes": {"other": {"path": "/o"}, "nvidia": {"path": "/old", "options": {"a": 1}}},
        "features": {"buildkit": True},
    }
    file.write_text(json.dumps(before))
    file.chmod(0o600)
    good(ctk("runtime", "configure", "--config", file, "--set-as-default", "--cdi.enabled"))
    assert json.loads(file.read_text()) == {
        "log-driver": "journald",
        "runtimes": {
            "other": {"path": "/o"},
            "nvidia": {"path": "nvidia-container-runtime", "options": {"a": 1}, "args": []},
        },
        "features": {"buildkit": True, "cdi": True},
        "default-runtime": "nvidia",
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    good(ctk("runtime", "configure", "--config", file, "--remove"))
    assert json.loads(file.read_text())["runtimes"] == {"other": {"path": "/o"}}
    assert "default-runtime" not in json.loads(file.read_text())


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_configuration_of_docker_counts_as_one_without_keys(
    ctk: Any, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "daemon.json"
    file.write_text(text)
    good(ctk("runtime", "configure", "--config", file))
    assert list(json.loads(file.read_text())) == ["runtimes"]


@pytest.mark.parametrize("engine", ["docker", "containerd", "crio"])
def test_a_dry_run_prints_and_writes_nothing(ctk: Any, tmp_path: Path, engine: str) -> None:
    file = tmp_path / "config"
    assert "nvidia-container-runtime" in good(
        ctk("runtime", "configure", "--runtime", engine, "--config", file, "--dry-run")
    )
    assert list(tmp_path.glob("config*")) == []


@pytest.mark.parametrize(
    ("engine", "text"),
    [
        ("docker", "{broken"),
        ("docker", "[]"),
        ("docker", '{"runtimes": 1}'),
        ("containerd", "[x"),
        ("crio", "= 1"),
        ("containerd", "version = 9\n"),
    ],
)
def test_a_file_that_cannot_be_read_is_not_changed(
    ctk: Any, tmp_path: Path, engine: str, text: str
) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    done = ctk("runtime", "configure", "--runtime", engine, "--config", file)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert file.read_text() == text


# --- containerd and cri-o

CONTAINERD = """\
# our cluster's containerd
version = 2
root = "/var/lib/containerd"   # on the big disk

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "pause:3.9"
    [plugins."io.containerd.grpc.v1.cri".containerd]
      default_runtime_name = "runc"
      # the runtimes
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
        runtime_type = "io.containerd.runc.v2"
        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
          SystemdCgroup = true
# the end
[debug]
  level = "info"
"""


def runtimes(text: str) -> dict[str, Any]:
    return tomllib.loads(text)["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]


def test_containerd_gets_a_runtime_like_its_default_one_and_keeps_every_line(
    ctk: Any, tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(CONTAINERD)
    good(
        ctk(
            "runtime",
            "configure",
            "--runtime",
            "containerd",
            "--config",
            file,
            "--nvidia-runtime-path",
            "/opt/ncr",
        )
    )
    text = file.read_text()
    assert runtimes(text)["nvidia"] == {
        "runtime_type": "io.containerd.runc.v2",
        "options": {"SystemdCgroup": True, "BinaryName": "/opt/ncr"},
    }
    assert [line for line in CONTAINERD.splitlines() if line not in text.splitlines()] == []
    good(
        ctk(
            "runtime",
            "configure",
            "--runtime",
            "containerd",
            "--config",
            file,
            "--nvidia-runtime-path",
            "/opt/ncr",
        )
    )
    assert file.read_text() == text, "a second run changes nothing"
    good(ctk("runtime", "configure", "--runtime", "containerd", "--config", file, "--remove"))
    assert tomllib.loads(file.read_text()) == tomllib.loads(CONTAINERD)
    assert [
        line for line in CONTAINERD.splitlines() if line not in file.read_text().splitlines()
    ] == []


def test_containerds_default_and_cdi_are_set_in_place(ctk: Any, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(CONTAINERD)
    good(
        ctk(
            "runtime",
            "configure",
            "--runtime=containerd",
            f"--config={file}",
            "--set-as-default",
            "--cdi.enabled",
            "--nvidia-runtime-name",
            "gpu",
        )
    )
    cri = tomllib.loads(file.read_text())["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["containerd"]["default_runtime_name"] == "gpu"
    assert cri["enable_cdi"] is True
    assert cri["containerd"]["runtimes"]["gpu"]["options"]["SystemdCgroup"] is True


@pytest.mark.parametrize(
    ("version", "plugin"),
    [(1, "cri"), (2, "io.containerd.grpc.v1.cri"), (3, "io.containerd.cri.v1.runtime")],
)
def test_each_version_of_containerds_file_has_its_place_for_runtimes(
    ctk: Any, tmp_path: Path, version: int, plugin: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"version = {version}\n")
    good(
        ctk(
            "runtime",
            "configure",
            "--runtime",
            "containerd",
            "--config",
            file,
            "--nvidia-runtime-path",
            "/opt/ncr",
        )
    )
    options = tomllib.loads(file.read_text())["plugins"][plugin]["containerd"]["runtimes"][
        "nvidia"
    ]["options"]
    assert options == (
        {"BinaryName": "/opt/ncr", "Runtime": "/opt/ncr"}
        if version == 1
        else {"BinaryName": "/opt/ncr"}
    )


def test_a_runtimes_own_other_keys_are_kept(ctk: Any, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        CONTAINERD
        + f'[{CRI}.containerd.runtimes.nvidia]\nruntime_root = "/run/x"\n[{CRI}.containerd.runtimes.nvidia.options]\nNoPivotRoot = true\n'
    )
    good(
        ctk(
            "runtime",
            "configure",
            "--runtime",
            "containerd",
            "--config",
            file,
            "--nvidia-runtime-path",
            "/opt/ncr",
        )
    )
    nvidia = runtimes(file.read_text())["nvidia"]
    assert nvidia["runtime_root"] == "/run/x"
    assert nvidia["options"] == {
        "NoPivotRoot": True,
        "SystemdCgroup": True,
        "BinaryName": "/opt/ncr",
    }


def test_a_drop_in_holds_the_whole_plugin_and_is_imported(ctk: Any, tmp_path: Path) -> None:
    file, drop_in = tmp_path / "config.toml", tmp_path / "conf.d/99-nvidia.toml"
    file.write_text(CONTAINERD)
    words = [
        "runtime",
        "configure",
        "--runtime",
        "containerd",
        "--config",
        file,
        "--drop-in-config",
        drop_in,
        "--nvidia-runtime-path",
        "/opt/ncr",
    ]
    good(ctk(*words))
    assert tomllib.loads(file.read_text())["imports"] == [f"{tmp_path}/conf.d/*.toml"]
    plugin = tomllib.loads(drop_in.read_text())["plugins"]["io.containerd.grpc.v1.cri"]
    assert plugin["sandbox_image"] == "pause:3.9"
    assert plugin["containerd"]["runtimes"]["nvidia"]["options"]["BinaryName"] == "/opt/ncr"
    assert set(plugin["containerd"]["runtimes"]) == {"runc", "nvidia"}
    good(ctk(*words, "--remove"))
    assert not drop_in.exists()


def test_cri_o_gets_a_runtime_of_type_oci(ctk: Any, tmp_path: Path) -> None:
    file = tmp_path / "crio.conf"
    before = '# crio\n[crio.runtime]\ndefault_runtime = "crun"\n[crio.runtime.runtimes.crun]\nruntime_path = "/usr/bin/crun"\nmonitor_path = "/m"\n'
    file.write_text(before)
    words = [
        "runtime",
        "configure",
        "--runtime",
        "crio",
        "--config",
        file,
        "--nvidia-runtime-path",
        "/opt/ncr",
    ]
    good(ctk(*words, "--set-as-default"))
    runtime = tomllib.loads(file.read_text())["crio"]["runtime"]
    assert runtime["runtimes"]["nvidia"] == {
        "runtime_path": "/opt/ncr",
        "runtime_type": "oci",
        "monitor_path": "/m",
    }
    assert runtime["default_runtime"] == "nvidia"
    good(ctk(*words, "--remove"))
    assert "nvidia" not in file.read_text()
    assert "# crio" in file.read_text()


def test_the_model_can_come_from_what_the_engine_says_itself(ctk: Any, tmp_path: Path) -> None:
    """The file names no runtime to be like; the engine's dump does, in a drop-in or a default."""
    for engine, words, dump in (
        ("containerd", "config dump", f'version = 2\n[{CRI}.containerd.runtimes.runc.options]\nSystemdCgroup = true\n'),
        ("crio", "status config", 'INFO a line\n[crio.runtime]\ndefault_runtime = "crun"\n[crio.runtime.runtimes.crun]\nmonitor_path = "/m"\n'),
    ):  # fmt: skip
        (tmp_path / "dump").write_text(dump)
        program, file = tmp_path / engine, tmp_path / f"{engine}.toml"
        program.write_text(f'#!/bin/sh\n[ "$*" = "{words}" ] && cat {tmp_path}/dump\n')
        program.chmod(0o755)
        file.write_text("# mine\n")
        base = [
            "runtime",
            "configure",
            "--runtime",
            engine,
            "--config",
            file,
            "--config-source",
            "command",
        ]
        good(ctk(*base, "--executable-path", program))
        text = file.read_text()
        assert "# mine\n" in text
        assert ("SystemdCgroup = true" if engine == "containerd" else 'monitor_path = "/m"') in text
        done = ctk(*base, "--executable-path", tmp_path / "absent")
        assert done.returncode == 1
        assert "--config-source file" in done.stderr
        assert file.read_text() == text
    done = ctk("runtime", "configure", "--config", tmp_path / "x", "--config-source", "command")
    assert done.returncode == 1
    assert "docker has no command" in done.stderr


def test_containerd_itself_is_asked(ctk: Any, tmp_path: Path) -> None:
    need("containerd", shutil.which("containerd"))
    words = [
        "runtime",
        "configure",
        "--runtime",
        "containerd",
        "--config",
        tmp_path / "c",
        "--config-source=command",
    ]
    good(ctk(*words, f"--drop-in-config={tmp_path}/drop-in.toml"))
    cri = tomllib.loads((tmp_path / "drop-in.toml").read_text())["plugins"][
        "io.containerd.grpc.v1.cri"
    ]
    assert cri["containerd"]["runtimes"]["nvidia"]["runtime_type"] == "io.containerd.runc.v2"
    assert "stream_server_port" in cri, "a default that no file names"


def test_cri_os_drop_in_holds_the_runtime_alone(ctk: Any, tmp_path: Path) -> None:
    drop_in = tmp_path / "crio.conf.d/99-nvidia.toml"
    words = [
        "runtime",
        "configure",
        "--runtime",
        "crio",
        "--config",
        tmp_path / "crio.conf",
        "--drop-in-config",
        drop_in,
    ]
    good(ctk(*words, "--nvidia-runtime-path", "/opt/ncr"))
    assert tomllib.loads(drop_in.read_text()) == {
        "crio": {
            "runtime": {"runtimes": {"nvidia": {"runtime_type": "oci", "runtime_path": "/opt/ncr"}}}
        }
    }
    assert not (tmp_path / "crio.conf").exists()
    good(ctk(*words, "--remove"))
    assert not drop_in.exists()


HOOK_WORDS = ("runtime", "configure", "--config-mode", "oci-hook")


@pytest.mark.parametrize(
    "flag", ["--oci-hook-path={folder}/oci-nvidia-hook.json", "--hook-dir={folder}"]
)
def test_podmans_hook_file_is_written_where_somebody_names_a_place(
    ctk: Any, tmp_path: Path, flag: str
) -> None:
    words = [
        *HOOK_WORDS,
        "--nvidia-runtime-hook-path",
        "/opt/hook",
        flag.format(folder=tmp_path / "hooks"),
    ]
    good(ctk(*words, "--dry-run"))
    assert not (tmp_path / "hooks").exists()
    good(ctk(*words))
    hook = json.loads((tmp_path / "hooks/oci-nvidia-hook.json").read_text())
    assert (hook["hook"]["path"], hook["hook"]["args"], hook["stages"]) == (
        "/opt/hook",
        ["hook", "prestart"],
        ["prestart"],
    )
    good(ctk(*words, "--remove"))
    assert list((tmp_path / "hooks").iterdir()) == []


def test_podmans_hook_is_printed_where_nobody_names_a_place(ctk: Any) -> None:
    """It is for every container of the host: that is nobody's default."""
    folder = Path("/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json")
    before = folder.exists()
    assert json.loads(good(ctk(*HOOK_WORDS)))["when"]["always"] is True
    assert folder.exists() is before
    assert ctk(*HOOK_WORDS, "--remove").returncode == 1


@pytest.mark.parametrize(
    ("engine", "before"), [("containerd", "version = 1\n"), ("crio", "[crio]\n")]
)
def test_an_empty_drop_in_means_the_engines_own_file(
    ctk: Any, tmp_path: Path, engine: str, before: str
) -> None:
    file = tmp_path / "config"
    file.write_text(before)
    words = [
        "runtime",
        "configure",
        "--runtime",
        engine,
        "--config",
        file,
        "--nvidia-runtime-path",
        "/opt/ncr",
    ]
    good(ctk(*words, "--drop-in-config="))
    assert file.read_text().startswith(before)
    assert "/opt/ncr" in file.read_text()
    assert "imports" not in file.read_text()


@pytest.mark.parametrize("engine", ["containerd", "crio"])
@pytest.mark.parametrize(
    "flag",
    ["--nvidia-runtime-path=opt/ncr", "--nvidia-runtime-path=ncr", "--drop-in-config=x.toml"],
)
def test_a_relative_path_is_refused(ctk: Any, tmp_path: Path, engine: str, flag: str) -> None:
    done = ctk("runtime", "configure", "--runtime", engine, "--config", tmp_path / "config", flag)
    assert done.returncode == 1
    assert "is not an absolute path" in done.stderr
    assert list(tmp_path.glob("config*")) == []


# --- config


def test_the_default_configuration_is_read_back_as_the_defaults(ctk: Any, tmp_path: Path) -> None:
    from nvidia_container_runtime import settings

    file = tmp_path / "config.toml"
    file.write_text(good(ctk("config", "default")))
    assert settings.load(str(file)).values == settings.load("/no/such/file").values


def test_values_are_set_in_the_file_and_comments_stay(ctk: Any, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '# mine\ndisable-require = false # yet\n[nvidia-container-runtime]\nmode = "auto" # for now\n'
    )
    sets = [
        "nvidia-container-runtime.mode=cdi",
        "nvidia-container-runtime.runtimes=crun:runc",
        "disable-require",
        "features.disable-cuda-compat-lib-hook=true",
    ]
    good(ctk("config", "-c", file, "-i", *(word for one in sets for word in ("--set", one))))
    assert tomllib.loads(file.read_text()) == {
        "disable-require": True,
        "nvidia-container-runtime": {"mode": "cdi", "runtimes": ["crun", "runc"]},
        "features": {"disable-cuda-compat-lib-hook": True},
    }
    assert all(comment in file.read_text() for comment in ("# mine", "# yet", "# for now"))
    good(ctk("config", "-c", file, "-i", "--set", "features.disable-cuda-compat-lib-hook=nil"))
    assert tomllib.loads(file.read_text())["features"] == {}


@pytest.mark.parametrize(
    "assignment",
    [
        "no.such.key=1",
        "disable-require=perhaps",
        "nvidia-container-runtime.mode",
        "nvidia-container-runtime.runtimes",
    ],
)
def test_a_value_that_makes_no_sense_is_refused(ctk: Any, assignment: str) -> None:
    assert ctk("config", "--set", assignment).returncode == 1


# --- cdi


@pytest.fixture
def driver(host: Host, stub_nvml: Path) -> Path:
    if os.geteuid() != 0:
        pytest.skip("needs root to make device nodes")
    root = host.root / "driver"
    (root / "dev").mkdir(parents=True)
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        os.mknod(root / "dev" / name, 0o020666, os.makedev(1, 3))
    (root / "usr/lib64").mkdir(parents=True)
    (root / "usr/lib64/libcuda.so.550.54.15").write_text("x")
    host.environment |= {"LD_LIBRARY_PATH": str(stub_nvml), "STUB_GPUS": "A;B"}
    return root


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_generated_spec_is_valid_and_names_the_gpus(
    ctk: Any, driver: Path, form: str, tmp_path: Path
) -> None:
    text = good(ctk("cdi", "generate", "--driver-root", driver, "--format", form))
    spec = yaml.safe_load(text) if form == "yaml" else json.loads(text)
    assert cdi_spec.parse(text, is_json=form == "json") == spec
    names = [device["name"] for device in spec["devices"]]
    assert names == [
        "0",
        "GPU-00000000-0000-0000-0000-000000000000",
        "1",
        "GPU-00000000-0000-0000-0000-000000000001",
        "all",
    ]
    assert spec["devices"][0]["containerEdits"]["deviceNodes"] == [
        {"path": "/dev/nvidia0", "hostPath": f"{driver}/dev/nvidia0"}
    ]
    assert len(spec["devices"][-1]["containerEdits"]["deviceNodes"]) == 2


def test_a_generated_spec_gives_a_container_its_gpu(ctk: Any, driver: Path, host: Host) -> None:
    (host.root / "cdi").mkdir()
    good(ctk("cdi", "generate", "--driver-root", driver, "--output", host.root / "cdi/nvidia.yaml"))
    host.configure(
        f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["{host.root}/cdi"]\n', mode="cdi"
    )
    assert (
        good(ctk("cdi", "list", "--spec-dir", host.root / "cdi")).splitlines()[0]
        == "nvidia.com/gpu=0"
    )
    after = host.created("NVIDIA_VISIBLE_DEVICES=1")
    assert [node["path"] for node in after["linux"]["devices"]] == [
        "/dev/nvidiactl",
        "/dev/nvidia1",
    ]


def test_a_csv_list_becomes_a_spec(ctk: Any, tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv/devices.csv").write_text("dev, /dev/null\n")
    spec = yaml.safe_load(
        good(ctk("cdi", "generate", "--mode", "csv", "--csv.file", tmp_path / "csv"))
    )
    assert spec["devices"][0] == {
        "name": "0",
        "containerEdits": {"deviceNodes": [{"path": "/dev/null"}]},
    }


def test_several_csv_lists_become_one_spec_and_links_can_be_left_out(
    ctk: Any, tmp_path: Path
) -> None:
    for name in ("libx.so", "liby.so"):
        (tmp_path / f"{name}.1").write_text("x")
        (tmp_path / name).symlink_to(f"{name}.1")
    (tmp_path / "a.csv").write_text(f"dev, /dev/null\nsym, {tmp_path}/libx.so\n")
    (tmp_path / "b.csv").write_text(f"dev, full\nsym, {tmp_path}/liby.so\n")
    words = [
        "cdi",
        "generate",
        "--mode",
        "csv",
        "--csv.file",
        tmp_path / "a.csv",
        "--csv.file",
        tmp_path / "b.csv",
    ]
    spec = yaml.safe_load(good(ctk(*words, "--csv.ignore-pattern", "**/libx*")))
    assert [node["path"] for node in spec["devices"][0]["containerEdits"]["deviceNodes"]] == [
        "/dev/null",
        "/dev/full",
    ]
    assert [mount["hostPath"] for mount in spec["containerEdits"]["mounts"]] == [
        f"{tmp_path}/liby.so.1"
    ]


def test_a_generated_spec_keeps_the_nodes_group(ctk: Any, driver: Path, host: Host) -> None:
    os.chown(driver / "dev/nvidia0", 0, 44)
    (driver / "dev/nvidia0").chmod(0o660)
    spec = json.loads(good(ctk("cdi", "generate", "--driver-root", driver, "--format", "json")))
    for name in ("0", "all"):
        edits = next(
            device["containerEdits"] for device in spec["devices"] if device["name"] == name
        )
        assert edits["deviceNodes"][0]["gid"] == 44
        assert edits["additionalGids"] == [44]
    assert spec["cdiVersion"] == "0.7.0"


def test_the_drivers_library_is_found_below_the_driver_root(
    ctk: Any, driver: Path, host: Host, stub_nvml: Path
) -> None:
    del host.environment["LD_LIBRARY_PATH"]
    shutil.copy(stub_nvml / "libnvidia-ml.so.1", driver / "usr/lib64/libnvidia-ml.so.1")
    assert "/dev/nvidia1" in good(ctk("cdi", "generate", "--driver-root", driver))


def names_of(text: str) -> list[str]:
    return [device["name"] for device in json.loads(text)["devices"]]


def test_a_spec_can_be_made_of_chosen_devices_and_without_all(ctk: Any, driver: Path) -> None:
    words = [
        "cdi",
        "generate",
        "--driver-root",
        driver,
        "--format",
        "json",
        "--device-name-strategy",
        "index",
    ]
    assert names_of(good(ctk(*words, "--device-id", "1"))) == ["1", "all"]
    assert names_of(good(ctk(*words, "--device-id", "1,0", "--no-all-device"))) == ["1", "0"]
    done = ctk(*words, "--device-id", "7")
    assert done.returncode == 1
    assert "this host has no device '7'" in done.stderr


def hook_names(text: str) -> list[str]:
    return [hook["args"][2] for hook in json.loads(text)["containerEdits"].get("hooks", [])]


def test_hooks_of_a_spec_can_be_left_out_and_given_an_ldconfig(ctk: Any, driver: Path) -> None:
    words = ["cdi", "generate", "--driver-root", driver, "--format", "json"]
    all_of_them = hook_names(good(ctk(*words)))
    assert hook_names(good(ctk(*words, "--disable-hook", "all"))) == []
    without = hook_names(good(ctk(*words, "--disable-hook", "enable-cuda-compat")))
    assert without == [name for name in all_of_them if name != "enable-cuda-compat"]
    some = good(
        ctk(
            *words,
            "--disable-hook",
            "all",
            "--enable-hook",
            "update-ldcache",
            "--ldconfig-path",
            "/sbin/x",
        )
    )
    assert json.loads(some)["containerEdits"]["hooks"][0]["args"] == [
        "nvidia-ctk", "hook", "update-ldcache", "--ldconfig-path", "/sbin/x", "--folder", "/usr/lib64"
    ]  # fmt: skip


def test_device_nodes_can_be_below_a_root_of_their_own(
    ctk: Any, driver: Path, tmp_path: Path
) -> None:
    (tmp_path / "nodes/dev").mkdir(parents=True)
    for name in ("nvidia0", "nvidia1"):
        os.mknod(tmp_path / "nodes/dev" / name, 0o020666, os.makedev(1, 5))
    words = [
        "cdi",
        "generate",
        "--driver-root",
        driver,
        "--dev-root",
        tmp_path / "nodes",
        "--format",
        "json",
    ]
    spec = json.loads(good(ctk(*words)))
    assert (
        spec["devices"][0]["containerEdits"]["deviceNodes"][0]["hostPath"]
        == f"{tmp_path}/nodes/dev/nvidia0"
    )
    assert "deviceNodes" not in spec["containerEdits"]
    assert f"{driver}/usr/lib64/libcuda.so.550.54.15" in [
        one["hostPath"] for one in spec["containerEdits"]["mounts"]
    ]


@pytest.mark.parametrize(
    ("mode", "node", "device"),
    [
        ("gds", "nvidia-fs0", "all"),
        ("gdrcopy", "gdrdrv", "all"),
        ("mofed", "infiniband/uverbs0", "all"),
        ("nvswitch", "nvidia-nvswitchctl", "all"),
        ("imex", "nvidia-caps-imex-channels/channel3", "3"),
        ("management", "nvidia-caps/nvidia-cap1", "all"),
    ],
)
def test_a_spec_is_made_of_a_part_of_the_driver(
    ctk: Any, driver: Path, host: Host, mode: str, node: str, device: str
) -> None:
    words = ["cdi", "generate", "--driver-root", driver, "--mode", mode, "--format", "json"]
    if mode != "management":
        assert ctk(*words).returncode == 1, "there is nothing yet"
    (driver / "dev" / node).parent.mkdir(exist_ok=True)
    os.mknod(driver / "dev" / node, 0o020666, os.makedev(1, 3))
    (host.root / "cdi").mkdir()
    good(ctk(*words, "--output", host.root / "cdi/part"))
    host.configure(
        f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["{host.root}/cdi"]\n', mode="cdi"
    )
    after = host.created(f"NVIDIA_VISIBLE_DEVICES={device}")
    assert f"/dev/{node}" in [one["path"] for one in after["linux"]["devices"]]
    assert "NVIDIA_VISIBLE_DEVICES=void" in after["process"]["env"]


@pytest.mark.parametrize(
    ("output", "written", "form"),
    [
        ("x", "x.yaml", "yaml"),
        ("x.json", "x.json", "json"),
        ("x.conf", "x.conf.yaml", "yaml"),
        ("x.yaml", "x.yaml", "yaml"),
    ],
)
def test_a_spec_is_written_in_the_format_of_its_name(
    ctk: Any, driver: Path, tmp_path: Path, output: str, written: str, form: str
) -> None:
    """A CDI reader passes over a file without one of the two endings."""
    good(ctk("cdi", "generate", "--driver-root", driver, "--output", tmp_path / "made" / output))
    made = tmp_path / "made" / written
    cdi_spec.parse(made.read_text(), is_json=form == "json")
    good(
        ctk(
            "cdi",
            "transform",
            "root",
            "--to",
            "/r",
            "--input",
            made,
            "--output",
            tmp_path / "moved" / output,
        )
    )
    moved = (tmp_path / "moved").iterdir()
    assert [(one.name, one.read_text()[:1]) for one in moved] == [
        (written, "{" if form == "json" else "-")
    ]


def test_every_hook_of_a_generated_or_moved_spec_has_an_environment(ctk: Any, driver: Path) -> None:
    """Engines that inject a spec themselves would run the others with the image's."""
    generated = json.loads(
        good(ctk("cdi", "generate", "--driver-root", driver, "--format", "json"))
    )
    hooks = generated["containerEdits"]["hooks"]
    assert [hook.pop("env") for hook in hooks] == [["NVIDIA_CTK_DEBUG=false"]] * len(hooks)
    words = ("cdi", "transform", "root", "--from", "/old", "--to", "/new")
    moved = json.loads(good(ctk(*words, stdin=json.dumps(generated))))
    assert [hook["env"] for hook in moved["containerEdits"]["hooks"]] == [
        ["NVIDIA_CTK_DEBUG=false"]
    ] * len(hooks)


def test_a_specs_paths_move_to_another_root(ctk: Any) -> None:
    edits = {
        "deviceNodes": [{"path": "/dev/x", "hostPath": "/old/dev/x"}],
        "mounts": [
            {"hostPath": "/old/lib", "containerPath": "/lib"},
            {"hostPath": "/older", "containerPath": "/o"},
        ],
    }
    spec = {
        "cdiVersion": "0.5.0",
        "kind": "a.com/b",
        "devices": [{"name": "x", "containerEdits": edits}],
    }
    moved = json.loads(
        good(
            ctk(
                "cdi", "transform", "root", "--from", "/old", "--to", "/new", stdin=json.dumps(spec)
            )
        )
    )
    found = moved["devices"][0]["containerEdits"]
    assert found["deviceNodes"] == [{"path": "/dev/x", "hostPath": "/new/dev/x"}]
    assert [mount["hostPath"] for mount in found["mounts"]] == ["/new/lib", "/older"]


# --- system, info


def test_the_drivers_nodes_get_links_by_number(ctk: Any, driver: Path, tmp_path: Path) -> None:
    os.mknod(driver / "dev/nvidia-fs0", 0o020666, os.makedev(9, 9))
    words = [
        "system",
        "create-dev-char-symlinks",
        "--dev-char-path",
        tmp_path / "char",
        "--driver-root",
        driver,
    ]
    assert f"{tmp_path}/char/1:3" in good(ctk(*words, "--dry-run"))
    assert not (tmp_path / "char").exists()
    for _ in range(2):
        good(ctk(*words))
    assert {one.name for one in (tmp_path / "char").iterdir()} == {"1:3"}
    assert os.readlink(tmp_path / "char/1:3").startswith(f"{driver}/dev/nvidia")


def test_links_for_nodes_that_could_be_there_are_made_by_the_drivers_numbers(
    host: Host, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    (tmp_path / "devices").write_text(
        "Character devices:\n  1 mem\n195 nvidia-frontend\n511 nvidia-uvm\n\nBlock devices:\n  7 loop\n"
    )
    command = f"{host.prefix}/bin/nvidia-ctk system create-dev-char-symlinks --create-all --dev-char-path {tmp_path}/char --driver-root {tmp_path}"
    script = f"mount --bind {tmp_path}/devices /proc/devices && exec {command}"
    subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        env={**host.environment, "PATH": SYSTEM_PATH},
        check=True,
    )
    links = {one.name: os.readlink(one) for one in (tmp_path / "char").iterdir()}
    assert {
        "195:255": "/dev/nvidiactl",
        "511:0": "/dev/nvidia-uvm",
        "511:1": "/dev/nvidia-uvm-tools",
    }.items() <= links.items()


def test_info_says_what_the_runtime_sees(ctk: Any, driver: Path) -> None:
    told = good(ctk("info"))
    assert "driver: 550.54.15, CUDA 12.4: 0 A" in told
    assert "configuration: " in told


def test_a_wrong_command_line_is_told_and_fails(ctk: Any) -> None:
    for words in ((), ("bogus",), ("runtime",), ("cdi", "generate", "--format", "xml")):
        assert ctk(*words).returncode == 2


# --- hooks


@pytest.fixture
def box(host: Host) -> Path:
    root = host.bundle / "rootfs"
    (root / "usr/lib").mkdir(parents=True)
    host.spec()
    return root


def state(host: Host) -> str:
    return json.dumps({"bundle": str(host.bundle), "pid": 1})


def test_links_are_made_below_the_root_and_replaced_in_one_step(
    ctk: Any, host: Host, box: Path
) -> None:
    (box / "usr/lib/libx.so").write_text("a file in the way")
    words = [
        "hook",
        "create-symlinks",
        "--link",
        "libx.so.1::/usr/lib/libx.so",
        "--link=../y::/opt/new/deep/link",
        "--link",
        "/abs::z",
    ]
    for _ in range(2):
        good(ctk(*words, stdin=state(host)))
    assert os.readlink(box / "usr/lib/libx.so") == "libx.so.1"
    assert os.readlink(box / "opt/new/deep/link") == "../y"
    assert os.readlink(box / "z") == "/abs"


@pytest.mark.parametrize("trap", ["/", "../../../../../../../../..", "{outside}", "loop"])
def test_a_link_never_lands_outside_the_root(ctk: Any, host: Host, box: Path, trap: str) -> None:
    """The container's image holds a link that leads out: it is followed as the container would
    follow it.
    """
    outside = host.root / "outside"
    outside.mkdir()
    (box / "trap").symlink_to("trap" if trap == "loop" else trap.format(outside=outside))
    done = ctk("hook", "create-symlinks", "--link", "t::/trap/evil", stdin=state(host))
    assert (done.returncode == 1) is (trap == "loop")
    assert list(outside.iterdir()) == []
    assert not os.path.lexists("/evil")
    if trap != "loop":
        inside = box / str(outside).lstrip("/") if "outside" in trap else box
        assert os.readlink(inside / "evil") == "t"


def test_who_swaps_a_folder_for_a_link_meanwhile_gains_nothing(tmp_path: Path) -> None:
    """A container that shares a volume with the new one may still be at work."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "etc/inner").mkdir(parents=True)
    outside.mkdir()
    box = Root(str(root))
    swap = f"mv {root}/etc {root}/kept && ln -s {outside} {root}/etc && rm {root}/etc && mv {root}/kept {root}/etc"
    with subprocess.Popen(
        ["sh", "-c", f"while :; do {swap}; done"], stderr=subprocess.DEVNULL
    ) as swapping:
        try:
            for number in range(800):
                with contextlib.suppress(OSError, RuntimeFault):
                    box.write("/etc/inner", "name", str(number).encode())
                with contextlib.suppress(OSError, RuntimeFault):
                    hooks.create_symlink(box, str(number), "/etc/inner/link")
        finally:
            swapping.kill()
    assert list(outside.iterdir()) == []


def test_chmod_changes_modes_below_the_root_only(ctk: Any, host: Host, box: Path) -> None:
    outside = host.root / "secret"
    outside.write_text("x")
    outside.chmod(0o600)
    (box / "plain").mkdir(mode=0o700)
    (box / "trap").symlink_to(outside)
    good(
        ctk(
            "hook",
            "chmod",
            "--mode",
            "755",
            "--path",
            "/plain,/missing",
            "--path",
            "/trap",
            stdin=state(host),
        )
    )
    assert stat.S_IMODE((box / "plain").stat().st_mode) == 0o755
    assert stat.S_IMODE(outside.stat().st_mode) == 0o600
    assert (
        ctk("hook", "chmod", "--mode", "99", "--path", "/plain", stdin=state(host)).returncode == 1
    )


@pytest.mark.parametrize("text", ["{}", '{"bundle": "."}', '{"root": "x", "bundle": ""}'])
def test_a_hooks_root_is_never_what_the_current_folder_says(host: Host, text: str) -> None:
    """A hook may run in the container's root folder, where all files are the image's."""
    (host.root / "config.json").write_text(json.dumps({"root": {"path": str(host.root)}}))
    (host.root / "x").mkdir()
    words = ("hook", "create-symlinks", "--link", "a::/b")
    done = host.run(*words, name="nvidia-ctk", cwd=host.root, input=text)
    assert done.returncode == 1
    assert not os.path.lexists(host.root / "b")
    assert not os.path.lexists(host.root / "x/b")


@pytest.mark.parametrize("program", ["/bin/ls", "{folder}/script", "/no/such"])
def test_no_ldconfig_is_run_that_would_load_the_containers_libraries(
    ctk: Any, host: Host, box: Path, tmp_path: Path, program: str
) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    words = ("--folder", "/usr/lib", "--ldconfig-path", program.format(folder=tmp_path))
    done = ctk("hook", "update-ldcache", *words, stdin=state(host))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert not (box / "etc/ld.so.cache").exists()


def test_an_unknown_hook_is_a_warning(ctk: Any) -> None:
    done = ctk("hook", "from-the-future", "--x")
    assert done.returncode == 0
    assert "Unknown hook" in done.stderr


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"bundle": "/no/such"}'])
def test_a_hook_without_a_state_fails_in_one_line(ctk: Any, text: str) -> None:
    done = ctk("hook", "create-symlinks", "--link", "a::b", stdin=text)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
