"""Each rule of diagnosis on what a real failure left behind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tao_sdk.backends.by_name import backend_class
from tao_sdk.backends.docker import rules as docker_rules
from tao_sdk.backends.kubernetes import rules as kubernetes_rules
from tao_sdk.backends.local.backend import LocalBackend
from tao_sdk.backends.slurm import rules as slurm_rules
from tao_sdk.client.typed_values import flag_of
from tao_sdk.engine.diagnose import name_not_finite
from tao_sdk.engine.rules import RULES, diagnose, traceback
from tao_sdk.model.diagnosis import Diagnosis, ErrClass, Evidence, NodeEvent
from tao_sdk.model.fields import settings_of
from tao_sdk.model.hardware_words import SYMPTOMS
from tao_sdk.model.job import Job
from tao_sdk.model.log_reading import LogReading
from tao_sdk.model.progress_reader import ProgressReader
from tao_sdk.model.reasons import Reason
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.runner.events import EventFilter

LOGS = Path(__file__).parents[1] / "recorded" / "logs"


def log(name: str) -> str:
    return (LOGS / f"{name}.txt").read_text()


def told(name: str) -> tuple[dict[str, Any], ...]:
    """The events that a real job left behind."""
    divider = EventFilter()
    _, events = divider.feed((LOGS.parent / "runner" / f"{name}.txt").read_bytes())
    return tuple({"event": event.name, **event.facts} for event in events)


MISSING = {
    "event": "failed",
    "code": "input.missing",
    "what": "Input images: /data/coco is not there.",
    "why": "",
    "next": "Check it.",
}
SPEC = {
    "event": "failed",
    "code": "spec.unwritable",
    "what": "The spec could not be written.",
    "why": "",
    "next": "",
}
NO_CSV = """\
Traceback (most recent call last):
  File "/runs/job/work/train.py", line 1, in <module>
    print(open("data.csv").read())
          ^^^^^^^^^^^^^^^^
FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'
"""
NO_SYNTAX = """epoch 1/2
  File "/runs/job/work/train.py", line 3
    print(
         ^
SyntaxError: '(' was never closed
"""
NO_LABEL = """Traceback (most recent call last):
  File "/runs/job/work/train.py", line 9, in <module>
    print(row["label"])
KeyError: 'label'
"""
NO_PYTHON = {"event": "failed", "code": "python3.missing", "what": "noise"}


def test_what_the_runner_says_reads_as_sentences() -> None:
    why = {
        **MISSING,
        "what": "The input images is not there: /data/coco",
        "why": "The nearest folder is /data",
    }
    found = diagnose(Evidence(exit_code=125, runner=(why,)))
    assert (
        found.what
        == "The input images is not there: /data/coco. The nearest folder is /data. Check it."
    )


# rule, evidence, what the user reads, class, worth another try
def failed(code: str, what: str) -> dict[str, str]:
    """The runner's own word that it could not do its part."""
    return {"event": "failed", "code": code, "what": what}


CASES = [
    (
        "arguments_refused",
        Evidence(exit_code=2, log_tail=log("arguments-refused")),
        "train.py: error: unrecognized arguments: --foo 2",
        ErrClass.USER,
        False,
    ),
    (
        "arguments_refused",
        Evidence(exit_code=2, log_tail="x.py: error: the following arguments are required: --lr"),
        "--lr",
        ErrClass.USER,
        False,
    ),
    (
        "arguments_refused",
        Evidence(exit_code=2, log_tail="Error: No such option: --foo"),
        "--foo",
        ErrClass.USER,
        False,
    ),
    (
        "arguments_refused",
        Evidence(exit_code=1, log_tail=log("arguments-refused") + "  exitcode  : 2 (pid: 12)\n"),
        "unrecognized arguments",
        ErrClass.USER,
        False,
    ),
    (
        "nothing_known",
        Evidence(exit_code=1, log_tail=log("arguments-refused")),
        "exit code 1",
        ErrClass.PROGRAM,
        False,
    ),
    (
        "results_not_sent",
        Evidence(
            exit_code=125,
            runner=(failed("output.lost", "2 of 9 files could not be sent to s3://b/results/j."),),
        ),
        "2 of 9 files",
        ErrClass.INFRA,
        False,
    ),
    (
        "disk_full",
        Evidence(
            exit_code=1,
            log_tail="OSError: [Errno 28] No space left on device",
            runner=(failed("output.lost", "The manifest of the results cannot be written."),),
        ),
        "No space left on device",
        ErrClass.INFRA,
        False,
    ),
    (
        "results_no_place",
        Evidence(
            exit_code=125,
            runner=(
                failed("output.unwritable", "The output o cannot be kept: /o is not writable."),
            ),
        ),
        "/o is not writable",
        ErrClass.USER,
        False,
    ),
    (
        "bad_link",
        Evidence(exit_code=1, log_tail=log("nccl-system-error")),
        "ncclSystemError",
        ErrClass.INFRA,
        True,
    ),
    (
        "no_gpu",
        Evidence(exit_code=1, log_tail=log("no-cuda-gpus")),
        "No CUDA GPUs",
        ErrClass.INFRA,
        True,
    ),
    (
        "driver_too_old",
        Evidence(exit_code=1, log_tail=log("driver-too-old")),
        "too old",
        ErrClass.INFRA,
        False,
    ),
    (
        "bad_gpu",
        Evidence(exit_code=1, log_tail=log("xid")),
        "fallen off the bus",
        ErrClass.INFRA,
        True,
    ),
    (
        "bad_gpu",
        Evidence(exit_code=1, log_tail=log("ecc")),
        "uncorrectable ECC",
        ErrClass.INFRA,
        True,
    ),
    (
        "bus_error",
        Evidence(exit_code=135, log_tail=log("bus-error")),
        "Bus error",
        ErrClass.INFRA,
        True,
    ),
    ("bus_error", Evidence(exit_code=135), "exit code 135", ErrClass.INFRA, True),
    (
        "small_shared_memory",
        Evidence(exit_code=1, log_tail=log("small-shared-memory")),
        "shared memory",
        ErrClass.USER,
        False,
    ),
    (
        "nothing_known",
        Evidence(exit_code=1, log_tail=log("program-xid")),
        "exit code 1",
        ErrClass.PROGRAM,
        False,
    ),
    (
        "cuda_oom",
        Evidence(exit_code=1, log_tail=log("nccl-system-error") + log("cuda-out-of-memory")),
        "GPU ran out of memory",
        ErrClass.PROGRAM,
        False,
    ),
    (
        "module_missing",
        Evidence(exit_code=1, log_tail=log("module-missing")),
        "'numpy'",
        ErrClass.USER,
        False,
    ),
    (
        "syntax_error",
        Evidence(exit_code=1, log_tail=NO_SYNTAX),
        "SyntaxError: '(' was never closed (/runs/job/work/train.py, line 3)",
        ErrClass.PROGRAM,
        False,
    ),
    (
        "traceback",
        Evidence(exit_code=1, log_tail=NO_SYNTAX + NO_LABEL),
        "KeyError: 'label'",
        ErrClass.PROGRAM,
        False,
    ),
    (
        "no_stdin",
        Evidence(exit_code=1, log_tail="Go on? Traceback\nEOFError: EOF when reading a line"),
        "a job has no stdin",
        ErrClass.USER,
        False,
    ),
    (
        "device_assert",
        Evidence(
            exit_code=1,
            log_tail="torch.AcceleratorError: CUDA error: device-side assert triggered",
        ),
        "device-side assert",
        ErrClass.PROGRAM,
        False,
    ),
    (
        "module_not_brought",
        Evidence(
            exit_code=1,
            log_tail="ModuleNotFoundError: No module named 'utils'",
            files=("imp.py",),
            own_module="utils.py",
        ),
        "No module named 'utils' (it is here: utils.py)",
        ErrClass.USER,
        False,
    ),
    (
        "submodule_missing",
        Evidence(exit_code=1, log_tail="ModuleNotFoundError: No module named 'yaml.foo'"),
        "The package is there",
        ErrClass.USER,
        False,
    ),
    (
        "file_not_brought",
        Evidence(exit_code=1, log_tail=NO_CSV, files=("train.py", "lib/a.py")),
        "FileNotFoundError: [Errno 2] No such file or directory: 'data.csv' "
        "(files there: train.py, lib/a.py)",
        ErrClass.USER,
        False,
    ),
    (
        "file_not_seen",
        Evidence(exit_code=1, log_tail=NO_CSV, inputs=("train.json",)),
        "FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'",
        ErrClass.USER,
        False,
    ),
    (
        "file_not_seen",
        Evidence(exit_code=1, log_tail="begin\ncat: data.csv: No such file or directory\n"),
        "cat: data.csv",
        ErrClass.USER,
        False,
    ),
    (
        "file_not_seen",
        Evidence(exit_code=2, log_tail="ls: cannot access 'my data': No such file or directory\n"),
        "'my data'",
        ErrClass.USER,
        False,
    ),
    (
        "path_missing",
        Evidence(exit_code=1, log_tail="cat: /my data/a b: No such file or directory\n"),
        "/my data",
        ErrClass.USER,
        False,
    ),
    (
        "path_missing",
        Evidence(
            exit_code=1,
            log_tail="cat: data.csv: No such file or directory\n",
            start_folder="/home/ada",
            unused_fields=LocalBackend.capabilities.unused_fields,
        ),
        "cat: data.csv",
        ErrClass.USER,
        False,
    ),
    (
        "file_not_there",
        Evidence(exit_code=1, log_tail=NO_CSV, start_folder="/home/ada/digits"),
        "'data.csv' (the job ran in /home/ada/digits)",
        ErrClass.USER,
        False,
    ),
    (
        "path_not_here",
        Evidence(
            exit_code=1,
            log_tail=NO_CSV.replace("'data.csv'", "'/data/a.csv'"),
            start_folder="/home/ada/digits",
            unused_fields=LocalBackend.capabilities.unused_fields,
        ),
        "not there on this machine: FileNotFoundError: [Errno 2] No such file or directory: "
        "'/data/a.csv'",
        ErrClass.USER,
        False,
    ),
    (
        "traceback",
        Evidence(exit_code=1, log_tail=NO_CSV.replace("'data.csv'", "'/data/a.csv'")),
        "FileNotFoundError",
        ErrClass.PROGRAM,
        False,
    ),
    (
        "traceback",
        Evidence(
            exit_code=1,
            log_tail=NO_CSV.replace("data.csv", "/data/data.csv"),
            files=("train.py",),
        ),
        "FileNotFoundError",
        ErrClass.PROGRAM,
        False,
    ),
    (
        "traceback",
        Evidence(exit_code=1, log_tail=log("python-traceback")),
        "KeyError: 'images'",
        ErrClass.PROGRAM,
        False,
    ),
    (
        "traceback",
        Evidence(exit_code=1, log_tail=log("chained-traceback")),
        "RuntimeError: bad learning rate",
        ErrClass.PROGRAM,
        False,
    ),
    (
        "cuda_oom",
        Evidence(exit_code=1, log_tail=log("cuda-out-of-memory")),
        "GPU ran out of memory",
        ErrClass.PROGRAM,
        False,
    ),
    (
        "host_oom",
        Evidence(exit_code=1, log_tail=log("host-out-of-memory")),
        "MemoryError",
        ErrClass.PROGRAM,
        False,
    ),
    (
        "host_oom",
        Evidence(exit_code=137, backend_words="OOMKilled"),
        "OOMKilled",
        ErrClass.PROGRAM,
        False,
    ),
    (
        "killed",
        Evidence(exit_code=137),
        "SIGKILL (exit code 137): by hand, by itself, or by the kernel if the memory ran out",
        ErrClass.PROGRAM,
        False,
    ),
    ("signal", Evidence(exit_code=139), "SIGSEGV", ErrClass.PROGRAM, False),
    ("signal", Evidence(exit_code=143), "SIGTERM", ErrClass.PROGRAM, False),
    (
        "time_limit",
        Evidence(exit_code=143, reason="time limit of 4h reached", reason_code=Reason.TIME_LIMIT),
        "time limit of 4h",
        ErrClass.USER,
        False,
    ),
    (
        "script_without_program",
        Evidence(exit_code=127, log_tail="bash: line 1: train.py: command not found\n"),
        "train.py",
        ErrClass.USER,
        False,
    ),
    (
        "command_not_found",
        Evidence(exit_code=127, log_tail=log("command-not-found")),
        "pythn",
        ErrClass.USER,
        False,
    ),
    (
        "python_missing",
        Evidence(exit_code=127, log_tail="bash: line 1: python: command not found\n"),
        "python",
        ErrClass.USER,
        False,
    ),
    (
        "program_missing",
        Evidence(exit_code=2, log_tail=log("program-not-there")),
        "train.py",
        ErrClass.USER,
        False,
    ),
    (
        "path_missing",
        Evidence(exit_code=1, log_tail="begin\ncat: /no/such: No such file or directory\n"),
        "cat: /no/such",
        ErrClass.USER,
        False,
    ),
    ("ended_by_timeout", Evidence(exit_code=124), "timeout", ErrClass.USER, False),
    ("not_executable", Evidence(exit_code=126), "cannot be executed", ErrClass.USER, False),
    (
        "missing_python3",
        Evidence(exit_code=127, runner=(NO_PYTHON,)),
        "no python3",
        ErrClass.USER,
        False,
    ),
    (
        "input_missing",
        Evidence(exit_code=125, runner=(MISSING,)),
        "/data/coco is not there",
        ErrClass.USER,
        False,
    ),
    (
        "runner_failed",
        Evidence(exit_code=125, runner=(SPEC,)),
        "The spec could not be written",
        ErrClass.USER,
        False,
    ),
    (
        "disk_full",
        Evidence(exit_code=1, log_tail=log("disk-full")),
        "No space left on device",
        ErrClass.INFRA,
        False,
    ),
    (
        "disk_full",
        Evidence(exit_code=125, runner=told("disk-full")),
        "do not fit",
        ErrClass.INFRA,
        False,
    ),
    (
        "nan_loss",
        Evidence(exit_code=1, log_tail=log("nan-loss")),
        "epoch 4/20  loss nan",
        ErrClass.PROGRAM,
        False,
    ),
    (
        "machine_restarted",
        Evidence(
            reason="the machine was restarted while the job ran",
            reason_code=Reason.MACHINE_RESTARTED,
        ),
        "restarted",
        ErrClass.INFRA,
        True,
    ),
    (
        "supervisor_lost",
        Evidence(
            reason="its supervisor was killed; the exit code is not known",
            reason_code=Reason.SUPERVISOR_LOST,
        ),
        "supervisor",
        ErrClass.INFRA,
        True,
    ),
    (
        "removed_outside",
        Evidence(reason="removed outside", reason_code=Reason.REMOVED_OUTSIDE),
        "outside the SDK",
        ErrClass.INFRA,
        True,
    ),
    (
        "slow_source",
        Evidence(
            exit_code=143,
            reason="time limit of 4h reached",
            reason_code=Reason.TIME_LIMIT,
            runner=told("slow-source"),
        ),
        "train.images: ",
        ErrClass.INFRA,
        False,
    ),
    (
        "hub_gated",
        Evidence(exit_code=125, runner=told("hub-gated")),
        "org/gated is gated",
        ErrClass.USER,
        False,
    ),
    (
        "hub_private",
        Evidence(exit_code=125, runner=told("hub-private")),
        "HF_TOKEN is not set",
        ErrClass.USER,
        False,
    ),
    (
        "ngc_refused",
        Evidence(exit_code=125, runner=told("ngc-key")),
        "NGC_KEY",
        ErrClass.USER,
        False,
    ),
    ("web_denied", Evidence(exit_code=125, runner=told("web-denied")), "403", ErrClass.USER, False),
    (
        "s3_no_bucket",
        Evidence(exit_code=125, runner=told("s3-no-bucket")),
        "no-such-bucket",
        ErrClass.USER,
        False,
    ),
    (
        "s3_no_bucket",
        Evidence(
            exit_code=125,
            runner=({"event": "failed", "code": "s3.endpoint", "what": "It must begin with http"},),
        ),
        "must begin with http",
        ErrClass.USER,
        False,
    ),
    ("s3_clock", Evidence(exit_code=125, runner=told("s3-clock")), "60 min", ErrClass.INFRA, True),
    (
        "s3_keys",
        Evidence(exit_code=125, runner=told("s3-wrong-secret")),
        "secret key is wrong",
        ErrClass.USER,
        False,
    ),
    (
        "s3_keys",
        Evidence(exit_code=125, runner=told("s3-unknown-key")),
        "know the access key",
        ErrClass.USER,
        False,
    ),
    (
        "s3_keys",
        Evidence(exit_code=125, runner=told("s3-no-credentials")),
        "not public",
        ErrClass.USER,
        False,
    ),
    (
        "s3_keys",
        Evidence(exit_code=125, runner=told("s3-expired")),
        "have expired",
        ErrClass.USER,
        False,
    ),
    (
        "s3_denied",
        Evidence(exit_code=125, runner=told("s3-denied")),
        "s3://my-data/data",
        ErrClass.USER,
        False,
    ),
    ("s3_busy", Evidence(exit_code=125, runner=told("s3-busy")), "too busy", ErrClass.INFRA, True),
    (
        "archive_broken",
        Evidence(exit_code=125, runner=told("archive-broken")),
        "x.tar.gz",
        ErrClass.USER,
        False,
    ),
    (
        "data_damaged",
        Evidence(exit_code=125, runner=told("data-damaged")),
        "sha256",
        ErrClass.USER,
        False,
    ),
    (
        "source_changing",
        Evidence(exit_code=125, runner=told("source-changing")),
        "4 readings",
        ErrClass.USER,
        False,
    ),
    (
        "source_truncated",
        Evidence(exit_code=125, runner=told("source-truncated")),
        "missing",
        ErrClass.INFRA,
        True,
    ),
    (
        "name_not_resolved",
        Evidence(exit_code=125, runner=told("name-not-resolved")),
        ".invalid",
        ErrClass.USER,
        False,
    ),
    (
        "bucket_not_in_aws",
        Evidence(exit_code=125, runner=told("bucket-not-in-aws")),
        "acme",
        ErrClass.USER,
        False,
    ),
    (
        "name_not_resolved",
        Evidence(
            exit_code=1,
            log_tail="socket.gaierror: [Errno -3] Temporary failure in name resolution\n",
        ),
        "name resolution",
        ErrClass.USER,
        False,
    ),
    (
        "certificate_untrusted",
        Evidence(exit_code=125, runner=told("certificate-untrusted")),
        "not trusted",
        ErrClass.USER,
        False,
    ),
    (
        "source_unreachable",
        Evidence(exit_code=125, runner=told("source-unreachable")),
        "127.0.0.1:9",
        ErrClass.INFRA,
        True,
    ),
    (
        "nothing_known",
        Evidence(exit_code=3, log_tail=log("unknown")),
        "exit code 3",
        ErrClass.PROGRAM,
        False,
    ),
]


@pytest.mark.parametrize(
    ("rule", "evidence", "words", "err_class", "retryable"),
    CASES,
    ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)],
)
def test_a_failure_is_explained_by_its_rule(
    rule: str, evidence: Evidence, words: str, err_class: ErrClass, retryable: bool
) -> None:
    found = diagnose(evidence)
    assert (found.rule, found.err_class, found.retryable) == (rule, err_class, retryable)
    assert words in found.what
    assert found.next


