"""Relative inputs of a local job are those of the folder where it is submitted, whichever folder
it starts in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tao_sdk.client import Client
from tao_sdk.model.errors import Refused
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, read_spec

FILES = {"show.py": b"import sys; print(open(sys.argv[1]).read())"}
SPECS: list[dict[str, Any]] = [
    {"command": "python3 show.py {data}", "args": {"data": "data/a"}, "inputs": {"data": {}}},
    {"command": "cat data/a", "inputs": {"data": "data"}},
    {"command": "cat data/a", "inputs": ["data/a"]},
    {"command": "cat in/a", "inputs": {"in": {"uri": "data"}}},
    {
        "command": "grep -o '[^ ]*data/a' {config_path} | tr -d '\"[' | xargs cat",
        "specs": {"sets": [{"path": ["data/a"]}]},
        "inputs": {"sets[0].path": {"type": "file"}},
        "config_format": "json",
    },
]


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    here = tmp_path / "here"
    (here / "data").mkdir(parents=True)
    (here / "data" / "a").write_text("here it is\n")
    monkeypatch.chdir(here)
    environ = {"TAO_SDK_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path)}
    with Client(settings=Settings({**environ, "PATH": "/usr/local/bin:/usr/bin:/bin"})) as client:
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("files", [{}, FILES])
def test_a_relative_input_is_found_in_the_folder_of_submit(
    client: Client, spec: dict[str, Any], files: dict[str, bytes]
) -> None:
    command = spec["command"] if files else spec["command"].replace("python3 show.py", "cat")
    asked = read_spec({**spec, "command": command, "gpu_count": 0, "files": files})
    job = client.submit(asked, "local").job
    assert client.wait(job.id).status == "Complete", client.get_job_logs(job.id)
    assert "here it is" in client.get_job_logs(job.id)


def test_a_relative_input_that_is_not_there_stops_the_submit_of_a_job_with_files(
    client: Client,
) -> None:
    spec = JobSpec(command="true", gpu_count=0, inputs={"x": "data/b"}, files=FILES)
    assert "input.missing" in [each.code for each in client.plan(spec, "local").findings]
    with pytest.raises(Refused, match="data/b"):
        client.submit(spec, "local")


def test_an_input_that_travels_with_the_job_stays_relative(client: Client) -> None:
    spec = JobSpec(
        command="cat {data}",
        gpu_count=0,
        args={"data": "data/a"},
        inputs={"data": {}},
        files={"data/a": b"travelled\n"},
    )
    job = client.submit(spec, "local").job
    assert client.wait(job.id).status == "Complete"
    assert "travelled" in client.get_job_logs(job.id)


def test_a_checkpoint_that_the_spec_names_is_found_in_the_folder_of_submit(client: Client) -> None:
    spec = JobSpec(
        command="tr -d '\\42{},' < {config_path} | grep -o '[^ ]*data/a' | xargs cat",
        specs={"train": {"resume_training_checkpoint_path": "data/a"}},
        config_format="json",
        gpu_count=0,
        files=FILES,
    )
    job = client.submit(spec, "local").job
    assert client.wait(job.id).status == "Complete", client.get_job_logs(job.id)
    assert "here it is" in client.get_job_logs(job.id)
    missing = replace(spec, specs={"train": {"resume_training_checkpoint_path": "data/b"}})
    with pytest.raises(Refused, match="data/b"):
        client.submit(missing, "local")


def test_an_undeclared_path_that_the_job_would_not_find_is_a_warning(client: Client) -> None:
    spec = JobSpec(command="x {config_path}", specs={"set": "data/a"}, gpu_count=0, files=FILES)
    found = {each.code: each.what for each in client.plan(spec, "local").findings}
    assert "set is data/a" in found["input.relative"]
    unmoved = replace(spec, files={})
    assert "input.relative" not in {each.code for each in client.plan(unmoved, "local").findings}


@pytest.mark.parametrize("more", [{}, {"args": {"x": ""}}])
def test_a_job_named_as_an_input_is_told_with_where_its_results_are(
    client: Client, more: dict[str, Any]
) -> None:
    earlier = client.submit(JobSpec(command="true", gpu_count=0), "local").job
    more = {name: {"x": earlier.id} for name in more}
    inputs = {"x": "file" if more else earlier.id}
    spec = JobSpec(command="true", gpu_count=0, inputs=inputs, **more)
    with pytest.raises(Refused, match=f"The input x is the job {earlier.id}") as told:
        client.submit(spec, "local")
    assert told.value.code == "input.job"
    assert earlier.results_dir in told.value.why
    assert told.value.command == f"tao results {earlier.id}"
    in_job = JobSpec(command="true", gpu_count=0, inputs={"x": f"/no/folder/of/this/{earlier.id}"})
    assert "input.job" not in [each.code for each in client.plan(in_job, "local").findings]


def test_a_path_of_a_shared_file_system_that_is_not_there_is_a_warning(client: Client) -> None:
    specs = {"data": f"lustre://{Path.cwd()}/data", "model": "lustre:///no/such/model"}
    spec = JobSpec(command="true {config_path}", gpu_count=0, specs=specs)
    found = [each.what for each in client.plan(spec, "local").findings]
    assert found == ["model is /no/such/model, which is not there."]
