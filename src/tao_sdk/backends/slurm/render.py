"""From a JobSpec to everything that is sent to a cluster: directives, scripts, staged files. Pure.

Not here: what the job gets of the cluster (shape.py), which paths it needs there (data.py), how an image gets ready
(images.py), and the script that hands all of it over (handover.py).
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from tao_sdk.backends.mounts import Mount, cache_finding, unmounted_finding
from tao_sdk.backends.rendezvous import MASTER_PORT, rendezvous, single_node
from tao_sdk.backends.slurm import containers, data, images
from tao_sdk.backends.slurm.containers import NONE, Task
from tao_sdk.backends.slurm.facts import Partition, SlurmFacts
from tao_sdk.backends.slurm.options import RUNTIMES, SlurmOptions
from tao_sdk.backends.slurm.shape import Shape, accounts, fits, minutes, shape, slurm_seconds
from tao_sdk.model.errors import SpecError
from tao_sdk.model.fields import plain
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.plan import Attempt, Plan, StagedFile
from tao_sdk.model.secrets import SecretRef, split_secrets
from tao_sdk.model.spec import JobSpec, remote_root
from tao_sdk.model.units import parse_size
from tao_sdk.net.address import path_of, scheme

LAST_SECONDS = 5  # before SLURM's own end, for the runner to write down how the command ended
# Directives that `native` may not change: by them a job is found again, or they belong to the way in which it is submitted.
OURS = frozenset(
    {"job-name", "comment", "output", "error", "open-mode", "array", "wrap", "parsable", "chdir", "wait", "hold",
     "test-only", "dependency", "input", "batch", "clusters"}
)  # fmt: skip
# Unset for the command: ranks from SLURM or MPI, and what makes Lightning believe that srun has started every rank by itself.
# The command gets the variables of the rendezvous instead.
HIDDEN = (
    "SLURM_NTASKS SLURM_NPROCS SLURM_PROCID SLURM_LOCALID SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE SLURM_STEP_NUM_TASKS "
    "SLURM_STEP_TASKS_PER_NODE PMI_RANK PMI_SIZE PMIX_RANK RANK LOCAL_RANK"
)
# How srun tells that a signal has ended a task. Source: glibc's strsignal, and slurm's own word for an OOM.
SIGNALS: Mapping[str, int] = {
    "Killed": 9, "Out Of Memory": 9, "Segmentation fault": 11, "Aborted": 6, "Bus error": 7, "Terminated": 15,
    "Floating point exception": 8, "Illegal instruction": 4, "Hangup": 1, "Interrupt": 2, "Quit": 3,
}  # fmt: skip
TIMER_SECONDS = 5  # after which the timer of a time limit has noticed that its command has ended
TRIES = 60  # of srun, when it does not reach the controller, for which it waits some seconds itself
PAUSE = 5  # seconds between them

# What is the same for every attempt of a job, as decide() makes it. JSON throughout: it is kept in the store with the plan.
Decided = Mapping[str, Any]
KEPT_AS = "parts"  # its key in the plans that stores hold


def plan(spec: JobSpec, options: SlurmOptions, facts: SlurmFacts, attempt: Attempt) -> Plan:
    """Everything that submit will do. Raises SpecError for what the cluster cannot do, with what it can."""
    return build(decide(spec, options, facts), spec, attempt)


def decide(spec: JobSpec, options: SlurmOptions, facts: SlurmFacts) -> dict[str, Any]:
    """Everything about a job but the number of its attempt. A further attempt is built from the same."""
    wants = shape(spec, options, facts)
    runtime = container_runtime(spec, options, facts)
    image = images.plan(spec.image, options, facts) if runtime not in ("", NONE) and spec.image else None
    root = results_root(spec, facts)
    mounts = data.mounts(spec, facts, root) if image else []
    start = containers.start(runtime, Task(mounts, gpus=wants.gpus), facts)
    return {
        "base": facts.base,
        "results_root": root,
        "bucket_root": remote_root(spec),
        "accounting": facts.accounting,
        "directives": directives(spec, options, facts, wants),
        "nodes": wants.nodes,
        "gpus": wants.gpus,
        "exclusive": wants.exclusive,
        "timeout": wants.timeout,
        "grace": max(LAST_SECONDS, int(slurm_seconds(wants.time) - wants.timeout) - LAST_SECONDS),
        "kill_wait": facts.kill_wait,
        "runtime": runtime,
        "image": plain(asdict(image)) if image else None,
        "container": asdict(start),
        "environment": environment(spec, root),
        "checks": [[each.path, each.what] for each in data.wanted(spec)],
        "resume_on_timeout": options.resume_on_timeout,
        "cluster": facts.cluster,
        "findings": [each.to_json() for each in findings(spec, options, runtime, facts, mounts)],
        "notes": [*wants.notes, *(image.notes if image else ())],
    }


def decided_in(plan: Plan) -> Decided:
    return plan.request[KEPT_AS]


def build(decided: Decided, spec: JobSpec, attempt: Attempt) -> Plan:
    at = Paths.of(decided, attempt)
    batch = batch_script(decided, at, attempt)
    refs = {value["secret"] for value in decided["environment"].values() if not isinstance(value, str)}
    return Plan(
        attempt=attempt,
        request={"script": batch, "sbatch": sbatch_words(at, attempt), "job_dir": at.job, KEPT_AS: decided},
        files=tuple(
            StagedFile(path, encoded(text)) for path, text in staged(decided, spec, at, attempt, batch).items()
        ),
        secrets=tuple(sorted(refs)),
        results_dir=f"{results_place(decided)}/{attempt.job_id}",
        notes=tuple(decided["notes"]),
        backend_details={
            "backend_type": "slurm",
            "partition": decided["directives"].get("partition", ""),
            "cluster_name": decided["cluster"],
            "num_gpu": decided["gpus"] * decided["nodes"],
            "num_nodes": decided["nodes"],
            "job_dir": at.job,
        },
    )


def staged(decided: Decided, spec: JobSpec, at: Paths, attempt: Attempt, batch: str) -> dict[str, str]:
    """What lies in the job's folder before it starts: path below it -> text."""
    own = f"attempts/{attempt.number}"
    image_files: Mapping[str, str] = decided["image"]["files"] if decided["image"] else {}
    return {
        f"{own}/command": spec.command,
        f"{own}/task.sh": task_script(decided, at, attempt),
        f"{own}/store": attempt.store_id,
        f"sbatch/job_{attempt.job_id}.sbatch": batch,
        f"specs/{attempt.job_id}.json": compact(plain(spec.specs if spec.specs is not None else spec.args or {})),
        f"env/{attempt.job_id}.json": compact(shown_environment(decided, attempt)),
        f"meta/{attempt.job_id}.json": compact(meta(decided, spec, attempt)),
        **({f"{own}/resumes": ""} if decided["resume_on_timeout"] else {}),
        **{f"{own}/{name}": text for name, text in image_files.items()},
    }


