"""Habits: the verbs, flags and words that other tools have, and what does the same here.

Not here: the verbs of this command (verbs.py), and how an answer is shown (failure.py).
"""

from __future__ import annotations

from collections.abc import Mapping

# What other tools call them.
MEANT: Mapping[str, str] = {
    word: verb
    for verb, words in {
        "run": "submit launch create apply train sbatch srun",
        "plan": "validate check dry-run lint",
        "ls": "list ps jobs queue squeue sacct",
        "status": "show describe info inspect stat progress",
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

PORTS = (
    "No port of a job is opened here. A local job's ports are those of this machine; "
    "a container's: docker or kubectl. A job's curve: tao attach JOB"
)

# What other tools have and this one does not: what is done instead.
INSTEAD: Mapping[str, str] = {
    "exec": "No command enters a job that runs. Its log: tao logs -f JOB",
    "ssh": "No command enters a job that runs. Its log: tao logs -f JOB",
    "cp": "To copy a job's results here: tao results JOB --fetch DIR",
    "top": "How a job's training goes: tao status JOB",
    "get": "All jobs: tao ls. One job: tao status JOB",
    "start": "To run a job file: tao run job.yaml. To try an ended job again: tao retry JOB",
    "curve": "A job's curve: tao attach JOB. Those of several jobs: tao compare JOB JOB",
    "plot": "A job's curve: tao attach JOB. Those of several jobs: tao compare JOB JOB",
    "metrics": "A job's metrics: tao status JOB. Those of several jobs: tao compare JOB JOB",
    "sinfo": "What a cluster has: tao doctor slurm",
    "nodes": "What a platform has: tao doctor slurm, or another platform",
    "gpus": "The GPUs of this machine: tao doctor local. Those of a cluster: tao doctor slurm",
    "cat": "A job's log: tao logs JOB. Its results: tao results JOB",
    "pull": (
        "An image is pulled when its job starts: tao run --platform docker. "
        "To copy a job's results here: tao results JOB --fetch DIR"
    ),
    "tag": "A job gets its labels when it starts: tao run --label NAME=VALUE",
    "sweep": (
        "A sweep is a job for each value: tao run JOB.yaml --detach "
        "--set train.lr=0.1 --label lr=0.1"
    ),
    "eval": EVALUATION,
    "evaluate": EVALUATION,
    "port-forward": PORTS,
    "port": PORTS,
    "edit": "A job stays as it was started. To run a changed job file: tao run job.yaml",
    "rename": "A job gets its name when it starts: tao run --name NAME",
    "env": "What a job was started with: tao status JOB --json. What it would be: tao plan --full",
}

FETCH_OR_JSON = (
    "To copy them here: tao results JOB --fetch DIR. For programs: tao results JOB --json"
)
PICTURE_OR_JSON = (
    "The picture: tao compare JOB JOB --out FILE. For programs: tao compare JOB JOB --json"
)
LOG_OR_JSON = (
    "What a job prints: tao logs JOB. What it writes: tao run --outputs DIR. "
    "For programs: tao run --json"
)

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
    ("ls", "-l"): "The list has one form. More of one job: tao status JOB",
    (
        "ls",
        "--name",
    ): "One job by its name: tao status NAME. To choose jobs: tao ls --label NAME=VALUE",
    ("ls", "--running"): "Those that run: tao ls --status running",
    ("ls", "--failed"): "Those that failed: tao ls --status error",
    ("ls", "--state"): "To choose by status: tao ls --status running",
    ("ls", "--filter"): "To choose jobs: tao ls --label NAME=VALUE, --status or --platform",
    ("ls", "--watch"): "To see what happens as it happens: tao events --follow",
    ("ls", "-w"): "To see what happens as it happens: tao events --follow",
    ("status", "--watch"): "To see it change: tao attach JOB",
    ("status", "-w"): "To see it change: tao attach JOB",
    ("logs", "-F"): "To follow it: tao logs -f JOB",
    ("logs", "--lines"): "The end of it: tao logs JOB --tail N",
    (
        "results",
        "--best",
    ): "The best checkpoint: tao results JOB --epoch best. To copy it here: --fetch DIR as well",
    (
        "results",
        "--latest",
    ): "The newest checkpoint: tao results JOB --epoch last. To copy it here: --fetch DIR as well",
    ("results", "--output"): FETCH_OR_JSON,
    ("results", "-o"): FETCH_OR_JSON,
    ("run", "--output"): LOG_OR_JSON,
    ("run", "-o"): LOG_OR_JSON,
    ("compare", "--output"): PICTURE_OR_JSON,
    ("compare", "-o"): PICTURE_OR_JSON,
    ("init", "--output"): "The job file is an argument: tao init job.yaml",
    ("init", "-o"): "The job file is an argument: tao init job.yaml",
    ("", "--output"): "For programs: --json, with any verb.",
    ("", "-o"): "For programs: --json, with any verb.",
    ("", "--format"): "For programs: --json, with any verb.",
    ("ls", "-q"): "Ids for a program: tao ls --jsonl, of each line the key id.",
    ("ls", "--quiet"): "Ids for a program: tao ls --jsonl, of each line the key id.",
    ("", "-y"): "No verb asks back: leave it out.",
    ("", "--yes"): "No verb asks back: leave it out.",
    ("cancel", "--all"): "Name the jobs that are to end; tao ls --status running lists them.",
    ("cancel", "--force"): "To give it no time to end by itself: tao cancel JOB --grace 0s",
    ("rm", "-f"): "To end a live job and forget it: tao rm --force JOB",
    ("rm", "--all"): "Name the jobs that are to be forgotten; tao ls lists them.",
}

# Flags of docker, kubectl and sbatch for what `run` and `plan` call otherwise.
FLAGS_OF_RUN: Mapping[str, str] = {
    flag: instead
    for flags, instead in {
        "-e": "A variable of the job: tao {verb} --env NAME=VALUE",
        "-J --job-name": "The job's name: tao {verb} --name NAME",
        "-n": (
            "The job's name: tao {verb} --name NAME. How many nodes: tao {verb} --nodes N. "
            "How many GPUs: tao {verb} --gpus N"
        ),
        "--retry --restart --max-retries": (
            "How often a failed job is tried again: tao {verb} --retries N"
        ),
        "-g -G --gpu --num-gpus --gres": "How many GPUs: tao {verb} --gpus N",
        "--mem": "How much memory, in a container or on a cluster: tao {verb} --memory 32g",
        "-w --workdir": (
            "A job starts where it is submitted, in a container in the image's folder. "
            "Elsewhere: tao {verb} -- 'cd DIR && COMMAND'. "
            "Nodes of a cluster: --platform slurm --nodelist NAMES"
        ),
        "-N": "How many nodes: tao {verb} --nodes N",
        "-l": "A label: tao {verb} --label NAME=VALUE",
        "-v --volume": (
            "A host path in a container: tao {verb} --mounts SRC:DST. "
            "A job on this machine (local) sees its paths as they are."
        ),
        "-p": "A partition of the cluster: tao {verb} --platform slurm --partition NAME",
        "--time --timeout": "How long it may run: tao {verb} --time-limit 4h",
        "-t": (
            "How long it may run: tao {verb} --time-limit 10m. "
            "A job takes no input, and its output is shown as it runs."
        ),
        "--cpus-per-task": "How many CPU cores: tao {verb} --cpus N",
        "--parent-job-id": "A parent is named in Python: create_job(..., parent_job_id=JOB)",
        "--local": "Where it runs: tao {verb} --platform local",
        "--docker": "Where it runs: tao {verb} --platform docker",
        "--slurm": "Where it runs: tao {verb} --platform slurm",
        "--kubernetes --k8s": "Where it runs: tao {verb} --platform kubernetes",
        "-i --interactive --tty": "A job takes no input, and its output is shown as it runs.",
        "-f --file --filename --config": "The job file is an argument: tao {verb} job.yaml",
        "-c --cmd": "The command stands behind --: tao {verb} -- python train.py",
        "--rm": "A job is remembered until you remove it: tao rm JOB",
    }.items()
    for flag in flags.split()
}

# Flags before any verb.
FLAGS_OF_TAO: Mapping[str, str] = {"-v": "The version: tao --version"}

ANY_VALUE = "To change a value of the specs or args: --set KEY=VALUE. All flags:"
# What to do about a flag that no table knows, by verb.
UNKNOWN_FLAG: Mapping[str, str] = {"run": ANY_VALUE, "plan": ANY_VALUE}

# What to do about a word that a verb does not take.
EXTRA_WORDS: Mapping[str, str] = {
    "ls": (
        "One job by its name: tao status {word}. To choose jobs: tao ls --label NAME=VALUE, "
        "--status or --platform"
    ),
    "gc": "To forget one job: tao rm {word}",
    "logs": "One job at a time: tao logs {word}",
    "results": "One job at a time: tao results {word}",
    "why": "One job at a time: tao why {word}",
}


def flag_instead(verb: str, flag: str) -> str:
    """What does here what the flag does elsewhere; "" for a flag that no table knows."""
    if not verb and flag in FLAGS_OF_TAO:
        return FLAGS_OF_TAO[flag]
    if verb == "logs" and flag[1:].isdigit():  # `-5`, as of tail
        flag = "--lines"
    if instead := FLAGS_INSTEAD.get((verb, flag)) or FLAGS_INSTEAD.get(("", flag)):
        return instead
    if verb not in ("run", "plan"):
        return ""
    return FLAGS_OF_RUN.get(flag, "").format(verb=verb)


def word_instead(verb: str, word: str) -> str:
    """What was probably meant by a word that the verb does not take; "" where nobody knows."""
    return EXTRA_WORDS.get(verb, "").format(word=word)
