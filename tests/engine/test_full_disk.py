"""A job that fills a disk, on a machine whose disks can be seen: the cause names the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_sdk.client import Client
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec

pytestmark = pytest.mark.slow
FILLS = """
import os
with open(os.environ["SCRATCH"] + "/data", "wb", buffering=0) as file:
    while True:
        os.write(file.fileno(), bytes(4096))
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid():
        pytest.skip("a full disk needs root: a small tmpfs is mounted")
    folder = tmp_path / "scratch"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("files", [{}, {"fill.py": FILLS}], ids=["plain", "packed"])
def test_a_disk_that_the_program_does_not_name_is_named(
    tmp_path: Path, small_disk: Path, files: dict[str, str]
) -> None:
    (tmp_path / "fill.py").write_text(FILLS)
    settings = Settings({"HOME": str(tmp_path), "TAO_SDK_STATE_DIR": str(tmp_path / "state")})
    script = "fill.py" if files else str(tmp_path / "fill.py")
    spec = JobSpec(
        command=f"{sys.executable} {script}",
        gpu_count=0,
        files=files,
        env_vars={"SCRATCH": str(small_disk), "TAO_RESULTS_ROOT": str(tmp_path / "runs")},
    )
    with Client(settings=settings) as client:
        job = client.submit(spec, "local").job
        client.wait(job.id, timeout=300)
        found = client.diagnose(job.id)
    assert found is not None
    assert found.rule == "disk_full"
    assert found.what.endswith(f"(full: {small_disk})")
