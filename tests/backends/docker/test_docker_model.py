"""A model by its name on a daemon: a further job finds its parent's checkpoint in the container."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.dockerd.dockerd_here import PYTHON
from tao_sdk.client import Client
from tao_sdk.client.job_request import TypedJob, read_request
from tao_sdk.model.errors import SpecError


def run(client: Client, *set_values: str, **model: Any) -> str:
    """The job of the digits model as `tao run` makes it, once it has ended; its id."""
    place = None if model.get("parent") else "docker"
    typed = TypedJob(
        None,
        place,
        fields={"image": PYTHON},
        set_values=set_values,
        model={"model": "digits", **model},
    )
    request = read_request(typed, client)
    assert request.platform == "docker"
    submission = client.submit(
        request.spec, request.platform, request.options, parent=request.parent
    )
    job_id = submission.job.id
    assert client.wait(job_id, timeout=300).status.value == "Complete", client.get_job_logs(job_id)
    return job_id


def test_what_follows_a_training_needs_no_path_typed(client: Client, tmp_path: Path) -> None:
    trained = run(client, "num_epochs=2", action="train")
    other = tmp_path / "elsewhere"
    other.mkdir()
    os.chdir(other)  # the parent's results are bound from where they are
    tested = run(client, action="evaluate", parent=trained, checkpoint="epoch:2")
    assert "epoch 2: accuracy 0.9" in client.get_job_logs(tested)
    resumed = run(client, "num_epochs=3", action="train", parent=trained)
    printed = client.get_job_logs(resumed).splitlines()
    assert printed[0] == "resumed after epoch 2"
    assert [line.split()[1] for line in printed if line.startswith("epoch")] == ["3/3"]


def test_a_parent_elsewhere_is_refused(client: Client) -> None:
    trained = run(client, "num_epochs=1", action="train")
    model = {"model": "digits", "action": "evaluate", "parent": trained}
    with pytest.raises(SpecError, match="ran on docker, and its results are there"):
        read_request(TypedJob(None, "local", model=model), client)
