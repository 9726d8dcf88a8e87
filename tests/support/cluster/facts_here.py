"""Facts of a cluster such as the tests' one, for what needs none: nothing is asked."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.facts import Partition, SlurmFacts
from tao_sdk.backends.slurm.job import checks
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.backends.slurm.render import plan_job
from tao_sdk.backends.slurm.request import SlurmRequest
from tao_sdk.model.fields import read_settings
from tao_sdk.model.finding import Severity
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.model.spec import JobSpec
from tao_sdk.payload.prepared_job import pack_spec

BASE = "/lustre/me"
IMAGE = "nvcr.io/nvidia/tao:7.0"
HOURS = timedelta(hours=1)


def partition(name: str, **more: Any) -> Partition:
    return Partition(name, **{"nodes": 4, "gpus": 8, "cpus": 128, "max_time": 4 * HOURS, **more})


PARTITIONS = [
    partition("polar", default=True, nodes=2), partition("polar3", nodes=2), partition("polar4"),
    partition("grizzly"),
    partition("long", max_time=48 * HOURS), partition("cpu", max_time=HOURS, max_nodes=1, gpus=0),
    partition("tiny", max_time=timedelta(minutes=1)), partition("endless", max_time=None),
]  # fmt: skip


def facts(site: Site | None = None, **more: Any) -> SlurmFacts:
    given: dict[str, Any] = {
        "cluster": "taotest", "version": "22.05.8", "user": "me", "base": BASE, "accounting": True,
        "pyxis": True,
        "partitions": {each.name: each for each in PARTITIONS}, "accounts": ("mine",),
        "folders": ("/lustre",),
        "parent_accounts": {"mine": frozenset({"dept", "root"})},
        "qos": {"normal": None, "short": timedelta(minutes=10)}, **more,
    }  # fmt: skip
    return SlurmFacts(
        site=site or Site(BASE), seen_at=datetime(2026, 11, 21, tzinfo=timezone.utc), **given
    )


def job(**more: Any) -> JobSpec:
    return JobSpec(command="python train.py", **more)


ATTEMPT = Attempt("digits-0123456789", 1, "slurm", "me@login", "5708e1d")


def planned(
    spec: JobSpec, seen: SlurmFacts | None = None, attempt: Attempt = ATTEMPT, **options: Any
) -> Plan[SlurmRequest]:
    return plan_job(
        pack_spec(spec, spec.command),
        read_settings(SlurmOptions, options),
        seen or facts(),
        attempt,
    )


def directives(plan: Plan[SlurmRequest]) -> dict[str, str]:
    lines = [
        line.removeprefix("#SBATCH --")
        for line in plan.request.script.splitlines()
        if line.startswith("#SBATCH")
    ]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def staged(plan: Plan[SlurmRequest], name: str) -> str:
    return next(
        file.content.decode("utf-8", "surrogateescape")
        for file in plan.files
        if file.path.endswith(name)
    )


def findings(plan: Plan[SlurmRequest], seen: SlurmFacts | None = None) -> dict[str, Severity]:
    """Code -> severity of what is told of a plan before it is sent."""
    return {each.code: each.severity for each in checks.plan_findings(plan, seen or facts())}
