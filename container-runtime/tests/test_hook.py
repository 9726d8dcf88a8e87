"""nvidia-container-runtime-hook: a container's request as nvidia-container-cli's command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import SYSTEM_PATH, Host

NEW_FLAGS = "--cuda-compat-mode=MODE --no-create-imex-channels --imex-channel=CHANNEL"


class Hooked:
    """One host with a mock nvidia-container-cli; `run` is a prestart."""

    def __init__(self, host: Host, cli: Path) -> None:
        self.host = host
        self.cli = cli
        self.calls = host.root / "calls"
        self.environment = {
            **host.environment,
            "MOCK_CALLS": str(self.calls),
            "MOCK_HELP": "",
            "PATH": SYSTEM_PATH,
        }
        self.configure()

    def configure(self, text: str = "", mode: str = "legacy", cli: str = "") -> None:
        top, mark, tables = text.partition("[")
        tables = mark + tables
        lines = f'[nvidia-container-runtime]\nmode = "{mode}"\n[nvidia-container-cli]\nldconfig = "@/sbin/ldconfig"\nload-kmods = false\n'
        self.host.config_file.write_text(f'{top}{lines}path = "{self.cli}"\n{cli}{tables}')

    def run(
        self, *env: str, words: tuple[str, ...] = ("prestart",), state: Any = None, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        privileged = more.pop("privileged", False)
        spec = self.host.spec(*env, **more)
        if privileged:
            spec["process"]["capabilities"]["bounding"] = ["CAP_SYS_ADMIN"]
            self.host.write_spec(spec)
        return self.call(
            words,
            {"ociVersion": "1.0.2", "pid": 4711, "bundle": str(self.host.bundle)}
            if state is None
            else state,
        )

    def call(self, words: tuple[str, ...], state: Any) -> subprocess.CompletedProcess[str]:
        program = self.host.prefix / "bin/nvidia-container-runtime-hook"
        text = state if isinstance(state, str) else json.dumps(state)
        self.calls.unlink(missing_ok=True)
        return subprocess.run(
            [program, *words],
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            cwd=self.host.bundle,
            check=False,
        )

    def words(self, *env: str, **more: Any) -> list[str]:
        done = self.run(*env, **more)
        assert done.returncode == 0, done.stderr
        return self.calls.read_text().splitlines()

    def path_of_the_tool(self) -> str:
        """The PATH that nvidia-container-cli is started with."""
        place = self.host.root / "environment"
        self.environment["MOCK_ENVIRONMENT"] = str(place)
        self.words("NVIDIA_VISIBLE_DEVICES=all")
        entries = place.read_text().split("\0")
        return next(entry for entry in entries if entry.startswith("PATH="))[len("PATH=") :]


@pytest.fixture
def hooked(host: Host, mock_cli: Path) -> Hooked:
    """A tool of each test's own: what the hook remembers of one does not reach another."""
    own = host.root / "tool/nvidia-container-cli"
    own.parent.mkdir()
    shutil.copy(mock_cli, own)
    return Hooked(host, own)


def test_the_flags_of_an_ordinary_request_in_their_order(hooked: Hooked) -> None:
    assert hooked.words("NVIDIA_VISIBLE_DEVICES=0,1", "NVIDIA_DRIVER_CAPABILITIES=utility,compute", "NVIDIA_REQUIRE_CUDA=cuda>=11.0") == [
        "configure", "--ldconfig=@/sbin/ldconfig", "--device=0,1", "--compute", "--utility", "--require=cuda>=11.0", "--pid=4711",
        f"{hooked.host.bundle}/rootfs",
    ]  # fmt: skip


def test_every_flag_in_its_order(hooked: Hooked) -> None:
    cli = 'root = "/drv"\nno-pivot = true\ndebug = "/tmp/d"\nldcache = "/tmp/c"\nuser = "root:video"\nno-cgroups = true\n'
    hooked.configure("[features]\ndisable-imex-channel-creation = true\n", cli=cli)
    text = hooked.host.config_file.read_text().replace("load-kmods = false", "load-kmods = true")
    hooked.host.config_file.write_text(text)
    hooked.environment["MOCK_HELP"] = NEW_FLAGS
    env = [
        "NVIDIA_VISIBLE_DEVICES=all",
        "NVIDIA_MIG_CONFIG_DEVICES=all",
        "NVIDIA_MIG_MONITOR_DEVICES=0",
        "NVIDIA_IMEX_CHANNELS=1,2",
    ]
    assert hooked.words(*env, privileged=True) == [
        "--root=/drv", "--load-kmods", "--no-create-imex-channels", "--no-pivot", "--debug=/tmp/d", "--ldcache=/tmp/c", "--user=root:video",
        "configure", "--cuda-compat-mode=ldconfig", "--ldconfig=@/sbin/ldconfig", "--no-cgroups", "--device=all", "--mig-config=all",
        "--mig-monitor=0", "--imex-channel=1,2", "--compute", "--utility", "--pid=4711", f"{hooked.host.bundle}/rootfs",
    ]  # fmt: skip


