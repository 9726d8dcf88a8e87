"""From a prepared job to the plan: the objects to create. Pure.

Here: the decisions that hold for every attempt, the environment, and the plan. Not here: the
manifests (job/manifests.py), and the checks of a plan (job/checks.py).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

from tao_sdk.backends.gpu_spread import spread_gpus
from tao_sdk.backends.job_environment import (
    attempt_variables,
    grace_variable,
    job_variables,
    secret_names,
)
from tao_sdk.backends.kubernetes.facts import KubernetesFacts, Node
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.job.fitting import may_use
from tao_sdk.backends.kubernetes.job.manifests import (
    GRACE,
    PodNeeds,
    job_manifest,
    service_manifest,
)
from tao_sdk.backends.kubernetes.job.native import patched_job
from tao_sdk.backends.kubernetes.job.pod_group import SCHEDULERS, joined_job
from tao_sdk.backends.kubernetes.job.start_script import start_script
from tao_sdk.backends.kubernetes.job.storage import (
    VolumeMount,
    address_of,
    read_volume_mounts,
    results_mount,
)
from tao_sdk.backends.kubernetes.options import AUTO, WAIT, KubernetesOptions
from tao_sdk.backends.kubernetes.request import Decisions, KubernetesRequest
from tao_sdk.backends.rendezvous import MASTER_PORT, rendezvous, single_node
from tao_sdk.backends.results_place import RESULTS, ROOT, bucket_root, container_root, own_place
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.model.plan import Attempt, Plan, StagedFile
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.secrets import SecretRef
from tao_sdk.model.spec import JobSpec

LONGEST_ARGUMENT = 96 * 1024  # bytes of a command in the Job; Linux takes 128 KiB
PART = 900 * 1024  # bytes of a command in one ConfigMap; Kubernetes takes 1 MiB
RANK_VARIABLE = "NODE_RANK"  # with several pods, each pod sets its own
SHARED_PORTS = range(15000, 29000)  # below the ports of Services and of outgoing connections


def plan(
    job: PreparedJob, options: KubernetesOptions, facts: KubernetesFacts, attempt: Attempt
) -> Plan[KubernetesRequest]:
    """The plan of everything that submit will do. Raises SpecError for a job that no cluster can
    run.
    """
    return build(decide(job.spec, options, facts), job, options, attempt)


def decide(spec: JobSpec, options: KubernetesOptions, facts: KubernetesFacts) -> Decisions:
    nodes, gpus = pods_and_gpus(spec, options, facts)
    refuse_gang_in_queue(options)
    return Decisions(
        namespace=options.namespace or facts.namespace,
        nodes=nodes,
        gpus=gpus,
        cluster=facts.cluster,
        context=facts.context,
        pull_registry=facts.pull_registry,
        gang_scheduler=facts.gang_scheduler if wants_scheduler(options, nodes) else "",
    )


def wants_scheduler(options: KubernetesOptions, nodes: int) -> bool:
    """True if a gang scheduler may start the ranks. A queue takes all ranks at once itself."""
    return nodes > 1 and options.gang == AUTO and not options.queue


def refuse_gang_in_queue(options: KubernetesOptions) -> None:
    if options.gang == WAIT and options.queue:
        raise FieldError(
            "gang",
            "gang is wait, and queue is given too.",
            "The queue alone suspends and resumes the job; it takes all ranks at once.",
            "Leave gang out.",
        )


def pods_and_gpus(
    spec: JobSpec, options: KubernetesOptions, facts: KubernetesFacts
) -> tuple[int, int]:
    """(number of pods, GPUs of each). If the nodes are not known, the job's own numbers count.

    Raises FieldError if gpu_count is -1 and no node's GPUs are known.
    """
    largest = largest_node(facts.nodes or (), options)
    if largest:
        return spread_gpus(spec, largest, "that the job may use")
    if spec.gpu_count < 0:
        raise FieldError(
            "gpu_count",
            "gpu_count is -1: all GPUs of a node.",
            facts.nodes_unseen or f"No node that the job may use has {options.gpu_resource}.",
            "Say how many.",
        )
    return spec.num_nodes or 1, spec.gpu_count


def largest_node(nodes: Sequence[Node], options: KubernetesOptions) -> int:
    """The GPU count of the largest node that the job may use; 0 if there is none."""
    counts = [
        node.allocatable.get(options.gpu_resource, 0) for node in nodes if may_use(node, options)
    ]
    return int(max(counts, default=0))


def build(
    decisions: Decisions, job: PreparedJob, options: KubernetesOptions, attempt: Attempt
) -> Plan[KubernetesRequest]:
    """The plan of one attempt. A further attempt is built from the same decisions."""
    spec = job.spec
    mounts = read_volume_mounts(spec.mounts)
    port = shared_port(attempt) if options.host_network else MASTER_PORT
    variables = pod_variables(spec, mounts, meeting_point(decisions, attempt, port), attempt)
    parts = command_parts(job.command)
    needs = PodNeeds(
        spec=spec,
        options=options,
        attempt=attempt,
        namespace=decisions.namespace,
        nodes=decisions.nodes,
        gpus=decisions.gpus,
        script=start_script(
            limit=spec.time_limit.total_seconds() if spec.time_limit else None,
            grace=GRACE,
            rank0=master(attempt) if decisions.nodes > 1 else "",
            in_parts=bool(parts),
        ),
        parts=len(parts),
        command=job.command,
        variables=variables,
        mounts=mounts,
        results_dir=results_dir(spec, mounts, attempt),
        pull_registry=decisions.pull_registry,
        gang_scheduler=decisions.gang_scheduler,
    )
    return Plan(
        attempt=attempt,
        request=KubernetesRequest(
            job=planned_job(needs, decisions),
            service=service_manifest(needs),
            environment={n: v for n, v in variables.items() if isinstance(v, SecretRef)},
            parts=len(parts),
            waits_in_queue=bool(options.queue),
            decisions=decisions,
        ),
        files=tuple(
            StagedFile(f"command-{part:03}", content) for part, content in enumerate(parts)
        ),
        secrets=secret_names(variables),
        results_dir=needs.results_dir,
        results_at=results_at(needs),
        notes=tuple(plan_notes(options, decisions)),
        ranks=decisions.nodes,
        backend_details={
            "backend_type": "kubernetes",
            "namespace": decisions.namespace,
            "job_name": needs.name,
            "num_gpu": decisions.gpus * decisions.nodes,
            "num_nodes": decisions.nodes,
        },
    )


def planned_job(needs: PodNeeds, decisions: Decisions) -> dict[str, Any]:
    """The Job with its gang scheduler and with what `native` changes."""
    body = job_manifest(needs)
    if decisions.gang_scheduler:
        body = joined_job(body, decisions.gang_scheduler)
    return patched_job(body, needs.spec.native)


def command_parts(command: str) -> list[bytes]:
    """The parts of a command that is too long for one argument; empty for a shorter command."""
    data = command.encode("utf-8", "surrogateescape")
    if len(data) <= LONGEST_ARGUMENT:
        return []
    return [data[start : start + PART] for start in range(0, len(data), PART)]


def master(attempt: Attempt) -> str:
    """The DNS name of rank 0 in the cluster."""
    name = names.job_name(attempt)
    return f"{name}-0.{name}"


# The environment


def pod_variables(
    spec: JobSpec, mounts: Sequence[VolumeMount], meeting: Mapping[str, str], attempt: Attempt
) -> dict[str, str | SecretRef]:
    root = results_root(spec, mounts)
    fixed = attempt_variables(attempt, root or RESULTS)
    if root:
        fixed[ROOT] = root
    variables = job_variables(spec, {**meeting, **grace_variable(GRACE)}, fixed)
    refuse_odd_names(variables)
    return variables


def shared_port(attempt: Attempt) -> int:
    """A job's port on its nodes' network, where several jobs may listen: one of SHARED_PORTS."""
    return SHARED_PORTS[crc32(attempt.job_id.encode()) % len(SHARED_PORTS)]


def meeting_point(decisions: Decisions, attempt: Attempt, port: int) -> dict[str, str]:
    """The variables with which the ranks find each other; each pod adds its own rank."""
    if decisions.nodes == 1:
        return single_node(decisions.gpus, port)
    known = rendezvous(decisions.nodes, decisions.gpus, "", master(attempt), port)
    return {name: value for name, value in known.items() if name != RANK_VARIABLE}


def refuse_odd_names(variables: dict[str, str | SecretRef]) -> None:
    """Raise SpecError for a variable name that no shell could use: Kubernetes refuses it."""
    for name in variables:
        if not name.replace("_", "a").isalnum() or not name.isascii() or name[0].isdigit():
            raise SpecError(
                f"env_vars has {name!r}, which is no name of a variable.",
                "It has letters, digits and _, and does not begin with a digit.",
                "Rename it.",
            )


# Results


def results_root(spec: JobSpec, mounts: Sequence[VolumeMount]) -> str:
    """The pods' folder for the results of all jobs; "" if no such folder outlives the pods."""
    return container_root(spec, results_mount(mounts) is not None)


