"""A home, a store and a folder of its own for each test; and one with ended jobs for those that only look."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tao_command import TRAINING, Ended, Tao


@pytest.fixture
def tao(tmp_path: Path) -> Iterator[Tao]:
    command = Tao(tmp_path)
    yield command
    if not (tmp_path / "state").exists():
        return
    live = json.loads(command("ls", "--json").out or "[]")
    for job in live:
        if job["status"] in ("Pending", "Running"):
            command("cancel", job["id"], "--grace", "0.1s")


@pytest.fixture(scope="session")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    tao = Tao(tmp_path_factory.mktemp("ended"))
    keep = 'mkdir "$TAO_RESULTS_DIR/train"; for i in 1 2 3; do echo $i > "$TAO_RESULTS_DIR/train/model_epoch_00$i.pth"; done'
    complete = tao.run_detached(f"{keep}; {TRAINING}", "--name", "good", "--label", "team=vision")
    failed = tao.run_detached("echo before; echo 'CUDA out of memory' >&2; exit 3", "--name", "bad")
    canceled = tao.run_detached("sleep 60", "--name", "stopped")
    assert tao("wait", complete).code == 0
    assert tao("wait", failed).code == 1
    assert tao("cancel", canceled, "--grace", "1s").code == 0
    return Ended(tao, complete, failed, canceled)
