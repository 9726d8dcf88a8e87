"""AutoML, the documented class: ask and tell, by its names, whatever is reported and whenever it is
killed.
"""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tao_automl import AutoML, Recommendation, SearchFailed
from tao_automl.settings import SettingError
from tao_automl.space.mistake import SpaceError
from tao_sdk.model.errors import UsageError

SPEC = {"train": {"num_epochs": 30, "optim": {"lr": 1e-3}, "layers": 2, "optimizer": "adam"}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "train": {
            "type": "object",
            "properties": {
                "optim": {
                    "type": "object",
                    "properties": {
                        "lr": {
                            "type": "float", "minimum": 1e-6, "maximum": 1e-1, "default": 1e-3,
                            "automl_enabled": True,
                        },
                    },
                },
                "layers": {"type": "int", "minimum": 1, "maximum": 8, "automl_enabled": True},
                "optimizer": {
                    "type": "categorical", "enum": ["adam", "sgd"], "automl_enabled": True,
                },
                "power": {"type": "int", "minimum": 1, "maximum": 64, "math_cond": "^ 2"},
                "momentum": {"type": "float", "minimum": -5, "maximum": -1},
                "secret": {"type": "float", "minimum": 0, "maximum": 1},
            },
        }
    },
    "automl_disabled_parameters": ["train.secret"],
}  # fmt: skip
LR = "train.optim.lr"


def opened(workspace: Path, resume: bool = False, **settings: Any) -> AutoML:
    given = {"algorithm": "random", "metric": "val_loss", "seed": 7, **settings}
    return AutoML(workspace, "dino", SPEC, given, resume=resume, search_schema=SCHEMA)


def loss_of(rec: Mapping[str, Any]) -> float:
    """Best at a learning rate of 0.003 and four layers; better the longer it trains."""
    loss = (math.log10(rec[LR]) + 2.5) ** 2 + abs(rec["train.layers"] - 4) / 10
    return loss + 1 / rec.get("train.num_epochs", 100)


def searched(automl: AutoML, loss: Callable[[Recommendation], Any] = loss_of) -> AutoML:
    """The loop that the documents show."""
    while not automl.is_complete():
        for rec in automl.next_recommendation():
            automl.report_result(rec.id, loss(rec))
    return automl


def tried(automl: AutoML) -> list[dict[str, Any]]:
    return [rec.specs for rec in automl.get_history()]


def test_a_recommendation_is_a_mapping_from_dotted_keys_to_values(tmp_path: Path) -> None:
    automl = opened(tmp_path)
    (rec,) = automl.next_recommendation()
    assert dict(rec) == {LR: 1e-3, "train.layers": 2, "train.optimizer": "adam"}
    assert (rec["train.layers"], rec.get(LR), rec.get("none", 5), len(rec)) == (2, 1e-3, 5, 3)
    assert (rec.id, rec.status, rec.result, rec.objective_values) == (1, "pending", None, {})
    assert (rec.job_id, rec.failure_reason, rec.adjustments) == (None, None, [])
    assert (rec.resume_from_job_id, rec.resume_from_epoch, rec.resume_from_step) == (None,) * 3
    assert automl.next_recommendation() == [], "one at a time, unless more are asked for"
    rec.assign_job_id("job-1")
    automl.report_result(rec.id, None, status="running")
    assert (rec.status, automl.get_progress()["pending"]) == ("running", 1)
    automl.report_result(rec.id, 0.5, best_epoch=12)
    assert (rec.status, rec.result, rec.best_epoch_number) == ("success", 0.5, 12)
    assert rec.objective_values == {"val_loss": 0.5}
    assert automl.get_best() is rec
    assert automl.get_status()["recommendations"][0]["job_id"] == "job-1"