class Paths:
    """Where an attempt's files lie on the cluster."""

    def __init__(self, base: str, job_id: str, number: int) -> None:
        self.base = base
        self.job = f"{base}/jobs/{job_id}"
        self.attempt = f"{self.job}/attempts/{number}"
        self.logs = f"{self.job}/slurm-logs/attempt-{number}"
        self.script = f"{self.job}/sbatch/job_{job_id}.sbatch"

    @classmethod
    def of(cls, decided: Decided, attempt: Attempt) -> Paths:
        return cls(decided["base"], attempt.job_id, attempt.number)


def job_name(attempt: Attempt) -> str:
    """The name of an attempt's SLURM job, by which it can be found without its id."""
    return f"{attempt.job_id}.{attempt.number}"


def sbatch_words(at: Paths, attempt: Attempt) -> list[str]:
    return [
        "sbatch", "--parsable", "--export=ALL", f"--job-name={job_name(attempt)}", f"--comment=tao:{attempt.store_id}",
        f"--output={at.logs}/slurm.out", f"--error={at.logs}/slurm.err", "--open-mode=append", at.script,
    ]  # fmt: skip


# Directives


def directives(spec: JobSpec, options: SlurmOptions, facts: SlurmFacts, wants: Shape) -> dict[str, str]:
    """Name -> value; "" for a flag."""
    requeue = facts.site.requeue if options.requeue is None else options.requeue
    account = options.account or word(facts.site.account, "SLURM_ACCOUNT")
    given = {
        "nodes": str(wants.nodes),
        "ntasks": str(wants.nodes),
        "ntasks-per-node": "1",
        "gres": f"gpu:{wants.gpus}" if wants.gpus else None,
        "cpus-per-task": str(wants.cpus),
        "mem": f"{max(1, parse_size(spec.memory) // 2**20)}M" if spec.memory else None,
        "exclusive": "" if wants.exclusive else None,
        "wait-all-nodes": "1" if wants.nodes > 1 else None,
        "time": minutes(wants.time),
        "partition": wants.partition or None,
        "account": account or None,
        "qos": options.qos or None,
        "constraint": options.constraint or None,
        "reservation": options.reservation or None,
        "nodelist": options.nodelist or None,
        "exclude": options.exclude or None,
        "mail-user": options.mail_user or None,
        "mail-type": "END,FAIL" if options.mail_user else None,
        "requeue" if requeue else "no-requeue": "",
    }
    return patched({name: value for name, value in given.items() if value is not None}, spec.native)


