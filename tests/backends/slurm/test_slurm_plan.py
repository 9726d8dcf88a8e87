"""From a job to what is sent to a cluster, also to one that does not answer."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.cluster.facts_here import (
    ATTEMPT,
    BASE,
    IMAGE,
    directives,
    facts,
    job,
    planned,
    staged,
)
from tao_sdk.backends.slurm import render, rules
from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.request import SlurmRequest
from tao_sdk.backends.slurm.scripts import handover
from tao_sdk.client.platform_sdk import with_details
from tao_sdk.engine.diagnose import with_job
from tao_sdk.engine.prepare import Planned
from tao_sdk.model.diagnosis import Evidence
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.plan import Plan
from tao_sdk.model.reasons import Reason
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.payload.prepared_job import pack_spec
from tao_sdk.platforms.slurm import SlurmSDK

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    ("name", "spec", "options"),
    [
        (
            "one-node",
            job(image=IMAGE, gpu_count=4, env_vars={"A": "it's $(id)\n"}),
            {"use_sqsh": False},
        ),
        (
            "two-nodes",
            job(image=IMAGE, gpu_count=8, num_nodes=2, memory="64g"),
            {"partition": "long", "use_sqsh": False},
        ),
        (
            "no-image",
            job(gpu_count=0, time_limit=timedelta(minutes=30)),
            {"qos": "normal", "requeue": False},
        ),
    ],
)
def test_the_scripts_are_as_they_were_read_and_approved(
    name: str, spec: JobSpec, options: dict[str, Any]
) -> None:
    plan = planned(spec, **options)
    text = f"{plan.request.script}\n##### task.sh\n{staged(plan, 'task.sh')}"
    assert text == (GOLDEN / f"{name}.txt").read_text()


def test_the_script_that_hands_a_job_over_is_as_it_was_read_and_approved() -> None:
    plan = planned(job(image=IMAGE, gpu_count=4, inputs={"train": "/lustre/it's here"}))
    text = handover.submit_script(
        plan.request.decisions, ATTEMPT, ["attempts/1", "specs"], handover.UNPACK_COMMAND
    )
    assert text == (GOLDEN / "submit.txt").read_text()


def test_a_further_attempt_is_planned_as_the_first_was() -> None:
    first = planned(job(image=IMAGE))
    again = render.plan_attempt(
        first.request.decisions, pack_spec(job(image=IMAGE)), replace(ATTEMPT, number=2)
    )
    script = first.request.script
    for numbered in ("attempts/{}", "attempt-{}", "tao_number={}"):
        script = script.replace(numbered.format(1), numbered.format(2))
    assert again.request.script == script


def test_a_plan_survives_the_store(tmp_path: Path) -> None:
    plan = planned(job(image=IMAGE, env_vars={"API_KEY": "value"}))
    kept = Plan.from_json(json.loads(json.dumps(plan.to_json())), ATTEMPT, SlurmRequest.from_json)
    assert kept == plan
    assert plan.secrets == ("API_KEY",)
    assert "value" not in json.dumps(plan.to_json())


# A cluster that does not answer

DEAD = {
    "SLURM_HOSTNAME": "127.0.0.1:9",
    "SLURM_USER": "nobody",
    "SLURM_BASE_RESULTS_DIR": BASE,
    "PATH": os.environ["PATH"],
}


def planned_unasked(folder: Path, spec: JobSpec, **options: Any) -> Planned:
    settings = Settings({**DEAD, "HOME": str(folder), "TAO_SDK_STATE_DIR": str(folder / "state")})
    with SlurmSDK(settings=settings) as sdk:
        return sdk.plan(spec, "slurm", options)


def test_a_silent_cluster_is_planned_for_by_what_the_job_names(tmp_path: Path) -> None:
    spec = job(image=IMAGE, gpu_count=12, num_nodes=3)
    planned = planned_unasked(tmp_path, spec, partition="big,bigger", account="vision")
    lines = directives(planned.plan)
    assert not planned.asked
    assert lines["partition"] == "big,bigger"
    assert (lines["nodes"], lines["account"]) == ("3", "vision")
    assert planned.plan.request.decisions.runtime == "pyxis"


def test_a_silent_cluster_without_a_named_partition_gives_its_default(tmp_path: Path) -> None:
    planned = planned_unasked(tmp_path, job(gpu_count=16))
    decisions = planned.plan.request.decisions
    assert "partition" not in decisions.directives
    assert (decisions.nodes, decisions.gpus) == (2, 8)
    assert not planned.plan.notes


def remember_answer(folder: Path) -> None:
    """Leave what a cluster has answered two hours ago, under the name of the silent one."""
    names = ("partitions", "nodes", "accounts", "qos", "flags", "programs", "folders", "base")
    shown = "PartitionName=nightly Default=YES MaxTime=02:00:00 MaxNodes=4 TotalNodes=4 State=UP"
    seen = dict.fromkeys((*names, "user", "version", "above"), "") | {
        "config": "ClusterName = remembered\nSLURM_VERSION = 22.05.8\n",
        "partitions": shown,
        "nodes": "nightly|4|128|gpu:8",
    }
    answer = {"time": time.time() - 7200, "base": BASE, "seen": seen}
    folder.mkdir(parents=True)
    (folder / "nobody@127.0.0.1_9.facts.json").write_text(json.dumps(answer))


def test_a_silent_cluster_is_planned_for_by_what_it_said_last(tmp_path: Path) -> None:
    remember_answer(tmp_path / "state" / "slurm")
    planned = planned_unasked(tmp_path, job(gpu_count=1))
    assert not planned.asked
    assert "The plan is made from what it said on" in planned.findings[0].what
    assert planned.plan.request.decisions.cluster == "remembered"


# A job that reaches its time limit


@pytest.mark.parametrize(
    ("site_hours", "limit"), [(None, "4h"), (timedelta(hours=2), "2h")], ids=["default", "site"]
)
def test_a_time_limit_that_the_job_does_not_name_is_told_where_it_is_reached(
    site_hours: timedelta | None, limit: str
) -> None:
    plan = planned(job(gpu_count=1), facts(Site(BASE, time=site_hours)))
    assert plan.limits == {"time_limit": limit}
    ended = Job(id="digits-0123456789", name="digits", platform="slurm", message="")
    seen = Evidence(phase="failed", reason="TIMEOUT on n1", reason_code=Reason.TIME_LIMIT)
    found = rules.diagnose_job(with_job(seen, ended, AttemptRow(plan.attempt, plan.to_json())))
    assert found is not None
    assert found.what == f"The job reached its time limit ({limit})."


def test_backend_details_of_slurm_take_the_partition_and_the_name_of_the_cluster() -> None:
    details = {"backend_type": "slurm", "partition": "polar", "cluster_name": "lab", "num_gpu": 8}
    given = with_details(details, {"command": "true"}, {}, "slurm")
    assert given == {"partition": "polar", "gpu_count": 8}
