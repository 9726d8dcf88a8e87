"""The table of general rules that explain a failed or waiting job. A backend's own rules stand in
its folder.

The first rule that matches wins, so the specific ones come first. A rule looks at Evidence and
returns what it saw (quoted to the user as evidence), or None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from tao_sdk.model.diagnosis import Diagnosis, ErrClass, Evidence, NodeEvent
from tao_sdk.model.hardware_words import MachineAdvice, hardware_rules
from tao_sdk.model.lazy_pattern import lazy_compile
from tao_sdk.model.module_names import missing_module
from tao_sdk.model.progress import NOT_FINITE_ADVICE
from tao_sdk.model.reasons import Reason
from tao_sdk.model.rule import (
    Rule,
    all_of,
    any_of,
    backend_says,
    event_named,
    exit_code,
    first_line,
    first_match,
    log_says,
    reason_is,
    runner_failed,
)

LAST_LINES = 12
NOTHING_KNOWN = "nothing_known"
NAN_LOSS = "nan_loss"

_FRAME = lazy_compile(r'^\s*File "([^"]+)", line (\d+), in (.+)$')
# a file of Python's own or of an installed package
_LIBRARY = lazy_compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python3[^/]*/|^<frozen ")


def traceback(evidence: Evidence) -> str | None:
    """The exception's line, then the program's last frame: `ValueError: ...` at train.py:12 in
    main.
    """
    lines = lines_of_last_traceback(evidence.log_tail)
    frame, source = last_own_frame(lines)
    exception = next((line for line in lines if not is_of_frame(line)), "").strip()
    if frame is None or not exception:
        return None
    place = f"{frame[1]}:{frame[2]} in {frame[3]}"
    return f"{exception}\n  {place}: {source}" if source else f"{exception}\n  {place}"


def lines_of_last_traceback(log_tail: str) -> list[str]:
    """The lines after the last `Traceback (most recent call last):`; [] if there is none."""
    lines = log_tail.splitlines()
    for index in reversed(range(len(lines))):
        if lines[index].startswith("Traceback (most recent call last):"):
            return lines[index + 1 :]
    return []


def error_at_end(log_tail: str) -> str:
    """The exception's line of a traceback that ends the log, as `ValueError: no room`; "" if no
    traceback does.
    """
    lines = [line for line in lines_of_last_traceback(log_tail) if not is_of_frame(line)]
    return lines[0].strip() if len(lines) == 1 else ""


# Python prints these before the traceback of an exception that ends no program.
_HARMLESS = lazy_compile(r"Exception ignored |Exception in |--- Logging error ---|Error in atexit")
_LAST_WORDS = lazy_compile(
    r"^(?:Syntax|Indentation|Tab)Error: |can't open file .*\[Errno 2\]|: command not found$"
    r"|\bSegmentation fault\b|\bCUDA out of memory\b"
    r"|: line \d+: +\d+ Killed\b"  # bash reports SIGKILL so, which the kernel sends without memory
)


def fatal_error(log_tail: str, most_behind: int) -> str:
    """The error that seems to have ended a program, as `ValueError: no room`; "" for none.

    At most `most_behind` non-empty lines may follow it.
    """
    lines = [line for line in log_tail.splitlines() if line.strip()]
    for index in reversed(range(len(lines))[-most_behind - 1 :]):
        if _LAST_WORDS.search(lines[index]) or ends_traceback(lines, index):
            return lines[index].strip()
    return ""


def ends_traceback(lines: Sequence[str], index: int) -> bool:
    """True for the exception's line of a traceback that has ended a program. `lines` has no empty
    line.
    """
    if is_of_frame(lines[index]):
        return False
    head = index - 1
    while head > 0 and is_of_frame(lines[head]):
        head -= 1
    if head < 0 or not lines[head].startswith("Traceback (most recent call last):"):
        return False
    return head == 0 or not _HARMLESS.match(lines[head - 1])


def last_line(log_tail: str) -> str:
    """The last line of the log that is not empty; "" where there is none."""
    lines = [line for line in log_tail.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def is_of_frame(line: str) -> bool:
    """True for a line before the exception's: it is empty or indented."""
    return not line.strip() or line[0] in " \t"


