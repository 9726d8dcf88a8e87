"""A driver without jobs: it carries out the decisions of a search in memory, and a test says how
each job ends.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tao_automl.decisions import (
    AskModel,
    Decision,
    EndSearch,
    Known,
    Outcome,
    PromoteTrial,
    StartTrial,
    StopTrial,
    TrialReport,
)
from tao_automl.search import advance, create_search
from tao_automl.settings import read_settings
from tao_automl.space.search_block import read_parameters
from tao_automl.space.space import Space
from tao_automl.state import Search, search_from_json

PARAMETERS: Mapping[str, Any] = {
    "lr": {"min": 1e-5, "max": 1e-1, "default": 0.001},
    "layers": {"min": 1, "max": 8, "default": 2},
    "optimizer": {"choices": ["adam", "sgd"], "default": "adam"},
    "momentum": {"min": 0.0, "max": 0.99, "when": {"optimizer": "sgd"}},
}
Job = tuple[int, int]  # trial and rung


def small_space() -> Space:
    return read_parameters(PARAMETERS)


def new_search(seed: int = 1, space: Space | None = None, **settings: Any) -> Search:
    settings = {"metric": "val_loss", **settings}
    return create_search(read_settings(settings), space or small_space(), seed)


def loss_of(params: Mapping[str, Any], epochs: int | None = None) -> float:
    """Best at a learning rate of 0.003; better the longer it trains."""
    loss = (math.log10(params.get("lr", 0.001)) + 2.5) ** 2 + 0.1 * abs(params.get("layers", 2) - 4)
    return loss + 1 / (epochs or 100)


@dataclass
class SimulatedDriver:
    """Holds the jobs that were decided on and have not ended."""

    search: Search
    live: dict[Job, StartTrial | PromoteTrial] = field(default_factory=dict)
    started: list[StartTrial | PromoteTrial] = field(default_factory=list)
    told_to_stop: list[int] = field(default_factory=list)
    questions: list[AskModel] = field(default_factory=list)
    end: EndSearch | None = None

    def look(self, known: Known = Known()) -> tuple[Decision, ...]:  # noqa: B008
        """One call of advance, carried out."""
        answer = advance(self.search, known)
        self.search = answer.search
        for decision in answer.decisions:
            self.carry_out(decision)
        return answer.decisions

    def carry_out(self, decision: Decision) -> None:
        if isinstance(decision, (StartTrial, PromoteTrial)):
            job = (decision.trial, decision.rung)
            assert job not in [(one.trial, one.rung) for one in self.started], "a job twice"
            self.live[job] = decision
            self.started.append(decision)
        elif isinstance(decision, StopTrial):
            self.told_to_stop.append(decision.trial)
        elif isinstance(decision, AskModel):
            self.questions.append(decision)
        else:
            self.end = decision

    def finish(self, job: Job, **report: Any) -> TrialReport:
        """The report of a job that ends, complete with its loss unless told otherwise."""
        decision = self.live.pop(job)
        values = {"val_loss": loss_of(decision.params, decision.epochs)}
        found = TrialReport(*job, Outcome.COMPLETE, values)
        return replace(found, **report)

    def restart(self) -> None:
        """What a killed driver finds: the search as it was kept."""
        self.search = search_from_json(json.loads(json.dumps(self.search.to_json())))

    def run(self, objective: Callable[[StartTrial | PromoteTrial], float] | None = None) -> Search:
        """To the end, the jobs in the order in which they began."""
        self.look()
        while not self.end:
            job = next(iter(self.live))
            decision = self.live[job]
            report = self.finish(job)
            if objective:
                report = replace(report, values={"val_loss": objective(decision)})
            self.look(Known((report,)))
        return self.search


def epochs_trained(driver: SimulatedDriver) -> int:
    """Of all jobs together; what a checkpoint has is not trained again."""
    total = 0
    for decision in driver.started:
        before = getattr(decision, "from_epochs", None) or getattr(decision, "parent_epochs", None)
        total += (decision.epochs or 0) - (before or 0)
    return total
