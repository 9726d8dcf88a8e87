from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml

import tao_sdk
from tao_sdk.model.settings import Settings
from tao_sdk.versions import (
    PACKAGED,
    KeyNotFoundError,
    ManifestError,
    ManifestNotFoundError,
    load_manifest,
    looks_like_key,
    manifest_path,
    resolve_container_image,
    resolve_image,
    resolve_wheel,
)

TAO = "nvcr.io/nvidia/tao/tao-toolkit:6.26.3-pyt"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("TAO_VERSIONS_FILE", "TAO_SKILL_BANK_PATH", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)


def write(path: Path, image: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        yaml.safe_dump(
            {"images": {"tao_toolkit": {"pyt": image}}, "wheels": {"tao_sdk_docker": "a==1"}}
        )
    )
    return path


def test_a_key_is_resolved_with_or_without_the_name_of_its_tree():
    assert resolve_container_image("tao_toolkit.pyt") == TAO
    assert resolve_container_image("images.tao_toolkit.pyt") == TAO
    assert resolve_image("tao_toolkit.pyt") == TAO


@pytest.mark.parametrize("wrong", [None, 3, b"tao_toolkit.pyt", Path("x"), "", " "])
@pytest.mark.parametrize("resolve", [resolve_container_image, resolve_image, resolve_wheel])
def test_what_names_nothing_is_told_with_what_to_give(resolve, wrong):
    with pytest.raises(KeyNotFoundError, match="No (image|wheel) is named.* Give "):
        resolve(wrong)


def test_a_manifest_that_is_no_mapping_is_told():
    with pytest.raises(ManifestError, match="The manifest is a list"):
        resolve_image("a.b", manifest=[])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "image",
    [
        "ubuntu",
        "ubuntu:22.04",
        "tao-digits",
        TAO,
        "nvidia/cuda@sha256:" + "0" * 64,
        "localhost:5000/x",
        "/lustre/a.sqsh",
    ],
)
def test_an_image_is_returned_as_it_is(image: str):
    assert resolve_container_image(image, manifest={}) == image
    assert not looks_like_key(image)


def test_every_wheel_names_this_version_and_its_own_extra():
    wheels = load_manifest()["wheels"]
    platforms = {"docker", "kubernetes", "slurm", "brev"}
    assert set(wheels) == {
        *(f"tao_sdk_{extra}" for extra in (*platforms, "lepton", "all")),
        *(f"tao_automl_{extra}" for extra in (*platforms, "all")),
    }
    for name, wheel in wheels.items():
        _, product, extra = name.split("_")
        extras = f"{extra},automl" if product == "automl" else extra
        assert wheel == f"nvidia-tao-sdk[{extras}]=={tao_sdk.__version__}"
    assert (
        resolve_wheel("wheels.tao_sdk_slurm")
        == resolve_wheel("tao_sdk_slurm")
        == wheels["tao_sdk_slurm"]
    )


def test_a_key_that_is_not_there_is_named_with_what_was_meant():
    with pytest.raises(KeyNotFoundError) as raised:
        resolve_container_image("tao_toolkit.pyd")
    assert str(raised.value) == (
        f"no such image key: tao_toolkit.pyd. {PACKAGED} has none. Did you mean tao_toolkit.pyt? "
        "If it is an image, write its tag: tao_toolkit.pyd:latest."
    )
    assert isinstance(raised.value, KeyError)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@pytest.mark.parametrize("key", ["tao_toolkit.deploy", "tao_toolkit.cosmos_embed"])
def test_no_image_of_another_family_is_suggested(key: str):
    manifest = {"images": {"tao_toolkit": {"pyt": TAO, "cosmos_rl": TAO}}}
    with pytest.raises(KeyNotFoundError, match="Known are: tao_toolkit.cosmos_rl") as raised:
        resolve_image(key, manifest)
    assert "Did you mean" not in str(raised.value)


def test_a_wheel_that_is_not_there_lists_those_that_are():
    with pytest.raises(KeyNotFoundError, match=r"no such wheel key: x\. Known are: a, b\."):
        resolve_wheel("x", {"wheels": {"b": "b==1", "a": "a==1"}})


@pytest.mark.parametrize("node", [{"pyt": TAO}, None, "", 7, ["a"]])
def test_a_key_whose_value_is_no_text_is_an_error_of_the_manifest(node: Any):
    with pytest.raises(ManifestError, match=r"'a\.b' is no image"):
        resolve_image("a.b", {"images": {"a": {"b": node}}})


@pytest.mark.parametrize(
    "manifest", [{}, {"images": None}, {"images": "x"}, {"images": {"a": "b"}}]
)
def test_a_manifest_without_the_tree_has_no_such_key(manifest: dict[str, Any]):
    with pytest.raises(KeyNotFoundError):
        resolve_image("a.b", manifest)


def test_no_image_at_all_is_an_error():
    with pytest.raises(KeyNotFoundError, match="No image is named"):
        resolve_container_image("  ")


def test_the_order_is_the_path_given_then_the_variable_then_the_bank_then_ours(tmp_path: Path):
    given, named, bank = (
        write(tmp_path / name / "versions.yaml", name) for name in ("given", "named", "bank")
    )
    both = Settings(
        {
            "HOME": "/nowhere",
            "TAO_VERSIONS_FILE": str(named),
            "TAO_SKILL_BANK_PATH": str(bank.parent),
        }
    )
    only_bank = Settings({"HOME": "/nowhere", "TAO_SKILL_BANK_PATH": str(bank.parent)})
    usual = write(tmp_path / "home" / "tao-skills-external" / "versions.yaml", "usual")
    assert manifest_path(given, both) == given
    assert manifest_path(None, both) == named
    assert manifest_path(None, only_bank) == bank
    assert manifest_path(None, Settings({"HOME": str(tmp_path / "home")})) == usual
    assert manifest_path(None, Settings({"HOME": "/nowhere"})) == PACKAGED


def test_the_environment_is_asked_when_nothing_else_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAO_VERSIONS_FILE", str(write(tmp_path / "mine.yaml", "mine:1")))
    assert resolve_container_image("tao_toolkit.pyt") == "mine:1"


def test_a_versions_file_in_the_current_directory_is_never_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(tmp_path / "versions.yaml", "planted:1")
    write(tmp_path / "tao-skills-external" / "versions.yaml", "planted:2")
    monkeypatch.chdir(tmp_path)
    assert resolve_container_image("tao_toolkit.pyt") == TAO


def test_a_skill_bank_without_a_versions_file_leaves_ours_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAO_SKILL_BANK_PATH", str(tmp_path))
    assert resolve_container_image("tao_toolkit.pyt") == TAO


def test_a_file_that_is_named_and_missing_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    missing = tmp_path / "gone.yaml"
    with pytest.raises(ManifestNotFoundError, match="gone.yaml") as raised:
        load_manifest(missing)
    assert isinstance(raised.value, FileNotFoundError)
    monkeypatch.setenv("TAO_VERSIONS_FILE", str(missing))
    with pytest.raises(ManifestNotFoundError, match="TAO_VERSIONS_FILE names it"):
        resolve_container_image("tao_toolkit.pyt")


@pytest.mark.parametrize("content", [b"images: [", b"- a\n", b"", b"\xff\xfe"])
def test_a_file_that_is_no_manifest_is_an_error_that_names_it(tmp_path: Path, content: bytes):
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    with pytest.raises(ManifestError, match=r"bad\.yaml"):
        load_manifest(path)
