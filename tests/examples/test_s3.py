"""The example with a bucket runs by one command, and leaves what its page says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.servers import go_programs

pytest.importorskip("numpy")
pytestmark = [pytest.mark.network, pytest.mark.slow]

RUN = Path(__file__).parents[2] / "examples" / "s3" / "run.py"


def test_data_and_results_of_digits_lie_in_a_bucket_by_one_command(tmp_path: Path) -> None:
    go_programs.program("versitygw")
    known = {
        name: value
        for name, value in os.environ.items()
        if "KEY" not in name and not name.startswith("AWS_")
    }
    environ = {**known, "TAO_SDK_STATE_DIR": str(tmp_path / "state"), "PYTHONUTF8": "1"}
    ran = subprocess.run(
        [sys.executable, str(RUN)],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "inputs 45.4 kB" in ran.stdout
    assert "✓ Complete" in ran.stdout
    fetched = tmp_path / "runs" / "from-the-bucket"
    manifest = json.loads((fetched / ".tao" / "manifest.json").read_text())
    assert manifest["whole"] is True
    assert f"results  s3://tao-example/results/{manifest['job']}" in ran.stdout
    assert (fetched / "results_dir" / "train" / "model_epoch_020.npz").stat().st_size > 0
    assert (fetched / "curve.svg").exists()
