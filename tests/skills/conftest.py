"""Small banks, written for each test; nothing of them is a real model's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from support.tao_command import Ran
from tao_sdk.cli.main import run
from tao_sdk.model.settings import Settings
from tao_sdk.skills.bank import Bank

GOOD = """\
name: toy
network_arch: toynet
container_image: tao_toolkit.toy
actions:
  train:
    mode: config
    command: toynet train -e {config_path}
    config_format: yaml
    inputs:
      dataset.sources[0].image_dir: {type: folder}
      train.pretrained: {type: file, optional: true}
    outputs:
      results_dir: {type: folder}
    upload_excludes: [inputs/]
"""
VERSIONS = "images: {tao_toolkit: {toy: registry.example/toy:1}}\n"

MakeBank = Callable[..., Bank]


@pytest.fixture
def make_bank(tmp_path: Path) -> MakeBank:
    """A bank of these files, by their path below its folder `skills`."""

    def make(files: Mapping[str, str], versions: str = VERSIONS) -> Bank:
        root = tmp_path / "bank"
        (root / "skills").mkdir(parents=True, exist_ok=True)
        (root / "versions.yaml").write_text(versions)
        for path, text in files.items():
            (root / "skills" / path).parent.mkdir(parents=True, exist_ok=True)
            (root / "skills" / path).write_text(text)
        return Bank(root, "a test")

    return make


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Nobody's surroundings, with a home of their own."""
    (tmp_path / "home").mkdir()
    return Settings({"HOME": str(tmp_path / "home")})


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    """The command's entry in this process, with a home of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "own-home"))
    for name in ("TAO_SKILL_BANK_PATH", "TAO_VERSIONS_FILE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)

    def tao(*args: str) -> Ran:
        code = run(list(args))
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return tao
