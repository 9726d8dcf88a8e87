"""The lanes of tools/test: together they are all tests, and no test is in two. A test's marks say
what it uses.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.cluster import cluster_here
from support.dockerd import dockerd_here
from support.kubernetes import kube_here
from support.kubernetes.kube_files import Shape
from support.servers import clients_here, go_programs, s3_here, sshd_here

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
CONTRACT = "tests/contract"
FOLDERS = (CONTRACT, "tests/engine")


@dataclass(frozen=True)
class Lane:
    """The words that tools/test gives to pytest."""

    words: list[str]

    def runs(self, marks: set[str], folder: str) -> bool:
        return self.takes_folder(folder) and self.takes_marks(marks)

    def takes_folder(self, folder: str) -> bool:
        if f"--ignore={folder}" in self.words:
            return False
        named = [word for word in self.words if word.startswith("tests/")]
        return not named or folder in named

    def takes_marks(self, marks: set[str]) -> bool:
        """As pytest reads -m: each mark is true or false."""
        asked = self.words[self.words.index("-m") + 1]
        return eval(re.sub(r"\b(?!and\b|or\b|not\b)\w+", lambda name: str(name[0] in marks), asked))


def lanes() -> list[Lane]:
    text = (ROOT / "tools" / "test").read_text(encoding="utf-8")
    return [Lane(shlex.split(words)) for words in re.findall(r"\btests (-m .+) ;;", text)]


def registered() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "pytest"
    ]["ini_options"]
    return [line.partition(":")[0] for line in settings["markers"]]


MARKS = registered()
SETS_OF_MARKS = [
    set(chosen)
    for count in range(len(MARKS) + 1)
    for chosen in itertools.combinations(MARKS, count)
]


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(
    "marks", SETS_OF_MARKS, ids=lambda marks: " ".join(sorted(marks)) or "none"
)
def test_a_test_runs_in_one_lane_whatever_its_marks_are(marks: set[str], folder: str) -> None:
    assert len([lane for lane in lanes() if lane.runs(marks, folder)]) == 1


def test_a_lane_leaves_out_only_folders_that_the_test_above_knows() -> None:
    paths = {
        word.partition("=")[2] or word
        for lane in lanes()
        for word in lane.words
        if "tests/" in word
    }
    assert paths == {CONTRACT}


def test_the_lanes_that_run_when_none_is_named_are_all() -> None:
    text = (ROOT / "tools" / "test").read_text(encoding="utf-8")
    [named] = re.findall(r"\|\| set -- (.+)", text)
    assert sorted(named.split()) == sorted(re.findall(r"^    (\w+)\) ", text, re.M))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes networks")
def test_a_process_of_the_docker_lane_has_a_network_of_its_own() -> None:
    show = "import os; print(os.stat('/proc/self/ns/net').st_ino)"
    python = ROOT / "tools" / "python-apart"
    apart = subprocess.run([python, "-c", show], capture_output=True, text=True, check=True)
    assert int(apart.stdout) != Path("/proc/self/ns/net").stat().st_ino


SERVERS: dict[str, Callable[[], object]] = {
    "dockerd": dockerd_here.daemon,
    "its address": dockerd_here.host,
    "SLURM": cluster_here.cluster,
    "Kubernetes": kube_here.cluster,
    "another Kubernetes": lambda: kube_here.shaped(Shape()).__enter__(),
    "where Kubernetes is": kube_here.place,
    "S3": s3_here.minio,
    "a program to build": lambda: go_programs.program("minio"),
    "clients to install": clients_here.clients,
    "sshd": lambda: sshd_here.Sshd(Path("never made")).begin(),
}


@pytest.mark.parametrize("server", SERVERS)
def test_a_test_that_is_not_marked_gets_no_server(server: str) -> None:
    with pytest.raises(pytest.fail.Exception, match="only tests marked"):
        SERVERS[server]()
