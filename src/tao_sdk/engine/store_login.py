"""Store login: check that a job has keys for its buckets, or that its user says that a role gives
them.

A bucket that is only read may be public, so its store is asked first (input_findings.py). If the
store does not answer, keys are needed. A bucket for results is never public.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence

from tao_sdk.engine.bucket_files import in_bucket
from tao_sdk.model.errors import CredentialError
from tao_sdk.model.finding import Finding
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.net.address import shown

NO_KEYS = "s3.no_credentials"
PAIR = {
    "AWS_ACCESS_KEY_ID": "ACCESS_KEY",
    "AWS_SECRET_ACCESS_KEY": "SECRET_KEY",
}  # name in the job -> the caller's
ROLES = (
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI",),
    ("AWS_EC2_METADATA_SERVICE_ENDPOINT",),
)
EXPORT = "aws configure export-credentials"
ADVICE = (
    "Set ACCESS_KEY and SECRET_KEY, here or in env_vars; where the job has a role, say so: "
    "AWS_EC2_METADATA_DISABLED=false for that of its machine."
)


def require_login(
    job: PreparedJob, settings: Settings, results_dir: str, findings: Sequence[Finding]
) -> None:
    """Raise CredentialError for a job that could not open a bucket that it needs."""
    spec = job.spec
    if all_set(spec.env_vars, PAIR) or says_role({**settings.environ, **spec.env_vars}):
        return
    profile = str(spec.env_vars.get("AWS_PROFILE") or settings.environ.get("AWS_PROFILE") or "")
    buckets = [place for place in (results_dir, *job.data.outputs) if in_bucket(place)]
    if buckets:
        raise no_keys(f"There are no keys to send results to {buckets[0]}.", spec, profile)
    if not findings:
        return
    from tao_sdk.engine.input_findings import UnseenObject

    for finding in findings:
        if finding.code == NO_KEYS:
            raise no_keys(finding.what, spec, profile)
        if isinstance(finding, UnseenObject):
            what = f"There are no keys to read {shown(finding.uri)}, and its store cannot be asked "
            raise no_keys(what + "from here whether everybody may.", spec, profile)


def says_role(env: Mapping[str, object]) -> bool:
    """True if the environment says that the job has a role, which gives it keys."""
    if str(env.get("AWS_EC2_METADATA_DISABLED")).lower() == "false":
        return True
    return any(all_set(env, role) for role in ROLES)


def all_set(env: Mapping[str, object], names: Collection[str]) -> bool:
    return all(env.get(name) for name in names)


def no_keys(what: str, spec: JobSpec, profile: str) -> CredentialError:
    """The error for a job without keys. `profile` is the AWS profile that the user named, or "".
    Its keys are not in a file, else the job would have them.
    """
    missing = [name for inside, name in PAIR.items() if not spec.env_vars.get(inside)]
    if len(missing) == 1:
        error = CredentialError(what, f"{missing[0]} is not set.", ADVICE)
    elif profile:
        error = CredentialError(
            what,
            f"The AWS profile {profile} has no keys of its own here, and no job reads ~/.aws or "
            "logs in with it.",
            f'Run: eval "$({EXPORT} --profile {shlex.quote(profile)} --format env)"',
        )
    else:
        why = "No keys are set, and nothing says that the job has a role."
        error = CredentialError(what, why, ADVICE)
    error.code = NO_KEYS
    return error