def last_own_frame(lines: Sequence[str]) -> tuple[re.Match[str] | None, str]:
    """Return (match, source line) for the last frame before the exception that lies in no library,
    else for the last frame. The source line is "" if Python has none, as for `python -c`.
    """
    of_frames = list(takewhile(is_of_frame, lines))
    found = [
        (match, "".join(of_frames[index + 1 : index + 2]).strip())
        for index, line in enumerate(of_frames)
        if (match := _FRAME.match(line))
    ]
    own = [(match, source) for match, source in found if not _LIBRARY.search(match[1])]
    return (own or found or [(None, "")])[-1]


_NO_SUCH_FILE = lazy_compile(r"FileNotFoundError: .*?(?:'([^']+)'|\"([^\"]+)\")")
SHOWN_FILES = 5


def file_not_brought(evidence: Evidence) -> str | None:
    """The exception for a missing relative path in a job that starts in a folder of its own, and
    the files and inputs that are there.
    """
    starts_in = [path for path in evidence.files if not path.startswith("/")]
    exception = first_line(traceback(evidence) or "")
    missing = _NO_SUCH_FILE.match(exception)
    if not starts_in or missing is None or (missing[1] or missing[2]).startswith("/"):
        return None
    there = f"files there: {some_of(starts_in)}"
    inputs = [path for path in evidence.inputs if not path.startswith("/")]
    if inputs:
        there = f"{there}; inputs there: {some_of(inputs)}"
    return f"{exception} ({there})"


def some_of(paths: Sequence[str]) -> str:
    """The first paths, and `...` if there are more."""
    more = ", ..." if len(paths) > SHOWN_FILES else ""
    return f"{', '.join(paths[:SHOWN_FILES])}{more}"


def file_not_there(evidence: Evidence) -> str | None:
    """The exception for a missing relative path, the folder where the job started, and the
    frame.
    """
    exception, _, frame = (traceback(evidence) or "").partition("\n")
    missing = _NO_SUCH_FILE.match(exception)
    if not evidence.start_folder or missing is None or (missing[1] or missing[2]).startswith("/"):
        return None
    return f"{exception} (the job ran in {evidence.start_folder})\n{frame}"


# `cat: data.csv: No such file or directory`; GNU's `ls: cannot access 'data': ...`
_NO_RELATIVE = lazy_compile(
    r"^\S+: (?:line \d+: )?(?:cannot (?:access|open|stat) )?['‘]?"
    r"(?!/)[^'‘’:]+['’]?(?: for reading)?: No such file or directory$"
)


def file_not_seen(evidence: Evidence) -> str | None:
    """The error for a missing relative path, in a job that sees no folder of this machine and to
    which no file was sent.
    """
    if evidence.files or evidence.start_folder or "image" in evidence.unused_fields:
        return None
    exception, _, frame = (traceback(evidence) or "").partition("\n")
    missing = _NO_SUCH_FILE.match(exception)
    if missing is not None:
        relative = not (missing[1] or missing[2]).startswith("/")
        return f"{exception}\n{frame}" if relative else None
    line = path_missing(evidence) if evidence.exit_code in (1, 2) else None
    return line if line and _NO_RELATIVE.match(line) else None


def path_not_here(evidence: Evidence) -> str | None:
    """The exception for a missing absolute path, in a job that sees this machine's paths, and the
    frame.
    """
    seen = traceback(evidence) or ""
    missing = _NO_SUCH_FILE.match(seen)
    if "image" not in evidence.unused_fields or missing is None:
        return None
    return seen if (missing[1] or missing[2]).startswith("/") else None


module_error = log_says("ModuleNotFoundError: No module named")


def module_not_brought(evidence: Evidence) -> str | None:
    """The error for a missing module that is one of the user's own files, and the file's path
    here.
    """
    error = module_error(evidence)
    if error is None or not evidence.own_module:
        return None
    return f"{error} (it is here: {evidence.own_module})"


def submodule_missing(evidence: Evidence) -> str | None:
    """The error for a missing module inside a package that is there."""
    error = module_error(evidence)
    return error if error and missing_module(error)[1] else None


_SYNTAX_ERROR = lazy_compile(r"^(?:\[rank\d+\]: ?)?((?:Syntax|Indentation|Tab)Error: .*)")
_FILE_LINE = lazy_compile(r'^(?:\[rank\d+\]: ?)?\s*File "([^"]+)", line (\d+)$')


def syntax_error(evidence: Evidence) -> str | None:
    """`SyntaxError: invalid syntax (train.py, line 3)`, unless a traceback follows it."""
    place = ""
    seen: str | None = None
    for line in evidence.log_tail.splitlines():
        if line.startswith("Traceback (most recent call last):"):
            place, seen = "", None
        elif found := _FILE_LINE.match(line):
            place = f"{found[1]}, line {found[2]}"
        elif place and (error := _SYNTAX_ERROR.match(line)):
            seen, place = f"{error[1].strip()} ({place})", ""
    return seen


