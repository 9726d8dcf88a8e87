"""What a job should know of its outputs and variables is told before it is submitted."""

from __future__ import annotations

from typing import Any

import pytest

from tao_sdk.client import Client
from tao_sdk.client.doctor import job_findings
from tao_sdk.client.job_request import JobRequest
from tao_sdk.model.finding import Severity
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.spec_hardware import hardware_findings, shared_memory_findings

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


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"specs": {"train": {"num_gpus": 4}}}, "spec.gpus", "train.num_gpus is for 4 GPUs"),
        ({"specs": {"train": {"gpu_ids": [0, 1]}}}, "spec.gpus", "train.gpu_ids is for 2 GPUs"),
        ({"args": {"num_gpus": 2}, "command": "train"}, "spec.gpus", "num_gpus is for 2 GPUs"),
        (
            {"specs": {"train": {"num_gpus": 1}}, "gpu_count": 2},
            "spec.gpus_idle",
            "Use gpu_count: 1, or train.num_gpus for 2.",
        ),
        ({"specs": {"train": {"num_nodes": 2}}}, "spec.nodes", "the job runs on 1 nodes"),
    ],
)
def test_gpus_and_nodes_of_the_spec_that_the_job_does_not_have_are_told(
    fields: dict[str, Any], code: str, words: str
) -> None:
    given = {"command": "dino train -e {config_path}", "gpu_count": 1, **fields}
    (found,) = hardware_findings(JobSpec(**given), 1)
    assert (found.code, words in found.text) == (code, True)


@pytest.mark.parametrize(
    ("action", "specs", "fields", "nodes"),
    [
        ("evaluate", {"train": {"num_gpus": 4}, "evaluate": {"num_gpus": 1}}, {}, 1),
        ("inference", {"train": {"num_gpus": 4}}, {}, 1),
        ("train", {"train": {"num_gpus": 8, "num_nodes": 2}}, {"gpu_count": 16}, 2),
        ("train", {"train": {"num_gpus": 4}}, {"gpu_count": 4, "num_nodes": 2}, 2),
        ("train", {"train": {"num_gpus": 4}}, {"gpu_count": 0}, 1),
        ("train", {"train": {"num_gpus": "auto", "gpu_ids": 3}}, {"gpu_count": -1}, 1),
    ],
)
def test_nothing_is_told_of_a_spec_that_fits_the_job(
    action: str, specs: dict[str, Any], fields: dict[str, Any], nodes: int
) -> None:
    spec = JobSpec(command=f"dino {action} -e {{config_path}}", specs=specs, **fields)
    assert list(hardware_findings(spec, nodes)) == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"shm_size": "64m"}, "a bus error. -> Use shm_size: 8g"),
        ({"shm_size": "16g", "memory": "8g"}, "-> Ask for more memory than shm_size."),
        ({"shm_size": "64m", "gpu_count": 0}, ""),
        ({"shm_size": "8g", "memory": "8g"}, ""),
        ({}, ""),
    ],
)
def test_shared_memory_that_a_training_would_fill_is_told(
    fields: dict[str, Any], words: str
) -> None:
    spec = JobSpec(command="train", **{"gpu_count": 1, **fields})
    found = [each.text for each in shared_memory_findings(spec)]
    assert ([words in text for text in found]) == ([True] if words else [])


def test_doctor_refuses_a_job_whose_spec_asks_for_more_gpus_than_it_has(client: Client) -> None:
    spec = JobSpec(command="train {config_path}", specs={"train": {"num_gpus": 4}})
    assert told(client, "spec.gpus", specs=spec.specs, gpu_count=1)
    found = {each.code: each for each in job_findings(client, JobRequest(spec, "local", {}, None))}
    assert found["spec.gpus"].severity is Severity.ERROR