def test_what_is_known_of_a_search_has_the_documented_names(tmp_path: Path) -> None:
    automl = searched(opened(tmp_path, automl_max_recommendations=4))
    history, best = automl.get_history(), automl.get_best()
    assert [rec.id for rec in history] == [1, 2, 3, 4]
    assert best is min(history, key=lambda rec: rec.result or 0)
    progress = automl.get_progress()
    assert {name: progress[name] for name in ("completed", "succeeded", "failed", "pending")} == {
        "completed": 4, "succeeded": 4, "failed": 0, "pending": 0,
    }  # fmt: skip
    assert (progress["total"], progress["algorithm"]) == (4, "random")
    assert (progress["best_metric"], progress["best_rec_id"]) == (best.result, best.id)
    status = automl.get_status()
    assert (status["status"], status["seed"], status["active_rec_ids"]) == ("Complete", 7, [])
    assert status["best"]["specs"] == best.specs
    assert automl.get_pareto_front() == [best]
    assert automl.next_recommendation() == []
    json.dumps(status)
    automl.finish()
    assert automl.get_best() is best


def test_as_many_are_recommended_at_once_as_may_run(tmp_path: Path) -> None:
    for algorithm in ("bayesian", "bfbo", "hyperband", "pbt", "tpe"):
        automl = opened(tmp_path, algorithm=algorithm, automl_max_concurrent=3)
        assert len(automl.next_recommendation()) == 3
        automl.report_result(2, 1.0)
        assert len(automl.next_recommendation()) == (0 if algorithm == "bfbo" else 1)
    assert len(opened(tmp_path, algorithm="asha").next_recommendation()) == 4


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["asha", "hyperband", "bohb", "dehb", "pbt"])
def test_what_trains_further_says_where_from_and_how_long(tmp_path: Path, algorithm: str) -> None:
    """Every rung goes on from the job that trained exactly the one below it."""
    automl = opened(tmp_path, algorithm=algorithm, automl_max_recommendations=12, max_epochs=9)
    trained: dict[str, int] = {}
    while not automl.is_complete():
        for rec in automl.next_recommendation():
            epochs = rec["train.num_epochs"]
            assert rec.early_stop_epoch == epochs
            if rec.resume_from_epoch is not None:
                assert trained[rec.resume_from_job_id or ""] == rec.resume_from_epoch < epochs
            assert rec.job_id is None
            rec.assign_job_id(f"job-{len(trained)}")
            trained[f"job-{len(trained)}"] = epochs
            automl.report_result(rec.id, loss_of(rec))
    assert len(automl.get_history()) <= 12, "the bound is that of every algorithm"
    assert len(trained) > len(automl.get_history()), "some trained further"
    best = automl.get_best()
    assert best is not None
    assert best.early_stop_epoch == 9


def test_a_learning_rate_is_searched_by_factors(tmp_path: Path) -> None:
    automl = searched(opened(tmp_path, algorithm="random", max_trials=60))
    below = sum(rec[LR] < math.sqrt(1e-6 * 1e-1) for rec in automl.get_history()[1:])
    assert 15 <= below <= 44, "of 59, half are expected below the geometric middle"


@pytest.mark.slow
def test_values_stay_within_their_bounds_and_reach_them(tmp_path: Path) -> None:
    ranges = {"train.momentum": {"valid_min": -5, "valid_max": -1}}
    automl = AutoML(
        tmp_path, "dino", SPEC, {"algorithm": "bayesian", "metric": "loss", "seed": 3},
        ["train.momentum", "train.power"], ranges, search_schema=SCHEMA,
    )  # fmt: skip
    searched(automl, lambda rec: rec.get("train.momentum", 0.0) + rec.get("train.power", 0) / 1000)
    values = [rec["train.momentum"] for rec in automl.get_history() if "train.momentum" in rec]
    assert min(values) == -5.0, "an optimum at a bound is found"
    assert all(-5 <= value <= -1 for value in values)
    powers = [rec["train.power"] for rec in automl.get_history() if "train.power" in rec]
    assert all(power in (1, 2, 4, 8, 16, 32, 64) for power in powers)
    assert powers.count(1) > len(powers) / 3, "the model chooses the power"


@pytest.mark.parametrize(
    ("metric", "best"),
    [
        ("val_error", 0.1), ("wer", 0.1), ("latency", 0.1),
        ("answer_accuracy", 0.9), ("power", 0.9), ("soccer", 0.9), ("sentiment_f1", 0.9),
    ],
)  # fmt: skip
def test_the_direction_is_that_of_the_metrics_words(
    tmp_path: Path, metric: str, best: float
) -> None:
    automl = opened(tmp_path, metric=metric, max_trials=3)
    values = iter([0.5, 0.1, 0.9])
    searched(automl, lambda _: next(values))
    assert automl.get_progress()["best_metric"] == best


