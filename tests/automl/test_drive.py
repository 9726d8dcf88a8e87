"""Searches by real local jobs: killed anywhere, driven twice, stopped, at a limit, without hope."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.language_model import LanguageModel, chat
from tao_automl import artifacts
from tao_automl import drive as drive_module
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
    secrets_of,
)
from tao_automl.report.summary import end_line
from tao_automl.report.view import view_of
from tao_automl.settings import read_settings
from tao_automl.space.search_block import read_parameters
from tao_automl.store import SearchNotFound, SearchStore
from tao_automl.stored import StoredSearch
from tao_automl.views import best_spec, status_json
from tao_sdk import Client, JobSpec
from tao_sdk.model.errors import CredentialError, Unreachable
from tao_sdk.model.job import Job
from tao_sdk.model.log_reading import LogReading
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
    spec = JobSpec(command=command, gpu_count=given.pop("gpu_count", 0), name="try")
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


def test_a_platform_that_cannot_be_reached_holds_the_search_up_and_fails_no_trial(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again now and then, not all the time, and what runs there is followed."""
    monkeypatch.setattr(drive_module, "RETRY_SECONDS", 0.5)
    submit, asked, told = client.submit, list[float](), list[str]()

    def unreachable_at_first(spec: JobSpec, *given: Any, **named: Any) -> Any:
        if spec.labels["tao-trial"] == "2" and len(asked) < 3:
            asked.append(time.monotonic())
            raise Unreachable("no route to the platform")
        return submit(spec, *given, **named)

    monkeypatch.setattr(client, "submit", unreachable_at_first)
    command = "echo epoch 1/1 accuracy {lr}; sleep 1"
    stored = begun(client, command, max_concurrent=2)
    over = drive(client, stored.id, Callbacks(on_wait=told.append))
    assert [trial.status.value for trial in over.search.trials] == ["complete"] * 3
    assert told == ["no route to the platform"]
    pauses = [after - before for before, after in itertools.pairwise(asked)]
    assert min(pauses) >= 0.5


