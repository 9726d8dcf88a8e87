"""Rules: failures and waits that only SLURM causes, with advice. Before the general rules. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tao_sdk.backends.slurm import parse
from tao_sdk.model.diagnosis import Diagnosis, ErrClass, Evidence
from tao_sdk.model.errors import Refused
from tao_sdk.model.hardware_words import MachineAdvice, hardware_rules
from tao_sdk.model.lazy_pattern import lazy_compile
from tao_sdk.model.reasons import Reason
from tao_sdk.model.rule import (
    Condition,
    Rule,
    all_of,
    any_of,
    backend_says,
    event_named,
    event_text,
    first_match,
    reason_is,
)

INFRA, PROGRAM, USER = ErrClass.INFRA, ErrClass.PROGRAM, ErrClass.USER
SLURM = "Slurm"  # the event for a line of SLURM or its programs
IMAGE = "Image"  # the event for a line of the log of the image's conversion
CONVERSION_LOG = "conversion_log"  # the name of that log's path, in the evidence
# the event for a job that goes on in a new SLURM job at its time limit
RESUMES = "ResumesOnTimeout"

NO_LOGIN = (
    "Could not process JSON input",
    "401 Unauthorized",
    "Authenticating with user: <anonymous>",
)
# enroot and apptainer end with these if the image's name or its login is wrong. enroot logs an
# anonymous login for every public image, so that is no sign of it.
NO_ACCESS = (
    "Could not process JSON input",
    "(?:authentication|authorization) (?:required|failed)",
    "unauthorized",
    "requested access to the resource is denied",
)
NO_IMAGE = (
    "pyxis: failed to (?:import docker image|create container filesystem)",
    "Invalid image (?:format|reference)",
    "invalid reference format",
    "manifest unknown",
    r"URL https?://\S+ returned error code: 40",
)

# Errors of Pyxis, enroot and apptainer about the container. The first group gives the cause.
NO_CONTAINER_CAUSE = (
    r"pyxis:\s+(?:\[ERROR\]|enroot-|nvidia-container-cli)",
    rf"^{SLURM}: (?:\[ERROR\]|enroot-\w+:|FATAL: )",
)
NO_CONTAINER = (
    "pyxis: (?:couldn't|failed to|container start failed|child .* failed)",
    r"spank: required plugin \S+: \S+ failed",
    "Failed to invoke spank plugin stack",
)
# srun's words if the controller does not answer, and below, for other errors with a step.
CONTROLLER_AWAY = (
    r"Unable to confirm allocation for job",
    "Unable to create step for job .*(?:Unable to contact slurm controller|Socket timed out|"
    "Zero Bytes|Connection (?:refused|timed out|reset)|Communication .* failure|"
    "Message receive failure|standby mode)",
)
SRUN_FAILED = re.compile(rf"{SLURM}: srun: (?:error|fatal): ")
# srun's report on a task that ran. Then the program itself ended.
TASK_ENDED = re.compile(rf"{SLURM}: srun: error: \S+: tasks? \S+: ")

CONTEXT_LINES = 4  # of a conversion's log that are shown with its error
OWN_LINE = "tao: "  # the start of a line of scripts/convert_image.sh
conversion_ended = any_of(
    reason_is(Reason.CONVERSION_FAILED), backend_says("DependencyNeverSatisfied")
)


def conversion_lines(evidence: Evidence) -> list[str]:
    """The end of the log of a failed conversion; [] for a job that ended in another way."""
    if conversion_ended(evidence) is None:
        return []
    return [event.message for event in evidence.events if event.node_event_name == IMAGE]


def conversion_says(*patterns: str) -> Condition:
    """Recognize the last line of a failed conversion's log that matches one of the patterns.

    Returns it with the lines before it and the path of the log.
    """
    compiled = lazy_compile("|".join(patterns), re.IGNORECASE)

    def condition(evidence: Evidence) -> str | None:
        lines = conversion_lines(evidence)
        for index in reversed(range(len(lines))):
            if compiled.search(lines[index]):
                return with_log(lines[index], lines[:index], evidence)
        return None

    return condition


def conversion_broke(evidence: Evidence) -> str | None:
    """The last line of a failed conversion's log, which says nothing against the image's name and
    login. The reason alone if there is no log.
    """
    reason = conversion_ended(evidence)
    if reason is None or access_refused(evidence):
        return None
    lines = [line for line in conversion_lines(evidence) if not line.startswith(OWN_LINE)]
    if not lines:
        return with_log(reason, (), evidence)
    return with_log(lines[-1], lines[:-1], evidence)


def with_log(line: str, before: Sequence[str], evidence: Evidence) -> str:
    """A line of a conversion's log, then the lines before it and the log's path."""
    telling = [each for each in before if each.strip("^~ ")]  # Python marks code with these
    context = [f"  {each}" for each in telling[-CONTEXT_LINES:]]
    path = evidence.names.get(CONVERSION_LOG)
    where = [f"The conversion's log on the cluster: {path}"] if path else []
    return "\n".join([line, *context, *where])


def nodes_say(*patterns: str) -> Condition:
    """As backend_says, for a job whose image needed no conversion or was converted."""
    said = backend_says(*patterns)

    def condition(evidence: Evidence) -> str | None:
        return said(evidence) if conversion_ended(evidence) is None else None

    return condition


login_refused = conversion_says(*NO_ACCESS)
image_refused = conversion_says(*NO_IMAGE)
access_refused = any_of(login_refused, image_refused)
resumes = event_named(RESUMES)
at_time_limit = reason_is(Reason.TIME_LIMIT)
preempted = any_of(reason_is(Reason.PREEMPTED), backend_says("preempted"))

AGAIN_ELSEWHERE = (
    "It is tried again by a watcher (tao watch); "
    "tell the site, and keep off the node with --exclude."
)
HARDWARE: Mapping[str, MachineAdvice] = {
    "driver_too_old": MachineAdvice(
        "The GPU driver of the node is too old for this image: {seen}",
        "Use an image made for an older CUDA, or nodes with a newer driver (--constraint).",
    ),
    "no_gpu": MachineAdvice("A node's GPU could not be used: {seen}", AGAIN_ELSEWHERE),
    "bad_gpu": MachineAdvice("A node's GPU failed: {seen}", AGAIN_ELSEWHERE),
    "bad_link": MachineAdvice(
        "The nodes lost each other: {seen}",
        "It is tried again by a watcher (tao watch); if it stays, see NCCL_IB_HCA and "
        "NCCL_SOCKET_IFNAME.",
    ),
}


def srun_failed(evidence: Evidence) -> str | None:
    """srun's own error; None if it also reports the end of a task, because then the command ran."""
    lines = list(map(event_text, evidence.events))
    if any(map(TASK_ENDED.match, lines)):
        return None
    return next(filter(SRUN_FAILED.match, lines), None)