def results_dir(spec: JobSpec, mounts: Sequence[VolumeMount], attempt: Attempt) -> str:
    """The results folder of an attempt: in a bucket, on a claim, else in the pod."""
    root = results_root(spec, mounts)
    bucket = bucket_root(spec, root)
    if bucket:
        return own_place(bucket, attempt)
    inside = own_place(root or RESULTS, attempt)
    mount = innermost(mounts, inside)
    if mount is None or not mount.scheme:
        return inside
    return f"{address_of(mount)}/{posixpath.relpath(inside, mount.target)}"


def innermost(mounts: Sequence[VolumeMount], path: str) -> VolumeMount | None:
    found = [mount for mount in mounts if mount.holds(path)]
    return max(found, key=lambda mount: len(mount.target), default=None)


def results_at(needs: PodNeeds) -> str:
    """Where to fetch the results from; "" when they are in a bucket."""
    if needs.results_dir.startswith("s3://"):
        return ""
    if not needs.results_dir.startswith("/"):
        return f"namespace {needs.namespace}"
    mount = innermost(needs.mounts, needs.results_dir)
    return "the node of its pod" if mount else f"the pod of {needs.name}"


def plan_notes(options: KubernetesOptions, decisions: Decisions) -> Iterator[str]:
    if decisions.pull_registry:
        yield f"Your login to {decisions.pull_registry} goes into a Secret of the job."
    if decisions.gang_scheduler:
        yield f"{SCHEDULERS[decisions.gang_scheduler].title} starts all ranks at once, or none."
    if options.queue:
        yield f"The queue {options.queue} starts the job when it has room for it."
