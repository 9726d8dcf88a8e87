"""Places: a container's mounts, the place of its results, and its user. Pure."""

from __future__ import annotations

import posixpath

from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.backends.mounts import Mount, mount_of, read_mounts
from tao_sdk.backends.results_place import BUCKET, RESULTS, ROOT, bucket_root, own_place
from tao_sdk.model.plan import Attempt
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.spec import JobSpec

RUNS_FOLDER = "runs"  # in the caller's working directory; holds one folder per job
RUNS_VOLUME = "tao-runs"  # on a remote daemon: the start of a job's volume name


# Mounts


def all_mounts(
    job: PreparedJob, options: DockerOptions, facts: DockerFacts, job_id: str
) -> list[Mount]:
    """All mounts of the container. One is for its results if the job names no place for them."""
    mounts = requested_mounts(job, options, facts)
    if needs_results_mount(job.spec, mounts):
        mounts.append(results_mount(facts, job_id))
    return mounts


def requested_mounts(job: PreparedJob, options: DockerOptions, facts: DockerFacts) -> list[Mount]:
    """The mounts that the job asks for, and the results of other jobs that its inputs name."""
    mounts = read_mounts(job.spec.mounts, facts.cwd, facts.home)
    if options.ssh_key:
        mounts.append(Mount(facts.ssh_path, "/root/.ssh", read_only=True))
    if needs_results_mount(job.spec, mounts):
        earlier_jobs = jobs_behind_inputs(job, mounts)
        mounts += [results_mount(facts, job_id, read_only=True) for job_id in earlier_jobs]
    return mounts


def needs_results_mount(spec: JobSpec, mounts: list[Mount]) -> bool:
    """True if results are to be kept and the job does not say where."""
    return bool(spec.keep_results) and not names_results_place(spec, mounts)


def names_results_place(spec: JobSpec, mounts: list[Mount]) -> bool:
    """True if the job names a place for its results: a root, a mount at /results, a bucket."""
    if spec.env_vars.get(ROOT) or spec.env_vars.get(BUCKET):
        return True
    return any(mount.target == RESULTS for mount in mounts)


def jobs_behind_inputs(job: PreparedJob, mounts: list[Mount]) -> list[str]:
    """Ids of the jobs whose results are inputs of this one and lie in no mount yet."""
    job_ids: set[str] = set()
    for path in job.absolute_inputs().values():
        if path.startswith(f"{RESULTS}/") and mount_of(mounts, path) is None:
            job_ids.add(path.split("/")[2])
    return sorted(job_ids)


def results_mount(facts: DockerFacts, job_id: str, read_only: bool = False) -> Mount:
    """The mount that keeps one job's results: a folder here, a volume on a remote daemon."""
    target = f"{RESULTS}/{job_id}"
    if facts.local:
        return Mount(posixpath.join(facts.cwd, RUNS_FOLDER, job_id), target, read_only)
    return Mount(f"{RUNS_VOLUME}-{job_id}", target, read_only, volume=True)


def folders_to_make(facts: DockerFacts, mounts: list[Mount], job_id: str) -> list[str]:
    """Folders on this machine that submit makes: our own results mount, if it is a bind."""
    own_mount = results_mount(facts, job_id)
    if facts.local and own_mount in mounts:
        return [own_mount.source]
    return []


# Results


def loses_results(job: PreparedJob, mounts: list[Mount]) -> bool:
    """True for a job whose outputs are lost with its container."""
    if not job.data.has_outputs or job.spec.keep_results:
        return False
    return not names_results_place(job.spec, mounts)


def keeps_results(mounts: list[Mount], job_id: str) -> bool:
    """True if a mount keeps what the job writes below RESULTS."""
    return any(holds_results(mount, job_id) for mount in mounts)


def holds_results(mount: Mount, job_id: str) -> bool:
    """True if the job writes its results into this mount."""
    return mount.target in (RESULTS, f"{RESULTS}/{job_id}") and not mount.read_only


def results_dir(
    spec: JobSpec, facts: DockerFacts, mounts: list[Mount], attempt: Attempt, root: str
) -> str:
    """The place of the results: an address in a bucket, else a path on the daemon's machine.

    It is a path in the container if the daemon's machine does not have the results.
    """
    bucket = bucket_root(spec, root)
    if bucket:
        return own_place(bucket, attempt)
    inside = own_place(root or RESULTS, attempt)
    mount = mount_of(mounts, inside)
    if mount is None:
        return inside
    return mount.on_host(inside, volume_folders(facts, mounts)) or inside


def volume_folders(facts: DockerFacts, mounts: list[Mount]) -> dict[str, str]:
    """Volume name -> its folder on the daemon's machine, even if the job creates the volume."""
    docker_root = facts.info.get("DockerRootDir", "")
    if not docker_root:
        return dict(facts.volumes)
    names = [mount.source for mount in mounts if mount.volume]
    made = {name: f"{docker_root}/volumes/{name}/_data" for name in names}
    return {**made, **facts.volumes}


# The user


def container_user(
    options: DockerOptions, facts: DockerFacts, mounts: list[Mount], job_id: str
) -> str:
    """The container's user: as the options say, or `uid:gid`; "" for the image's own.

    If the results are bound from this machine and the caller is not root, it is the caller's ids,
    so that the caller owns the results.
    """
    if options.user == "image":
        return ""
    if options.user:
        return options.user
    is_plain_user = facts.local and facts.uid
    if is_plain_user and binds_results(mounts, job_id):
        return f"{facts.uid}:{facts.gid}"
    return ""


def binds_results(mounts: list[Mount], job_id: str) -> bool:
    """True if a folder of the daemon's machine holds the job's results, and not a volume."""
    folders = [mount for mount in mounts if not mount.volume]
    return keeps_results(folders, job_id)
