"""Backends are found by name, and a wrong name is answered with what was meant."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from tao_sdk.backends import by_name
from tao_sdk.backends.local.backend import LocalBackend
from tao_sdk.model.errors import TaoError, UsageError
from tao_sdk.model.settings import Settings


def test_local_is_here(tmp_path: Path) -> None:
    backend = by_name.open_backend("local", Settings({}), tmp_path)
    assert isinstance(backend, LocalBackend)
    assert backend.platform in by_name.platforms()


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("local-docker", "docker"),
        ("remote-docker", "docker"),
        ("k8s", "kubernetes"),
        ("local", "local"),
    ],
)
def test_other_names_of_a_platform_are_accepted(alias: str, name: str) -> None:
    assert by_name.platform_name(alias) == name


@pytest.mark.parametrize(("scheme", "name"), [("pvc", "kubernetes"), ("s3", ""), ("file", "")])
def test_a_platform_is_known_by_the_addresses_that_it_alone_has(scheme: str, name: str) -> None:
    assert by_name.platform_of_scheme(scheme) == name


TO_COME = [
    *by_name.NOT_BUILT,
    *(alias for alias, name in by_name.ALIASES.items() if name in by_name.NOT_BUILT),
]


@pytest.mark.parametrize("name", TO_COME)
def test_a_platform_that_is_not_built_yet_is_told_as_that(name: str) -> None:
    with pytest.raises(
        TaoError, match=f"{by_name.platform_name(name)} is not part of this version"
    ):
        by_name.backend_class(name)


@pytest.mark.parametrize("name", by_name.NOT_BUILT)
def test_importing_the_class_of_a_platform_that_is_not_built_yet_says_so(name: str) -> None:
    with pytest.raises(ImportError, match=f"{name} is not part of this version") as told:
        importlib.import_module(f"tao_sdk.platforms.{name}")
    assert not isinstance(told.value, ModuleNotFoundError)


def test_every_platform_of_the_documents_has_an_extra_that_installs_and_all_brings_what_each_has() -> (
    None
):
    about = importlib.metadata.metadata("nvidia-tao-sdk")
    extras = about.get_all("Provides-Extra") or []
    assert {"all", "docker", "slurm", "kubernetes", "brev", "lepton"} <= set(extras)
    wanted = [line.partition("; extra ==") for line in about.get_all("Requires-Dist") or []]
    of_all = {what.strip() for what, _, extra in wanted if "all" in extra}
    assert of_all >= {what.strip() for what, _, extra in wanted if extra}


@pytest.mark.parametrize(
    ("wrong", "meant"), [("locla", "local"), ("kubernets", "kubernetes"), ("dokcer", "docker")]
)
def test_a_misspelt_platform_is_answered_with_what_was_meant(wrong: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"Did you mean {meant}"):
        by_name.backend_class(wrong)


def test_a_name_like_no_other_is_answered_with_all_there_are() -> None:
    with pytest.raises(UsageError, match=r"Known are: .*kubernetes, .*local"):
        by_name.backend_class("xyzzy")


@pytest.mark.slow
def test_a_backend_that_another_package_brings_is_found(tmp_path: Path) -> None:
    package = tmp_path / "other-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[tao_sdk.backends]\nmoon = other_backend:Moon\nlocal = other_backend:Moon\n"
    )
    (tmp_path / "other_backend.py").write_text("class Moon:\n    platform = 'moon'\n")
    script = (
        "from tao_sdk.backends import by_name as r; "
        "print(r.backend_class('moon').platform, r.backend_class('local').platform, 'moon' in r.platforms())"
    )
    path = f"{tmp_path}:{Path(by_name.__file__).parents[2]}"
    done = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout.split() == ["moon", "local", "True"], done.stderr


def test_naming_a_platform_imports_no_backend() -> None:
    script = (
        "import sys; from tao_sdk.backends import by_name; by_name.platform_name('k8s'); "
        "print('tao_sdk.backends.local' in sys.modules)"
    )
    environment = {"PYTHONPATH": str(Path(by_name.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "False\n", done.stderr


def test_a_built_in_platform_is_known_without_asking_what_other_packages_bring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    entry_points = importlib.metadata.entry_points
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda **by: asked.append("") or entry_points(**by)
    )
    assert by_name.platform_at("local", Settings({})) == "local"
    assert not asked
    assert not by_name.is_known("moon")
    assert asked
