"""What an unprivileged image can do to the host while its container is made: nothing.

The image sets every variable that makes a program load code, and brings the code. It leaves a mark
on the host when it runs there.
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

import engines
from conftest import SYSTEM_PATH, build, need

pytestmark = pytest.mark.engines
DRIVER = "550.54.15"
# The working folder of a createContainer hook is the container's root.
IMAGE = "/proc/self/cwd/evil"
LIBRARY = """
#include <fcntl.h>
#include <unistd.h>
unsigned la_version(unsigned version) { return version; }
__attribute__((constructor)) static void mark(void) { close(open(MARK, O_CREAT | O_WRONLY, 0666)); }
"""
MODULES = (
    "sitecustomize",
    "usercustomize",
    "encodings",
    "posix",
    "marshal",
    "json",
    "ctypes",
    "os",
    "startup",
)


class Attack:
    """A root file system with code of several kinds, and the environment that would have it run."""

    def __init__(self, folder: Path) -> None:
        self.marks = folder / "marks"
        self.marks.mkdir()
        self.root = engines.root_filesystem(folder / "rootfs")
        evil = self.root / "evil"
        evil.mkdir()
        for name in ("preload", "audit", "gconv"):
            build(LIBRARY, evil / f"{name}.so", "-shared", "-fPIC", f'-DMARK="{self.marks}/{name}"')
        (evil / "gconv-modules").write_text(
            "module EVIL// INTERNAL gconv 1\nmodule INTERNAL EVIL// gconv 1\n"
        )
        for name in MODULES:
            for place in (evil, self.root):
                (place / f"{name}.py").write_text(
                    f"import os; os.open('{self.marks}/python', 64)\n"
                )
        (evil / "sh").write_text(f": > {self.marks}/shell\n")
        self.environment = [
            f"LD_PRELOAD={IMAGE}/preload.so", f"LD_AUDIT={IMAGE}/audit.so", f"LD_LIBRARY_PATH={IMAGE}",
            "LD_DEBUG=all", f"LD_DEBUG_OUTPUT={self.marks}/debug",
            f"PYTHONPATH={IMAGE}", f"PYTHONHOME={IMAGE}", f"PYTHONSTARTUP={IMAGE}/startup.py", "PYTHONINSPECT=1", f"PYTHONUSERBASE={IMAGE}",
            f"GCONV_PATH={IMAGE}", f"LOCPATH={IMAGE}", "LC_ALL=xx_XX.EVIL", f"ENV={IMAGE}/sh", f"BASH_ENV={IMAGE}/sh", f"PATH={IMAGE}:/bin",
        ]  # fmt: skip

    @property
    def done(self) -> set[str]:
        return {path.name.partition(".")[0] for path in self.marks.iterdir()}


@pytest.fixture
def attack(tmp_path: Path) -> Attack:
    need("busybox", shutil.which("busybox"))
    if os.geteuid() != 0:
        pytest.skip("containers need root")
    return Attack(tmp_path)


class Site:
    """A host with our programs, a driver root and a configuration for each mode."""

    def __init__(self, folder: Path, prefix: Path, stub_nvml: Path, mock_cli: Path) -> None:
        self.folder = folder
        self.bin = prefix / "bin"
        self.driver = folder / "driver"
        for name in ("dev", "usr/lib64"):
            (self.driver / name).mkdir(parents=True)
        for number, name in enumerate(("nvidia0", "nvidiactl")):
            os.mknod(self.driver / "dev" / name, 0o020666, os.makedev(1, (3, 7)[number]))
        shutil.copy(
            stub_nvml / "libnvidia-ml.so.1", self.driver / f"usr/lib64/libnvidia-ml.so.{DRIVER}"
        )
        shutil.copy(stub_nvml / "libnvidia-ml.so.1", self.driver / f"usr/lib64/libcuda.so.{DRIVER}")
        (self.driver / "usr/lib64/libcuda.so").symlink_to(f"libcuda.so.{DRIVER}")
        self.calls = folder / "calls"
        self.cli = folder / "nvidia-container-cli"
        self.cli.write_text(f'#!/bin/sh\nMOCK_HELP= MOCK_CALLS={self.calls} exec {mock_cli} "$@"\n')
        self.cli.chmod(0o755)
        self.environment = {
            **os.environ, "PATH": SYSTEM_PATH, "LD_LIBRARY_PATH": str(stub_nvml), "STUB_GPUS": "A", "XDG_CONFIG_HOME": str(folder / "etc"),
        }  # fmt: skip
        (folder / "cdi").mkdir()
        (folder / "csv").mkdir()
        (folder / "csv/l4t.csv").write_text("sym, /usr/lib64/libcuda.so\n")
        (folder / "etc/nvidia-container-runtime").mkdir(parents=True)

    def configure(self, mode: str, runtime: str) -> None:
        (self.folder / "etc/nvidia-container-runtime/config.toml").write_text(
            f'[nvidia-container-runtime]\nmode = "{mode}"\nruntimes = ["{runtime}"]\ndebug = "{self.folder}/debug.log"\n'
            f'[nvidia-container-runtime.modes.csv]\nmount-spec-path = "{self.folder}/csv"\n'
            f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["{self.folder}/cdi"]\n'
            f'[nvidia-container-runtime.modes.legacy]\ncuda-compat-mode = "hook"\n'
            f'[nvidia-container-cli]\nroot = "{self.driver}"\npath = "{self.cli}"\n'
            f'[nvidia-container-runtime-hook]\npath = "{self.bin}/nvidia-container-runtime-hook"\n'
            f'[nvidia-ctk]\npath = "{self.bin}/nvidia-ctk"\n'
        )

    def generated(self) -> dict[str, Any]:
        words = [
            "cdi",
            "generate",
            "--format",
            "json",
            "--mode",
            "nvml",
            "--nvidia-ctk-path",
            f"{self.bin}/nvidia-ctk",
        ]
        done = subprocess.run(
            [self.bin / "nvidia-ctk", *words, "--driver-root", self.driver],
            env=self.environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    def careless(self) -> dict[str, Any]:
        """A spec of somebody else's, whose hooks have no environment."""
        hook = {
            "path": f"{self.bin}/nvidia-ctk",
            "args": ["nvidia-ctk", "hook", "create-symlinks", "--link", "a::/b"],
        }
        stages = ("createRuntime", "createContainer", "prestart", "poststart", "poststop")
        hooks = [{"hookName": stage, **hook} for stage in stages]
        hooks.append({"hookName": "createContainer", **hook, "env": []})
        hooks.append({"hookName": "startContainer", "path": "/bin/true"})
        device = {"name": "0", "containerEdits": {"hooks": hooks}}
        return {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [device]}