@pytest.mark.parametrize("recorded", ["name-not-resolved", "bucket-not-in-aws"])
def test_what_to_do_about_a_name_that_is_not_known_is_said_once(recorded: str) -> None:
    found = diagnose(Evidence(exit_code=125, runner=told(recorded)))
    assert "Check the address" not in found.what
    assert found.what.count("cannot be resolved") == 1
    assert ("S3_ENDPOINT_URL" in found.next) == (recorded == "bucket-not-in-aws")


@pytest.mark.parametrize(
    ("recorded", "rule"),
    [("name-not-resolved", "name_not_resolved"), ("bucket-not-in-aws", "bucket_not_in_aws")],
)
def test_the_server_of_a_runners_event_is_read_from_its_host_and_not_from_a_sentence(
    recorded: str, rule: str
) -> None:
    events = tuple(
        {**event, **dict.fromkeys(("what", "why", "next"), "noise")} for event in told(recorded)
    )
    assert diagnose(Evidence(exit_code=125, runner=events)).rule == rule


def test_every_rule_has_a_case() -> None:
    assert {rule.code for rule in RULES} <= {case[0] for case in CASES}


def test_of_many_files_that_a_job_brings_the_first_are_named() -> None:
    files = tuple(f"{number}.py" for number in range(7))
    found = diagnose(Evidence(exit_code=1, log_tail=NO_CSV, files=files))
    assert "(files there: 0.py, 1.py, 2.py, 3.py, 4.py, ...)" in found.what
    assert "--files NAME" in found.next
    assert "--inputs NAME=PATH" in found.next


