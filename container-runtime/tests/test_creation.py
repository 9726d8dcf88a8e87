"""What a creation does to config.json, and what it never does."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Host

HOOK = "nvidia-container-runtime-hook"
LEGACY_HOOK = {"path": f"/usr/bin/{HOOK}", "args": [HOOK, "prestart"]}


def legacy_hook(host: Host, **values: Any) -> dict[str, Any]:
    """With an environment that is its own, of the shim's only what it finds its configuration and
    programs by.
    """
    given = {
        "NVIDIA_CTK_DEBUG": "false",
        **{name: host.environment[name] for name in ("PATH", "XDG_CONFIG_HOME")},
    }
    return {**LEGACY_HOOK, "env": [f"{name}={value}" for name, value in given.items()], **values}


# --- which words are a creation


@pytest.mark.parametrize(
    "words",
    [
        ("create", "--bundle", "{bundle}", "x"),
        ("create", "-b", "{bundle}", "x"),
        ("create", "--bundle={bundle}", "x"),
        ("create", "-b={bundle}", "x"),
        ("create", "--bundle", "/no/such", "--bundle", "{bundle}", "x"),
        ("--root", "create", "create", "--bundle", "{bundle}", "x"),
        (
            "--log",
            "/dev/null",
            "--log-format",
            "json",
            "--systemd-cgroup",
            "create",
            "--pid-file",
            "--bundle",
            "-b",
            "{bundle}",
            "x",
        ),
        ("--unknown", "value", "create", "--bundle", "{bundle}", "create"),
        ("--unknown", "create", "--bundle", "{bundle}", "x"),
        ("--log=/dev/null", "create", "x", "--bundle", "{bundle}"),
        ("--bundle", "{bundle}", "create", "x"),
    ],
    ids=" ".join,
)
def test_a_creation_is_recognised(host: Host, words: tuple[str, ...]) -> None:
    host.spec()
    assert host.run(*(word.format(bundle=host.bundle) for word in words), cwd="/").returncode == 0
    assert host.read_spec()["hooks"]["prestart"] == [legacy_hook(host)]


@pytest.mark.parametrize(
    "words",
    [
        ("delete", "create"), ("state", "create"), ("--log", "create", "state", "x"), ("run", "--bundle", "{bundle}", "create"),
        ("exec", "x", "create", "--bundle", "{bundle}"), ("--root", "create", "kill", "create"), ("help", "create"),
        ("--bundle", "create", "state"), ("-b", "create", "state"), ("--bundle=create", "state"), ("--log", "create", "--bundle", "create", "kill"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_container_or_file_named_create_is_no_creation(
    host: Host, words: tuple[str, ...]
) -> None:
    host.spec()
    before = host.raw_spec()
    assert (
        host.run(*(word.format(bundle=host.bundle) for word in words), cwd=host.bundle).returncode
        == 0
    )
    assert host.raw_spec() == before


def test_without_a_bundle_flag_the_current_folder_is_the_bundle(host: Host) -> None:
    host.spec()
    assert host.run("create", "x", cwd=host.bundle).returncode == 0
    assert host.read_spec()["hooks"]["prestart"] == [legacy_hook(host)]


def test_a_bundle_flag_without_a_value_is_an_error(host: Host) -> None:
    done = host.run("create", "x", "--bundle")
    assert done.returncode == 1
    assert "bundle option requires an argument" in done.stderr


# --- how the file is written


def test_fields_that_the_shim_does_not_know_are_kept(host: Host) -> None:
    odd = {"unknown": {"a": [1, 2.5, None, "\u2028<&>\ud800", 12345678901234567890123]}, "zz": {}}
    after = host.created(**odd)
    assert {key: after[key] for key in odd} == odd
    assert after["process"]["terminal"] is False


def test_owner_and_mode_of_the_file_are_kept(host: Host) -> None:
    host.spec()
    file = host.bundle / "config.json"
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 12345, 54321)
    before = file.stat()
    assert host.create().returncode == 0
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert [one.name for one in host.bundle.iterdir()] == ["config.json"], "a draft was left behind"


def test_a_link_stays_a_link_and_its_target_is_changed(host: Host) -> None:
    host.spec()
    (host.bundle / "config.json").rename(host.root / "real.json")
    (host.bundle / "config.json").symlink_to("../real.json")
    assert host.create().returncode == 0
    assert (host.bundle / "config.json").is_symlink()
    assert json.loads((host.root / "real.json").read_text())["hooks"]["prestart"] == [
        legacy_hook(host)
    ]


def test_a_reader_never_sees_half_a_file(host: Host) -> None:
    """An old open descriptor still reads the whole old text: the file is replaced,
    not rewritten.
    """
    host.spec()
    with (host.bundle / "config.json").open() as old:
        before = host.raw_spec().decode()
        assert host.create().returncode == 0
        assert old.read() == before


@pytest.mark.parametrize("mode", ["cdi", "csv", "jit-cdi"])
def test_a_container_that_asks_for_nothing_keeps_its_file_byte_for_byte(
    host: Host, mode: str
) -> None:
    host.configure(mode=mode)
    for env in (
        (),
        ("NVIDIA_VISIBLE_DEVICES=",),
        ("NVIDIA_VISIBLE_DEVICES=void",),
        ("NVIDIA_VISIBLE_DEVICES=0,void",),
    ):
        host.spec(*env, hooks={"prestart": [LEGACY_HOOK]})
        (host.bundle / "config.json").write_text(json.dumps(host.read_spec(), indent=3) + "\n\n")
        before, inode = host.raw_spec(), (host.bundle / "config.json").stat().st_ino
        assert host.create().returncode == 0
        assert (host.raw_spec(), (host.bundle / "config.json").stat().st_ino) == (before, inode)


def test_text_after_the_spec_is_ignored_as_the_runtimes_do(host: Host) -> None:
    host.spec()
    with (host.bundle / "config.json").open("a") as file:
        file.write("garbage")
    assert host.create().returncode == 0


# --- legacy mode


def test_legacy_mode_adds_the_hook_with_or_without_a_request(host: Host) -> None:
    for env in ((), ("NVIDIA_VISIBLE_DEVICES=all",), ("NVIDIA_VISIBLE_DEVICES=void",)):
        after = host.created(*env)
        assert after["hooks"]["prestart"] == [legacy_hook(host)]
        assert after["process"]["env"] == ["PATH=/bin", "TERM=xterm", *env]


@pytest.mark.parametrize(
    "path", ["/opt/nvidia-container-runtime-hook", "/usr/bin/nvidia-container-toolkit"]
)
def test_legacy_mode_adds_no_second_hook(host: Host, path: str) -> None:
    present = {"prestart": [{"path": "/bin/other"}, {"path": path, "args": ["x", "prestart"]}]}
    assert host.created(hooks=present)["hooks"] == present


def test_the_hook_is_where_the_configuration_says(host: Host) -> None:
    host.configure('[nvidia-container-runtime-hook]\npath = "/opt/my-hook"\n')
    assert host.created()["hooks"]["prestart"] == [
        legacy_hook(host, path="/opt/my-hook", args=["my-hook", "prestart"])
    ]


def test_the_hooks_environment_is_not_the_engines(host: Host) -> None:
    values = {
        "SECRET": "x",
        "LD_PRELOAD": "",
        "LD_LIBRARY_PATH": "/opt/lib",
        "NVIDIA_CTK_CONFIG_FILE_PATH": "",
    }
    host.spec()
    assert host.create(env=values).returncode == 0
    (hook,) = host.read_spec()["hooks"]["prestart"]
    assert sorted(entry.partition("=")[0] for entry in hook["env"]) == [
        "LD_LIBRARY_PATH", "NVIDIA_CTK_DEBUG", "PATH", "XDG_CONFIG_HOME",
    ]  # fmt: skip


@pytest.mark.parametrize("feature", ["GDS", "MOFED", "NVSWITCH", "GDRCOPY"])
def test_a_gated_feature_in_legacy_mode_does_not_take_the_gpu_away(
    host: Host, feature: str
) -> None:
    """Upstream appends NVIDIA_VISIBLE_DEVICES=void, which its own hook then reads."""
    after = host.created("NVIDIA_VISIBLE_DEVICES=all", f"NVIDIA_{feature}=enabled")
    assert [entry for entry in after["process"]["env"] if entry.startswith("NVIDIA_VISIBLE")] == [
        "NVIDIA_VISIBLE_DEVICES=all"
    ]


def test_graphics_without_a_driver_version_is_a_warning(host: Host) -> None:
    host.configure(f'[nvidia-container-cli]\nroot = "{host.root}/driver"\n')
    host.created("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=graphics")
    assert "level=warning" in host.log.read_text()
    assert "No driver version found" in host.log.read_text()


def test_graphics_files_of_the_driver_root_are_mounted(host: Host) -> None:
    root = host.root / "driver"
    for name in (
        "usr/share/glvnd/egl_vendor.d/10_nvidia.json",
        "usr/lib64/libcuda.so.550.54.15",
        "usr/lib64/libnvidia-egl-gbm.so.550.54.15",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    host.configure(f'[nvidia-container-cli]\nroot = "{root}"\n')
    after = host.created("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=graphics")
    mounts = {mount["destination"]: mount["source"] for mount in after["mounts"]}
    assert (
        mounts["/usr/share/glvnd/egl_vendor.d/10_nvidia.json"]
        == f"{root}/usr/share/glvnd/egl_vendor.d/10_nvidia.json"
    )
    assert "/usr/lib64/libnvidia-egl-gbm.so.550.54.15" in mounts


def test_a_hook_for_compatibility_libraries_is_added_where_that_is_configured(host: Host) -> None:
    root = host.root / "driver"
    (root / "usr/lib64").mkdir(parents=True)
    text = f'[nvidia-container-cli]\nroot = "{root}"\n[nvidia-container-runtime.modes.legacy]\ncuda-compat-mode = "hook"\n'
    host.configure(text)
    assert "createContainer" not in host.created("NVIDIA_VISIBLE_DEVICES=all")["hooks"]
    (root / "usr/lib64/libcuda.so.550.54.15").write_text("x")
    hooks = host.created("NVIDIA_VISIBLE_DEVICES=all")["hooks"]
    assert hooks["createContainer"][0]["args"][2:] == [
        "enable-cuda-compat",
        "--host-driver-version=550.54.15",
    ]
    assert "createContainer" not in host.created()["hooks"]
    host.configure(text + "[features]\ndisable-cuda-compat-lib-hook = true\n")
    assert "createContainer" not in host.created("NVIDIA_VISIBLE_DEVICES=all")["hooks"]


# --- names, modes, log


def test_the_names_with_a_mode_in_them_fix_it(host: Host) -> None:
    host.configure(mode="csv")
    host.spec("NVIDIA_VISIBLE_DEVICES=9")
    assert "unresolvable CDI devices nvidia.com/gpu=9" in host.refused_by(
        "nvidia-container-runtime.cdi"
    )
    assert (
        host.run(
            "create", "-b", str(host.bundle), "x", name="nvidia-container-runtime.legacy"
        ).returncode
        == 0
    )
    assert host.read_spec()["hooks"]["prestart"] == [legacy_hook(host)]


@pytest.mark.parametrize(
    ("mode", "text"), [("foo", 'invalid mode \\"foo\\"'), ("", "a mode must be specified")]
)
def test_an_unknown_mode_is_an_error_of_creations_only(host: Host, mode: str, text: str) -> None:
    host.configure(mode=mode)
    host.spec()
    assert text in host.refused()
    assert host.run("state", "x").returncode == 0


def test_auto_is_cdi_where_only_cdi_names_are_asked_for(host: Host) -> None:
    host.configure(mode="auto")
    host.spec("NVIDIA_VISIBLE_DEVICES=example.com/gpu=0")
    assert "unresolvable CDI devices example.com/gpu=0" in host.refused()
    assert "Auto-detected mode as 'cdi'" in host.log.read_text()


def test_one_letter_vendors_and_classes_are_names_like_others(host: Host) -> None:
    """Upstream ends in a Go panic here."""
    host.configure(mode="auto")
    host.spec("NVIDIA_VISIBLE_DEVICES=a/b=c")
    assert "unresolvable CDI devices a/b=c" in host.refused()


def test_auto_is_legacy_where_its_tool_is_installed_and_jit_cdi_where_it_is_not(
    host: Host, mock_cli: Path
) -> None:
    host.configure(f'[nvidia-container-cli]\npath = "{mock_cli}"\n', mode="auto")
    host.created("NVIDIA_VISIBLE_DEVICES=all")
    assert "Auto-detected mode as 'legacy'" in host.log.read_text()
    host.configure('[nvidia-container-cli]\npath = "/no/such/cli"\n', mode="auto")
    host.spec("NVIDIA_VISIBLE_DEVICES=all")
    assert "failed to initialize NVML" in host.refused() or os.path.exists("/dev/nvidiactl")
    assert "Auto-detected mode as 'jit-cdi'" in host.log.read_text()


def test_a_tool_that_is_named_without_a_folder_is_looked_up(host: Host, mock_cli: Path) -> None:
    tool = mock_cli.with_name("our-container-cli")
    tool.write_bytes(mock_cli.read_bytes())
    tool.chmod(0o755)
    host.environment["PATH"] += f":{tool.parent}"
    host.configure(f'[nvidia-container-cli]\npath = "{tool.name}"\n', mode="auto")
    host.created("NVIDIA_VISIBLE_DEVICES=all")
    assert "Auto-detected mode as 'legacy'" in host.log.read_text()


@pytest.mark.parametrize("gpus", ["Orin (nvgpu)", "NVIDIA Thor", "NVIDIA A100;NVIDIA Thor"])
def test_auto_is_csv_where_a_gpu_is_integrated(host: Host, stub_nvml: Path, gpus: str) -> None:
    host.configure(mode="auto")
    host.environment |= {"LD_LIBRARY_PATH": str(stub_nvml), "STUB_GPUS": gpus}
    host.spec("NVIDIA_VISIBLE_DEVICES=all")
    host.create()
    assert "Auto-detected mode as 'csv'" in host.log.read_text()


def test_a_tegra_without_nvml_is_csv(host: Host) -> None:
    """In a mount namespace of its own the host gets the file that Tegra systems have."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    host.configure(mode="auto")
    host.spec("NVIDIA_VISIBLE_DEVICES=all")
    (host.root / "upper").mkdir()
    (host.root / "work").mkdir()
    script = (
        f"mount -t tmpfs none {host.root}/work && cp -a /etc/. {host.root}/work/ 2>/dev/null; touch {host.root}/work/nv_tegra_release"
        f" && mount --bind {host.root}/work /etc && exec {host.prefix}/bin/nvidia-container-runtime create -b {host.bundle} x"
    )
    subprocess.run(["unshare", "-m", "sh", "-c", script], env=host.environment, check=False)
    assert "Auto-detected mode as 'csv'" in host.log.read_text()


