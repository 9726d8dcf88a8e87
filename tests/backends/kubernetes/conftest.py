"""A real cluster, as its kubeconfig. TAO_TEST_KUBECONFIG names it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_sdk.client import Client
from tao_sdk.model.settings import Settings

IMAGE = "tests.local/python:1"  # python3 and bash; the cluster has it
PLAIN_IMAGE = "tests.local/busybox:1"  # neither bash nor python3


@pytest.fixture
def kubeconfig() -> Path:
    named = os.environ.get("TAO_TEST_KUBECONFIG", "")
    if not named:
        pytest.skip("TAO_TEST_KUBECONFIG names no cluster")
    return Path(named)


@pytest.fixture
def surroundings(
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The environment of a caller with a state folder and a home of his own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KUBE", "TAO_", "NGC_"))
    }
    own = {
        "KUBECONFIG": str(kubeconfig),
        "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
        "HOME": str(tmp_path / "home"),
    }
    return {**kept, **own}


@pytest.fixture
def client(surroundings: dict[str, str]) -> Iterator[Client]:
    """A client whose jobs are all ended and removed when the test is over."""
    with Client(settings=Settings(surroundings)) as client:
        yield client
        for job in client.list_jobs(look=False):
            if not job.status.terminal:
                client.cancel_job(job.id, grace=1)
            client.remove(job.id)
