"""From a prepared job to the plan: the job to create in the workspace. Pure.

Here: the decisions that hold for every attempt, the environment, and the plan. Not here: the job's
form (job/body.py), its mounts (job/volumes.py), and the checks of a plan (job/checks.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tao_sdk.backends.contract import MiB
from tao_sdk.backends.gpu_spread import NO_GPU_ADVICE, spread_gpus
from tao_sdk.backends.job_environment import (
    attempt_variables,
    grace_variable,
    job_variables,
    secret_names,
)
from tao_sdk.backends.lepton.facts import Group, LeptonFacts, Shape
from tao_sdk.backends.lepton.job.body import GRACE, JobNeeds, job_body, refuse_ours
from tao_sdk.backends.lepton.job.names import MOUNTS
from tao_sdk.backends.lepton.job.volumes import (
    VolumeMount,
    preferred_volume,
    read_volume_mounts,
)
from tao_sdk.backends.lepton.options import AUTO, NONE, LeptonOptions
from tao_sdk.backends.lepton.request import Decisions, LeptonRequest
from tao_sdk.backends.native_patch import patched
from tao_sdk.backends.rendezvous import rendezvous, single_node
from tao_sdk.backends.results_place import (
    BUCKET,
    RESULTS,
    ROOT,
    bucket_root,
    named_folder,
    named_root,
    own_place,
)
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.secrets import SecretRef
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.units import parse_size

MASTER_PORT = 29400  # the documents' port
OWN_IN_EACH_NODE = ("NODE_RANK", "MASTER_ADDR")  # each node sets its own
CPU_SIZES = ("medium", "large", "small")  # for a job without GPUs, the documents' order
RESERVED = (
    "LEPTON_WORKSPACE_ID", "LEPTON_DEPLOYMENT_NAME", "LEPTON_JOB_NAME",
    "LEPTON_RESOURCE_ACCELERATOR_TYPE", "LEPTON_WORKSPACE_ORIGIN_URL",
)  # fmt: skip


def plan(
    job: PreparedJob, options: LeptonOptions, facts: LeptonFacts, attempt: Attempt
) -> Plan[LeptonRequest]:
    """The plan of everything that submit will do. Raises SpecError for a job that the workspace
    cannot run.
    """
    return build(decide(job.spec, options, facts), job, options, attempt)


def decide(spec: JobSpec, options: LeptonOptions, facts: LeptonFacts) -> Decisions:
    groups = groups_with_volumes(spec, options, wanted_groups(options, facts))
    choice = best_choice(spec, options, groups_with_nodes(options, groups), facts.shapes)
    volume = results_volume(spec, options, choice.group)
    return Decisions(
        workspace=facts.workspace,
        group=choice.group.id,
        shape=choice.shape.id,
        nodes=choice.nodes,
        gpus=choice.shape.gpus,
        volume=volume,
        volume_path=choice.group.volumes.get(volume, ""),
        pull_secret=facts.pull_secret,
    )


def build(
    decisions: Decisions, job: PreparedJob, options: LeptonOptions, attempt: Attempt
) -> Plan[LeptonRequest]:
    spec = job.spec
    mounts = planned_mounts(spec, decisions)
    root = results_root(spec, mounts, decisions)
    variables = job_environment(spec, decisions, root, attempt)
    needs = JobNeeds(attempt, spec, job.command, options, decisions, variables, mounts)
    refuse_ours(spec.native)
    place = own_place(bucket_root(spec, root) or root or RESULTS, attempt)
    return Plan(
        attempt=attempt,
        request=LeptonRequest(
            job=patched(job_body(needs), spec.native),
            environment={n: v for n, v in variables.items() if isinstance(v, SecretRef)},
            decisions=decisions,
        ),
        secrets=secret_names(variables),
        results_dir=place,
        results_at=results_at(place, root, decisions),
        notes=tuple(plan_notes(options, decisions)),
        ranks=decisions.nodes,
        backend_details={
            "backend_type": "lepton",
            "workspace_id": decisions.workspace,
            "resource_shape": decisions.shape,
            "dedicated_node_group": decisions.group,
            "num_gpu": decisions.gpus * decisions.nodes,
            "num_nodes": decisions.nodes,
        },
    )


# Where it runs


def wanted_groups(options: LeptonOptions, facts: LeptonFacts) -> list[Group]:
    """The node groups that the job may run on. Raises FieldError if there is none."""
    wanted = options.dedicated_node_group
    found = [group for group in facts.groups if wanted in ("", group.id, group.name)]
    if found:
        return found
    known = ", ".join(group.id for group in facts.groups) or "none"
    if not wanted:
        raise SpecError(
            f"The workspace {facts.workspace} has no dedicated node group.",
            "A job needs nodes.",
            "Ask who runs the workspace.",
        )
    raise FieldError(
        "dedicated_node_group",
        f"There is no node group {wanted!r} in the workspace.",
        f"It has: {known}.",
        "Name one of them, or leave it out.",
    )


def groups_with_volumes(
    spec: JobSpec, options: LeptonOptions, groups: Sequence[Group]
) -> list[Group]:
    """The groups that have every volume that the job names. Raises FieldError if there is none."""
    wanted = [("mounts", mount.volume) for mount in read_volume_mounts(spec.mounts)]
    if options.volume not in (AUTO, NONE):
        wanted.append(("volume", options.volume))
    for field, volume in wanted:
        having = [group for group in groups if volume in group.volumes]
        if not having:
            raise unknown_volume(field, volume, groups)
        groups = having
    return list(groups)


def groups_with_nodes(options: LeptonOptions, groups: Sequence[Group]) -> list[Group]:
    """The groups that have every node that the options name, or do not show their nodes. Raises
    FieldError if there is none.
    """
    wanted = set(options.node_ids)
    found = [
        group
        for group in groups
        if group.nodes is None or len(group.allowed_nodes(wanted)) >= len(wanted)
    ]
    if found:
        return found
    known = ", ".join(node.name for group in groups for node in group.nodes or ()) or "none"
    raise FieldError(
        "node_ids",
        f"No node group has all of the nodes {', '.join(options.node_ids)}.",
        f"There are: {known}.",
        "Name some of them that are in one group, or leave node_ids out.",
    )


@dataclass(frozen=True)
class Choice:
    """One way to run the job: so many nodes of a shape in a group."""

    group: Group
    nodes: int
    shape: Shape

    def nodes_that_fit_now(self, node_ids: Collection[str]) -> int:
        allowed = self.group.allowed_nodes(node_ids)
        return sum(node.usable and node.free >= self.shape.gpus for node in allowed)


def best_choice(
    spec: JobSpec, options: LeptonOptions, groups: Sequence[Group], shapes: Sequence[Shape]
) -> Choice:
    """The choice with the fewest nodes in a group that has room now, then in the freest group.
    Raises SpecError if the job fits in no group, with the words for that of the largest shape.
    """
    choices: list[Choice] = []
    refusals: list[tuple[int, SpecError]] = []
    for group in groups:
        own = [shape for shape in shapes if shape.group == group.id]
        try:
            choices.append(Choice(group, *nodes_and_shape(spec, options, own)))
        except SpecError as error:
            refusals.append((largest_shape(own), error))
    if not choices:
        raise max(refusals, key=lambda one: one[0])[1]

    def worth(choice: Choice) -> tuple[int, int, bool, int]:
        has_room = choice.nodes_that_fit_now(options.node_ids) >= choice.nodes
        wanted_gpus = choice.shape.gpus if spec.gpu_count < 0 else 0  # all of the largest node
        return -choice.nodes, wanted_gpus, has_room, choice.group.free

    return max(choices, key=worth)


def largest_shape(shapes: Sequence[Shape]) -> int:
    """The GPUs of the shape that has most."""
    return max((shape.gpus for shape in shapes), default=0)


def nodes_and_shape(
    spec: JobSpec, options: LeptonOptions, shapes: Sequence[Shape]
) -> tuple[int, Shape]:
    """(number of nodes, the shape of each). Raises SpecError if no shape fits."""
    if options.resource_shape:
        return spec.num_nodes or 1, named_shape(spec, options.resource_shape, shapes)
    nodes, gpus = spread_gpus(spec, largest_shape(shapes), "of these node groups")
    return nodes, fitting_shape(spec, gpus, shapes)


def named_shape(spec: JobSpec, name: str, shapes: Sequence[Shape]) -> Shape:
    found = next((shape for shape in shapes if shape.id == name), None)
    if found is None:
        raise FieldError(
            "resource_shape",
            f"There is no resource shape {name!r} for jobs here.",
            f"There are: {listed(shapes)}.",
            "Name one of them, or leave it out.",
        )
    if spec.gpu_count not in (1, found.gpus):  # 1 is also what nobody has said
        raise FieldError(
            "gpu_count",
            f"gpu_count is {spec.gpu_count}, and the resource shape {name} has {found.gpus} GPUs.",
            "Every node has what its shape has.",
            "Leave one of them out.",
        )
    return found


def fitting_shape(spec: JobSpec, gpus: int, shapes: Sequence[Shape]) -> Shape:
    """The smallest shape with exactly so many GPUs, and with the CPUs and memory of the job."""
    memory = parse_size(spec.memory) // MiB if spec.memory else 0
    exact = [shape for shape in shapes if shape.gpus == gpus]
    fitting = [
        shape for shape in exact if shape.cpus >= (spec.cpus or 0) and shape.memory_mib >= memory
    ]
    if fitting:
        return min(fitting, key=cpu_preference if not gpus else shape_size)
    if exact:
        raise FieldError(
            "cpus" if spec.cpus else "memory",
            f"No resource shape with {gpus} GPUs has that many CPUs and that much memory.",
            f"There are: {listed(exact)}.",
            "Ask for less, or for more GPUs.",
        )
    raise FieldError(
        "gpu_count",
        f"No resource shape for jobs has exactly {gpus} GPUs.",
        f"There are: {listed(shapes)}.",
        NO_GPU_ADVICE if not shapes else "Ask for as many as one of them has.",
    )


def cpu_preference(shape: Shape) -> tuple[int, float]:
    """Medium before large before small, then the smaller one."""
    size = next((place for place, word in enumerate(CPU_SIZES) if word in shape.id), len(CPU_SIZES))
    return size, shape.cpus


def shape_size(shape: Shape) -> tuple[float, int]:
    return shape.cpus, shape.memory_mib


def listed(shapes: Sequence[Shape]) -> str:
    """`gpu.8x (8 GPUs, 96 CPUs), ...`, each shape once."""
    known = {shape.id: shape for shape in shapes}.values()
    return ", ".join(f"{one.id} ({one.gpus} GPUs, {one.cpus:g} CPUs)" for one in known) or "none"


# Results and mounts


def results_volume(spec: JobSpec, options: LeptonOptions, group: Group) -> str:
    """The volume for the results; "" for none.

    A place that the job names, a bucket or a mount, goes before the volume that nobody has named.
    """
    if options.volume == NONE:
        return ""
    if options.volume != AUTO:
        return options.volume
    has_bucket = bool(spec.env_vars.get(BUCKET)) or bool(named_root(spec))
    if has_bucket or is_results_mount(read_volume_mounts(spec.mounts)):
        return ""
    return preferred_volume(group.volumes)


def is_results_mount(mounts: Sequence[VolumeMount]) -> bool:
    """True if one of the mounts takes what the job writes to RESULTS."""
    return any(mount.target == RESULTS and not mount.read_only for mount in mounts)


def unknown_volume(field: str, volume: str, groups: Sequence[Group]) -> FieldError:
    """The error for a volume that none of the groups has, beside those named before."""
    ids = ", ".join(group.id for group in groups)
    known = ", ".join({name: "" for group in groups for name in group.volumes}) or "none"
    return FieldError(
        field,
        f"The node group {ids} has no volume {volume!r} that you may use.",
        f"It has: {known}.",
        "Name one of them: mounts: [volume/folder:/place].",
    )


def planned_mounts(spec: JobSpec, decisions: Decisions) -> list[VolumeMount]:
    """The job's own mounts, and the volume for its results unless a mount has its place."""
    own = read_volume_mounts(spec.mounts)
    target = f"{MOUNTS}/{decisions.volume}"
    if not decisions.volume or any(mount.target == target for mount in own):
        return own
    return [*own, VolumeMount(decisions.volume, decisions.volume_path or "/", target)]


