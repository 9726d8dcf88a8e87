"""Containers: the program that runs an image on the nodes, and the command that starts a task.

Pure. Pyxis (flags of srun) is the documented way. Sites without it use enroot, apptainer or no
container.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tao_sdk.backends.mounts import Mount
from tao_sdk.backends.shell import join_parts
from tao_sdk.backends.slurm.facts import SlurmFacts
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.errors import SpecError
from tao_sdk.model.finding import Finding, Severity

PYXIS, ENROOT, APPTAINER, NONE = "pyxis", "enroot", "apptainer", "none"
APPTAINERS = ("apptainer", "singularity")  # one program under its new and its old name


@dataclass(frozen=True)
class Task:
    """The needs of one task in its container."""

    mounts: Sequence[Mount] = ()
    gpus: int = 0


@dataclass(frozen=True)
class Start:
    """Texts for the job's script, quoted for its shell. Both use the variable `tao_image`."""

    srun: str = ""  # options of srun
    task: str = ""  # words before the command, in each task


def choose_runtime(options: SlurmOptions, facts: SlurmFacts) -> str:
    """The job's container runtime, else the site's, else the cluster's best; "" for none."""
    return options.container_runtime or facts.site.runtime or next(available_runtimes(facts), "")


def available_runtimes(facts: SlurmFacts) -> Iterator[str]:
    """The container runtimes of the cluster, the best one first."""
    if facts.pyxis:
        yield PYXIS
    if ENROOT in facts.programs:
        yield ENROOT
    if any(program in facts.programs for program in APPTAINERS):
        yield APPTAINER


def apptainer_program(facts: SlurmFacts) -> str:
    """The name of apptainer on the cluster: its new or its old one."""
    return next((program for program in APPTAINERS if program in facts.programs), APPTAINERS[0])


def build_start(runtime: str, task: Task, facts: SlurmFacts) -> Start:
    """The text that starts a task with this runtime; empty for a job without a container.

    Raises SpecError for a path that cannot be mounted.
    """
    if runtime not in STARTS:
        return Start()
    for mount in task.mounts:
        refuse_dividers(mount.source)
        refuse_dividers(mount.target)
    return STARTS[runtime](task, facts)


def refuse_dividers(path: str) -> None:
    """Raise SpecError for a path with a comma, a colon or a control character."""
    if any(character in ",:" or ord(character) < 32 for character in path):
        why = "Commas and colons divide the list of mounts, on SLURM."
        raise SpecError(
            f"{path!r} cannot be mounted.", why, "Use a path without them, such as a symbolic link."
        )


def start_with_pyxis(task: Task, _: SlurmFacts) -> Start:
    """Start with Pyxis, without the user's home.

    Python packages in the home would shadow the image's.
    """
    words = ["--no-container-mount-home", "--container-writable"]
    if task.mounts:
        words.append(f"--container-mounts={','.join(map(mount_text, task.mounts))}")
    return Start(srun=f'--container-image="$tao_image" {shlex.join(words)}')


def start_with_enroot(task: Task, _: SlurmFacts) -> Start:
    words = ["--rw"]
    for mount in task.mounts:
        mode = "x-create=auto,rbind,ro" if mount.read_only else "x-create=auto,rbind"
        words += ["--mount", f"{mount.source}:{mount.target}:{mode}"]
    text = join_parts(f"words=({shlex.join(words)})", load_script("enroot_task"))
    return Start(task=f'bash -c {shlex.quote(text)} tao "$tao_image"')


def start_with_apptainer(task: Task, facts: SlurmFacts) -> Start:
    words = ["exec", "--no-home", "--writable-tmpfs"]
    if task.gpus:
        words.append("--nv")
    for mount in task.mounts:
        words += ["--bind", mount_text(mount)]
    return Start(task=f'{apptainer_program(facts)} {shlex.join(words)} "$tao_image"')


def mount_text(mount: Mount) -> str:
    """`/source:/target`, or `/source:/target:ro`."""
    text = f"{mount.source}:{mount.target}"
    return f"{text}:ro" if mount.read_only else text


STARTS: Mapping[str, Callable[[Task, SlurmFacts], Start]] = {
    PYXIS: start_with_pyxis,
    ENROOT: start_with_enroot,
    APPTAINER: start_with_apptainer,
}


def runtime_findings(options: SlurmOptions, facts: SlurmFacts) -> Iterator[Finding]:
    """Errors for a cluster that cannot run the job's image."""
    runtime = choose_runtime(options, facts)
    if not runtime:
        yield Finding(
            Severity.ERROR,
            "slurm.no_pyxis",
            "The cluster cannot run images: its srun has no --container-image (the Pyxis plugin).",
            "srun --help does not list it, and neither enroot nor apptainer is installed.",
            "Ask the site for Pyxis and enroot, or run without an image: --container-runtime none",
        )
    elif runtime == PYXIS and not facts.pyxis:
        other = next(available_runtimes(facts), NONE)
        what = "The cluster has no Pyxis: its srun has no --container-image."
        yield Finding(
            Severity.ERROR,
            "slurm.no_pyxis",
            what,
            "container_runtime is pyxis.",
            f"Use --container-runtime {other}",
        )
