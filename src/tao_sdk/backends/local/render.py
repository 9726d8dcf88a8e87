"""Render: from a prepared job to the Plan of a process on this machine, and its checks. Pure."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tao_sdk.backends.job_environment import (
    attempt_variables,
    grace_file_variable,
    grace_variable,
    identity,
    job_variables,
    secret_names,
)
from tao_sdk.backends.local.facts import Gpu, LocalFacts
from tao_sdk.backends.local.options import LocalOptions
from tao_sdk.backends.local.request import LocalRequest, RequestedGpus
from tao_sdk.backends.mounts import within
from tao_sdk.backends.native_patch import nothing_to_patch
from tao_sdk.backends.rendezvous import single_node
from tao_sdk.backends.results_place import named_folder, own_place, root_variables
from tao_sdk.model.credentials import NEVER_IN_THE_JOB
from tao_sdk.model.finding import Finding, error, warning
from tao_sdk.model.plan import Attempt, Plan
from tao_sdk.model.prepared_job import DataInput, PreparedJob
from tao_sdk.model.secrets import SecretRef, is_secret_name
from tao_sdk.model.spec import JobSpec, remote_root
from tao_sdk.model.units import format_size
from tao_sdk.payload.schemes import SHARED

GRACE = 10.0  # default seconds between SIGTERM and SIGKILL
ROOT = "runs"  # in the folder where the job was submitted
IN_USE = 1024  # MiB on a GPU; a driver or a desktop takes less
LITTLE_SPACE = 1 << 30  # bytes; less free space for the results gives a warning
NO_GPU_ADVICE = "If it needs none, say so: gpu_count=0. Else see what nvidia-smi says here."
LIMITS = ("cpus", "memory", "shm_size")
UNUSED_FIELDS = frozenset({"image", "mounts", *LIMITS})


def plan(
    job: PreparedJob, options: LocalOptions, facts: LocalFacts, attempt: Attempt
) -> Plan[LocalRequest]:
    """Everything that submit will do."""
    spec, gpus = job.spec, choose_gpus(job.spec, options, facts)
    variables = environment(spec, options, facts, attempt, gpus.count)
    return Plan(
        attempt=attempt,
        request=request(job, options, facts, gpus, variables, attempt),
        secrets=secret_names(variables),
        results_dir=own_place(remote_root(spec) or results_root(spec, facts.cwd), attempt),
        notes=tuple(notes(spec)),
        start_folder=facts.cwd,
        backend_details={
            "backend_type": "local",
            "num_gpu": gpus.count,
            "job_dir": job_folder(facts.state_dir, attempt),
        },
    )


def request(
    job: PreparedJob,
    options: LocalOptions,
    facts: LocalFacts,
    gpus: RequestedGpus,
    variables: Mapping[str, str | SecretRef],
    attempt: Attempt,
) -> LocalRequest:
    spec, root = job.spec, results_root(job.spec, facts.cwd)
    return LocalRequest(
        command=job.command,
        cwd=facts.cwd,
        environment=dict(sorted(variables.items())),
        gpus=gpus,
        time_limit=spec.time_limit.total_seconds() if spec.time_limit else 0.0,
        grace=GRACE,
        venv=venv(options, facts),
        inputs=local_inputs(job, facts.cwd),
        outside=tuple(path for path in job.data.chosen_outputs if not within(path, root)),
        keeps=job.data.has_outputs,
        mounts=bool(spec.mounts),
        native=tuple(sorted(spec.native)),
        links=input_links(job, facts.cwd, own_place(root, attempt)),
    )


def plan_again(last: Plan[LocalRequest], attempt: Attempt, state_dir: str) -> Plan[LocalRequest]:
    """Plan a retry in the same folder and environment. A watcher that asks for it has others."""
    own = {**identity(attempt), **grace_file_variable(grace_file(state_dir, attempt))}
    environment = {**last.request.environment, **own}
    details = {**last.backend_details, "job_dir": job_folder(state_dir, attempt)}
    request = replace(last.request, environment=environment)
    return replace(last, attempt=attempt, request=request, backend_details=details)


def job_folder(state_dir: str, attempt: Attempt) -> str:
    return f"{state_dir}/local/{attempt.job_id}.{attempt.number}"


def grace_file(state_dir: str, attempt: Attempt) -> str:
    """The path of the file `cancel` in the job's folder."""
    return f"{job_folder(state_dir, attempt)}/cancel"


def caller_environment(environ: Mapping[str, str], marked: Sequence[str]) -> dict[str, str]:
    """The variables that a job inherits: all except secrets and settings of this SDK."""
    left_out = NEVER_IN_THE_JOB | set(marked)
    return {
        name: value
        for name, value in environ.items()
        if name not in left_out and not is_secret_name(name)
    }


