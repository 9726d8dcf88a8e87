"""AutoMLRunner: a search whose trials are jobs, under its documented names; and the command
`python -m tao_automl.runner PLAN --platform P`.

Here: from the documented words to a search, what callers are told, and the result. Not here: what
is tried next (search.py) and how it is carried out (drive.py).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_automl import drive, evaluations
from tao_automl.called import Caller, numbers_of, plain_json
from tao_automl.job_records import records_of
from tao_automl.job_report import values_of
from tao_automl.recommendation import (
    Recommendation,
    recommendations_of,
)
from tao_automl.session_settings import refuse_changes
from tao_automl.settings import read_settings
from tao_automl.skill_search import (
    SkillPlace,
    SkillRequest,
    action_job,
    find_skill,
    skill_request,
    with_network_metric,
)
from tao_automl.state import best_trial, front
from tao_automl.status_query import progress_json
from tao_automl.store import SearchStore
from tao_automl.stored import StoredSearch
from tao_automl.template import TRIAL_LABEL
from tao_automl.workspace import new_run, read_search_id, write_views
from tao_sdk.model.errors import TaoError, UsageError
from tao_sdk.model.status import Status

if TYPE_CHECKING:
    from tao_sdk.client import PlatformSDK
    from tao_sdk.model.job import Job

CANCELED_BY_CALLER = "AutoML run canceled"
EVALUATE = "evaluate"


@dataclass(frozen=True)
class RunnerCallbacks:
    """The functions that a caller gives to `run`; each may be None."""

    metric_extractor: Callable[..., Any] | None = None
    eval_fn: Callable[..., Any] | None = None
    baseline_fn: Callable[..., Any] | None = None
    final_eval_fn: Callable[..., Any] | None = None
    on_recommendation: Callable[..., Any] | None = None
    on_result: Callable[..., Any] | None = None
    feedback_fn: Callable[..., Any] | None = None

    @property
    def measure(self) -> bool:
        """True where they say what the value of a trial is."""
        return bool(self.eval_fn or self.metric_extractor)


class AutoMLRunner:
    """Searches the settings of a skill's action, each trial a job of the SDK.

        runner = AutoMLRunner(DockerSDK(), "bank/skills/models/tao-train-dino")
        result = runner.run("s3://bucket/train", "s3://bucket/val", gpu_count=2,
                            automl_settings={"algorithm": "bayesian", "metric": "val_loss"})
        print(format_result(result))

    The SDK looks at all jobs with one query at its own pace; `poll_interval` is taken for the
    documents' sake.
    """

    def __init__(
        self,
        sdk: PlatformSDK,
        skill_dir: str | os.PathLike[str],
        action: str = "train",
        poll_interval: float = 30,
    ) -> None:
        """Raises UsageError for a folder that is no skill, ActionNotFound."""
        self.sdk = sdk
        self.place: SkillPlace = find_skill(Path(skill_dir))
        self.place.skill.action(action)
        self.action = action
        self.poll_interval = poll_interval
        self.search_id = ""

    def run(
        self,
        train_dataset_uri: str = "",
        eval_dataset_uri: str = "",
        base_checkpoint: str = "",
        workspace_id: str | None = None,
        image: str | None = None,
        automl_settings: Mapping[str, Any] | None = None,
        automl_hyperparameters: Sequence[str] | None = None,
        custom_param_ranges: Mapping[str, Mapping[str, Any]] | None = None,
        workspace_path: str | os.PathLike[str] = "./automl_workspace",
        spec_overrides: Mapping[str, Any] | None = None,
        resume: bool = False,
        metric_extractor: Callable[..., Any] | None = None,
        eval_fn: Callable[..., Any] | None = None,
        baseline_fn: Callable[..., Any] | None = None,
        final_eval_fn: Callable[..., Any] | None = None,
        on_recommendation: Callable[..., Any] | None = None,
        on_result: Callable[..., Any] | None = None,
        execution: Mapping[str, Any] | None = None,
        feedback_fn: Callable[..., Any] | None = None,
        **platform_kwargs: Any,
    ) -> dict[str, Any]:
        """Carry a search out until it is over, and return its result.

        `workspace_path` gets a folder `run_<timestamp>` with search.json and trials.csv; with
        `resume` it is that folder, or one above it, and its search goes on. `metric_extractor`
        gets a job's log and the metric's name; `eval_fn` (rec, job id) wins over it. A function
        that raises does not end the search: it is listed in `callback_errors`. Further keywords
        are fields of the jobs and options of their platform.

        The result has best, progress, baseline, final_evaluation, history, algorithm_state,
        callback_errors, search_id, workspace_path, and with several objectives pareto_front.
        Raises SettingError, SpaceError, SpecError, UsageError before anything is started.
        """
        refuse_execution(execution)
        given = dict(with_network_metric(automl_settings or {}, self.place.skill))
        settings = read_settings(given)
        callbacks = RunnerCallbacks(
            metric_extractor, eval_fn, baseline_fn, final_eval_fn, on_recommendation, on_result,
            feedback_fn,
        )  # fmt: skip
        request = SkillRequest(
            self.action,
            named_data(train_dataset_uri, eval_dataset_uri),
            base_checkpoint,
            image or "",
            automl_hyperparameters or (),
            custom_param_ranges or {},
            spec_overrides or {},
            platform_kwargs,
        )
        wanted = skill_request(self.sdk, self.place, request, settings)
        if workspace_id:
            labels = {**wanted.spec.labels, "workspace-id": workspace_id}
            wanted = replace(wanted, spec=replace(wanted.spec, labels=labels))
        wanted = replace(wanted, needs_caller=callbacks.measure)
        workspace, stored = self.begun(Path(workspace_path), wanted, resume)
        self.search_id = stored.id
        key = str(given.get("llm_api_key") or given.get("api_key") or "")
        given_secrets = drive.secrets_of(wanted.spec)
        with drive.driving(self.sdk, stored.id):
            running = Running(self.sdk, callbacks, workspace, stored)
            baseline = evaluations.measured_before(
                settings, baseline_fn, specs_of(wanted), running.caller
            )
            ended = drive.carry_out(self.sdk, stored.id, running.for_driver(), key, given_secrets)
            result = self.result_of(running, ended, baseline, request)
            drive.remove_checkpoints(self.sdk, ended)
        return result

    def cancel_active_jobs(self, reason: str = CANCELED_BY_CALLER) -> None:
        """End the search that `run` carries out, and its jobs, which save first."""
        if self.search_id:
            drive.ask_stop(self.sdk, self.search_id, reason)

    def begun(
        self, workspace: Path, wanted: drive.SearchRequest, resume: bool
    ) -> tuple[Path, StoredSearch]:
        """The folder of the run, and its search: a new one, or the one that goes on."""
        if not resume:
            stored = drive.create(self.sdk, wanted)
            return new_run(workspace), stored
        folder, search_id = read_search_id(workspace)
        stored = reopened(self.sdk, SearchStore(self.sdk.store).get(search_id), wanted)
        return folder, drive.marked(self.sdk, stored, wanted.needs_caller)

    def result_of(
        self,
        running: Running,
        ended: StoredSearch,
        baseline: evaluations.Evaluation,
        request: SkillRequest,
    ) -> dict[str, Any]:
        found = running.recommendations(ended)
        search = ended.search
        best = found[trial.number] if (trial := best_trial(search)) else None
        direction = search.settings.goals[0].direction
        first = found[1].result if found and found[1].proposed_by == "spec" else None
        value = best.result if best else None
        baseline = evaluations.compared_baseline(baseline, first, value, direction)
        final = evaluations.final_without_job(
            search.settings, running.callbacks.final_eval_fn, best, running.caller
        )
        if final["status"] == evaluations.NOT_RUN and best is not None:
            final = self.evaluated(final, best, request)
        final["comparison_to_baseline"] = evaluations.comparison_of(
            baseline["metric_value"], final["metric_value"], direction
        )
        result = {
            "best": best_json(best),
            "progress": progress_json(ended.search, best),
            "baseline": baseline,
            "final_evaluation": final,
            "history": [history_json(rec) for rec in found.values()],
            "algorithm_state": algorithm_state(ended),
            "callback_errors": [one.to_json() for one in running.caller.raised],
            "search_id": ended.id,
            "workspace_path": str(running.workspace),
        }
        if len(search.settings.goals) > 1:
            result["pareto_front"] = [best_json(found[one.number]) for one in front(search)]
        return result

    def evaluated(
        self, final: evaluations.Evaluation, best: Recommendation, request: SkillRequest
    ) -> evaluations.Evaluation:
        """The final evaluation by the skill's evaluate action, on the best checkpoint."""
        try:
            job = self.evaluation_job(best, request)
        except TaoError as error:
            words = f"the action {EVALUATE} could not be run: {error}"
            return {**final, "status": evaluations.UNAVAILABLE, "failure_reason": words}
        more = {"source": EVALUATE, "job_id": job.id}
        if job.status is not Status.COMPLETE:
            words = f"its job {job.id} is {job.status.value}: {job.current_message}"
            return {**final, **more, "status": evaluations.UNAVAILABLE, "failure_reason": words}
        value = job.progress.metrics.get(final["metric_name"])
        if value is not None:
            return {**final, **more, "status": evaluations.MEASURED, "metric_value": value}
        seen = ", ".join(sorted(job.progress.metrics)) or "nothing"
        words = f"its job {job.id} reported {seen}"
        return {**final, **more, "status": evaluations.METRIC_MISSING, "failure_reason": words}

    def evaluation_job(self, best: Recommendation, request: SkillRequest) -> Job:
        checkpoint = self.sdk.results(best.job_id or "").best
        if checkpoint is None:
            raise UsageError(f"{best.job_id} left no checkpoint.")
        values = {
            key: value
            for key, value in {**request.overrides, **best.specs}.items()
            if not key.startswith(f"{self.action}.")
        }
        data = {name: address for name, address in request.data.items() if name == "eval"}
        asked = replace(
            request, action=EVALUATE, checkpoint=checkpoint, overrides=values, data=data
        )
        spec, options = action_job(self.sdk, self.place, asked)
        job = self.sdk.submit(
            spec,
            self.sdk.endpoint or self.sdk.platform,
            options,
            parent=self.search_id,
            idempotency_key=f"{self.search_id}/{EVALUATE}/{best.job_id}",
        ).job
        self.sdk.wait(job.id)
        return self.sdk.refresh_progress(self.sdk.get_job(job.id))


