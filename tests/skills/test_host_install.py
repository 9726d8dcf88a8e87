"""Setting up a GPU host for real, in a Debian root: apt, dpkg and our own nvidia-ctk, with packages
and signed repositories of ours on loopback.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.debian_packages import Signer, make_package, make_repository, serve
from support.dockerd import dockerd_here
from support.host_root import BANK, HostRoot
from support.pages import ROOT
from support.tao_command import Ran
from support.waiting import until
from tao_sdk.model.gpu_host import SCRIPT

pytestmark = pytest.mark.slow

MACHINE = {"x86_64": "x86_64", "aarch64": "sbsa"}.get(os.uname().machine, "x86_64")
ARCHITECTURE = {"x86_64": "amd64", "sbsa": "arm64"}[MACHINE]
TOOLKIT = ("nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1")
VERSION = "1.19.0-1"
# The system as its release file and NVIDIA's repository name it.
SYSTEMS = {
    "debian12": {"ID": "debian", "VERSION_ID": "12", "VERSION_CODENAME": "bookworm"},
    "ubuntu2404": {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": "24.04", "VERSION_CODENAME": "noble"},
}  # fmt: skip
# Docker as far as the script asks it: it knows the runtimes of daemon.json as of its last start.
DOCKER = """\
#!/usr/bin/python3
import json, sys
try:
    runtimes = json.load(open("/run/docker-started")).get("runtimes", {})
except OSError:
    sys.exit("Cannot connect to the Docker daemon")