PROGRAM = """
import json, sys
sys.path.insert(0, "src")
from tao_automl import AutoML
spec, schema, settings = json.loads(sys.argv[2])
automl = AutoML(sys.argv[1], "dino", spec, settings, search_schema=schema)
while not automl.is_complete():
    for rec in automl.next_recommendation():
        automl.report_result(rec.id, rec["train.optim.lr"] + rec["train.layers"])
print(json.dumps([rec.specs for rec in automl.get_history()]))
"""


@pytest.mark.slow
def test_the_same_seed_and_answers_give_the_same_search_in_any_process(tmp_path: Path) -> None:
    settings = {"algorithm": "dehb", "metric": "loss", "seed": 5, "max_epochs": 9}
    answers = [
        subprocess.run(
            [
                sys.executable, "-c", PROGRAM, str(tmp_path / seed),
                json.dumps([SPEC, SCHEMA, settings]),
            ],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "77")
    ]  # fmt: skip
    assert answers[0] == answers[1]
    assert len(json.loads(answers[0])) == 20


def test_a_seed_that_nobody_gives_is_drawn_kept_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        first = searched(opened(tmp_path, seed=None, max_trials=3))
    seed = first.get_status()["seed"]
    assert f"seed {seed}" in caplog.text
    again = searched(opened(tmp_path, seed=seed, max_trials=3))
    assert tried(again) == tried(first)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "val_loss is nan"),
        (-math.inf, "val_loss is -inf"),
        (None, "val_loss was never reported; reported were: nothing"),
        ({"loss": 0.1}, "val_loss was never reported; reported were: loss"),
    ],
)
def test_a_result_that_is_no_number_is_a_failure_that_says_so(
    tmp_path: Path, value: Any, words: str
) -> None:
    automl = opened(tmp_path, max_trials=3)
    for result in (value, 0.7, 0.8):
        (rec,) = automl.next_recommendation()
        automl.report_result(rec.id, result)
    first = automl.get_history()[0]
    assert (first.status, first.failure_reason, first.result) == ("failure", words, None)
    assert automl.get_progress()["best_metric"] == 0.7
    assert automl.is_complete()


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["bayesian", "asha", "pbt", "bohb"])
@pytest.mark.parametrize("status", ["failure", "error", "canceled"])
def test_each_way_to_fail_lets_the_search_go_on(
    tmp_path: Path, algorithm: str, status: str
) -> None:
    """A failed trial is never the best, never trained further, and never a number."""
    automl = opened(tmp_path, algorithm=algorithm, max_trials=9, max_epochs=9)
    ended: set[int] = set()
    while not automl.is_complete():
        for rec in automl.next_recommendation():
            assert rec.id not in ended
            if rec.id % 3 == 2:
                ended.add(rec.id)
                automl.report_result(rec.id, 0.0, status=status, feedback="CUDA out of memory")
            else:
                automl.report_result(rec.id, np.float32(loss_of(rec)), status="done")
    best, failed = automl.get_best(), automl.get_history()[1]
    assert best is not None
    assert best.id not in ended
    assert failed.status == ("canceled" if status == "canceled" else "failure")
    assert (failed.failure_reason, failed.result) == ("CUDA out of memory", None)
    assert failed.objective_values == {}


def test_a_search_whose_trials_all_fail_ends_and_says_why(tmp_path: Path) -> None:
    automl = opened(tmp_path, algorithm="asha")
    while not automl.is_complete():
        for rec in automl.next_recommendation():
            automl.report_result(rec.id, None, status="failure", feedback="no space left")
    assert (automl.get_best(), automl.get_status()["status"]) == (None, "Error")
    with pytest.raises(SearchFailed, match="no space left"):
        automl.next_recommendation()


