"""The table of rules that explain a failed or waiting job: general ones; a backend's own stand in
its folder.

The first rule that matches wins, so the specific ones come first. A rule looks at Evidence and
answers with what it saw (quoted to the user as evidence), or None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tao_sdk.model.diagnosis import Diagnosis, ErrClass, Evidence, NodeEvent
from tao_sdk.model.hardware_words import Told, hardware_rules
from tao_sdk.model.reasons import Reason
from tao_sdk.model.rule import (
    Rule,
    all_of,
    any_of,
    backend_says,
    because,
    event_named,
    exit_code,
    first_match,
    in_log,
    runner_failed,
)

LAST_LINES = 12
NOTHING_KNOWN = "nothing_known"

_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (.+)$')


def traceback(evidence: Evidence) -> str | None:
    """The exception's line, then its last frame: `ValueError: ...` at train.py:12 in main."""
    lines = evidence.log_tail.splitlines()
    starts = [
        index
        for index, line in enumerate(lines)
        if line.startswith("Traceback (most recent call last):")
    ]
    if not starts:
        return None
    frame, source, index = None, "", starts[-1] + 1
    while index < len(lines) and (not lines[index].strip() or lines[index][0] in " \t"):
        if match := _FRAME.match(lines[index]):
            frame, source = match, lines[index + 1].strip() if index + 1 < len(lines) else ""
        index += 1
    exception = lines[index].strip() if index < len(lines) else ""
    if frame is None or not exception:
        return None
    return f"{exception}\n  {frame[1]}:{frame[2]} in {frame[3]}: {source}"


def nan_loss(evidence: Evidence) -> str | None:
    lines = [
        line
        for line in evidence.log_tail.splitlines()
        if re.search(r"loss\W{0,4}(?:nan|[-+]?inf)\b", line, re.I)
    ]
    return lines[-1].strip() if lines else None


FULL_DISK = in_log(r"No space left on device|Disk quota exceeded|\[Errno 28\]|\[Errno 122\]")


def full_disk(evidence: Evidence) -> str | None:
    """The program's words, and the folders that the runner found full at its end."""
    line = FULL_DISK(evidence)
    if line is None:
        return None
    folders = [
        str(event["full"])
        for event in evidence.runner
        if event.get("event") == "ended" and event.get("full")
    ]
    return f"{line} (full: {folders[-1]})" if folders else line


def killed_by_signal(evidence: Evidence) -> str | None:
    code = evidence.exit_code
    if code is None or not 128 < code <= 128 + 64:
        return None
    return f"{signal_name(code - 128)} (exit code {code})"


def signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_lines(evidence: Evidence) -> str:
    lines = [line for line in evidence.log_tail.splitlines() if line.strip()]
    return "\n".join(lines[-LAST_LINES:])


at_time_limit = any_of(because(Reason.TIME_LIMIT), backend_says(r"time.?limit"))


def fetched_until_the_end(evidence: Evidence) -> str | None:
    """The time limit came while inputs were still on their way: what was said of them last."""
    if at_time_limit(evidence) is None:
        return None
    told = [event for event in evidence.runner if event.get("event") in ("stage", "transfer")]
    if not told or told[-1].get("event") != "transfer" or told[-1].get("stage") != "inputs":
        return None
    last = told[-1]
    here, total, rate = (
        float(last.get(name) or 0) / 1e6 for name in ("bytes", "total_bytes", "rate")
    )
    return f"{last.get('what')}: {here:.0f} of {total:.0f} MB, {rate:.1f} MB a second"


SMALL_SHM = (
    r"DataLoader worker .*(?:[Bb]us error|SIGBUS)|insufficient shared memory|/dev/shm.*No "
    r"space|No space left.*/dev/shm"
)
OUT_OF_GPU_MEMORY = (
    r"CUDA out of memory|CUDA error: out of "
    r"memory|OutOfMemoryError.*CUDA|CUBLAS_STATUS_ALLOC_FAILED"
)
AGAIN = (
    "Submit it again, with --retries: a further attempt resumes from "
    "the newest complete checkpoint."
)