def test_later_flags_are_used_only_where_the_installed_tool_lists_them(hooked: Hooked) -> None:
    hooked.configure("[features]\ndisable-imex-channel-creation = true\n")
    words = hooked.words("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_IMEX_CHANNELS=1")
    assert not [word for word in words if "imex" in word or "compat" in word]


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        ("ldconfig", "ldconfig"),
        ("mount", "mount"),
        ("disabled", "disabled"),
        ("hook", "disabled"),
        ("x", "disabled"),
    ],
)
def test_the_compatibility_mode(hooked: Hooked, value: str, mode: str) -> None:
    hooked.environment["MOCK_HELP"] = NEW_FLAGS
    hooked.configure(f'[nvidia-container-runtime.modes.legacy]\ncuda-compat-mode = "{value}"\n')
    assert hooked.words("NVIDIA_VISIBLE_DEVICES=all")[1] == f"--cuda-compat-mode={mode}"


def test_none_configures_the_driver_without_a_device(hooked: Hooked) -> None:
    assert not [
        word for word in hooked.words("NVIDIA_VISIBLE_DEVICES=none") if word.startswith("--device")
    ]


def test_devices_given_twice_leave_no_hole(hooked: Hooked) -> None:
    """Upstream says --device=,0 here."""
    assert "--device=0" in hooked.words("NVIDIA_VISIBLE_DEVICES=0,0")