def word(value: str, name: str) -> str:
    if value and not re.fullmatch(r"[A-Za-z0-9_.@+-]+", value):
        raise SpecError(f"{name} is {value!r}.", "", "It is a name of letters, digits and _ . @ + -.")
    return value


def patched(given: Mapping[str, str], native: Mapping[str, Any]) -> dict[str, str]:
    """`native`, a map of sbatch's directives, laid over ours: true for a flag, false or null to leave one out."""
    merged = dict(given)
    for name, value in native.items():
        plain_name = name.removeprefix("--")
        if not re.fullmatch(r"[a-z][a-z0-9-]*", plain_name):
            raise SpecError(f"native has {name!r}, which is no directive of sbatch.", "", "Write e.g. mail-type: END")
        if plain_name in OURS:
            raise SpecError(
                f"native has {plain_name}.", "By that the job is found again; it stays as it is.", "Leave it out."
            )
        if value is None or value is False:
            merged.pop(plain_name, None)
        else:
            merged[plain_name] = "" if value is True else directive_value(plain_name, value)
    return merged


def directive_value(name: str, value: Any) -> str:
    text = ",".join(map(str, cast("Sequence[Any]", value))) if isinstance(value, (list, tuple)) else str(value)
    if not re.fullmatch(r"[A-Za-z0-9_.,:;@%/&|()\[\]*!=+-]+", text):
        why = "It would stand in the batch script, where spaces, quotes and $ mean something."
        raise SpecError(
            f"native.{name} is {text!r}.", why, "Use letters, digits and _ . , : ; @ % / & | ( ) [ ] * ! = + -."
        )
    return text


# What runs


def container_runtime(spec: JobSpec, options: SlurmOptions, facts: SlurmFacts) -> str:
    """What runs the image; a job without one needs nothing. "" where the cluster has nothing."""
    asked = options.container_runtime or facts.site.runtime
    if asked and asked not in RUNTIMES:
        raise SpecError(f"SLURM_CONTAINER_RUNTIME is {asked!r}.", "", f"It is one of {', '.join(RUNTIMES)}.")
    return containers.runtime(options, facts) if spec.image or asked else NONE


def results_root(spec: JobSpec, facts: SlurmFacts) -> str:
    """Where on the cluster jobs write their results. Those for a bucket are written here too, and sent from here."""
    asked = spec.env_vars.get("TAO_RESULTS_ROOT")
    if not isinstance(asked, str) or not asked or remote_root(spec):
        return f"{facts.base}/results"
    path = path_of(asked) if scheme(asked) in ("lustre", "slurm") else asked
    if not posixpath.isabs(path):
        raise data.local("TAO_RESULTS_ROOT", asked)
    return posixpath.normpath(path)


def results_place(decided: Decided) -> str:
    """Where results end up: in the bucket, if there is one."""
    return decided.get("bucket_root") or decided["results_root"]


def environment(spec: JobSpec, root: str) -> dict[str, Any]:
    """The variables that the job asks for, secrets as references. Those that differ by attempt: own_environment."""
    asked, _ = split_secrets(spec.env_vars, spec.secrets)
    bucket = {"TAO_LOCAL_ROOT": root} if remote_root(spec) else {}
    own = {"TAO_RESULTS_ROOT": remote_root(spec) or root, "TAO_API_RESULTS_DIR": root, **bucket}
    return {k: {"secret": v.name} if isinstance(v, SecretRef) else v for k, v in sorted({**asked, **own}.items())}


