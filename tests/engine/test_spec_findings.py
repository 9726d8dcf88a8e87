"""What a job should know of its outputs and variables is told before it is submitted."""

from __future__ import annotations

from typing import Any

import pytest

from tao_sdk.client import Client

SPECS = {"train": {"epochs": 1, "out": ""}}


def told(client: Client, code: str, **fields: Any) -> list[str]:
    given = {"command": "train {config_path}", "gpu_count": 0, **fields}
    return [found.text for found in client.plan(given, "local").findings if found.code == code]


def test_an_output_that_nothing_names_is_told_before_submit(client: Client) -> None:
    [line] = told(client, "output.unread", specs=SPECS, outputs={"train.model": {"type": "folder"}})
    assert line.startswith("outputs names train.model, which the specs do not have")
    assert "Add train.model to the specs" in line


@pytest.mark.parametrize(
    "fields",
    [
        {"outputs": {"train.out": {"type": "folder"}}},
        {"outputs": {"results_dir": {"type": "folder"}}},
        {"outputs": {"model": {"type": "folder", "optional": True}}},
        {"outputs": {"model": {"type": "folder"}}, "command": "train {config_path} --to model"},
        {"outputs": {"model": {"type": "folder"}}, "files": {"train.py": b"out = spec['model']"}},
    ],
)
def test_nothing_is_told_of_an_output_that_the_program_may_know(
    client: Client, fields: dict[str, Any]
) -> None:
    assert told(client, "output.unread", specs=SPECS, **fields) == []


@pytest.mark.parametrize("name", ["TAO_JOB_ID", "TAO_ATTEMPT", "TAO_RESULTS_DIR"])
def test_a_variable_that_is_always_the_sdks_own_is_told_and_not_used(
    client: Client, name: str
) -> None:
    given = {
        "command": f"echo is ${name}.",
        "gpu_count": 0,
        "env_vars": {name: "mine", "OTHER": "1"},
    }
    submission = client.submit(given, "local")
    assert [each.text for each in submission.findings if each.code == "env_vars.ours"] == [
        (
            f"{name} in env_vars is not used: in the job it is always the SDK's own. -> Leave it "
            "out, or give it another name."
        )
    ]
    client.wait(submission.job.id)
    assert "is mine." not in client.get_job_logs(submission.job.id)