_ENDS_IN_NO_FILE = lazy_compile(r"\S+: \S.*: No such file or directory$")


def path_missing(evidence: Evidence) -> str | None:
    """The log's last line, if it reads like `cat: /no/such: No such file or directory`."""
    line = last_lines(evidence).rpartition("\n")[2].strip()
    return line if _ENDS_IN_NO_FILE.match(line) else None


nan_loss = log_says(r"(?i:loss\W{0,4}(?:(?:is|was|became) )?(?:nan|[-+]?inf)\b)")


def not_finite(words: str, unexplained: Diagnosis) -> Diagnosis:
    """The diagnosis of a job whose only known cause is that its metrics became NaN."""
    return replace(
        unexplained,
        what=f"The training diverged: {words}.",
        err_class=ErrClass.PROGRAM,
        next=NOT_FINITE_ADVICE,
        rule=NAN_LOSS,
    )


FULL_DISK = log_says(
    "No space left on device", "Disk quota exceeded", r"\[Errno 28\]", r"\[Errno 122\]"
)


def full_disk(evidence: Evidence) -> str | None:
    """The program's error line, and the places that were full at its end."""
    line = FULL_DISK(evidence)
    if line is None:
        return None
    places = full_places(evidence)
    return f"{line} (full: {places})" if places else line


NO_ROOM = lazy_compile("No space left on device|Disk quota exceeded")  # the kernel's words


def runner_without_room(evidence: Evidence) -> str | None:
    """The runner's message about a file for which the disk had no room, without its advice."""
    words = runner_failed(parts=("what", "why"))(evidence)
    if words is None or not NO_ROOM.search(words):
        return None
    return words


def full_places(evidence: Evidence) -> str:
    """The folders that the runner found full, else the disks that `Evidence` lists as full; "" for
    none.
    """
    for event in reversed(evidence.runner):
        if event.get("event") == "ended" and event.get("full"):
            return str(event["full"])
    return ", ".join(evidence.full_disks)


def results_lost(evidence: Evidence) -> str | None:
    """The runner's message about results that it could not save. None if the program's own disk was
    full, because that is the cause.
    """
    if FULL_DISK(evidence):
        return None
    return runner_failed("output.lost")(evidence)


def no_place_for_results(evidence: Evidence) -> str | None:
    """The runner's message about results that have no place; None for results that were lost."""
    if runner_failed("output.lost")(evidence):
        return None
    return runner_failed("output.")(evidence)


def killed_by_signal(evidence: Evidence) -> str | None:
    """`SIGSEGV (exit code 139)`, if the exit code is that of a signal."""
    code = evidence.exit_code
    if code is None or not 128 < code <= 128 + 64:
        return None
    return f"{signal_name(code - 128)} (exit code {code})"


def signal_name(number: int) -> str:
    """`SIGSEGV` for 11; `signal 63` for a number that has no name here."""
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_lines(evidence: Evidence) -> str:
    """The last LAST_LINES non-empty lines of the log."""
    lines = [line for line in evidence.log_tail.splitlines() if line.strip()]
    return "\n".join(lines[-LAST_LINES:])


at_time_limit = any_of(reason_is(Reason.TIME_LIMIT), backend_says("time.?limit"))


def fetched_until_the_end(evidence: Evidence) -> str | None:
    """The newest transfer of an input, if the time limit came while inputs were still being
    fetched.
    """
    if at_time_limit(evidence) is None:
        return None
    transfer = last_transfer(evidence)
    if transfer.get("stage") != "inputs":
        return None
    here, total, rate = (
        float(transfer.get(name) or 0) / 1e6 for name in ("bytes", "total_bytes", "rate")
    )
    return f"{transfer.get('what')}: {here:.0f} of {total:.0f} MB, {rate:.1f} MB a second"


def last_transfer(evidence: Evidence) -> Mapping[str, Any]:
    """The runner's newest "transfer" event; {} if a later stage has begun, or there is none."""
    for event in reversed(evidence.runner):
        if event.get("event") == "transfer":
            return event
        if event.get("event") == "stage":
            return {}
    return {}