@dataclass
class Running:
    """One run: what the caller was told of it, and what its functions said."""

    sdk: PlatformSDK
    callbacks: RunnerCallbacks
    workspace: Path
    stored: StoredSearch
    caller: Caller = field(default_factory=Caller)
    feedback: dict[int, Any] = field(default_factory=dict[int, Any])
    revision: int = -1
    told: dict[int, tuple[int, bool]] = field(default_factory=dict[int, "tuple[int, bool]"])

    def __post_init__(self) -> None:
        """What was known before this run is not told again."""
        self.told = told_of(self.stored)
        self.write_views()

    def for_driver(self) -> drive.Callbacks:
        read = self.read_values if self.callbacks.measure else None
        return drive.Callbacks(self.on_change, read, self.read_feedback)

    def on_change(self, stored: StoredSearch, jobs: Sequence[Job]) -> None:  # noqa: ARG002
        """Tell the caller of new trials and results, and write the views anew."""
        if stored.revision == self.revision:
            return
        self.stored, self.revision = stored, stored.revision
        found = self.recommendations(stored)
        for number, (rung, is_over) in told_of(stored).items():
            before = self.told.get(number)
            if before is None or before[0] != rung:
                self.call("on_recommendation", number, found[number])
            if is_over and before != (rung, True):
                rec = found[number]
                self.call("on_result", number, rec, rec.result, rec.status)
        self.told = told_of(stored)
        self.write_views()

    def call(self, name: str, number: int | None, *given: Any) -> Any:
        return self.caller.call(name, number, getattr(self.callbacks, name), *given)

    def write_views(self) -> None:
        write_views(self.workspace, self.sdk, self.stored)

    def recommendations(self, stored: StoredSearch) -> dict[int, Recommendation]:
        """Every trial under its documented names."""
        records = records_of(stored, drive.jobs_of(self.sdk, stored.id), self.feedback)
        return recommendations_of(stored.search, records)

    def read_values(self, job: Job) -> dict[str, float] | None:
        """The metrics of a Complete job: of eval_fn, else of metric_extractor, else as read."""
        number = int(job.labels[TRIAL_LABEL])
        settings = self.stored.search.settings
        metric = settings.goals[0].metric
        rec = self.recommendations(self.stored)[number]
        rec.job_id = job.id
        values = numbers_of(self.call("eval_fn", number, rec, job.id), metric)
        if values is None and self.callbacks.metric_extractor:
            log = self.sdk.get_job_logs(job.id)
            values = numbers_of(self.call("metric_extractor", number, log, metric), metric)
        return {**values_of(job.progress, settings), **(values or {})}

    def read_feedback(self, job: Job) -> str:
        """What feedback_fn says of a job that has ended, as a text for a language model."""
        if self.callbacks.feedback_fn is None:
            return ""
        number = int(job.labels[TRIAL_LABEL])
        rec = self.recommendations(self.stored)[number]
        told = plain_json(self.call("feedback_fn", number, rec, job.id))
        if told is None:
            return ""
        self.feedback[number] = told
        return told if isinstance(told, str) else json.dumps(told)


