"""Habits: the verbs, flags and words of other tools, and their equivalents here.

Not here: the verbs of this command (verbs.py), and how an answer is shown (failure.py).
"""

from __future__ import annotations

from collections.abc import Mapping

# Other tools' names for the verbs.
MEANT: Mapping[str, str] = {
    word: verb
    for verb, words in {
        "run": "submit launch create apply train sbatch srun",
        "plan": "validate check dry-run lint",
        "ls": "list ps jobs queue squeue sacct pods",
        "status": "show describe inspect stat progress",
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
        "--version": "version",
    }.items()
    for word in words.split()
}

EVALUATION = (
    "An evaluation is a job of its own: tao run -- COMMAND. "
    "The checkpoint for it: tao results JOB. "
    "Of a model of the skill bank: tao run --model NAME --action evaluate --parent JOB"
)

PORTS = (
    "No port of a job is opened here. A local job's ports are those of this machine; "
    "a container's: the tool of its platform. A job's curve: tao attach JOB"
)

INSIDE = (
    "No verb enters a job that runs. What it does, and the command that looks around beside it: "
    "tao why JOB"
)

# Verbs that other tools have and this one does not -> the advice for them.
INSTEAD: Mapping[str, str] = {
    "exec": INSIDE,
    "shell": INSIDE,
    "ssh": INSIDE,
    "cp": "To copy a job's results here: tao results JOB --fetch DIR",
    "scp": "To copy a job's results here: tao results JOB --fetch DIR",
    "export": "To copy a job's results here: tao results JOB --fetch DIR",
    "artifact": "To copy a job's results here: tao results JOB --fetch DIR",
    "sync": "Nothing has to be sent: tao results JOB shows what is kept, and where",
    "upload": "Nothing has to be sent: tao results JOB shows what is kept, and where",
    "push": "Nothing has to be sent: tao results JOB shows what is kept, and where",
    "monitor": "One job: tao attach JOB. All jobs: tao ls",
    "open": "A job's screen: tao attach JOB. Its results: tao results JOB",
    "pause": "A job runs on or is ended: tao cancel JOB. To go on later: tao retry JOB",
    "python": "To run a program: tao run --files train.py -- python train.py",
    "python3": "To run a program: tao run --files train.py -- python3 train.py",
    "salloc": "No GPUs are held without a job. To run a command: tao run --gpus N -- COMMAND",
    "top": "How a job's training goes: tao status JOB",
    "get": "All jobs: tao ls. One job: tao status JOB",
    "start": "To run a job file: tao run job.yaml. To try an ended job again: tao retry JOB",
    "best": "The best job: tao ls --sort METRIC. Its best checkpoint: tao results JOB --epoch best",
    "curve": "A job's curve: tao attach JOB. Those of several jobs: tao compare JOB JOB",
    "plot": "A job's curve: tao attach JOB. Those of several jobs: tao compare JOB JOB",
    "metrics": "A job's metrics: tao status JOB. Those of several jobs: tao compare JOB JOB",
    "info": "What is here: tao doctor. One job: tao status JOB",
    "job": "All jobs: tao ls. One job: tao status JOB",
    "df": "A job's results and their size: tao results JOB",
    "scontrol": "One job: tao status JOB. To end it: tao cancel JOB. The cluster: tao doctor slurm",
    "nvidia-smi": "The GPUs of this machine: tao doctor local",
    "sinfo": "What a cluster has: tao doctor slurm",
    "nodes": "What a platform has: tao doctor slurm, or another platform",
    "gpus": "The GPUs of this machine: tao doctor local. Those of a cluster: tao doctor slurm",
    "cat": "A job's log: tao logs JOB. Its results: tao results JOB",
    "rmi": "An image is removed by its own tool: docker rmi NAME. To forget a job: tao rm JOB",
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

# First words of commands whose second word is the verb: `job ls`, `system prune`. So are the names
# of platforms' own tools.
FIRST_WORDS = frozenset({"container", "job", "pod", "system"})

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

EVERY_JOB = "All of them: tao ls --limit 0"
OWN_JOBS = "A job store holds one user's jobs. Those that run: tao ls --status running"
NO_TIMES = "A log has no times of its own. What happened when: tao events JOB"
ALL_ATTEMPTS = "A job's log holds all its attempts: tao logs JOB"
ALL_IMAGES = "All image keys: tao images"
SAME_SUBMIT = "To send a submit again without a second job: tao run --idempotency-key KEY"
LAST_EVENTS = "The last of them: tao events JOB | tail"
NEW_EVENTS = "To see what happens as it happens: tao events --follow"
FOLLOWED = "To see it change: tao attach JOB"
ALREADY_FOLLOWED = "It follows the job to its end as it is: tao attach JOB"
NO_NAMESPACE = (
    "A job is found wherever it runs: leave it out. Jobs of one place: tao ls --platform NAME"
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
    ("run", "--request-id"): SAME_SUBMIT,
    ("run", "--client-token"): SAME_SUBMIT,
    ("run", "--idempotency-token"): SAME_SUBMIT,
    ("run", "--follow"): "A run is followed unless --detach is given.",
    ("run", "--watch"): "A run is followed unless --detach is given.",
    ("run", "--wait"): "A run is followed unless --detach is given.",
    ("run", "--background"): "To return at once: tao run --detach",
    ("ls", "-a"): EVERY_JOB,
    ("ls", "-A"): EVERY_JOB,
    ("ls", "--all"): EVERY_JOB,
    ("ls", "--all-namespaces"): EVERY_JOB,
    ("ls", "-u"): OWN_JOBS,
    ("ls", "--user"): OWN_JOBS,
    ("ls", "--me"): OWN_JOBS,
    ("ls", "-n"): "The newest N: tao ls --limit N. Jobs of one place: tao ls --platform NAME",
    ("ls", "-l"): "The list has one form. More of one job: tao status JOB",
    (
        "ls",
        "--name",
    ): "One job by its name: tao status NAME. To choose jobs: tao ls --label NAME=VALUE",
    ("ls", "--running"): "Those that run: tao ls --status running",
    ("ls", "--failed"): "Those that failed: tao ls --status error",
    ("ls", "--state"): "To choose by status: tao ls --status running",
    ("ls", "--filter"): "To choose jobs: tao ls --label NAME=VALUE, --status or --platform",
    ("ls", "--watch"): NEW_EVENTS,
    ("ls", "-w"): NEW_EVENTS,
    ("events", "--watch"): NEW_EVENTS,
    ("events", "-w"): NEW_EVENTS,
    ("events", "--tail"): LAST_EVENTS,
    ("events", "-n"): LAST_EVENTS,
    ("events", "--limit"): LAST_EVENTS,
    ("status", "--watch"): FOLLOWED,
    ("status", "-w"): FOLLOWED,
    ("status", "-f"): FOLLOWED,
    ("status", "--follow"): FOLLOWED,
    ("attach", "-f"): ALREADY_FOLLOWED,
    ("attach", "--follow"): ALREADY_FOLLOWED,
    ("ls", "-f"): NEW_EVENTS,
    ("ls", "--follow"): NEW_EVENTS,
    ("logs", "-F"): "To follow it: tao logs -f JOB",
    ("logs", "--lines"): "The end of it: tao logs JOB --tail N",
    ("logs", "--tail"): "All of it: tao logs JOB. The last N lines: tao logs JOB --tail N",
    ("logs", "--grep"): "A log goes to any program: tao logs JOB | grep WORD",
    (
        "logs",
        "-l",
    ): "One job at a time: tao logs JOB. Those with a label: tao ls --label NAME=VALUE",
    ("logs", "-t"): NO_TIMES,
    ("logs", "--timestamps"): NO_TIMES,
    ("logs", "--previous"): ALL_ATTEMPTS,
    ("logs", "-p"): ALL_ATTEMPTS,
    ("logs", "-c"): "Of one node of several: tao logs JOB --rank N",
    ("logs", "--container"): "Of one node of several: tao logs JOB --rank N",
    ("images", "-a"): ALL_IMAGES,
    ("images", "--all"): ALL_IMAGES,
    ("images", "-q"): ALL_IMAGES,
    ("cancel", "-u"): "All that have a label: tao cancel --label NAME=VALUE",
    ("cancel", "--user"): "All that have a label: tao cancel --label NAME=VALUE",
    (
        "results",
        "--best",
    ): "The best checkpoint: tao results JOB --epoch best. To copy it here: --fetch DIR as well",
    (
        "results",
        "--latest",
    ): "The newest checkpoint: tao results JOB --epoch last. To copy it here: --fetch DIR as well",
    (
        "results",
        "--label",
    ): "One job at a time. The best of them: tao ls --label NAME=VALUE --sort METRIC --limit 1",
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
    ("cancel", "-a"): "Name the jobs that are to end; tao ls --status running lists them.",
    ("cancel", "-f"): "To give it no time to end by itself: tao cancel JOB --grace 0s",
    ("wait", "--for"): "It waits for the end of the job, however that is: tao wait JOB",
    ("results", "--download"): FETCH_OR_JSON,
    ("results", "--copy"): FETCH_OR_JSON,
    ("cancel", "--all"): "Name the jobs that are to end; tao ls --status running lists them.",
    ("cancel", "--force"): "To give it no time to end by itself: tao cancel JOB --grace 0s",
    ("rm", "-f"): "To end a live job and forget it: tao rm --force JOB",
    ("rm", "--all"): "Name the jobs that are to be forgotten; tao ls lists them.",
}

# Flags of other tools for where a job is looked for.
FLAGS_OF_LOOKING: Mapping[str, str] = {"-n": NO_NAMESPACE, "--namespace": NO_NAMESPACE}

# Flags of other tools for what `run` and `plan` call otherwise.
FLAGS_OF_RUN: Mapping[str, str] = {
    flag: instead
    for flags, instead in {
        "-e": "A variable of the job: tao {verb} --env NAME=VALUE",
        "-J --job-name": "The job's name: tao {verb} --name NAME",
        "-n": (
            "The job's name: tao {verb} --name NAME. How many nodes: tao {verb} --nodes N. "
            "How many GPUs: tao {verb} --gpus N. A cluster's namespace: tao {verb} --namespace NAME"
        ),
        "--retry --restart --max-retries": (
            "How often a failed job is tried again: tao {verb} --retries N"
        ),
        "-g -G --gpu --num-gpus --gpus-per-node --gpus-per-task --gres": (
            "How many GPUs: tao {verb} --gpus N"
        ),
        "--mem": "How much memory, in a container or on a cluster: tao {verb} --memory 32g",
        "-w --workdir": (
            "A job starts where it is submitted, in a container in the image's folder. "
            "Elsewhere: tao {verb} -- 'cd DIR && COMMAND'. "
            "Nodes of a cluster: --platform slurm --nodelist NAMES"
        ),
        "-N": "How many nodes: tao {verb} --nodes N",
        "-l --tag --tags": "A label: tao {verb} --label NAME=VALUE",
        "-v --volume": (
            "A host path in a container: tao {verb} --mounts SRC:DST. "
            "A job on this machine (local) sees its paths as they are."
        ),
        "-p --publish": (
            "A partition of the cluster: tao {verb} --platform slurm --partition NAME. "
            "A container's ports: tao {verb} --platform docker --network host"
        ),
        "-A": "An account of the cluster: tao {verb} --platform slurm --account NAME",
        "-q": "A quality of service: tao {verb} --platform slurm --qos NAME",
        "-u": "Who runs it in the container: tao {verb} --platform docker --user UID",
        "--ntasks --ntasks-per-node": (
            "One task runs on each node. How many nodes: tao {verb} --nodes N. "
            "How many GPUs: tao {verb} --gpus N"
        ),
        "--cpu": "How many CPU cores: tao {verb} --cpus N",
        "--env-file": (
            "A variable of the job, with its value from your environment: tao {verb} --env NAME"
        ),
        "--entrypoint": "The command stands behind --: tao {verb} -- python train.py",
        "--ipc": "How much shared memory: tao {verb} --shm-size 8g",
        "--time --timeout": "How long it may run: tao {verb} --time-limit 4h",
        "-t": (
            "How long it may run: tao {verb} --time-limit 10m. "
            "A job takes no input, and its output is shown as it runs."
        ),
        "--cpus-per-task": "How many CPU cores: tao {verb} --cpus N",
        "--parent-job-id": "A parent is named in Python: create_job(..., parent_job_id=JOB)",
        "-i --interactive --tty": "A job takes no input, and its output is shown as it runs.",
        "-f --file --filename --config": "The job file is an argument: tao {verb} job.yaml",
        "-c": (
            "The command stands behind --: tao {verb} -- python train.py. "
            "How many CPU cores: tao {verb} --cpus N"
        ),
        "--cmd": "The command stands behind --: tao {verb} -- python train.py",
        "--project --group": "Jobs that belong together: tao {verb} --label project=NAME",
        "--dry": "To see what would be sent: tao plan, with the same arguments.",
        "--runtime": "GPUs come with --gpus N alone: tao {verb} --gpus 1",
        "--rm": "A job is remembered until you remove it: tao rm JOB",
    }.items()
    for flag in flags.split()
}

# Flags before any verb.
FLAGS_OF_TAO: Mapping[str, str] = {"-v": "The version: tao --version"}

ANY_VALUE = "To change a value of the specs or args: --set KEY=VALUE. All flags:"
# The advice for a flag that no table has, by verb.
SAME_AGAIN = "A retry runs one job as it was. With other settings it is a new job: tao run"
UNKNOWN_FLAG: Mapping[str, str] = {
    "run": ANY_VALUE,
    "plan": ANY_VALUE,
    "retry": f"{SAME_AGAIN}. Help:",
    "automl": (
        "The flags of tao run change the job of a search, too: "
        "tao run FILE --automl-policy on --image IMAGE. Help:"
    ),
}

# The advice for a word that a verb does not take.
EXTRA_WORDS: Mapping[str, str] = {
    "ls": (
        "One job by its name: tao status {word}. To choose jobs: tao ls --label NAME=VALUE, "
        "--status or --platform"
    ),
    "gc": "To forget one job: tao rm {word}",
    "logs": "One job at a time: tao logs {word}",
    "results": "One job at a time: tao results {word}",
    "why": "One job at a time: tao why {word}",
    "retry": SAME_AGAIN,
    "watch": "One job: tao attach {word}. All live jobs: tao watch",
}


def flag_instead(verb: str, flag: str) -> str:
    """The equivalent here of another tool's flag; "" for a flag that no table has."""
    from tao_sdk.client.place_names import platform_like

    if not verb and flag in FLAGS_OF_TAO:
        return FLAGS_OF_TAO[flag]
    if verb == "logs" and flag[1:].isdigit():  # `-5`, as of tail
        flag = "--lines"
    if instead := FLAGS_INSTEAD.get((verb, flag)):
        return instead
    if verb in ("run", "plan"):
        if flag in FLAGS_OF_RUN:
            return FLAGS_OF_RUN[flag].format(verb=verb)
        if platform := platform_like(flag.removeprefix("--")):
            return f"Where it runs: tao {verb} --platform {platform}"
        return FLAGS_INSTEAD.get(("", flag), "")
    return FLAGS_INSTEAD.get(("", flag)) or FLAGS_OF_LOOKING.get(flag, "")


def word_instead(verb: str, word: str) -> str:
    """The advice for a word that the verb does not take; "" if no table has any."""
    if verb == "watch" and word in ("ls", "status", "tao"):
        return f"{NEW_EVENTS}. The list as it is now: tao ls"
    return EXTRA_WORDS.get(verb, "").format(word=word)
