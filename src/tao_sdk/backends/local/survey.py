"""Survey: look at this machine for the facts that a plan and the doctor need."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tao_sdk.backends.local import parse, render
from tao_sdk.backends.local.facts import Gpu, LocalFacts
from tao_sdk.backends.local.job import gpu_locks, input_links
from tao_sdk.backends.local.options import LocalOptions
from tao_sdk.model.errors import UsageError
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.units import format_size
from tao_sdk.transports.process import NotStarted, output

if TYPE_CHECKING:
    from tao_sdk.model.activity import GpuUse

MOST_NAMES = 1000  # the most names of a folder to compare with a misspelt one
NVIDIA_SMI_SECONDS = 30.0  # a sleeping driver takes seconds to wake


def survey(
    job: PreparedJob, options: LocalOptions, environ: Mapping[str, str], state_dir: Path
) -> LocalFacts:
    spec, cwd = job.spec, current_folder()
    locks = gpu_locks.lock_folder(f"{state_dir}/local")
    gpus, trouble = look_for_gpus(environ) if spec.gpu_count or options.gpu_ids else ((), "")
    root = nearest_folder(Path(render.results_root(spec, cwd)))
    missing = {
        path: why for path in render.local_inputs(job, cwd).values() if (why := why_not(Path(path)))
    }
    home, links = f"{state_dir}/local", render.input_links(job, cwd)
    facts = LocalFacts(
        cwd=cwd,
        state_dir=str(state_dir),
        environment=render.caller_environment(environ, spec.secrets),
        gpus=tuple(replace(gpu, held_by=gpu_locks.held_by(locks, gpu.key)) for gpu in gpus),
        gpu_trouble=trouble,
        lock_folder=locks,
        missing=missing,
        advice=path_advice(missing, render.cluster_inputs(job)),
        link_holders=input_links.other_holders(home, links),
        in_the_way=tuple(input_links.in_the_way(home, links)),
        results_writable=root.is_dir() and os.access(root, os.W_OK | os.X_OK),
        disk_free=shutil.disk_usage(root).free,
    )
    venv = render.venv(options, facts)
    return replace(facts, venv_python=not venv or os.access(f"{venv}/bin/python", os.X_OK))


def path_advice(missing: Mapping[str, str], of_clusters: Mapping[str, str]) -> dict[str, str]:
    """Path -> advice, for missing paths: on a cluster's file system, or almost right."""
    absent = [path for path, why in missing.items() if why == os.strerror(errno.ENOENT)]
    return {
        path: cluster_advice(of_clusters[path]) if path in of_clusters else near_name(Path(path))
        for path in absent
    }


def cluster_advice(scheme: str) -> str:
    return (
        f"{scheme}:// names a file system of a cluster, which this machine does not have. "
        "Write a path that is here, or run the job on that cluster: --platform slurm."
    )


def near_name(path: Path) -> str:
    """Advice for a missing path: its first missing name replaced by a similar existing one."""
    import difflib

    there = nearest_folder(path)
    try:
        names = (
            [entry.name for entry in islice(os.scandir(there), MOST_NAMES)]
            if there.is_dir()
            else []
        )
    except OSError:
        names = []
    first, *rest = path.relative_to(there).parts or ("",)
    like = difflib.get_close_matches(first, names, n=1)
    return (
        f"Did you mean {Path(there, like[0], *rest)}?"
        if like
        else f"There is {there}, and no {first!r} in it."
    )


def current_folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        raise UsageError(
            "The current folder is gone.",
            "A local job starts in it.",
            "Change to one that is there.",
        ) from None


def look_for_gpus(environ: Mapping[str, str]) -> tuple[tuple[Gpu, ...], str]:
    """Return (the GPUs, "") or (no GPUs, why they could not be listed).

    Without nvidia-smi there are no GPUs.
    """
    program = shutil.which("nvidia-smi", path=environ.get("PATH", os.defpath))
    if program is None:
        return (), ""
    try:
        return parse.read_gpus(output([program, *parse.QUERY], environ, NVIDIA_SMI_SECONDS)), ""
    except NotStarted as error:
        return (), str(error)


