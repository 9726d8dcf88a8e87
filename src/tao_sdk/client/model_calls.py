"""Model calls: the arguments of Client and create_job for a model's job.

Not here: how a model is joined with the other fields of a job (model_request.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_sdk.client.carried_files import with_contents
from tao_sdk.client.model_request import (
    JoinedJob,
    ModelRequest,
    join_model,
    refuse_unseen_data,
    with_whole_paths,
)
from tao_sdk.model.fields import (
    FieldError,
    field_of_flag,
    read_settings,
    settings_of,
    unknown_field,
)
from tao_sdk.model.spec import JobSpec

if TYPE_CHECKING:
    from tao_sdk.client.client import Client

# Arguments of create_job that are of a model's job.
ARGUMENTS = ("model", "action", "data", "values", "parent", "checkpoint", "skill_bank")


@dataclass(frozen=True)
class ModelCall:
    """The arguments of a call that belong to a model's job."""

    model: str = ""
    action: str = ""
    data: Mapping[str, str | Sequence[str]] | None = None
    values: Mapping[str, Any] | None = None
    parent: str | None = ""
    checkpoint: str = ""
    skill_bank: str | Path = ""

    def request(self) -> ModelRequest:
        """The model request of the call. Relative paths of datasets start in the current folder.
        Raises FieldError.
        """
        plain = {
            "model": self.model,
            "action": self.action,
            "data": self.data or {},
            "set": self.values or {},
            "parent": self.parent or "",
            "checkpoint": self.checkpoint,
            "skill_bank": str(self.skill_bank),
        }
        read = read_settings(ModelRequest, plain)
        return read_settings(ModelRequest, {**plain, "data": with_whole_paths(read.data, Path())})


def join_call(
    client: Client, call: ModelCall, fields: Mapping[str, Any], platform: str = ""
) -> JoinedJob:
    """The job of the call. Raises FieldError for an unknown field, and as `join_model`."""
    known = settings_of(JobSpec)
    for name in fields:
        if name not in known:
            raise unknown_field(name, known, "", field_of_flag(name, known))
    if platform:
        refuse_unseen_data(read_settings(ModelRequest, {"data": call.data or {}}).data, platform)
    given = dict(fields)
    if given.get("files"):
        given["files"] = with_contents(JobSpec(files=given["files"])).files
    return join_model(call.request(), given, client)


def resolve_param(
    client: Client, job_id: str, param: str, parent: str | None, checkpoint: str
) -> str | None:
    """The value of the name; None if it is not known, or the job has no parent."""
    from tao_sdk.skills.parent import FILLERS, complete_results

    if param == "output_dir":
        return client.get_job_results_dir(job_id)
    if param not in FILLERS:
        return None
    parent = parent or client.get_job(job_id, look=False).parent
    if parent is None:
        return None
    return FILLERS[param](complete_results(client, parent), "", checkpoint)


def model_path(client: Client, job_id: str, checkpoint: str) -> str:
    from tao_sdk.skills.parent import complete_results, parent_model

    return parent_model(complete_results(client, job_id), "", checkpoint)


def check_network(client: Client, network_arch: str) -> None:
    """Raises SkillNotFound for a network that the skill bank does not have."""
    from tao_sdk.skills.bank import choose_bank
    from tao_sdk.skills.names import find_entry

    if network_arch:
        find_entry(choose_bank(settings=client.settings), network_arch)


def refuse_no_model(arguments: Mapping[str, Any]) -> None:
    """Raises FieldError for arguments of a model's job without a model."""
    name = next(iter(arguments))
    if not arguments.get("model"):
        what = f"create_job: {name} is given, and no model."
        raise FieldError(name, what, "", "Add model='NAME', or leave it out.")
