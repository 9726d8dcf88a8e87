"""Docker's config file, whatever it holds: no daemon is needed to be told that it cannot be
understood.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_sdk.backends.docker.daemon.address import find_address
from tao_sdk.model.errors import Unreachable, UsageError
from tao_sdk.model.settings import Settings
from tao_sdk.transports.dockerd import Address, connect, stored_login

NO_OBJECT = ["[]", "[1]", "null", "5", '"text"']
ODD_LOGINS = [
    '{"auths": [1]}',
    '{"auths": {"r": 5}}',
    '{"auths": {"r": {"auth": "!"}}}',
    '{"auths": {"r": {"auth": 5}}}',
]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path / "config.json"


@pytest.mark.parametrize("text", [*NO_OBJECT, *ODD_LOGINS, '{"proxies": [1]}'])
def test_a_config_file_that_the_library_cannot_read_is_named(config: Path, text: str) -> None:
    config.write_text(text)
    with pytest.raises(UsageError) as told:
        connect(Address(f"unix://{config}.socket"))
    assert told.value.what == f"{config} is not as docker writes it."
    assert told.value.next.startswith("Correct it")


@pytest.mark.parametrize("text", [*NO_OBJECT, *ODD_LOGINS, '{"credHelpers": [1]}'])
def test_a_login_that_cannot_be_read_is_not_taken_for_none(config: Path, text: str) -> None:
    config.write_text(text)
    with pytest.raises(UsageError, match="not as docker writes it"):
        stored_login("r", str(config), {})


@pytest.mark.parametrize("text", ["", "{", "{}", '{"auths": {}}'])
def test_a_config_file_without_a_word_is_none(config: Path, text: str) -> None:
    config.write_text(text)
    assert stored_login("r", str(config), {}) == ({}, "")
    with pytest.raises(Unreachable):
        connect(Address(f"unix://{config}.socket"))


@pytest.mark.parametrize("text", NO_OBJECT)
def test_a_config_file_that_is_no_object_names_no_context(config: Path, text: str) -> None:
    config.write_text(text)
    settings = Settings({"DOCKER_CONFIG": str(config.parent)})
    assert find_address(settings).url == "unix:///var/run/docker.sock"
