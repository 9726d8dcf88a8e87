"""Searches by real local jobs: killed anywhere, driven twice, stopped, at a limit, without hope."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tao_automl.drive import (
    Callbacks,
    SearchBusy,
    SearchRequest,
    ask_stop,
    create,
    drive,
    is_driven,
    jobs_of,
    reopen,
)
from tao_automl.settings import read_settings
from tao_automl.space.search_block import read_parameters
from tao_automl.store import SearchStore
from tao_automl.stored import StoredSearch
from tao_automl.views import best_spec, status_json
from tao_sdk import Client, JobSpec
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings

pytestmark = pytest.mark.slow

# Trains the epochs that are missing, and writes down each of them.
TRAINER = """
import json, os, sys
spec = json.load(open(sys.argv[1]))
done = json.load(open(spec["train"]["resume_training_checkpoint_path"] or os.devnull)) \\
    if spec["train"]["resume_training_checkpoint_path"] else 0
folder = os.path.join(spec["results_dir"], "train")
os.makedirs(folder, exist_ok=True)
last = spec["train"]["num_epochs"]
for epoch in range(done + 1, last + 1):
    print(f"epoch {epoch}/{last} accuracy {spec['train']['lr'] * epoch:.6f}", flush=True)
    with open(os.environ["BOOK"], "a") as book:
        book.write(f"{os.environ['TAO_JOB_ID'].rpartition('-')[0]} {epoch}\\n")
    with open(os.path.join(folder, f"model_epoch_{epoch:03}.pth"), "w") as file:
        json.dump(epoch, file)
