"""Real low-level runtimes and real engines: a device that the shim gave is there
and can be opened.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

import engines
from conftest import SYSTEM_PATH, need

pytestmark = pytest.mark.engines
CANDIDATES = ("/dev/cpu_dma_latency", "/dev/kmsg", "/dev/fuse", "/dev/rtc0")


def device() -> str:
    """A node of this host that containers do not get by themselves and that harms nothing when
    opened.
    """
    found = [path for path in CANDIDATES if Path(path).is_char_device()]
    need("a device node to give away", found)
    return found[0]


def script(path: str) -> str:
    """Prints `opened` only where the node is there and the cgroup lets it be opened."""
    return f"test -c {path} && : < {path} && echo opened || echo refused"


class Site:
    """A host's configuration in a folder: csv lists, CDI specs, a mock nvidia-container-cli."""

    def __init__(self, folder: Path, mock: Path) -> None:
        self.folder = folder
        (folder / "csv").mkdir()
        (folder / "cdi").mkdir()
        (folder / "csv/devices.csv").write_text(f"dev, {device()}\n")
        spec = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [
            {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/given", "hostPath": device()}], "env": ["CDI=yes"]}}]}  # fmt: skip
        (folder / "cdi/spec.json").write_text(json.dumps(spec))
        (folder / "etc/nvidia-container-runtime").mkdir(parents=True)
        self.calls = folder / "calls"
        self.cli = folder / "nvidia-container-cli"
        self.cli.write_text(f'#!/bin/sh\nMOCK_HELP= MOCK_CALLS={self.calls} exec {mock} "$@"\n')
        self.cli.chmod(0o755)
        self.environment = {"XDG_CONFIG_HOME": str(folder / "etc")}
        self.configure("legacy")

    def configure(self, mode: str, *runtimes: str) -> None:
        names = json.dumps(runtimes or ("runc",))
        (self.folder / "etc/nvidia-container-runtime/config.toml").write_text(
            f'[nvidia-container-runtime]\nmode = "{mode}"\nruntimes = {names}\ndebug = "{self.folder}/debug.log"\n'
            f'[nvidia-container-runtime.modes.csv]\nmount-spec-path = "{self.folder}/csv"\n'
            f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["{self.folder}/cdi"]\n'
            f'[nvidia-container-cli]\npath = "{self.cli}"\nldconfig = "@/sbin/ldconfig"\n'
            f'[nvidia-container-runtime-hook]\npath = "{self.hook}"\n[nvidia-ctk]\npath = "{self.ctk}"\n'
        )

    hook = ctk = ""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, prefix: Path, mock_cli: Path) -> Site:
    if os.geteuid() != 0:
        pytest.skip("containers need root")
    Site.hook, Site.ctk = (
        str(prefix / "bin/nvidia-container-runtime-hook"),
        str(prefix / "bin/nvidia-ctk"),
    )
    return Site(tmp_path_factory.mktemp("site"), mock_cli)


@pytest.fixture(scope="module")
def filesystem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("busybox", shutil.which("busybox"))
    return engines.root_filesystem(tmp_path_factory.mktemp("fs") / "rootfs")


# --- low-level runtimes


class Shell:
    """The shim called by hand, as a low-level runtime is."""

    def __init__(self, site: Site, prefix: Path, runtime: str, bundle: Path, root: Path) -> None:
        self.site = site
        self.program = str(prefix / "bin/nvidia-container-runtime")
        self.runtime = runtime
        self.bundle = bundle
        self.root = root
        self.environment = {**os.environ, **site.environment, "PATH": SYSTEM_PATH}

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        """crun refuses hosts with both cgroup versions mounted: a namespace without the second one
        is made for it.
        """
        command = " ".join(f"'{word}'" for word in (self.program, "--root", str(self.root), *words))
        hide = "umount /sys/fs/cgroup/unified 2>/dev/null; " if self.runtime == "crun" else ""
        return subprocess.run(
            ["unshare", "-m", "sh", "-c", f"{hide}exec {command}"], env=self.environment, cwd=self.bundle, capture_output=True, text=True,
            timeout=60, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def prepare(self, command: str, *env: str) -> None:
        made = self("spec")
        assert made.returncode == 0, made.stderr
        file = self.bundle / "config.json"
        spec: dict[str, Any] = json.loads(file.read_text())
        spec["process"] |= {"terminal": False, "args": ["sh", "-c", command]}
        spec["process"]["env"] += env
        file.write_text(json.dumps(spec))


@pytest.fixture(params=["runc", "crun"])
def shell(
    request: pytest.FixtureRequest, site: Site, prefix: Path, filesystem: Path, tmp_path: Path
) -> Shell:
    need(request.param, shutil.which(request.param))
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    shutil.copytree(filesystem, bundle / "rootfs", symlinks=True)
    site.configure("csv", request.param)
    return Shell(site, prefix, request.param, bundle, tmp_path / "state")


def life(shell: Shell, name: str) -> str:
    """Create, start, state, delete; what the container printed."""
    with (shell.bundle / "out").open("w") as out:
        command = " ".join(
            f"'{word}'" for word in (shell.program, "--root", str(shell.root), "create", name)
        )
        hide = "umount /sys/fs/cgroup/unified 2>/dev/null; " if shell.runtime == "crun" else ""
        done = subprocess.run(["unshare", "-m", "sh", "-c", f"{hide}exec {command}"], env=shell.environment, cwd=shell.bundle, stdout=out,
                              stderr=out, stdin=subprocess.DEVNULL, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0, (shell.bundle / "out").read_text()
    try:
        assert json.loads(shell("state", name).stdout)["status"] == "created"
        started = shell("start", name)
        assert started.returncode == 0, started.stderr
        for _ in range(200):
            if json.loads(shell("state", name).stdout)["status"] == "stopped":
                break
        return (shell.bundle / "out").read_text()
    finally:
        assert shell("delete", "--force", name).returncode == 0


def test_a_csv_device_can_be_opened_in_the_container(shell: Shell) -> None:
    shell.prepare(script(device()), "NVIDIA_VISIBLE_DEVICES=all")
    assert life(shell, f"csv-{shell.runtime}") == "opened\n"


def test_without_a_request_the_device_is_not_there(shell: Shell) -> None:
    shell.prepare(script(device()))
    assert life(shell, f"none-{shell.runtime}") == "refused\n"


def test_a_cdi_device_can_be_opened_in_the_container(shell: Shell) -> None:
    shell.site.configure("cdi", shell.runtime)
    shell.prepare(script("/dev/given") + "; echo $CDI", "NVIDIA_VISIBLE_DEVICES=0")
    assert life(shell, f"cdi-{shell.runtime}") == "opened\nyes\n"


def test_links_and_the_ldcache_are_made_in_the_containers_root(shell: Shell) -> None:
    """The hooks of the csv mode run for real: our nvidia-ctk is what they call."""
    files = shell.site.folder / f"files-{shell.runtime}"
    files.mkdir()
    shutil.copy(
        "/lib/x86_64-linux-gnu/libm.so.6"
        if Path("/lib/x86_64-linux-gnu/libm.so.6").exists()
        else "/lib64/libm.so.6",
        files / "libstand.so.1",
    )
    (files / "libstand.so").symlink_to("libstand.so.1")
    (shell.site.folder / "csv/devices.csv").write_text(f"sym, {files}/libstand.so\n")
    try:
        shell.prepare(
            f"readlink {files}/libstand.so; grep -c libm.so.6 /etc/ld.so.cache; cat /etc/ld.so.conf.d/00-nvcr-*",
            "NVIDIA_VISIBLE_DEVICES=all",
        )
        spec = json.loads((shell.bundle / "config.json").read_text())
        spec["root"]["readonly"] = False
        (shell.bundle / "config.json").write_text(json.dumps(spec))
        assert life(shell, f"hooks-{shell.runtime}") == f"libstand.so.1\n1\n{files}\n"
    finally:
        (shell.site.folder / "csv/devices.csv").write_text(f"dev, {device()}\n")


def test_the_prestart_hook_of_legacy_mode_reaches_the_cli(shell: Shell) -> None:
    shell.site.configure("legacy", shell.runtime)
    shell.prepare("echo ran", "NVIDIA_VISIBLE_DEVICES=0")
    assert life(shell, f"legacy-{shell.runtime}") == "ran\n"
    words = shell.site.calls.read_text().splitlines()
    assert words[:4] == ["--load-kmods", "configure", "--ldconfig=@/sbin/ldconfig", "--device=0"]
    assert words[-2].startswith("--pid=")
    assert words[-1] == f"{shell.bundle}/rootfs"


def test_the_documents_example_runs(
    site: Site, prefix: Path, filesystem: Path, tmp_path: Path
) -> None:
    """runc spec, two seds, run: with a stand-in nvidia-smi in a local root file system."""
    need("runc", shutil.which("runc"))
    shutil.copytree(filesystem, tmp_path / "rootfs", symlinks=True)
    site.configure("legacy", "runc")
    lines = """
        nvidia-container-runtime spec
        sed -i 's;"sh";"nvidia-smi";' config.json
        sed -i 's;\\("TERM=xterm"\\);\\1, "NVIDIA_VISIBLE_DEVICES=0";' config.json
        sed -i 's;"terminal": true;"terminal": false;' config.json
        nvidia-container-runtime run nvidia_smi
    """
    environment = {**os.environ, **site.environment, "PATH": f"{prefix}/bin:{SYSTEM_PATH}"}
    done = subprocess.run(
        ["sh", "-ec", lines],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "NVIDIA-SMI stand-in, devices: 0\n"


# --- docker


@pytest.fixture(scope="module")
def docker(
    site: Site, prefix: Path, filesystem: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[engines.Docker]:
    need("dockerd", shutil.which("dockerd"))
    daemon = engines.Docker(tmp_path_factory.mktemp("docker"), prefix, site.environment)
    try:
        imported = daemon.call("import", "-", "box", input=engines.layer(filesystem), text=False)
        assert imported.returncode == 0, imported.stderr
        yield daemon
    finally:
        daemon.daemon.stop()


@pytest.mark.parametrize(
    ("mode", "path", "wanted"),
    [("csv", None, "all"), ("cdi", "/dev/given", "0"), ("cdi", "/dev/given", "nvidia.com/gpu=0")],
)
def test_docker_run_with_our_runtime_gives_the_device(
    docker: engines.Docker, site: Site, mode: str, path: str | None, wanted: str
) -> None:
    site.configure(mode)
    done = docker.run(
        "--runtime=nvidia",
        "-e",
        f"NVIDIA_VISIBLE_DEVICES={wanted}",
        "box",
        "sh",
        "-c",
        script(path or device()),
    )
    assert (done.stdout, done.returncode) == ("opened\n", 0), done.stderr
    assert (
        docker.run("--runtime=nvidia", "box", "sh", "-c", script(path or device())).stdout
        == "refused\n"
    )


def test_docker_run_shows_the_shims_error(docker: engines.Docker, site: Site) -> None:
    site.configure("cdi")
    done = docker.run("--runtime=nvidia", "-e", "NVIDIA_VISIBLE_DEVICES=9", "box", "true")
    assert done.returncode != 0
    assert "unresolvable CDI devices nvidia.com/gpu=9" in done.stderr


def test_docker_gpus_goes_through_our_hook(docker: engines.Docker, site: Site) -> None:
    site.configure("legacy")
    site.calls.unlink(missing_ok=True)
    done = docker.run("--gpus", "all", "box", "echo", "ran")
    assert (done.stdout, done.returncode) == ("ran\n", 0), done.stderr
    words = site.calls.read_text().splitlines()
    assert "--device=all" in words
    assert "--utility" in words


def test_docker_gpus_in_csv_mode_is_refused_in_the_documented_words(
    docker: engines.Docker, site: Site
) -> None:
    site.configure("csv")
    done = docker.run("--gpus", "all", "box", "true")
    assert done.returncode != 0
    assert (
        "invoking the NVIDIA Container Runtime Hook directly (e.g. specifying the docker --gpus flag) is not supported."
        " Please use the NVIDIA Container Runtime instead." in done.stderr
    )


def test_docker_gpus_with_our_runtime_works_in_csv_mode(docker: engines.Docker, site: Site) -> None:
    site.configure("csv")
    done = docker.run("--gpus", "all", "--runtime=nvidia", "box", "sh", "-c", script(device()))
    assert (done.stdout, done.returncode) == ("opened\n", 0), done.stderr


def test_docker_exec_stop_and_exit_codes_work_through_the_shim(
    docker: engines.Docker, site: Site
) -> None:
    site.configure("legacy")
    assert docker.run("--runtime=nvidia", "box", "sh", "-c", "exit 42").returncode == 42
    started = docker.call(
        "run",
        "-d",
        "--name",
        "long",
        "--network=none",
        "--init=false",
        "--runtime=nvidia",
        "box",
        "sleep",
        "1000",
    )
    assert started.returncode == 0, started.stderr
    try:
        assert docker.call("exec", "long", "echo", "inside").stdout == "inside\n"
        assert docker.call("kill", "long").returncode == 0
        assert docker.call("wait", "long").stdout == "137\n"
    finally:
        docker.call("rm", "-f", "long")


# --- containerd


@pytest.fixture(scope="module")
def containerd(
    site: Site, prefix: Path, filesystem: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[engines.Containerd]:
    need("containerd", shutil.which("containerd"))
    daemon = engines.Containerd(tmp_path_factory.mktemp("containerd"), prefix, site.environment)
    try:
        imported = daemon.ctr(
            "images",
            "import",
            "--snapshotter",
            "native",
            "-",
            input=engines.image_archive(filesystem, "local/box:1"),
        )
        assert imported.returncode == 0, imported.stderr
        yield daemon
    finally:
        daemon.stop()


def test_a_pod_with_our_runtime_handler_gets_its_device(
    containerd: engines.Containerd, site: Site
) -> None:
    site.configure("cdi")
    pod = containerd.pod("nvidia")
    try:
        with_device = containerd.container(pod, {"NVIDIA_VISIBLE_DEVICES": "0"})
        assert containerd.exec(with_device, "sh", "-c", script("/dev/given")) == "opened\n"
    finally:
        containerd.remove(pod)


def test_a_pods_annotation_asks_for_devices(containerd: engines.Containerd, site: Site) -> None:
    site.configure("cdi")
    pod = containerd.pod("nvidia")
    try:
        with pytest.raises(grpc.RpcError, match=r"unresolvable CDI devices nvidia\.com/gpu=7"):
            containerd.container(pod, {}, {"cdi.k8s.io/x": "nvidia.com/gpu=7"})
    finally:
        containerd.remove(pod)


def test_a_pod_with_the_plain_handler_gets_none(containerd: engines.Containerd, site: Site) -> None:
    pod = containerd.pod("")
    try:
        plain = containerd.container(pod, {"NVIDIA_VISIBLE_DEVICES": "0"})
        assert containerd.exec(plain, "sh", "-c", script("/dev/given")) == "refused\n"
    finally:
        containerd.remove(pod)