def test_the_last_frame_of_a_traceback_is_quoted() -> None:
    found = diagnose(Evidence(exit_code=1, log_tail=log("python-traceback")))
    assert "train.py:2 in load" in found.why
    assert 'return {"a": 1}[path]' in found.why


def test_when_nothing_is_known_the_logs_last_lines_are_shown() -> None:
    assert diagnose(Evidence(exit_code=3, log_tail=log("unknown"))).why.endswith(
        "something odd happened"
    )


def test_words_that_merely_sound_like_infrastructure_are_not_retried() -> None:
    noise = (
        "NCCL INFO error=0\nGPU 0 temperature 54\nRuntimeError: CUDA error: "
        "device-side assert triggered\n"
    )
    assert not diagnose(Evidence(exit_code=1, log_tail=noise)).retryable


def test_a_waiting_job_is_explained_by_the_backends_reason() -> None:
    found = diagnose(Evidence(phase="pending", reason="waits for 2 free GPUs (held by digits-1)"))
    assert found.what == "waits for 2 free GPUs (held by digits-1)."


@pytest.mark.parametrize(
    ("name", "flag"), [("time_limit", "--time-limit"), ("module_missing", "--venv-path")]
)
def test_a_flag_that_is_advised_stands_beside_the_verb_that_has_it(name: str, flag: str) -> None:
    rule = next(rule for rule in RULES if rule.code == name)
    assert f"tao run {flag}" in rule.choose_advice(LocalBackend.capabilities.unused_fields)