RULES: Sequence[Rule] = (
    Rule(
        code="slurm.time_limit_resumes",
        when=all_of(resumes, at_time_limit),
        what=(
            "The job reached its time limit; "
            "it goes on from its newest checkpoint in a new SLURM job."
        ),
        fault=INFRA,
        next="Nothing to do, as long as a watcher runs: tao watch.",
        retryable=True,
    ),
    Rule(
        code="slurm.preempted_resumes",
        when=all_of(resumes, preempted),
        what="The job was preempted; it goes on from its newest checkpoint in a new SLURM job.",
        fault=INFRA,
        next="Nothing to do, as long as a watcher runs: tao watch.",
        retryable=True,
    ),
    Rule(
        code="slurm.preempted",
        when=preempted,
        what="A job of higher priority took its nodes: {seen}.",
        fault=INFRA,
        next="Submit it again, or with --requeue, or resume_on_timeout: true.",
        after="the nodes are free",
    ),
    Rule(
        code="slurm.time_limit",
        when=at_time_limit,
        what="The job reached its time limit{limit}.",
        fault=USER,
        next=(
            "Give it more (--time-limit), or let it go on in a new SLURM job: "
            "resume_on_timeout: true."
        ),
        limit="time_limit",
        after="it is given more time",
    ),
    Rule(
        code="slurm.oom",
        when=any_of(
            reason_is(Reason.OUT_OF_MEMORY),
            backend_says("OUT_OF_MEMORY", r"\(OOM\)", "oom-kill", "exceeded (job )?memory limit"),
        ),
        what="The memory{limit} ran out on the node and the command was killed.",
        fault=PROGRAM,
        next="Ask for more (--memory 64g), or use fewer data-loader workers or a smaller batch.",
        limit="memory",
        after="it is given more",
    ),
    Rule(
        code="slurm.node_failed",
        when=any_of(
            reason_is(Reason.NODE_FAILED),
            backend_says("^NODE_FAIL", "NodeFail", "srun: error: Node failure on"),
        ),
        what="A node of the job failed: {seen}.",
        fault=INFRA,
        next="It is tried again by a watcher (tao watch); to keep off the node: --exclude.",
        retryable=True,
    ),
    Rule(
        code="slurm.not_started",
        when=reason_is(Reason.SCRIPT_NOT_STARTED),
        what="{seen}, and the command was not started.",
        fault=INFRA,
        next="It is tried again by a watcher (tao watch); to keep off the node: --exclude.",
        retryable=True,
    ),
    Rule(
        code="slurm.boot_failed",
        when=any_of(reason_is(Reason.BOOT_FAILED), backend_says("^BOOT_FAIL")),
        what="A node could not be started: {seen}.",
        fault=INFRA,
        next="It is tried again by a watcher (tao watch); to keep off the node: --exclude.",
        retryable=True,
    ),
    Rule(
        code="slurm.no_such_folder",
        when=any_of(reason_is(Reason.NOT_LAUNCHED), backend_says("JobLaunchFailure")),
        what="{seen}.",
        fault=INFRA,
        next=(
            "See that SLURM_BASE_RESULTS_DIR is on a file system that the nodes share: "
            "tao doctor slurm."
        ),
    ),
    Rule(
        code="slurm.no_pyxis",
        when=backend_says("unrecognized option .*--container"),
        what="The nodes' srun has no --container-image: this cluster has no Pyxis.",
        fault=USER,
        next="Use --container-runtime enroot, apptainer or none, or ask the site for Pyxis.",
    ),
    Rule(
        code="slurm.conversion_failed",
        when=conversion_broke,
        what="The job that prepares the image failed: {seen}",
        fault=INFRA,
        next=(
            "Read the conversion's log, and show it to the site. If it lacked time, memory or "
            "room: SLURM_CONVERSION_TIMEOUT_MINUTES, SLURM_CONVERSION_MEMORY_GB, "
            "SLURM_SQSH_CACHE_DIR. Without a conversion every node fetches the image: "
            "--no-use-sqsh."
        ),
    ),
    Rule(
        code="slurm.registry_login",
        when=any_of(login_refused, nodes_say(*NO_LOGIN)),
        what="The registry did not let the nodes have the image: {seen}",
        fault=USER,
        next=(
            "Put its credentials on the cluster (~/.config/enroot/.credentials): "
            "tao doctor slurm says how."
        ),
    ),
    Rule(
        code="slurm.image_not_found",
        when=any_of(image_refused, nodes_say(*NO_IMAGE)),
        what="The image could not be had: {seen}",
        fault=USER,
        next=(
            "Check its name and tag, and the registry's credentials on the cluster: "
            "tao doctor slurm."
        ),
    ),
    Rule(
        code="slurm.mount_missing",
        when=backend_says("--container-mounts: source path does not exist"),
        what="A mounted path is not there on the node: {seen}",
        fault=USER,
        next="Correct the path; it has to be on a shared file system.",
    ),
    Rule(
        code="slurm.no_program",
        when=backend_says(r"execve\(\)?:? ?\S*: No such file", "couldn't chdir"),
        what="The task could not begin: {seen}",
        fault=USER,
        next="Use an image with /bin/sh, and paths that are there.",
    ),
    Rule(
        code="slurm.launch_failed",
        when=backend_says(
            r"Task launch for StepId=\S+ failed on node", "Application launch failed"
        ),
        what="A node did not start its part of the job: {seen}",
        fault=INFRA,
        next="It is tried again by a watcher (tao watch); to keep off the node: --exclude.",
        retryable=True,
    ),
    Rule(
        code="slurm.controller_away",
        when=backend_says(*CONTROLLER_AWAY),
        what=(
            "SLURM's controller did not answer its own node, "
            "and the command was not started: {seen}"
        ),
        fault=INFRA,
        next="It is tried again by a watcher (tao watch); if it stays, tell the site.",
        retryable=True,
    ),
    Rule(
        code="slurm.script_killed",
        when=reason_is(Reason.SCRIPT_KILLED),
        what="The job was ended from outside, and not by what its command did: {seen}.",
        fault=INFRA,
        next=(
            "It is tried again by a watcher (tao watch); "
            "a node that was taken for lost and comes back does so to what it runs."
        ),
        retryable=True,
    ),
    *hardware_rules("slurm.", HARDWARE),
    Rule(
        code="slurm.container_failed",
        when=any_of(backend_says(*NO_CONTAINER_CAUSE), backend_says(*NO_CONTAINER)),
        what="The container could not be started on the node: {seen}",
        fault=INFRA,
        next="Check the image and its mounts; try other nodes (--exclude NODE); or ask the site.",
    ),
    Rule(
        code="slurm.srun_failed",
        when=srun_failed,
        what="srun could not run the command on the nodes: {seen}",
        fault=INFRA,
        next=(
            "The program is not the cause. Ask for what the nodes can give, try other nodes "
            "(--exclude NODE), or show the line to the site."
        ),
    ),
)


