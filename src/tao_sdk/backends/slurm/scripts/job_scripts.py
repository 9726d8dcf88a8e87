"""Job scripts: what SLURM starts on the first node of a job, and what that starts on every node.
Pure.

scripts/batch.sh runs scripts/task.sh on every node, and ends with the command's exit code.
"""

from __future__ import annotations

from tao_sdk.backends.rendezvous import rendezvous, single_node
from tao_sdk.backends.results_place import own_place
from tao_sdk.backends.slurm.job.paths import Paths
from tao_sdk.backends.slurm.request import Decisions
from tao_sdk.backends.slurm.scripts.shell import exports, function, joined, script, variables
from tao_sdk.model.plan import Attempt


def batch_script(decisions: Decisions, at: Paths, attempt: Attempt) -> str:
    """What sbatch is given: its directives, then batch.sh."""
    directives = [
        f"#SBATCH --{name}" + (f"={value}" if value else "")
        for name, value in decisions.directives.items()
    ]
    values = {
        "d": at.attempt,
        "words": f"{at.logs}/slurm.err",
        "tao_number": str(attempt.number),
        "tao_nodes": str(decisions.nodes),
        "tao_exclusive": yes_or_no(decisions.exclusive),
        "tao_image_wanted": yes_or_no(decisions.image is not None),
        "tao_requeue": yes_or_no("no-requeue" not in decisions.directives),
    }
    start_task = function("start_task", f'  {srun_command(decisions)} /bin/sh "$d/task.sh"')
    return joined("#!/bin/bash", *directives, "\n" + variables(values), start_task, script("batch"))


def yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def srun_command(decisions: Decisions) -> str:
    """Shell text: srun, and the words that start a task in the job's image."""
    words = [
        "srun",
        f"--nodes={decisions.nodes}",
        f"--ntasks={decisions.nodes}",
        "--ntasks-per-node=1",
        '--cpus-per-task="${SLURM_CPUS_PER_TASK:-1}"',
        "--mpi=none",
        "--input=none",
        "--kill-on-bad-exit=1",
        decisions.container.srun,
        decisions.container.task,
    ]
    return " ".join(filter(None, words))


def task_script(decisions: Decisions, at: Paths, attempt: Attempt) -> str:
    """What runs on every node, in the container. A job without an image starts in its results."""
    whole, part = whole_and_part(decisions.timeout)
    values = {
        "d": at.attempt,
        "l": at.logs,
        "tao_folder": "" if decisions.image else own_place(decisions.results_root, attempt),
        "tao_gpus": str(decisions.gpus),
        "tao_seconds": whole,
        "tao_part": part,
        "tao_grace": str(decisions.grace),
    }
    return joined(
        variables(values), exports(meeting(decisions)), script("limit_time"), script("task")
    )


def meeting(decisions: Decisions) -> dict[str, str]:
    """The variables by which ranks find each other, but those that only the nodes know."""
    nodes, gpus = decisions.nodes, decisions.gpus
    found = single_node(gpus) if nodes == 1 else rendezvous(nodes, gpus, 0, "")
    return {
        name: value for name, value in found.items() if name not in ("MASTER_ADDR", "NODE_RANK")
    }


def whole_and_part(seconds: float) -> tuple[str, str]:
    """Whole seconds and the rest, in digits, and a point if need be: not every
    `sleep` knows 1e-05.
    """
    whole = int(seconds)
    return str(whole), f"{seconds - whole:.3f}".rstrip("0").rstrip(".")
