from __future__ import annotations

from pathlib import Path

import pytest

from tao_sdk.model.errors import UsageError
from tao_sdk.model.settings import Settings


def settings(home: Path, **environ: str) -> Settings:
    return Settings({"HOME": str(home), **environ})


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def test_the_environment_wins_over_the_file_and_the_file_over_the_profile(tmp_path: Path) -> None:
    write(tmp_path / ".config/tao/.env", "NGC_KEY=file\nexport HF_TOKEN='file'\n# a comment\nUNKNOWN=1\n")
    write(tmp_path / ".config/tao/config.yaml", "profiles: {default: {HF_TOKEN: profile, SLURM_USER: profile}}")
    read = settings(tmp_path, NGC_KEY="environment", HF_TOKEN="")
    assert [read.get(name) for name in ("NGC_KEY", "HF_TOKEN", "SLURM_USER", "UNKNOWN")] == [
        "environment",
        "file",
        "profile",
        None,
    ]
    assert Settings(read.environ, {"NGC_KEY": "explicit"}).get("NGC_KEY") == "explicit"


def test_an_env_file_that_others_can_read_is_refused_with_the_command_that_mends_it(tmp_path: Path) -> None:
    write(tmp_path / ".config/tao/.env", "NGC_KEY=1", 0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        settings(tmp_path).get("NGC_KEY")


def test_the_state_folder_follows_the_documented_order(tmp_path: Path) -> None:
    assert settings(tmp_path).state_dir == tmp_path / ".local/state/tao"
    assert settings(tmp_path, XDG_STATE_HOME="/x").state_dir == Path("/x/tao")
    assert settings(tmp_path, XDG_STATE_HOME="/x", TAO_SDK_STATE_DIR="/y").state_dir == Path("/y")


def test_a_relative_state_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not absolute"):
        _ = settings(tmp_path, TAO_SDK_STATE_DIR="state").state_dir


def test_a_relative_folder_in_an_xdg_variable_is_ignored_as_its_specification_says(tmp_path: Path) -> None:
    relative = settings(tmp_path, XDG_STATE_HOME="state", XDG_CONFIG_HOME="config")
    assert relative.state_dir == tmp_path / ".local/state/tao"
    assert relative.config_dir == tmp_path / ".config/tao"