def test_the_advice_at_a_time_limit_fits_a_job_without_a_spec() -> None:
    rule = next(rule for rule in RULES if rule.code == "time_limit")
    assert "the same line again" in rule.next
    assert "in the command or the spec" in rule.next


FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+(?![a-z=-])")
ELSEWHERE = re.compile(r"--platform \w+.*")  # flags behind it are another platform's
CONTAINER_WORDS = re.compile(r"\b(?:image|container|mount it)\b", re.IGNORECASE)
ANOTHER_PLATFORM = re.compile(r"Or another platform, .*")
PLATFORMS = ("local", "docker", "slurm", "kubernetes")
OWN_RULES = {
    "docker": docker_rules.RULES,
    "slurm": slurm_rules.RULES,
    "kubernetes": kubernetes_rules.RULES,
}


def advice_on(platform: str) -> dict[str, str]:
    """What each rule that is asked on the platform advises there."""
    unused = backend_class(platform).capabilities.unused_fields
    rules = (*OWN_RULES.get(platform, ()), *RULES)
    advice = {rule.code: rule.choose_advice(unused) for rule in rules}
    if platform == "slurm":
        advice |= {word: meaning.next for word, meaning in slurm_rules.REASONS.items()}
        advice |= {word: meaning.next for word, meaning in slurm_rules.NOT_PERMITTED.items()}
        advice |= slurm_rules.REMEDIES
    return advice


