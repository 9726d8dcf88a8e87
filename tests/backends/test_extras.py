"""The extras of the package, installed as a user does it: from a wheel, with pip."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.network, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
# extra -> what can be imported with it
EXTRAS = {
    "docker": "docker, tao_sdk.platforms.docker",
    "slurm": "tao_sdk.platforms.slurm",
    "kubernetes": "kubernetes, tao_sdk.platforms.kubernetes",
    "brev": "tao_sdk",
    "lepton": "tao_sdk.platforms.lepton",
    "automl": "numpy, optuna, tao_automl",
}


def pip(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    built = pip("wheel", "--no-deps", f"--wheel-dir={folder}", str(ROOT))
    if built.returncode:
        pytest.skip(f"no wheel can be built, no package index answers: {built.stderr[-300:]}")
    return next(folder.glob("*.whl"))


def requirements(wheel: Path) -> dict[str, set[str]]:
    """Extra -> what the wheel requires for it."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    required: dict[str, set[str]] = {extra: set() for extra in metadata.get_all("Provides-Extra")}
    for line in metadata.get_all("Requires-Dist"):
        if found := re.fullmatch(r"(.+?)\s*;\s*extra == '(\w+)'", line.replace('"', "'")):
            required[found[2]].add(found[1])
    return required


def test_all_is_what_the_other_extras_bring(wheel: Path) -> None:
    """They agree with each other in .venv, where both clients are."""
    required = requirements(wheel)
    brought = [required[extra] for extra in ("docker", "kubernetes", "automl")]
    assert all(brought) and required["all"] == set().union(*brought)
    assert required.keys() == {"all", *EXTRAS}
    assert set().union(*required.values()) == required["all"]


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_what_its_platform_needs(wheel: Path, tmp_path: Path, extra: str) -> None:
    place = tmp_path / "site"
    installed = pip("install", "--no-compile", f"--target={place}", f"{wheel}[{extra}]")
    assert installed.returncode == 0, installed.stderr
    look = f"import sys; sys.path.insert(0, {str(place)!r}); import {EXTRAS[extra]}"
    tried = subprocess.run([sys.executable, "-I", "-S", "-c", look], capture_output=True, text=True)
    assert tried.returncode == 0, tried.stderr