def test_the_log_flag_adds_a_file_in_the_format_asked_for(host: Host) -> None:
    host.spec()
    for flags in (
        ["--log", str(host.root / "deep/er/a.log"), "--log-format", "json"],
        [f"--log={host.root}/deep/er/a.log", "--log-format=json"],
    ):
        assert host.run(*flags, "create", "-b", str(host.bundle), "x").returncode == 0
    lines = [json.loads(line) for line in (host.root / "deep/er/a.log").read_text().splitlines()]
    assert {"level", "msg", "time"} == set(lines[0])
    assert lines[0]["msg"] == f"Using OCI specification file path: {host.bundle}/config.json"
    assert stat.S_IMODE((host.root / "deep/er/a.log").stat().st_mode) == 0o644


def test_an_error_is_written_to_the_log_that_the_engine_reads(host: Host) -> None:
    host.config_file.write_text("[broken\n")
    host.run(
        "--log",
        str(host.root / "engine.log"),
        "--log-format",
        "json",
        "create",
        "-b",
        str(host.bundle),
        "x",
    )
    assert json.loads((host.root / "engine.log").read_text())["level"] == "error"


def test_a_log_that_cannot_be_opened_does_not_stop_a_container(host: Host) -> None:
    host.configure(debug="/proc/no/such/file")
    host.spec()
    assert host.create().returncode == 0
    assert host.record.argv[1] == b"create"