def own_environment(decided: Decided, attempt: Attempt) -> dict[str, str]:
    """Variables that the job cannot set otherwise."""
    return {
        "TAO_JOB_ID": attempt.job_id,
        "TAO_ATTEMPT": str(attempt.number),
        "TAO_RESULTS_DIR": f"{decided['results_root']}/{attempt.job_id}",
        "TAO_GRACE": str(decided["grace"]),
    }


def environment_file(decided: Decided, attempt: Attempt, secrets: Mapping[str, str]) -> str:
    """Shell text that sets the job's environment: the only place where a secret's value is on the cluster."""
    asked = {k: v if isinstance(v, str) else secrets[v["secret"]] for k, v in decided["environment"].items()}
    values = {**asked, **own_environment(decided, attempt)}
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def shown_environment(decided: Decided, attempt: Attempt) -> dict[str, Any]:
    return {**decided["environment"], **own_environment(decided, attempt)}


def meta(decided: Decided, spec: JobSpec, attempt: Attempt) -> dict[str, Any]:
    return {
        "job_id": attempt.job_id, "attempt": attempt.number, "name": spec.name, "image": spec.image,
        "labels": dict(spec.labels), "store": attempt.store_id, "results_dir": f"{results_place(decided)}/{attempt.job_id}",
        "nodes": decided["nodes"], "gpus_per_node": decided["gpus"],
    }  # fmt: skip


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=str)


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def batch_script(decided: Decided, at: Paths, attempt: Attempt) -> str:
    """What SLURM starts on the first node: it starts the command on every node, and ends with its exit code."""
    told = [f"#SBATCH --{name}" + (f"={value}" if value else "") for name, value in decided["directives"].items()]
    return "\n".join(["#!/bin/bash", *told, "", *batch_body(decided, at, attempt), ""])


def batch_body(decided: Decided, at: Paths, attempt: Attempt) -> Iterator[str]:
    yield f"d={shlex.quote(at.attempt)}"
    yield f"words={shlex.quote(f'{at.logs}/slurm.err')}"
    yield 'rm -f "$d/exit" "$d/timed_out"; stat -c %s "$words" >"$d/started" 2>/dev/null'
    yield "ended=; trap 'ended=yes' TERM"
    yield from meeting(decided)
    if decided["image"]:
        yield 'tao_image=$(cat "$d/image")'
    yield from as_soon_as_the_controller_answers(f'{srun(decided)} /bin/sh "$d/task.sh"')
    yield from how_it_ended()
    yield from unless_it_goes_on(decided)
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


def unless_it_goes_on(decided: Decided) -> Iterator[str]:
    """Shell text that exits without a record where SLURM will run the job again. $again is `perhaps` if it could not say."""
    yield "# What SLURM ends it may start again: that is no end, and the secrets are needed then."
    yield 'case "$ended$said" in yes*|*"Node failure"*|*"*** JOB "*"CANCELLED AT"*) [ $limit = true ] || exit $code ;; esac'
    yield "again=no"
    if "no-requeue" not in decided["directives"]:
        yield "# A node that SLURM took for lost may still have brought it here: then it is another run's turn, or will be."
        yield 'now=$(timeout 10 scontrol show job --oneliner "$SLURM_JOB_ID" 2>/dev/null) || again=perhaps'
        yield 'ours="JobState=RUNNING *Restarts=${SLURM_RESTART_COUNT:-0} "'
        yield 'case "$again$now" in perhaps*|*" "$ours*) ;; *) exit $code ;; esac'


def meeting(decided: Decided) -> Iterator[str]:
    """Shell text that writes MASTER_ADDR and MASTER_PORT to a file for every task: an image may set variables of these names."""
    port = str(MASTER_PORT) if decided["exclusive"] else "$((15000 + SLURM_JOB_ID % 17000))"
    if decided["nodes"] == 1:
        yield f"master=127.0.0.1 port={port}"
    else:
        yield f'master=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) port={port}'
        yield "# The file is sourced on every node: a name is a name, or the job ends here."
        yield "case $master in"
        yield "  ''|*[!A-Za-z0-9._:-]*) echo \"tao: SLURM's name of the first node is no host name: '$master'\" >&2; exit 125 ;;"
        yield "esac"
    yield 'printf "export MASTER_ADDR=\'%s\' MASTER_PORT=\'%s\'\\n" "$master" "$port" > "$d/meeting.sh"'


