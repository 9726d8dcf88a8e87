"""The shim as it is installed, on a host made of temporary folders: configuration, bundles,
low-level runtimes.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent
sys.path.insert(0, str(PACKAGE / "src"))
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PYTHON = Path("/usr/bin/python3").resolve()
GO = PACKAGE / ".cache" / "go"
os.environ["PATH"] = f"{os.environ['PATH']}:/usr/sbin:/sbin"

# Who is started in the background by a script, or by nohup, ignores these, and so would every
# runtime of the tests. A handler is the tests' alone: what they start has none.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(
            number, signal.default_int_handler if number == signal.SIGINT else lambda *_: None
        )

# Written by the noop runtime of the tests: what reached it, byte for byte.
RECORDER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
    const char *place = getenv("RECORD_TO");
    FILE *out = fopen(place ? place : "/dev/null", "w");
    int count = 0;
    for (char **e = environ; *e; e++) count++;
    fprintf(out, "%d %d", argc, count);
    fputc(0, out);
    for (int i = 0; i < argc; i++) { fwrite(argv[i], 1, strlen(argv[i]) + 1, out); }
    for (char **e = environ; *e; e++) { fwrite(*e, 1, strlen(*e) + 1, out); }
    for (int s = 1; s < 32; s++) {
        struct sigaction a;
        if (sigaction(s, NULL, &a) == 0 && a.sa_handler != SIG_DFL) fprintf(out, "%d ", s);
    }
    fputc(0, out);
    for (int fd = 0; fd < 64; fd++) if (fd != fileno(out) && dup2(fd, fd) == fd) fprintf(out, "%d ", fd);
    fputc(0, out);
    fprintf(out, "%d", getpid());
    fclose(out);
    const char *code = getenv("EXIT_WITH");
    if (getenv("KILL_WITH")) kill(getpid(), atoi(getenv("KILL_WITH")));
    return code ? atoi(code) : 0;
}
"""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "engines: needs a container engine or a low-level runtime, root, and time"
    )


def need(what: str, there: object) -> None:
    """Skip loudly where a piece is missing; in CI that is a failure."""
    if there:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing; tests/setup.sh should have brought it")
    pytest.skip(f"{what} is not here")


def build(source: str, target: Path, *flags: str) -> Path:
    need("gcc", shutil.which("gcc"))
    subprocess.run(
        ["gcc", "-x", "c", "-", "-o", str(target), *flags], input=source, text=True, check=True
    )
    return target


@dataclass
class Record:
    """What the recording runtime saw."""

    argv: list[bytes]
    environment: list[bytes]
    signals: list[int]
    descriptors: list[int]
    pid: int


