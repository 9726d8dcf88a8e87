"""What only SLURM does to a job, and what to do about it; asked before the general rules. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tao_sdk.backends.slurm import parse
from tao_sdk.model.diagnosis import Diagnosis, ErrClass, Evidence
from tao_sdk.model.errors import Refused
from tao_sdk.model.hardware_words import Told, hardware_rules
from tao_sdk.model.reasons import Reason
from tao_sdk.model.rule import Rule, all_of, any_of, backend_says, because, event_named, first_match

INFRA, PROGRAM, USER = ErrClass.INFRA, ErrClass.PROGRAM, ErrClass.USER
# the event that says: this job goes on in a new SLURM job when its time is up
RESUMES = "ResumesOnTimeout"

NO_LOGIN = r"Could not process JSON input|401 Unauthorized|Authenticating with user: <anonymous>"
NO_IMAGE = "|".join(
    (r"pyxis: failed to (?:import docker image|create container filesystem)",
         r"Invalid image format", r"manifest unknown",
     r"URL https?://\S+ returned error code: 40")
)  # fmt: skip


resumes = event_named(RESUMES)
at_time_limit = because(Reason.TIME_LIMIT)
preempted = any_of(because(Reason.PREEMPTED), backend_says(r"preempted"))

AGAIN_ELSEWHERE = (
    "It is tried again by a watcher (tao watch); tell the site, and "
    "keep off the node with --exclude."
)
HARDWARE: Mapping[str, Told] = {
    "driver_too_old": Told(
        "The GPU driver of the node is too old for this image: {seen}",
        "Use an image made for an older CUDA, or nodes with a newer driver (--constraint).",
    ),
    "no_gpu": Told("A node's GPU could not be used: {seen}", AGAIN_ELSEWHERE),
    "bad_gpu": Told("A node's GPU failed: {seen}", AGAIN_ELSEWHERE),
    "bad_link": Told(
        "The nodes lost each other: {seen}",
        "It is tried again by a watcher (tao watch); if it stays, see NCCL_IB_HCA and "
        "NCCL_SOCKET_IFNAME.",
    ),
}

RULES: Sequence[Rule] = (
    Rule("slurm.time_limit_resumes", all_of(resumes, at_time_limit),
         "The job reached its time limit; it goes on from its newest "
         "checkpoint in a new SLURM job.", INFRA,
         "Nothing to do, as long as a watcher runs: tao watch.", retryable=True),
    Rule("slurm.preempted_resumes", all_of(resumes, preempted),
         "The job was preempted; it goes on from its newest checkpoint in a new SLURM job.", INFRA,
         "Nothing to do, as long as a watcher runs: tao watch.", retryable=True),
    Rule("slurm.preempted", preempted,
         "A job of higher priority took its nodes: {seen}.", INFRA,
         "Submit it again, or with --requeue, or resume_on_timeout: true.",
         after="the nodes are free"),
    Rule("slurm.time_limit", at_time_limit, "The job reached its time limit{limit}.", USER,
         "Give it more (--time-limit), or let it go on in a new SLURM job: "
         "resume_on_timeout: true.",
         limit="time_limit", after="it is given more time"),
    Rule("slurm.oom", any_of(because(Reason.OUT_OF_MEMORY),
                             backend_says(r"OUT_OF_MEMORY|\(OOM\)|oom-kill|exceeded (job )?memory limit")),
         "The memory{limit} ran out on the node and the command was killed.", PROGRAM,
         "Ask for more (--memory 64g), or use fewer data-loader workers or a smaller batch.",
         limit="memory", after="it is given more"),
    Rule("slurm.node_failed", any_of(because(Reason.NODE_FAILED),
                                     backend_says(r"^NODE_FAIL|NodeFail|srun: error: Node failure on")),
         "A node of the job failed: {seen}.", INFRA,
         "It is tried again by a watcher (tao watch); to keep off the node: --exclude.",
         retryable=True),
    Rule("slurm.not_started", because(Reason.SCRIPT_NOT_STARTED),
         "{seen}, and the command was not started.", INFRA,
         "It is tried again by a watcher (tao watch); to keep off the node: --exclude.",
         retryable=True),
    Rule("slurm.boot_failed", any_of(because(Reason.BOOT_FAILED), backend_says(r"^BOOT_FAIL")),
         "A node could not be started: {seen}.", INFRA,
         "It is tried again by a watcher (tao watch); to keep off the node: --exclude.",
         retryable=True),
    Rule("slurm.no_such_folder", any_of(because(Reason.NOT_LAUNCHED),
         backend_says(r"JobLaunchFailure")), "{seen}.", INFRA,
         "See that SLURM_BASE_RESULTS_DIR is on a file system that the "
         "nodes share: tao doctor slurm."),
    Rule("slurm.no_pyxis", backend_says(r"unrecognized option .*--container"),
         "The nodes' srun has no --container-image: this cluster has no Pyxis.", USER,
         "Use --container-runtime enroot, apptainer or none, or ask the site for Pyxis."),
    Rule("slurm.registry_login", backend_says(NO_LOGIN),
         "The registry did not let the nodes have the image: {seen}", USER,
         "Put its credentials on the cluster "
         "(~/.config/enroot/.credentials): tao doctor slurm says how."),
    Rule("slurm.image_not_found", backend_says(NO_IMAGE), "The image could not be had: {seen}",
         USER,
         "Check its name and tag, and the registry's credentials on "
         "the cluster: tao doctor slurm."),
    Rule("slurm.mount_missing", backend_says(r"--container-mounts: source path does not exist"),
         "A mounted path is not there on the node: {seen}", USER,
         "Correct the path; it has to be on a shared file system."),
    Rule("slurm.conversion_failed", any_of(because(Reason.CONVERSION_FAILED),
         backend_says(r"DependencyNeverSatisfied")),
         "The job that prepares the image failed: {seen}", USER,
         "See its log; check the image's name and credentials."),
    Rule("slurm.no_program", backend_says(r"execve\(\)?:? ?\S*: No such file|couldn't chdir"),
         "The task could not begin: {seen}", USER,
         "Use an image with /bin/sh, and paths that are there."),
    Rule("slurm.launch_failed",
         backend_says(r"Task launch for StepId=\S+ failed on node|Application launch failed"),
         "A node did not start its part of the job: {seen}", INFRA,
         "It is tried again by a watcher (tao watch); to keep off the node: --exclude.",
         retryable=True),
    Rule("slurm.controller_away",
         backend_says(r"Unable to (confirm allocation|create step) for job"),
         "SLURM's controller did not answer its own node, and the "
         "command was not started: {seen}", INFRA,
         "It is tried again by a watcher (tao watch); if it stays, tell the site.", retryable=True),
    Rule("slurm.script_killed", because(Reason.SCRIPT_KILLED),
         "The job was ended from outside, and not by what its command did: {seen}.", INFRA,
         "It is tried again by a watcher (tao watch); a node that was taken for lost and "
         "comes back does so to what it runs.",
         retryable=True),
    *hardware_rules("slurm.", HARDWARE),
)  # fmt: skip


def diagnose(evidence: Evidence) -> Diagnosis | None:
    if evidence.phase.lower() in ("pending", "unknown", "paused"):
        return waiting(evidence)
    return first_match(RULES, evidence)


# squeue's reasons -> (what it means, what would start it sooner). Source: slurm.h job_state_reason.
REASONS: Mapping[str, tuple[str, str]] = {
    "Priority": ("jobs of higher priority wait before it",
         "Wait; fewer nodes, or a shorter --time-limit, fit into gaps sooner."),
    "Resources": ("the nodes that it needs are in use",
         "Wait; fewer GPUs or nodes, or another partition, start sooner."),
    "BeginTime": ("it begins at a later time: SLURM starts it again after a node failed or it was preempted",
                  "Nothing to do; it starts by itself."),
    "Dependency": ("it waits for another job, such as the one that prepares its image",
         "Wait for that job."),
    "DependencyNeverSatisfied": ("the job that it waits for has failed, so it will never start",
                                 (
                                     "Cancel it, mend what failed (the image's name, its "
                                     "credentials), and submit again."
                                 )),
    "JobHeldUser": ("you have held it", "Let it go: scontrol release its id."),
    "JobHeldAdmin": ("an administrator has held it, or it failed to start too often",
                     "Ask the site, or cancel and submit again."),
    "launch failed requeued held": ("a node could not start it; it was put back into the queue and is held there",
                                    (
                                        "Let it go: scontrol release its id. By "
                                        "itself it does not start."
                                    )),
    "job requeued in held state": ("it was put back into the queue and is held there",
         "Let it go: scontrol release its id."),
    "SUSPENDED": ("an administrator has suspended it: its processes are stopped and keep their nodes",
                  "Ask the site; it goes on by itself after scontrol resume."),
    "PartitionTimeLimit": ("its time limit is longer than the partition allows; it will never start",
                           (
                               "Cancel it and submit with a shorter --time-limit "
                               "or another --partition."
                           )),
    "PartitionNodeLimit": ("it asks for more nodes than the partition allows; it will never start",
                           "Cancel it and submit with fewer nodes or another --partition."),
    "PartitionConfig": ("it asks for what the partition does not have; it will never start",
                        "Cancel it and ask for fewer nodes or GPUs."),
    "PartitionDown": ("the partition is down", "Wait, or use another --partition."),
    "PartitionInactive": ("the partition is not active", "Wait, or use another --partition."),
    "ReqNodeNotAvail": ("nodes that it needs are down or reserved, perhaps for maintenance",
                        (
                            "A time limit that ends before the maintenance "
                            "starts sooner: --time-limit."
                        )),
    "Nodes required for job are DOWN": ("nodes that it needs are down, drained, or kept for partitions of higher priority",
                                        (
                                            "Wait until the site has them back, or use "
                                            "another --partition."
                                        )),
    "Reservation": ("it waits for its reservation", "Wait, or leave --reservation out."),
    "NodeDown": ("a node that it needs is down", "Wait, or leave --nodelist out."),
    "Licenses": ("it waits for a licence", "Wait."),
    "Prolog": ("its node is being prepared", "Nothing to do."),
    "Cleaning": ("its last run is still being cleared up", "Nothing to do."),
    "JobArrayTaskLimit": ("too many of its array run", "Wait."),
    "InvalidAccount": ("the account is not valid", "Cancel it and submit with another --account."),
    "InvalidQOS": ("the qos is not valid", "Cancel it and submit with another --qos."),
}  # fmt: skip
# The start of reasons that name partition and account, `... (polar4 allows a,b not c)` -> the same.
NOT_PERMITTED: Mapping[str, tuple[str, str]] = {
    "Job's account not": ("that partition takes no jobs of its account; it will never start there",
                          (
                              "Cancel it and submit with an --account that the partition takes, "
                              "or another --partition."
                          )),
    "Job's QOS not": ("that partition takes no jobs of its qos; it will never start there",
                      (
                          "Cancel it and submit with a --qos that the partition takes, or "
                          "another --partition."
                      )),
}  # fmt: skip
# QOSMaxGRESPerUser, AssocGrpGRES, QOSMaxJobsPerUserLimit ...: who is limited, and in what.
LIMIT = re.compile(
    r"(?P<who>QOS|Assoc)(?P<kind>Grp|Max)(?P<what>[A-Za-z]+?)(?P<per>PerUser|PerAccount|PerJob|PerNode|)(Limit)?"
)
WHO = {"QOS": "the qos", "Assoc": "your account"}
WHAT = {"GRES": "GPUs", "CPU": "CPUs", "Cpu": "CPUs", "Node": "nodes", "Jobs": "jobs at once",
     "SubmitJobs": "submitted jobs",
        "Memory": "memory", "Mem": "memory", "Wall": "wall time", "WallDuration": "wall time"}  # fmt: skip


# Those of them with which a job never starts, however long it waits.
NEVER_STARTS = frozenset(
    {
        "DependencyNeverSatisfied",
        "PartitionTimeLimit",
        "PartitionNodeLimit",
        "PartitionConfig",
        *NOT_PERMITTED,
    }
)


class Meaning(NamedTuple):
    """What squeue's reason means, what would start the job sooner, and whether it
    can start at all.
    """

    words: str
    sooner: str
    never: bool = False


def explained(reason: str) -> Meaning:
    """What squeue's reason means. One that no table has is shown as it is."""
    word = reason.partition(",")[0].strip()
    if word in REASONS:
        return Meaning(*REASONS[word], word in NEVER_STARTS)
    for start, meaning in NOT_PERMITTED.items():
        if reason.startswith(start):
            return Meaning(*meaning, start in NEVER_STARTS)
    limit = LIMIT.fullmatch(word)
    if limit is None:
        return Meaning(reason, "Wait, or cancel jobs that hold what it waits for.")
    return limited(limit["who"], limit["what"], limit["per"])