def test_a_log_that_cannot_be_read_just_now_is_no_missing_metric(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told once, and holds up no other trial."""
    monkeypatch.setattr(drive_module, "RETRY_SECONDS", 0.1)
    unread, told = list[str](), list[str]()
    refresh = client.refresh_progress

    def unread_at_first(job: Job) -> Job:
        if unread.count(job.id) < 2:
            unread.append(job.id)
            return replace(job, reading=LogReading(attempt=job.attempt, whole=False))
        return refresh(job)

    monkeypatch.setattr(client, "refresh_progress", unread_at_first)
    stored = begun(client, "echo epoch 1/1 accuracy {lr}", max_trials=2)
    over = drive(client, stored.id, Callbacks(on_wait=told.append))
    assert [trial.status.value for trial in over.search.trials] == ["complete"] * 2
    assert len(unread) == 4
    assert sorted(told) == [
        f"{job_id} has ended, and its log cannot be read to its end"
        for job_id in sorted(set(unread))
    ]


def test_a_secret_of_the_template_is_kept_by_name_and_is_never_empty(client: Client) -> None:
    """Who carries the search on has it in the environment; without it nothing has failed. What the
    job itself says wins over the environment.
    """
    command = 'test "${#WORD_TOKEN}" = 10 && echo epoch 1/1 accuracy {lr}'
    spec = JobSpec(command=command, gpu_count=0, name="try", env_vars={"WORD_TOKEN": "opensesame"})
    settings = read_settings({"metric": "accuracy", "algorithm": "random", "max_trials": 2})
    request = SearchRequest(spec, "local", settings, read_parameters(RATE))
    stored = create(client, request)
    kept = b"".join(
        path.read_bytes() for path in client.store.path.parent.glob("*.db*") if path.is_file()
    )
    assert b"WORD_TOKEN" in kept
    assert b"opensesame" not in kept
    with pytest.raises(CredentialError, match="WORD_TOKEN"):
        drive(client, stored.id)
    waiting = SearchStore(client.store).get(stored.id)
    assert waiting.status == "Running"
    assert jobs_of(client, stored.id) == []
    environ = {**client.settings.environ, "WORD_TOKEN": "another one"}
    with Client(client.store.path, settings=Settings(environ)) as other:
        over = drive(other, stored.id, secrets_given=secrets_of(spec))
    assert [trial.status.value for trial in over.search.trials] == ["complete"] * 2


def test_at_a_limit_of_time_what_runs_is_ended_and_at_one_of_gpu_hours_it_ends_by_itself(
    client: Client,
) -> None:
    slow = "echo epoch 1/1 accuracy {lr}; exec sleep 600"
    over = drive(client, begun(client, slow, max_concurrent=2, max_wall_time="1s").id)
    assert (over.status, len(over.search.trials)) == ("Complete", 2)
    assert "its time limit of 1 s is reached" in over.message
    assert {trial.status.value for trial in over.search.trials} == {"stopped"}
    assert {job.status.value for job in jobs_of(client, over.id)} == {"Canceled"}

    quick = "sleep 0.5; echo epoch 1/1 accuracy {lr}"
    counted = begun(client, quick, max_concurrent=2, max_gpu_hours=1e-9, gpu_count=1)
    over = drive(client, counted.id)
    assert {trial.status.value for trial in over.search.trials} == {"complete"}
    assert len(over.search.trials) == 2, over.message
    budget = status_json(client, over)["budget"]
    assert budget["used_up"]
    assert budget["gpu_seconds"] > 0
    assert budget["next_10_trials"]["gpu_seconds"] == pytest.approx(5 * budget["gpu_seconds"])


# Trains nine epochs; what is poor stays poor, and waits after the third until it is ended.
CURVE = """
import sys, time
last, rate = int(sys.argv[2]), float(sys.argv[1])
for epoch in range(1, last + 1):
    print(f"epoch {epoch}/{last} accuracy {rate if rate < 0.5 else 0.5 + epoch / 100:.4f}", flush=True)
    if rate < 0.5 and epoch == 4:
        time.sleep(600)
"""


@pytest.mark.parametrize("algorithm", ["random", "hyperband_es"])
def test_a_trial_without_hope_is_ended_early_and_the_search_goes_on(
    client: Client, algorithm: str
) -> None:
    spec = JobSpec(
        command=f"{sys.executable} curve.py {{lr}} {{epochs}}",
        args={"lr": 0.65, "epochs": 9},
        files={"curve.py": CURVE.encode()},
        gpu_count=0,
        name="early",
    )
    given = {
        "metric": "accuracy", "algorithm": algorithm, "seed": 1, "max_trials": 8,
        "start": [{"lr": rate} for rate in (0.9, 0.8, 0.7, 0.85, 0.75, 0.1, 0.6)],
        "max_concurrent": 2, "stop_poor": True, "max_epochs": 9, "min_epochs": 9,
    }  # fmt: skip
    space = read_parameters({"lr": {"min": 0.1, "max": 0.9}})
    request = SearchRequest(spec, "local", read_settings(given), space)
    over = drive(client, create(client, request).id)
    stopped = [trial for trial in over.search.trials if trial.status.value == "stopped"]
    assert over.status == "Complete"
    assert [trial.params["lr"] for trial in stopped] == [0.1]
    assert "at epoch 4" in stopped[0].reason


def test_a_language_model_proposes_each_trial_and_chance_never_does(
    client: Client, language_model: LanguageModel
) -> None:
    """It is busy once and wrong twice; then it is wrong three times, which ends the search."""
    wrong = (200, {}, chat('{"params": {"{lr}": 7}}'))
    language_model.script = [
        (429, {"Retry-After": "0"}, b"busy"),
        (200, {}, chat('{"params": {"{lr}": 0.5}}')),
        wrong,
        (200, {}, chat("as I said, 0.6")),
        (200, {}, chat('Here it is: {"params": {"{lr}": 0.6}}')),
        wrong, wrong, wrong,
    ]  # fmt: skip
    settings = {"algorithm": "llm", "llm_endpoint": language_model.address, "max_concurrent": 1}
    stored = begun(client, "echo epoch 1/1 accuracy {lr}", max_trials=5, **settings)
    over = drive(client, stored.id, llm_key="nvapi-very-secret-key")
    assert (over.status, len(over.search.trials)) == ("Error", 2)
    assert "the language model gave no usable answer 3 times" in over.message
    assert [(trial.params["{lr}"], trial.proposed_by) for trial in over.search.trials] == [
        (0.5, "llm"), (0.6, "llm"),
    ]  # fmt: skip
    assert language_model.script == []
    kept = [path.read_bytes() for path in client.store.path.parent.glob("*.db*") if path.is_file()]
    assert b"nvapi-very-secret-key" not in b"".join(kept)


def test_a_search_starts_from_what_an_earlier_one_found(client: Client) -> None:
    earlier = drive(client, begun(client, "echo epoch 1/1 accuracy {lr}").id)
    later = begun(
        client, "echo epoch 1/1 accuracy {lr}", algorithm="bayesian", warm_start_from=earlier.id
    )
    assert [prior.params for prior in later.search.prior] == [
        trial.params for trial in earlier.search.trials
    ]
    over = drive(client, later.id)
    assert (over.status, len(over.search.trials)) == ("Complete", 3)
    tried = {trial.params["{lr}"] for trial in earlier.search.trials}
    assert not tried & {trial.params["{lr}"] for trial in over.search.trials}
    with pytest.raises(SearchNotFound):
        begun(client, "echo {lr}", warm_start_from="nothing")


def test_a_metric_that_the_log_does_not_have_is_read_from_the_files_of_the_results(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the end of a long status.json, and of metrics.json what stands outermost."""
    monkeypatch.setattr(artifacts, "LARGEST", 64)
    command = """echo epoch 1/1 loss 0.5 rate {lr}; cd "$TAO_RESULTS_DIR"; mkdir train best
    echo '{"epoch": 1, "kpi": {"val_acc": 0.25}}' > train/status.json
    echo '{"epoch": 2, "kpi": {"val_acc": 0.375}}' >> train/status.json
    echo '{"f1": 0.5, "train": {"f1": 0.9}, "test": {"f1": 0.7}}' > metrics.json
    echo '{"best_auc": 0.75, "note": "x"}' > best/best_score.json
    """
    goals = [
        {"metric": "val_acc"}, {"metric": "f1"}, {"metric": "best_auc"},
        {"metric": "loss", "at_most": 1},
    ]  # fmt: skip
    spec = JobSpec(command=command, gpu_count=0, name="files", keep_results=True)
    settings = read_settings({"objectives": goals, "algorithm": "random", "max_trials": 1})
    request = SearchRequest(spec, "local", settings, read_parameters(RATE))
    over = drive(client, create(client, request).id)
    assert over.status == "Complete", over.message
    assert dict(over.search.trial(1).results[0].values) == {
        "val_acc": 0.375, "f1": 0.5, "best_auc": 0.75, "loss": 0.5,
    }  # fmt: skip


def test_only_the_best_trials_checkpoints_are_left_where_the_search_deletes_the_others(
    client: Client, tmp_path: Path
) -> None:
    """In the end: until then promotions go on from them."""
    stored = trained(client, tmp_path / "book", max_trials=3, automl_delete_intermediate_ckpt=True)
    over = drive(client, stored.id)
    promoted = [trial for trial in over.search.trials if trial.rung == 1]
    assert (over.status, len(promoted)) == ("Complete", 1)
    best = jobs_of(client, over.id)[-1]
    left = [
        (job.id, Path(one.path).name)
        for job in jobs_of(client, over.id)
        for one in client.results(job.id).checkpoints
    ]
    assert left == [(best.id, "model_epoch_003.pth")]
    assert status_json(client, over)["best"]["checkpoint"].endswith("model_epoch_003.pth")


def test_what_the_check_of_a_job_finds_is_told_and_a_driver_that_dies_has_kept_the_time(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive_module, "KEPT_SECONDS", 0.0)
    search = begun(client, "echo {lr} '{config_path}'; sleep 600", max_trials=1)
    found: list[str] = []

    def die(_stored: StoredSearch, _jobs: Sequence[Job]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(client, search.id, Callbacks(die, on_finding=lambda each: found.append(each.what)))
    assert "{config_path}" in found[0]
    assert SearchStore(client.store).get(search.id).seconds > 0
    over = ask_stop(client, search.id, "end")
    assert "1 not finished" in end_line(view_of(over.search, over.id))