@pytest.mark.parametrize(
    "env", [(), ("NVIDIA_VISIBLE_DEVICES=void",), ("NVIDIA_VISIBLE_DEVICES=",)]
)
def test_a_container_without_a_request_is_left_alone(hooked: Hooked, env: tuple[str, ...]) -> None:
    done = hooked.run(*env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not hooked.calls.exists()


def test_a_legacy_image_gets_everything(hooked: Hooked) -> None:
    words = hooked.words("CUDA_VERSION=9.0.176")
    assert {"--device=all", "--graphics", "--compat32", "--require=cuda>=9.0"} <= set(words)


@pytest.mark.parametrize("version", ["v9.0", "9", "9.0.176"])
def test_an_old_images_cuda_version_is_required(hooked: Hooked, version: str) -> None:
    assert "--require=cuda>=9.0" in hooked.words(f"CUDA_VERSION={version}")


@pytest.mark.parametrize("purpose", ["CONFIG", "MONITOR"])
def test_mig_management_needs_privilege(hooked: Hooked, purpose: str) -> None:
    done = hooked.run("NVIDIA_VISIBLE_DEVICES=all", f"NVIDIA_MIG_{purpose}_DEVICES=all")
    assert done.returncode == 1
    assert done.stderr == f"cannot set MIG_{purpose}_DEVICES in non privileged container\n"
    assert not hooked.calls.exists()


def test_another_mode_set_refuses_the_hook_in_the_documented_words(hooked: Hooked) -> None:
    hooked.configure(mode="csv")
    done = hooked.run("NVIDIA_VISIBLE_DEVICES=all")
    assert done.returncode == 1
    assert done.stderr == (
        "invoking the NVIDIA Container Runtime Hook directly (e.g. specifying the docker --gpus flag) is not supported."
        " Please use the NVIDIA Container Runtime instead.\n"
    )
    hooked.configure("[nvidia-container-runtime-hook]\nskip-mode-detection = true\n", mode="csv")
    assert hooked.words("NVIDIA_VISIBLE_DEVICES=all")


def test_another_mode_detected_is_named_first(hooked: Hooked, stub_nvml: Path) -> None:
    hooked.configure(mode="auto")
    hooked.environment |= {"LD_LIBRARY_PATH": str(stub_nvml), "STUB_GPUS": "Orin (nvgpu)"}
    done = hooked.run("NVIDIA_VISIBLE_DEVICES=all")
    assert done.stderr == (
        "Auto-detected mode as 'csv'\ninvoking the NVIDIA Container Runtime Hook directly (e.g. specifying the docker --gpus flag) is not"
        " supported. Please use the NVIDIA Container Runtime instead.\n"
    )
    hooked.environment["STUB_GPUS"] = "A100"
    assert hooked.words("NVIDIA_VISIBLE_DEVICES=all")


def test_the_tools_exit_code_is_the_hooks(hooked: Hooked) -> None:
    hooked.environment["MOCK_EXIT"] = "9"
    assert hooked.run("NVIDIA_VISIBLE_DEVICES=all").returncode == 9


@pytest.mark.parametrize("pid", ["7", 7.0, -1, True, [7]])
def test_a_pid_that_is_no_number_of_a_process_is_an_error(hooked: Hooked, pid: Any) -> None:
    done = hooked.run(
        "NVIDIA_VISIBLE_DEVICES=all", state={"pid": pid, "bundle": str(hooked.host.bundle)}
    )
    assert done.returncode == 1
    assert "could not decode container state: pid" in done.stderr
    assert not hooked.calls.exists()


def test_an_entry_of_the_configured_environment_without_a_name_is_passed_over(
    hooked: Hooked,
) -> None:
    hooked.configure(cli='environment = ["=b", "A"]\n')
    assert "--device=all" in hooked.words("NVIDIA_VISIBLE_DEVICES=all")


def test_a_list_of_no_capabilities_asks_for_none(hooked: Hooked) -> None:
    words = hooked.words("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=,")
    assert words[2] == "--device=all"
    assert words[3].startswith("--pid=")


def test_the_configured_environment_goes_to_the_tool(hooked: Hooked) -> None:
    hooked.configure(cli=f'environment = ["MOCK_CALLS={hooked.calls}2", "X=1"]\n')
    assert hooked.run("NVIDIA_VISIBLE_DEVICES=all").returncode == 0
    assert Path(f"{hooked.calls}2").exists()


def test_without_the_tool_the_error_names_it(hooked: Hooked) -> None:
    hooked.host.config_file.write_text('[nvidia-container-runtime]\nmode = "legacy"\n')
    done = hooked.run("NVIDIA_VISIBLE_DEVICES=all")
    assert done.returncode == 1
    assert (
        done.stderr
        == 'couldn\'t find binary nvidia-container-cli in PATH: exec: "nvidia-container-cli": executable file not found in $PATH\n'
    )
    hooked.host.config_file.write_text(
        '[nvidia-container-runtime]\nmode = "legacy"\n[nvidia-container-cli]\npath = "/no/such"\n'
    )
    assert "no such file or directory" in hooked.run("NVIDIA_VISIBLE_DEVICES=all").stderr


def test_the_tool_below_the_driver_root_comes_first(hooked: Hooked) -> None:
    root = hooked.host.root / "drv"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/nvidia-container-cli").symlink_to(hooked.cli)
    hooked.host.config_file.write_text(
        f'[nvidia-container-runtime]\nmode = "legacy"\n[nvidia-container-cli]\nroot = "{root}"\n'
    )
    assert hooked.words("NVIDIA_VISIBLE_DEVICES=all")[0] == f"--root={root}"


def test_the_tools_path_starts_with_the_driver_roots_folders_and_ends_with_the_usual_ones(
    hooked: Hooked,
) -> None:
    root = hooked.host.root / "drv"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/nvidia-container-cli").symlink_to(hooked.cli)
    hooked.host.config_file.write_text(
        f'[nvidia-container-runtime]\nmode = "legacy"\n[nvidia-container-cli]\nroot = "{root}"\n'
    )
    hooked.environment["PATH"] = "/mine:/usr/bin"
    folders = [
        "/mine",
        "/usr/bin",
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/sbin",
        "/bin",
    ]
    assert hooked.path_of_the_tool().split(":") == [f"{root}{one}" for one in folders] + folders


def test_without_a_path_the_tool_gets_the_usual_folders(hooked: Hooked) -> None:
    """The low-level runtime may start hooks with an empty environment. The tool ends where it has
    no PATH.
    """
    del hooked.environment["PATH"]
    assert hooked.path_of_the_tool() == SYSTEM_PATH


def test_what_the_tool_can_do_is_asked_once_until_the_tool_changes(hooked: Hooked) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root's runs remember")
    asked = hooked.host.root / "asked"
    hooked.environment |= {"MOCK_ASKED": str(asked), "MOCK_HELP": NEW_FLAGS}
    for _ in range(3):
        assert "--cuda-compat-mode=ldconfig" in hooked.words("NVIDIA_VISIBLE_DEVICES=all")
    assert len(asked.read_text().splitlines()) == 2, "its help, and that of configure"
    hooked.cli.write_text(hooked.cli.read_text() + "# another version\n")
    hooked.environment["MOCK_HELP"] = ""
    assert not [word for word in hooked.words("NVIDIA_VISIBLE_DEVICES=all") if "compat" in word]
    assert len(asked.read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("", "could not decode container state: EOF"),
        ("[]", "no object"),
        ({"bundle": "/no/such"}, "could not open OCI spec"),
        ("{", "could not decode"),
    ],
)
def test_a_broken_state_is_an_error(hooked: Hooked, state: Any, said: str) -> None:
    done = hooked.run(state=state)
    assert done.returncode == 1
    assert said in done.stderr


