"""Checks of a plan: errors that would stop the job, and warnings for its user. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tao_sdk.backends.lepton.facts import Group, LeptonFacts, Node
from tao_sdk.backends.lepton.job.names import MOUNTS
from tao_sdk.backends.lepton.parse import part
from tao_sdk.backends.lepton.request import Decisions, LeptonRequest
from tao_sdk.backends.results_place import RESULTS
from tao_sdk.model.finding import Finding, error, warning
from tao_sdk.model.plan import Plan


def check(plan: Plan[LeptonRequest], facts: LeptonFacts) -> list[Finding]:
    """Errors that would stop the job, and warnings that its user should read."""
    decisions = plan.request.decisions
    group = next((one for one in facts.groups if one.id == decisions.group), None)
    return [*room_findings(decisions, group, allowed_nodes(plan)), *results_findings(plan)]


def allowed_nodes(plan: Plan[LeptonRequest]) -> Sequence[str]:
    """The nodes that the job names; none if it may run on any."""
    affinity = part(plan.request.job["spec"], "affinity")
    return affinity.get("allowed_nodes_in_node_group") or ()


def room_findings(
    decisions: Decisions, group: Group | None, node_ids: Sequence[str]
) -> Iterator[Finding]:
    """An error for a job that never fits on the group's nodes, a warning for one that waits."""
    if group is None or group.nodes is None or not decisions.gpus:
        return
    able = [node for node in group.allowed_nodes(node_ids) if node.gpus >= decisions.gpus]
    asked = f"{decisions.nodes} x {decisions.gpus} GPUs"
    if len(able) < decisions.nodes:
        yield error(
            "lepton.no_room",
            f"The node group {group.id} cannot run {asked}.",
            f"It has {len(able)} nodes with that many GPUs on which the job may run.",
            "Ask for less, or name another node group: --dedicated-node-group ID",
        )
        return
    free = [node for node in able if node.free >= decisions.gpus]
    if len(free) >= decisions.nodes:
        return
    yield warning(
        "lepton.busy",
        f"The job has to wait: of {len(able)} nodes in {group.id}, {len(free)} have room for it.",
        why_busy(able),
    )


def why_busy(nodes: Sequence[Node]) -> str:
    """Who holds the GPUs of the nodes, and which nodes take no job now."""
    holders = sorted({holder for node in nodes for holder in node.holders})
    why = f"Its GPUs are held by {', '.join(holders)}." if holders else "Others hold its GPUs."
    closed = ", ".join(node.name for node in nodes if not node.usable)
    return f"{why} No job starts now on {closed}, by the workspace." if closed else why


def results_findings(plan: Plan[LeptonRequest]) -> Iterator[Finding]:
    if plan.results_dir.startswith("s3://"):
        return
    place = plan.results_dir
    mounts = [str(mount["mount_path"]) for mount in plan.request.job["spec"].get("mounts") or ()]
    if any(place == mount or place.startswith(f"{mount}/") for mount in mounts):
        return
    yield warning(
        "output.ephemeral",
        "The results stay in the job's container and are lost with it.",
        f"No volume is mounted at {RESULTS} or below {MOUNTS}, and no bucket is named.",
        "Set TAO_RESULTS_ROOT=s3://bucket/prefix, or mount a volume: mounts: [volume:/results].",
    )
