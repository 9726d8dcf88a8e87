"""A job that writes what nobody can read: that is its own affair, and every other job is seen as
before.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tao_sdk.backends.outcome import MOST, read_outcome
from tao_sdk.backends.this_machine import LocalFiles
from tao_sdk.client.client import Client
from tao_sdk.engine import status_file
from tao_sdk.model.log_reading import FilePlace
from tao_sdk.model.observation import Outcome
from tao_sdk.model.spec import JobSpec

DEEP = "print('%s' + '[' * 200_000)"
WRITES = {
    "a manifest nested without an end": f'mkdir .tao; python3 -c "{DEEP % ""}" > .tao/manifest.json',
    "a manifest of 12 GB": "mkdir .tao; truncate -s 12G .tao/manifest.json",
    "a manifest that is a pipe": "mkdir .tao; mkfifo .tao/manifest.json",
    "a status nested without an end": f'python3 -c "{DEEP % ""}" > status.json',
    "a status with numbers that no machine has": f'echo {{\\"epoch\\": 1{"0" * 400}, \\"loss\\": 1e999}} > status.json',
    "a status that is a pipe": "mkfifo status.json",
    "a status of bytes that are no text": "head -c 100000 /dev/urandom > status.json",
    "an event nested without an end": "python3 -c \"print('@tao ' + '{\\\"a\\\":' * 3000)\"",
    "an event that is none": 'echo "@tao {\\"event\\": \\"failed\\", \\"time\\": 1, \\"code\\": {}, \\"what\\": [1]}"',
    "a transfer that is none": (

            'echo "@tao {\\"event\\": \\"transfer\\", \\"time\\": 1, \\"stage\\": \\"inputs\\", '
            '\\"bytes\\": \\"x\\"}"'

    ),
    "folders without an end": "for a in $(seq 30); do mkdir -p $a/{1..60}; done",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("writes", WRITES)
def test_one_hostile_job_does_not_keep_the_others_from_being_seen(
    client: Client, writes: str
) -> None:
    hostile = client.submit(
        JobSpec(command=f"cd $TAO_RESULTS_DIR; {WRITES[writes]}; exit 3", gpu_count=0), "local"
    ).job
    other = client.submit(JobSpec(command="echo epoch 1/1 loss 0.5", gpu_count=0), "local").job
    client.wait_all([hostile.id, other.id], timeout=300)
    listed = {job.id: job for job in client.list_jobs()}
    assert listed[hostile.id].status == "Error"
    assert listed[other.id].status == "Complete"
    assert client.refresh_progress(client.get_job(hostile.id)).id == hostile.id
    assert client.diagnose(hostile.id)
    assert client.results(hostile.id).dir
    assert client.results(other.id).progress.epoch == 1


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"a":' * 200_000, "\xff\xfe", '{"attempt": 1' + "0" * 5000 + "}"]
)
def test_a_manifest_that_cannot_be_read_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "job" / ".tao").mkdir(parents=True)
    (tmp_path / "job" / ".tao" / "manifest.json").write_text(text, encoding="latin-1")
    assert read_outcome(LocalFiles(), str(tmp_path / "job"), 1) is None


@pytest.mark.slow
def test_a_manifest_is_read_up_to_a_size(tmp_path: Path) -> None:
    (tmp_path / "job" / ".tao").mkdir(parents=True)
    manifest = tmp_path / "job" / ".tao" / "manifest.json"
    record = json.dumps({"attempt": 1, "whole": True, "exit_code": 0})
    manifest.write_text(record + " " * (MOST - len(record)))
    assert read_outcome(LocalFiles(), str(tmp_path / "job"), 1) == Outcome(whole=True, exit_code=0)
    manifest.write_text(record + " " * (MOST - len(record) + 1))
    assert read_outcome(LocalFiles(), str(tmp_path / "job"), 1) is None


def test_a_line_of_a_status_file_that_never_ends_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_file, "MOST_AT_ONCE", 100)
    (tmp_path / "status.json").write_text("x" * 250 + '\n{"epoch": 1}\n')
    place, told = FilePlace(), b""
    for _ in range(5):
        data, place = status_file.read_on(LocalFiles(), str(tmp_path), place)
        told += data
    assert told.endswith(b'{"epoch": 1}\n')


def test_a_status_file_is_looked_for_in_a_number_of_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_file, "MOST_FOLDERS", 10)
    for number in range(20):
        (tmp_path / f"{number:02}").mkdir()
    (tmp_path / "19" / "status.json").write_text('{"epoch": 1}\n')
    assert status_file.read_on(LocalFiles(), str(tmp_path), FilePlace())[0] == b""
    (tmp_path / "03" / "status.json").write_text('{"epoch": 2}\n')
    assert status_file.read_on(LocalFiles(), str(tmp_path), FilePlace())[0] == b'{"epoch": 2}\n'


def test_a_secret_that_a_job_prints_is_in_no_diagnosis_and_no_event(client: Client) -> None:
    spec = JobSpec(
        command='echo "CUDA out of memory: $A_TOKEN"; exit 1',
        gpu_count=0,
        env_vars={"A_TOKEN": "hunter2-battery"},
    )
    job = client.submit(spec, "local").job
    client.wait_all([job.id], timeout=300)
    diagnosis = client.diagnose(job.id)
    assert diagnosis
    assert diagnosis.rule == "cuda_oom"
    assert diagnosis.events[0].message == diagnosis.evidence == "CUDA out of memory: ***"
    assert not [event for event in client.events(job.id) if "hunter2" in str(event)]
