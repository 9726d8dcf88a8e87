"""The verbs of the command: what each is called, what it does in a few words, and the module that is loaded when it is used."""

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
        "run": "submit start launch create apply",
        "plan": "validate check dry-run lint",
        "ls": "list ps jobs queue squeue",
        "status": "show describe info get inspect stat",
        "attach": "reattach join resume-watching",
        "compare": "diff",
        "logs": "log tail",
        "events": "history",
        "cancel": "stop kill abort terminate scancel",
        "retry": "resume restart rerun requeue again",
        "why": "explain diagnose debug",
        "results": "fetch download output outputs",
        "rm": "delete remove",
        "gc": "clean cleanup prune",
        "doctor": "preflight verify config configure login",
        "init": "new template",
        "images": "image",
        "--help": "help",
        "--version": "version",
    }.items()
    for word in words.split()
}

# What other tools have and this one does not: what is done instead.
INSTEAD: Mapping[str, str] = {
    "exec": "No command enters a job that runs. Its log: tao logs -f JOB",
    "ssh": "No command enters a job that runs. Its log: tao logs -f JOB",
    "cp": "To copy a job's results here: tao results JOB --fetch DIR",
    "top": "How a job's training goes: tao status JOB",
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
}


def flag_instead(verb: str, flag: str) -> str:
    return FLAGS_INSTEAD.get((verb, flag)) or FLAGS_INSTEAD.get(("", flag), "")
