"""Plans that stores hold: opened by this version, they are sent as they were."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tao_sdk.backends.docker.request import DockerRequest
from tao_sdk.backends.kubernetes.request import KubernetesRequest
from tao_sdk.backends.lepton.request import LeptonRequest
from tao_sdk.backends.local.request import LocalRequest
from tao_sdk.backends.slurm.render import plan_attempt
from tao_sdk.backends.slurm.request import SlurmRequest
from tao_sdk.model.job import AttemptRow
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.spec import JobSpec

RECORDED = (
    Path(__file__).parents[1] / "recorded" / "plans"
)  # written before a plan's request had a type
REQUESTS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "local": LocalRequest.from_json,
    "docker": DockerRequest.from_json,
    "slurm": SlurmRequest.from_json,
    "kubernetes": KubernetesRequest.from_json,
    "lepton": LeptonRequest.from_json,
}


def recorded(platform: str) -> dict[str, dict[str, Any]]:
    return json.loads((RECORDED / f"{platform}.json").read_text())


def opened(platform: str, name: str) -> Plan[Any]:
    kept = recorded(platform)[name]
    return Plan.from_json(kept["plan"], Attempt(**kept["attempt"]), REQUESTS[platform])


CASES = [(platform, name) for platform in REQUESTS for name in recorded(platform)]


@pytest.mark.parametrize(("platform", "name"), CASES)
def test_a_plan_of_an_earlier_store_is_sent_as_it_was(platform: str, name: str) -> None:
    kept = recorded(platform)[name]["plan"]
    again = json.loads(json.dumps(opened(platform, name).to_json()))
    assert {field: again[field] for field in kept} == kept


def test_a_finding_of_an_earlier_store_says_the_same() -> None:
    kept = recorded("slurm")["config-0"]["plan"]["request"]["parts"]["findings"][0]
    again = opened("slurm", "config-0").request.decisions.findings[0]
    assert (again.what, again.why, again.next, again.command) == (
        kept["what"],
        kept["evidence"],
        kept["fix"],
        "",
    )


@pytest.mark.parametrize(("platform", "name"), CASES)
def test_a_plan_is_the_same_after_the_store(platform: str, name: str) -> None:
    plan = opened(platform, name)
    kept = json.loads(json.dumps(plan.to_json()))
    assert Plan.from_json(kept, plan.attempt, REQUESTS[platform]) == plan


def test_a_plan_of_an_earlier_store_has_as_many_logs_as_nodes() -> None:
    kept = recorded("slurm")["root-1"]
    assert opened("slurm", "root-1").ranks == 2
    assert AttemptRow(Attempt(**kept["attempt"]), kept["plan"]).ranks == 2
    assert opened("local", "config-0").ranks == 1


def test_a_plan_of_an_earlier_store_says_where_to_fetch_the_results() -> None:
    assert opened("docker", "config-0-near").results_at == "container tao-job-digits-0123456789"
    assert opened("docker", "kept-0-near").results_at == ""


def test_a_plan_of_an_earlier_store_says_where_its_command_started() -> None:
    kept = recorded("local")["config-0"]
    assert opened("local", "config-0").start_folder == "/work/my project"
    assert AttemptRow(Attempt(**kept["attempt"]), kept["plan"]).start_folder == "/work/my project"
    assert opened("docker", "config-0-near").start_folder == ""


def test_a_further_attempt_of_an_earlier_stores_job_asks_for_the_same_and_starts_the_same() -> None:
    first = opened("slurm", "root-1")
    again = plan_attempt(
        first.request.decisions, PreparedJob(JobSpec(command="t"), "t"), first.attempt
    )
    assert replace(again.request, script="") == replace(first.request, script="")
    assert of_slurm(again.request.script) == of_slurm(first.request.script)


def of_slurm(script: str) -> list[str]:
    """What a batch script says to SLURM's programs: its directives, and how it
    starts the command.
    """
    return [line for line in script.splitlines() if line.startswith(("#SBATCH", "  srun"))]