def environment(
    spec: JobSpec, options: LocalOptions, facts: LocalFacts, attempt: Attempt, gpus: int
) -> dict[str, str | SecretRef]:
    """The caller's variables and our defaults, then the job's own, then the fixed ones."""
    root = results_root(spec, facts.cwd)
    visible_gpus = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
    defaults = {
        **with_venv(facts.environment, venv(options, facts)),
        **single_node(gpus),
        **grace_variable(GRACE),
        **visible_gpus,
    }
    fixed = {
        **root_variables(spec, root),
        **attempt_variables(attempt, root),
        **grace_file_variable(grace_file(facts.state_dir, attempt)),
    }
    return job_variables(spec, defaults, fixed)


def results_root(spec: JobSpec, cwd: str) -> str:
    """The folder of all results. Results for a bucket are sent from here."""
    return posixpath.normpath(posixpath.join(cwd, named_folder(spec) or ROOT))


def venv(options: LocalOptions, facts: LocalFacts) -> str:
    """The folder of the virtual environment; "" for none."""
    if not options.venv_path:
        return ""
    return posixpath.normpath(posixpath.join(facts.cwd, options.venv_path))


def with_venv(environment: Mapping[str, str], folder: str) -> Mapping[str, str]:
    """The environment with the virtual environment active, as its `activate` script does it."""
    if not folder:
        return environment
    kept = {name: value for name, value in environment.items() if name != "PYTHONHOME"}
    return {
        **kept,
        "VIRTUAL_ENV": folder,
        "PATH": f"{folder}/bin:{environment.get('PATH', posixpath.defpath)}",
    }


def choose_gpus(spec: JobSpec, options: LocalOptions, facts: LocalFacts) -> RequestedGpus:
    """Choose the number of GPUs and the candidates, from which the supervisor takes free ones.

    The order of the candidates counts. gpu_ids of the user win.
    """
    count, candidates = gpu_candidates(spec, options, facts)
    return RequestedGpus(
        count,
        spec.gpu_count,
        options.gpu_ids,
        tuple(gpu.key for gpu in candidates),
        facts.lock_folder,
    )


def gpu_candidates(
    spec: JobSpec, options: LocalOptions, facts: LocalFacts
) -> tuple[int, list[Gpu]]:
    """Return (number of GPUs, candidates). GPUs that nobody holds or uses come first."""
    if options.gpu_ids:
        return len(options.gpu_ids), [gpu for gpu in facts.gpus if gpu.index in options.gpu_ids]
    if "CUDA_VISIBLE_DEVICES" in spec.env_vars:
        return 0, []
    here = visible_gpus(facts)
    free_first = sorted(here, key=lambda gpu: (gpu.held_by != "", gpu.used, gpu.index))
    takes_all = spec.gpu_count < 0 or (spec.gpu_count == 1 and not here)
    if takes_all:
        return len(here), free_first
    return spec.gpu_count, free_first


def visible_gpus(facts: LocalFacts) -> list[Gpu]:
    """The machine's GPUs, except those that the caller's environment hides.

    The shell of a batch system hides GPUs in this way.
    """
    named = facts.environment.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return list(facts.gpus)
    names = [name.strip() for name in named.split(",")]
    return [gpu for gpu in facts.gpus if is_named(gpu, names)]


def is_named(gpu: Gpu, names: Sequence[str]) -> bool:
    """True if one of the names is the GPU's index, or the start of its UUID."""
    if str(gpu.index) in names:
        return True
    return any(gpu.uuid.startswith(name) for name in names if name)


def local_inputs(job: PreparedJob, cwd: str) -> dict[str, str]:
    """Key -> path of each declared input that must exist now.

    Inputs that travel with the job are not among them: the job itself looks for these.
    """
    return {each.key: posixpath.join(cwd, each.path) for each in job.here_inputs()}


def input_links(job: PreparedJob, cwd: str, results: str = "") -> dict[str, str]:
    """Input path outside the results -> the target of its link, or the address to fetch to it.

    Data that are fetched or unpacked for a relative path lie below `results`. Then the target
    starts with `results`.
    """
    links: dict[str, str] = {}
    for each in job.data.inputs:
        if each.target and (posixpath.isabs(each.target) or not job.brings_files):
            target, leads_to = link_path(each, cwd), link_source(each, cwd, results)
            if target != leads_to:
                links[target] = leads_to
    return links


def link_path(wanted: DataInput, cwd: str) -> str:
    """The path of an input's link. A slash at its end means a folder: the file keeps its name."""
    target = posixpath.join(cwd, wanted.target)
    source = wanted.path or wanted.uri
    if target.endswith("/") and not source.endswith("/"):
        target += posixpath.basename(source)
    return posixpath.normpath(target)


def link_source(wanted: DataInput, cwd: str, results: str) -> str:
    if wanted.is_path and not wanted.is_archive:
        return posixpath.normpath(posixpath.join(cwd, wanted.path))
    if posixpath.isabs(wanted.target):
        return wanted.uri
    return f"{results}/.tao/inputs/"


def cluster_inputs(job: PreparedJob) -> dict[str, str]:
    """Path -> scheme of each declared input on a cluster's own file system."""
    return {each.path: each.scheme for each in job.data.inputs if each.scheme in SHARED}