def gpus_in_use(environ: Mapping[str, str], home: str, job_id: str) -> tuple[GpuUse, ...]:
    """The current use of a live job's GPUs; none if it cannot be seen."""
    program = shutil.which("nvidia-smi", path=environ.get("PATH", os.defpath))
    if program is None:
        return ()
    try:
        uses = parse.gpu_uses(output([program, *parse.USE_QUERY], environ, NVIDIA_SMI_SECONDS))
    except NotStarted:
        return ()
    folder = gpu_locks.lock_folder(home)
    return tuple(use for gpu, use in uses.items() if gpu_locks.held_by(folder, gpu) == job_id)


def why_not(path: Path) -> str:
    """Why a path is not available, in the system's words; "" if it is."""
    try:
        path.stat()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def nearest_folder(path: Path) -> Path:
    """The path, or the nearest existing one above it."""
    return next(above for above in (path, *path.parents) if not why_not(above))


def doctor(environ: Mapping[str, str], state_dir: Path) -> list[Finding]:
    """Return what a new user would trip over on this machine."""
    return [
        state_finding(state_dir),
        shell_finding(),
        python_finding(environ),
        *gpu_findings(environ),
        disk_finding(state_dir),
    ]


ANOTHER_PYTHON = "Install python3 3.8 or later, and put it first in PATH."
NO_GPU = "If this machine has one, install its driver. Otherwise use gpu_count=0."


def state_finding(state_dir: Path) -> Finding:
    there = nearest_folder(state_dir)
    if os.access(there, os.W_OK | os.X_OK):
        return Finding(Severity.OK, "local.state_dir", f"Jobs are kept in {state_dir}.")
    fix = "Set TAO_SDK_STATE_DIR to a folder of yours."
    return Finding(
        Severity.ERROR,
        "local.state_dir",
        f"Jobs cannot be kept: {there} is not writable.",
        str(state_dir),
        fix,
    )


def shell_finding() -> Finding:
    if os.access("/bin/bash", os.X_OK):
        return Finding(Severity.OK, "local.shell", "Commands are run by /bin/bash.")
    return Finding(
        Severity.WARNING,
        "local.shell",
        "There is no /bin/bash; commands are run by sh.",
        "",
        *how_to_install("bash"),
    )


def how_to_install(package: str) -> tuple[str, str]:
    """Return (advice, command). There is a command only if this machine has apt-get."""
    if shutil.which("apt-get"):
        return "", f"sudo apt-get install --yes {package}"
    return f"Install {package} with the package manager of this machine.", ""


def python_finding(environ: Mapping[str, str]) -> Finding:
    program = shutil.which("python3", path=environ.get("PATH", os.defpath))
    if program is None:
        what = "There is no python3 in PATH; jobs with inputs, outputs or a spec need it."
        return Finding(Severity.WARNING, "local.python", what, "", *how_to_install("python3"))
    try:
        version = output(
            [program, "-I", "-S", "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"],
            environ,
            10.0,
        ).strip()
    except NotStarted as error:
        what = f"{program} does not run."
        return Finding(Severity.WARNING, "local.python", what, str(error), ANOTHER_PYTHON)
    if tuple(map(int, version.split("."))) < (3, 8):
        return Finding(
            Severity.WARNING,
            "local.python",
            f"{program} is {version}; jobs need 3.8 or later.",
            "",
            ANOTHER_PYTHON,
        )
    return Finding(Severity.OK, "local.python", f"Jobs find python3 {version}.", program)


def gpu_findings(environ: Mapping[str, str]) -> list[Finding]:
    gpus, trouble = look_for_gpus(environ)
    if trouble:
        return [
            Finding(
                Severity.ERROR,
                "local.gpu",
                "nvidia-smi is here and does not answer.",
                trouble,
                "Install the GPU driver anew, or start this machine again.",
            )
        ]
    if not gpus:
        what = "No GPU is seen; jobs run without."
        return [Finding(Severity.WARNING, "local.gpu", what, "", NO_GPU)]
    names = ", ".join(f"{gpu.index}: {gpu.name}" for gpu in gpus)
    return [
        Finding(Severity.OK, "local.gpu", f"{len(gpus)} GPU{'s' * (len(gpus) > 1)} seen.", names)
    ]


def disk_finding(state_dir: Path) -> Finding:
    free = shutil.disk_usage(nearest_folder(state_dir)).free
    little = free < render.LITTLE_SPACE
    severity = Severity.WARNING if little else Severity.OK
    return Finding(
        severity,
        "local.disk",
        f"{format_size(free)} are free for logs.",
        str(state_dir),
        "Free some space, or set TAO_SDK_STATE_DIR to another disk." if little else "",
    )
