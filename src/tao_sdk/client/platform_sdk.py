"""PlatformSDK: the calls that TAO's platform documents describe, over one platform.

LocalSDK, DockerSDK and SlurmSDK derive from it; each adds nothing but its platform's name.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tao_sdk.backends.by_name import endpoints, platform_name
from tao_sdk.client.call_checks import JOB_FILE_ADVICE, is_job_file
from tao_sdk.client.carried_files import path_like_texts
from tao_sdk.client.client import Client
from tao_sdk.client.field_words import FieldWords
from tao_sdk.client.model_calls import ARGUMENTS, ModelCall, join_call, refuse_no_model
from tao_sdk.client.model_request import JoinedJob, refuse_other_place
from tao_sdk.engine.replicas import replicas
from tao_sdk.model.diagnosis import Diagnosis
from tao_sdk.model.errors import JobNotFound, TaoWarning, UsageError
from tao_sdk.model.fields import (
    FieldError,
    field_of_flag,
    lists_fields,
    settings_of,
    unknown_field,
)
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, read_spec

# The documents' names in backend_details -> ours.
OUR_NAMES = {"num_gpu": "gpu_count"}
DEFAULTS = {"image": "", "command": "", "gpu_count": 1}  # the defaults of create_job


def with_details(
    details: Mapping[str, Any], arguments: Mapping[str, Any], more: Mapping[str, Any], platform: str
) -> dict[str, Any]:
    """The keywords of create_job, joined with backend_details and the named arguments.

    cluster_name is for people: the settings decide which cluster it is. Raises SpecError if
    backend_details differs from the arguments.
    """
    given = {OUR_NAMES.get(name, name): value for name, value in details.items()}
    named = str(given.pop("backend_type", platform))
    if platform_name(named) != platform:
        why = f"This SDK runs jobs on {platform}."
        raise FieldError(
            "backend_details", f"backend_details: backend_type is {named!r}.", why, "Leave it out."
        )
    if platform == "slurm":
        given.pop("cluster_name", None)
    said = {**without_defaults(arguments), **more}
    for name, value in given.items():
        if name in said and said[name] != value:
            what = f"{name} in backend_details differs from {name} in create_job."
            raise FieldError(name, what, "", "Say it once.")
    return {**given, **more}


def without_defaults(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The named arguments of create_job that were given. An argument that equals its default counts
    as not given.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    return {
        name: value
        for name, value in given.items()
        if not isinstance(value, (str, int)) or value != DEFAULTS.get(name)
    }


def endpoint_of(platform: str, name: str, settings: Settings) -> str:
    """The name of the endpoint. Raises UsageError for a name that is no endpoint of that
    platform.
    """
    known = [each.name for each in endpoints(settings).values() if each.platform == platform]
    if name and name not in known:
        why = f"{settings.config_file} has: {', '.join(known) or 'none'}."
        raise UsageError(
            f"There is no {platform} endpoint {name!r}.", why, "Name one of them, or add it there."
        )
    return name


def missing_command(image: Any) -> FieldError:
    """The error of create_job without a command. The given image may have been meant as a command,
    or as a job file.
    """
    what = "create_job: command is missing."
    if is_job_file(image):
        why = f"{image!r} was given as the image, and reads like a job file."
        return FieldError("command", what, why, JOB_FILE_ADVICE.format(path=image))
    if image and " " in str(image):
        why = f"{image!r} was given as the image: that is the first argument."
        return FieldError("command", what, why, f"Write create_job(command={image!r}).")
    why = f"{image!r} was given as the image." if image else ""
    example = f"create_job(image={image!r}, command='...')" if image else "create_job(command=...)"
    return FieldError("command", what, why, f"Write {example}.")


class PlatformSDK(Client):
    """Runs jobs on one platform. An instance that holds live jobs watches them, so failures are
    retried and hooks fire.

    `poll_interval` is the pause (seconds) between the watcher's looks after something has changed;
    while nothing changes the pause grows, to ten times that or a minute, whichever is less. Not
    given, it begins with what the backend says is polite and stays below a minute.

    `endpoint` is the name of an endpoint of config.yaml: jobs are then run there, and listed from
    there.
    """

    def __init__(
        self,
        poll_interval: float | None = None,
        epoch_milestone_interval: int = 10,
        state_file: str | Path | None = None,
        *,
        settings: Settings | None = None,
        watch: bool = True,
        endpoint: str = "",
    ) -> None:
        settings = settings or Settings.load()
        self.endpoint = endpoint_of(self.platform, endpoint, settings)
        super().__init__(
            state_file,
            settings=settings,
            watch=watch,
            poll_interval=poll_interval,
            epoch_milestone_interval=epoch_milestone_interval,
        )

    @lists_fields(JobSpec)
    def create_job(
        self,
        image: str = "",
        command: str = "",
        gpu_count: int = 1,
        env_vars: Mapping[str, Any] | None = None,
        inputs: Any = None,
        outputs: Any = None,
        backend_details: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        **more: Any,
    ) -> Job:
        """Submit a job. `inputs` and `outputs`, when given, wrap the command (passthrough); else it
        runs as it is.

        Further keywords are JobSpec's other fields, the platform's options
        (help(sdk.options_class(sdk.platform))), and parent_job_id, by which
        `list_jobs(parent=...)` finds the job. Of a model they are model, action, data, values,
        parent, checkpoint and skill_bank, as `prepare` has them. `backend_details` may hold any of
        them too, and the documents' names backend_type, num_gpu and cluster_name. A call that is
        repeated with its `idempotency_key` returns the job of the first one. Returns at once;
        `wait(job.id)` waits. What the job should know comes as one TaoWarning a finding. Raises
        SpecError naming a field that is wrong or unknown, Refused, CredentialError, Unreachable.

        Each field, what it takes, and what it means:
        """
        named = {"image": image, "command": command, "gpu_count": gpu_count, "env_vars": env_vars}
        data = {"inputs": inputs, "outputs": outputs}
        more = with_details(backend_details or {}, {**named, **data}, more, self.platform)
        of_model = {name: more.pop(name) for name in ARGUMENTS if name in more}
        spec_fields, option_fields = (
            settings_of(JobSpec),
            settings_of(self.options_class(self.platform)),
        )
        fields = {**spec_fields, **option_fields}
        for name in more:
            if name not in fields and name != "parent_job_id":
                raise unknown_field(name, fields, "create_job: ", field_of_flag(name, fields))
        values = {name: value for name, value in more.items() if name in spec_fields}
        options = {name: value for name, value in more.items() if name in option_fields}
        given = {**named, **data, **values}
        if of_model:
            joined = self._of_model(of_model, without_defaults(given))
            parent = joined.parent.id if joined.parent else more.get("parent_job_id")
            return self._submitted_job(joined.spec, options, parent, idempotency_key)
        no_text = isinstance(given["command"], str) and not given["command"]
        if given["command"] is None or no_text:
            raise missing_command(given["image"])
        parent = more.get("parent_job_id")
        return self._submitted_job(read_spec(given), options, parent, idempotency_key)

    def _of_model(self, arguments: Mapping[str, Any], given: Mapping[str, Any]) -> JoinedJob:
        """The job of a model, for this platform."""
        refuse_no_model(arguments)
        joined = join_call(self, ModelCall(**arguments), given, self.platform)
        refuse_other_place(joined, self.endpoint or self.platform)
        return joined

    def _submitted_job(
        self,
        spec: JobSpec,
        options: Mapping[str, Any],
        parent: str | None,
        idempotency_key: str | None,
    ) -> Job:
        place = self.endpoint or self.platform
        known_parent, parent_text = self._parent_of(parent)
        submission = self.submit(
            spec, place, options, parent=known_parent, idempotency_key=idempotency_key
        )
        words = self._field_words
        texts = [words.in_fields(finding.text) for finding in submission.findings]
        for text in (*texts, *path_like_texts(spec.files), *parent_text):
            warnings.warn(TaoWarning(text), stacklevel=3)
        return submission.job

    def _parent_of(self, parent: Any) -> tuple[str | None, list[str]]:
        """The parent's id, and a note if its job is not in this store. The parent of a program
        inside a job is not. Raises UsageError if it is no text, or if several jobs have the name.
        """
        if parent is None or parent == self.settings.environ.get("TAO_JOB_ID"):
            return parent, []
        if not isinstance(parent, str):
            raise UsageError(
                f"parent_job_id is {parent!r}.", "It is the id of a job.", "Write job.id."
            )
        try:
            return self.store.resolve(parent), []
        except JobNotFound:
            return parent, [
                f"parent_job_id {parent!r} is no job of this store; it is kept as given."
            ]

    @property
    def _field_words(self) -> FieldWords:
        return FieldWords(self.options_class(self.platform))

    def diagnose(self, job_id: str) -> Diagnosis | None:
        """Diagnose the job as `Client.diagnose` does; the advice names keywords of create_job."""
        found = super().diagnose(job_id)
        return self._field_words.diagnosis(found) if found else None

    def get_failure_analysis(self, job_id: str) -> dict[str, Any] | None:
        """Analyse the failure as `Client.get_failure_analysis` does; the suggestion names keywords
        of create_job.
        """
        found = super().get_failure_analysis(job_id)
        if found is None:
            return None
        return {**found, "suggestion": self._field_words.in_fields(found["suggestion"])}

    def get_job_replicas(self, job_id: str) -> list[dict[str, Any]]:
        """One entry for each rank, in the form of the documents: its name, rank, phase and node,
        and as `readiness_issue` the problem that keeps it from running.

        One entry for the whole job if the platform does not tell its ranks apart. Raises
        JobNotFound, Unreachable.
        """
        found = replicas(self.engine, self.get_job(job_id))
        return [replica.to_json() for replica in found]