def told_of(stored: StoredSearch) -> dict[int, tuple[int, bool]]:
    """Where each trial is: its rung, and whether that is over."""
    return {trial.number: (trial.rung, not trial.is_running) for trial in stored.search.trials}


def reopened(sdk: PlatformSDK, stored: StoredSearch, wanted: drive.SearchRequest) -> StoredSearch:
    """A search that goes on as it was, or with other limits. Raises SettingError for what cannot be
    changed.
    """
    refuse_changes(stored.search, wanted.settings, wanted.space)
    kept = stored.search.settings
    limits = replace(
        wanted.settings,
        algorithm=kept.algorithm,
        seed=kept.seed,
        start=kept.start,
        first_as_is=kept.first_as_is,
        epochs_key=kept.epochs_key,
        max_concurrent=wanted.settings.max_concurrent or kept.max_concurrent,
    )
    if limits != kept:
        return drive.reopen(sdk, stored.id, limits)
    is_broken = stored.status in ("Error", "Stopped")
    return drive.reopen(sdk, stored.id) if is_broken else stored


def refuse_execution(execution: Mapping[str, Any] | None) -> None:
    if execution:
        what = "execution runs a script without a container, which this version does not."
        raise UsageError(what, "", "Use LocalSDK and a skill whose command is the script.")


