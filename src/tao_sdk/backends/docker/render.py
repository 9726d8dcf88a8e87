"""From a prepared job to the container that will be created. Pure.

Here: what the container's environment is, and the plan. Not here: its mounts and the request that
creates it (job/), and what runs first in it (containers/start_script.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from tao_sdk.backends.containers import parse
from tao_sdk.backends.containers.start_script import GRACE, is_long
from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.job.container_body import (
    DEFAULT_NETWORK,
    Inside,
    chosen_gpus,
    container_body,
    container_name,
    gpu_number,
    network_name,
)
from tao_sdk.backends.docker.job.places import (
    RESULTS,
    all_mounts,
    container_user,
    kept_folders,
    names_results_place,
    results_dir,
    results_root,
)
from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.backends.docker.request import DockerRequest, Surroundings
from tao_sdk.backends.job_environment import asked_variables, identity, secret_names
from tao_sdk.backends.mounts import mount_of
from tao_sdk.backends.rendezvous import single_node
from tao_sdk.backends.results_place import ROOT, own_place
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.secrets import SecretRef
from tao_sdk.model.spec import JobSpec


def plan(
    job: PreparedJob, options: DockerOptions, facts: DockerFacts, attempt: Attempt
) -> Plan[DockerRequest]:
    """Everything that submit will do."""
    inside = inside_of(job, options, facts, attempt)
    return Plan(
        attempt=attempt,
        request=request(job, options, facts, attempt, inside),
        secrets=secret_names(inside.variables),
        results_dir=inside.results,
        results_at=results_at(facts, attempt, inside),
        notes=tuple(notes(job.spec, facts, inside.root)),
        release_when_over=facts.auto_remove,
        backend_details={
            "backend_type": "local-docker",
            "num_gpu": job.spec.gpu_count,
            "container": container_name(attempt),
        },
    )


def results_at(facts: DockerFacts, attempt: Attempt, inside: Inside) -> str:
    """Where to fetch the results from; "" when they are on this machine or in a bucket."""
    if not inside.results.startswith("/"):
        return ""
    if mount_of(inside.mounts, own_place(inside.root or RESULTS, attempt)) is None:
        return f"container {container_name(attempt)}"
    return "" if facts.local else attempt.endpoint


def inside_of(
    job: PreparedJob, options: DockerOptions, facts: DockerFacts, attempt: Attempt
) -> Inside:
    mounts = all_mounts(job, options, facts, attempt.job_id)
    user = container_user(options, facts, mounts, attempt.job_id)
    root = results_root(job.spec, mounts, attempt.job_id)
    return Inside(
        mounts=mounts,
        user=user,
        gpus=chosen_gpus(job.spec, options, facts),
        root=root,
        results=results_dir(job.spec, facts, mounts, attempt, root),
        variables=environment(job.spec, options, facts, attempt, root, user),
    )


def request(
    job: PreparedJob, options: DockerOptions, facts: DockerFacts, attempt: Attempt, inside: Inside
) -> DockerRequest:
    """What submit asks of the daemon, and how."""
    spec = job.spec
    return DockerRequest(
        name=container_name(attempt),
        container=container_body(job, options, facts, attempt, inside),
        environment=inside.delivered,
        command=job.command if is_long(job.command) else "",
        daemon=parse.identity(facts.info) if facts.info else "",
        pull=options.pull or facts.pull,
        folders=tuple(kept_folders(facts, inside.mounts, attempt.job_id)),
        opens_results=opens_results(inside),
        make_network=network_name(spec, options, facts) == DEFAULT_NETWORK,
        surroundings=Surroundings.of(facts),
        cache=spec.mount_path or "",
    )


def opens_results(inside: Inside) -> bool:
    """Whether the results lie in the container's own /results."""
    return inside.root in ("", RESULTS) and not any(
        each.target == RESULTS for each in inside.mounts
    )


def environment(
    spec: JobSpec,
    options: DockerOptions,
    facts: DockerFacts,
    attempt: Attempt,
    root: str,
    user: str,
) -> dict[str, str | SecretRef]:
    """Ours, then what the job asks for, then what nobody may change."""
    is_mapped = user == f"{facts.uid}:{facts.gid}" and facts.uid != 0
    return {
        **single_node(gpu_number(spec, options, facts)),
        "TAO_GRACE": str(GRACE),
        **({"HOME": "/tmp"} if is_mapped else {}),
        **asked_variables(spec),
        **({ROOT: root} if root else {}),
        "TAO_RESULTS_DIR": own_place(root or RESULTS, attempt),
        **identity(attempt),
        "TINI_KILL_PROCESS_GROUP": "1",
    }


def notes(spec: JobSpec, facts: DockerFacts, root: str) -> Iterator[str]:
    if spec.outputs and not root and not names_results_place(spec, []):
        yield (
            "The results will lie in the container and be lost with it: mount a folder at "
            "/results to keep them."
        )
    if not facts.local and spec.mounts:
        yield "The daemon is on another machine: mounts name its paths."
    if not facts.local and root:
        yield (
            "The results will lie on the daemon's machine: tao results shows them, and with "
            "--fetch brings them here."
        )
