"""Addresses of daemons behind ssh. What a daemon there does: tests/backends/docker."""

from __future__ import annotations

import pytest

from tao_sdk.model.errors import UsageError
from tao_sdk.transports.dockerd_ssh import Target


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("ssh://far", Target("far")),
        ("ssh://me@far:2222", Target("far", "me", "2222")),
        (
            "ssh://me@Far.Example/run/docker.sock",
            Target("Far.Example", "me", "", "/run/docker.sock"),
        ),
        ("ssh://me@[::1]:22/", Target("::1", "me", "22")),
    ],
)
def test_an_address_is_read(url: str, target: Target) -> None:
    assert Target.parse(url) == target


@pytest.mark.parametrize("url", ["ssh://", "ssh://me:secret@far", "ssh://far:port"])
def test_an_address_that_ssh_cannot_take_is_refused_and_a_password_not_shown(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        Target.parse(url)
    assert "secret" not in str(refused.value)
