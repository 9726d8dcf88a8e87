"""Containers: what runs an image on a cluster's nodes, and the words that start a task in it. Pure.

Pyxis (flags of srun) is what the platform document is written for; enroot by itself, apptainer and
nothing at all are for sites without it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tao_sdk.backends.mounts import Mount
from tao_sdk.backends.slurm.facts import SlurmFacts
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.backends.slurm.scripts.shell import joined, script
from tao_sdk.model.errors import SpecError
from tao_sdk.model.finding import Finding, Severity

PYXIS, ENROOT, APPTAINER, NONE = "pyxis", "enroot", "apptainer", "none"
APPTAINERS = ("apptainer", "singularity")  # one program under its new and its old name


@dataclass(frozen=True)
class Task:
    """What a task in an image needs of its node."""

    mounts: Sequence[Mount] = ()
    gpus: int = 0


@dataclass(frozen=True)
class Start:
    """Text for the job's script, quoted for its shell: words of srun, and words before the command
    in each task.

    Both use the variable `tao_image`.
    """

    srun: str = ""
    task: str = ""


def runtime(options: SlurmOptions, facts: SlurmFacts) -> str:
    """What the job says, else what the site says, else the best of what the cluster has; "" when it
    has none.
    """
    return options.container_runtime or facts.site.runtime or next(available(facts), "")


def available(facts: SlurmFacts) -> Iterator[str]:
    if facts.pyxis:
        yield PYXIS
    if ENROOT in facts.programs:
        yield ENROOT
    if any(program in facts.programs for program in APPTAINERS):
        yield APPTAINER


def apptainer(facts: SlurmFacts) -> str:
    return next((program for program in APPTAINERS if program in facts.programs), APPTAINERS[0])


def start(chosen: str, task: Task, facts: SlurmFacts) -> Start:
    """Raises SpecError for a path that the runtime's list of mounts cannot hold."""
    for mount in task.mounts if chosen in STARTS else ():
        refuse_dividers(mount.source)
        refuse_dividers(mount.target)
    return STARTS[chosen](task, facts) if chosen in STARTS else Start()


def refuse_dividers(path: str) -> None:
    if any(character in ",:" or ord(character) < 32 for character in path):
        why = "Commas and colons divide the list of mounts, on SLURM."
        raise SpecError(
            f"{path!r} cannot be mounted.", why, "Use a path without them, such as a symbolic link."
        )


def start_with_pyxis(task: Task, _: SlurmFacts) -> Start:
    """The user's home is not mounted: Python packages that are installed in it would shadow the
    image's own.
    """
    words = ["--no-container-mount-home", "--container-writable"]
    if task.mounts:
        words.append(f"--container-mounts={','.join(map(mount_text, task.mounts))}")
    return Start(srun=f'--container-image="$tao_image" {shlex.join(words)}')


def start_with_enroot(task: Task, _: SlurmFacts) -> Start:
    words = ["--rw"]
    for mount in task.mounts:
        how = f"x-create=auto,rbind{',ro' if mount.read_only else ''}"
        words += ["--mount", f"{mount.source}:{mount.target}:{how}"]
    text = joined(f"words=({shlex.join(words)})", script("enroot_task"))
    return Start(task=f'bash -c {shlex.quote(text)} tao "$tao_image"')


def start_with_apptainer(task: Task, facts: SlurmFacts) -> Start:
    words = ["exec", "--no-home", "--writable-tmpfs", *(["--nv"] if task.gpus else [])]
    for mount in task.mounts:
        words += ["--bind", mount_text(mount)]
    return Start(task=f'{apptainer(facts)} {shlex.join(words)} "$tao_image"')


def mount_text(mount: Mount) -> str:
    return f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}"


STARTS: Mapping[str, Callable[[Task, SlurmFacts], Start]] = {
    PYXIS: start_with_pyxis,
    ENROOT: start_with_enroot,
    APPTAINER: start_with_apptainer,
}


def check(options: SlurmOptions, facts: SlurmFacts) -> Iterator[Finding]:
    """Findings about what would end a job with an image as soon as it starts."""
    chosen = runtime(options, facts)
    if not chosen:
        yield Finding(
            Severity.ERROR,
            "slurm.no_pyxis",
            "The cluster cannot run images: its srun has no --container-image (the Pyxis plugin).",
            "srun --help does not list it, and neither enroot nor apptainer is installed.",
            "Ask the site for Pyxis and enroot, or run without an image: --container-runtime none",
        )
    elif chosen == PYXIS and not facts.pyxis:
        other = next(available(facts), NONE)
        what = "The cluster has no Pyxis: its srun has no --container-image."
        yield Finding(
            Severity.ERROR,
            "slurm.no_pyxis",
            what,
            "container_runtime is pyxis.",
            f"Use --container-runtime {other}",
        )
