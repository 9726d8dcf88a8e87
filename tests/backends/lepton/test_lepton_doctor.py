"""What `tao doctor lepton` says, and which workspace the settings lead to."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lepton.rest_server import RestServer
from tao_sdk.backends.lepton.backend import LeptonBackend
from tao_sdk.backends.lepton.workspace import site
from tao_sdk.model.errors import CredentialError, UsageError
from tao_sdk.model.finding import Severity
from tao_sdk.model.settings import Settings

HERE = {"LEPTON_WORKSPACE_ID": "team", "LEPTON_AUTH_TOKEN": "not-shown", "HOME": "/nonexistent"}


def test_the_documents_gateway_is_asked_unless_an_address_is_set() -> None:
    asked = site.server(Settings(HERE))
    assert asked.url == "https://gateway.dgxc-lepton.nvidia.com/api/v2/workspaces/team"
    other = site.server(Settings({**HERE, site.URL: "https://lepton.example.com/w/team/"}))
    assert other.url == "https://lepton.example.com/w/team"


@pytest.mark.parametrize("missing", [site.WORKSPACE, site.TOKEN])
def test_a_setting_that_is_missing_is_named(missing: str) -> None:
    left = {name: value for name, value in HERE.items() if name != missing}
    with pytest.raises(CredentialError, match=missing):
        site.server(Settings(left))


@pytest.mark.parametrize("token", ["not shown", "not\rshown", "nöt-shown", "not-shown\0"])
def test_a_token_that_no_header_can_hold_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(CredentialError, match="is no token") as refused:
        site.server(Settings({**HERE, site.TOKEN: token}))
    assert "shown" not in f"{refused.value} {refused.value.why} {refused.value.next}"


def test_a_token_is_used_without_the_line_end_of_the_file_it_came_from() -> None:
    asked = site.server(Settings({**HERE, site.TOKEN: "not-shown\r\n"}))
    assert asked.token == "not-shown"


@pytest.mark.parametrize("url", ["http://lepton.example.com", "ftp://x", "lepton.example.com"])
def test_no_token_goes_to_an_address_that_is_not_encrypted(url: str) -> None:
    with pytest.raises(UsageError, match="https://") as refused:
        site.server(Settings({**HERE, site.URL: url}))
    assert "not-shown" not in str(refused.value)


def test_without_settings_the_doctor_says_what_is_missing(tmp_path: Path) -> None:
    [finding] = LeptonBackend(Settings({"HOME": str(tmp_path)}), tmp_path).doctor()
    assert (finding.severity, finding.what) == (
        Severity.ERROR,
        "MISSING: LEPTON_WORKSPACE_ID is not set.",
    )


@pytest.mark.slow
def test_the_doctor_shows_what_the_workspace_has_and_secrets_that_nobody_needs(
    server: RestServer, settings: Settings, tmp_path: Path
) -> None:
    server.workspace.groups[0].nodes[0].held = 3
    server.workspace.groups[0].may_use["lustre"] = "/team"
    server.workspace.secrets["tao-job-lost-0123456789-1-1"] = {
        "name": "tao-job-lost-0123456789-1-1"
    }
    backend = LeptonBackend(settings, tmp_path)
    reached, group, stray = backend.doctor()
    backend.close()
    server.workspace.secrets.clear()
    assert (reached.severity, group.severity) == (Severity.OK, Severity.OK)
    assert group.what == (
        "Node group group-tests: 13 of 16 GPUs free, shapes for jobs cpu.small, cpu.medium, "
        "cpu.large, gpu.1xh100, gpu.2xh100, gpu.4xh100, gpu.8xh100, volumes scratch, lustre (below "
        "/team)."
    )
    assert "tao-job-lost-0123456789-1-1" in stray.what