def notes(spec: JobSpec) -> Iterator[str]:
    if spec.image:
        yield "image: a local job does not use it; it runs with the programs of this machine."
    limits = [name for name in LIMITS if getattr(spec, name) is not None]
    if limits:
        yield (
            f"{', '.join(limits)}: a local job is not limited; it shares this "
            "machine with everything else."
        )


def check(plan: Plan[LocalRequest], facts: LocalFacts) -> list[Finding]:
    """Errors that would stop the job, and warnings that its user should read."""
    return [
        *gpu_findings(plan.request.gpus, facts),
        *path_findings(plan, facts),
        *link_findings(plan.request, facts),
        *unused_findings(plan.request),
    ]


def gpu_findings(gpus: RequestedGpus, facts: LocalFacts) -> Iterator[Finding]:
    has = len(facts.gpus) if gpus.ids else len(visible_gpus(facts))
    unknown = [index for index in gpus.ids if index not in {gpu.index for gpu in facts.gpus}]
    if unknown:
        known = ", ".join(str(gpu.index) for gpu in facts.gpus) or "none"
        yield error(
            "gpu.unknown",
            f"This machine has no GPU {unknown[0]}.",
            f"It has: {known}.",
            "Leave gpu_ids out.",
        )
    elif gpus.count > has:
        what = f"The job asks for {gpus.count} GPUs, more than this machine has."
        yield error(
            "gpu.too_many", what, facts.gpu_trouble or f"It has {has}.", f"Use gpu_count={has}."
        )
    elif gpus.asked and not has and not gpus.ids:
        what = "The job asks for a GPU and runs without: this machine has none."
        yield warning("gpu.none", what, facts.gpu_trouble, NO_GPU_ADVICE)
    if 0 < gpus.count <= has:
        yield from busy_findings(
            gpus.count, [gpu for gpu in facts.gpus if gpu.key in gpus.candidates]
        )


def busy_findings(count: int, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    held = [gpu for gpu in gpus if gpu.held_by]
    if len(gpus) - len(held) < count:
        jobs = ", ".join(dict.fromkeys(gpu.held_by for gpu in held))
        yield warning(
            "gpu.busy",
            "The job will wait: too few GPUs are free.",
            f"Held by {jobs}.",
            "Wait, or cancel one.",
        )
    used = [gpu for gpu in gpus if not gpu.held_by and gpu.used > IN_USE]
    if used and len(gpus) - len(held) - len(used) < count:
        memory = ", ".join(f"GPU {gpu.index}: {gpu.used} of {gpu.memory} MiB" for gpu in used)
        yield warning(
            "gpu.in_use",
            "Programs that are not our jobs use GPUs that the job may get.",
            memory,
            "nvidia-smi",
        )


def path_findings(plan: Plan[LocalRequest], facts: LocalFacts) -> Iterator[Finding]:
    request = plan.request
    for key, path in request.inputs.items():
        if path in facts.missing:
            fix = facts.advice.get(path, "Check the path.")
            yield error(
                "input.missing", f"The input {key} is not there: {path}", facts.missing[path], fix
            )
    if request.venv and not facts.venv_python:
        create = f"python3 -m venv {shlex.quote(request.venv)}"
        yield error(
            "venv.missing", f"venv_path has no bin/python: {request.venv}", "", command=create
        )
    if not facts.results_writable:
        finding = error if request.keeps else warning
        fix = "Set TAO_RESULTS_ROOT to a folder of yours."
        yield finding(
            "results.unwritable", f"Results cannot be written to {plan.results_dir}.", "", fix
        )
    elif facts.disk_free < LITTLE_SPACE:
        yield warning(
            "disk.low",
            f"Only {format_size(facts.disk_free)} are free where the results will lie.",
            plan.results_dir,
            "Free some space there, or set TAO_RESULTS_ROOT to a folder on another disk.",
        )
    for path in request.outside:
        yield warning(
            "output.outside",
            f"The output {path} lies outside the job's results.",
            f"They are {plan.results_dir}.",
            "To keep it with them, leave its value in the spec empty.",
        )


def link_findings(request: LocalRequest, facts: LocalFacts) -> Iterator[Finding]:
    """Errors for names of inputs that this job cannot use: a name has one source at a time."""
    advice = "Name another path for the input, or start the job in a folder of its own."
    for target in request.links:
        if holder := facts.link_holders.get(target):
            yield error(
                "input.taken",
                f"The input {target} is in use by {holder}, which has other data there.",
                "Both jobs would read the data of the later one.",
                f"Wait until {holder} has ended. Or: {advice}",
            )
        elif target in facts.in_the_way:
            yield error(
                "input.in_the_way",
                f"The input cannot be put at {target}: something else is there.",
                "The SDK replaces nobody's files.",
                advice,
            )


def unused_findings(request: LocalRequest) -> Iterator[Finding]:
    if request.mounts:
        yield warning(
            "mounts.unused",
            "mounts are not used: a local job sees this machine's own paths.",
            "",
            "Leave them out, and name the paths as they are on this machine.",
        )
    if request.native:
        yield nothing_to_patch(request.native, "local")
