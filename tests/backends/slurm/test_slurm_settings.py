"""The settings of a cluster, and by what name it is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cluster.facts_here import (
    IMAGE,
)
from tao_sdk.backends.slurm.backend import SlurmBackend
from tao_sdk.backends.slurm.cluster.site import read_login
from tao_sdk.model.errors import CredentialError, SpecError
from tao_sdk.model.settings import Settings
from tao_sdk.platforms.slurm import SlurmSDK


def test_a_missing_base_directory_host_or_user_is_one_clear_error(tmp_path: Path) -> None:
    whole = {
        "SLURM_USER": "me",
        "SLURM_HOSTNAME": "login",
        "SLURM_BASE_RESULTS_DIR": "/b",
        "HOME": str(tmp_path),
    }
    for name in ("SLURM_USER", "SLURM_HOSTNAME", "SLURM_BASE_RESULTS_DIR"):
        settings = Settings({key: value for key, value in whole.items() if key != name})
        with pytest.raises(CredentialError, match=name):
            SlurmBackend(settings, tmp_path).site  # noqa: B018


def test_an_sdk_is_made_without_a_look_at_the_cluster(tmp_path: Path) -> None:
    with SlurmSDK(
        settings=Settings({"TAO_SDK_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)})
    ) as sdk:
        with pytest.raises(CredentialError, match="SLURM_HOSTNAME"):
            sdk.create_job(image=IMAGE, command="true")
        assert sdk.list_jobs() == []


def test_the_endpoint_is_the_first_login_host_or_the_name_that_the_user_gives_the_cluster(
    tmp_path: Path,
) -> None:
    given = {
        "SLURM_USER": "me",
        "SLURM_HOSTNAME": "a, b:2222",
        "SLURM_BASE_RESULTS_DIR": "/b",
        "HOME": str(tmp_path),
    }
    backend = SlurmBackend(Settings(given), tmp_path)
    assert (backend.endpoint, backend.login.hosts) == ("me@a", ("a", "b:2222"))
    assert (
        SlurmBackend(Settings({**given, "SLURM_CLUSTER_NAME": "east"}), tmp_path).endpoint == "east"
    )


def test_a_cluster_keeps_its_name_when_another_of_its_login_hosts_is_listed_first(
    tmp_path: Path,
) -> None:
    """Else its jobs would be another cluster's, and nobody would look at them."""
    given = {
        "SLURM_USER": "me",
        "SLURM_HOSTNAME": "a",
        "SLURM_BASE_RESULTS_DIR": "/b",
        "HOME": str(tmp_path),
    }
    before = SlurmBackend(Settings(given), tmp_path)
    before.surveys.write_cache(before.surveys.cache_path(before.endpoint), "{}")
    assert (
        SlurmBackend(Settings({**given, "SLURM_HOSTNAME": "b,a"}), tmp_path).endpoint
        == before.endpoint
    )
    assert SlurmBackend(Settings({**given, "SLURM_HOSTNAME": "b"}), tmp_path).endpoint == "me@b"


@pytest.mark.parametrize("host", ["-oProxyCommand=id", "a b", "a;id"])
def test_a_host_that_ssh_would_take_for_an_option_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no name of a host"):
        SlurmBackend(
            Settings({"SLURM_USER": "me", "SLURM_HOSTNAME": host, "HOME": str(tmp_path)}), tmp_path
        )


def test_a_failure_of_the_cluster_is_tried_again_up_to_the_documented_number_of_times() -> None:
    assert SlurmBackend.capabilities.retries == 10


def test_the_ssh_config_of_a_home_that_ssh_would_not_look_into_is_named_to_it(
    tmp_path: Path,
) -> None:
    whole = {"SLURM_USER": "me", "SLURM_HOSTNAME": "login", "HOME": str(tmp_path)}
    assert read_login(Settings(whole)).config == ""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").touch()
    assert read_login(Settings(whole)).config == str(tmp_path / ".ssh" / "config")
    assert read_login(Settings({**whole, "TAO_SSH_CONFIG": "/other"})).config == "/other"
