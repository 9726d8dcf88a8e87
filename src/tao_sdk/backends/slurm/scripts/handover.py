"""Handover: scripts that start, find, cancel and remove an attempt on the login node. Pure.

Each script is one exec and may run again after a lost reply. read_reply reads its answer.

An attempt has begun once the file `<job_dir>/attempts/<n>/store` is there. `slurm_id` is written
next to it when SLURM has answered. Only the script that created the lock file `<n>.lock` submits.
It removes the lock if nothing was submitted. If there is `store` without `slurm_id`, SLURM is first
asked for a job of that name.

The scripts use shell builtins if they can: on a busy login node, it takes long to start a program.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from tao_sdk.backends.job_environment import grace_text
from tao_sdk.backends.shell import assign_variables, define_function, join_parts
from tao_sdk.backends.slurm import parse
from tao_sdk.backends.slurm.job.data import RequiredPath
from tao_sdk.backends.slurm.job.paths import JobHome, Paths, job_name, sbatch_command
from tao_sdk.backends.slurm.request import Decisions
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.plan import Attempt

SUBMIT_SECONDS = 180  # timeout of the client
# Seconds after which a lock is stale: no step of a submit takes that long, so its script has died.
STALE_LOCK = SUBMIT_SECONDS + 20
SBATCH_SECONDS = 90
# How far back sacct looks for a job's name. No job waits and runs longer between two looks.
LOOK_BACK = "now-60days"
# A user's shell may set these options of sbatch, unless the plan does.
LEFT_OPEN = ("account", "constraint", "qos", "reservation")


WORDS = (
    "ID",
    "NONE",
    "BEGUN",
    "STRANGER",
    "REFUSED",
    "DOUBT",
    "ALIVE",
    "NOROOM",
    "UNSAFE",
    "DENIED",
)


@dataclass(frozen=True)
class Reply:
    """The last answer of a script. `word` is one of WORDS; MISSING if required paths are missing;
    "" for no answer.
    """

    word: str
    text: str = ""
    missing: tuple[int, ...] = ()  # the numbers of required paths that are not there


def read_reply(text: str) -> Reply:
    """Read the last line of a script's output that begins with one of WORDS, and the lines after.

    Without such a line, the word is MISSING if paths are missing, else "".
    """
    lines = text.splitlines()
    missing = tuple(int(line.split()[1]) for line in lines if line.startswith("MISSING "))
    answers = [index for index, line in enumerate(lines) if line.split(" ", 1)[0] in WORDS]
    if not answers:
        return Reply("MISSING" if missing else "", text.strip(), missing)
    last = answers[-1]
    word, _, rest = lines[last].partition(" ")
    return Reply(word, "\n".join([rest, *lines[last + 1 :]]).strip(), missing)


COMMON = ("attempt", "answers", "lookup")  # scripts whose functions others call


def plain_start() -> str:
    """The first lines of a script for the login node that does not call sbatch."""
    return join_parts(load_script("environment"), load_script("private"))


def attempt_variables(home: JobHome, attempt: Attempt) -> dict[str, str]:
    """The variables of every script for one attempt."""
    at = home.attempt_paths(attempt)
    return {
        "base": at.base,
        "job": at.job,
        "n": str(attempt.number),
        "a": at.attempt,
        "logs": at.logs,
        "k": f"{at.attempt}.lock",
        "name": job_name(attempt),
        "store": attempt.store_id,
        "accounting": "yes" if home.accounting else "no",
        "since": LOOK_BACK,
        "tao_stale": str(STALE_LOCK),
    }


UNPACK_COMMAND = "tar xzmf -"  # reads stdin; gzip detects a missing end


def write_files_script(files: Mapping[str, bytes]) -> str:
    """Shell text that holds the files and writes them. ssh does not run an incomplete script."""
    texts = {name: content.decode("utf-8", "surrogateescape") for name, content in files.items()}
    return " &&\n".join(
        f"printf %s {shlex.quote(text)} >{shlex.quote(name)}" for name, text in texts.items()
    )


def submit_script(
    decisions: Decisions, attempt: Attempt, folders: Iterable[str], stage: str
) -> str:
    """scripts/submit.sh: runs `stage`, which fills the job's folders, and calls sbatch."""
    home = decisions.home
    named = [f"SBATCH_{name.upper()}" for name in LEFT_OPEN if name in decisions.directives]
    values = {
        **attempt_variables(home, attempt),
        "tao_results": f"{decisions.results_root}/{attempt.job_id}",
        "tao_named": " ".join(named),
    }
    return join_parts(
        load_script("environment"),
        assign_variables(values),
        define_function("check_paths", path_checks(decisions.checks)),
        define_function("stage", stage),
        define_function("prepare_image", decisions.image.prepare if decisions.image else ""),
        define_function(
            "call_sbatch", sbatch_call(sbatch_command(home.attempt_paths(attempt), attempt))
        ),
        *map(load_script, COMMON),
        f"set -- {shlex.join(other_folders(home, attempt, folders))}",
        load_script("submit"),
    )