SMALL_SHM = (
    "DataLoader worker .*(?:[Bb]us error|SIGBUS)",
    "insufficient shared memory",
    "/dev/shm.*No space",
    "No space left.*/dev/shm",
)
OUT_OF_GPU_MEMORY = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "OutOfMemoryError.*CUDA",
    "CUBLAS_STATUS_ALLOC_FAILED",
)
OWN_SHM = (
    "Use fewer data-loader workers, or let an administrator enlarge the machine's /dev/shm "
    "(mount -o remount,size=16g /dev/shm)."
)
LESS_MEMORY = (
    "Use fewer data-loader workers or a smaller batch; "
    "the job shares the machine's memory with everything else."
)
# argparse and click print these before they end with exit code 2. Source: argparse.py of 3.12,
# click 8.1 exceptions.py.
BAD_ARGUMENTS = (
    r": error: unrecognized arguments: ",
    r": error: the following arguments are required: ",
    r": error: argument \S.*: ",
    r": error: one of the arguments .* is required",
    r": error: ambiguous option: ",
    r"^Error: (?:No such option|Missing (?:option|argument)|Invalid value|Got unexpected extra)",
)
TORCHRUN_CHILD_EXIT = r"^\s*exitcode\s*: 2\b"  # torchrun ends with 1 whatever its workers end with
AGAIN = (
    "Submit it again, with --retries: "
    "a further attempt resumes from the newest complete checkpoint, if there is a resume key."
)

HARDWARE: Mapping[str, MachineAdvice] = {
    "driver_too_old": MachineAdvice(
        "The machine's GPU driver is too old for this program: {seen}",
        "Use a build of the program for an older CUDA, or a machine with a newer driver.",
    ),
    "no_gpu": MachineAdvice(
        "The machine's GPU could not be used: {seen}",
        "See nvidia-smi there, and that the job has asked for GPUs (--gpus). " + AGAIN,
    ),
    "bad_gpu": MachineAdvice(
        "A GPU of the machine failed: {seen}",
        "See nvidia-smi and the kernel's log there; keep off the machine. " + AGAIN,
    ),
    "bad_link": MachineAdvice(
        "The job's processes lost each other: {seen}",
        "If it stays, see NCCL_SOCKET_IFNAME and NCCL_IB_HCA. " + AGAIN,
    ),
}

PROGRAM, INFRA, USER = ErrClass.PROGRAM, ErrClass.INFRA, ErrClass.USER

