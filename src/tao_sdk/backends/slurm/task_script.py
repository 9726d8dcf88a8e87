"""Task script: what runs on every node of a job, in its container: its own log, its own rank, then the command. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from tao_sdk.backends.rendezvous import rendezvous, single_node
from tao_sdk.backends.results_place import own_place
from tao_sdk.backends.slurm.paths import Paths
from tao_sdk.backends.slurm.request import Decisions
from tao_sdk.model.plan import Attempt

# Unset for the command: ranks from SLURM or MPI, and what makes Lightning believe that srun has started every rank by itself.
# The command gets the variables of the rendezvous instead.
HIDDEN = (
    "SLURM_NTASKS SLURM_NPROCS SLURM_PROCID SLURM_LOCALID SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE SLURM_STEP_NUM_TASKS "
    "SLURM_STEP_TASKS_PER_NODE PMI_RANK PMI_SIZE PMIX_RANK RANK LOCAL_RANK"
)
TIMER_SECONDS = 5  # after which the timer of a time limit has noticed that its command has ended


def task_script(decisions: Decisions, at: Paths, attempt: Attempt) -> str:
    """What runs on every node, in the container: its own log, its own rank, then the command."""
    return "\n".join([*task_body(decisions, at, attempt), ""])


def task_body(decisions: Decisions, at: Paths, attempt: Attempt) -> Iterator[str]:
    nodes, gpus = decisions.nodes, decisions.gpus
    meets = single_node(gpus) if nodes == 1 else rendezvous(nodes, gpus, 0, "")
    yield f"d={shlex.quote(at.attempt)} l={shlex.quote(at.logs)}"
    yield "rank=${SLURM_PROCID:-0} node=${SLURM_NODEID:-0}"
    yield 'if [ "$rank" = 0 ]; then name=main; else name=rank-$rank; fi'
    yield 'exec >>"$l/$name.out" 2>>"$l/$name.err" </dev/null || exit 125'
    if not decisions.image:
        results = own_place(decisions.results_root, attempt)
        yield f"cd {shlex.quote(results)} || exit 125"
    yield f"unset {HIDDEN}"
    yield "export SLURM_JOB_NAME=bash"
    yield "# Kept where env.sh cannot reach: the job's variables may have any name."
    yield 'set -- "$d" "$rank" "$node" "$(command -v bash || echo /bin/sh)"'
    yield "export " + " ".join(
        f"{name}={value}" for name, value in meets.items() if name not in ("MASTER_ADDR", "NODE_RANK")
    )
    yield '. "$d/meeting.sh" && . "$d/env.sh" || exit 125'
    yield 'export NODE_RANK="$3" TAO_RANK="$2"'
    if gpus == 0:
        yield "export CUDA_VISIBLE_DEVICES= NVIDIA_VISIBLE_DEVICES=void"
    if decisions.timeout:
        yield from time_limit(decisions.timeout, decisions.grace)
    yield 'exec "$4" "$1/command"'


def time_limit(seconds: float, grace: int) -> Iterator[str]:
    """Shell text that ends the command after `seconds`; $1 is the attempt's folder. $$ becomes the command by exec.

    It ends with the command, which is its parent: no other process that has got the command's pid since is ever signalled.
    """
    yield "("
    yield '  is_child() { read -r pid name state parent rest </proc/self/stat && [ "$parent" = $$ ]; }'
    yield "  nap() {"
    yield "    end=$(($(date +%s) + $1))"
    yield "    while is_child && left=$((end - $(date +%s))) && [ $left -gt 0 ]; do"
    yield f"      [ $left -le {TIMER_SECONDS} ] || left={TIMER_SECONDS}"
    yield "      sleep $left"
    yield "    done"
    yield "    is_child || exit 0"
    yield "  }"
    whole = int(seconds)
    yield f"  sleep {plain_seconds(seconds - whole)}; nap {whole}"
    yield "  trap '' TERM"
    yield '  : > "$1/timed_out"; kill -TERM -$$ 2>/dev/null || kill -TERM $$'
    yield f"  nap {grace}"
    yield "  kill -KILL -$$ 2>/dev/null || kill -KILL $$"
    yield ") >/dev/null 2>&1 &"


def plain_seconds(value: float) -> str:
    """Digits, and a point if need be: not every `sleep` knows 1e-05."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
