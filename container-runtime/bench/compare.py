"""What the shim costs, beside the Go shim, in one run: `make bench`. All figures are ratios or peak
memory.

Costs are medians over a runtime that does nothing, with that runtime's own time taken off; every
command takes its turn in every round. The limits are the package's own: a figure over its limit
ends the run with exit code 1.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent
GO = PACKAGE / ".cache/go/nvidia-container-runtime"
PYTHON = Path("/usr/bin/python3").resolve()
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "150"))
LIFE_ROUNDS = int(os.environ.get("BENCH_LIFE_ROUNDS", "30"))
MEMORY_LIMIT_KIB = 10 * 1000 * 1000 // 1024
LIFE = """#!/bin/sh
# A container's whole life through one program.
set -e
cd "$2"
cp ../config.json config.json
"$1" --root "$3" create life >/dev/null 2>&1 </dev/null
"$1" --root "$3" start life
"$1" --root "$3" state life >/dev/null
"$1" --root "$3" kill life KILL
"$1" --root "$3" delete --force life
"""


SMALL_CDI = """---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
      hostPath: /dev/full
"""


@dataclass
class Figure:
    """One line of the result."""

    name: str
    value: float
    limit: float
    unit: str = ""

    @property
    def holds(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        return f"{self.name:44} {self.value:8.2f}{self.unit}  (at most {self.limit:.2f}{self.unit})  {'ok' if self.holds else 'OVER'}"


@dataclass
class Timing:
    peak_kib: int
    median: float


class Bench:
    """A folder in memory, as the bundles of container engines lie in one, and the programs to
    compare.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = folder / "clock"
        subprocess.run(["gcc", "-O2", "-o", self.clock, HERE / "clock.c"], check=True)
        self.noop = folder / "noop"
        subprocess.run(
            ["gcc", "-O2", "-static", "-x", "c", "-", "-o", self.noop],
            input="int main(void){return 0;}",
            text=True,
            check=True,
        )
        self.ours = folder / "bin/nvidia-container-runtime"
        install = [
            sys.executable,
            "-m",
            "nvidia_container_runtime.install",
            "--prefix",
            folder,
            "--python",
            PYTHON,
            "--state",
            folder / "run/state",
        ]
        subprocess.run(
            [str(word) for word in install],
            env={**os.environ, "PYTHONPATH": str(PACKAGE / "src")},
            check=True,
        )
        self.bundle = folder / "bundle"
        self.bundle.mkdir()
        for name, text in (("cdi", cdi_spec()), ("small-cdi", SMALL_CDI)):
            (folder / name).mkdir()
            (folder / name / "nvidia.yaml").write_text(text)
        (folder / "config.json").write_text(json.dumps(docker_like_spec()))

    def configure(self, mode: str, runtime: str, specs: str = "cdi") -> None:
        target = self.folder / "etc/nvidia-container-runtime/config.toml"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(
            f'disable-require = false\n#swarm-resource = "DOCKER_RESOURCE_GPU"\n[nvidia-container-cli]\nload-kmods = true\n'
            f'[nvidia-container-runtime]\nmode = "{mode}"\nruntimes = ["{runtime}"]\n#debug = "/var/log/nvidia-container-runtime.log"\n'
            f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["{self.folder}/{specs}"]\n'
        )

    def measure(self, rounds: int, *commands: list[str]) -> list[Timing]:
        text = "".join("\t".join(command) + "\n" for command in commands)
        environment = {"PATH": PATH, "XDG_CONFIG_HOME": str(self.folder / "etc"), "LANG": "C.UTF-8"}
        done = subprocess.run(
            [self.clock, str(rounds)],
            input=text,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        rows = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
        return [Timing(peak, statistics.median(times)) for peak, *times in rows]

    def against_go(self, name: str, limit: float, *words: str) -> list[Figure]:
        """Our cost as a part of Go's, and our peak memory."""
        first = [f"{self.folder}/config.json={self.bundle}/config.json"]
        programs = (self.noop, GO, self.ours)
        self.measure(2, *([*first, str(program), *words] for program in programs))
        noop, go, ours = self.measure(
            ROUNDS, *([*first, str(program), *words] for program in programs)
        )
        print(
            f"{name}: no-op {noop.median / 1000:.2f} ms, Go {go.median / 1000:.2f} ms {go.peak_kib} KiB, ours {ours.median / 1000:.2f} ms {ours.peak_kib} KiB"
        )
        ratio = (ours.median - noop.median) / (go.median - noop.median)
        return [
            Figure(name, ratio, limit, " x Go"),
            Figure(f"{name}, peak memory", ours.peak_kib / 1024, MEMORY_LIMIT_KIB / 1024, " MiB"),
        ]

    def life(self) -> list[Figure]:
        """Real runc: create, start, state, kill, delete."""
        runc = shutil.which("runc", path=PATH)
        if not runc or os.geteuid() != 0:
            print("a whole life: runc or root is missing; left out")
            return []
        self.configure("cdi", runc, "small-cdi")
        script = self.folder / "life.sh"
        script.write_text(LIFE)
        script.chmod(0o755)
        home = self.folder / "life"
        (home / "bundle").mkdir(parents=True)
        minimal_root(home / "bundle/rootfs")
        subprocess.run([runc, "spec", "-b", str(home)], check=True)
        spec = json.loads((home / "config.json").read_text())
        spec["process"] |= {"terminal": False, "args": ["/bin/busybox", "sleep", "1000"]}
        spec["process"]["env"].append("NVIDIA_VISIBLE_DEVICES=0")
        (home / "config.json").write_text(json.dumps(spec))
        commands = [
            ["/bin/sh", str(script), str(program), str(home / "bundle"), str(home / "state")]
            for program in (runc, GO, self.ours)
        ]
        self.measure(1, *commands)
        plain, go, ours = self.measure(LIFE_ROUNDS, *commands)
        print(
            f"a whole life with runc: {plain.median / 1000:.1f} ms plain, Go {go.median / 1000:.1f} ms, ours {ours.median / 1000:.1f} ms"
        )
        return [
            Figure(
                "a whole life, over plain runc",
                (ours.median - plain.median) / (go.median - plain.median),
                1.0,
                " x Go",
            )
        ]


def minimal_root(target: Path) -> None:
    for name in ("bin", "proc", "dev", "sys"):
        (target / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "/bin/busybox", target / "bin/busybox")


def cdi_spec() -> str:
    """About 650 lines, as the spec of a driver with its libraries is."""
    lines = [
        "---",
        "cdiVersion: 0.5.0",
        "kind: nvidia.com/gpu",
        "containerEdits:",
        "  env:",
        "  - NVIDIA_VISIBLE_DEVICES=void",
        "  mounts:",
    ]
    for number in range(75):
        path = f"/usr/lib/x86_64-linux-gnu/libnvidia-part{number}.so.550.54.15"
        lines += [
            f"  - containerPath: {path}",
            "    hostPath: /dev/null",
            "    options:",
            *(f"    - {option}" for option in ("ro", "nosuid", "nodev", "bind")),
        ]
    lines += ["devices:"]
    for number in range(16):
        lines += [
            f'- name: "{number}"',
            "  containerEdits:",
            "    deviceNodes:",
            f"    - path: /dev/nvidia{number}",
            "      hostPath: /dev/null",
        ]
    return "\n".join(lines) + "\n"


def docker_like_spec() -> dict[str, object]:
    """About 14 kB, as docker's are: a seccomp profile is most of it."""
    names = [f"system_call_number_{number}" for number in range(330)]
    mounts = [
        {
            "destination": f"/etc/file{number}",
            "type": "bind",
            "source": f"/var/lib/docker/containers/box/file{number}",
            "options": ["rbind", "rprivate"],
        }
        for number in range(8)
    ]
    capabilities = [f"CAP_NUMBER_{number}" for number in range(14)]
    return {
        "ociVersion": "1.0.2-dev",
        "process": {
            "user": {"uid": 0, "gid": 0, "additionalGids": [0, 1, 2]}, "args": ["sleep", "1000"], "cwd": "/",
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_DRIVER_CAPABILITIES=utility,compute"],
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities), "oomScoreAdj": 0,
        },
        "root": {"path": "/var/lib/docker/overlay2/box/merged"}, "hostname": "box", "mounts": mounts,
        "linux": {
            "resources": {"devices": [{"allow": False, "access": "rwm"}], "memory": {}, "cpu": {"shares": 0}},
            "namespaces": [{"type": kind} for kind in ("mount", "network", "uts", "pid", "ipc")],
            "seccomp": {"defaultAction": "SCMP_ACT_ERRNO", "architectures": ["SCMP_ARCH_X86_64"], "syscalls": [{"names": names, "action": "SCMP_ACT_ALLOW"}]},
        },
    }  # fmt: skip


def main() -> int:
    if not GO.exists():
        print(
            "The Go shim is not here (tests/setup.sh brings it where Go is installed); nothing to compare with."
        )
        return 1 if os.environ.get("CI") == "true" else 0
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        dir=memory if memory.is_dir() else None, prefix="nvcr-bench-"
    ) as name:
        bench = Bench(Path(name))
        bench.configure("legacy", str(bench.noop))
        figures = bench.against_go("state", 0.4, "state", "box")
        figures += bench.against_go("kill", 0.4, "kill", "box", "KILL")
        figures += bench.against_go(
            "create, legacy", 1.5, "create", "--bundle", str(bench.bundle), "box"
        )
        bench.configure("cdi", str(bench.noop))
        figures += bench.against_go(
            "create, cdi", 1.5, "create", "--bundle", str(bench.bundle), "box"
        )
        figures += bench.life()
    print()
    for figure in figures:
        print(figure)
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    raise SystemExit(main())
