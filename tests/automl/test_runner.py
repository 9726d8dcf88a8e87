"""AutoMLRunner, the documented class, by real local jobs of a small skill; and its plan command."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.toy_skill import SCHEMA, write_skill
from tao_automl import AutoML, AutoMLRunner, drive, format_result, query_status
from tao_automl.evaluations import comparison_of
from tao_automl.settings import SettingError
from tao_automl.space.mistake import SpaceError
from tao_automl.store import SearchStore
from tao_automl.views import status_json
from tao_sdk.model.errors import SpecError, UsageError
from tao_sdk.model.settings import Settings
from tao_sdk.platforms.local import LocalSDK

pytestmark = pytest.mark.slow

LR = "train.optim.lr"


@pytest.fixture(scope="module")
def skill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_skill(tmp_path_factory.mktemp("bank"))


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
    }


@pytest.fixture
def sdk(environ: dict[str, str]) -> Iterator[LocalSDK]:
    with LocalSDK(settings=Settings(environ), watch=False) as sdk:
        yield sdk


def given(**more: Any) -> dict[str, Any]:
    return {
        "algorithm": "random", "metric": "accuracy", "seed": 2, "automl_max_recommendations": 3,
        "automl_max_concurrent": 2, **more,
    }  # fmt: skip


def test_a_run_has_the_documented_result_and_tells_of_each_trial(
    sdk: LocalSDK, skill: Path, tmp_path: Path
) -> None:
    told: list[Any] = []
    result = AutoMLRunner(sdk, skill).run(
        automl_settings=given(),
        workspace_path=tmp_path / "work",
        spec_overrides={"train.num_epochs": 1},
        on_recommendation=lambda rec: told.append(("new", rec.id)),
        on_result=lambda rec, metric, status: told.append((rec.id, metric, status)),
        feedback_fn=lambda rec, job_id: {"job": job_id},
        gpu_count=0,
    )
    assert {
        "best",
        "progress",
        "baseline",
        "final_evaluation",
        "history",
        "algorithm_state",
    } <= set(result)
    best, history = result["best"], result["history"]
    assert [entry["status"] for entry in history] == ["success"] * 3
    assert best["metric_value"] == max(entry["metric"] for entry in history)
    assert sdk.get_job(best["job_id"]).labels["tao-trial"] == str(best["rec_id"])
    assert best["feedback"] == {"job": best["job_id"]}
    assert result["progress"]["algorithm"] == "random"
    baseline = result["baseline"]
    assert (baseline["status"], baseline["metric_value"]) == ("first_trial", 0.11)
    assert baseline["comparison_to_best"] == comparison_of(0.11, best["metric_value"], "maximize")
    final = result["final_evaluation"]
    assert "failure_reason" not in final, final["failure_reason"]
    assert (final["status"], final["metric_value"], final["source"]) == (
        "measured",
        0.875,
        "evaluate",
    )
    assert sorted(told, key=str) == sorted(
        [("new", n) for n in (1, 2, 3)]
        + [(entry["rec_id"], entry["metric"], "success") for entry in history],
        key=str,
    )
    stored = SearchStore(sdk.store).get(result["search_id"])
    assert len(sdk.list_jobs(parent=stored.id)) == 4, "the evaluation is no trial"
    assert len(status_json(sdk, stored)["trials"]) == 3
    text = format_result(result)
    for words in ("Best: rec", "History:", "Baseline: accuracy=0.11", "Final evaluation: measured"):
        assert words in text
    folder = Path(result["workspace_path"])
    assert folder.parent == tmp_path / "work"
    assert folder.name.startswith("run_")
    assert json.loads((folder / "search.json").read_text())["status"] == "Complete"
    assert len((folder / "trials.csv").read_text().splitlines()) == 4
    for place in (folder, folder.parent):
        status = query_status(place)
        assert status["progress"] == result["progress"]
        assert status["best"]["job_id"] == best["job_id"]
        assert status["active_jobs"] == []


def raises(*_: Any) -> None:
    raise RuntimeError("the caller's own mistake")


def test_a_function_that_raises_is_data_and_the_search_goes_on(
    sdk: LocalSDK, skill: Path, tmp_path: Path
) -> None:
    result = AutoMLRunner(sdk, skill).run(
        automl_settings=given(automl_max_recommendations=2), workspace_path=tmp_path / "work",
        metric_extractor=lambda log, name: 7.0 if f"{name} 0.1" in log else None,
        eval_fn=raises, baseline_fn=raises, final_eval_fn=raises, on_recommendation=raises,
        on_result=raises, feedback_fn=raises, gpu_count=0,
    )  # fmt: skip
    assert result["history"][0]["metric"] == 7.0, "the extractor's value, as eval_fn gave none"
    assert result["final_evaluation"]["status"] == "callback_error"
    assert "the caller's own mistake" in result["final_evaluation"]["failure_reason"]
    assert result["baseline"]["status"] == "failure"
    raised = {one["function"] for one in result["callback_errors"]}
    assert raised == {
        "eval_fn", "baseline_fn", "final_eval_fn", "on_recommendation", "on_result", "feedback_fn",
    }  # fmt: skip
    assert "in raises" in result["callback_errors"][0]["traceback"]
    assert "final_eval_fn" not in format_result({}), "an empty result has a text as well"


def test_eval_fn_wins_and_what_was_measured_elsewhere_is_taken(
    sdk: LocalSDK, skill: Path, tmp_path: Path
) -> None:
    result = AutoMLRunner(sdk, skill).run(
        automl_settings=given(
            automl_max_recommendations=2, baseline_metric=0.4, final_evaluation_metric=0.6
        ),
        workspace_path=tmp_path / "work", eval_fn=lambda rec, job: rec[LR] * 2, gpu_count=0,
    )  # fmt: skip
    for entry in result["history"]:
        assert entry["metric"] == entry["specs"][LR] * 2
    assert (result["baseline"]["status"], result["baseline"]["metric_value"]) == ("provided", 0.4)
    final = result["final_evaluation"]
    assert (final["status"], final["metric_value"]) == ("provided", 0.6)
    assert final["comparison_to_baseline"]["improved"] is True


def test_a_run_goes_on_without_a_session_id_and_with_more_trials(
    sdk: LocalSDK, skill: Path, tmp_path: Path
) -> None:
    runner = AutoMLRunner(sdk, skill)
    common: dict[str, Any] = {"workspace_path": tmp_path / "work", "gpu_count": 0}
    left_to_watchers: list[bool] = []

    def baseline(_specs: Any) -> float:
        assert drive.is_driven(sdk, runner.search_id)
        left_to_watchers.append(runner.search_id in SearchStore(sdk.store).unended())
        return 0.5

    settings = given(run_final_evaluation=False)

    class Killed(BaseException):
        pass

    def end(*_: Any) -> None:
        raise Killed

    with pytest.raises(Killed):
        runner.run(
            automl_settings=settings, on_result=end, baseline_fn=baseline,
            eval_fn=lambda rec, _job: rec[LR], **common,
        )  # fmt: skip
    assert query_status(tmp_path / "work")["status"] == "Running"
    first = runner.run(automl_settings=settings, resume=True, baseline_fn=baseline, **common)
    assert left_to_watchers == [False, True], "no watcher has its eval_fn"
    assert first["baseline"]["status"] == "measured"
    assert [entry["rec_id"] for entry in first["history"]] == [1, 2, 3]
    more = runner.run(
        automl_settings={**settings, "automl_max_recommendations": 4}, resume=True, **common
    )
    assert more["history"][:3] == first["history"]
    assert len(more["history"]) == 4
    assert more["workspace_path"] == first["workspace_path"]
    assert len(sdk.list_jobs(parent=more["search_id"])) == 4, "no job twice"
    with pytest.raises(SettingError, match="started with random"):
        runner.run(automl_settings={**settings, "algorithm": "tpe"}, resume=True, **common)


def test_what_runs_is_ended_when_the_caller_wants_it(
    sdk: LocalSDK, skill: Path, tmp_path: Path
) -> None:
    """Asked by another thread, while the search is carried out."""
    runner = AutoMLRunner(sdk, skill)
    enders: list[threading.Thread] = []

    def end(*_: Any) -> None:
        enders.append(threading.Thread(target=runner.cancel_active_jobs, args=("enough",)))
        enders[-1].start()

    result = runner.run(
        automl_settings=given(automl_max_recommendations=20, run_final_evaluation=False),
        workspace_path=tmp_path / "work", on_result=end, gpu_count=0,
    )  # fmt: skip
    for thread in enders:
        thread.join()
    assert result["algorithm_state"]["status"] == "Stopped"
    assert result["algorithm_state"]["message"] == "enough"
    assert len(result["history"]) < 20
    assert all(job.status.terminal for job in sdk.list_jobs(parent=result["search_id"]))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        ({"automl_settings": {"algoritm": "b"}}, SettingError, "algorithm"),
        ({"automl_hyperparameters": ["train.optim.lrr"]}, SpaceError, "train.optim.lr"),
        ({"custom_param_ranges": {LR: {"valid_mx": 1}}}, SpaceError, "valid_max"),
        ({"spec_overrides": {"train.num_epoch": 3}}, SpecError, "num_epochs"),
        ({"gpu_cuont": 2}, SpecError, "gpu_count"),
        ({"execution": {"type": "python_script"}}, UsageError, "LocalSDK"),
        ({"resume": True}, UsageError, "resume=False"),
        ({"automl_settings": {"train_sample_count": 4}}, UsageError, "Set train.batch_size to 4"),
    ],
)
def test_a_mistake_is_refused_before_anything_starts(
    sdk: LocalSDK, skill: Path, call: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        AutoMLRunner(sdk, skill).run(**{"gpu_count": 0, **call})
    assert sdk.list_jobs() == []
    assert not Path("automl_workspace").exists()


def test_a_batch_that_the_training_set_cannot_fill_is_never_tried(
    sdk: LocalSDK, skill: Path, tmp_path: Path
) -> None:
    """And a checkpoint that the search does not need is there until the final evaluation is over."""
    result = AutoMLRunner(sdk, skill).run(
        automl_settings=given(
            train_sample_count=10, automl_max_recommendations=6, automl_delete_intermediate_ckpt=True
        ),
        automl_hyperparameters=["train.batch_size"], workspace_path=tmp_path / "work", gpu_count=0,
        final_eval_fn=lambda _rec, job_id: len(sdk.results(job_id).checkpoints),
    )  # fmt: skip
    assert result["final_evaluation"]["metric_value"] == 2
    assert len(sdk.results(result["best"]["job_id"]).checkpoints) == 1
    sizes = [entry["specs"]["train.batch_size"] for entry in result["history"]]
    assert max(sizes) <= 10
    assert len(sizes) == 6


def test_a_folder_that_is_no_skill_says_so(sdk: LocalSDK, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="skill_info.yaml"):
        AutoMLRunner(sdk, tmp_path)


def plan_of(skill: Path, workspace: Path, **more: Any) -> dict[str, Any]:
    return {
        "ready": True, "automl_settings": given(automl_max_recommendations=2),
        "automl_workspace_path": str(workspace),
        "steps": [{"params": {"skill_dir": str(skill), "platform_kwargs": {"gpu_count": 0}}}],
        **more,
    }  # fmt: skip


def test_a_plan_is_carried_out_by_the_command(
    skill: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    def ran(plan: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        command = [sys.executable, "-m", "tao_automl.runner", "plan.json", "--platform", "local"]
        return subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )

    done = ran(plan_of(skill, tmp_path / "work"))
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["history"]) == 2
    refused = ran(plan_of(skill, tmp_path, ready=False, blocking_issues=["no dataset"]))
    assert refused.returncode == 2
    assert "no dataset" in refused.stderr


def test_the_status_of_a_search_by_ask_and_tell_is_asked_from_outside(tmp_path: Path) -> None:
    assert "error" in query_status(tmp_path)
    automl = AutoML(
        tmp_path, "toy", {"train": {"optim": {"lr": 0.1}}}, given(), search_schema=SCHEMA
    )
    recs = automl.next_recommendation()
    recs[0].assign_job_id("job-7")
    automl.report_result(recs[1].id, 0.3)
    status = query_status(tmp_path)
    assert status["progress"] == {
        "completed": 1, "succeeded": 1, "failed": 0, "pending": 1, "total": 3,
        "best_metric": 0.3, "best_rec_id": 2, "algorithm": "random",
    }  # fmt: skip
    assert [job["job_id"] for job in status["active_jobs"]] == ["job-7"]
    assert [rec["rec_id"] for rec in status["recommendations"]] == [1, 2]