@pytest.fixture
def site(tmp_path: Path, prefix: Path, stub_nvml: Path, mock_cli: Path, attack: Attack) -> Site:
    return Site(tmp_path, prefix, stub_nvml, mock_cli)


@pytest.fixture(params=["runc", "crun"])
def runtime(request: pytest.FixtureRequest) -> str:
    need(request.param, shutil.which(request.param))
    return request.param


def made(
    site: Site,
    attack: Attack,
    program: str,
    runtime: str,
    mounted: tuple[str, ...] = (),
    **changes: Any,
) -> subprocess.CompletedProcess[str]:
    """Create the image's container, start it, remove it. crun refuses hosts with both cgroup
    versions mounted.
    """
    bundle = attack.root.parent
    subprocess.run([runtime, "spec"], cwd=bundle, check=True, env=site.environment)
    spec = json.loads((bundle / "config.json").read_text()) | changes
    spec["process"] |= {"terminal": False, "args": ["true"]}
    spec["process"]["env"] = ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=0", *attack.environment[:-1]]
    spec["root"]["readonly"] = False
    spec["mounts"] += [
        {"destination": place, "type": "bind", "source": "/proc", "options": ["rbind"]}
        for place in mounted
    ]
    (bundle / "config.json").write_text(json.dumps(spec))
    box = f"'{program}' --root '{bundle}/state'"
    hide = "umount /sys/fs/cgroup/unified 2>/dev/null; " if runtime == "crun" else ""
    script = (
        f"{hide}{box} create box && {box} start box; code=$?; {box} delete --force box; exit $code"
    )
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", script], cwd=bundle, env=site.environment, capture_output=True, text=True, timeout=30, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def shim(
    site: Site, attack: Attack, runtime: str, mode: str, mounted: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    site.configure(mode, runtime)
    return made(site, attack, f"{site.bin}/nvidia-container-runtime", runtime, mounted)