RULES: Sequence[Rule] = (
    Rule(
        code="slow_source",
        when=fetched_until_the_end,
        what="The time limit came while an input was still being fetched ({seen}).",
        fault=INFRA,
        next=(
            "Put the data nearer to the job, set mount_path (it keeps what was fetched for all "
            "jobs), or give it more time."
        ),
        after="it is nearer",
    ),
    Rule(
        code="time_limit",
        when=at_time_limit,
        what="The job reached its time limit ({seen}).",
        fault=USER,
        next=(
            "Type the same line again with more time, tao run --time-limit 8h ... (tao retry keeps "
            "the limit). If tao results shows a newest checkpoint, give its path to the program, "
            "in the command or the spec, to go on from there."
        ),
        after="it is given more time",
    ),
    Rule(
        code="machine_restarted",
        when=reason_is(Reason.MACHINE_RESTARTED),
        what="{seen}.",
        fault=INFRA,
        next=AGAIN,
        retryable=True,
    ),
    Rule(
        code="supervisor_lost",
        when=reason_is(Reason.SUPERVISOR_LOST),
        what="{seen}.",
        fault=INFRA,
        next="Look at the log's end; submit it again if it is not whole.",
        retryable=True,
    ),
    Rule(
        code="input_missing",
        when=runner_failed("input."),
        what="{seen}",
        fault=USER,
        next="Correct the path in the spec, or mark the input optional.",
    ),
    Rule(
        code="results_not_sent",
        when=results_lost,
        what="The command has ended, and not all of its results were kept: {seen}",
        fault=INFRA,
        next=(
            "Copy them from where they still are, "
            "and mend what the store or the disk complains about."
        ),
    ),
    Rule(
        code="results_no_place",
        when=no_place_for_results,
        what="The results have no place, so the command was not started: {seen}",
        fault=USER,
        next="Name a place that this job may write to.",
    ),
    Rule(
        code="hub_gated",
        when=runner_failed("hub.gated"),
        what="{seen}",
        fault=USER,
        next=(
            "Ask for access on the page of the repository, "
            "and set HF_TOKEN to a token of the account that was let in."
        ),
        after="access is given",
    ),
    Rule(
        code="hub_private",
        when=runner_failed("hub.private", "hub.revision"),
        what="{seen}",
        fault=USER,
        next="Correct the name or the revision, or set HF_TOKEN to a token that may read it.",
    ),
    Rule(
        code="ngc_refused",
        when=runner_failed("ngc.key", "ngc.denied", "ngc.terms"),
        what="{seen}",
        fault=USER,
        next=(
            "Set NGC_KEY to a key of that organisation, "
            "and accept the terms on the page in the catalogue."
        ),
    ),
    Rule(
        code="web_denied",
        when=runner_failed("http.denied"),
        what="{seen}",
        fault=USER,
        next="Write a fresh signed address, or one with a login.",
    ),
    Rule(
        code="s3_no_bucket",
        when=runner_failed("s3.no_bucket", "s3.region", "s3.bucket_name", "s3.endpoint"),
        what="{seen}",
        fault=USER,
        next=(
            "Correct the bucket's name, S3_ENDPOINT_URL or CLOUD_REGION. "
            "A job never creates a bucket."
        ),
    ),
    Rule(
        code="s3_clock",
        when=runner_failed("s3.clock"),
        what="{seen}",
        fault=INFRA,
        next=(
            "Set the clock of the machine that ran the job (NTP); another machine may do meanwhile."
        ),
        retryable=True,
    ),
    Rule(
        code="s3_keys",
        when=runner_failed(
            "s3.wrong_secret", "s3.unknown_key", "s3.no_credentials", "s3.expired", "s3.credentials"
        ),
        what="{seen}",
        fault=USER,
        next=(
            "Set ACCESS_KEY and SECRET_KEY to keys of that store that are still good, "
            "then submit again."
        ),
        after="the keys are set",
    ),
    Rule(
        code="s3_denied",
        when=runner_failed("s3.denied"),
        what="{seen}",
        fault=USER,
        next=(
            "Ask the bucket's owner for the right to list and read it (and to write, "
            "for results), or use other keys."
        ),
    ),
    Rule(
        code="s3_busy",
        when=runner_failed("s3.busy"),
        what="{seen}",
        fault=INFRA,
        next="Submit it again later: it goes on from what is complete. Fewer jobs at a time help.",
        retryable=True,
    ),
    Rule(
        code="archive_broken",
        when=runner_failed("archive."),
        what="{seen}",
        fault=USER,
        next="Make the archive again where it came from; extract: false hands it over packed.",
    ),
    Rule(
        code="data_damaged",
        when=runner_failed("fetch.damaged"),
        what="{seen}",
        fault=USER,
        next=(
            "The copy at the source is damaged: store it there anew. "
            "Nothing of it has reached the command."
        ),
    ),
    Rule(
        code="source_changing",
        when=runner_failed("fetch.changing"),
        what="{seen}",
        fault=USER,
        next="Let whoever writes it finish, or name a copy that stands still.",
    ),
    Rule(
        code="source_truncated",
        when=runner_failed("fetch.broken"),
        what="{seen}",
        fault=INFRA,
        next=(
            "Submit it again: it goes on from what is complete. "
            "If it breaks at one place, the source is cut off."
        ),
        retryable=True,
    ),
    Rule(
        code="bucket_not_in_aws",
        when=runner_failed(
            "web.dns",
            host=r"\bs3[.-][a-z0-9-]+\.amazonaws\.com(?:\.cn)?$",
            parts=("what", "why"),
        ),
        what="The bucket was looked for in AWS: {seen}",
        fault=USER,
        next=(
            "Set S3_ENDPOINT_URL, unless the bucket is in AWS: then check its name, "
            "and the DNS where the job runs."
        ),
    ),
    Rule(
        code="name_not_resolved",
        when=any_of(
            runner_failed("web.dns", parts=("what",)),
            log_says("Temporary failure in name resolution", "Name or service not known"),
        ),
        what="A server's name is not known where the job runs: {seen}",
        fault=USER,
        next=(
            "Check the address for a typo, and the DNS where the job runs; "
            "a cluster may need a proxy (HTTPS_PROXY)."
        ),
    ),
    Rule(
        code="certificate_untrusted",
        when=any_of(runner_failed("web.tls"), log_says("CERTIFICATE_VERIFY_FAILED")),
        what="A server's certificate is not trusted where the job runs: {seen}",
        fault=USER,
        next=(
            "Mount your authority's certificate into the job and name it in SSL_CERT_FILE, "
            "or add ca-certificates to the image."
        ),
        next_without={
            "image": (
                "Name your authority's certificate: tao run --env SSL_CERT_FILE=PATH. "
                "Or add it to this machine's ca-certificates."
            )
        },
    ),
    Rule(
        code="source_unreachable",
        when=runner_failed("web."),
        what="{seen}",
        fault=INFRA,
        next="Check address, port, proxy and network; submit it again when the server answers.",
        retryable=True,
    ),
    Rule(
        code="missing_python3",
        when=any_of(
            runner_failed("python3.missing"),
            log_says("python3 .*(?:needed|not found|missing|required)"),
        ),
        what="There is no python3 (3.8 or later) where the job runs, which the runner needs.",
        fault=USER,
        next=(
            "Use an image with python3, or submit the bare command: without files, inputs, "
            "outputs, specs and args."
        ),
        next_without={
            "image": (
                "Install python3 on this machine, or submit the bare command: without files, "
                "inputs, outputs, specs and args."
            )
        },
    ),
    Rule(
        code="small_shared_memory",
        when=log_says(*SMALL_SHM),
        what="There is too little shared memory (/dev/shm){limit}: {seen}",
        fault=USER,
        next="Give it more (--shm-size 16g), or use fewer data-loader workers.",
        limit="shm_size",
        after="there is more",
        next_without={"shm_size": OWN_SHM},
    ),
    Rule(
        code="disk_full",
        when=any_of(
            full_disk,
            runner_failed("disk.full"),
            runner_without_room,
            event_named("DiskFull"),
            backend_says("no space left on device"),
        ),
        what="A disk is full: {seen}",
        fault=INFRA,
        next="Free space there, or where the results are written; or point them elsewhere.",
        after="there is space",
    ),
    Rule(
        code="cuda_oom",
        when=log_says(*OUT_OF_GPU_MEMORY),
        what="The GPU ran out of memory.",
        fault=PROGRAM,
        next=(
            "Use a smaller batch, gradient accumulation or mixed precision, "
            "or a GPU with more memory."
        ),
    ),
    Rule(
        code="device_assert",
        when=log_says("device-side assert triggered", "CUDA error: device-side assert"),
        what="A check in a GPU program failed: {seen}",
        fault=PROGRAM,
        next=(
            "Most often a label or an index is out of range: compare the labels with the number "
            "of classes. The line that does it is named with tao run --env CUDA_LAUNCH_BLOCKING=1"
        ),
    ),
    *hardware_rules("", HARDWARE),
    Rule(
        code="bus_error",
        when=any_of(log_says(r"\b[Bb]us error\b", r"\bSIGBUS\b"), exit_code(135)),
        what=(
            "A part of the memory could not be read ({seen}): "
            "a device or a file below it failed, or /dev/shm is full."
        ),
        fault=INFRA,
        next="Give it more shared memory (--shm-size 16g); see the kernel's log. " + AGAIN,
        retryable=True,
        next_without={"shm_size": f"{OWN_SHM} See the kernel's log. {AGAIN}"},
    ),
    Rule(
        code="host_oom",
        when=any_of(
            reason_is(Reason.OUT_OF_MEMORY),
            event_named("OOMKilled"),
            backend_says("oom", "out of memory"),
            log_says(
                r"\bMemoryError\b",
                "Cannot allocate memory",
                "oom-kill",
                "Out of memory: Killed process",
            ),
        ),
        what="The memory{limit} ran out: {seen}",
        fault=PROGRAM,
        next=(
            "Use fewer data-loader workers or a smaller batch, "
            "or ask for more memory (--memory 64g)."
        ),
        limit="memory",
        after="there is enough memory",
        next_without={"memory": LESS_MEMORY},
    ),
    Rule(
        code="killed",
        when=exit_code(137),
        what=(
            "The command was killed by SIGKILL ({seen}): by hand, by itself, or by the kernel if "
            "the memory{limit} ran out."
        ),
        fault=PROGRAM,
        next=(
            "Look at the node's kernel log. If it names a process that was killed for want of "
            "memory, ask for more (--memory). Otherwise submit it again."
        ),
        limit="memory",
        after="it is known who killed it",
        next_without={
            "memory": (
                "Look at this machine's kernel log (dmesg). If it names a process that was killed "
                "for want of memory, use fewer data-loader workers or a smaller batch. Otherwise "
                "submit it again."
            )
        },
    ),
    Rule(
        code=NAN_LOSS,
        when=nan_loss,
        what="The loss became NaN or infinite: {seen}",
        fault=PROGRAM,
        next=NOT_FINITE_ADVICE,
    ),
    Rule(
        code="syntax_error",
        when=syntax_error,
        what="Python cannot read the program: {seen}",
        fault=PROGRAM,
        next="Correct that line. To check a file before it is sent: python3 -m py_compile FILE",
    ),
    Rule(
        code="no_stdin",
        when=log_says("^EOFError: EOF when reading a line"),
        what="The program asked for input, and a job has no stdin: {seen}",
        fault=USER,
        next=(
            "Give the value as an argument or in a file, or type the answer into the command: "
            "echo y | python train.py"
        ),
    ),
    Rule(
        code="module_not_brought",
        when=module_not_brought,
        what="The program imports a module that was not sent with the job: {seen}",
        fault=USER,
        next="Send it too, with the others: --files {own_module}, or files: in a job file.",
        after="it is sent",
    ),
    Rule(
        code="submodule_missing",
        when=submodule_missing,
        what="The package is there, and has no such module: {seen}",
        fault=USER,
        next=(
            "Correct the import, or use the version of the package that has the module. "
            "To see what is there: python3 -m pip show -f NAME"
        ),
    ),
    Rule(
        code="module_missing",
        when=module_error,
        what="A Python package is not installed where the job runs: {seen}",
        fault=USER,
        next="Use an image that has it, or install it at the start of the command: {package}",
        next_without={
            "image": (
                "Install it into the Python that runs the job: {package}. "
                "Or use a virtual environment that has it: tao run --venv-path DIR. "
                "Or another platform, with an image that has it: --platform NAME --image IMAGE"
            )
        },
    ),
    Rule(
        code="arguments_refused",
        when=all_of(any_of(exit_code(2), log_says(TORCHRUN_CHILD_EXIT)), log_says(*BAD_ARGUMENTS)),
        what="The program refused its arguments: {seen}",
        fault=USER,
        next=(
            "Correct the command, or the args in the job file. The program's usage: tao logs {job}"
        ),
    ),
    Rule(
        code="file_not_brought",
        when=file_not_brought,
        what="The job runs in a folder of its own, and a file is missing there: {seen}",
        fault=USER,
        next=(
            "Bring it: --files NAME for a file that travels with the job, --inputs NAME=PATH for "
            "data; files: and inputs: in a job file."
        ),
    ),
    Rule(
        code="file_not_seen",
        when=file_not_seen,
        what=(
            "The job does not see the folder in which tao was typed, and a file is missing where "
            "it runs: {seen}"
        ),
        fault=USER,
        next=(
            "Bring it: --files NAME for a file that travels with the job, --inputs NAME=PATH for "
            "data, --mounts SOURCE:TARGET for a folder of the place; files:, inputs: and mounts: "
            "in a job file. If the image has it, give its whole path."
        ),
        next_without={"image": "Give the program the whole path."},
    ),
    Rule(
        code="file_not_there",
        when=file_not_there,
        what="The program did not find a file: {seen}",
        fault=USER,
        next=(
            "A relative path starts in the folder that the job ran in. Type tao run in the folder "
            "that has the file, or give the program the whole path."
        ),
    ),
    Rule(
        code="path_not_here",
        when=path_not_here,
        what="A path is not there on this machine: {seen}",
        fault=USER,
        next=(
            "Correct the path. A local job sees the paths of this machine, without mounts. Data "
            "from elsewhere is brought under a name: --inputs NAME=ADDRESS."
        ),
    ),
    Rule(
        code="traceback",
        when=traceback,
        what="The program raised {seen}.",
        fault=PROGRAM,
        next=(
            "Mend the program where the traceback points, "
            "or the spec value that it complains about."
        ),
    ),
    Rule(
        code="script_without_program",
        when=all_of(exit_code(127), log_says(r"\b[\w./-]+\.(?:py|sh): (?:command )?not found")),
        what="A script was given as if it were a command: {seen}",
        fault=USER,
        next="Name the program that runs it: python3 NAME.py, or sh NAME.sh.",
    ),
    Rule(
        code="python_missing",
        when=all_of(exit_code(127), log_says(r"\bpython: (?:command )?not found")),
        what="There is no program called python: {seen}",
        fault=USER,
        next="Many systems have python3 alone: write python3 in the command.",
    ),
    Rule(
        code="command_not_found",
        when=any_of(
            all_of(exit_code(127), log_says("not found", "No such file")),
            runner_failed("command.missing"),
            exit_code(127),
        ),
        what="A command was not found: {seen}",
        fault=USER,
        next="Check the command's spelling, and that the image has it.",
        next_without={
            "image": "Check the command's spelling, and that this machine has it: command -v NAME"
        },
    ),
    Rule(
        code="program_missing",
        when=log_says(r"can't open file .*\[Errno 2\]"),
        what="The program's file is not where the job runs: {seen}",
        fault=USER,
        next="Check its path. To send it with the job: --files PATH, or files: in a job file.",
    ),
    Rule(
        code="path_missing",
        when=all_of(exit_code(1, 2), path_missing),
        what="A command did not find a file: {seen}",
        fault=USER,
        next="Correct that path in the command. A relative path starts where the job runs.",
    ),
    Rule(
        code="not_executable",
        when=exit_code(126),
        what="The command cannot be executed ({seen}).",
        fault=USER,
        next=(
            "Make it executable (chmod +x), and check that it is a program of this machine's kind."
        ),
    ),
    Rule(
        code="ended_by_timeout",
        when=exit_code(124),
        what="The command took longer than it may, if it was started with timeout ({seen}).",
        fault=USER,
        next=(
            "timeout ends a program with 124 when its time is over: give it more time there. If "
            "the command has no timeout, the program chose 124 itself: tao logs {job}"
        ),
    ),
    Rule(
        code="runner_failed",
        when=runner_failed(),
        what="{seen}",
        fault=USER,
        next="Follow what it says, and submit again.",
    ),
    Rule(
        code="removed_outside",
        when=reason_is(Reason.REMOVED_OUTSIDE),
        what="Someone removed the job's processes or files outside the SDK.",
        fault=INFRA,
        next=AGAIN,
        retryable=True,
    ),
    Rule(
        code="signal",
        when=killed_by_signal,
        what="The command was ended by {seen}.",
        fault=PROGRAM,
        next=(
            "SIGSEGV and SIGABRT: type the line again with tao run --env PYTHONFAULTHANDLER=1, and "
            "the log names the Python line that crashed; reinstall the package that it is in. "
            "Other signals: ask who sent it."
        ),
    ),
)


