"""What a person does with a training job, by the real command on the real example."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
JOB = ROOT / "examples" / "digits" / "job.yaml"
TAO = [sys.executable, "-m", "tao_sdk.cli.main"]


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    python = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
        "PATH": f"{python}:{os.environ['PATH']}",
    }


def tao(surroundings: dict[str, str], cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TAO, *words], env=surroundings, cwd=cwd, capture_output=True, text=True, timeout=300
    )


def started(
    surroundings: dict[str, str], cwd: Path, *more: str
) -> tuple[subprocess.Popen[str], str]:
    """`tao run` in the foreground, and the id of its job, once the first epoch was seen."""
    running = subprocess.Popen(
        [*TAO, "run", str(JOB), *more],
        env=surroundings,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert running.stdout is not None
    text = ""
    for line in running.stdout:
        text += line
        if line.startswith("epoch 2/"):
            break
    found = re.search(r"digits-[a-z0-9]{10}", text)
    assert found, text
    return running, found[0]


def processes(job_id: str) -> list[int]:
    """The job's own, by their environment, and its supervisor, by the lock that it holds."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and is_of_job(pid, job_id)]


def is_of_job(pid: int, job_id: str) -> bool:
    process = Path(f"/proc/{pid}")
    try:
        environ = (process / "environ").read_bytes().split(b"\0")
        opened = [str(fd.readlink()) for fd in (process / "fd").iterdir()]
    except OSError:
        return False
    holds_lock = any(path.endswith(f"/{job_id}.1/lock") for path in opened)
    return holds_lock or f"TAO_JOB_ID={job_id}".encode() in environ


def test_killing_the_client_in_mid_training_loses_nothing(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    running, job_id = started(surroundings, tmp_path)
    running.kill()
    running.wait()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    log = tao(surroundings, elsewhere, "logs", "-f", job_id)
    assert [int(e) for e in re.findall(r"^epoch (\d+)/20", log.stdout, re.MULTILINE)] == list(
        range(1, 21)
    )
    assert tao(surroundings, elsewhere, "wait", job_id).returncode == 0
    job = json.loads(tao(surroundings, elsewhere, "status", job_id, "--json").stdout)
    assert (job["status"], job["exit_code"], job["attempt"]) == ("Complete", 0, 1)
    assert Path(job["results_dir"]).parent == tmp_path / "runs"


def until_a_checkpoint_is_kept(surroundings: dict[str, str], folder: Path, job_id: str) -> None:
    until(
        lambda: json.loads(tao(surroundings, folder, "results", job_id, "--json").stdout)["newest"]
    )


def test_ctrl_c_detaches_and_says_how_to_come_back(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    patient = {**surroundings, "TAO_SYNC_SECONDS": "0.2"}
    running, job_id = started(patient, tmp_path, "--set", "train.num_epochs=2000")
    until_a_checkpoint_is_kept(surroundings, tmp_path, job_id)
    running.send_signal(signal.SIGINT)
    rest, _ = running.communicate(timeout=300)
    assert running.returncode == 130, rest
    assert f"tao attach {job_id}" in rest
    assert tao(surroundings, tmp_path, "cancel", job_id).returncode == 0
    assert tao(surroundings, tmp_path, "wait", job_id).returncode == 6
    results = json.loads(tao(surroundings, tmp_path, "results", job_id, "--json").stdout)
    assert results["newest"], "what was trained until then is in hand"


def test_an_attempt_that_was_killed_is_followed_by_one_that_resumes(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    running, job_id = started(
        {**surroundings, "TAO_SYNC_SECONDS": "0.5"}, tmp_path, "--retries", "1"
    )
    until_a_checkpoint_is_kept(surroundings, tmp_path, job_id)
    for pid in processes(job_id):
        os.kill(pid, signal.SIGKILL)
    rest, _ = running.communicate(timeout=300)
    assert running.returncode == 0, rest
    log = tao(surroundings, tmp_path, "logs", job_id).stdout
    epochs = [int(epoch) for epoch in re.findall(r"^epoch (\d+)/20", log, re.MULTILINE)]
    job = json.loads(tao(surroundings, tmp_path, "status", job_id, "--json").stdout)
    assert job["attempt"] == 2
    assert epochs.count(1) == 1, "the second attempt began anew"
    assert set(epochs) == set(range(1, 21))


def test_two_clients_and_a_watcher_see_the_same_end(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    running, job_id = started(surroundings, tmp_path)
    watching = subprocess.Popen(
        [*TAO, "watch"], env=surroundings, cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    assert tao(surroundings, tmp_path, "wait", job_id).returncode == 0
    assert watching.wait(timeout=300) == 0
    running.communicate(timeout=300)
    assert running.returncode == 0
    events = json.loads(tao(surroundings, tmp_path, "events", job_id, "--json").stdout)
    assert [event["status"] for event in events if event["kind"] == "status"][-1] == "Complete"
    assert sum(event["status"] == "Complete" for event in events) == 1
