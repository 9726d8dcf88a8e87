"""Batch script: what SLURM starts on the first node of a job. Pure.

It starts the command on every node (task_script.py), and ends with the command's exit code.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from tao_sdk.backends.rendezvous import MASTER_PORT
from tao_sdk.backends.slurm.paths import Paths
from tao_sdk.backends.slurm.request import Decisions
from tao_sdk.model.plan import Attempt

# How srun tells that a signal has ended a task. Source: glibc's strsignal, and slurm's own word for an OOM.
SIGNALS: Mapping[str, int] = {
    "Killed": 9, "Out Of Memory": 9, "Segmentation fault": 11, "Aborted": 6, "Bus error": 7, "Terminated": 15,
    "Floating point exception": 8, "Illegal instruction": 4, "Hangup": 1, "Interrupt": 2, "Quit": 3,
}  # fmt: skip
TRIES = 60  # of srun, when it does not reach the controller, for which it waits some seconds itself
PAUSE = 5  # seconds between them


def batch_script(decisions: Decisions, at: Paths, attempt: Attempt) -> str:
    """What SLURM starts on the first node: it starts the command on every node, and ends with its exit code."""
    told = [f"#SBATCH --{name}" + (f"={value}" if value else "") for name, value in decisions.directives.items()]
    return "\n".join(["#!/bin/bash", *told, "", *batch_body(decisions, at, attempt), ""])


def batch_body(decisions: Decisions, at: Paths, attempt: Attempt) -> Iterator[str]:
    yield f"d={shlex.quote(at.attempt)}"
    yield f"words={shlex.quote(f'{at.logs}/slurm.err')}"
    yield 'rm -f "$d/exit" "$d/timed_out"; stat -c %s "$words" >"$d/started" 2>/dev/null'
    yield "ended=; trap 'ended=yes' TERM"
    yield from meeting(decisions.nodes, decisions.exclusive)
    if decisions.image:
        yield 'tao_image=$(cat "$d/image")'
    yield from as_soon_as_the_controller_answers(f'{srun(decisions)} /bin/sh "$d/task.sh"')
    yield from how_it_ended()
    yield from unless_it_goes_on(decisions)
    yield "if [ $again = no ] && { [ $limit = true ] || [ $code -le 128 ]; }; then"
    yield '  rm -f "$d/env.sh"'
    yield "fi"
    yield f'printf \'{{"attempt":{attempt.number},"exit_code":%d,"time_limit":%s}}\' $code $limit > "$d/exit.new"'
    yield 'mv -f "$d/exit.new" "$d/exit"'
    yield "exit $code"


def as_soon_as_the_controller_answers(start: str) -> Iterator[str]:
    """Shell text that starts the command on the nodes, and sets $code and $said to its exit code and srun's words of it."""
    yield "# While the controller restarts srun starts nothing, and is asked again."
    yield f"for try in $(seq {TRIES}); do"
    yield '  before=$(stat -c %s "$words" 2>/dev/null || echo 0)'
    yield f"  {start}"
    yield '  code=$? said=$(tail -c +$((before + 1)) "$words")'
    yield '  case "$ended$said" in'
    yield '    *": Invalid job id specified"*) break ;;'
    yield '    "srun: error: Unable to confirm allocation for job "*) ;;'
    yield '    "srun: error: Unable to create step for job "*": Unable to contact slurm controller"*) ;;'
    yield "    *) break ;;"
    yield "  esac"
    yield f'  sleep {PAUSE} & wait $!; [ -z "$ended" ] || break'
    yield "done"


def how_it_ended() -> Iterator[str]:
    """Shell text that sets $code to the exit code of the command, and $limit to whether its time was up."""
    yield "# srun ends the other ranks when one fails, and then has their signal for its code; of an OOM it says 1."
    yield r"""first=$(echo "$said" | sed -n 's/^srun: error: [^ ]*: tasks\{0,1\} [^ ]*: //p' | head -n 1)"""
    yield 'case $first in "Exited with exit code "*) code=${first##* } ;;'
    yield from (f'"{words}"*) code={128 + number} ;;' for words, number in SIGNALS.items())
    yield "esac"
    yield 'limit=false; if [ -e "$d/timed_out" ]; then limit=true; code=124; fi'


def unless_it_goes_on(decisions: Decisions) -> Iterator[str]:
    """Shell text that exits without a record where SLURM will run the job again. $again is `perhaps` if it could not say."""
    yield "# What SLURM ends it may start again: that is no end, and the secrets are needed then."
    yield 'case "$ended$said" in yes*|*"Node failure"*|*"*** JOB "*"CANCELLED AT"*) [ $limit = true ] || exit $code ;; esac'
    yield "again=no"
    if "no-requeue" not in decisions.directives:
        yield "# A node that SLURM took for lost may still have brought it here: then it is another run's turn, or will be."
        yield 'now=$(timeout 10 scontrol show job --oneliner "$SLURM_JOB_ID" 2>/dev/null) || again=perhaps'
        yield 'ours="JobState=RUNNING *Restarts=${SLURM_RESTART_COUNT:-0} "'
        yield 'case "$again$now" in perhaps*|*" "$ours*) ;; *) exit $code ;; esac'


def meeting(nodes: int, exclusive: bool) -> Iterator[str]:
    """Shell text that writes MASTER_ADDR and MASTER_PORT to a file for every task: an image may set variables of these names."""
    port = str(MASTER_PORT) if exclusive else "$((15000 + SLURM_JOB_ID % 17000))"
    if nodes == 1:
        yield f"master=127.0.0.1 port={port}"
    else:
        yield f'master=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) port={port}'
        yield "# The file is sourced on every node: a name is a name, or the job ends here."
        yield "case $master in"
        yield "  ''|*[!A-Za-z0-9._:-]*) echo \"tao: SLURM's name of the first node is no host name: '$master'\" >&2; exit 125 ;;"
        yield "esac"
    yield 'printf "export MASTER_ADDR=\'%s\' MASTER_PORT=\'%s\'\\n" "$master" "$port" > "$d/meeting.sh"'


def srun(decisions: Decisions) -> str:
    n = decisions.nodes
    flags = [f"--nodes={n}", f"--ntasks={n}", "--ntasks-per-node=1", '--cpus-per-task="${SLURM_CPUS_PER_TASK:-1}"',
             "--mpi=none", "--input=none", "--kill-on-bad-exit=1"]  # fmt: skip
    return " ".join(filter(None, ["srun", *flags, decisions.container.srun, decisions.container.task]))
