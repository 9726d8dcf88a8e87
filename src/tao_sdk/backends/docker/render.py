"""Render: from a prepared job to the container that will be created. Pure.

Here: the container's environment, and the plan. Not here: its mounts and the request that creates
it (job/), and the script that runs first in it (containers/start_script.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from tao_sdk.backends.containers import parse
from tao_sdk.backends.containers.containers import container_name
from tao_sdk.backends.containers.start_script import GRACE, GRACE_FILE, is_long
from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.job.container_body import (
    BACKEND_TYPE,
    DEFAULT_NETWORK,
    ContainerNeeds,
    choose_gpus,
    choose_network,
    container_body,
    count_gpus,
)
from tao_sdk.backends.docker.job.places import (
    all_mounts,
    container_user,
    folders_to_make,
    keeps_results,
    results_dir,
)
from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.backends.docker.request import DockerRequest, Surroundings
from tao_sdk.backends.job_environment import (
    attempt_variables,
    grace_file_variable,
    grace_variable,
    job_variables,
    secret_names,
)
from tao_sdk.backends.mounts import mount_of
from tao_sdk.backends.rendezvous import single_node
from tao_sdk.backends.results_place import RESULTS, ROOT, container_root, own_place
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.secrets import SecretRef
from tao_sdk.model.spec import JobSpec


def plan(
    job: PreparedJob, options: DockerOptions, facts: DockerFacts, attempt: Attempt
) -> Plan[DockerRequest]:
    """Everything that submit will do."""
    needs = container_needs(job, options, facts, attempt)
    return Plan(
        attempt=attempt,
        request=container_request(job, options, facts, attempt, needs),
        secrets=secret_names(needs.variables),
        results_dir=needs.results_dir,
        results_at=results_at(facts, attempt, needs),
        notes=tuple(plan_notes(job.spec, facts, needs.results_root)),
        release_when_over=facts.auto_remove,
        backend_details={
            "backend_type": BACKEND_TYPE,
            "num_gpu": job.spec.gpu_count,
            "container": container_name(attempt.job_id),
        },
    )


def container_needs(
    job: PreparedJob, options: DockerOptions, facts: DockerFacts, attempt: Attempt
) -> ContainerNeeds:
    """Decide the mounts, the user, the GPUs, the place of the results and the variables."""
    mounts = all_mounts(job, options, facts, attempt.job_id)
    user = container_user(options, facts, mounts, attempt.job_id)
    root = container_root(job.spec, keeps_results(mounts, attempt.job_id))
    return ContainerNeeds(
        mounts=mounts,
        user=user,
        gpus=choose_gpus(job.spec, options, facts),
        results_root=root,
        results_dir=results_dir(job.spec, facts, mounts, attempt, root),
        variables=container_variables(job.spec, options, facts, attempt, root, user),
    )


def container_request(
    job: PreparedJob,
    options: DockerOptions,
    facts: DockerFacts,
    attempt: Attempt,
    needs: ContainerNeeds,
) -> DockerRequest:
    """The request that submit sends to the daemon, and the steps before and after that."""
    return DockerRequest(
        name=container_name(attempt.job_id),
        container=container_body(job, options, facts, attempt, needs),
        environment=needs.hidden_variables,
        command=job.command if is_long(job.command) else "",
        daemon=parse.identity(facts.info) if facts.info else "",
        pull=options.pull or facts.pull,
        folders=tuple(folders_to_make(facts, needs.mounts, attempt.job_id)),
        opens_results=opens_results(needs),
        make_network=choose_network(job.spec, options, facts) == DEFAULT_NETWORK,
        surroundings=Surroundings.of(facts),
        cache=job.spec.mount_path or "",
    )


def opens_results(needs: ContainerNeeds) -> bool:
    """True if the results lie in the container's own /results, so that its user needs access."""
    if needs.results_root not in ("", RESULTS):
        return False
    return all(mount.target != RESULTS for mount in needs.mounts)


def results_at(facts: DockerFacts, attempt: Attempt, needs: ContainerNeeds) -> str:
    """The place to fetch the results from; "" if they are on this machine or in a bucket."""
    if not needs.results_dir.startswith("/"):
        return ""
    inside = own_place(needs.results_root or RESULTS, attempt)
    if mount_of(needs.mounts, inside) is None:
        return f"container {container_name(attempt.job_id)}"
    return "" if facts.local else attempt.endpoint


def container_variables(
    spec: JobSpec,
    options: DockerOptions,
    facts: DockerFacts,
    attempt: Attempt,
    root: str,
    user: str,
) -> dict[str, str | SecretRef]:
    """The job's environment: our defaults, then the spec's variables, then the fixed ones."""
    defaults = {**single_node(count_gpus(spec, options, facts)), **grace_variable(GRACE)}
    if is_callers_user(facts, user):
        defaults["HOME"] = "/tmp"  # the image has no home for an unknown user
    fixed = {
        **attempt_variables(attempt, root or RESULTS),
        **grace_file_variable(GRACE_FILE),
        "TINI_KILL_PROCESS_GROUP": "1",
    }
    if root:
        fixed[ROOT] = root
    return job_variables(spec, defaults, fixed)


def is_callers_user(facts: DockerFacts, user: str) -> bool:
    """True if the container runs with the caller's ids, and the caller is not root."""
    return user == f"{facts.uid}:{facts.gid}" and facts.uid != 0


def plan_notes(spec: JobSpec, facts: DockerFacts, root: str) -> Iterator[str]:
    """Yield the notes about results and mounts that `tao plan` and submit show."""
    if not facts.local and spec.mounts:
        yield "The daemon runs on another machine: mounts name its paths."
    if not facts.local and root:
        yield (
            "The results stay on the daemon's machine. tao results lists them; --fetch copies "
            "them here."
        )
