"""The job that is created in a workspace, as its API takes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tao_sdk.backends.contract import MiB
from tao_sdk.backends.job_environment import Variables
from tao_sdk.backends.lepton.job import names
from tao_sdk.backends.lepton.job.start_script import start_script
from tao_sdk.backends.lepton.job.volumes import VolumeMount
from tao_sdk.backends.lepton.options import LeptonOptions
from tao_sdk.backends.lepton.request import Decisions
from tao_sdk.model.fields import FieldError
from tao_sdk.model.plan import Attempt
from tao_sdk.model.secrets import SecretRef
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.units import parse_size

GRACE = 8  # seconds between SIGTERM and SIGKILL, less than the 10 of a workspace
PART = 24 * 1024  # characters of a command in one argument; in UTF-8 they have at most 96 KiB
OURS = (
    ("metadata", "name"), ("metadata", "labels"), ("metadata", "id"), ("spec", "stopped"),
    ("spec", "completions"), ("spec", "parallelism"), ("spec", "log"), ("spec", "envs"),
    ("spec", "container", "command"), ("spec", "max_failure_retry"),
    ("spec", "max_job_failure_retry"),
)  # fmt: skip


@dataclass(frozen=True)
class JobNeeds:
    """What the job of an attempt is made of."""

    attempt: Attempt
    spec: JobSpec
    command: str
    options: LeptonOptions
    decisions: Decisions
    variables: Variables
    mounts: Sequence[VolumeMount]


def job_body(needs: JobNeeds) -> dict[str, Any]:
    """The job, without what `native` changes."""
    options, decisions = needs.options, needs.decisions
    limit = needs.spec.time_limit.total_seconds() if needs.spec.time_limit else None
    script = start_script(limit, GRACE, names.end_mark(needs.attempt))
    spec: dict[str, Any] = {
        "resource_shape": decisions.shape,
        "affinity": affinity(options, decisions),
        "container": {
            "image": needs.spec.image,
            "command": ["/bin/bash", "-c", script, "tao", *command_parts(needs.command)],
        },
        "completions": decisions.nodes,
        "parallelism": decisions.nodes,
        "max_failure_retry": 0,
        "max_job_failure_retry": 0,
        "envs": environment(needs.attempt, needs.variables),
        "mounts": [mount.request() for mount in needs.mounts],
        "image_pull_secrets": pull_secrets(options, decisions),
        "ttl_seconds_after_finished": options.ttl,
        "intra_job_communication": decisions.nodes > 1,
        "log": {"enable_collection": True, "save_termination_logs": True},
    }
    if needs.spec.shm_size:
        spec["shared_memory_size"] = max(parse_size(needs.spec.shm_size) // MiB, 1)
    if queue := queue_config(options):
        spec["queue_config"] = queue
    metadata = {
        "name": names.job_name(needs.attempt),
        "labels": names.labels(needs.attempt),
        "visibility": "private",
    }
    return {"metadata": metadata, "spec": spec}


def affinity(options: LeptonOptions, decisions: Decisions) -> dict[str, Any]:
    wanted: dict[str, Any] = {"allowed_dedicated_node_groups": [decisions.group]}
    if options.node_ids:
        wanted["allowed_nodes_in_node_group"] = list(options.node_ids)
    return wanted


def command_parts(command: str) -> list[str]:
    """The command as arguments of the start script, each short enough for Linux."""
    return [command[start : start + PART] for start in range(0, len(command), PART)]


def environment(attempt: Attempt, variables: Variables) -> list[dict[str, Any]]:
    """The variables, those that are secret by the name of the workspace secret."""
    secret = names.secret_names(
        attempt, [name for name, value in variables.items() if isinstance(value, SecretRef)]
    )
    return [
        {"name": name, "value_from": {"secret_name_ref": secret[name]}}
        if isinstance(value, SecretRef)
        else {"name": name, "value": value}
        for name, value in variables.items()
    ]


def pull_secrets(options: LeptonOptions, decisions: Decisions) -> list[str]:
    return [name for name in (options.image_pull_secret, decisions.pull_secret) if name]


def queue_config(options: LeptonOptions) -> dict[str, Any]:
    """How the workspace's queue treats the job; empty for its own way."""
    config: dict[str, Any] = {}
    if options.priority_class:
        config["priority_class"] = options.priority_class
    if options.preemptible:
        config["can_be_preempted"] = True
    return config


def refuse_ours(patch: Mapping[str, Any]) -> None:
    """Raise FieldError if `native` changes a field that only this backend may set."""
    for path in OURS:
        inner: Any = patch
        for name in path:
            if not isinstance(inner, Mapping) or name not in inner:
                break
            inner = inner[name]  # pyright: ignore[reportUnknownVariableType]
        else:
            raise FieldError(
                "native",
                f"native.{'.'.join(path)} cannot be changed.",
                "The job is found, started, tried again or read by it.",
                "Leave it out." if "retry" not in path[-1] else "Use --retries.",
            )