def results_root(spec: JobSpec, mounts: Sequence[VolumeMount], decisions: Decisions) -> str:
    """The job's folder for the results of all jobs; "" if no such folder outlives the job."""
    folder = named_folder(spec)
    if folder:
        return folder
    if named_root(spec):
        return ""
    if decisions.volume:
        return f"{MOUNTS}/{decisions.volume}/results"
    return RESULTS if is_results_mount(mounts) else ""


def results_at(place: str, root: str, decisions: Decisions) -> str:
    """Where to fetch the results from; "" when they are in a bucket."""
    if place.startswith("s3://"):
        return ""
    if not root:
        return "the job's container, which goes with the job"
    return f"the volume of node group {decisions.group}"


# The environment


def job_environment(
    spec: JobSpec, decisions: Decisions, root: str, attempt: Attempt
) -> dict[str, str | SecretRef]:
    """The variables of the job. Raises FieldError for one that the workspace sets itself."""
    for name in spec.env_vars:
        if name in RESERVED:
            raise FieldError(
                "env_vars",
                f"env_vars has {name}.",
                "The workspace sets it itself.",
                "Leave it out.",
            )
    fixed = attempt_variables(attempt, root or RESULTS)
    if root:
        fixed[ROOT] = root
    return job_variables(spec, {**meeting_point(decisions), **grace_variable(GRACE)}, fixed)


def meeting_point(decisions: Decisions) -> Mapping[str, str]:
    """The variables with which the ranks find each other. Each node adds its own rank and the
    address of rank 0, which has the job's id in it.
    """
    if decisions.nodes == 1:
        return single_node(decisions.gpus, MASTER_PORT)
    known = rendezvous(decisions.nodes, decisions.gpus, "", "", MASTER_PORT)
    return {name: value for name, value in known.items() if name not in OWN_IN_EACH_NODE}


def plan_notes(options: LeptonOptions, decisions: Decisions) -> Iterator[str]:
    if not options.resource_shape:
        yield f"The resource shape is {decisions.shape}."
    if not options.dedicated_node_group:
        yield f"The node group is {decisions.group}."
    if decisions.pull_secret:
        yield f"NGC_KEY is kept in the workspace, as the pull secret {decisions.pull_secret}."
