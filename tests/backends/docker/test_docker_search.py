"""A search whose trials are containers: rungs go on from their checkpoints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.dockerd.dockerd_here import PYTHON
from support.search_trainer import TRAINER
from tao_automl.drive import SearchRequest, create, jobs_of
from tao_automl.settings import read_settings
from tao_automl.space.search_block import read_parameters
from tao_automl.store import SearchStore
from tao_sdk import Client, JobSpec

MOST_TRIALS = int(os.environ.get("TAO_SOAK_TRIALS", "3"))  # `make soak` tries twelve


def test_a_search_in_rungs_that_is_killed_at_each_commit_trains_no_epoch_twice(
    client: Client,
) -> None:
    train = {"num_epochs": 3, "lr": 0.05, "resume_training_checkpoint_path": ""}
    spec = JobSpec(
        image=PYTHON,
        command="python3 train.py {config_path}",
        config_format="json",
        specs={"results_dir": "", "train": train},
        outputs={"results_dir": {"type": "folder"}},
        files={"train.py": TRAINER.encode()},
        gpu_count=0,
        name="rungs",
        keep_results=True,
    )
    settings = read_settings(
        {"metric": "accuracy", "algorithm": "asha", "seed": 3, "max_trials": MOST_TRIALS,
         "max_epochs": 3, "max_concurrent": 3}
    )  # fmt: skip
    space = read_parameters({"train.lr": {"min": 0.01, "max": 0.1, "log": False}})
    stored = create(client, SearchRequest(spec, "docker", settings, space))
    done = subprocess.run(
        [sys.executable, "-m", "support.search_crash", str(client.store.path), stored.id],
        env={**client.settings.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        check=True,
    )
    over = SearchStore(client.store).get(stored.id)
    assert over.status == "Complete", json.dumps(over.search.to_json())
    jobs = jobs_of(client, over.id)
    assert int(done.stdout) >= 2 * len(jobs)  # at least the row, and the ref
    promoted = sum(trial.rung for trial in over.search.trials)
    assert promoted >= MOST_TRIALS // 3
    assert len(jobs) == over.search.jobs == MOST_TRIALS + promoted
    epochs = [entry.epoch for job in jobs for entry in job.progress.history]
    assert sorted(epochs) == sorted([1] * MOST_TRIALS + [2, 3] * promoted)
