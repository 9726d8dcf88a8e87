"""Where a job's results go: the root or bucket that a job names, and the job's own folder in it.

Here: how every backend reads the job's wishes. Not here: a backend's default root if the job names
none, except in a container.
"""

from __future__ import annotations

import posixpath

from tao_sdk.model.plan import Attempt
from tao_sdk.model.spec import JobSpec, remote_root

ROOT = "TAO_RESULTS_ROOT"
BUCKET = "S3_BUCKET_NAME"
RESULTS = "/results"  # in a container: the results of all jobs, unless the job names a folder


def named_root(spec: JobSpec) -> str:
    """The folder or bucket prefix that the job names for the results of all jobs; "" for none."""
    root = spec.env_vars.get(ROOT)
    return root if isinstance(root, str) else ""


def named_folder(spec: JobSpec) -> str:
    """The folder that the job names; "" for none, and for a prefix in a bucket."""
    return "" if remote_root(spec) else named_root(spec)


def container_root(spec: JobSpec, has_mount: bool) -> str:
    """The container's folder for the results of all jobs; "" if none outlives the container.

    `has_mount`: the job's files below RESULTS go to a mount.
    """
    folder = named_folder(spec)
    if folder:
        return posixpath.normpath(folder)
    if named_root(spec):
        return ""
    return RESULTS if has_mount else ""


def bucket_root(spec: JobSpec, folder: str) -> str:
    """The bucket prefix for the results of all jobs; "" if no bucket keeps them.

    A bucket that the job names for results wins over the container's `folder`. The folder wins
    over S3_BUCKET_NAME.
    """
    root = remote_root(spec)
    if root or folder:
        return root
    bucket = spec.env_vars.get(BUCKET)
    if not bucket or not isinstance(bucket, str):
        return ""
    return f"s3://{bucket}/results"


def own_place(root: str, attempt: Attempt) -> str:
    """The folder of one job's results below a root."""
    return f"{root}/{attempt.job_id}"


def root_variables(spec: JobSpec, local_root: str) -> dict[str, str]:
    """The variables that tell the job where results go.

    Results for a bucket are written to `local_root` and sent from there.
    """
    bucket = remote_root(spec)
    if not bucket:
        return {ROOT: local_root}
    return {ROOT: bucket, "TAO_LOCAL_ROOT": local_root}
