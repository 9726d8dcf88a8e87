"""Render: from a prepared job to everything sent to a cluster: directives, scripts, staged files.

Pure. Here: the decisions that hold for every attempt, and the plan of one attempt. Not here: the
allocation, the directives, the required paths and the checks (job/), the preparation of an image
(images/), the scripts and the handover (scripts/).
"""

from __future__ import annotations

import json
import posixpath
import shlex
from collections.abc import Mapping
from typing import Any

from tao_sdk.backends.job_environment import (
    attempt_variables,
    grace_file_variable,
    grace_variable,
    job_variables,
    revealed,
    secret_names,
    variables_to_json,
)
from tao_sdk.backends.results_place import named_folder, root_variables
from tao_sdk.backends.slurm.facts import SlurmFacts
from tao_sdk.backends.slurm.images import containers, image_plan
from tao_sdk.backends.slurm.images.containers import NONE, Task
from tao_sdk.backends.slurm.images.image_plan import ImagePlan
from tao_sdk.backends.slurm.job import data
from tao_sdk.backends.slurm.job.allocation import Allocation, plan_allocation, slurm_seconds
from tao_sdk.backends.slurm.job.checks import spec_findings
from tao_sdk.backends.slurm.job.directives import sbatch_directives
from tao_sdk.backends.slurm.job.paths import Paths, sbatch_command
from tao_sdk.backends.slurm.options import RUNTIMES, SlurmOptions
from tao_sdk.backends.slurm.request import Decisions, SlurmRequest
from tao_sdk.backends.slurm.scripts.job_scripts import batch_script, task_script
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import plain_value
from tao_sdk.model.plan import Attempt, Plan, StagedFile
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.secrets import SecretRef
from tao_sdk.model.spec import JobSpec, remote_root
from tao_sdk.model.units import format_duration, parse_duration
from tao_sdk.net.address import path_of, scheme

LAST_SECONDS = 5  # before SLURM ends the job, for the runner to record how the command ended


def plan_job(
    job: PreparedJob, options: SlurmOptions, facts: SlurmFacts, attempt: Attempt
) -> Plan[SlurmRequest]:
    """Everything that submit will do.

    Raises SpecError if the cluster cannot do it. The error says what the cluster can do.
    """
    return plan_attempt(make_decisions(job, options, facts), job, attempt)


def make_decisions(job: PreparedJob, options: SlurmOptions, facts: SlurmFacts) -> Decisions:
    """Decide everything about a job except the attempt's number. A retry uses the same ones."""
    spec = job.spec
    allocation = plan_allocation(spec, options, facts)
    runtime = container_runtime(spec, options, facts)
    image = plan_image(spec, options, facts, runtime)
    root = results_root(spec, facts)
    mounts = data.all_mounts(job, facts, root) if image else []
    image_notes = image.notes if image else ()
    return Decisions(
        base=facts.base,
        results_root=root,
        bucket_root=remote_root(spec),
        accounting=facts.accounting,
        directives=sbatch_directives(spec, options, facts, allocation),
        nodes=allocation.nodes,
        gpus=allocation.gpus,
        exclusive=allocation.exclusive,
        timeout=allocation.timeout,
        grace=grace_seconds(allocation),
        kill_wait=facts.kill_wait,
        runtime=runtime,
        image=image,
        container=containers.build_start(runtime, Task(mounts, gpus=allocation.gpus), facts),
        environment=requested_environment(spec, root),
        checks=tuple(data.required_paths(job)),
        resume_on_timeout=options.resume_on_timeout,
        cluster=facts.cluster,
        findings=tuple(spec_findings(job, options, runtime, facts, mounts)),
        notes=(*allocation.notes, *image_notes),
    )


def plan_image(
    spec: JobSpec, options: SlurmOptions, facts: SlurmFacts, runtime: str
) -> ImagePlan | None:
    """Plan how to prepare the image. None without an image, or on a cluster that runs none."""
    if not spec.image or runtime in ("", NONE):
        return None
    return image_plan.build_image_plan(spec.image, options, facts)


def grace_seconds(allocation: Allocation) -> int:
    """The seconds that the command has to end after SIGTERM at its timeout.

    This is the time left before SLURM's limit, minus the runner's LAST_SECONDS.
    """
    left = int(slurm_seconds(allocation.time) - allocation.timeout)
    return max(LAST_SECONDS, left - LAST_SECONDS)


