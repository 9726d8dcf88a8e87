"""Prepare: all that can be known of a job before anything is sent or stored.

Here: the environment with its secrets set apart, the packed command, the plan, and the findings of
the checks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from tao_sdk.backends.contract import (
    AnyBackend,
    Capabilities,
    MountsInputs,
    PlanDocuments,
    ShowsDocuments,
)
from tao_sdk.engine.bucket_files import aws_words, in_bucket
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.place_facts import FactsSource, ask_place
from tao_sdk.engine.spec_findings import (
    general_findings,
    output_findings,
    placeholder_findings,
    variable_findings,
)
from tao_sdk.engine.store_login import require_login
from tao_sdk.model.credentials import IN_THE_JOB, NEVER_IN_THE_JOB, job_credentials
from tao_sdk.model.errors import CredentialError, SpecError, TaoError
from tao_sdk.model.fields import FieldError, read_settings, settings_of
from tao_sdk.model.finding import Finding
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.model.prepared_job import JobData, PreparedJob
from tao_sdk.model.secrets import Redactor, Secret, split_secrets
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import EnvValue, JobSpec, checked, mint_id
from tao_sdk.model.spec_hardware import hardware_findings
from tao_sdk.model.units import format_size
from tao_sdk.payload.prepared_job import needs_wrapping, pack_spec
from tao_sdk.payload.schemes import check_bucket, results_root
from tao_sdk.payload.values import plain_data

# the fields of a spec that may hold values of other libraries' types
PLAIN_DATA = ("specs", "args", "inputs", "outputs", "mounts", "native")


@dataclass(frozen=True)
class Request:
    """The caller's request for a job."""

    spec: JobSpec
    platform: str  # or the name of an endpoint
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    parent: str | None = None
    # the packed command of a job that is run anew; "": pack it
    packed: str = field(default="", repr=False)
    endpoint: str = ""  # where a job lives that is run anew
    idempotency_key: str | None = None  # identifies a repeated submit


@dataclass(frozen=True)
class Planned:
    """The plan to send, and the findings of the checks. `secrets` are the values, which the plan
    only names. `asked` is False if the place did not answer.
    """

    plan: Plan[Any]
    findings: tuple[Finding, ...]
    job: PreparedJob
    options: Any
    secrets: Mapping[str, str] = field(repr=False)
    asked: bool = True
    documents: PlanDocuments | None = None  # for people, if the place's own tool takes some

    @property
    def spec(self) -> JobSpec:
        return self.job.spec


def plan_and_check(
    engine: Engine, request: Request, find_facts: FactsSource = ask_place
) -> Planned:
    """Plan and check the job before anything is sent. Raises SpecError, CredentialError,
    Unreachable.
    """
    backend = backend_for(engine, request)
    job = read_spec(checked(request.spec), request.packed, engine.settings, backend)
    job, secrets = with_environment(job, engine.settings)
    try:
        planned = plan_without_secrets(engine, backend, request, job, secrets, find_facts)
    except TaoError as error:
        raise error.redacted(Redactor.of_values(secrets.values())) from None
    return replace(planned, findings=(*planned.findings, *variable_findings(request.spec)))


def backend_for(engine: Engine, request: Request) -> AnyBackend:
    """The backend for the job. A job that is run anew stays where it lives, whatever its options
    name.
    """
    if request.endpoint:
        return engine.backend(request.platform, request.endpoint)
    return engine.places.chosen(request.platform, request.options)


def with_documents(engine: Engine, planned: Planned) -> Planned:
    """Add the plan's documents, if its backend shows documents."""
    attempt = planned.plan.attempt
    backend = engine.backend(attempt.platform, attempt.endpoint)
    if not isinstance(backend, ShowsDocuments):
        return planned
    return replace(planned, documents=backend.documents(planned.plan))