@pytest.mark.parametrize(
    ("part", "said"), [("ociVersion", "Version"), ("process", "Process"), ("root", "Root")]
)
def test_a_spec_without_its_parts_is_an_error(hooked: Hooked, part: str, said: str) -> None:
    spec = hooked.host.spec()
    del spec[part]
    hooked.host.write_spec(spec)
    done = hooked.call(("prestart",), {"bundlePath": str(hooked.host.bundle)})
    assert (done.returncode, done.stderr) == (1, f"{said} is empty in OCI spec\n")


def test_its_commands(hooked: Hooked) -> None:
    assert hooked.call(("poststart",), "").returncode == 0
    assert hooked.call(("poststop",), "").returncode == 0
    assert hooked.call(("-version",), "").stdout.startswith("NVIDIA Container Runtime Hook version")
    for words in ((), ("bogus",), ("-bogus", "prestart")):
        done = hooked.call(words, "")
        assert done.returncode == 2
        assert done.stderr.startswith("Usage of nvidia-container-runtime-hook")


def test_a_configuration_named_on_the_command_line_must_be_there(hooked: Hooked) -> None:
    done = hooked.run(words=("-config", "/no/such/file", "prestart"))
    assert done.returncode == 1
    assert "couldn't open required configuration file: file does not exist" in done.stderr
    other = hooked.host.root / "other.toml"
    other.write_text(hooked.host.config_file.read_text())
    hooked.host.config_file.unlink()
    assert (
        hooked.words(
            "NVIDIA_VISIBLE_DEVICES=all", words=(f"-config={other}", "-debug", "prestart")
        )[0]
        == "--debug=/dev/stderr"
    )


def test_a_driver_containers_configuration_comes_before_the_one_in_etc(hooked: Hooked) -> None:
    """Where no variable names another. In a mount namespace of its own the host
    gets such a file.
    """
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    hooked.host.spec("NVIDIA_VISIBLE_DEVICES=0")
    config = hooked.host.config_file.read_text().replace(
        "[nvidia-container-cli]", '[nvidia-container-cli]\nldcache = "/from-driver"'
    )
    (hooked.host.root / "driver.toml").write_text(config)
    folder = "/run/nvidia/driver/etc/nvidia-container-runtime"
    script = (
        f"mount -t tmpfs none /run && mkdir -p {folder} && cp {hooked.host.root}/driver.toml {folder}/config.toml"
        f" && exec {hooked.host.prefix}/bin/nvidia-container-runtime-hook prestart"
    )
    environment = {
        key: value for key, value in hooked.environment.items() if key != "XDG_CONFIG_HOME"
    }
    state = json.dumps({"pid": 1, "bundle": str(hooked.host.bundle)})
    subprocess.run(
        ["unshare", "-m", "sh", "-c", script], env=environment, input=state, text=True, check=True
    )
    assert "--ldcache=/from-driver" in hooked.calls.read_text().splitlines()


def test_capabilities_that_the_configuration_cannot_name_are_told(hooked: Hooked) -> None:
    """Upstream fails here without a word."""
    hooked.configure('supported-driver-capabilities = "compute,foo"\n')
    done = hooked.run("NVIDIA_VISIBLE_DEVICES=all")
    assert done.returncode == 1
    assert (
        "Invalid value for config option 'supported-driver-capabilities'; compute,foo"
        in done.stderr
    )