def diagnose_job(evidence: Evidence) -> Diagnosis | None:
    """Explain why the job waits, or apply the first of SLURM's rules that explains its failure."""
    if evidence.waits:
        return diagnose_waiting(evidence)
    return first_match(RULES, evidence)


class Meaning(NamedTuple):
    """The meaning of squeue's reason, how to start the job sooner, and if it can start at all."""

    what: str
    next: str
    never_starts: bool = False


# squeue's reasons. Source: slurm.h job_state_reason.
REASONS: Mapping[str, Meaning] = {
    "Priority": Meaning(
        what="SLURM starts jobs of higher priority first, and some of them still wait",
        next="Wait; fewer nodes, or a shorter --time-limit, fit into gaps sooner.",
    ),
    "Resources": Meaning(
        what="the nodes that it needs are in use",
        next="Wait; fewer GPUs or nodes, or another partition, start sooner.",
    ),
    "BeginTime": Meaning(
        what=(
            "it begins at a later time: SLURM starts it again after a node failed or it was "
            "preempted"
        ),
        next="Nothing to do; it starts by itself.",
    ),
    "Dependency": Meaning(
        what="it waits for another job, such as the one that prepares its image",
        next="Wait for that job.",
    ),
    "DependencyNeverSatisfied": Meaning(
        what="the job that it waits for has failed, so it will never start",
        next="Cancel it, mend what failed (the image's name, its credentials), and submit again.",
        never_starts=True,
    ),
    "JobHeldUser": Meaning(
        what="you have held it",
        next="Let it go: scontrol release its id.",
    ),
    "JobHeldAdmin": Meaning(
        what="an administrator has held it, or it failed to start too often",
        next="Ask the site, or cancel and submit again.",
    ),
    "launch failed requeued held": Meaning(
        what="a node could not start it; it was put back into the queue and is held there",
        next="Let it go: scontrol release its id. By itself it does not start.",
    ),
    "job requeued in held state": Meaning(
        what="it was put back into the queue and is held there",
        next="Let it go: scontrol release its id.",
    ),
    "SUSPENDED": Meaning(
        what="an administrator has suspended it: its processes are stopped and keep their nodes",
        next="Ask the site; it goes on by itself after scontrol resume.",
    ),
    "PartitionTimeLimit": Meaning(
        what="its time limit is longer than the partition allows; it will never start",
        next="Cancel it and submit with a shorter --time-limit or another --partition.",
        never_starts=True,
    ),
    "PartitionNodeLimit": Meaning(
        what="it asks for more nodes than the partition allows; it will never start",
        next="Cancel it and submit with fewer nodes or another --partition.",
        never_starts=True,
    ),
    "PartitionConfig": Meaning(
        what="it asks for what the partition does not have; it will never start",
        next="Cancel it and ask for fewer nodes or GPUs.",
        never_starts=True,
    ),
    "PartitionDown": Meaning(
        what="the partition is down",
        next="Wait, or use another --partition.",
    ),
    "PartitionInactive": Meaning(
        what="the partition is not active",
        next="Wait, or use another --partition.",
    ),
    "ReqNodeNotAvail": Meaning(
        what="nodes that it needs are down or reserved, perhaps for maintenance",
        next="A time limit that ends before the maintenance starts sooner: --time-limit.",
    ),
    "Nodes required for job are DOWN": Meaning(
        what="nodes that it needs are down, drained, or kept for partitions of higher priority",
        next="Wait until the site has them back, or use another --partition.",
    ),
    "Reservation": Meaning(
        what="it waits for its reservation",
        next="Wait, or leave --reservation out.",
    ),
    "NodeDown": Meaning(
        what="a node that it needs is down",
        next="Wait, or leave --nodelist out.",
    ),
    "Licenses": Meaning(
        what="it waits for a licence",
        next="Wait.",
    ),
    "Prolog": Meaning(
        what="its node is being prepared",
        next="Nothing to do.",
    ),
    "Cleaning": Meaning(
        what="its last run is still being cleared up",
        next="Nothing to do.",
    ),
    "JobArrayTaskLimit": Meaning(
        what="too many of its array run",
        next="Wait.",
    ),
    "InvalidAccount": Meaning(
        what="the account is not valid",
        next="Cancel it and submit with another --account.",
    ),
    "InvalidQOS": Meaning(
        what="the qos is not valid",
        next="Cancel it and submit with another --qos.",
    ),
}
# The start of reasons that go on with partition and account, such as
# `... (polar4 allows a,b not c)`.
NOT_PERMITTED: Mapping[str, Meaning] = {
    "Job's account not": Meaning(
        what="that partition takes no jobs of its account; it will never start there",
        next=(
            "Cancel it and submit with an --account that the partition takes, "
            "or another --partition."
        ),
        never_starts=True,
    ),
    "Job's QOS not": Meaning(
        what="that partition takes no jobs of its qos; it will never start there",
        next=(
            "Cancel it and submit with a --qos that the partition takes, or another --partition."
        ),
        never_starts=True,
    ),
}
# QOSMaxGRESPerUser, AssocGrpGRES, QOSMaxJobsPerUserLimit ...: the limited owner and resource.
LIMIT = re.compile(
    r"(?P<who>QOS|Assoc)(?P<kind>Grp|Max)(?P<what>[A-Za-z]+?)"
    r"(?P<per>PerUser|PerAccount|PerJob|PerNode|)(Limit)?"
)
# the end of a limited resource's name, of limits that count minutes
MINUTES = re.compile("(?:Run)?Min(?:ute)?s$")
LIMIT_OWNERS = {"QOS": "the qos", "Assoc": "your account"}
LIMIT_SCOPES = {"PerUser": "one user", "PerAccount": "one account", "PerJob": "one job"}
LIMITED_RESOURCES = {
    "GRES": "GPUs",
    "CPU": "CPUs",
    "Cpu": "CPUs",
    "Node": "nodes",
    "Jobs": "jobs at once",
    "SubmitJobs": "submitted jobs",
    "Memory": "memory",
    "Mem": "memory",
    "Wall": "wall time",
    "WallDuration": "wall time",
}