HARDWARE: Mapping[str, Told] = {
    "driver_too_old": Told(
        "The machine's GPU driver is too old for this program: {seen}",
        "Use an image made for an older CUDA, or a machine with a newer driver.",
    ),
    "no_gpu": Told(
        "The machine's GPU could not be used: {seen}",
        "See nvidia-smi there, and that the job has asked for GPUs (--gpus). " + AGAIN,
    ),
    "bad_gpu": Told(
        "A GPU of the machine failed: {seen}",
        "See nvidia-smi and the kernel's log there; keep off the machine. " + AGAIN,
    ),
    "bad_link": Told(
        "The job's processes lost each other: {seen}",
        "If it stays, see NCCL_SOCKET_IFNAME and NCCL_IB_HCA. " + AGAIN,
    ),
}

PROGRAM, INFRA, USER = ErrClass.PROGRAM, ErrClass.INFRA, ErrClass.USER

RULES: Sequence[Rule] = (
    Rule("slow_source", fetched_until_the_end,
         "The time limit came while an input was still being fetched ({seen}).", INFRA,
         "Put the data nearer to the job or on a mount (mount_path keeps what was fetched "
         "for all jobs), or give it more time.",
         after="it is nearer"),
    Rule("time_limit", at_time_limit, "The job reached its time limit ({seen}).", USER,
         "Run it again with more time: tao run --time-limit 8h (tao retry keeps the limit). If "
         "tao results shows a newest checkpoint, name it in the spec to go on from there.",
         after="it is given more time"),
    Rule("machine_restarted", because(Reason.MACHINE_RESTARTED), "{seen}.", INFRA,
         "Submit it again, with --retries: a further attempt resumes from the newest "
         "complete checkpoint.", retryable=True),
    Rule("supervisor_lost", because(Reason.SUPERVISOR_LOST), "{seen}.", INFRA,
         "Look at the log's end; submit it again if it is not whole.", retryable=True),
    Rule("input_missing", runner_failed("input."), "{seen}", USER,
         "Correct the path in the spec, or mark the input optional."),
    Rule("results_not_sent", runner_failed("output.lost"),
         "The command has ended, and not all of its results were kept: {seen}",
         INFRA,
             "Copy them from where they still are, and mend what the store "
             "or the disk complains about."),
    Rule("results_no_place", runner_failed("output."),
         "The results have no place, so the command was not started: {seen}", USER,
         "Name a place that this job may write to."),
    Rule("hub_gated", runner_failed("hub.gated"), "{seen}", USER,
         "Ask for access on the page of the repository, and set HF_TOKEN to a token of the "
         "account that was let in.",
         after="access is given"),
    Rule("hub_private", any_of(runner_failed("hub.private"), runner_failed("hub.revision")),
         "{seen}", USER,
         "Correct the name or the revision, or set HF_TOKEN to a token that may read it."),
    Rule("ngc_refused", any_of(runner_failed("ngc.key"), runner_failed("ngc.denied"),
         runner_failed("ngc.terms")), "{seen}", USER,
         "Set NGC_KEY to a key of that organisation, and accept the terms "
         "on the page in the catalogue."),
    Rule("web_denied", runner_failed("http.denied"), "{seen}", USER,
         "Write a fresh signed address, or one with a login."),
    Rule("s3_no_bucket", any_of(runner_failed("s3.no_bucket"), runner_failed("s3.region"),
         runner_failed("s3.bucket_name"),
                                runner_failed("s3.endpoint")),
         "{seen}", USER,
             "Correct the bucket's name, S3_ENDPOINT_URL or CLOUD_REGION. A "
             "job never creates a bucket."),
    Rule("s3_clock", runner_failed("s3.clock"), "{seen}", INFRA,
         "Set the clock of the machine that ran the job (NTP); "
         "another machine may do meanwhile.", retryable=True),
    Rule("s3_keys", any_of(runner_failed("s3.wrong_secret"), runner_failed("s3.unknown_key"),
         runner_failed("s3.no_credentials"),
                           runner_failed("s3.expired"), runner_failed("s3.credentials")),
         "{seen}", USER,
             "Set ACCESS_KEY and SECRET_KEY to keys of that store that are "
             "still good, then submit again.",
         after="the keys are set"),
    Rule("s3_denied", runner_failed("s3.denied"), "{seen}", USER,
         "Ask the bucket's owner for the right to list and read it (and to write, for "
         "results), or use other keys."),
    Rule("s3_busy", runner_failed("s3.busy"), "{seen}", INFRA,
         "Submit it again later: it goes on from what is complete. Fewer jobs at a time help.",
         retryable=True),
    Rule("archive_broken", runner_failed("archive."), "{seen}", USER,
         "Make the archive again where it came from; extract: false hands it over packed."),
    Rule("data_damaged", runner_failed("fetch.damaged"), "{seen}", USER,
         "The copy at the source is damaged: store it there anew. Nothing "
         "of it has reached the command."),
    Rule("source_changing", runner_failed("fetch.changing"), "{seen}", USER,
         "Let whoever writes it finish, or name a copy that stands still."),
    Rule("source_truncated", runner_failed("fetch.broken"), "{seen}", INFRA,
         "Submit it again: it goes on from what is complete. If it breaks at one place, the "
         "source is cut off.", retryable=True),
    Rule("bucket_not_in_aws", runner_failed("web.dns",
         r"\bs3[.-][a-z0-9-]+\.amazonaws\.com(?:\.cn)?$", ("what", "why")),
         "The bucket was looked for in AWS: {seen}", USER,
         "Set S3_ENDPOINT_URL, unless the bucket is in AWS: then check its name, and the DNS "
         "of the node or container."),
    Rule("name_not_resolved", any_of(runner_failed("web.dns", parts=("what",)),
                                     in_log(
                                         r"Temporary failure in name resolution|Name "
                                         r"or service not known")),
         "A server's name is not known where the job runs: {seen}", USER,
         "Check the address for a typo, and the DNS of the node or container; a cluster may "
         "need a proxy (HTTPS_PROXY)."),
    Rule("certificate_untrusted", any_of(runner_failed("web.tls"),
         in_log(r"CERTIFICATE_VERIFY_FAILED")),
         "A server's certificate is not trusted where the job runs: {seen}", USER,
         "Mount your authority's certificate into the job and name it in SSL_CERT_FILE, or "
         "add ca-certificates to the image."),
    Rule("source_unreachable", runner_failed("web."), "{seen}", INFRA,
         "Check address, port, proxy and network; submit it again when the server answers.",
         retryable=True),
    Rule("missing_python3", any_of(runner_failed("python3.missing"),
                                   in_log(r"python3 .*(?:needed|not found|missing|required)")),
         "The image has no python3 (3.8 or later), which the runner needs.", USER,
         "Use an image with python3, or submit the bare command "
         "without specs, inputs and outputs."),
    Rule("small_shared_memory", in_log(SMALL_SHM),
         "There is too little shared memory (/dev/shm){limit}: {seen}", USER,
         "Give it more (--shm-size 16g, in a container), or use fewer data-loader workers.",
         limit="shm_size", after="it is given more"),
    Rule("disk_full", any_of(full_disk,
                             runner_failed("disk.full"), event_named("DiskFull"),
                             backend_says(r"no space left on device")),
         "A disk is full: {seen}", INFRA,
         "Free space there, or where the results are written; or point them elsewhere.",
         after="there is space"),
    Rule("cuda_oom", in_log(OUT_OF_GPU_MEMORY),
         "The GPU ran out of memory.", PROGRAM,
         "Use a smaller batch, gradient accumulation or mixed "
         "precision, or a GPU with more memory."),
    *hardware_rules("", HARDWARE),
    Rule("bus_error", any_of(in_log(r"\b[Bb]us error\b|\bSIGBUS\b"), exit_code(135)),
         "A part of the memory could not be read ({seen}): a device or a file below it "
         "failed, or /dev/shm is full.", INFRA,
         "Give it more shared memory (--shm-size 16g, in a container); see the kernel's log. " + AGAIN, retryable=True),
    Rule("host_oom", any_of(because(Reason.OUT_OF_MEMORY), event_named("OOMKilled"),
         backend_says(r"oom|out of memory"),
                            in_log(
                                r"\bMemoryError\b|Cannot allocate memory|oom-kill|Out "
                                r"of memory: Killed process")),
         "The memory{limit} ran out: {seen}", PROGRAM,
         "Use fewer data-loader workers or a smaller batch, or ask for more memory (--memory 64g).",
         limit="memory", after="it is given more"),
    Rule("killed", exit_code(137),
         "The command was killed (SIGKILL, {seen}), most often for lack of memory{limit}.", PROGRAM,
         "Ask for more memory (--memory), or see the node's kernel log for who killed it.",
         limit="memory", after="it is given more memory"),
    Rule("nan_loss", nan_loss, "The loss became NaN or infinite: {seen}", PROGRAM,
         "Lower the learning rate, clip gradients, and check the data "
         "for empty or broken samples."),
    Rule("module_missing", in_log(r"ModuleNotFoundError: No module named"),
         "A Python package is not installed where the job runs: {seen}", USER,
         "Use an image that has it; on the local platform, a virtual "
         "environment that has it: tao run --venv-path DIR."),
    Rule("traceback", traceback, "The program raised {seen}.", PROGRAM,
         "Mend the program where the traceback points, or the spec value that it complains about."),
    Rule("command_not_found", any_of(all_of(exit_code(127), in_log(r"not found|No such file")),
         runner_failed("command.missing"),
                                     exit_code(127)),
         "A command was not found: {seen}", USER,
         "Check the command's spelling, and that the image has it."),
    Rule("program_missing", in_log(r"can't open file .*\[Errno 2\]"),
         "The program's file is not where the job runs: {seen}", USER,
         "Check its path. To send it with the job: --files PATH, or files: in a job file."),
    Rule("not_executable", exit_code(126), "The command cannot be executed ({seen}).", USER,
         "Make it executable (chmod +x), and check that it is a program of this machine's kind."),
    Rule("runner_failed", runner_failed(""), "{seen}", USER,
         "Follow what it says, and submit again."),
    Rule("removed_outside", because(Reason.REMOVED_OUTSIDE),
         "Someone removed the job's processes or files outside the SDK.", INFRA,
         "Submit it again, with --retries: a further attempt resumes from the newest "
         "complete checkpoint.", retryable=True),
    Rule("signal", killed_by_signal, "The command was ended by {seen}.", PROGRAM,
         "A crash in native code (SIGSEGV, SIGABRT) or someone's kill; see the log's end."),
)  # fmt: skip


