"""A home, a store and a folder of its own for each test; and one with ended jobs for those that
only look.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import marks
from support.tao_command import TRAINING, Ended, Ran, Tao
from tao_sdk.cli.main import run


def pytest_itemcollected(item: pytest.Item) -> None:
    marks.mark_by_fixtures(item, "slow", {"tao", "ended"})


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


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    """The command's entry in this process: quicker, for what starts no job."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TAO_SDK_STATE_DIR", str(tmp_path / "state"))
    logger = logging.getLogger("tao_sdk")
    monkeypatch.setattr(logger, "handlers", list(logger.handlers))
    monkeypatch.setattr(logger, "propagate", True)

    def tao(*args: str) -> Ran:
        code = run(list(args))
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return tao


@pytest.fixture(scope="session")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    tao = Tao(tmp_path_factory.mktemp("ended"))
    keep = (
        'mkdir "$TAO_RESULTS_DIR/train"; for i in 1 2 3; do echo $i > '
        '"$TAO_RESULTS_DIR/train/model_epoch_00$i.pth"; done'
    )
    complete = tao.run_detached(f"{keep}; {TRAINING}", "--name", "good", "--label", "team=vision")
    failed = tao.run_detached("echo before; echo 'CUDA out of memory' >&2; exit 3", "--name", "bad")
    canceled = tao.run_detached("sleep 60", "--name", "stopped")
    assert tao("wait", complete).code == 0
    assert tao("wait", failed).code == 1
    assert tao("cancel", canceled, "--grace", "1s").code == 0
    return Ended(tao, complete, failed, canceled)