def test_an_unknown_log_level_is_info_with_a_warning(host: Host) -> None:
    host.configure(log_level="loud")
    host.created()
    assert "Error getting log level: invalid log-level 'loud'" in host.log.read_text()
    assert "Using OCI specification file path" in host.log.read_text()


@pytest.mark.parametrize(
    ("flags", "logged"),
    [(["--debug"], True), (["--debug=true"], True), (["--debug=false"], False), ([], False)],
)
def test_debug_can_be_switched_off_by_its_value(host: Host, flags: list[str], logged: bool) -> None:
    host.spec()
    assert host.run(*flags, "create", "-b", str(host.bundle), "x").returncode == 0
    assert ("level=debug" in host.log.read_text()) is logged


def test_flags_of_a_command_inside_the_container_are_not_the_shims(host: Host) -> None:
    """Upstream prints its version into the output of `exec box program --version`."""
    done = host.run(
        "exec", "box", "program", "--version", "--debug", "--log", str(host.root / "not-a-log")
    )
    assert done.stdout == ""
    assert not (host.root / "not-a-log").exists()
    assert not host.log.exists()
    assert host.record.argv[1:5] == [b"exec", b"box", b"program", b"--version"]


def test_many_creations_at_once_are_all_right(host: Host, tmp_path: Path) -> None:
    """They share the log and the memory of the last run."""
    program = host.prefix / "bin/nvidia-container-runtime"
    spec = host.spec("NVIDIA_VISIBLE_DEVICES=all")
    bundles = [tmp_path / f"bundle-{number}" for number in range(12)]
    for bundle in bundles:
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(spec))
    running = [
        subprocess.Popen([program, "create", "-b", bundle, bundle.name], env=host.environment)
        for bundle in bundles
    ]
    assert [one.wait(timeout=60) for one in running] == [0] * len(bundles)
    assert all(
        json.loads((bundle / "config.json").read_text())["hooks"]["prestart"] == [legacy_hook(host)]
        for bundle in bundles
    )
    assert all(
        line.startswith("time=") and line.count(" level=") == 1
        for line in host.log.read_text().splitlines()
    )
