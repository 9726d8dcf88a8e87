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
