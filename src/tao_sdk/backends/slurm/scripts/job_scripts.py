"""Job scripts: the batch script, which SLURM starts on the first node, and the task script. Pure.

scripts/batch.sh runs scripts/task.sh on every node, and ends with the command's exit code.
"""

from __future__ import annotations

from tao_sdk.backends.rendezvous import rendezvous, single_node
from tao_sdk.backends.results_place import own_place
from tao_sdk.backends.shell import assign_variables, define_function, export_variables, join_parts
from tao_sdk.backends.slurm.job.paths import Paths
from tao_sdk.backends.slurm.request import Decisions
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.plan import Attempt

NODE_VARIABLES = ("MASTER_ADDR", "NODE_RANK")  # task.sh sets them


def batch_script(decisions: Decisions, at: Paths, attempt: Attempt) -> str:
    """The script for sbatch: its directives, then batch.sh."""
    directives = [directive_line(*directive) for directive in decisions.directives.items()]
    values = {
        "d": at.attempt,
        "words": f"{at.logs}/slurm.err",
        "tao_number": str(attempt.number),
        "tao_nodes": str(decisions.nodes),
        "tao_exclusive": yes_or_no(decisions.exclusive),
        "tao_image_wanted": yes_or_no(decisions.image is not None),
        "tao_requeue": yes_or_no("no-requeue" not in decisions.directives),
    }
    start_task = define_function("start_task", f'  {srun_command(decisions)} /bin/sh "$d/task.sh"')
    return join_parts(
        "#!/bin/bash",
        *directives,
        "\n" + assign_variables(values),
        start_task,
        load_script("batch"),
    )


def directive_line(name: str, value: str) -> str:
    """A #SBATCH line. A directive without a value is a flag."""
    return f"#SBATCH --{name}={value}" if value else f"#SBATCH --{name}"


def yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def srun_command(decisions: Decisions) -> str:
    """Shell text that calls srun, up to the task's own command."""
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
    """The script for every node, run in the container.

    Without an image, it starts in the results folder.
    """
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
    return join_parts(
        assign_variables(values),
        export_variables(rendezvous_variables(decisions)),
        load_script("limit_time"),
        load_script("run_command"),
        load_script("task"),
    )


def rendezvous_variables(decisions: Decisions) -> dict[str, str]:
    """The variables with which ranks find each other, except those that only the node knows."""
    nodes, gpus = decisions.nodes, decisions.gpus
    values = single_node(gpus) if nodes == 1 else rendezvous(nodes, gpus, 0, "")
    return {name: value for name, value in values.items() if name not in NODE_VARIABLES}


def whole_and_part(seconds: float) -> tuple[str, str]:
    """Return (`12`, `0.25`) for 12.25 seconds. Never 1e-05: not every `sleep` reads that."""
    whole = int(seconds)
    return str(whole), f"{seconds - whole:.3f}".rstrip("0").rstrip(".")
