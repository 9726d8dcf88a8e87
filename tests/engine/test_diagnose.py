"""What is gathered before a rule is looked for."""

from __future__ import annotations

import ast
import sqlite3
import sys
from pathlib import Path

import pytest

import tao_sdk.engine
from tao_sdk.client import Client
from tao_sdk.engine.diagnose import explain
from tao_sdk.model.spec import JobSpec


@pytest.mark.slow
@pytest.mark.parametrize("earlier_version", [False, True])
def test_a_file_that_is_not_there_is_told_with_the_folder_that_the_job_ran_in(
    client: Client, tmp_path: Path, earlier_version: bool
) -> None:
    command = f"{sys.executable} -c 'open(\"a.csv\")'"
    job = client.submit(JobSpec(command=command, gpu_count=0), "local").job
    client.wait(job.id, timeout=300)
    if earlier_version:
        forget_start_folder(tmp_path / "state" / "jobs.db")
    assert f"(the job ran in {tmp_path})" in explain(client.engine, client.get_job(job.id)).what


def forget_start_folder(database: Path) -> None:
    """Make the plans as the versions before `start_folder` wrote them."""
    with sqlite3.connect(database) as store:
        store.execute("""UPDATE attempts SET plan = replace(plan, '"start_folder"', '"none"')""")
    store.close()


def test_the_engine_reads_no_request_of_a_backend() -> None:
    for file in Path(tao_sdk.engine.__path__[0]).glob("*.py"):
        words = [
            node.value
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Constant)
        ]
        assert not {"request", "cwd"} & set(map(str, words)), file.name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(:\n    pass", "SyntaxError: invalid syntax (lib/train.py, line 1)"),
        ("raise ValueError('no room')", "lib/train.py:1 in <module>"),
    ],
)
def test_a_file_that_was_sent_is_called_as_it_was_sent(
    client: Client, tmp_path: Path, text: str, told: str
) -> None:
    spec = JobSpec(
        command=f"{sys.executable} lib/train.py", files={"lib/train.py": text}, gpu_count=0
    )
    job = client.submit(spec, "local").job
    client.wait(job.id, timeout=300)
    found = client.diagnose(job.id)
    assert found is not None
    assert told in f"{found.what}\n{found.why}"
    assert "/work/" not in f"{found.what}\n{found.why}"


@pytest.mark.slow
def test_the_inputs_that_came_are_named_beside_the_files(client: Client, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1")
    spec = JobSpec(
        command=f"{sys.executable} train.py",
        files={"train.py": "open('other.csv')"},
        inputs={"data.csv": str(tmp_path / "data.csv")},
        gpu_count=0,
    )
    job = client.submit(spec, "local").job
    client.wait(job.id, timeout=300)
    found = client.diagnose(job.id)
    assert found is not None
    assert "(files there: train.py; inputs there: data.csv)" in found.what