def srun(decided: Decided) -> str:
    n = decided["nodes"]
    flags = [f"--nodes={n}", f"--ntasks={n}", "--ntasks-per-node=1", '--cpus-per-task="${SLURM_CPUS_PER_TASK:-1}"',
             "--mpi=none", "--input=none", "--kill-on-bad-exit=1"]  # fmt: skip
    return " ".join(filter(None, ["srun", *flags, decided["container"]["srun"], decided["container"]["task"]]))


def task_script(decided: Decided, at: Paths, attempt: Attempt) -> str:
    """What runs on every node, in the container: its own log, its own rank, then the command."""
    return "\n".join([*task_body(decided, at, attempt), ""])


def task_body(decided: Decided, at: Paths, attempt: Attempt) -> Iterator[str]:
    meets = (
        single_node(decided["gpus"]) if decided["nodes"] == 1 else rendezvous(decided["nodes"], decided["gpus"], 0, "")
    )
    yield f"d={shlex.quote(at.attempt)} l={shlex.quote(at.logs)}"
    yield "rank=${SLURM_PROCID:-0} node=${SLURM_NODEID:-0}"
    yield 'if [ "$rank" = 0 ]; then name=main; else name=rank-$rank; fi'
    yield 'exec >>"$l/$name.out" 2>>"$l/$name.err" </dev/null || exit 125'
    if not decided["image"]:
        yield f"cd {shlex.quote(decided['results_root'] + '/' + attempt.job_id)} || exit 125"
    yield f"unset {HIDDEN}"
    yield "export SLURM_JOB_NAME=bash"
    yield "# Kept where env.sh cannot reach: the job's variables may have any name."
    yield 'set -- "$d" "$rank" "$node" "$(command -v bash || echo /bin/sh)"'
    yield "export " + " ".join(
        f"{name}={value}" for name, value in meets.items() if name not in ("MASTER_ADDR", "NODE_RANK")
    )
    yield '. "$d/meeting.sh" && . "$d/env.sh" || exit 125'
    yield 'export NODE_RANK="$3" TAO_RANK="$2"'
    if decided["gpus"] == 0:
        yield "export CUDA_VISIBLE_DEVICES= NVIDIA_VISIBLE_DEVICES=void"
    if decided["timeout"]:
        yield from time_limit(decided["timeout"], decided["grace"])
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


# What would stop it


def findings(
    spec: JobSpec, options: SlurmOptions, runtime: str, facts: SlurmFacts, mounts: Sequence[Mount]
) -> Iterator[Finding]:
    """What would stop the job (errors), and what it should know (warnings)."""
    if spec.image:
        yield from containers.check(options, facts)
    elif runtime != NONE:
        fix = "Name one: image: ..., or use --container-runtime none."
        yield Finding(Severity.ERROR, "spec.image", f"{runtime} needs an image.", "", fix)
    for path in data.lost_outputs(spec, mounts) if spec.image else []:
        what = f"The output {path} lies in the container and is lost with it."
        fix = "Leave it empty, and it is kept with the results; or name a path of the cluster that is mounted."
        yield warning("output.lost", what, "Nothing of the cluster is mounted there.", fix)
    if spec.image:
        yield from unmounted_finding(data.unmounted(spec, mounts))
    if spec.mount_path and spec.image:
        yield from cache_finding(spec.mount_path, [each.target for each in mounts])
    if spec.shm_size:
        yield warning("slurm.shm_unused", "shm_size is not used: on SLURM /dev/shm is the node's.", "", "Leave it out.")


def check(plan: Plan, facts: SlurmFacts) -> list[Finding]:
    decided = decided_in(plan)
    told = [Finding(Severity(each["severity"]), each["code"], each["what"], each["evidence"],
                    each["hint"] or each["fix"])
            for each in decided["findings"]]  # fmt: skip
    looks = (account_findings, shut_findings, qos_findings, down_findings)
    return [*told, *(found for look in looks for found in look(decided, facts))]


def account_findings(decided: Decided, facts: SlurmFacts) -> Iterator[Finding]:
    account, qos = decided["directives"].get("account", ""), decided["directives"].get("qos", "")
    if is_strange(account, facts):
        fix = f"Use --account {facts.accounts[0]}."
        known = ", ".join(facts.accounts)
        yield error("slurm.account", f"You cannot charge the account {account}.", f"Yours are: {known}.", fix)
    if qos and facts.qos and qos.lower() not in facts.qos:
        yield error("slurm.qos", f"The cluster has no qos {qos}.", f"It has: {', '.join(facts.qos)}.", "Correct --qos.")