def explain_reason(reason: str) -> Meaning:
    """The meaning of squeue's reason. An unknown reason is shown unchanged."""
    word = reason.partition(",")[0].strip()
    if word in REASONS:
        return REASONS[word]
    for start, meaning in NOT_PERMITTED.items():
        if reason.startswith(start):
            return meaning
    limit = LIMIT.fullmatch(word)
    if limit is None:
        return Meaning(reason, "Wait, or cancel jobs that hold what it waits for.")
    return limit_meaning(limit["who"], limit["what"], limit["per"])


def limit_meaning(owner: str, resource: str, scope: str) -> Meaning:
    """The meaning of a limit of the qos or the account."""
    resource = MINUTES.sub("", resource)
    resource = LIMITED_RESOURCES.get(resource, resource)
    holder = LIMIT_SCOPES.get(scope, "all jobs together")
    if scope == "PerJob" or resource == LIMITED_RESOURCES["Wall"]:
        return Meaning(
            what=f"{LIMIT_OWNERS[owner]} limits the {resource} of {holder}; it will never start",
            next="Cancel it and ask for less.",
            never_starts=True,
        )
    return Meaning(
        what=f"{LIMIT_OWNERS[owner]} limits the {resource} of {holder}, and they are in use",
        next="Wait, cancel one of your jobs, or use another --account or --qos.",
    )