def plan_without_secrets(
    engine: Engine,
    backend: AnyBackend,
    request: Request,
    job: PreparedJob,
    secrets: Mapping[str, str],
    find_facts: FactsSource,
) -> Planned:
    """Plan and check a job whose secrets are already replaced by references."""
    job = replace(job, spec=with_root(job.spec))
    sees_our_paths = backend.capabilities.shared_filesystem
    has_data = needs_wrapping(job.spec)
    if has_data and sees_our_paths and not request.packed:
        job = absolute_here(job)
    refuse_open_secrets(job.spec, request.options, secrets)
    options = read_options(backend, request.options)
    attempt = first_attempt(engine, backend, job.spec)
    place = find_facts(backend, job, options)
    refuse_too_large(job, backend)
    plan = backend.plan(job, options, place.facts, attempt)
    # the bucket may have come from S3_BUCKET_NAME
    check_bucket(plan.results_dir, "The place of the results")
    job_checks, input_checks = [], []
    if has_data:
        job_checks, input_checks = data_findings(engine, job, secrets, backend.capabilities)
    require_login(job, engine.settings, plan.results_dir, input_checks)
    findings = (
        *place.findings,
        *job_checks,
        *backend.check(plan, place.facts),
        *general_findings(job.spec, backend),
        *placeholder_findings(job.spec),
        *output_findings(job.spec),
        *hardware_findings(job.spec, plan.ranks),
        *input_checks,
    )
    return Planned(plan, findings, job, options, secrets, place.asked)


def data_findings(
    engine: Engine, job: PreparedJob, secrets: Mapping[str, str], backend: Capabilities
) -> tuple[list[Finding], list[Finding]]:
    """Check the data of a job. Return (the inputs that are jobs, what else was found)."""
    from tao_sdk.engine import input_findings as checks

    found = list(checks.input_findings(engine, job, secrets, backend))
    if backend.shared_filesystem:
        found += checks.path_findings(job, os.curdir)
    return list(checks.job_findings(engine, job)), found


def first_attempt(engine: Engine, backend: AnyBackend, spec: JobSpec) -> Attempt:
    image_name = spec.image.rpartition("/")[2].partition(":")[0]
    job_id = mint_id(spec.name or image_name or "job")
    return Attempt(job_id, 1, backend.platform, backend.endpoint, engine.store.store_id)


def read_spec(spec: JobSpec, packed: str, settings: Settings, backend: AnyBackend) -> PreparedJob:
    """Read the spec and its data. An error that quotes the spec shows no secret of the job."""
    try:
        return pack_spec(with_mounted_inputs(backend, with_plain_data(spec)), packed)
    except TaoError as error:
        raise error.redacted(Redactor.of_values(secret_values(spec, settings))) from None


def secret_values(spec: JobSpec, settings: Settings) -> Iterable[str]:
    """Every secret value that the job may be given, including the keys of an AWS profile that has
    some.
    """
    variables = caller_variables(spec, settings)
    with suppress(TaoError):
        variables = {**aws_words(settings, spec.env_vars), **variables}
    _, secrets = split_secrets(variables, spec.secrets)
    return secrets.values()


def with_environment(job: PreparedJob, settings: Settings) -> tuple[PreparedJob, dict[str, str]]:
    """Return (the job with credentials added and a reference in place of each secret, the values of
    the secrets).
    """
    spec = job.spec
    uses_s3 = uses_bucket(job, settings)
    aws = aws_words(settings, spec.env_vars) if uses_s3 else {}
    everything = {**aws, **caller_variables(spec, settings)}
    wanted = {
        name: value
        for name, value in everything.items()
        if name not in NEVER_IN_THE_JOB and name != "TAO_JOB_ID"
    }
    if uses_s3:
        from tao_sdk.payload.store_settings import check_store

        check_store(plain_texts(wanted), lambda name: callers_name(name, spec, settings))
    env_vars, secrets = split_secrets(wanted, spec.secrets)
    return replace(job, spec=replace(spec, env_vars=env_vars)), secrets


def caller_variables(spec: JobSpec, settings: Settings) -> dict[str, EnvValue]:
    """The caller's credentials, the secrets that the spec names, and the spec's own variables."""
    return {
        **job_credentials(settings.get),
        **named_secrets(spec, settings),
        **in_the_job(spec.env_vars),
    }


def named_secrets(spec: JobSpec, settings: Settings) -> dict[str, EnvValue]:
    """The values of the secrets that the spec names but does not give. Raises CredentialError for a
    secret that is not set.
    """
    values: dict[str, EnvValue] = {}
    for name in spec.secrets:
        if name in spec.env_vars:
            continue
        value = settings.get(name)
        if value is None:
            raise CredentialError(
                f"{name} is listed under secrets and is not set.",
                "The job would start without it.",
                f"Export {name}, or give it in env_vars.",
            )
        values[name] = Secret(value)
    return values


def plain_texts(variables: Mapping[str, EnvValue]) -> dict[str, str]:
    """The values that are known here, including those of secrets."""
    given = {
        name: value.value if isinstance(value, Secret) else value
        for name, value in variables.items()
    }
    return {name: value for name, value in given.items() if isinstance(value, str)}