def diagnose(evidence: Evidence) -> Diagnosis:
    """The first rule's answer; for a waiting job the backend's reason; else "nothing known" with
    the log's end.
    """
    if evidence.phase.lower() in ("pending", "unknown", "paused"):
        return waiting(evidence)
    return first_match(RULES, evidence) or nothing_known(evidence)


def waiting(evidence: Evidence) -> Diagnosis:
    reason = evidence.reason or evidence.raw or "the backend gives no reason"
    return Diagnosis(
        cause=(
            f"{evidence.phase.capitalize()} for {int(evidence.waited_seconds // 60)} min: {reason}."
        ),
        err_class=ErrClass.INFRA,
        suggestion="Wait, or cancel jobs that hold what it waits for.",
        evidence=evidence.raw,
        rule="waiting",
        events=evidence.events,
        reason_code=evidence.reason_code,
    )


def nothing_known(evidence: Evidence) -> Diagnosis:
    code = "" if evidence.exit_code is None else f" with exit code {evidence.exit_code}"
    words = f" ({evidence.reason})" if evidence.reason and not code else ""
    seen = NodeEvent("ended", f"{code.strip() or evidence.reason or evidence.raw}")
    return Diagnosis(
        cause=f"The command ended{code}{words}; no rule explains it.",
        err_class=ErrClass.PROGRAM,
        suggestion="Read the end of its log: `tao logs` has all of it.",
        evidence=last_lines(evidence),
        rule=NOTHING_KNOWN,
        events=evidence.events or (seen,),
        reason_code=evidence.reason_code,
    )