def named_data(train: str, evaluation: str) -> dict[str, str]:
    given = {"train": train, "eval": evaluation}
    return {name: address for name, address in given.items() if address}


def specs_of(wanted: drive.SearchRequest) -> Mapping[str, Any]:
    return wanted.spec.specs or wanted.spec.args or {}


def best_json(best: Recommendation | None) -> dict[str, Any]:
    return {
        "rec_id": best.id if best else None,
        "job_id": best.job_id if best else None,
        "specs": dict(best.specs) if best else {},
        "metric_value": best.result if best else None,
        "objective_score": best.objective_score if best else None,
        "objective_values": dict(best.objective_values) if best else {},
        "adjustments": list(best.adjustments) if best else [],
        "feedback": best.feedback if best else None,
    }


def history_json(rec: Recommendation) -> dict[str, Any]:
    return {
        "rec_id": rec.id,
        "job_id": rec.job_id,
        "metric": rec.result,
        "objective_score": rec.objective_score,
        "objective_values": dict(rec.objective_values),
        "status": rec.status,
        "failure_reason": rec.failure_reason,
        "adjustments": list(rec.adjustments),
        "feedback": rec.feedback,
        "specs": dict(rec.specs),
        "proposed_by": rec.proposed_by,
    }


def algorithm_state(stored: StoredSearch) -> dict[str, Any]:
    search = stored.search
    return {
        "algorithm": search.settings.algorithm,
        "seed": search.seed,
        "status": stored.status,
        "message": stored.message,
        "notes": search.dialogue.notes,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command, which carries out a plan. Returns its exit code."""
    from tao_automl.runner_plan import run_command

    return run_command(arguments)


if __name__ == "__main__":
    sys.exit(main())
