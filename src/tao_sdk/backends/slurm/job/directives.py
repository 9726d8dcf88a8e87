"""Directives: the #SBATCH lines of a job, patched by the job's `native`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tao_sdk.backends.slurm.facts import SlurmFacts
from tao_sdk.backends.slurm.job.shape import Shape, minutes
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.units import parse_size

# Directives that `native` may not change: by them a job is found again, or they belong to the way
# in which it is submitted.
OURS = frozenset(
    {"job-name", "comment", "output", "error", "open-mode", "array", "wrap", "parsable", "chdir",
         "wait", "hold",
     "test-only", "dependency", "input", "batch", "clusters"}
)  # fmt: skip


def directives(
    spec: JobSpec, options: SlurmOptions, facts: SlurmFacts, wants: Shape
) -> dict[str, str]:
    """Name -> value; "" for a flag."""
    requeue = facts.site.requeue if options.requeue is None else options.requeue
    account = options.account or word(facts.site.account, "SLURM_ACCOUNT")
    given = {
        "nodes": str(wants.nodes),
        "ntasks": str(wants.nodes),
        "ntasks-per-node": "1",
        "gres": f"gpu:{wants.gpus}" if wants.gpus else None,
        "cpus-per-task": str(wants.cpus),
        "mem": f"{max(1, parse_size(spec.memory) // 2**20)}M" if spec.memory else None,
        "exclusive": "" if wants.exclusive else None,
        "wait-all-nodes": "1" if wants.nodes > 1 else None,
        "time": minutes(wants.time),
        "partition": wants.partition or None,
        "account": account or None,
        "qos": options.qos or None,
        "constraint": options.constraint or None,
        "reservation": options.reservation or None,
        "nodelist": options.nodelist or None,
        "exclude": options.exclude or None,
        "mail-user": options.mail_user or None,
        "mail-type": "END,FAIL" if options.mail_user else None,
        "requeue" if requeue else "no-requeue": "",
    }
    return patched({name: value for name, value in given.items() if value is not None}, spec.native)


def word(value: str, name: str) -> str:
    if value and not re.fullmatch(r"[A-Za-z0-9_.@+-]+", value):
        raise SpecError(
            f"{name} is {value!r}.", "", "It is a name of letters, digits and _ . @ + -."
        )
    return value


def patched(given: Mapping[str, str], native: Mapping[str, Any]) -> dict[str, str]:
    """`native`, a map of sbatch's directives, laid over ours: true for a flag, false or null to
    leave one out.
    """
    merged = dict(given)
    for name, value in native.items():
        plain_name = name.removeprefix("--")
        if not re.fullmatch(r"[a-z][a-z0-9-]*", plain_name):
            raise FieldError(
                "native",
                f"native has {name!r}, which is no directive of sbatch.",
                "",
                "Write e.g. mail-type: END",
            )
        if plain_name in OURS:
            raise FieldError(
                "native",
                f"native has {plain_name}.",
                "By that the job is found again; it stays as it is.",
                "Leave it out.",
            )
        if value is None or value is False:
            merged.pop(plain_name, None)
        else:
            merged[plain_name] = "" if value is True else directive_value(plain_name, value)
    return merged


def directive_value(name: str, value: Any) -> str:
    text = (
        ",".join(map(str, cast("Sequence[Any]", value)))
        if isinstance(value, (list, tuple))
        else str(value)
    )
    if not re.fullmatch(r"[A-Za-z0-9_.,:;@%/&|()\[\]*!=+-]+", text):
        why = "It would stand in the batch script, where spaces, quotes and $ mean something."
        raise FieldError(
            "native",
            f"native.{name} is {text!r}.",
            why,
            "Use letters, digits and _ . , : ; @ % / & | ( ) [ ] * ! = + -.",
        )
    return text
