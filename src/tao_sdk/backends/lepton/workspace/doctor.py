"""Doctor: checks for what a new user of a Lepton workspace trips over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from tao_sdk.backends.asking import ask_side_by_side
from tao_sdk.backends.lepton.facts import Group, Shape
from tao_sdk.backends.lepton.job import names
from tao_sdk.backends.lepton.job.starting import secret_list
from tao_sdk.backends.lepton.look import Look
from tao_sdk.backends.lepton.workspace.site import refused_token
from tao_sdk.backends.lepton.workspace.survey import Survey
from tao_sdk.model.errors import TaoError
from tao_sdk.model.finding import Finding, Severity, error, warning
from tao_sdk.transports.rest import RestRefusal


def examine(look: Look, survey: Survey) -> list[Finding]:
    """The findings. A workspace that cannot be reached, or that refuses, is a finding too."""
    try:
        look.rest.ask("GET", "/workspace")
        return [reached(look.rest.server.name), *has_findings(survey), *leftover_findings(look)]
    except RestRefusal as refused:
        if refused.status == 401:
            return [Finding.of_error(refused_token(refused.what))]
        what = f"{look.rest.server.name} refuses: {refused.what}"
        return [error(refused.code, what, "", "Check LEPTON_WORKSPACE_ID, and your rights in it.")]
    except TaoError as trouble:
        return [Finding.of_error(trouble)]


def reached(name: str) -> Finding:
    return Finding(Severity.OK, "lepton.reached", f"{name} answers, and takes the token.")


def has_findings(survey: Survey) -> Iterator[Finding]:
    """What the workspace has: its node groups with free GPUs, shapes and volumes."""
    groups, shapes = survey.groups_and_shapes()
    if not groups:
        yield error(
            "lepton.no_group",
            "The workspace has no dedicated node group.",
            "A job needs nodes.",
            "Ask who runs the workspace.",
        )
    for group in groups:
        yield Finding(Severity.OK, "lepton.group", described(survey.with_nodes(group), shapes))


def described(group: Group, shapes: Sequence[Shape]) -> str:
    """`Node group a: 12 of 16 GPUs free, shapes for jobs cpu.small, gpu.8x, volumes lustre (below
    /team).`
    """
    ids = ", ".join(shape.id for shape in shapes if shape.group == group.id)
    parts = [f"shapes for jobs {ids}" if ids else "no shapes for jobs"]
    if group.nodes is not None:
        total = sum(node.gpus for node in group.nodes)
        parts.insert(0, f"{group.free} of {total} GPUs free")
    volumes = ", ".join(
        name if path == "/" else f"{name} (below {path})" for name, path in group.volumes.items()
    )
    parts.append(f"volumes {volumes}" if volumes else "no volumes")
    return f"Node group {group.id}: {', '.join(parts)}."


def leftover_findings(look: Look) -> Iterator[Finding]:
    """A warning about secrets of ours whose job is neither there nor in the archive: of a store
    that was lost.
    """
    left: list[str] = []
    with suppress(RestRefusal):  # no right to list them
        left = [name for name in secret_list(look.rest) if name.startswith(names.PREFIX)]
    job_ids = sorted({names.job_of_secret(name) for name in left})
    has_job = dict(zip(job_ids, ask_side_by_side(look.has_jobs, job_ids), strict=True))
    stray = [name for name in left if not has_job[names.job_of_secret(name)]]
    if stray:
        yield warning(
            "lepton.secrets",
            f"{len(stray)} secrets of tao jobs are in the workspace without a job: "
            f"{', '.join(stray[:3])}.",
            "The job was removed by hand, or its store was lost.",
            "Delete them in the workspace's settings, unless a colleague's job needs them.",
        )
