from __future__ import annotations

import json
import multiprocessing
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tao_sdk.action_workflow import ActionWorkflow
from tao_sdk.model.errors import NoLog, PathNotFound, Unreachable, UsageError
from tao_sdk.model.job import Job, JobStatus
from tao_sdk.model.secrets import Secret
from tao_sdk.model.status import Status


class ScriptedSDK:
    """An SDK that says what it is told to, or raises it."""

    def __init__(
        self, *said: Any, logs: Any = "line\n", analysis: Mapping[str, Any] | None = None
    ) -> None:
        self.said = list(said)
        self.logs, self.analysis = logs, analysis
        self.asked_for: list[tuple[str, int | None]] = []

    def get_job_status(self, job_id: str) -> JobStatus:
        status = self.said.pop(0)
        return JobStatus(job_id, status, f"is {status}")

    def get_job_logs(self, job_id: str, tail: int | None = None) -> str:
        self.asked_for.append((job_id, tail))
        if isinstance(self.logs, Exception):
            raise self.logs
        return self.logs

    def get_failure_analysis(self, job_id: str) -> Mapping[str, Any] | None:
        return self.analysis


@pytest.fixture
def workflow(tmp_path: Path) -> ActionWorkflow:
    made = ActionWorkflow(tmp_path, "train", "20261121_050400")
    made.write_submission(
        Job("digits-1", "digits", "local"), {"train": {"num_epochs": 2}}, {"command": "true"}
    )
    return made


def read(workflow: ActionWorkflow, name: str) -> Any:
    return json.loads((workflow.workspace / name).read_text())


def events(workflow: ActionWorkflow) -> list[str]:
    lines = (workflow.workspace / "status_events.jsonl").read_text().splitlines()
    return [json.loads(line)["status"] for line in lines]


def active(workflow: ActionWorkflow) -> list[str]:
    return [job["job_id"] for job in read(workflow, "active_jobs.json")]


def test_the_workspace_is_root_run_and_timestamp(tmp_path: Path):
    assert (
        ActionWorkflow(tmp_path, "train", "20261121").workspace == tmp_path / "train" / "20261121"
    )


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc"])
def test_a_name_that_is_no_folder_is_refused(tmp_path: Path, name: str):
    with pytest.raises(UsageError):
        ActionWorkflow(tmp_path, name, "1")


def test_a_submission_is_kept_with_its_specs_and_its_entrypoint(workflow: ActionWorkflow):
    status = read(workflow, "status.json")
    assert (status["job"]["job_id"], status["job"]["platform"]) == ("digits-1", "local")
    assert (status["specs"], status["script_runner"]) == (
        {"train": {"num_epochs": 2}},
        {"command": "true"},
    )
    assert active(workflow) == ["digits-1"]


def test_a_run_is_followed_from_pending_to_complete(workflow: ActionWorkflow):
    sdk = ScriptedSDK(Status.PENDING, Status.RUNNING, Status.RUNNING, Status.COMPLETE)
    for _ in range(4):
        seen = workflow.sync_from_sdk(sdk, "digits-1", tail=50)
    assert seen.status is Status.COMPLETE
    assert read(workflow, "status.json")["job_status"]["status"] == "Complete"
    assert events(workflow)[-3:] == ["Pending", "Running", "Complete"]
    assert (workflow.workspace / "latest_logs.txt").read_text() == "line\n"
    assert sdk.asked_for[-1] == ("digits-1", 50)
    assert active(workflow) == []


def test_unknown_is_no_end(workflow: ActionWorkflow):
    sdk = ScriptedSDK(Status.UNKNOWN, Status.COMPLETE)
    workflow.sync_from_sdk(sdk, "digits-1")
    assert active(workflow) == ["digits-1"]
    workflow.sync_from_sdk(sdk, "digits-1")
    assert active(workflow) == []


def test_a_failure_is_kept_with_its_analysis(workflow: ActionWorkflow):
    workflow.sync_from_sdk(
        ScriptedSDK(Status.ERROR, analysis={"err_class": "ERR_PROGRAM"}), "digits-1"
    )
    assert read(workflow, "failure_analysis.json") == {"err_class": "ERR_PROGRAM"}


def test_a_job_whose_log_could_not_be_had_stays_active_and_its_status_is_kept(
    workflow: ActionWorkflow,
):
    with pytest.raises(Unreachable):
        workflow.sync_from_sdk(ScriptedSDK(Status.COMPLETE, logs=Unreachable("gone")), "digits-1")
    assert read(workflow, "status.json")["job_status"]["status"] == "Complete"
    assert active(workflow) == ["digits-1"]
    workflow.sync_from_sdk(ScriptedSDK(Status.COMPLETE), "digits-1")
    assert active(workflow) == []


