"""Options of the SLURM backend: how to run a job on a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tao_sdk.model import fields as f
from tao_sdk.model.fields import Kind, setting

RUNTIMES = ("pyxis", "enroot", "apptainer", "none")


def word_kind(pattern: str, allowed: str) -> Kind:
    """The kind of a value that becomes an argument of sbatch.

    A value of another form is refused, so that nothing can hide in it. `allowed` describes the
    form.
    """
    return Kind(allowed, word_reader(re.compile(pattern)), {"type": "string"})


def word_reader(form: re.Pattern[str]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, cast("Sequence[Any]", value)))
        text = str(value)
        if text and not form.fullmatch(text):  # empty means not given
            raise ValueError
        return text

    return read


NAME = word_kind(r"[A-Za-z0-9_.@+-]+", "a name of letters, digits and _ . @ + -")
NAMES = word_kind(
    r"[A-Za-z0-9_.@+-]+(,[A-Za-z0-9_.@+-]+)*|cluster default partition",
    "names with commas between them",
)
FEATURES = word_kind(r"[A-Za-z0-9_.,&|()\[\]*:!=+-]+", "features of nodes, joined by & | or ,")
NODES = word_kind(r"[A-Za-z0-9_.,\[\]-]+", "nodes such as n1,n[3-8]")
ADDRESS = word_kind(r"[A-Za-z0-9_.@+-]+", "an e-mail address")


@f.lists_fields()
@dataclass(frozen=True)
class SlurmOptions:
    """What only the SLURM platform understands."""

    partition: str = setting(
        NAMES,
        "",
        "Partitions, one or several. Default: $SLURM_PARTITION, else the documented list.",
    )
    account: str = setting(
        NAME, "", "Account that is charged. Default: $SLURM_ACCOUNT, else the cluster's for you."
    )
    qos: str = setting(NAME, "", "Quality of service.")
    constraint: str = setting(FEATURES, "", "Features that the nodes must have.")
    reservation: str = setting(NAMES, "", "Reservation to run in.")
    nodelist: str = setting(NODES, "", "Nodes that must be among the job's.")
    exclude: str = setting(NODES, "", "Nodes that must not be.")
    requeue: bool | None = setting(
        f.YES_OR_NO,
        None,
        "SLURM starts the job again when a node fails or it is preempted. Default: yes.",
    )
    exclusive: bool | None = setting(
        f.YES_OR_NO, None, "Whole nodes. Default: when all their GPUs are asked for."
    )
    timeout: Any = setting(
        f.DURATION,
        None,
        "When the command is asked to end, before the time limit. Default: after 95 % of it.",
    )
    resume_on_timeout: bool = setting(
        f.YES_OR_NO,
        False,
        "At the time limit, or preempted, go on in a new SLURM job from the newest checkpoint.",
    )
    container_runtime: str | None = setting(
        f.choice(*RUNTIMES),
        None,
        "What runs the image. Default: $SLURM_CONTAINER_RUNTIME, else what the cluster has.",
    )
    mail_user: str = setting(ADDRESS, "", "Where SLURM writes when the job ends.")
    use_sqsh: bool | None = setting(
        f.YES_OR_NO, None, "Convert the image once, for all jobs. Default: yes."
    )
    force_reconvert_latest: bool = setting(f.YES_OR_NO, False, "Convert a :latest image again.")