@dataclass
class Host:
    """One host: `run` calls the shim on it."""

    root: Path
    prefix: Path
    recorder: Path
    environment: dict[str, str] = field(default_factory=dict)
    config_text: str = ""

    def __post_init__(self) -> None:
        self.bundle = self.root / "bundle"
        self.bundle.mkdir()
        self.log = self.root / "shim.log"
        self.config_file = self.root / "etc/nvidia-container-runtime/config.toml"
        self.config_file.parent.mkdir(parents=True)
        self.environment = {
            "PATH": SYSTEM_PATH,
            "XDG_CONFIG_HOME": str(self.root / "etc"),
            "RECORD_TO": str(self.root / "record"),
            **self.environment,
        }
        self.configure()

    def configure(self, text: str = "", mode: str = "legacy", **runtime: Any) -> None:
        """config.toml: [nvidia-container-runtime] with the recording runtime, then the text."""
        values = {"runtimes": [str(self.recorder)], "mode": mode, "debug": str(self.log), **runtime}
        lines = "".join(
            f"{key.replace('_', '-')} = {json.dumps(value)}\n" for key, value in values.items()
        )
        top, _, tables = text.partition("\n[") if not text.startswith("[") else ("", "", text[1:])
        self.config_file.write_text(
            f"{top}\n[nvidia-container-runtime]\n{lines}" + (f"[{tables}" if tables else "")
        )

    def spec(self, *env: str, **changes: Any) -> dict[str, Any]:
        """Write a bundle whose container has these environment entries; `changes` replace top-level
        keys.
        """
        spec = copy.deepcopy(PLAIN_SPEC)
        spec["process"]["env"] += env
        spec.update(changes)
        self.write_spec(spec)
        return spec

    def write_spec(self, spec: Any) -> None:
        (self.bundle / "config.json").write_text(json.dumps(spec))

    def read_spec(self) -> dict[str, Any]:
        return json.loads((self.bundle / "config.json").read_text())

    def raw_spec(self) -> bytes:
        return (self.bundle / "config.json").read_bytes()

    def run(
        self, *words: str | bytes, name: str = "nvidia-container-runtime", **more: Any
    ) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **more.pop("env", {})}
        program = self.prefix / "bin" / name
        return subprocess.run(
            [program, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **more,
        )

    def refused_by(self, name: str) -> str:
        done = self.run("create", "-b", str(self.bundle), "x", name=name)
        assert done.returncode == 1
        return done.stderr

    def create(self, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.run("create", "--bundle", str(self.bundle), "box", **more)

    def created(self, *env: str, **changes: Any) -> dict[str, Any]:
        """The spec after a creation that worked."""
        self.spec(*env, **changes)
        done = self.create()
        assert done.returncode == 0, done.stderr
        return self.read_spec()

    def refused(self, **more: Any) -> str:
        """The one line of a creation that failed and changed nothing."""
        before = self.raw_spec()
        done = self.create(**more)
        assert done.returncode == 1, done.stderr
        assert self.raw_spec() == before, "the spec was changed by a creation that failed"
        lines = done.stderr.splitlines()
        assert len(lines) == 1, done.stderr
        assert lines[0].startswith('time="'), done.stderr
        assert "level=error msg=" in lines[0], done.stderr
        return lines[0].partition("msg=")[2]

    @property
    def record(self) -> Record:
        counts, *pieces = (self.root / "record").read_bytes().split(b"\0")
        words, entries = map(int, counts.split())
        signals, descriptors, pid = pieces[words + entries :]
        return Record(
            pieces[:words],
            pieces[words : words + entries],
            [int(one) for one in signals.split()],
            [int(one) for one in descriptors.split()],
            int(pid),
        )


PLAIN_SPEC: dict[str, Any] = {
    "ociVersion": "1.0.2",
    "process": {
        "terminal": False,
        "user": {"uid": 0, "gid": 0},
        "args": ["sh"],
        "env": ["PATH=/bin", "TERM=xterm"],
        "cwd": "/",
        "capabilities": {"bounding": ["CAP_KILL"]},
    },
    "root": {"path": "rootfs"},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    "linux": {
        "resources": {"devices": [{"allow": False, "access": "rwm"}]},
        "namespaces": [{"type": "pid"}, {"type": "mount"}],
    },
}


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs, installed as `make install` would, for Debian's Python."""
    from nvidia_container_runtime import install

    target = tmp_path_factory.mktemp("prefix")
    install.main(
        [
            "--prefix",
            str(target),
            "--python",
            str(PYTHON),
            "--state",
            str(target / "run" / "front-state"),
        ]
    )
    return target


@pytest.fixture(scope="session")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(RECORDER, tmp_path_factory.mktemp("runtime") / "recorder", "-static")


@pytest.fixture
def host(tmp_path: Path, prefix: Path, recorder: Path) -> Host:
    return Host(tmp_path, prefix, recorder)


@pytest.fixture(scope="session")
def stub_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for LD_LIBRARY_PATH with a libnvidia-ml.so.1 in it."""
    folder = tmp_path_factory.mktemp("nvml")
    build((HERE / "stub_nvml.c").read_text(), folder / "libnvidia-ml.so.1", "-shared", "-fPIC")
    return folder


@pytest.fixture(scope="session")
def mock_cli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("cli") / "nvidia-container-cli"
    shutil.copy(HERE / "mock_cli.sh", target)
    target.chmod(0o755)
    return target