def flags_taken(platform: str) -> set[str]:
    """The flags of `tao run` that do something on the platform."""
    backend = backend_class(platform)
    declared = {**settings_of(JobSpec), **settings_of(backend.Options)}
    used = {k: v for k, v in declared.items() if k not in backend.capabilities.unused_fields}
    others = {flag for field in used.values() for flag in field.metadata["flags"]}
    negated = [flag_of(f"no_{name}") for name in used]
    return {"--platform", *others, *negated, *map(flag_of, used)}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_no_advice_names_a_flag_that_the_platform_does_not_take(platform: str) -> None:
    taken = flags_taken(platform)
    wrong = {
        code: flags
        for code, advice in advice_on(platform).items()
        if (flags := set(FLAG.findall(ELSEWHERE.sub("", advice))) - taken)
    }
    assert not wrong


def test_no_advice_to_a_local_job_names_an_image_or_a_container() -> None:
    wrong = {
        code: advice
        for code, advice in advice_on("local").items()
        if CONTAINER_WORDS.search(ANOTHER_PLATFORM.sub("", advice))
    }
    assert not wrong


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_fields_that_a_platform_does_not_use_are_fields_of_a_job(platform: str) -> None:
    assert backend_class(platform).capabilities.unused_fields <= {*settings_of(JobSpec)}


@pytest.mark.parametrize(
    ("module", "advice"),
    [
        ("torch", "python3 -m pip install torch. Or"),
        ("sklearn", "python3 -m pip install scikit-learn. Or"),
        ("utils", "python3 -m pip install PACKAGE (the package that has the module utils). Or"),
        ("x; rm -rf ~", "python3 -m pip install PACKAGE (the package that has the module). Or"),
    ],
)
def test_a_missing_module_of_a_local_job_is_installed_by_the_name_of_its_package(
    module: str, advice: str
) -> None:
    evidence = Evidence(
        exit_code=1,
        log_tail=f"ModuleNotFoundError: No module named '{module}'",
        unused_fields=LocalBackend.capabilities.unused_fields,
    )
    assert advice in diagnose(evidence).next