def in_the_job(given: Mapping[str, EnvValue]) -> dict[str, EnvValue]:
    """A job's own variables, with its credentials also under the names that programs know. A
    variable that the job sets itself is not replaced.
    """
    known = {
        inside: given[name]
        for name, inner in IN_THE_JOB.items()
        if given.get(name)
        for inside in inner
    }
    return {**known, **given}


def callers_name(variable: str, spec: JobSpec, settings: Settings) -> str:
    """The caller's name for a variable of the job: S3_ENDPOINT_URL for the job's
    AWS_ENDPOINT_URL.
    """
    if variable in spec.env_vars:
        return variable
    return next(
        (
            name
            for name, inner in IN_THE_JOB.items()
            if variable in inner and (name in spec.env_vars or settings.get(name))
        ),
        variable,
    )


def with_plain_data(spec: JobSpec) -> JobSpec:
    """Return the spec with plain values in place of the types that people and libraries pass.
    Raises SpecError, with its place, for a value that has no plain form.
    """
    return replace(spec, **{name: plain_data(getattr(spec, name), name) for name in PLAIN_DATA})


def with_mounted_inputs(backend: AnyBackend, spec: JobSpec) -> JobSpec:
    """Return the spec with paths in place of the addresses that only the backend can mount."""
    if not isinstance(backend, MountsInputs):
        return spec
    return backend.with_mounted_inputs(spec)


def absolute_here(job: PreparedJob) -> PreparedJob:
    """Make the relative inputs of the job absolute. The job sees this machine's paths."""
    from tao_sdk.payload.absolute_inputs import relative_inputs, with_absolute_inputs

    relative = relative_inputs(job)
    if not relative:
        return job
    try:
        folder = Path.cwd()
    except FileNotFoundError:
        return job  # the survey reports it
    return pack_spec(with_absolute_inputs(job.spec, relative, str(folder)))


def with_root(spec: JobSpec) -> JobSpec:
    """Return the spec with the root of its results in the form that backends take."""
    root = spec.env_vars.get("TAO_RESULTS_ROOT")
    if not isinstance(root, str) or not root:
        return spec
    return replace(spec, env_vars={**spec.env_vars, "TAO_RESULTS_ROOT": results_root(root)})


def uses_bucket(job: PreparedJob, settings: Settings) -> bool:
    """True if data of the job come from or go to a bucket. Any other job has no business with the
    keys of a profile.
    """
    named = {**job_credentials(settings.get), **job.spec.env_vars}
    if named.get("S3_BUCKET_NAME") or in_bucket(str(named.get("TAO_RESULTS_ROOT", ""))):
        return True
    return any(in_bucket(address) for address in data_addresses(job.data))


def data_addresses(data: JobData) -> Iterator[str]:
    """The addresses of each input and output, and of the data that the program reads by itself."""
    yield from (wanted.uri for wanted in data.inputs)
    yield from data.outputs
    yield from (address for _, address in data.passed_on)


def refuse_open_secrets(
    spec: JobSpec, options: Mapping[str, Any], secrets: Mapping[str, str]
) -> None:
    """Raise FieldError for a secret's value in any field but env_vars, or in an option. It would be
    stored, shown and sent in the open.
    """
    given = {name: getattr(spec, name) for name in settings_of(spec) if name != "env_vars"}
    for where, value in {**given, **options}.items():
        text = _searchable(value)
        if name := next(
            (name for name in secrets if Redactor.of_values([secrets[name]]).finds_in(text)), ""
        ):
            raise FieldError(
                where,
                f"{where} contains the value of {name}, which is a secret.",
                "It would be stored and shown in the open.",
                f"Name the environment variable instead, ${name}: it is set in the job.",
            )


def _searchable(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value).items()
        return "\n".join(f"{key}\n{_searchable(item)}" for key, item in items)
    if isinstance(value, (list, tuple, set, frozenset)):
        return "\n".join(map(_searchable, cast(Iterable[Any], value)))
    return str(value)


def read_options(backend: AnyBackend, given: Mapping[str, Any]) -> Any:
    return read_settings(backend.Options, given, f"{backend.platform}: ")


def refuse_too_large(job: PreparedJob, backend: AnyBackend) -> None:
    size, allowed = len(job.command.encode()), backend.capabilities
    if size > allowed.max_payload:
        raise SpecError(
            f"The job is {format_size(size)} with its files and spec; {backend.platform} "
            f"takes {format_size(allowed.max_payload)}.",
            "Files travel inside the command.",
            allowed.payload_advice,
        )