def diagnose_waiting(evidence: Evidence) -> Diagnosis:
    """Explain why the job waits, its expected start, and how it could start sooner."""
    reason = evidence.backend_words or evidence.raw
    meaning = explain_reason(evidence.backend_words)
    parts = [f"{reason}: {meaning.what}."]
    if evidence.expected_start is not None:
        start = parse.describe_start(evidence.expected_start)
        parts.append(f"{start[:1].upper()}{start[1:]}.")
    parts += [f"{event.message}." for event in evidence.events]
    return Diagnosis(
        what=" ".join(parts),
        err_class=USER if meaning.never_starts else INFRA,
        next=meaning.next,
        why=evidence.raw,
        rule="slurm.never_starts" if meaning.never_starts else "slurm.waiting",
        events=evidence.events,
        reason_code=evidence.reason_code,
    )


# sbatch's words on refusal -> what to do.
REMEDIES: Mapping[str, str] = {
    "invalid partition specified": (
        "Name one that the cluster has with --partition or SLURM_PARTITION: "
        "tao doctor slurm lists them."
    ),
    "Invalid account or account/partition": (
        "Name one of yours, which the partition takes, with --account or SLURM_ACCOUNT: "
        "sacctmgr show assoc user=$USER lists them."
    ),
    "Invalid qos": "Name a qos that your account has: --qos.",
    "node configuration is not available": (
        "Ask for what a node there has: fewer --gpus, --cpus or --memory, or another --partition."
    ),
    "Invalid node name": "Correct --nodelist or --exclude.",
    "time limit is invalid|exceeds some limit": "Ask for less time: --time-limit.",
    "Node count specification invalid": "Ask for fewer nodes: --nodes.",
    "[Rr]eservation": "Correct --reservation: scontrol show reservation.",
    "Invalid feature": "Correct --constraint: sinfo -o %f shows the features.",
    "QOSMaxSubmit|MaxSubmitJobs|job submit limit|violates accounting/QOS": (
        "A limit of your account or qos is reached: wait for jobs to end, or ask for less."
    ),
    "nvalid job credential|munge": (
        "Tell the site: SLURM's authentication fails on the login node."
    ),
}


def remedy_for(words: str) -> str:
    """The advice for a refusal in these words of sbatch."""
    for pattern, remedy in REMEDIES.items():
        if re.search(pattern, words):
            return remedy
    return "Correct what it names, and submit again."


def refusal_error(words: str) -> Refused:
    """The error for a refusal: sbatch's own words and the remedy."""
    what = words.strip() or "sbatch refused the job."
    error = Refused(what, "SLURM refused it.", remedy_for(words))
    error.code = "slurm.refused"
    error.backend_words = words
    return error