def test_what_is_reported_twice_counts_once(tmp_path: Path) -> None:
    automl = opened(tmp_path)
    (rec,) = automl.next_recommendation()
    automl.report_result(rec.id, 0.5)
    automl.report_result(rec.id, 0.1, status="failure")
    assert (rec.status, rec.result) == ("success", 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["bayesian", "hyperband", "dehb", "pbt"])
def test_a_search_that_was_killed_at_any_moment_goes_on_as_if_it_was_not(
    tmp_path: Path, algorithm: str
) -> None:
    """A new object before each call: no session_id is needed, and nothing is lost, doubled, or
    waited for that nobody trains.
    """
    settings = {
        "algorithm": algorithm, "automl_max_recommendations": 9, "max_epochs": 9,
        "automl_max_concurrent": 2,
    }  # fmt: skip
    smooth = opened(tmp_path / "smooth", **settings)
    killed = opened(tmp_path / "killed", **settings)
    live: dict[int, list[Recommendation]] = {0: [], 1: []}
    while not smooth.is_complete():
        for place, automl in enumerate((smooth, killed)):
            live[place] += automl.next_recommendation()
        assert tried(smooth) == tried(killed)
        ends = live[0].pop(0)
        killed = opened(tmp_path / "killed", resume=True, **settings)
        live[1] = killed.next_recommendation()
        assert [rec.id for rec in live[1]] == sorted({ends.id, *(rec.id for rec in live[0])})
        for automl in (smooth, killed):
            automl.report_result(ends.id, loss_of(ends))
        killed = opened(tmp_path / "killed", resume=True, **settings)
        live[1] = []
    assert killed.is_complete()
    assert [rec.to_json()["metric_value"] for rec in killed.get_history()] == [
        rec.result for rec in smooth.get_history()
    ]


def test_a_search_that_is_over_goes_on_when_more_is_asked_for(tmp_path: Path) -> None:
    searched(opened(tmp_path, max_trials=3))
    assert opened(tmp_path, resume=True, max_trials=3).is_complete()
    more = searched(opened(tmp_path, resume=True, max_trials=5, seed=None))
    assert len(more.get_history()) == 5
    for change, words in [
        ({"algorithm": "tpe"}, "started with random"),
        ({"metric": "loss"}, "started to minimize val_loss"),
        ({"seed": 8}, "the search has 7"),
        ({"session_id": "other"}, "no search other to carry on"),
        ({"session_id": "../other"}, "must be letters, digits"),
    ]:
        with pytest.raises(UsageError, match=words):
            opened(tmp_path, resume=True, **change)
    with pytest.raises(UsageError, match="to carry on"):
        opened(tmp_path / "empty", resume=True)
    opened(tmp_path, session_id="mine")
    with pytest.raises(UsageError, match="resume=True"):
        opened(tmp_path, session_id="mine")