def plan_attempt(decisions: Decisions, job: PreparedJob, attempt: Attempt) -> Plan[SlurmRequest]:
    at = decisions.home.attempt_paths(attempt)
    batch = batch_script(decisions, at, attempt)
    texts = staged_texts(decisions, job, at, attempt, batch)
    return Plan(
        attempt=attempt,
        request=SlurmRequest(batch, tuple(sbatch_command(at, attempt)), at.job, decisions),
        files=tuple(StagedFile(path, encode_text(text)) for path, text in texts.items()),
        secrets=secret_names(decisions.environment),
        results_dir=decisions.results_dir(attempt),
        notes=decisions.notes,
        limits=shown_limits(decisions),
        ranks=decisions.nodes,
        backend_details={
            "backend_type": "slurm",
            "partition": decisions.directives.get("partition", ""),
            "cluster_name": decisions.cluster,
            "num_gpu": decisions.gpus * decisions.nodes,
            "num_nodes": decisions.nodes,
            "job_dir": at.job,
        },
    )


def shown_limits(decisions: Decisions) -> dict[str, str]:
    """The time limit for sbatch, even if it is the default. Empty if it cannot be read."""
    try:
        time = parse_duration(str(decisions.directives.get("time", "")))
    except ValueError:  # `native` may name any text
        return {}
    return {"time_limit": format_duration(time)}


def staged_texts(
    decisions: Decisions, job: PreparedJob, at: Paths, attempt: Attempt, batch: str
) -> dict[str, str]:
    """The files in the job's folder before it starts: path below the folder -> text."""
    own, spec = f"attempts/{attempt.number}", job.spec
    image_files: Mapping[str, str] = decisions.image.files if decisions.image else {}
    return {
        f"{own}/command": job.command,
        f"{own}/task.sh": task_script(decisions, at, attempt),
        f"{own}/store": attempt.store_id,
        f"sbatch/job_{attempt.job_id}.sbatch": batch,
        f"specs/{attempt.job_id}.json": compact_json(
            plain_value(spec.specs if spec.specs is not None else spec.args or {})
        ),
        f"env/{attempt.job_id}.json": compact_json(shown_environment(decisions, attempt)),
        f"meta/{attempt.job_id}.json": compact_json(job_metadata(decisions, spec, attempt)),
        **({f"{own}/resumes": ""} if decisions.resume_on_timeout else {}),
        **{f"{own}/{name}": text for name, text in image_files.items()},
    }


def container_runtime(spec: JobSpec, options: SlurmOptions, facts: SlurmFacts) -> str:
    """The container runtime for the job: `none` without an image, "" if the cluster has none.

    Raises SpecError for an invalid SLURM_CONTAINER_RUNTIME.
    """
    asked = options.container_runtime or facts.site.runtime
    if asked and asked not in RUNTIMES:
        raise SpecError(
            f"SLURM_CONTAINER_RUNTIME is {asked!r}.", "", f"It is one of {', '.join(RUNTIMES)}."
        )
    return containers.choose_runtime(options, facts) if spec.image or asked else NONE


def results_root(spec: JobSpec, facts: SlurmFacts) -> str:
    """The folder on the cluster for the results of jobs.

    Results for a bucket are written here too, and sent from here. Raises SpecError for a path that
    is not absolute.
    """
    asked = named_folder(spec)
    if not asked:
        return f"{facts.base}/results"
    path = path_of(asked) if scheme(asked) in ("lustre", "slurm") else asked
    if not posixpath.isabs(path):
        raise data.path_of_this_machine("TAO_RESULTS_ROOT", asked)
    return posixpath.normpath(path)


def requested_environment(spec: JobSpec, root: str) -> dict[str, str | SecretRef]:
    """The variables that the job asks for, with secrets as references.

    The variables that differ by attempt are in own_environment.
    """
    fixed = {**root_variables(spec, root), "TAO_API_RESULTS_DIR": root}
    return dict(sorted(job_variables(spec, {}, fixed).items()))


def own_environment(decisions: Decisions, attempt: Attempt) -> dict[str, str]:
    """The variables of one attempt. The job cannot change them."""
    return {
        **attempt_variables(attempt, decisions.results_root),
        **grace_variable(decisions.grace),
        **grace_file_variable(decisions.home.attempt_paths(attempt).grace_file),
    }


def environment_file(decisions: Decisions, attempt: Attempt, secrets: Mapping[str, str]) -> str:
    """Shell text that sets the job's environment.

    This is the only file on the cluster that holds the secrets' values.
    """
    values = {**revealed(decisions.environment, secrets), **own_environment(decisions, attempt)}
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def shown_environment(decisions: Decisions, attempt: Attempt) -> dict[str, Any]:
    return {**variables_to_json(decisions.environment), **own_environment(decisions, attempt)}


def job_metadata(decisions: Decisions, spec: JobSpec, attempt: Attempt) -> dict[str, Any]:
    return {
        "job_id": attempt.job_id,
        "attempt": attempt.number,
        "name": spec.name,
        "image": spec.image,
        "labels": dict(spec.labels),
        "store": attempt.store_id,
        "results_dir": decisions.results_dir(attempt),
        "nodes": decisions.nodes,
        "gpus_per_node": decisions.gpus,
    }


def compact_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=str)


def encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
