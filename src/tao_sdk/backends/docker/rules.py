"""What only Docker does to a job, and what to do about it; asked before the general rules."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tao_sdk.backends.containers.parse import KILLED, STARTED_AGAIN
from tao_sdk.backends.containers.start_script import NOT_BEGUN, NOT_WHOLE, NOT_WHOLE_BEFORE
from tao_sdk.backends.docker.registry.pull import parted
from tao_sdk.model.diagnosis import Diagnosis, ErrClass, Evidence
from tao_sdk.model.errors import Refused
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

INFRA, PROGRAM, USER = ErrClass.INFRA, ErrClass.PROGRAM, ErrClass.USER

# What a daemon, a registry and a program say; from the recorded words of Docker 20.10 and of the
# GPU runtime's documents.
NO_GPU = (
    r"could not select device driver|unknown or invalid runtime name: "
    r"nvidia|unknown runtime.*nvidia"
)
OLD_DRIVER = (
    r"unsatisfied condition: (?:cuda|driver)|driver.*too old|nvml error: driver|CUDA driver "
    r"version is insufficient"
)
NO_IMAGE = (
    r"manifest .*(?:not found|unknown)|repository does not exist|No such image|name unknown"
    r"|pull access denied|resolve reference .*: not found"
)
DENIED = (
    r"unauthorized|authentication required|authorization failed|HTTP\D{0,20}40[13]\b"
    r"|no basic auth credentials|(?<!permission )denied: "
)
NO_REGISTRY = (
    r"(?:dial|read|write) tcp|no such host|i/o timeout|connection re(?:fused|set)|x509|TLS handshake|HTTP response to HTTPS"
    r"|https?://.*(?:EOF|Client\.Timeout|request canceled|context deadline exceeded|no route to host|network is unreachable)"
    r"|pulling \S+: .*(?:EOF|context deadline exceeded|HTTP\D{0,20}5\d\d\b|HTTP 206)"
)
NO_PROGRAM = (
    r"OCI runtime create failed|executable file not found|exec: .*no such "
    r"file|permission denied: unknown"
)
NO_SUCH_CPUS = r"cpu\.cfs_(?:quota|period)_us|/cpu\.max|Range of CPUs is from"
SMALL_SHM = (
    r"Bus error|insufficient shared memory|/dev/shm.*No space|No space left on "
    r"device.*/dev/shm|SIGBUS"
)
NO_SUCH_FILE = in_log(
    r"No such file or directory: b?'/|(?:cannot (?:access|open|stat)|can't open) '?/|: /\S+: No "
    r"such file or directory"
)


def path_missing(evidence: Evidence) -> str | None:
    """A file of the host that the command did not find; a program that is missing is another
    matter.
    """
    return None if evidence.exit_code in (0, 126, 127) else NO_SUCH_FILE(evidence)


def could_not_begin(evidence: Evidence) -> str | None:
    """The daemon's 125; the runner's own, when it could not do its part, is told by an event."""
    return None if runner_failed("")(evidence) else exit_code(NOT_BEGUN)(evidence)


RULES: Sequence[Rule] = (
    Rule("docker.oom_killed", any_of(because(Reason.OUT_OF_MEMORY), event_named("OOMKilled")),
         "The container ran out of its memory{limit} and was killed.", PROGRAM,
         "Give it more (--memory 64g), or use fewer data-loader workers or a smaller batch.",
         limit="memory", after="it is given more"),
    Rule("docker.no_gpu_runtime", backend_says(NO_GPU),
         "Docker cannot give GPUs to containers here: the NVIDIA Container Toolkit is not "
         "installed or not configured.", INFRA,
         "Install it and run: nvidia-ctk runtime configure --runtime=docker; restart Docker. "
         "Without a GPU: --gpus 0"),
    Rule("docker.driver_too_old", any_of(backend_says(OLD_DRIVER), in_log(OLD_DRIVER)),
         "The GPU driver of the host is too old for this image: {seen}", INFRA,
         "Update the NVIDIA driver, or use an image made for an older CUDA."),
    Rule("docker.image_not_found", backend_says(NO_IMAGE),
         "The image cannot be found, or may not be pulled: {seen}", USER,
         "Check its name and tag. If it is private: docker login, or set NGC_KEY for nvcr.io."),
    Rule("docker.pull_unauthorized", backend_says(DENIED),
         "The registry did not let us pull the image: {seen}", USER,
         "For nvcr.io set a valid NGC_KEY; for others run: docker login REGISTRY"),
    Rule("docker.registry_unreachable", backend_says(NO_REGISTRY),
         "The registry cannot be reached by the daemon: {seen}", INFRA,
         "Check the registry's name, the daemon's network, proxy and certificates.",
         retryable=True),
    Rule("docker.network_missing",
         backend_says(r"network \S+ (not found|is ambiguous)|could not find a network"),
         "The docker network is not there: {seen}", USER,
         "Create it (docker network create NAME), or leave the option out."),
    Rule("docker.no_space", any_of(event_named("DiskFull"),
         backend_says(r"no space left on device|disk quota")),
         "The daemon's disk is full: {seen}", INFRA,
         "Free space there: docker system df, then docker image prune.", after="there is space"),
    Rule("docker.name_taken", backend_says(r"container name \S+ is already in use"),
         "Another container has the job's name: {seen}", USER,
         "Remove that one (docker rm), or submit again."),
    Rule("docker.cpus_out_of_range", backend_says(NO_SUCH_CPUS),
         "The daemon's machine cannot give the container that much of its CPUs: {seen}", USER,
         "Ask for --cpus between 0.01 and the number of CPUs that the machine has."),
    Rule("docker.entrypoint_missing", backend_says(NO_PROGRAM),
         "The image's entrypoint, or its shell, cannot be run: {seen}", USER,
         "Use an image with /bin/sh, and whose ENTRYPOINT exists and is executable."),
    Rule("docker.no_shell", all_of(exit_code(127),
         in_log(r"\[FATAL tini \(\d+\)\] exec (\S+) failed")),
         "The image has no such program, not even to begin: {seen}", USER,
         "Use an image with /bin/sh, and whose ENTRYPOINT exists."),
    Rule("docker.shm_too_small", in_log(SMALL_SHM),
         "/dev/shm{limit} is too small: {seen}", USER,
         "Ask for more: --shm-size 16g, or use fewer data-loader workers.",
         limit="shm_size", after="it is given more"),
    Rule("docker.path_not_mounted", path_missing,
         "A path is not there inside the container: {seen}", USER,
         "Mount it (--mounts in the job file: src:dst), or use its path inside the container."),
    Rule("docker.stopped_outside", any_of(all_of(exit_code(137), event_named(KILLED)),
         exit_code(143)),
         "The container was stopped from outside, by docker stop or kill, "
         "or with the daemon ({seen}).", INFRA,
         "Submit it again; it resumes from its newest complete checkpoint.", retryable=True),
    Rule("docker.started_again", all_of(exit_code(NOT_BEGUN), event_named(STARTED_AGAIN)),
         "The container was started again from outside, by docker restart or "
         "start. It runs its command once.", INFRA,
         "Submit it again; it resumes from its newest complete checkpoint.", retryable=True),
    Rule("docker.not_delivered", all_of(exit_code(NOT_BEGUN),
         any_of(runner_failed(NOT_WHOLE), in_log(NOT_WHOLE_BEFORE))),
         "The connection to the daemon ended while the environment was "
         "handed over, and nothing was run.", INFRA,
         "Submit it again.", retryable=True),
    Rule("docker.pull_failed", backend_says(r"^pulling \S+: "),
         "The image could not be pulled: {seen}", INFRA,
         "Try again; docker pull tells whether it is the registry or the daemon.", retryable=True),
    Rule("docker.daemon_failed", could_not_begin, "The container could not begin ({seen}).", INFRA,
         "Read the end of its log; submit it again."),
)  # fmt: skip

UNAUTHORIZED = "docker.pull_unauthorized"
# What is said of an image before it is pulled; anything else may be the question's fault, and the
# pull tells.
OF_REGISTRIES = (UNAUTHORIZED, "docker.image_not_found", "docker.registry_unreachable")


def diagnose(evidence: Evidence) -> Diagnosis | None:
    """The rule of Docker's that explains a failure. A time limit is ours, not Docker's, and waiting
    is no failure.
    """
    if evidence.reason_code is Reason.TIME_LIMIT or evidence.phase.lower() in (
        "pending",
        "unknown",
        "paused",
    ):
        return None
    return first_match(RULES, evidence)


def pull_refused(image: str, words: str) -> Refused:
    """As `refused`, of what the daemon or a registry says of a pull. The image is named once."""
    name = image.partition("@")[0] if "@" in image else parted(image)[0]
    again = rf'"?(?:[\w.-]+(?::\d+)?/)*{re.escape(name)}(?:[:@][\w.:-]*\w)?"?'
    return refused(f"pulling {image}: {re.sub(f'{again}(?:: {again})*', 'it', words)}")


def refused(words: str) -> Refused:
    """The daemon's refusal, with what follows from it where a rule knows its words."""
    error = explained_refusal(words)
    error.backend_words = words
    return error


def explained_refusal(words: str) -> Refused:
    found = first_match(RULES, Evidence(phase="failed", backend_words=words))
    if found is None:
        return Refused(words, "The Docker daemon refused it.")
    error = Refused(found.what, words if words not in found.what else "", found.next)
    error.code = found.rule
    return error