def test_one_of_two_jobs_that_ends_leaves_the_other_active(workflow: ActionWorkflow):
    workflow.write_submission({"id": "digits-2"})
    workflow.sync_from_sdk(ScriptedSDK(Status.CANCELED), "digits-1")
    assert active(workflow) == ["digits-2"]


def test_an_sdk_of_other_make_with_plain_strings_will_do(workflow: ActionWorkflow):
    sdk = SimpleNamespace(
        get_job_status=lambda job_id: SimpleNamespace(status="Error", message="exit 1"),
        get_job_logs=lambda job_id, tail=None: None,
        get_failure_analysis=lambda job_id: None,
    )
    assert workflow.sync_from_sdk(sdk, "digits-1").message == "exit 1"
    assert active(workflow) == []
    assert not (workflow.workspace / "failure_analysis.json").exists()


def test_a_job_without_a_log_ends_like_any_other(workflow: ActionWorkflow):
    workflow.sync_from_sdk(
        ScriptedSDK(Status.COMPLETE, logs=NoLog("its logging driver keeps none")), "digits-1"
    )
    assert active(workflow) == []
    assert not (workflow.workspace / "latest_logs.txt").exists()


def test_another_process_takes_the_workspace_up_again(workflow: ActionWorkflow):
    again = ActionWorkflow.from_workspace(workflow.workspace)
    assert [job["job_id"] for job in again.active_jobs] == ["digits-1"]
    again.sync_status("Running", "epoch 3")
    assert read(workflow, "status.json")["specs"] == {"train": {"num_epochs": 2}}


def test_a_workspace_that_is_not_there_is_not_made(tmp_path: Path):
    with pytest.raises(PathNotFound):
        ActionWorkflow.from_workspace(tmp_path / "none" / "1")
    assert not (tmp_path / "none").exists()


def test_metadata_is_added_to_and_shows_no_secret(workflow: ActionWorkflow):
    workflow.write_metadata(model="dino", env_vars={"NGC_KEY": "nvapi-abcdef", "EPOCHS": "3"})
    workflow.write_metadata(
        token=Secret("hunter22"), tokenizer="/models/t", folder=Path("/data"), status=Status.PENDING
    )
    assert read(workflow, "metadata.json") == {
        "model": "dino",
        "env_vars": {"NGC_KEY": "***", "EPOCHS": "3"},
        "token": "***",
        "tokenizer": "/models/t",
        "folder": "/data",
        "status": "Pending",
    }


def test_what_json_cannot_hold_is_refused_and_leaves_the_old_file(workflow: ActionWorkflow):
    workflow.write_metadata(rate=0.1)
    with pytest.raises(ValueError, match="JSON"):
        workflow.write_metadata(rate=float("nan"))
    assert read(workflow, "metadata.json") == {"rate": 0.1}


@pytest.mark.slow
def test_a_reader_never_sees_half_a_file(workflow: ActionWorkflow):
    done = threading.Event()

    def keep_writing() -> None:
        for number in range(300):
            workflow.write_metadata(filler="x" * 20_000, number=number)
        done.set()

    writer = threading.Thread(target=keep_writing)
    workflow.write_metadata(number=-1)
    writer.start()
    looks = 0
    while not done.is_set():
        assert "number" in read(workflow, "metadata.json")
        looks += 1
    writer.join()
    assert looks > 10
    assert read(workflow, "metadata.json")["number"] == 299
    assert [path.name for path in workflow.workspace.iterdir() if path.name.startswith(".")] == []


def submit_some(workspace: Path, name: str) -> None:
    workflow = ActionWorkflow.from_workspace(workspace)
    for number in range(20):
        workflow.write_submission({"id": f"{name}-{number}"})


def test_processes_that_submit_into_one_workspace_lose_none_of_their_jobs(workflow: ActionWorkflow):
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=submit_some, args=(workflow.workspace, name)) for name in "abc"
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(active(workflow)) == 61


def test_the_files_are_for_their_owner_only(workflow: ActionWorkflow):
    workflow.sync_from_sdk(ScriptedSDK(Status.RUNNING), "digits-1")
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in workflow.workspace.iterdir()}
    assert set(modes.values()) == {"0o600"}