def test_threads_and_processes_share_a_search(tmp_path: Path) -> None:
    automl = opened(tmp_path, automl_max_concurrent=4, max_trials=12)
    other = opened(tmp_path, resume=True, automl_max_concurrent=4, max_trials=12)
    seen: list[int] = []

    def work() -> None:
        while not automl.is_complete():
            for rec in automl.next_recommendation():
                seen.append(rec.id)
                automl.report_result(rec.id, loss_of(rec))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(1, 13))
    assert other.is_complete()
    assert tried(other) == tried(automl)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"settings": {"algorithm": "baysian"}}, "Did you mean bayesian?"),
        ({"settings": {"automl_max_recomendations": 3}}, "automl_max_recommendations"),
        ({"settings": {"max_gpu_hours": 3}}, "max_wall_time"),
        ({"automl_hyperparameters": ["train.optim.lrr"]}, "train.optim.lr"),
        ({"automl_hyperparameters": ["train.secret"]}, "override_automl_disabled_params"),
        ({"custom_param_ranges": {"train.optim.lrr": {"valid_min": 1}}}, "train.optim.lr"),
        ({"custom_param_ranges": {LR: {"valid_mni": 1}}}, "valid_min"),
        ({"wandb_config": {"projct": "x"}}, "project"),
        ({"settings": {"session_id": "../x"}}, "session_id"),
    ],
)
def test_a_mistake_is_refused_with_the_right_name_before_anything_is_written(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises((SettingError, SpaceError, UsageError), match=words):
        AutoML(
            **{
                "workspace": tmp_path / "w", "network": "dino", "train_specs": SPEC,
                "settings": {}, "search_schema": SCHEMA, **arguments,
            }
        )  # fmt: skip
    assert not (tmp_path / "w").exists()


def test_a_wrong_report_says_what_is_allowed(tmp_path: Path) -> None:
    automl = opened(tmp_path, objectives=["accuracy", "latency"])
    (rec,) = automl.next_recommendation()
    for call, words in [
        ((9, 0.5), "no recommendation 9"),
        ((rec.id, 0.5), "'accuracy': ..., 'latency': ..."),
        ((rec.id, {"accuracy": "high", "latency": 1}), "must be a number"),
        ((rec.id, 0.5, None, "succes"), "Did you mean success?"),
    ]:
        with pytest.raises(UsageError, match=words):
            automl.report_result(*call)
    automl.report_result(rec.id, {"accuracy": 0.9, "latency": 20})
    assert rec.objective_values == {"accuracy": 0.9, "latency": 20.0}
    assert automl.get_pareto_front() == [rec]


def test_a_network_without_a_schema_says_how_to_give_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TAO_SKILL_BANK_PATH", raising=False)
    with pytest.raises(UsageError, match="search_schema="):
        AutoML(tmp_path / "w", "nonesuch", SPEC, {})


def test_a_time_limit_starts_nothing_new(tmp_path: Path) -> None:
    automl = opened(tmp_path, max_wall_time=1e-9)
    assert automl.next_recommendation() == []
    assert automl.is_complete()
    assert "time limit" in automl.get_status()["message"]


class LanguageModel(BaseHTTPRequestHandler):
    """Answers as its server's `script` says, then with 404."""

    def do_POST(self) -> None:
        server: Any = self.server
        server.asked.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        params = server.script.pop(0) if server.script else None
        answer = json.dumps({"params": params})
        body = json.dumps({"choices": [{"message": {"content": answer}}]}).encode()
        self.send_response(200 if params else 404)
        self.end_headers()
        self.wfile.write(body if params else b"no such model: nvapi-very-secret")

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def model() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), LanguageModel)
    server.asked, server.script = [], []
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("algorithm", ["llm", "autoresearch", "hybrid"])
def test_a_language_model_that_cannot_be_asked_ends_the_search_and_chance_never_does_its_work(
    tmp_path: Path, model: Any, algorithm: str
) -> None:
    settings = {
        "algorithm": algorithm, "llm_endpoint": f"http://127.0.0.1:{model.server_port}",
        "llm_api_key": "nvapi-very-secret", "first_as_is": False,
    }  # fmt: skip
    wanted = {LR: 0.01, "train.layers": 4, "train.optimizer": "sgd"}
    model.script = [wanted]
    automl = opened(tmp_path, **settings)
    told = "the gradient of nvapi-very-secret vanished"
    if algorithm == "hybrid":
        (rec,) = automl.next_recommendation()
        automl.report_result(rec.id, 0.9, feedback=told)
    (rec,) = automl.next_recommendation()
    assert (rec.specs, rec.proposed_by) == (wanted, "llm")
    automl.report_result(rec.id, 0.5, feedback=told)
    with pytest.raises(SearchFailed, match="404"):
        for _ in range(2):
            for rec in automl.next_recommendation():
                automl.report_result(rec.id, 0.4)
    assert automl.is_complete()
    proposed = {rec.proposed_by for rec in automl.get_history()}
    assert proposed == ({"llm", "gp"} if algorithm == "hybrid" else {"llm"})
    assert "the gradient of *** vanished" in model.asked[-1], "it hears what was said"
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"nvapi-very-secret" not in kept
    assert "nvapi-very-secret" not in "".join(model.asked) + automl.get_status()["message"]
    again = opened(tmp_path, resume=True, **settings)
    model.script = [{LR: 0.02, "train.layers": 5, "train.optimizer": "sgd"}] * 2
    assert again.next_recommendation(), "it goes on when the model answers again"