def test_advice_names_the_module_that_is_here_and_the_job_itself() -> None:
    missing = "ModuleNotFoundError: No module named 'my'"
    own = Evidence(exit_code=1, log_tail=missing, files=("a.py",), own_module="a b/my.py")
    assert "--files 'a b/my.py'," in diagnose(own).next
    asked = Evidence(exit_code=2, log_tail="Error: No such option: --foo", job_id="job-1")
    assert diagnose(asked).next.endswith("tao logs job-1")


def test_the_limit_that_was_hit_is_named() -> None:
    asked = {"memory": "64m", "shm_size": "1g"}
    assert "(64m)" in diagnose(Evidence(exit_code=137, limits=asked)).what
    assert (
        "(1g)"
        in diagnose(Evidence(exit_code=1, log_tail=log("small-shared-memory"), limits=asked)).what
    )
    assert "(" not in diagnose(Evidence(exit_code=1, backend_words="OOMKilled")).what


def test_a_limit_that_the_platform_does_not_set_is_not_named() -> None:
    text = "numpy.core._exceptions._ArrayMemoryError\nMemoryError"
    evidence = Evidence(
        exit_code=1,
        log_tail=text,
        limits={"memory": "500m"},
        unused_fields=frozenset({"memory"}),
    )
    assert "500m" not in diagnose(evidence).what


def test_the_disk_that_is_full_is_named() -> None:
    ended = {"event": "ended", "exit_code": 1, "full": "/results/digits"}
    found = diagnose(
        Evidence(exit_code=1, log_tail="tar: write error: No space left on device", runner=(ended,))
    )
    assert (
        found.what
        == "A disk is full: tar: write error: No space left on device (full: /results/digits)"
    )


def test_what_the_rule_recognized_stands_before_the_events_of_the_container() -> None:
    die = NodeEvent("Die", "exit code 1")
    found = diagnose(Evidence(exit_code=1, log_tail=log("cuda-out-of-memory"), events=(die,)))
    assert [event.node_event_name for event in found.events] == ["cuda_oom", "Die"]


def test_an_event_of_the_container_that_the_rule_recognized_is_first_and_not_doubled() -> None:
    events = (
        NodeEvent("Die", "exit code 137"),
        NodeEvent("OOMKilled", "the kernel ended a process"),
    )
    found = docker_rules.diagnose(
        Evidence(
            exit_code=137,
            reason="OOMKilled: out of memory",
            reason_code=Reason.OUT_OF_MEMORY,
            events=events,
        )
    )
    assert found is not None
    assert [event.node_event_name for event in found.events] == ["OOMKilled", "Die"]


@pytest.mark.parametrize(
    ("evidence", "fault", "again"),
    [
        (Evidence(exit_code=1, log_tail=log("xid")), "the place", "helps"),
        (
            Evidence(exit_code=1, log_tail=log("disk-full")),
            "the place",
            "may help after there is space",
        ),
        (
            Evidence(exit_code=1, log_tail=log("module-missing")),
            "how it was asked for",
            "does not help",
        ),
        (Evidence(exit_code=1, log_tail=log("python-traceback")), "your program", "does not help"),
    ],
)
def test_a_diagnosis_says_whose_fault_it_is_and_whether_trying_again_helps(
    evidence: Evidence, fault: str, again: str
) -> None:
    told = diagnose(evidence).to_json()
    assert (told["fault"], told["again"]) == (fault, again)
    assert Diagnosis.from_json(told) == diagnose(evidence)


def test_a_diagnosis_answers_to_the_names_of_the_documents_as_well() -> None:
    found = Diagnosis(what="It broke.", why="line 3", next="Mend it.", err_class=ErrClass.USER)
    assert (found.cause, found.evidence, found.suggestion) == ("It broke.", "line 3", "Mend it.")
    told = found.to_json()
    assert (told["cause"], told["evidence"], told["suggestion"]) == (
        "It broke.",
        "line 3",
        "Mend it.",
    )