def diagnose(evidence: Evidence) -> Diagnosis:
    """Return the first matching rule's diagnosis; for a waiting job the backend's reason; else
    "nothing known" with the log's end.
    """
    if evidence.waits:
        return waiting(evidence)
    return first_match(RULES, evidence) or nothing_known(evidence)


def waiting_advice(evidence: Evidence) -> str:
    """Say what would start the job, or let it go on."""
    if evidence.stopped_pids:
        pids = " ".join(map(str, evidence.stopped_pids))
        return f"Let it go on: kill -CONT {pids}. Or end it: tao cancel {evidence.job_id}"
    return "Wait, or cancel jobs that hold what it waits for."


def waiting(evidence: Evidence) -> Diagnosis:
    """The diagnosis of a waiting job: the reason that its backend gives."""
    reason = evidence.reason or evidence.raw or "the backend gives no reason"
    return Diagnosis(
        what=f"{reason}.",
        err_class=ErrClass.INFRA,
        next=waiting_advice(evidence),
        why=evidence.raw,
        rule="waiting",
        events=evidence.events,
        reason_code=evidence.reason_code,
    )


def log_advice(evidence: Evidence) -> str:
    """Say where the log is; of a job without one, how to learn more."""
    if evidence.log_tail.strip():
        return f"Read the end of its log. All of it: tao logs {evidence.job_id}"
    return "It printed nothing: let the program say what it found, and submit again."


def nothing_known(evidence: Evidence) -> Diagnosis:
    """The diagnosis of a failure that no rule explains: how it ended and the log's end."""
    code = "" if evidence.exit_code is None else f" with exit code {evidence.exit_code}"
    words = f" ({evidence.reason})" if evidence.reason and not code else ""
    seen = NodeEvent("ended", f"{code.strip() or evidence.reason or evidence.raw}")
    return Diagnosis(
        what=f"The command ended{code}{words}; no rule explains it.",
        err_class=ErrClass.PROGRAM,
        next=log_advice(evidence),
        why=last_lines(evidence),
        rule=NOTHING_KNOWN,
        events=evidence.events or (seen,),
        reason_code=evidence.reason_code,
    )
