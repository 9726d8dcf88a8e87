"""The script that sets up a GPU host: what it sees, what it plans for each family of systems, and
what it makes of hostile words. Installing for real: test_host_install.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.host_root import BANK, RECORD, HostRoot
from support.shellcheck import complaints
from tao_sdk.model.gpu_host import targets
from tao_sdk.model.settings import Settings
from tao_sdk.skills.bank import PACKAGED
from tao_sdk.skills.installing import install_bank

pytestmark = pytest.mark.slow

RECORDED = Path(__file__).parents[1] / "recorded" / "host_setup"
SCRIPTS = sorted(PACKAGED.rglob("*.sh"))
UNAME = "case $1 in -r) echo 6.1.0-9-test;; -m) echo x86_64;; esac\n"
SMI = "echo {}\n"
DOCKER = 'echo \'{"runc":{},"nvidia":{}}\'\n'
READY = {
    "nvidia-smi": SMI.format("580.95.05"),
    "nvidia-ctk": 'echo "NVIDIA Container Toolkit CLI version 1.19.0"\n',
    "docker": DOCKER,
}
SYSTEMS = {
    "ubuntu-24.04": {"ID": "ubuntu", "VERSION_ID": "24.04", "PRETTY_NAME": "Ubuntu 24.04.1 LTS"},
    "mint": {"ID": "linuxmint", "ID_LIKE": "ubuntu debian", "VERSION_ID": "22", "UBUNTU_CODENAME": "noble"},
    "debian-12": {"ID": "debian", "VERSION_ID": "12", "VERSION_CODENAME": "bookworm"},
    "rocky-9": {"ID": "rocky", "ID_LIKE": "rhel centos fedora", "VERSION_ID": "9.5"},
    "rhel-8": {"ID": "rhel", "ID_LIKE": "fedora", "VERSION_ID": "8.10"},
    "fedora-42": {"ID": "fedora", "VERSION_ID": "42"},
    "amazon-2023": {"ID": "amzn", "ID_LIKE": "fedora", "VERSION_ID": "2023"},
    "leap-15.6": {"ID": "opensuse-leap", "ID_LIKE": "suse opensuse", "VERSION_ID": "15.6"},
    "sles-15": {"ID": "sles", "ID_LIKE": "suse", "VERSION_ID": "15.6"},
}  # fmt: skip


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> HostRoot:
    return HostRoot(tmp_path_factory.mktemp("host") / "root")


@pytest.fixture
def root(unpacked: HostRoot) -> Iterator[HostRoot]:
    """A Debian without fakes but uname and curl; what a test puts into it is gone after it."""
    unpacked.system(**SYSTEMS["debian-12"])
    unpacked.fake("uname", UNAME)
    unpacked.fake("curl")
    yield unpacked
    for path in (*unpacked.path("/fakes").iterdir(), unpacked.path(RECORD)):
        path.unlink(missing_ok=True)


def ready(root: HostRoot, **other: str) -> HostRoot:
    for name, text in {**READY, **other}.items():
        root.fake(name, text)
    return root


def called(root: HostRoot) -> list[str]:
    """What the fakes were called with, but for questions."""
    lines = root.read(RECORD).splitlines()
    return [each for each in lines if each.split()[0] != "uname" and each != "nvidia-ctk --version"]


def checked(root: HostRoot, *words: str, **env: str) -> dict[str, Any]:
    """The findings of a check, by code."""
    ran = root.setup("--json", *words, **env)
    return {each["code"]: each for each in ran.json["findings"]}


# The text


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.parts[-4])
def test_shellcheck_has_nothing_to_say(path: Path) -> None:
    assert complaints([path]) == []
    assert os.access(path, os.X_OK)


# As the documents call it: at the first of two places below $TAO_SKILL_BANK_ROOT that has it.
DOCUMENTED = """\
TAO_SKILL_BANK_ROOT="${TAO_SKILL_BANK_ROOT:-$PWD}"
SETUP_SCRIPT="${TAO_SKILL_BANK_ROOT}/skills/tao-setup-nvidia-gpu-host/scripts/setup-nvidia-gpu-host.sh"
[ -x "$SETUP_SCRIPT" ] || SETUP_SCRIPT="${TAO_SKILL_BANK_ROOT}/platform/tao-setup-nvidia-gpu-host/scripts/setup-nvidia-gpu-host.sh"
bash "$SETUP_SCRIPT" --backend docker --check-only --help
"""
SKILL = "tao-setup-nvidia-gpu-host"
IN_A_GROUP = f"skills/platform/{SKILL}"


@pytest.mark.parametrize("is_flat", [False, True], ids=["groups", "flat"])
def test_the_documents_call_finds_it_in_an_installed_bank(tmp_path: Path, is_flat: bool) -> None:
    bank = tmp_path / "my bank"
    install_bank(bank, Settings({"HOME": "/nowhere"}))
    calls = [DOCUMENTED, "bash platform/${SKILL}", "bash skills/platform/${SKILL}"]
    if is_flat:
        (bank / IN_A_GROUP).rename(bank / "skills" / "tao-setup-nvidia-gpu-host")
        calls[-1] = "bash skills/${SKILL}"
    skill = "tao-setup-nvidia-gpu-host/scripts/setup-nvidia-gpu-host.sh --help"
    for call in calls:
        text = call.replace("${SKILL}", skill)
        ran = subprocess.run(["bash", "-c", text], cwd=bank, capture_output=True, text=True)
        assert ran.stdout.startswith("Usage: setup-nvidia-gpu-host.sh"), ran.stderr


@pytest.mark.parametrize("is_flat", [False, True], ids=["groups", "flat"])
def test_the_documents_checks_of_a_host_run_as_written(root: HostRoot, is_flat: bool) -> None:
    root.install_bank()
    folder = f"{BANK}/platform"
    if is_flat:
        root.path(f"{BANK}/{IN_A_GROUP}").rename(root.path(f"{BANK}/skills/{SKILL}"))
        folder = f"{BANK}/skills"
    install = (
        f" bash {folder}/{SKILL}/scripts/setup-nvidia-gpu-host.sh --backend {{}} --install --yes"
    )
    try:
        for name, backend, said in (
            ("local-docker/gpu-host.sh", "docker", "MISSING: TAO GPU host runtime is not ready."),
            ("kubernetes/node-runtime.sh", "kubernetes", "MISSING: TAO Kubernetes GPU node runtime is not ready."),
        ):  # fmt: skip
            checked = root.document(name)
            lines = checked.out.splitlines()
            assert (checked.code, said in lines) == (1, True), checked
            assert install.format(backend) in lines
        skipped = root.document("kubernetes/node-runtime.sh", TAO_K8S_SKIP_NODE_RUNTIME_CHECK="1")
        assert (skipped.code, skipped.out) == (0, "")
        ready(root)
        for name in ("local-docker/gpu-host.sh", "kubernetes/node-runtime.sh"):
            checked = root.document(name)
            assert (checked.code, "MISSING" in checked.out) == (0, False), checked
    finally:
        shutil.rmtree(root.path(BANK))


def test_the_kubernetes_documents_installation_runs_the_commands_of_its_plan(
    root: HostRoot,
) -> None:
    root.install_bank()
    root.system(**SYSTEMS["rocky-9"])
    for name in ("dnf", "nvidia-ctk", "systemctl", "modprobe", "chmod", "mv"):
        root.fake(name)
    planned = root.setup("--backend", "kubernetes", "--dry-run", "--json").json["commands"]
    root.path(RECORD).unlink(missing_ok=True)
    try:
        ran = root.document("kubernetes/gpu-host-install.sh")
    finally:
        shutil.rmtree(root.path(BANK))
    assert called(root) == [line.replace("'", "") for line in planned]
    assert "INFO: installed; this is the machine now:" in ran.out


def test_the_advice_names_the_script_wherever_it_was_called(tmp_path: Path) -> None:
    """CDPATH leads `cd` elsewhere."""
    bank = tmp_path / "my bank"
    install_bank(bank, Settings({"HOME": "/nowhere"}))
    (tmp_path / "other" / IN_A_GROUP / "scripts").mkdir(parents=True)
    words = ["bash", f"{IN_A_GROUP}/scripts/setup-nvidia-gpu-host.sh", "--json"]
    env = {"PATH": os.environ["PATH"], "CDPATH": str(tmp_path / "other")}
    ran = subprocess.run(words, cwd=bank, env=env, capture_output=True, text=True)
    named = [each["next"] for each in json.loads(ran.stdout)["findings"] if each["next"]]
    assert all(f"'{bank}/{IN_A_GROUP}/scripts/" in line for line in named)


def test_the_targets_are_those_of_the_documents() -> None:
    assert targets()["NVIDIA_DRIVER_BRANCH"] == "580"
    assert targets()["NVIDIA_CUDA_RELEASE"] == "13.0"
    assert targets()["NVIDIA_CONTAINER_TOOLKIT_VERSION"] == "1.19.0-1"


# Checks


def test_a_bare_host_is_not_ready_and_is_left_as_it_is(root: HostRoot) -> None:
    before = root.snapshot()
    ran = root.setup("--backend", "docker", "--check-only")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "INFO: detected unknown (family=debian, manager=apt-get)",
        "MISSING: NVIDIA driver branch 580 (nvidia-smi is not here)",
        "INFO: CUDA Toolkit 13.0 is not needed on the host (Images have their own)",
        "MISSING: NVIDIA Container Toolkit 1.19.0 (It is not installed)",
        "MISSING: Docker is not installed. (Its package here is docker.io)",
        "Run with --install --yes after user approval to install the pinned runtime.",
    ]
    assert root.setup("--json", "--dry-run").code == 0
    after = {path: seen for path, seen in root.snapshot().items() if RECORD not in path}
    assert after == {path: seen for path, seen in before.items() if RECORD not in path}


@pytest.mark.parametrize(
    ("system", "source"),
    [
        ("rocky-9", "Its package here is docker-ce, from Docker's own repository"),
        ("fedora-42", "Its package here is moby-engine"),
        ("leap-15.6", "Its package here is docker"),
        ("arch", "See https://docs.docker.com/engine/install/"),
    ],
)
def test_a_host_without_docker_is_told_where_its_system_has_it(
    root: HostRoot, system: str, source: str
) -> None:
    root.system(**SYSTEMS.get(system, {"ID": system}))
    assert f"MISSING: Docker is not installed. ({source})\n" in root.setup().out
    found = checked(root)["host.docker"]
    assert (found["what"], found["evidence"]) == ("MISSING: Docker is not installed.", f"{source}.")


def test_a_ready_host_is_ready(root: HostRoot) -> None:
    ran = ready(root).setup()
    assert (ran.code, ran.err) == (0, "")
    assert "OK: NVIDIA driver branch 580\n" in ran.out
    assert "OK: NVIDIA Container Toolkit 1.19.0\n" in ran.out
    assert "OK: Docker NVIDIA runtime configured\n" in ran.out
    assert root.setup("--install").out.endswith("Nothing has to be installed.\n")


def test_a_newer_driver_and_toolkit_will_do_unless_strict(root: HostRoot) -> None:
    newer = {
        "nvidia-smi": SMI.format("590.44.01"),
        "nvidia-ctk": 'echo "NVIDIA Container Toolkit CLI version 1.20.0"\n',
    }
    ran = ready(root, **newer).setup()
    assert ran.code == 0
    assert "OK: NVIDIA driver branch 580 or newer (The driver is 590.44.01)\n" in ran.out
    assert "OK: NVIDIA Container Toolkit 1.19.0 or newer (The version is 1.20.0)\n" in ran.out
    strict = checked(root, "--strict")
    for code in ("host.driver", "host.cuda", "host.container_toolkit"):
        assert strict[code]["severity"] == "error"
    assert "--strict" in strict["host.driver"]["next"]


@pytest.mark.parametrize("version", ["570.1", "58.0", "9"])
def test_an_older_driver_will_not_do(root: HostRoot, version: str) -> None:
    found = checked(ready(root, **{"nvidia-smi": SMI.format(version)}))
    assert found["host.driver"]["severity"] == "error"


def test_cuda_on_the_host_is_asked_for_by_its_flag(root: HostRoot) -> None:
    ready(root)
    assert checked(root)["host.cuda"]["severity"] == "ok"
    assert root.setup("--with-cuda").code == 1
    nvcc = root.path("/usr/local/cuda-13.0/bin/nvcc")
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text('#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.48"\n')
    nvcc.chmod(0o755)
    ran = root.setup("--strict")
    nvcc.unlink()
    assert (ran.code, "OK: CUDA Toolkit 13.0 at /usr/local/cuda-13.0\n" in ran.out) == (0, True)


def test_a_docker_without_the_runtime_and_one_that_is_silent(root: HostRoot) -> None:
    ran = ready(root, docker="echo '{\"runc\":{}}'\n").setup()
    assert (ran.code, "MISSING: Docker NVIDIA runtime not configured\n" in ran.out) == (1, True)
    ran = ready(root, docker="exit 1\n").setup()
    assert "or Docker unreachable" in ran.out


def test_the_docker_of_another_machine_is_not_this_hosts(root: HostRoot) -> None:
    ready(root, docker='[ -z "$DOCKER_HOST" ] || exit 1\n' + DOCKER)
    assert root.setup(DOCKER_HOST="ssh://gpu-box").code == 0
    ready(root, docker='[ -n "$DOCKER_HOST" ] || exit 1\n' + DOCKER)
    assert root.setup(DOCKER_HOST="unix:///run/user/1000/docker.sock").code == 0


def test_what_a_cluster_has_does_not_decide(root: HostRoot) -> None:
    ready(root)
    ran = root.setup("--backend", "k8s")
    assert ran.code == 0
    assert "WARN: kubectl not found; cannot check cluster GPU capacity\n" in ran.out
    root.fake("kubectl", "echo 8 0\n")
    ran = root.setup("--backend=kubernetes")
    assert "OK: Kubernetes reports nvidia.com/gpu allocatable\n" in ran.out
    root.fake("kubectl", "echo 0\n")
    assert "WARN: Kubernetes does not report" in root.setup("--backend", "kubernetes").out


# Hostile words


HOSTILE = """\
ID=debian
PRETTY_NAME="$(touch /harm) `touch /harm` \x1b[31m\\"x\\" \x07 é"
VERSION_ID="12; touch /harm"
VERSION_CODENAME=$(touch /harm)
BASH_ENV=/harm.sh
touch /harm
"""


def test_what_the_systems_release_file_says_is_never_run(root: HostRoot) -> None:
    root.release(HOSTILE)
    ran = root.setup("--json", "--dry-run")
    assert not root.path("/harm").exists()
    assert (ran.code, "no" in ran.err) == (1, True)  # no repository for such a version
    name = json.loads(root.setup("--json").out)["host"]["name"]
    assert "\x1b" not in name and "touch /harm" in name
    assert "\x1b" not in root.setup().out


def test_what_a_program_says_is_shown_as_printable_text(root: HostRoot) -> None:
    words = "printf '\\033[2J\"$(touch /harm)\\\\\\nsecond line'\n"
    found = checked(ready(root, **{"nvidia-smi": words}))
    assert found["host.driver"]["evidence"] == '?[2J"$(touch /harm)\\.'
    assert not root.path("/harm").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NVIDIA_DRIVER_BRANCH", "580; touch /harm"),
        ("NVIDIA_DRIVER_PACKAGE_DEBIAN", "-oAPT::Update::Pre-Invoke::=touch"),
        ("DOCKER_PACKAGE", "$(touch /harm)"),
        ("NVIDIA_CONTAINER_TOOLKIT_VERSION", "1.19"),
        ("NVIDIA_CUDA_PATH", "relative"),
        ("NVIDIA_CUDA_REPOSITORY", "http://mirror.example/cuda"),
        ("NVIDIA_CONTAINER_TOOLKIT_REPOSITORY", "https://me:hunter2@mirror.example"),
    ],
)
def test_a_setting_that_is_no_such_thing_is_refused(root: HostRoot, name: str, value: str) -> None:
    ran = root.setup("--install", "--yes", **{name: value})
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {name}") and ran.err.count("\n") == 1
    assert "hunter2" not in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nope"], "Unknown argument: --nope"),
        (["--backend", "slurm"], "Unsupported backend: slurm"),
        (["--backend"], "--backend needs a name"),
    ],
)
def test_wrong_arguments(root: HostRoot, words: list[str], said: str) -> None:
    ran = root.setup(*words)
    assert (ran.code, ran.out, ran.err.splitlines()[0]) == (2, "", said)


# Plans


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_plan_for_a_system_is_the_recorded_one(root: HostRoot, system: str) -> None:
    root.system(**SYSTEMS[system])
    words = ["--with-cuda"] if system == "rocky-9" else []
    if system != "rhel-8":  # it has yum alone
        root.fake("dnf")
    ran = root.setup("--dry-run", "--json", *words)
    assert (ran.code, ran.err) == (0, "")
    text = "".join(f"{line}\n" for line in ran.json["commands"])
    path = RECORDED / f"{system}.txt"
    if os.environ.get("TAO_RECORD"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "TAO_RECORD=1 writes the plans anew"


@pytest.mark.parametrize("system", ["rocky-9", "leap-15.6"])
def test_installing_runs_the_commands_that_were_shown(root: HostRoot, system: str) -> None:
    root.system(**SYSTEMS[system])
    fakes = ("dnf", "zypper", "nvidia-ctk", "systemctl", "service", "modprobe", "chmod", "mv")
    for name in fakes:
        root.fake(name)
    planned = root.setup("--dry-run", "--json").json["commands"]
    root.path(RECORD).unlink(missing_ok=True)
    ran = root.setup("--install", "--yes")
    assert called(root) == [line.replace("'", "") for line in planned]
    assert ran.code == 1  # nothing was installed really, and the check says so
    assert "INFO: installed; this is the machine now:" in ran.out


def test_the_first_command_that_fails_ends_it(root: HostRoot) -> None:
    root.system(**SYSTEMS["rocky-9"])
    root.fake("dnf", "exit 3\n")
    root.fake("mv")
    root.fake("chmod")
    ran = root.setup("--install", "--yes")
    assert ran.code == 1
    assert "error: this command ended with exit code 3: dnf install -y epel-release" in ran.err
    assert [line for line in root.read(RECORD).splitlines() if line.startswith("dnf")] == [
        "dnf install -y epel-release"
    ]


@pytest.mark.parametrize("reply", ["", "n\n", "what\n"])
def test_nothing_is_changed_without_approval(root: HostRoot, reply: str) -> None:
    root.system(**SYSTEMS["rocky-9"])
    root.fake("dnf")
    ran = root.setup("--install", stdin=reply)
    assert ran.code == 1
    assert "  dnf install -y epel-release\n" in ran.err
    assert ran.err.endswith("Continue? [y/N] error: Nothing was changed.\n")
    assert "dnf" not in root.read(RECORD)


def test_a_user_without_root_is_told(root: HostRoot) -> None:
    ran = root.setup("--install", "--yes", user="65534:65534")
    assert ran.code == 1
    wanted = "MISSING: passwordless sudo/root is required for runtime installation."
    assert wanted in ran.err
    shown = root.setup("--dry-run", "--json", user="65534:65534")
    assert all(line.startswith("sudo -n ") for line in shown.json["commands"])


def test_parts_are_left_out_by_their_flags(root: HostRoot) -> None:
    skipping = ("--skip-docker-install", "--skip-docker-config", "--skip-docker-group")
    lines = "\n".join(root.setup("--dry-run", "--json", *skipping).json["commands"])
    assert "docker" not in lines.replace("--force-conf", "")
    lines = "\n".join(root.setup("--dry-run", "--json", "--backend", "k8s").json["commands"])
    assert "docker" not in lines


@pytest.mark.parametrize(
    ("keys", "machine"),
    [
        ({"ID": "arch"}, "x86_64"),
        ({"ID": "gentoo"}, "x86_64"),
        ({"ID": "amzn", "VERSION_ID": "2"}, "x86_64"),
        ({"ID": "ubuntu", "VERSION_ID": "24.04"}, "riscv64"),
    ],
)
def test_a_system_without_packages_is_refused(
    root: HostRoot, keys: dict[str, str], machine: str
) -> None:
    root.system(**keys)
    root.fake("uname", f"echo {machine}\n")
    ran = root.setup("--install", "--yes")
    assert ran.code == 1
    assert machine == "riscv64" or "https://docs.docker.com" in ran.err


def test_on_wsl_no_driver_is_installed(root: HostRoot) -> None:
    root.fake("uname", UNAME.replace("6.1.0-9-test", "5.15.1-microsoft-standard-WSL2"))
    ran = root.setup("--dry-run", "--json")
    assert "nvidia-open" not in ran.out
    assert "on WSL the driver is that of Windows" in ran.err