def path_checks(checks: Sequence[RequiredPath]) -> str:
    """Shell text that prints the numbers of the missing paths."""
    return "\n".join(
        f"need {number} {shlex.quote(check.path)}" for number, check in enumerate(checks)
    )


def sbatch_call(words: Sequence[str]) -> str:
    """Shell text that calls sbatch. The text's arguments go before the batch script's name."""
    *sbatch, name = words
    return f'timeout {SBATCH_SECONDS} {shlex.join(sbatch)} "$@" {shlex.quote(name)}'


def other_folders(home: JobHome, attempt: Attempt, folders: Iterable[str]) -> list[str]:
    """The folders of a job, without the attempt's own."""
    own = f"attempts/{attempt.number}"
    return [f"{home.attempt_paths(attempt).job}/{folder}" for folder in folders if folder != own]


def find_script(home: JobHome, attempt: Attempt) -> str:
    """scripts/find.sh: prints the id of the attempt's SLURM job."""
    return join_parts(
        plain_start(),
        assign_variables(attempt_variables(home, attempt)),
        *map(load_script, COMMON),
        load_script("find"),
    )


def cancel_script(
    home: JobHome, attempt: Attempt, job_id: str, grace: timedelta, seconds: float
) -> str:
    """scripts/cancel.sh: cancels the attempt's SLURM job.

    After the grace, it waits up to `seconds` for the end.
    """
    values = {
        **attempt_variables(home, attempt),
        **grace_variables(grace),
        "id": job_id,
        "seconds": str(max(1, round(seconds))),
    }
    return join_parts(
        plain_start(),
        assign_variables(values),
        define_function("ask_squeue", parse.squeue_command(['"$id"'])),
        *map(load_script, (*COMMON, "states", "end_steps")),
        load_script("cancel"),
    )


def grace_variables(grace: timedelta) -> dict[str, str]:
    """The grace as text for the job's file, and in whole seconds for the shell's arithmetic."""
    return {
        "grace": grace_text(grace),
        "tao_grace_seconds": str(max(0, math.ceil(grace.total_seconds()))),
    }


def cancel_many_script(
    jobs: Sequence[tuple[str, Paths, Attempt]], grace: timedelta, seconds: float
) -> str:
    """scripts/cancel_many.sh: cancels SLURM jobs by id, each with its attempt's paths.

    After the grace, it waits up to `seconds` for their end.
    """
    values = {
        **grace_variables(grace),
        "jobs": "\n".join(f"{job_id}|{job_name(attempt)}" for job_id, _, attempt in jobs),
        "seconds": str(max(1, round(seconds))),
    }
    ids = [job_id for job_id, _, _ in jobs]
    return join_parts(
        plain_start(),
        assign_variables(values),
        define_function("ask_squeue", parse.squeue_command(ids)),
        define_function("note_grace", note_grace([at for _, at, _ in jobs])),
        define_function("note_killed", note_killed({job_id: at for job_id, at, _ in jobs})),
        *map(load_script, ("answers", "states", "end_steps", "cancel_many")),
    )


def note_grace(paths: Sequence[Paths]) -> str:
    """Shell text that writes $grace into the folder of each attempt, if the folder exists."""
    return "\n".join(
        f'{{ echo "$grace" >{shlex.quote(at.grace_file)}; }} 2>/dev/null' for at in paths
    )


def note_killed(paths: Mapping[str, Paths]) -> str:
    """Shell text that leaves a mark in the folder of each attempt whose job is in $started."""
    return "\n".join(
        f'case "$started " in *" {job_id} "*) : >{shlex.quote(at.killed_file)} ;; esac 2>/dev/null'
        for job_id, at in paths.items()
    )


def release_script(home: JobHome, attempt: Attempt) -> str:
    """scripts/release.sh: removes the attempt's files, but not its results."""
    return join_parts(
        plain_start(),
        assign_variables(attempt_variables(home, attempt)),
        load_script("attempt"),
        load_script("release"),
    )
