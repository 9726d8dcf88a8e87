from __future__ import annotations

import os
import pwd
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
    write(
        tmp_path / ".config/tao/.env",
        "NGC_KEY=file\nexport HF_TOKEN='file'\n# a comment\nUNKNOWN=1\n",
    )
    write(
        tmp_path / ".config/tao/config.yaml",
        "profiles: {default: {HF_TOKEN: profile, SLURM_USER: profile}}",
    )
    read = settings(tmp_path, NGC_KEY="environment", HF_TOKEN="")
    assert [read.get(name) for name in ("NGC_KEY", "HF_TOKEN", "SLURM_USER", "UNKNOWN")] == [
        "environment",
        "file",
        "profile",
        None,
    ]
    assert Settings(read.environ, {"NGC_KEY": "explicit"}).get("NGC_KEY") == "explicit"


def test_an_env_file_that_others_can_read_is_refused_with_the_command_that_mends_it(
    tmp_path: Path,
) -> None:
    write(tmp_path / ".config/tao/.env", "NGC_KEY=1", 0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        settings(tmp_path).get("NGC_KEY")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("abc # of the team", "abc"),
        ('"abc"  # of the team', "abc"),
        ("'a # b'", "a # b"),
        ('a#b"', 'a#b"'),
        ('"it\'s"', "it's"),
        ("", ""),
        ('""', ""),
        ("# none yet", ""),
    ],
)
def test_a_value_of_the_env_file_is_what_a_shell_would_read(
    tmp_path: Path, written: str, meant: str
) -> None:
    write(tmp_path / ".config/tao/.env", f"NGC_KEY={written}\n")
    assert settings(tmp_path).env_file == {"NGC_KEY": meant}


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_quote_that_is_not_closed_is_told_with_its_line_and_without_the_value(
    tmp_path: Path, quote: str
) -> None:
    write(tmp_path / ".config/tao/.env", f"# mine\nNGC_KEY={quote}nvapi-1\n")
    with pytest.raises(
        UsageError, match=r"\.env:2: the quote before the value of NGC_KEY is not closed"
    ) as refused:
        settings(tmp_path).get("NGC_KEY")
    assert "nvapi-1" not in str(refused.value)


def test_the_state_folder_follows_the_documented_order(tmp_path: Path) -> None:
    assert settings(tmp_path).state_dir == tmp_path / ".local/state/tao"
    assert settings(tmp_path, XDG_STATE_HOME="/x").state_dir == Path("/x/tao")
    assert settings(tmp_path, XDG_STATE_HOME="/x", TAO_SDK_STATE_DIR="/y").state_dir == Path("/y")


def test_a_relative_state_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not absolute"):
        _ = settings(tmp_path, TAO_SDK_STATE_DIR="state").state_dir


def test_a_relative_folder_in_an_xdg_variable_is_ignored_as_its_specification_says(
    tmp_path: Path,
) -> None:
    relative = settings(tmp_path, XDG_STATE_HOME="state", XDG_CONFIG_HOME="config")
    assert relative.state_dir == tmp_path / ".local/state/tao"
    assert relative.config_dir == tmp_path / ".config/tao"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"profiles: {default: [b}", "config.yaml:1 is not YAML."),
        (b"- a", "config.yaml:1 is not a mapping."),
        (b"\nprofiles: 5", "config.yaml:2 is not a mapping."),
        (b"profiles: {default: [a]}", "config.yaml:1 is not a mapping."),
        (b"profiles:\n  default: {SLURM_USER: [a]}", "config.yaml:2: SLURM_USER is not a text."),
        (b"# mine\nprofile: {}", "config.yaml:2: unknown key 'profile'."),
        (b"\xff\xfe", "config.yaml is not UTF-8 text."),
    ],
)
def test_a_spoiled_profile_is_told_with_its_file(tmp_path: Path, content: bytes, told: str) -> None:
    write(tmp_path / ".config/tao/config.yaml", "")
    (tmp_path / ".config/tao/config.yaml").write_bytes(content)
    with pytest.raises(UsageError, match=told):
        settings(tmp_path).get("NGC_KEY")


def test_a_mistake_in_a_profile_shows_no_value_of_it(tmp_path: Path) -> None:
    write(tmp_path / ".config/tao/config.yaml", "profiles:\n  default: {NGC_KEY: 'hunter2\n")
    with pytest.raises(UsageError) as error:
        settings(tmp_path).get("NGC_KEY")
    assert "hunter2" not in str(error.value)


def test_a_profile_that_was_named_has_to_be_there(tmp_path: Path) -> None:
    write(tmp_path / ".config/tao/config.yaml", "profiles: {lab: {NGC_KEY: 1}}")
    assert settings(tmp_path, TAO_PROFILE="lab").get("NGC_KEY") == "1"
    assert settings(tmp_path).get("NGC_KEY") is None
    with pytest.raises(UsageError, match="no such profile: 'lap'. .*config.yaml has: lab"):
        settings(tmp_path, TAO_PROFILE="lap").get("NGC_KEY")


def test_a_profile_with_a_secret_has_to_be_private(tmp_path: Path) -> None:
    path = tmp_path / ".config/tao/config.yaml"
    write(path, "profiles:\n  lab: {NGC_KEY: hunter2}", 0o644)
    with pytest.raises(
        UsageError, match=r"config\.yaml:2: NGC_KEY is a secret, .*chmod 600"
    ) as refused:
        settings(tmp_path).get("HF_TOKEN")
    assert "hunter2" not in str(refused.value)
    write(path, "profiles: {default: {SLURM_USER: me}}", 0o644)
    assert settings(tmp_path).get("SLURM_USER") == "me"


def test_a_spoiled_env_file_is_told_with_its_name(tmp_path: Path) -> None:
    (tmp_path / ".config/tao/.env").mkdir(parents=True, mode=0o700)
    with pytest.raises(UsageError, match=r"\.env cannot be read: Is a directory\."):
        settings(tmp_path).get("NGC_KEY")
    (tmp_path / ".config/tao/.env").rmdir()
    write(tmp_path / ".config/tao/.env", "")
    (tmp_path / ".config/tao/.env").write_bytes(b"NGC_KEY=\xff")
    with pytest.raises(UsageError, match=r"\.env is not UTF-8 text\."):
        settings(tmp_path).get("NGC_KEY")


@pytest.mark.parametrize("home", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_without_a_home_of_the_environment_the_systems_word_counts(home: dict[str, str]) -> None:
    assert Settings(home).home == Path(pwd.getpwuid(os.getuid()).pw_dir)