"""
RATES = {"train.lr": {"min": 0.01, "max": 0.1, "log": False}}
RATE = {"{lr}": {"min": 0.1, "max": 0.9}}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.chdir(tmp_path)
    environ = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
    }
    with Client(settings=Settings(environ)) as client:
        yield client


def begun(client: Client, command: str, **settings: Any) -> StoredSearch:
    """A search over one placeholder of a command, at random."""
    given = {"metric": "accuracy", "algorithm": "random", "seed": 1, "max_trials": 3, **settings}
    spec = JobSpec(command=command, gpu_count=0, name="try")
    space = read_parameters(RATE)
    return create(client, SearchRequest(spec, "local", read_settings(given), space))


def trained(client: Client, book: Path, **settings: Any) -> StoredSearch:
    """A search in rungs of the trainer, which keeps its book there."""
    specs = {
        "results_dir": "",
        "train": {"num_epochs": 3, "lr": 0.05, "resume_training_checkpoint_path": ""},
    }
    spec = JobSpec(
        command=f"{sys.executable} train.py {{config_path}}",
        mode="config",
        config_format="json",
        specs=specs,
        outputs={"results_dir": {"type": "folder"}},
        files={"train.py": TRAINER.encode()},
        env_vars={"BOOK": str(book)},
        gpu_count=0,
        name="rungs",
        keep_results=True,
    )
    given = {
        "metric": "accuracy", "algorithm": "asha", "seed": 3, "max_trials": 4, "max_epochs": 3,
        "max_concurrent": 1, **settings,
    }  # fmt: skip
    request = SearchRequest(spec, "local", read_settings(given), read_parameters(RATES))
    return create(client, request)


def proposals(stored: StoredSearch) -> list[Any]:
    return [(trial.number, dict(trial.params), trial.rung) for trial in stored.search.trials]


def values(stored: StoredSearch) -> list[Any]:
    return [[dict(one.values) for one in trial.results] for trial in stored.search.trials]


def test_a_search_that_is_killed_after_each_commit_loses_no_trial_and_runs_none_twice(
    client: Client, tmp_path: Path
) -> None:
    whole = drive(client, trained(client, tmp_path / "whole", max_trials=3).id)
    crashed = trained(client, tmp_path / "crashed", max_trials=3)
    done = subprocess.run(
        [sys.executable, "-m", "support.search_crash", str(client.store.path), crashed.id],
        env={**client.settings.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        stdout=subprocess.PIPE,
        check=True,
    )
    deaths = int(done.stdout)
    found = SearchStore(client.store).get(crashed.id)
    assert deaths >= len(jobs_of(client, crashed.id)) * 2  # at least the row, and the ref
    assert found.status == whole.status == "Complete"
    assert proposals(found) == proposals(whole)
    assert values(found) == values(whole)
    labels = [
        (job.labels["tao-trial"], job.labels["tao-rung"], job.attempt)
        for job in jobs_of(client, crashed.id)
    ]
    assert len(set(labels)) == len(labels) == found.search.jobs
    for name in ("whole", "crashed"):  # no epoch of a trial is trained twice
        lines = (tmp_path / name).read_text().splitlines()
        assert len(set(lines)) == len(lines)
    assert sorted((tmp_path / "whole").read_text()) == sorted((tmp_path / "crashed").read_text())


def test_a_promotion_goes_on_from_the_checkpoint_of_its_rung(
    client: Client, tmp_path: Path
) -> None:
    """And one whose checkpoint is gone leaves the trial what it was: the next one goes on."""
    stored = trained(client, tmp_path / "book")
    removed: list[str] = []

    def remove_the_best(_: StoredSearch, jobs: Sequence[Job]) -> None:
        """Once the third has ended, before the search hears of it."""
        ended = [job for job in jobs if job.status.terminal and job.labels["tao-trial"] == "3"]
        if not ended or removed:
            return
        best = max(jobs_of(client, stored.id), key=lambda job: job.spec["specs"]["train"]["lr"])
        Path(client.results(best.id).of_epoch(1).path).unlink()
        removed.append(best.labels["tao-trial"])

    over = drive(client, stored.id, Callbacks(remove_the_best))
    assert removed
    held = over.search.trial(int(removed[0]))
    assert held.held
    assert "no checkpoint of epoch 1" in held.note
    promoted = [trial for trial in over.search.trials if trial.rung == 1]
    assert [trial.results[-1].epochs for trial in promoted] == [3]
    best = status_json(client, over)["best"]
    assert best["trial"] == promoted[0].number
    assert best["checkpoint"].endswith("model_epoch_003.pth")
    spec = best_spec(over)
    assert spec is not None
    assert spec["train"]["lr"] == promoted[0].params["train.lr"]
    epochs = [int(line.split()[1]) for line in (tmp_path / "book").read_text().splitlines()]
    assert sorted(epochs) == [1, 1, 1, 1, 2, 3]


def test_a_second_driver_is_refused_and_a_stop_ends_what_runs_until_it_is_carried_on(
    client: Client, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    command = f"echo epoch 1/1 accuracy {{lr}}; test -e {go} || exec sleep 600"
    stored = begun(client, command, max_concurrent=2)
    refusals: list[str] = []

    def interfere(now: StoredSearch, jobs: Any) -> None:
        if len(jobs) < 2 or refusals:
            return
        with Client(client.store.path, settings=client.settings) as other:
            assert is_driven(other, now.id)
            with pytest.raises(SearchBusy) as caught:
                drive(other, now.id)
            refusals.append(str(caught.value))
            SearchStore(other.store).ask_stop(now.id, "it is enough")

    stopped = drive(client, stored.id, Callbacks(interfere))
    assert refusals
    assert (stopped.status, stopped.message) == ("Stopped", "it is enough")
    assert {job.status.value for job in jobs_of(client, stored.id)} == {"Canceled"}
    assert ask_stop(client, stored.id, "again").message == "it is enough"
    go.touch()
    reopen(client, stored.id)
    over = drive(client, stored.id)
    assert over.status == "Complete"
    jobs = jobs_of(client, stored.id)
    assert [(job.labels["tao-trial"], job.attempt) for job in jobs] == [
        ("1", 2), ("2", 2), ("3", 1),
    ]  # fmt: skip
    assert {job.status.value for job in jobs} == {"Complete"}


@pytest.mark.parametrize(
    ("command", "settings", "status", "words", "trials"),
    [
        ("echo epoch 1/1 loss 0.5 # {lr}", {"metric": "val_loss"}, "Error",
         "val_loss was never reported; reported were: loss", 3),
        ("echo accuracy {lr}; python3 -c 'import no_such_module'", {"max_trials": 9}, "Error",
         "failed alike", 3),
        ("echo epoch 1/1 accuracy {lr}", {"max_jobs": 2}, "Complete", "limit of 2 jobs", 2),
    ],
)  # fmt: skip
def test_a_search_ends_where_nothing_will_get_better_and_at_its_limits(
    client: Client, command: str, settings: Any, status: str, words: str, trials: int
) -> None:
    over = drive(client, begun(client, command, max_concurrent=1, **settings).id)
    assert (over.status, len(over.search.trials)) == (status, trials)
    assert words in over.message
    with_more = read_settings({"metric": "accuracy", "max_trials": 3, "max_concurrent": 1})
    if status == "Complete":
        reopen(client, over.id, with_more)
        assert len(drive(client, over.id).search.trials) == 3


def test_a_trial_whose_job_is_refused_has_failed_and_says_why(client: Client) -> None:
    """By the platform, before anything of it ran."""
    spec = JobSpec(command="echo {lr}", gpu_count=0, name="try")
    settings = read_settings({"metric": "accuracy", "max_trials": 9, "max_concurrent": 1})
    wrong = SearchRequest(spec, "local", settings, read_parameters(RATE), {"no_option": 1})
    over = drive(client, create(client, wrong).id)
    assert over.status == "Error"
    assert "was refused" in over.message
    assert not jobs_of(client, over.id)
