"""Places: what a container has mounted, and where its results lie. Pure."""

from __future__ import annotations

import posixpath

from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.backends.mounts import Mount, mount_of, read_mounts
from tao_sdk.backends.results_place import ROOT, named_folder, named_root, own_place
from tao_sdk.model.plan import Attempt
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.spec import JobSpec, remote_root

RESULTS = "/results"
KEPT = "runs"  # the folder below the one where the job was submitted; each job has its own in it
KEPT_VOLUME = "tao-runs"  # what the volume of a job on a remote daemon begins with


def all_mounts(
    job: PreparedJob, options: DockerOptions, facts: DockerFacts, job_id: str
) -> list[Mount]:
    mounts = named_mounts(job, options, facts)
    return [*mounts, kept(facts, job_id)] if keeps_results(job.spec, mounts) else mounts


def named_mounts(job: PreparedJob, options: DockerOptions, facts: DockerFacts) -> list[Mount]:
    """What the job asks for, and the results of other jobs that its inputs name."""
    mounts = read_mounts(job.spec.mounts, facts.cwd, facts.home)
    if options.ssh_key:
        mounts.append(Mount(facts.ssh_path, "/root/.ssh", read_only=True))
    if keeps_results(job.spec, mounts):
        mounts += [kept(facts, job_id, read_only=True) for job_id in jobs_named(job, mounts)]
    return mounts


def keeps_results(spec: JobSpec, mounts: list[Mount]) -> bool:
    """Whether the results get a place of our choice."""
    return bool(spec.keep_results) and not names_results_place(spec, mounts)


def jobs_named(job: PreparedJob, mounts: list[Mount]) -> list[str]:
    """The jobs whose results are inputs of this one, as far as no mount of its own has them."""
    paths = [path for path in job.absolute_inputs().values() if path.startswith(f"{RESULTS}/")]
    return sorted({path.split("/")[2] for path in paths if mount_of(mounts, path) is None})


def kept(facts: DockerFacts, job_id: str, read_only: bool = False) -> Mount:
    """Where the results of one job are kept."""
    target = f"{RESULTS}/{job_id}"
    if facts.local:
        return Mount(posixpath.join(facts.cwd, KEPT, job_id), target, read_only)
    return Mount(f"{KEPT_VOLUME}-{job_id}", target, read_only, volume=True)


def names_results_place(spec: JobSpec, mounts: list[Mount]) -> bool:
    """Whether the job names a place for its results: a root, a mount at /results, a bucket."""
    named = spec.env_vars.get(ROOT) or spec.env_vars.get("S3_BUCKET_NAME")
    return bool(named) or any(each.target == RESULTS for each in mounts)


def results_root(spec: JobSpec, mounts: list[Mount], job_id: str) -> str:
    """Where in the container results of all jobs go; "" where no such place outlives it."""
    if named_root(spec):
        return posixpath.normpath(named_folder(spec)) if named_folder(spec) else ""
    return RESULTS if any(holds_results(each, job_id) for each in mounts) else ""


def holds_results(mount: Mount, job_id: str) -> bool:
    return mount.target in (RESULTS, f"{RESULTS}/{job_id}") and not mount.read_only


def results_dir(
    spec: JobSpec, facts: DockerFacts, mounts: list[Mount], attempt: Attempt, root: str
) -> str:
    """Where the results are, as the daemon's machine sees them; inside the container where it does
    not.
    """
    if remote_root(spec):
        return own_place(remote_root(spec), attempt)
    bucket = spec.env_vars.get("S3_BUCKET_NAME")
    if not root and isinstance(bucket, str) and bucket:
        return own_place(f"s3://{bucket}/results", attempt)
    inside = own_place(root or RESULTS, attempt)
    under = mount_of(mounts, inside)
    return (under.on_host(inside, volumes(facts, mounts)) if under else "") or inside


def volumes(facts: DockerFacts, mounts: list[Mount]) -> dict[str, str]:
    """Name -> folder on the daemon's machine, also of those that the job makes."""
    root = facts.info.get("DockerRootDir", "")
    made = {
        each.source: f"{root}/volumes/{each.source}/_data"
        for each in mounts
        if each.volume and root
    }
    return {**made, **facts.volumes}


def container_user(
    options: DockerOptions, facts: DockerFacts, mounts: list[Mount], job_id: str
) -> str:
    """Who the command runs as: a plain user's own results are to be his; else whom
    the image says.
    """
    if options.user:
        return "" if options.user == "image" else options.user
    own = any(holds_results(each, job_id) and not each.volume for each in mounts)
    return f"{facts.uid}:{facts.gid}" if facts.local and facts.uid and own else ""


def kept_folders(facts: DockerFacts, mounts: list[Mount], job_id: str) -> list[str]:
    """The folder that we bind without being told: it is made when it is not there."""
    own = kept(facts, job_id)
    return [own.source] if facts.local and own in mounts else []
