"""AutoML: a search by ask and tell, under its documented names. The caller does the training.

Here: the class, and how its words become those of the search. Not here: what is tried next
(search.py), how it is kept (sessions.py), and searches whose trials are jobs.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, SupportsFloat

from tao_automl.decisions import (
    AskModel,
    EndStatus,
    Known,
    PromoteTrial,
    StartTrial,
    TrialReport,
)
from tao_automl.endpoint import ModelUnusable, ask_model, endpoint_of
from tao_automl.network_schema import NetworkRequest, network_space
from tao_automl.recommendation import (
    PENDING,
    SUCCESS,
    Recommendation,
    Record,
    empty_recommendation,
    fill_recommendation,
)
from tao_automl.search import Advance, advance, create_search
from tao_automl.session_settings import (
    carried_on,
    checked_wandb,
    class_settings,
    with_epochs_key,
)
from tao_automl.sessions import (
    create_session,
    find_session,
    load_kept,
    revision_of,
    write_search,
)
from tao_automl.settings import SearchSettings, read_settings
from tao_automl.space.space import Space
from tao_automl.state import Search, best_trial, front
from tao_automl.status_query import progress_json
from tao_automl.told_results import LIVE, OUTCOMES, known_status, reason_of, values_of
from tao_automl.trial import Trial
from tao_sdk.model.clock import to_iso, utc_now
from tao_sdk.model.errors import TaoError, UsageError
from tao_sdk.model.secrets import Redactor, is_secret_name

logger = logging.getLogger(__name__)

LONGEST_FEEDBACK = 2000  # characters that a language model is told
NOTHING: Mapping[str, Any] = MappingProxyType({})


class SearchFailed(TaoError):
    """A search that has ended because going on makes no sense. The text says why."""

    code = "automl.failed"


class AutoML:
    """Searches the best settings of a training that its caller runs.

        automl = AutoML("work", "dino", specs, {"algorithm": "bayesian", "metric": "val_loss"})
        while not automl.is_complete():
            for rec in automl.next_recommendation():
                automl.report_result(rec.id, train(rec.specs))
        print(automl.get_best())

    Everything that was given out or reported is kept below `workspace` before a method returns.
    Threads may share an object, and processes a workspace.
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str],
        network: str,
        train_specs: Mapping[str, Any],
        settings: Mapping[str, Any],
        automl_hyperparameters: Sequence[str] | None = None,
        custom_param_ranges: Mapping[str, Mapping[str, Any]] | None = None,
        action: str = "train",
        resume: bool = False,
        wandb_config: Mapping[str, Any] | None = None,
        search_schema: Mapping[str, Any] | None = None,
    ) -> None:
        """`search_schema` is the schema of the action; without one, that of the skill bank.

        With `resume` the newest search of the workspace goes on, or that of `session_id`. Raises
        SettingError, SpaceError, UsageError before anything is written.
        """
        chosen = class_settings(read_settings(settings))
        self._key = str(settings.get("llm_api_key") or settings.get("api_key") or "")
        self._wandb = checked_wandb(wandb_config or NOTHING)
        self._redact = redactor_of([self._key, str(self._wandb.get("api_key") or "")])
        space = network_space(
            NetworkRequest(
                network,
                action,
                train_specs,
                automl_hyperparameters or (),
                custom_param_ranges or NOTHING,
                search_schema,
                chosen.override_automl_disabled_params,
            )
        )
        self._lock, self._asking = threading.RLock(), threading.Lock()
        self._recommendations: dict[int, Recommendation] = {}
        self._records: dict[int, Record] = {}
        self._ahead: tuple[Search, Advance] | None = None
        self._opened, self._spent_before, self._is_finished = time.monotonic(), 0.0, False
        if resume:
            self._open(Path(workspace), chosen, space)
        else:
            self._create(Path(workspace), chosen, space, train_specs)

    def _create(
        self,
        workspace: Path,
        chosen: SearchSettings,
        space: Space,
        spec: Mapping[str, Any],
    ) -> None:
        seed = secrets.randbelow(2**32) if chosen.seed is None else chosen.seed
        search = with_epochs_key(create_search(replace(chosen, seed=seed), space, seed), spec)
        self._session = create_session(workspace, chosen.session_id or secrets.token_hex(6))
        with self._session.database.write(synced=True) as db:
            self._revision = write_search(db, search, self._about(), ())
        self._search = search
        self._again: list[int] = []
        logger.info(
            "search %s: %s, %s, %d parameters, seed %d",
            self._session.name,
            search.settings.algorithm,
            ", ".join(one.metric for one in search.settings.objectives),
            len(space.parameters),
            seed,
        )

    def _open(self, workspace: Path, chosen: SearchSettings, space: Space) -> None:
        """Carry on the search of the workspace. What was given out and not reported is given out
        again.
        """
        self._session = find_session(workspace, chosen.session_id)
        with self._session.database.write(synced=True) as db:
            kept = load_kept(db)
            if kept is None:
                what = f"{self._session.path} holds no search."
                raise UsageError(what, "", "Start one with resume=False.")
            search = carried_on(kept.search, chosen, space)
            self._records = dict(kept.records)
            self._spent_before = float(kept.about.get("wall_seconds", 0.0))
            self._revision = write_search(db, search, self._about(), ())
        self._search = search
        self._again = [trial.number for trial in search.running]
        self._fill(search.trials)

    def next_recommendation(self) -> list[Recommendation]:
        """What to train next: as many as may run at once and do not yet. Empty while what runs
        decides what comes next, and when the search is over.

        Raises SearchFailed where it makes no sense to go on, as when the language model that
        proposes cannot be asked; chance never takes its place.
        """
        with self._asking:
            given = self._given_again()
            answer = self._advance(Known())
            while True:
                given.extend(self._started(answer))
                questions = [one for one in answer.decisions if isinstance(one, AskModel)]
                if not questions:
                    break
                answer = self._advance(self._asked(questions[0]))
        self._refuse_failure()
        return given

    def report_result(
        self,
        rec_id: int,
        metric_value: SupportsFloat | Mapping[str, SupportsFloat] | None,
        best_epoch: int | None = None,
        status: str = SUCCESS,
        feedback: Any = None,
    ) -> None:
        """Say how the training of a recommendation ended.

        `metric_value` is a number, or a mapping from metrics to numbers where there are several
        objectives. One that is missing or not finite makes the trial a failure that says so.
        `status` is success (done), failure (error) or canceled; pending, started and running say
        that it has not ended. `feedback` is why it failed, or what a language model should know.
        What is reported twice counts once. Raises UsageError.
        """
        known_status(status)
        with self._lock:
            trial = self._trial(rec_id)
            told = self._told(feedback)
            if status in LIVE:
                self._keep_record(trial.number, status=status)
                return
            values = values_of(self._search, metric_value)
            report = TrialReport(
                trial.number,
                trial.rung,
                OUTCOMES[status],
                values,
                reason_of(status, told),
                reported=tuple(values or ()),
                feedback=told[:LONGEST_FEEDBACK],
            )
            if trial.is_running:
                self._keep_record(
                    trial.number, best_epoch=best_epoch, feedback=self._plain(feedback)
                )
            self._advance(Known((report,), free=0))
            self._look_ahead()

    def get_best(self) -> Recommendation | None:
        """The best recommendation at the largest budget that any has reached; None without one."""
        with self._lock:
            best = best_trial(self._seen())
            return self._recommendations[best.number] if best else None

    def get_progress(self) -> dict[str, Any]:
        """completed (those that failed or were canceled as well), succeeded, failed, pending,
        total, best_metric, best_rec_id, algorithm.
        """
        with self._lock:
            search, best = self._seen(), self.get_best()
            return {
                **progress_json(search, best),
                "best_objective_score": best.objective_score if best else None,
                "objectives": [one.to_json() for one in search.settings.objectives],
                "pareto_front_size": len(front(search)),
            }

    def get_history(self) -> list[Recommendation]:
        """Every recommendation so far, in the order in which they were given out."""
        with self._lock:
            return [self._recommendations[trial.number] for trial in self._seen().trials]

    def get_pareto_front(self) -> list[Recommendation]:
        """The recommendations that no other beats in every goal."""
        with self._lock:
            return [self._recommendations[trial.number] for trial in front(self._seen())]

    def get_status(self) -> dict[str, Any]:
        """progress, best, recommendations, pareto_front, active_rec_ids, experiment_id, seed, and
        the status of the search with its message.
        """
        with self._lock:
            best, search = self.get_best(), self._seen()
            return {
                "experiment_id": self._session.name,
                "status": search.status_name,
                "message": search.closing_reason,
                "seed": search.seed,
                "progress": self.get_progress(),
                "best": best_json(best),
                "recommendations": [one.to_json() for one in self.get_history()],
                "pareto_front": [one.to_json() for one in self.get_pareto_front()],
                "active_rec_ids": [trial.number for trial in search.running],
            }

    def is_complete(self) -> bool:
        """True when nothing will be recommended any more."""
        with self._lock:
            return self._seen().is_over

    def finish(self) -> None:
        """Close the search's file. What is known can still be asked for."""
        with self._lock:
            self._is_finished = True
            self._session.close()

    @property
    def wandb_group(self) -> str:
        """The group of Weights & Biases that the trainings of this search join."""
        return str(self._wandb.get("group") or f"automl_{self._session.name}")

    def _advance(self, known: Known) -> Advance:
        """One step of the search, kept before it is answered."""
        with self._lock:
            with self._session.database.write(synced=True) as db:
                self._reload(db)
                answer = self._answer_to(known)
                if answer.search is self._search:
                    return answer
                records = {trial.number: self._renewed(trial) for trial in answer.changed}
                changed = [(trial, records[trial.number]) for trial in answer.changed]
                revision = write_search(db, answer.search, self._about(), changed)
            self._search, self._revision = answer.search, revision
            self._records.update(records)
            self._fill(answer.changed)
            return answer

    def _answer_to(self, known: Known) -> Advance:
        """What `advance` says; where it was asked that already, what it said then."""
        search, ahead = self._search, self._ahead
        is_timed = search.settings.max_wall_time is not None
        if ahead and ahead[0] is search and known == Known() and not is_timed:
            return ahead[1]
        return advance(search, replace(known, wall_seconds=self._wall_seconds()))

    def _look_ahead(self) -> None:
        """End the search where nothing is left to do; else remember what comes next."""
        search = self._search
        if search.running or search.is_over:
            return
        ahead = advance(search, Known(wall_seconds=self._wall_seconds()))
        self._ahead = (search, ahead)
        if ahead.search.is_over:
            self._advance(Known())

    def _renewed(self, trial: Trial) -> Record:
        """The record of a trial that has changed. One that trains further is pending again."""
        now = now_text()
        record = self._records.get(trial.number, Record(now, now))
        before = self._search.trials[trial.number - 1 : trial.number]
        is_further = bool(before) and before[0].rung != trial.rung
        return replace(record, last_modified=now, status=PENDING if is_further else record.status)

    def _reload(self, db: sqlite3.Connection) -> None:
        """Take over what another process has written since."""
        if revision_of(db) == self._revision:
            return
        kept = load_kept(db)
        if kept is None:
            raise UsageError(f"{self._session.path} was emptied.")
        self._search, self._records = kept.search, dict(kept.records)
        self._revision = kept.revision
        self._fill(kept.search.trials)

    def _seen(self) -> Search:
        """The search as it is now, whoever has changed it."""
        if not self._is_finished:
            with self._session.database.read() as db:
                is_changed = revision_of(db) != self._revision
            if is_changed:
                with self._session.database.write() as db:
                    self._reload(db)
        return self._search

    def _fill(self, trials: Iterable[Trial]) -> None:
        """Bring the recommendations of these trials up to date."""
        for trial in trials:
            found = self._recommendations.get(trial.number)
            if found is None:
                found = empty_recommendation(self._search, trial)
                found.keep_job = lambda job, number=trial.number: self._assign_job(number, job)
                self._recommendations[trial.number] = found
            fill_recommendation(found, self._search, trial, self._records)

    def _keep_record(self, number: int, **changes: Any) -> None:
        """Keep what the caller says of a recommendation beside its result."""
        known = {name: value for name, value in changes.items() if value is not None}
        record = replace(self._records[number], last_modified=now_text(), **known)
        trial = self._search.trial(number)
        with self._session.database.write(synced=True) as db:
            self._reload(db)
            self._revision = write_search(db, self._search, self._about(), [(trial, record)])
        self._records[number] = record
        self._fill([trial])

    def _assign_job(self, number: int, job: str) -> None:
        with self._lock:
            jobs = {**self._records[number].jobs, str(self._search.trial(number).rung): job}
            self._keep_record(number, jobs=jobs)

    def _given_again(self) -> list[Recommendation]:
        """What was given out before this object was made, and has no result yet."""
        with self._lock:
            again, self._again = self._again, []
            return [
                self._recommendations[number]
                for number in again
                if self._search.trial(number).is_running
            ]

    def _started(self, answer: Advance) -> list[Recommendation]:
        with self._lock:
            return [
                self._recommendations[one.trial]
                for one in answer.decisions
                if isinstance(one, (StartTrial, PromoteTrial))
            ]

    def _asked(self, question: AskModel) -> Known:
        """The language model's answer, or why there is none."""
        endpoint = endpoint_of(self._search.settings, os.environ, self._key)
        try:
            return Known(answer=ask_model(endpoint, question.messages))
        except ModelUnusable as error:
            return Known(model_failure=self._redact(str(error)))

    def _refuse_failure(self) -> None:
        closing = self._search.closing
        if closing and closing.status is EndStatus.ERROR:
            raise SearchFailed(f"The search {self._session.name} has failed: {closing.reason}.")

    def _trial(self, rec_id: int) -> Trial:
        search = self._seen()
        try:
            return search.trial(int(rec_id))
        except (KeyError, TypeError, ValueError):
            known = (
                f"They are 1 to {len(search.trials)}." if search.trials else "There is none yet."
            )
            raise UsageError(f"this search has no recommendation {rec_id!r}.", known) from None

    def _told(self, feedback: Any) -> str:
        """Feedback as a text, without secrets."""
        plain = self._plain(feedback)
        if plain is None:
            return ""
        return plain if isinstance(plain, str) else json.dumps(plain)

    def _plain(self, feedback: Any) -> Any:
        """Feedback as plain JSON, without secrets; what JSON does not know is told as a text."""
        if feedback is None:
            return None
        return json.loads(self._redact(json.dumps(feedback, default=str)))

    def _about(self) -> dict[str, Any]:
        return {"wall_seconds": self._wall_seconds()}

    def _wall_seconds(self) -> float:
        """Seconds that the search has taken so far, without those in which nobody held it open."""
        return self._spent_before + time.monotonic() - self._opened


def now_text() -> str:
    return to_iso(utc_now()) or ""


def redactor_of(keys: Sequence[str]) -> Redactor:
    """Hides these keys, and the secrets of the environment."""
    known = [value for name, value in os.environ.items() if is_secret_name(name)]
    return Redactor.of_values([*keys, *known])


def best_json(best: Recommendation | None) -> dict[str, Any]:
    return {
        "rec_id": best.id if best else None,
        "specs": dict(best.specs) if best else {},
        "metric_value": best.result if best else None,
        "objective_score": best.objective_score if best else None,
        "objective_values": dict(best.objective_values) if best else {},
    }