def test_the_attack_works_where_a_hook_has_no_environment(site: Site, attack: Attack) -> None:
    """Else the tests below would show nothing."""
    need("runc", shutil.which("runc"))
    hook = {"path": f"{site.bin}/nvidia-ctk", "args": ["nvidia-ctk", "hook", "create-symlinks"]}
    made(site, attack, "runc", "runc", hooks={"createContainer": [hook]})
    assert {"preload", "audit", "debug"} <= attack.done


@pytest.mark.parametrize("mode", ["legacy", "csv", "cdi", "jit-cdi"])
def test_no_code_of_an_image_runs_on_the_host(
    site: Site, attack: Attack, runtime: str, mode: str
) -> None:
    (site.folder / "cdi/spec.json").write_text(json.dumps(site.careless()))
    done = shim(site, attack, runtime, mode)
    assert attack.done == set()
    assert done.returncode == 0, done.stderr
    hooks = json.loads((attack.root.parent / "config.json").read_text())["hooks"]
    assert hooks["createContainer"], "the mode has hooks that run beside the image"
    assert all(
        hook["env"][0] == "NVIDIA_CTK_DEBUG=false" for found in hooks.values() for hook in found
    )


def test_generated_specs_are_safe_with_other_programs_that_inject_them(
    site: Site, attack: Attack, runtime: str
) -> None:
    """Engines inject CDI devices themselves: each hook of the spec goes to the low-level runtime as
    it is.
    """
    made_spec = site.generated()
    parts = [
        made_spec["containerEdits"],
        *(device["containerEdits"] for device in made_spec["devices"]),
    ]
    hooks: dict[str, list[Any]] = {}
    for hook in [hook for part in parts for hook in part.get("hooks", [])]:
        hooks.setdefault(hook.pop("hookName"), []).append(hook)
    assert len(hooks["createContainer"]) > 3
    done = made(site, attack, runtime, runtime, hooks=hooks)
    assert attack.done == set()
    assert done.returncode == 0, done.stderr


PROGRAMS = [
    ("nvidia-container-runtime", "create", "x"), ("nvidia-container-runtime", "state", "x"), ("nvidia-container-runtime.cdi", "create", "x"),
    ("nvidia-container-runtime-hook", "prestart"), ("nvidia-ctk", "hook", "create-symlinks", "--link", "a::/b"), ("nvidia-ctk", "info"),
    ("nvidia-ctk", "cdi", "list"),
]  # fmt: skip


