"""The verbs of the command: what each is called, what it does in a few words, and the module that
is loaded when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Verb(NamedTuple):
    module: str
    summary: str


VERBS: Mapping[str, Verb] = {
    "run": Verb("submit", "Run a job file, or a command, and watch it."),
    "init": Verb("init", "Write a job file to begin with."),
    "plan": Verb("submit", "Show exactly what `run` would send; nothing is sent."),
    "attach": Verb("attach", "Show a running job's screen again."),
    "ls": Verb("look", "List jobs, newest first."),
    "status": Verb("look", "Show how jobs stand."),
    "compare": Verb("compare", "Show jobs side by side: what differs, and how they did."),
    "logs": Verb("logs", "Print a job's log; -f follows it."),
    "events": Verb("look", "Show everything that happened, in order."),
    "wait": Verb("wait", "Wait until jobs have ended."),
    "cancel": Verb("wait", "End jobs; their logs and results are kept."),
    "retry": Verb("retry", "Try an ended job again, from its last checkpoint."),
    "why": Verb("look", "Say why a job waits or failed, and what to do."),
    "watch": Verb("wait", "Carry live jobs to their end: retries and hooks."),
    "results": Verb("results", "Show a job's results and best checkpoint; --fetch copies them."),
    "files": Verb("results", "Show what a path is, as the backend sees it."),
    "rm": Verb("forget", "Forget ended jobs; their results stay."),
    "gc": Verb("forget", "Remove what ended jobs left at the backends."),
    "images": Verb("images", "List the image keys and what they stand for."),
    "doctor": Verb("doctor", "Find what is missing or wrong on this machine."),
    "completion": Verb("completion", "Print the completion script for bash, zsh or fish."),
}

# What other tools call them.
MEANT: Mapping[str, str] = {
    word: verb
    for verb, words in {
        "run": "submit start launch create apply train sbatch srun",
        "plan": "validate check dry-run lint",
        "ls": "list ps jobs queue squeue sacct",
        "status": "show describe info get inspect stat",
        "attach": "reattach join resume-watching",
        "compare": "diff",
        "logs": "log tail",
        "events": "history",
        "cancel": "stop kill abort terminate scancel",
        "retry": "resume restart rerun requeue again",
        "why": "explain diagnose debug",
        "results": "fetch download output outputs checkpoint checkpoints artifacts",
        "rm": "delete remove",
        "gc": "clean cleanup prune",
        "doctor": "preflight verify config configure login platforms endpoints",
        "init": "new template",
        "images": "image",
        "--help": "help",
        "--version": "version",
    }.items()
    for word in words.split()
}

EVALUATION = (
    "An evaluation is a job of its own: tao run -- COMMAND. The checkpoint for it: tao results JOB"
)

# What other tools have and this one does not: what is done instead.
INSTEAD: Mapping[str, str] = {
    "exec": "No command enters a job that runs. Its log: tao logs -f JOB",
    "ssh": "No command enters a job that runs. Its log: tao logs -f JOB",
    "cp": "To copy a job's results here: tao results JOB --fetch DIR",
    "top": "How a job's training goes: tao status JOB",
    "sweep": (
        "A sweep is a job for each value: tao run JOB.yaml --detach "
        "--set train.lr=0.1 --label lr=0.1"
    ),
    "eval": EVALUATION,
    "evaluate": EVALUATION,
}

# Flags that other tools have, by verb ("" for all): what is done instead.
FLAGS_INSTEAD: Mapping[tuple[str, str], str] = {
    ("run", "--dry-run"): "To see what would be sent: tao plan, with the same arguments.",
    ("", "--dry-run"): "To see what a run would send: tao plan JOB_FILE",
    ("logs", "--since"): "A log has no times of its own. Its end: tao logs JOB --tail N",
    ("events", "--since"): "N is the number that stands before an event: tao events JOB --since N",
    ("ls", "--since"): "The newest jobs come first: tao ls --limit N",
    ("", "--since"): "Only events are numbered: tao events JOB --since N",
    ("run", "--resume"): "To go on with a job that has ended: tao retry JOB",
    ("run", "--follow"): "A run is followed unless --detach is given.",
    ("run", "--watch"): "A run is followed unless --detach is given.",
    ("run", "--wait"): "A run is followed unless --detach is given.",
    ("run", "--background"): "To return at once: tao run --detach",
    ("ls", "-a"): "All of them: tao ls --limit 0",
    ("ls", "--all"): "All of them: tao ls --limit 0",
    ("ls", "-n"): "The newest N: tao ls --limit N",
    ("ls", "--running"): "Those that run: tao ls --status running",
    ("ls", "--failed"): "Those that failed: tao ls --status error",
    ("ls", "--status"): "A job that failed has the status error, one that went well has complete.",
    ("ls", "--state"): "To choose by status: tao ls --status running",
    ("ls", "--filter"): "To choose jobs: tao ls --label NAME=VALUE, --status or --platform",
    ("ls", "--watch"): "To see what happens as it happens: tao events --follow",
    ("ls", "-w"): "To see what happens as it happens: tao events --follow",
    ("status", "--watch"): "To see it change: tao attach JOB",
    ("status", "-w"): "To see it change: tao attach JOB",
    ("logs", "--lines"): "The end of it: tao logs JOB --tail N",
    (
        "results",
        "--best",
    ): "tao results JOB names the best. To copy its epoch: tao results JOB --epoch N --fetch DIR",
    ("results", "--output"): "To copy them here: tao results JOB --fetch DIR",
    ("cancel", "--all"): "Name the jobs that are to end; tao ls --status running lists them.",
    ("cancel", "--force"): "To give it no time to end by itself: tao cancel JOB --grace 0s",
    ("rm", "--all"): "Name the jobs that are to be forgotten; tao ls lists them.",
}

ANY_VALUE = "To change a value of the specs or args: --set KEY=VALUE. All flags:"
# What to do about a flag that no table knows, by verb.
UNKNOWN_FLAG: Mapping[str, str] = {"run": ANY_VALUE, "plan": ANY_VALUE}


def flag_instead(verb: str, flag: str) -> str:
    return FLAGS_INSTEAD.get((verb, flag)) or FLAGS_INSTEAD.get(("", flag), "")