print(json.dumps({"runc": {}, **runtimes}))
"""
DOCKER_SERVICE = """\
#!/bin/sh
if [ -f /etc/docker/daemon.json ]; then cp /etc/docker/daemon.json /run/docker-started; else echo '{}' >/run/docker-started; fi
"""
SMI = "#!/bin/sh\necho 580.95.05\n"
DOCKER_CHECK, NODE_CHECK = "local-docker/gpu-host.sh", "kubernetes/node-runtime.sh"
# as the Kubernetes document has it
NODE_INSTALL = "bash skills/platform/tao-setup-nvidia-gpu-host/scripts/setup-nvidia-gpu-host.sh --backend kubernetes --install --yes"
# Once, everything that runs in the root is killed, as by a power cut.
POWER_CUT = "if [ -e /power-cut ]; then rm /power-cut; kill -9 -1; fi"


@dataclass
class Host:
    """A Debian that gets its packages from this server alone."""

    root: HostRoot
    served: Path
    address: str

    def setup(self, *words: str, stdin: str = "", **env: str) -> Ran:
        return self.root.setup(*words, stdin=stdin, **self.repositories, **env)

    @property
    def repositories(self) -> dict[str, str]:
        return {
            "NVIDIA_CUDA_REPOSITORY": f"{self.address}/cuda",
            "NVIDIA_CONTAINER_TOOLKIT_REPOSITORY": f"{self.address}/toolkit",
        }

    def installed(self, package: str) -> bool:
        words = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
        return self.root.run(*words).out == "installed"


@pytest.fixture(scope="module")
def signer() -> Iterator[Signer]:
    folder = Path(tempfile.mkdtemp(prefix="taog-"))
    signer = Signer(folder / "home")
    yield signer
    signer.end()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def host(request: pytest.FixtureRequest, tmp_path: Path, signer: Signer) -> Iterator[Host]:
    """A Debian, or the system that the test names."""
    system = getattr(request, "param", "debian12")
    root = HostRoot(tmp_path / "root")
    root.path("/fakes").mkdir()
    root.system(**SYSTEMS[system])
    served = tmp_path / "served"
    served.mkdir()
    with serve(served) as address:
        make_repositories(served, address, signer, system)
        sources = f"deb [trusted=yes] {address}/debian /\n"
        root.path("/etc/apt/sources.list").write_text(sources)
        yield Host(root, served, address)


def make_repositories(served: Path, address: str, signer: Signer, system: str) -> None:
    """The system's own packages, NVIDIA's driver for it, and the container toolkit."""
    debian = served / "debian"
    make_package(debian, "ca-certificates", "20990101")
    make_package(debian, f"linux-headers-{os.uname().release}")
    make_package(
        debian, "docker.io", "99.0",
        {"/usr/bin/docker": DOCKER, "/etc/init.d/docker": DOCKER_SERVICE},
        after="groupadd --force --system docker",
    )  # fmt: skip
    make_repository(debian, signer)

    cuda = served / "cuda" / system / MACHINE
    make_package(cuda, "nvidia-driver-pinning-580")
    make_package(
        cuda, "nvidia-open-580", "580.95.05", {"/usr/bin/nvidia-smi": SMI}, after=POWER_CUT
    )
    make_repository(cuda, signer)
    key = served / "key.asc"
    key.write_bytes(signer.armored_key())
    keyring = served / "keyring"
    (keyring / "usr/share/keyrings").mkdir(parents=True)
    (keyring / "etc/apt/sources.list.d").mkdir(parents=True)
    shutil.copy(key, keyring / "usr/share/keyrings/cuda.asc")
    entry = f"deb [signed-by=/usr/share/keyrings/cuda.asc] {address}/cuda/{system}/{MACHINE}/ /\n"
    (keyring / "etc/apt/sources.list.d/cuda.list").write_text(entry)
    make_package(cuda, "cuda-keyring", "1.1-1", tree=keyring)

    toolkit = served / "toolkit" / "stable" / "deb" / ARCHITECTURE
    for name in TOOLKIT:
        make_package(toolkit, name, VERSION)
        make_package(toolkit, name, "1.99.0-1")  # a newer one, which is not asked for
    make_package(toolkit, "nvidia-container-toolkit", VERSION, tree=our_runtime(served / "ours"))
    make_repository(toolkit, signer)
    shutil.copy(key, served / "toolkit" / "gpgkey")


def our_runtime(folder: Path) -> Path:
    """container-runtime/ as a package holds it, for the python3 of the root."""
    install_runtime("--prefix", "/usr", "--root", str(folder), "--python", "/usr/bin/python3")
    return folder


def install_runtime(*words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "nvidia_container_runtime.install", "--no-front", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "container-runtime" / "src")},
        check=True,
        capture_output=True,
    )


def test_a_bare_debian_becomes_a_gpu_host(host: Host) -> None:
    host.root.run("useradd", "ana")
    config = host.root.path("/etc/docker/daemon.json")
    config.parent.mkdir()
    config.write_text('{"data-root": "/big", "runtimes": {"crun": {"path": "/usr/bin/crun"}}}')
    host.root.install_bank()
    assert host.root.document(DOCKER_CHECK).code == 1

    ran = host.setup("--install", stdin="y\n", SUDO_USER="ana")
    assert ran.code == 0, ran.err
    assert "OK: Docker NVIDIA runtime configured\n" in ran.out
    written = json.loads(config.read_text())
    assert (written["data-root"], set(written["runtimes"])) == ("/big", {"crun", "nvidia"})
    assert "docker" in host.root.run("id", "-nG", "ana").out.split()
    shown = host.root.run("dpkg-query", "--show", "--showformat=${Version}", TOOLKIT[0])
    assert shown.out == VERSION
    assert not [path for path in host.root.snapshot() if path.endswith(".part")]

    again = host.setup("--install", "--yes", "--json")
    assert (again.code, again.json["ready"], again.json["commands"]) == (0, True, [])
    checked = host.root.document(DOCKER_CHECK)
    assert (checked.code, "MISSING" in checked.out) == (0, False), checked


@pytest.mark.parametrize("host", ["ubuntu2404"], indirect=True)
def test_an_ubuntu_becomes_a_node_of_kubernetes_as_the_document_says(host: Host) -> None:
    host.root.install_bank()
    assert host.root.document(NODE_CHECK).code == 1

    ran = host.root.run("bash", "-uc", f"cd {BANK} && {NODE_INSTALL}", **host.repositories)
    assert ran.code == 0, ran.err
    assert f"{host.address}/cuda/ubuntu2404/" in ran.err
    assert host.installed("nvidia-open-580") and host.installed("nvidia-container-toolkit")
    assert not host.installed("docker.io")
    checked = host.root.document(NODE_CHECK)
    assert (checked.code, "MISSING" in checked.out) == (0, False), checked


def test_nothing_is_installed_without_approval(host: Host) -> None:
    before = host.root.snapshot()
    ran = host.setup("--install", stdin="n\n")
    assert (ran.code, "Nothing was changed." in ran.err) == (1, True)
    assert host.root.snapshot() == before


def test_an_installation_that_was_killed_can_be_run_again(host: Host) -> None:
    host.root.path("/power-cut").touch()
    ran = host.setup("--install", "--yes")
    assert ran.code not in (0, 1)
    assert host.root.run("dpkg", "--audit").out
    ran = host.setup("--install", "--yes")
    assert ran.code == 0, ran.err
    assert "dpkg --configure -a" in ran.err
    assert host.installed("nvidia-open-580")


def test_an_installation_without_its_server_can_be_run_again(host: Host) -> None:
    key = host.served / "toolkit" / "gpgkey"
    key.rename(host.served / "hidden")
    ran = host.setup("--install", "--yes")
    assert ran.code == 1
    assert "error: this command ended with exit code 100: /usr/lib/apt/apt-helper" in ran.err
    assert not host.root.path("/etc/apt/sources.list.d/nvidia-container-toolkit.list").exists()
    (host.served / "hidden").rename(key)
    ran = host.setup("--install", "--yes")
    assert ran.code == 0, ran.err


def test_packages_that_another_has_signed_are_not_installed(host: Host, tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="taog-"))
    other = Signer(folder / "home")
    make_repository(host.served / "toolkit" / "stable" / "deb" / ARCHITECTURE, other)
    other.end()
    shutil.rmtree(folder, ignore_errors=True)
    ran = host.setup("--install", "--yes")
    assert ran.code == 1
    assert not host.installed("nvidia-container-toolkit")


def test_a_repository_that_is_there_is_not_added_again(host: Host) -> None:
    own = host.root.path("/etc/apt/sources.list.d/site.list")
    own.write_text(f"deb [trusted=yes] {host.address}/toolkit/stable/deb/{ARCHITECTURE} /\n")
    lines = "\n".join(host.setup("--dry-run", "--json").json["commands"])
    assert "gpgkey" not in lines
    assert "nvidia-container-toolkit=1.19.0-1" in lines


@pytest.mark.docker
def test_the_check_reads_a_real_docker_that_nvidia_ctk_has_configured(tmp_path: Path) -> None:
    """The check alone, which changes nothing here."""
    install_runtime("--prefix", str(tmp_path / "ours"))
    with dockerd_here.alone_with_busybox(tmp_path / "data") as there:
        assert "MISSING: Docker NVIDIA runtime not configured\n" in check_here(there.host)
        config = str(there.folder / "daemon.json")
        words = ["runtime", "configure", "--runtime=docker", "--config", config]
        subprocess.run([tmp_path / "ours/bin/nvidia-ctk", *words], check=True, capture_output=True)
        assert there.process is not None
        there.process.send_signal(signal.SIGHUP)
        until(lambda: "OK: Docker NVIDIA runtime configured\n" in check_here(there.host))
    assert "or Docker unreachable" in check_here(there.host)


def check_here(docker_host: str) -> str:
    env = {"PATH": os.environ["PATH"], "DOCKER_HOST": docker_host}
    return subprocess.run(["bash", SCRIPT], env=env, capture_output=True, text=True).stdout