@pytest.mark.parametrize("words", PROGRAMS, ids=" ".join)
@pytest.mark.parametrize("quick", [True, False])
def test_no_module_of_the_current_folder_or_the_environment_is_loaded(
    site: Site, attack: Attack, words: tuple[str, ...], quick: bool
) -> None:
    """Here the environment does reach our programs, but for the dynamic linker's part."""
    site.configure("legacy", "true")
    (attack.root / "config.json").write_text(
        '{"ociVersion": "1.0.2", "process": {}, "root": {"path": "."}}'
    )
    entries = [entry.partition("=") for entry in attack.environment if not entry.startswith("LD_")]
    hostile = {name: value.replace(IMAGE, f"{attack.root}/evil") for name, _, value in entries}
    packages = attack.root / "evil/.local/lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    for name in ("usercustomize.py", "sitecustomize.py", "mark.pth"):
        (packages / name).write_text(f"import os; os.open('{attack.marks}/python', 64)\n")
    hostile |= {"HOME": f"{attack.root}/evil", "PATH": SYSTEM_PATH}
    start = site.bin.parent / "lib/nvidia-container-runtime/start"
    hidden = start.with_name("start.hidden")
    if not quick and start.exists():
        start.rename(hidden)
    try:
        state = json.dumps({"ociVersion": "1.0.2", "bundle": str(attack.root), "pid": 1})
        done = subprocess.run(
            [site.bin / words[0], *words[1:]], cwd=attack.root, env={**site.environment, **hostile}, input=state, capture_output=True,
            text=True, check=False, timeout=60,
        )  # fmt: skip
    finally:
        if hidden.exists():
            hidden.rename(start)
    assert attack.done == set()
    assert "internal error" not in done.stderr
    assert "Traceback" not in done.stderr


# --- links and files of the image that lead out of it, or have no end


class Traps:
    """Where a hook reads or writes in the container's root."""

    def __init__(self, attack: Attack, site: Site) -> None:
        self.root = attack.root
        self.outside = site.folder / "outside"
        self.outside.mkdir()
        (self.outside / "victim").write_text("the host's")
        (self.outside / "victim").chmod(0o600)
        # While a container is made, its first process still has the host's root.
        self.way_out = f"/proc/1/root{self.outside}"

    def untouched(self) -> bool:
        victim = self.outside / "victim"
        return (
            victim.read_text() == "the host's"
            and victim.stat().st_mode & 0o777 == 0o600
            and self.names() == ["victim"]
        )

    def names(self) -> list[str]:
        return sorted(path.name for path in self.outside.iterdir())


def lists_as_files(traps: Traps) -> None:
    """A process of a new container has a low number, so that the name of a hook's file is known
    beforehand.
    """
    (traps.root / "etc/ld.so.conf.d").mkdir()
    for number in range(1, 200):
        (traps.root / f"etc/ld.so.conf.d/00-nvcr-{number}.conf").symlink_to(
            f"{traps.way_out}/victim"
        )


def lists_as_a_folder(traps: Traps) -> None:
    (traps.root / "etc/ld.so.conf.d").symlink_to(traps.way_out)


def the_main_list(traps: Traps) -> None:
    (traps.root / "etc/ld.so.conf").symlink_to(f"{traps.way_out}/new")


def all_of_etc(traps: Traps) -> None:
    (traps.root / "etc").rmdir()
    (traps.root / "etc").symlink_to(traps.way_out)


def the_cache(traps: Traps) -> None:
    (traps.root / "etc/ld.so.cache").symlink_to(f"{traps.way_out}/victim")
    (traps.root / "etc/ld.so.cache~").symlink_to(f"{traps.way_out}/victim")


def the_other_cache(traps: Traps) -> None:
    (traps.root / "var/cache").mkdir(parents=True)
    (traps.root / "var/cache/ldconfig").symlink_to(traps.way_out)


LINKS = [lists_as_files, lists_as_a_folder, the_main_list, all_of_etc, the_cache, the_other_cache]


@pytest.mark.parametrize("trap", LINKS)
def test_the_hooks_of_a_container_write_nothing_outside_it(
    site: Site, attack: Attack, runtime: str, trap: Any
) -> None:
    traps = Traps(attack, site)
    trap(traps)
    shim(site, attack, runtime, "csv")
    assert traps.untouched(), traps.names()


