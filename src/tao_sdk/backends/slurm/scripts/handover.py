"""Handover: the scripts that start, find, end and remove an attempt on the login node, and how
their answers are read.

Each is one exec, and each may run again after a lost reply. Pure.

The file `<job_dir>/attempts/<n>/store` says that an attempt was begun; `slurm_id` is written beside
it once SLURM has answered. Only the script that could create the file `<n>.lock` submits, and it
removes the lock when nothing was submitted. Where `store` is there without `slurm_id` SLURM is
first asked for a job of that name.

On a busy login node starting a program takes longer than the program runs: where the shell can do
something, it does.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tao_sdk.backends.slurm import parse
from tao_sdk.backends.slurm.job.data import RequiredPath
from tao_sdk.backends.slurm.job.paths import JobHome, job_name, sbatch_command
from tao_sdk.backends.slurm.request import Decisions
from tao_sdk.backends.slurm.scripts.shell import function, joined, script, variables
from tao_sdk.model.plan import Attempt

SUBMIT_SECONDS = 180  # after which the client gives up
STALE_LOCK = (
    SUBMIT_SECONDS + 20
)  # none of a submit's steps lasts that long: the script of this lock has died
SBATCH_SECONDS = 90
LOOK_BACK = (
    "now-60days"  # how far sacct looks for a name: a job waits and runs no longer between two looks
)
LEFT_OPEN = (
    "account",
    "constraint",
    "qos",
    "reservation",
)  # a user's shell may set these for sbatch, unless the plan does


@dataclass(frozen=True)
class Reply:
    """The first word and the rest of what a script said last; `missing` are the numbers of paths
    that are not there.
    """

    word: str
    text: str = ""
    missing: tuple[int, ...] = ()


def read_reply(text: str) -> Reply:
    lines = text.splitlines()
    missing = tuple(int(line.split()[1]) for line in lines if line.startswith("MISSING "))
    said = [index for index, line in enumerate(lines) if line.split(" ", 1)[0] in WORDS]
    if not said:
        return Reply("MISSING" if missing else "", text.strip(), missing)
    word, _, rest = lines[said[-1]].partition(" ")
    return Reply(word, "\n".join([rest, *lines[said[-1] + 1 :]]).strip(), missing)


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


COMMON = ("attempt", "answers", "lookup")  # scripts that others use


def plain_start() -> str:
    """How a script for the login node begins, unless it calls sbatch."""
    return joined(script("environment"), script("private"))


def attempt_variables(home: JobHome, attempt: Attempt) -> dict[str, str]:
    """The variables of every script for one attempt."""
    at = home.paths(attempt)
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


UNPACKING = "tar xzmf -"  # what comes on stdin; gzip notices when its end is missing


def writing(files: Mapping[str, bytes]) -> str:
    """Files that are part of the script, written by the shell itself. A script that was cut short
    is not run at all.
    """
    texts = {name: content.decode("utf-8", "surrogateescape") for name, content in files.items()}
    return " &&\n".join(
        f"printf %s {shlex.quote(text)} >{shlex.quote(name)}" for name, text in texts.items()
    )


def submit(decisions: Decisions, attempt: Attempt, folders: Iterable[str], stage: str) -> str:
    """scripts/submit.sh: have `stage` fill the folders of the job, and hand it to SLURM."""
    home = decisions.home
    values = {
        **attempt_variables(home, attempt),
        "tao_results": f"{decisions.results_root}/{attempt.job_id}",
        "tao_named": " ".join(
            f"SBATCH_{name.upper()}" for name in LEFT_OPEN if name in decisions.directives
        ),
    }
    return joined(
        script("environment"),
        variables(values),
        function("check_paths", path_checks(decisions.checks)),
        function("stage", stage),
        function("prepare_image", decisions.image.prepare if decisions.image else ""),
        function("call_sbatch", sbatch_call(sbatch_command(home.paths(attempt), attempt))),
        *map(script, COMMON),
        f"set -- {shlex.join(other_folders(home, attempt, folders))}",
        script("submit"),
    )


def path_checks(checks: Sequence[RequiredPath]) -> str:
    """Shell text that says which of the paths are not there, by their numbers."""
    return "\n".join(
        f"need {number} {shlex.quote(check.path)}" for number, check in enumerate(checks)
    )


def sbatch_call(words: Sequence[str]) -> str:
    """Shell text that calls sbatch; more words for it come before the name of the script."""
    *sbatch, name = words
    return f'timeout {SBATCH_SECONDS} {shlex.join(sbatch)} "$@" {shlex.quote(name)}'


def other_folders(home: JobHome, attempt: Attempt, folders: Iterable[str]) -> list[str]:
    """The folders of a job, without the attempt's own."""
    own = f"attempts/{attempt.number}"
    return [f"{home.paths(attempt).job}/{folder}" for folder in folders if folder != own]


def find(home: JobHome, attempt: Attempt) -> str:
    """scripts/find.sh: which SLURM job the attempt is."""
    return joined(
        plain_start(),
        variables(attempt_variables(home, attempt)),
        *map(script, COMMON),
        script("find"),
    )


def cancel(home: JobHome, attempt: Attempt, job_id: str, seconds: float) -> str:
    """scripts/cancel.sh: end the attempt's SLURM job, and wait that long for its end."""
    values = {
        **attempt_variables(home, attempt),
        "id": job_id,
        "seconds": str(max(1, round(seconds))),
    }
    return joined(
        plain_start(),
        variables(values),
        function("ask_squeue", parse.squeue_command(['"$id"'])),
        *map(script, (*COMMON, "states")),
        script("cancel"),
    )


def cancel_many(jobs: Sequence[tuple[str, str]], seconds: float) -> str:
    """scripts/cancel_many.sh: end the SLURM jobs with these ids and names, and wait that long for
    their ends.
    """
    values = {
        "jobs": "\n".join(f"{job_id}|{name}" for job_id, name in jobs),
        "seconds": str(max(1, round(seconds))),
    }
    return joined(
        plain_start(),
        variables(values),
        function("ask_squeue", parse.squeue_command([job_id for job_id, _ in jobs])),
        *map(script, ("answers", "states", "cancel_many")),
    )


def release(home: JobHome, attempt: Attempt) -> str:
    """scripts/release.sh: remove what the attempt left but its results."""
    return joined(
        plain_start(),
        variables(attempt_variables(home, attempt)),
        script("attempt"),
        script("release"),
    )