def test_what_is_said_of_broken_hardware_is_recognized_alike_on_every_platform() -> None:
    general = {rule.code: rule for rule in RULES}
    on_slurm = {rule.code: rule for rule in slurm_rules.RULES}
    for name, words in [
        ("bad_link", "ncclSystemError"),
        ("no_gpu", "No CUDA GPUs are available"),
        ("bad_gpu", "uncorrectable ECC"),
    ]:
        for evidence in (
            Evidence(exit_code=1, log_tail=words),
            Evidence(exit_code=1, backend_words=words),
        ):
            found, there = general[name].apply(evidence), on_slurm[f"slurm.{name}"].apply(evidence)
            assert found is not None
            assert there is not None
            assert (found.err_class, found.retryable) == (there.err_class, there.retryable)
    assert [name for name in general if name in SYMPTOMS] == list(SYMPTOMS)
    assert [name for name in on_slurm if name.removeprefix("slurm.") in SYMPTOMS] == [
        f"slurm.{name}" for name in SYMPTOMS
    ]


def diverged() -> Job:
    """A failed training whose loss was NaN from its second epoch on."""
    reader = ProgressReader()
    reader.feed(b"epoch 1/3 loss 0.5\nepoch 2/3 loss nan\nepoch 3/3 loss nan\n")
    return Job("x-1", "x", "local", Status.ERROR, reading=LogReading(reader.progress))


def test_a_loss_that_is_nan_is_the_cause_where_nothing_else_is_known():
    named = name_not_finite(diagnose(Evidence(exit_code=3, log_tail="bye")), diverged())
    assert (named.rule, named.err_class) == ("nan_loss", ErrClass.PROGRAM)
    assert named.what == "The training diverged: loss is NaN or infinite from epoch 2 on."


def test_a_loss_that_is_nan_is_named_beside_another_cause():
    named = name_not_finite(diagnose(Evidence(exit_code=1, log_tail=NO_CSV)), diverged())
    assert named.rule != "nan_loss"
    assert named.why.endswith("\nIts loss is NaN or infinite from epoch 2 on.")


@pytest.mark.parametrize("line", ["Loss is nan, stopping training", "loss: nan", "loss became inf"])
def test_a_line_that_says_that_the_loss_is_nan_is_understood(line: str):
    named = name_not_finite(diagnose(Evidence(exit_code=1, log_tail=line)), diverged())
    assert named.rule == "nan_loss"
    assert named.what.endswith(f"{line} (loss is NaN or infinite from epoch 2 on)")


def test_an_exception_without_a_source_line_is_told_once() -> None:
    log_tail = (
        "Traceback (most recent call last):\n"
        '  File "<string>", line 1, in <module>\n'
        "ValueError: no such digit: 12\n"
    )
    found = diagnose(Evidence(exit_code=1, log_tail=log_tail))
    assert found is not None
    assert found.evidence.count("no such digit") == 1
    assert found.evidence.endswith("<string>:1 in <module>")


def test_a_traceback_through_a_library_points_at_the_line_of_the_program() -> None:
    log = """Traceback (most recent call last):
  File "/results/job/work/data.py", line 2, in <module>
    d = np.load("x.npz")
  File "/usr/lib/python3/dist-packages/numpy/lib/npyio.py", line 405, in load
    raise ValueError("no array")
ValueError: no array
"""
    assert traceback(Evidence(log_tail=log)) == (
        'ValueError: no array\n  /results/job/work/data.py:2 in <module>: d = np.load("x.npz")'
    )


def test_who_failed_without_a_word_is_not_sent_to_an_empty_log() -> None:
    told_next = {text: diagnose(Evidence(exit_code=3, log_tail=text)).next for text in ("", "word")}
    assert "tao logs" not in told_next[""]
    assert "printed nothing" in told_next[""]
    assert "tao logs" in told_next["word"]


def test_a_file_of_the_job_for_which_the_disk_has_no_room_is_told_as_a_full_disk() -> None:
    event = {
        "event": "failed",
        "code": "file.unwritable",
        "what": "The job's file a.py cannot be written.",
        "why": "a.py: No space left on device.",
        "next": "Give it a relative path, or a path that this job's user may write.",
    }
    told = diagnose(Evidence(exit_code=125, runner=(event,)))
    assert (told.rule, told.err_class) == ("disk_full", ErrClass.INFRA)
    assert "a.py" in told.what
    assert "relative path" not in told.what + told.next