@pytest.mark.parametrize("mounted", [(), ("/opt/a b\\c",), ("/opt/p", "/opt/p")], ids=str)
def test_no_library_of_the_host_gets_into_a_containers_cache(
    site: Site, attack: Attack, runtime: str, mounted: tuple[str, ...]
) -> None:
    traps = Traps(attack, site)
    build(
        "int x;", traps.outside / "libsecret.so.1", "-shared", "-fPIC", "-Wl,-soname,libsecret.so.1"
    )
    ways = [traps.way_out, *(place + traps.way_out.removeprefix("/proc") for place in mounted)]
    (attack.root / "etc/ld.so.conf").write_text("".join(f"{way}\n" for way in ways))
    done = shim(site, attack, runtime, "csv", mounted)
    assert done.returncode == 0, done.stderr
    assert b"libsecret" not in (attack.root / "etc/ld.so.cache").read_bytes()


def pipe(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


def disk(path: Path) -> None:
    """A node with a number that no device has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, 0o060600, os.makedev(240, 7))


def endless(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize("kind", [pipe, disk, endless, huge])
@pytest.mark.parametrize(
    "place",
    ["etc/ld.so.conf", "etc/ld.so.conf.d/a.conf", "etc/ld.so.cache", "etc/ld.so.cache~", "usr/lib64/libz.so.1",
     "var/cache/ldconfig/aux-cache", "var/cache/ldconfig/aux-cache~"],
)  # fmt: skip
def test_a_file_without_an_end_delays_no_container(
    site: Site, attack: Attack, place: str, kind: Any
) -> None:
    need("runc", shutil.which("runc"))
    if place != "etc/ld.so.conf":
        (attack.root / "etc/ld.so.conf").write_text("include ld.so.conf.d/*.conf\n")
    kind(attack.root / place)
    done = shim(site, attack, "runc", "csv")
    assert done.returncode == 0, done.stderr
    assert b"libcuda.so" in (attack.root / "etc/ld.so.cache").read_bytes()
    assert (attack.root / "etc/ld.so.cache").stat().st_mode & 0o777 == 0o644


def test_lists_that_ask_for_endless_work_delay_no_container(site: Site, attack: Attack) -> None:
    need("runc", shutil.which("runc"))
    (attack.root / "b").mkdir()
    for number in range(4000):
        (attack.root / f"b/{number}").touch()
    odd = "include /etc/ld.so.conf\ninclude [z-a] [ \0 /\0*\n/\0\n= \x00\n#\ninclude\n"
    (attack.root / "etc/ld.so.conf").write_text(odd + "include /b/*x*\n" * 15000)
    done = shim(site, attack, "runc", "csv")
    assert done.returncode == 0, done.stderr
    assert b"libcuda.so" in (attack.root / "etc/ld.so.cache").read_bytes()


# --- docker


@pytest.fixture
def docker(
    site: Site, attack: Attack, prefix: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[engines.Docker]:
    need("dockerd", shutil.which("dockerd"))
    folder = tmp_path_factory.mktemp("docker")  # a socket's path is short
    environment = {
        name: site.environment[name] for name in ("XDG_CONFIG_HOME", "STUB_GPUS", "LD_LIBRARY_PATH")
    }
    daemon = engines.Docker(folder, prefix, environment)
    try:
        settings = [word for entry in attack.environment for word in ("--change", f"ENV {entry}")]
        words = ("import", "--change", "ENV NVIDIA_VISIBLE_DEVICES=0", *settings, "-", "box")
        imported = daemon.call(*words, input=engines.layer(attack.root), text=False)
        assert imported.returncode == 0, imported.stderr
        yield daemon
    finally:
        daemon.daemon.stop()


def test_no_code_of_an_image_runs_on_the_host_of_docker(
    docker: engines.Docker, site: Site, attack: Attack
) -> None:
    (site.folder / "cdi/spec.json").write_text(json.dumps(site.careless()))
    for mode in ("legacy", "csv", "cdi", "jit-cdi"):
        site.configure(mode, "runc")
        done = docker.run("--runtime=nvidia", "box", "/bin/echo", "ran")
        assert attack.done == set(), mode
        assert (done.stdout, done.returncode) == ("ran\n", 0), (mode, done.stderr)