def qos_findings(decided: Decided, facts: SlurmFacts) -> Iterator[Finding]:
    """Partitions take the jobs of some qos only, too."""
    qos, asked = decided["directives"].get("qos", ""), chosen(decided, facts)
    if not asked or any(each.takes_qos(qos) for each in asked):
        return
    takes = (f"{each.name} takes {', '.join(each.qos) or 'all but ' + ', '.join(each.denied_qos)}." for each in asked)
    others = elsewhere(decided, facts, lambda each: each.takes_qos(qos))
    fix = f"Use another --qos{f', or {others[0]}' if others else ''}."
    why = f"{' '.join(takes)} SLURM would take the job and never start it."
    yield error(
        "slurm.qos", f"Jobs of the qos {qos} may not run in {', '.join(each.name for each in asked)}.", why, fix
    )


def is_strange(account: str, facts: SlurmFacts) -> bool:
    return bool(account and facts.accounts) and account.lower() not in facts.accounts  # SLURM's are in lower case


def shut_findings(decided: Decided, facts: SlurmFacts) -> Iterator[Finding]:
    """Partitions take the jobs of some accounts only: SLURM would take another's job and never start it."""
    named, asked = decided["directives"].get("account", ""), chosen(decided, facts)
    own = accounts(named, facts)
    if is_strange(named, facts) or not asked or not own:
        return
    taken = [account for account in own if any(facts.takes(each, [account]) for each in asked)]
    where = ", ".join(each.name for each in asked)
    takes = f"{' '.join(who_may(each) for each in asked if who_may(each))} SLURM would take the job and never start it."
    if not taken:
        who = f"the account {own[0]}" if len(own) == 1 else f"your accounts ({', '.join(own)})"
        fix = way_in(decided, asked, own, facts)
        yield error("slurm.account", f"Jobs of {who} may not run in {where}.", takes, fix)
    elif len(taken) < len(own):
        what = f"No account is named, and in {where} only jobs of {' and '.join(taken)} may run."
        yield warning("slurm.account", what, takes, f"Use --account {taken[0]}, unless the cluster chooses it for you.")


def chosen(decided: Decided, facts: SlurmFacts) -> list[Partition]:
    """The partitions that SLURM is asked for, as far as they are known; without a directive its default."""
    asked: str = decided["directives"].get("partition", "")
    default = facts.default_partition
    if not asked:
        return [default] if default else []
    return [facts.partitions[name] for name in asked.split(",") if name in facts.partitions]


def who_may(partition: Partition) -> str:
    if not partition.accounts:
        return f"{partition.name} takes all but {', '.join(partition.denied)}." if partition.denied else ""
    return f"{partition.name} takes {', '.join(partition.accounts)}."


def way_in(decided: Decided, asked: Sequence[Partition], own: Sequence[str], facts: SlurmFacts) -> str:
    """An account or a partition with which the job would start."""
    ways = [f"--account {each}" for each in facts.accounts if any(facts.takes(there, [each]) for there in asked)]
    ways += elsewhere(decided, facts, lambda each: facts.takes(each, own))
    ask = "ask the site for an account that it takes"
    return f"Use {' or '.join(ways[:3])}, or {ask}." if ways else f"{ask.capitalize()}."


def elsewhere(decided: Decided, facts: SlurmFacts, takes: Callable[[Partition], bool]) -> list[str]:
    """The partitions that could run the job, of those that take it."""
    nodes, gpus = decided["nodes"], decided["gpus"]
    open_ones = (each for each in facts.partitions.values() if each.up and takes(each) and fits(each, nodes, gpus))
    return [f"--partition {each.name}" for each in open_ones]


def down_findings(decided: Decided, facts: SlurmFacts) -> Iterator[Finding]:
    names: Sequence[str] = decided["directives"].get("partition", "").split(",")
    down = [name for name in names if name in facts.partitions and not facts.partitions[name].up]
    if down:
        what = f"The partition {', '.join(down)} starts no jobs now."
        yield warning("slurm.partition_down", what, "Its state is not UP.", "Wait, or choose another with --partition.")


def warning(code: str, what: str, evidence: str, fix: str) -> Finding:
    return Finding(Severity.WARNING, code, what, evidence, fix)


def error(code: str, what: str, evidence: str, fix: str) -> Finding:
    return Finding(Severity.ERROR, code, what, evidence, fix)
