"""The verbs of the command: the name of each, its purpose in a few words, and the module that is
loaded when it is used.
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
    "plan": Verb("submit", "Show what `run` would do; nothing is sent. --full: all of it."),
    "attach": Verb("attach", "Show a running job's screen again."),
    "ls": Verb("look", "List jobs, newest first."),
    "status": Verb("look", "Show how jobs stand."),
    "compare": Verb("compare", "Show jobs side by side: what differs, and how they did."),
    "logs": Verb("logs", "Print a job's log; -f follows it."),
    "events": Verb("look", "Show everything that happened, in order."),
    "wait": Verb("wait", "Wait until jobs have ended."),
    "cancel": Verb("wait", "End jobs; their logs and results are kept."),
    "retry": Verb("retry", "Retry an ended job; with a resume key, from a checkpoint."),
    "why": Verb("look", "Say why a job waits or failed, and what to do."),
    "watch": Verb("wait", "Watch live jobs to their end: retries and hooks."),
    "results": Verb("results", "Show a job's results and best checkpoint; --fetch copies them."),
    "files": Verb("results", "Show a path as the platform sees it."),
    "rm": Verb("forget", "Delete ended jobs from the store; their results stay."),
    "gc": Verb("forget", "Remove what ended jobs left at the platforms."),
    "automl": Verb("automl", "Search the best settings of a training, by jobs that are trials."),
    "images": Verb("images", "List the image keys and what they stand for."),
    "skills": Verb("skills", "List, show, check and install the skills of a skill bank."),
    "doctor": Verb("doctor", "Find what is missing or wrong on this machine."),
    "completion": Verb("completion", "Print the completion script for bash, zsh or fish."),
}