def limited(who: str, what: str, per: str) -> Meaning:
    """What a limit of the qos or the account means."""
    what = what.removesuffix("Minutes").removesuffix("RunMins")
    what = WHAT.get(what, what)
    each = {"PerUser": "one user", "PerAccount": "one account", "PerJob": "one job"}.get(
        per, "all together"
    )
    if per == "PerJob" or what == WHAT["Wall"]:
        words = f"{WHO[who]} limits {what} of {each}; it will never start"
        return Meaning(words, "Cancel it and ask for less.", never=True)
    return Meaning(
        f"{WHO[who]} limits the {what} of {each}, and they are in use",
        "Wait, cancel one of your jobs, or use another --account or --qos.",
    )


def waiting(evidence: Evidence) -> Diagnosis:
    """Why it waits, for how long it will, and what would start it sooner."""
    reason = evidence.backend_words or evidence.raw
    meaning = explained(evidence.backend_words)
    minutes = int(evidence.waited_seconds // 60)
    parts = [f"{evidence.phase.capitalize()} for {minutes} min: {reason}: {meaning.words}."]
    if evidence.expected_start is not None:
        start = parse.expected(evidence.expected_start)
        parts.append(f"{start[:1].upper()}{start[1:]}.")
    parts += [f"{event.message}." for event in evidence.events]
    return Diagnosis(
        what=" ".join(parts),
        err_class=USER if meaning.never else INFRA,
        next=meaning.sooner,
        why=evidence.raw,
        rule="slurm.never_starts" if meaning.never else "slurm.waiting",
        events=evidence.events,
        reason_code=evidence.reason_code,
    )


# sbatch's words on refusal -> what to do.
REMEDIES: Sequence[tuple[str, str]] = (
    ("invalid partition specified",
     (
         "Name one that the cluster has with --partition or "
         "SLURM_PARTITION: tao doctor slurm lists them."
     )),
    ("Invalid account or account/partition",
     (
         "Name one of yours, which the partition takes, with --account or SLURM_ACCOUNT: "
         "sacctmgr show assoc user=$USER lists them."
     )),
    ("Invalid qos", "Name a qos that your account has: --qos."),
    ("node configuration is not available",
     "Ask for what a node there has: fewer --gpus, --cpus or --memory, or another --partition."),
    ("Invalid node name", "Correct --nodelist or --exclude."),
    ("time limit is invalid|exceeds some limit", "Ask for less time: --time-limit."),
    ("Node count specification invalid", "Ask for fewer nodes: --nodes."),
    ("[Rr]eservation", "Correct --reservation: scontrol show reservation."),
    ("Invalid feature", "Correct --constraint: sinfo -o %f shows the features."),
    ("QOSMaxSubmit|MaxSubmitJobs|job submit limit|violates accounting/QOS",
     "A limit of your account or qos is reached: wait for jobs to end, or ask for less."),
    ("nvalid job credential|munge",
         "Tell the site: SLURM's authentication fails on the login node."),
)  # fmt: skip


def refused(words: str) -> Refused:
    """sbatch's own words, with the remedy."""
    remedy = next(
        (fix for pattern, fix in REMEDIES if re.search(pattern, words)),
        "Correct what it names, and submit again.",
    )
    error = Refused(words.strip() or "sbatch refused the job.", "SLURM refused it.", remedy)
    error.code = "slurm.refused"
    error.backend_words = words
    return error
