"""Directives: the #SBATCH lines of a job, patched by the job's `native`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tao_sdk.backends.slurm.facts import SlurmFacts
from tao_sdk.backends.slurm.job.allocation import Allocation, format_minutes
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import FieldError
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.units import parse_size

# Directives that `native` may not change: they serve to find a job again, or to submit it.
PROTECTED = frozenset(
    {
        "array",
        "batch",
        "chdir",
        "clusters",
        "comment",
        "dependency",
        "error",
        "hold",
        "input",
        "job-name",
        "open-mode",
        "output",
        "parsable",
        "test-only",
        "wait",
        "wrap",
    }
)
DIRECTIVE_NAME = re.compile(r"[a-z][a-z0-9-]*")
ACCOUNT_NAME = re.compile(r"[A-Za-z0-9_.@+-]+")
PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.,:;@%/&|()\[\]*!=+-]+")  # safe in the batch script


def sbatch_directives(
    spec: JobSpec, options: SlurmOptions, facts: SlurmFacts, allocation: Allocation
) -> dict[str, str]:
    """Directive -> value; "" for a flag. The job's `native` is merged over ours."""
    given = {**resource_directives(spec, allocation), **option_directives(options, facts)}
    if wants_requeue(options, facts):
        given["requeue"] = ""
    else:
        given["no-requeue"] = ""
    return lay_native_over(given, spec.native)


def resource_directives(spec: JobSpec, allocation: Allocation) -> dict[str, str]:
    """The directives for nodes, GPUs, CPUs, memory and time."""
    given = {
        "nodes": str(allocation.nodes),
        "ntasks": str(allocation.nodes),
        "ntasks-per-node": "1",
    }
    if allocation.gpus:
        given["gres"] = f"gpu:{allocation.gpus}"
    given["cpus-per-task"] = str(allocation.cpus)
    if spec.memory:
        given["mem"] = f"{max(1, parse_size(spec.memory) // 2**20)}M"
    if allocation.exclusive:
        given["exclusive"] = ""
    if allocation.nodes > 1:
        given["wait-all-nodes"] = "1"
    given["time"] = format_minutes(allocation.time)
    if allocation.partition:
        given["partition"] = allocation.partition
    return given


def option_directives(options: SlurmOptions, facts: SlurmFacts) -> dict[str, str]:
    """The directives that an option or a setting names."""
    given = {
        "account": options.account or read_account(facts.site.account),
        "qos": options.qos,
        "constraint": options.constraint,
        "reservation": options.reservation,
        "nodelist": options.nodelist,
        "exclude": options.exclude,
    }
    if options.mail_user:
        given |= {"mail-user": options.mail_user, "mail-type": "END,FAIL"}
    return {name: value for name, value in given.items() if value}


def wants_requeue(options: SlurmOptions, facts: SlurmFacts) -> bool:
    """True if SLURM may requeue the job: the option's value, else the site's."""
    if options.requeue is None:
        return facts.site.requeue
    return options.requeue


def read_account(account: str) -> str:
    """SLURM_ACCOUNT; "" if it is not set. Raises SpecError for an invalid account name."""
    if account and not ACCOUNT_NAME.fullmatch(account):
        raise SpecError(
            f"SLURM_ACCOUNT is {account!r}.", "", "It is a name of letters, digits and _ . @ + -."
        )
    return account


def lay_native_over(given: Mapping[str, str], native: Mapping[str, Any]) -> dict[str, str]:
    """Merge the job's `native` over our directives. Raises SpecError.

    A value of true makes a flag. false and null leave the directive out.
    """
    merged = dict(given)
    for key, value in native.items():
        name = read_directive_name(key)
        if value is None or value is False:
            merged.pop(name, None)
        elif value is True:
            merged[name] = ""
        else:
            merged[name] = read_directive_value(name, value)
    return merged


def read_directive_name(key: str) -> str:
    """`mail-type` for `mail-type` and `--mail-type`. Raises SpecError for invalid names."""
    name = key.removeprefix("--")
    if not DIRECTIVE_NAME.fullmatch(name):
        raise FieldError(
            "native",
            f"native has {key!r}, which is no directive of sbatch.",
            "",
            "Write e.g. mail-type: END",
        )
    if name in PROTECTED:
        raise FieldError(
            "native",
            f"native has {name}.",
            "By that the job is found again; it stays as it is.",
            "Leave it out.",
        )
    return name


def read_directive_value(name: str, value: Any) -> str:
    """The value as text; a list is joined with commas. Raises SpecError for unsafe characters."""
    if isinstance(value, (list, tuple)):
        value = ",".join(map(str, cast("Sequence[Any]", value)))
    text = str(value)
    if not PLAIN_VALUE.fullmatch(text):
        raise FieldError(
            "native",
            f"native.{name} is {text!r}.",
            "It would stand in the batch script, where spaces, quotes and $ mean something.",
            "Use letters, digits and _ . , : ; @ % / & | ( ) [ ] * ! = + -.",
        )
    return text
