"""Rules: failures that only Docker causes, with advice. Applied before the general rules."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tao_sdk.backends.containers.parse import KILLED, STARTED_AGAIN
from tao_sdk.backends.containers.start_script import NOT_BEGUN, NOT_WHOLE, NOT_WHOLE_BEFORE
from tao_sdk.backends.docker.registry.pull import split_image_name
from tao_sdk.model.diagnosis import Diagnosis, ErrClass, Evidence
from tao_sdk.model.errors import Refused
from tao_sdk.model.reasons import Reason
from tao_sdk.model.rule import (
    Rule,
    all_of,
    any_of,
    backend_says,
    event_named,
    exit_code,
    first_match,
    log_says,
    reason_is,
    runner_failed,
    with_task,
)

INFRA, PROGRAM, USER = ErrClass.INFRA, ErrClass.PROGRAM, ErrClass.USER

# Words of a daemon, a registry or a program. Source: recorded words of Docker 20.10, and the GPU
# runtime's documents.
NO_GPU = (
    "could not select device driver",
    "unknown or invalid runtime name: nvidia",
    "unknown runtime.*nvidia",
)
OLD_DRIVER = (
    "unsatisfied condition: (?:cuda|driver)",
    "driver.*too old",
    "nvml error: driver",
    "CUDA driver version is insufficient",
)
NO_IMAGE = (
    "manifest .*(?:not found|unknown)",
    "repository does not exist",
    "No such image",
    "name unknown",
    "pull access denied",
    "resolve reference .*: not found",
)
DENIED = (
    "unauthorized",
    "authentication required",
    "authorization failed",
    r"HTTP\D{0,20}40[13]\b",
    "no basic auth credentials",
    "(?<!permission )denied: ",
)
NO_REGISTRY = (
    "(?:dial|read|write) tcp",
    "no such host",
    "i/o timeout",
    "connection re(?:fused|set)",
    "x509",
    "TLS handshake",
    "HTTP response to HTTPS",
    r"https?://.*(?:EOF|Client\.Timeout|request canceled|context deadline exceeded)",
    "https?://.*(?:no route to host|network is unreachable)",
)
# Errors that break a pull off. Outside a pull, these words do not point to a registry.
PULL_CUT_OFF = ("EOF", "context deadline exceeded", r"HTTP\D{0,20}5\d\d\b", "HTTP 206")
NO_PROGRAM = (
    "OCI runtime create failed",
    "executable file not found",
    "exec: .*no such file",
    "permission denied: unknown",
)
NO_SUCH_CPUS = (r"cpu\.cfs_(?:quota|period)_us", r"/cpu\.max", "Range of CPUs is from")
SMALL_SHM = (
    "Bus error",
    "insufficient shared memory",
    "/dev/shm.*No space",
    "No space left on device.*/dev/shm",
    "SIGBUS",
)
NO_SUCH_FILE = log_says(
    "No such file or directory: b?'/",
    "(?:cannot (?:access|open|stat)|can't open) '?/",
    r": /\S+: No such file or directory",
)


def path_missing(evidence: Evidence) -> str | None:
    """The log's words about a file that the command did not find; None if there are none.

    None also for exit code 0, and for 126 and 127, which mean a missing program.
    """
    return None if evidence.exit_code in (0, 126, 127) else NO_SUCH_FILE(evidence)


def could_not_begin(evidence: Evidence) -> str | None:
    """Matches the daemon's exit code 125.

    The runner uses 125 too if it could not do its part. Then an event says so, and None is
    returned.
    """
    return None if runner_failed()(evidence) else exit_code(NOT_BEGUN)(evidence)


START_AGAIN = (
    "Start it again: tao retry {job}. With a resume key it goes on from its newest complete "
    "checkpoint, else it begins anew."
)

RULES: Sequence[Rule] = (
    Rule(
        code="docker.oom_killed",
        when=any_of(reason_is(Reason.OUT_OF_MEMORY), event_named("OOMKilled")),
        what="The container ran out of its memory{limit} and was killed.",
        fault=PROGRAM,
        next="Give it more (--memory 64g), or use fewer data-loader workers or a smaller batch.",
        limit="memory",
        after="it is given more",
    ),
    Rule(
        code="docker.no_gpu_runtime",
        when=backend_says(*NO_GPU),
        what=(
            "Docker cannot give GPUs to containers here: "
            "the NVIDIA Container Toolkit is not installed or not configured."
        ),
        fault=INFRA,
        next=(
            "Install it and run: nvidia-ctk runtime configure --runtime=docker; "
            "restart Docker. "
            "Without a GPU: --gpus 0"
        ),
    ),
    Rule(
        code="docker.driver_too_old",
        when=any_of(backend_says(*OLD_DRIVER), log_says(*OLD_DRIVER)),
        what="The GPU driver of the host is too old for this image: {seen}",
        fault=INFRA,
        next="Update the NVIDIA driver, or use an image made for an older CUDA.",
    ),
    Rule(
        code="docker.image_not_found",
        when=backend_says(*NO_IMAGE),
        what="The image cannot be found, or may not be pulled: {seen}",
        fault=USER,
        next="Check its name and tag. If it is private: docker login, or set NGC_KEY for nvcr.io.",
    ),
    Rule(
        code="docker.pull_unauthorized",
        when=backend_says(*DENIED),
        what="The registry did not let us pull the image: {seen}",
        fault=USER,
        next="For nvcr.io set a valid NGC_KEY; for others run: docker login REGISTRY",
    ),
    Rule(
        code="docker.registry_unreachable",
        when=any_of(
            backend_says(*NO_REGISTRY),
            all_of(reason_is(Reason.PULL_FAILED), backend_says(*PULL_CUT_OFF)),
        ),
        what="The registry cannot be reached by the daemon: {seen}",
        fault=INFRA,
        next="Check the registry's name, the daemon's network, proxy and certificates.",
        retryable=True,
    ),
    Rule(
        code="docker.network_missing",
        when=backend_says(r"network \S+ (not found|is ambiguous)", "could not find a network"),
        what="The docker network is not there: {seen}",
        fault=USER,
        next="Create it (docker network create NAME), or leave the option out.",
    ),
    Rule(
        code="docker.no_space",
        when=any_of(event_named("DiskFull"), backend_says("no space left on device", "disk quota")),
        what="The daemon's disk is full: {seen}",
        fault=INFRA,
        next="Free space there: docker system df, then docker image prune.",
        after="there is space",
    ),
    Rule(
        code="docker.name_taken",
        when=backend_says(r"container name \S+ is already in use"),
        what="Another container has the job's name: {seen}",
        fault=USER,
        next="Remove that one (docker rm), or submit again.",
    ),
    Rule(
        code="docker.cpus_out_of_range",
        when=backend_says(*NO_SUCH_CPUS),
        what="The daemon's machine cannot give the container that much of its CPUs: {seen}",
        fault=USER,
        next="Ask for --cpus between 0.01 and the number of CPUs that the machine has.",
    ),
    Rule(
        code="docker.entrypoint_missing",
        when=backend_says(*NO_PROGRAM),
        what="The image's entrypoint, or its shell, cannot be run: {seen}",
        fault=USER,
        next="Use an image with /bin/sh, and whose ENTRYPOINT exists and is executable.",
    ),
    Rule(
        code="docker.no_shell",
        when=all_of(exit_code(127), log_says(r"\[FATAL tini \(\d+\)\] exec (\S+) failed")),
        what="The image has no such program, not even to begin: {seen}",
        fault=USER,
        next="Use an image with /bin/sh, and whose ENTRYPOINT exists.",
    ),
    Rule(
        code="docker.command_not_run",
        when=reason_is(Reason.NOT_STARTED),
        what="Nothing of the job was run: {seen}",
        fault=USER,
        next=(
            "Take the image without its ENTRYPOINT: native: {Entrypoint: []} in a job file, or "
            "--native FILE with that. Or use an image whose ENTRYPOINT runs what it is given."
        ),
    ),
    Rule(
        code="docker.shm_too_small",
        when=log_says(*SMALL_SHM),
        what="/dev/shm{limit} is too small: {seen}",
        fault=USER,
        next="Ask for more: --shm-size 16g, or use fewer data-loader workers.",
        limit="shm_size",
        after="it is given more",
    ),
    Rule(
        code="docker.path_not_mounted",
        when=path_missing,
        what="A path is not there inside the container: {seen}",
        fault=USER,
        next="Mount it: --mounts SRC:DST (mounts: in a job file), or use its path in the image.",
    ),
    Rule(
        code="docker.stopped_outside",
        when=any_of(all_of(exit_code(137), event_named(KILLED)), exit_code(143)),
        what=(
            "The container was stopped from outside, by docker stop or kill, "
            "or with the daemon ({seen})."
        ),
        fault=INFRA,
        next=START_AGAIN,
        retryable=True,
    ),
    Rule(
        code="docker.started_again",
        when=all_of(exit_code(NOT_BEGUN), event_named(STARTED_AGAIN)),
        what=(
            "The container was started again from outside, by docker restart or start. "
            "It runs its command once."
        ),
        fault=INFRA,
        next=START_AGAIN,
        retryable=True,
    ),
    Rule(
        code="docker.not_delivered",
        when=all_of(
            exit_code(NOT_BEGUN), any_of(runner_failed(NOT_WHOLE), log_says(NOT_WHOLE_BEFORE))
        ),
        what=(
            "The connection to the daemon ended while the environment was handed over, "
            "and nothing was run."
        ),
        fault=INFRA,
        next="Submit it again.",
        retryable=True,
    ),
    Rule(
        code="docker.pull_failed",
        when=all_of(reason_is(Reason.PULL_FAILED), backend_says(r"\S")),
        what="The image could not be pulled: {seen}",
        fault=INFRA,
        next="Try again; docker pull tells whether it is the registry or the daemon.",
        retryable=True,
    ),
    Rule(
        code="docker.daemon_failed",
        when=could_not_begin,
        what="The container could not begin ({seen}).",
        fault=INFRA,
        next="Read the end of its log; submit it again.",
    ),
)

UNAUTHORIZED = "docker.pull_unauthorized"
# The refusals to trust before a pull. Any other may come from the check itself; the pull will tell.
OF_REGISTRIES = (UNAUTHORIZED, "docker.image_not_found", "docker.registry_unreachable")


def diagnose(evidence: Evidence) -> Diagnosis | None:
    """Apply the first of Docker's rules that explains a failure.

    None for a time limit, which is ours and not Docker's, and for an attempt that waits.
    """
    if evidence.reason_code is Reason.TIME_LIMIT or evidence.waits:
        return None
    return first_match(RULES, evidence)


def pull_refused(image: str, words: str) -> Refused:
    """The error for a failed pull in the daemon's or a registry's words.

    It names the image once.
    """
    name = image.partition("@")[0] if "@" in image else split_image_name(image)[0]
    again = rf'"?(?:[\w.-]+(?::\d+)?/)*{re.escape(name)}(?:[:@][\w.:-]*\w)?"?'
    return explained_refusal(
        Evidence(
            phase="failed",
            reason_code=Reason.PULL_FAILED,
            backend_words=re.sub(f"{again}(?:: {again})*", "it", words),
            backend_task=f"pulling {image}",
        )
    )


def refused(words: str) -> Refused:
    """The error for the daemon's refusal in these words."""
    evidence = Evidence(phase="failed", reason_code=Reason.REFUSED, backend_words=words)
    return explained_refusal(evidence)


def explained_refusal(evidence: Evidence) -> Refused:
    """The error for a refusal, explained by the first rule that matches."""
    error = refusal_error(evidence)
    error.backend_words = evidence.backend_words
    error.backend_task = evidence.backend_task
    error.reason_code = evidence.reason_code or Reason.REFUSED
    return error


def refusal_error(evidence: Evidence) -> Refused:
    words = with_task(evidence.backend_task, evidence.backend_words)
    found = first_match(RULES, evidence)
    if found is None:
        return Refused(words, "The Docker daemon refused it.")
    error = Refused(found.what, words if words not in found.what else "", found.next)
    error.code = found.rule
    return error
