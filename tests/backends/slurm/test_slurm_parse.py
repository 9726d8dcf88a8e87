"""What squeue and sacct print, and what it means. The texts are those of SLURM 22.05.8 in each
case.
"""

from __future__ import annotations

import subprocess
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tao_sdk.backends.slurm import look, parse, rules
from tao_sdk.backends.slurm.job import activity
from tao_sdk.backends.slurm.job.record import Record, read_record, with_record
from tao_sdk.backends.slurm.parse import PHASES, Answers, build_observation
from tao_sdk.backends.slurm.scripts import handover
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.model.diagnosis import ErrClass, Evidence, NodeEvent
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.transports.ssh import Login

NAME = "digits-0123456789.1"
START, END = "2026-11-21T08:00:00", "2026-11-21T09:00:00"
NO_JOB = (1, "", "slurm_load_jobs error: Invalid job id specified")
HUNG = (1, "", "slurm_load_jobs error: Socket timed out on send/recv operation")
NO_ACCOUNTS = (1, "", "Slurm accounting storage is disabled")
DBD_DOWN = (1, "", "sacct: error: Problem talking to the database: Connection refused")


def queued(
    state: str,
    reason: str = "None",
    nodes: str = "n1",
    name: str = NAME,
    start: str = START,
    end: str = "N/A",
) -> tuple[int, str, str]:
    return 0, f"7|{state}|{reason}|{start}|{end}|{nodes}|{name}\n", ""


def row(
    id: str,
    state: str,
    exit: str = "0:0",
    reason: str = "None",
    nodes: str = "n1",
    name: str = NAME,
) -> str:
    return f"{id}|{id}|{state}|{exit}|{reason}|{START}|{END}|{nodes}|{name}|0:0\n"


def accounted(*rows: str) -> tuple[int, str, str]:
    return 0, "".join(rows), ""


def steps(state: str, exit: str = "0:0") -> list[str]:
    return [row("7.batch", state, exit, name="batch"), row("7.0", state, exit, name="sh")]


def seen(squeue: tuple[int, str, str], sacct: tuple[int, str, str], now: str = "") -> Answers:
    return parse.read_answers({"squeue": squeue, "sacct": sacct, "now": (0, now, "")})


EMPTY = (0, "", "")
CASES = {
    "finished a moment ago": (EMPTY, accounted(row("7", "COMPLETED")), Phase.SUCCEEDED, 0, ""),
    "finished and shown with all states": (queued("COMPLETED"), accounted(row("7", "COMPLETED")),
         Phase.SUCCEEDED, 0, ""),
    "finished and purged": (NO_JOB, accounted(row("7", "COMPLETED")), Phase.SUCCEEDED, 0, ""),
    "exit 3": (EMPTY, accounted(row("7", "FAILED", "3:0"), *steps("FAILED", "3:0")), Phase.FAILED,
         3, "exit code 3"),
    "its script was killed": (EMPTY, accounted(row("7", "FAILED", "0:9")), Phase.FAILED, 137,
         "killed (signal 9)"),
    "a step failed and the script went on": (
        EMPTY, accounted(row("7", "COMPLETED"), row("7.0", "FAILED", "1:0", name="sh")),
        Phase.SUCCEEDED, 0, ""),
    "oom in the batch step": (EMPTY, accounted(row("7", "OUT_OF_MEMORY", "0:125")), Phase.FAILED,
         137, "out of memory"),
    "oom in a step": (
        EMPTY, accounted(row("7", "FAILED", "1:0"),
             row("7.0", "OUT_OF_MEMORY", "0:125", name="sh")),
        Phase.FAILED, 137, "out of memory"),
    "oom where there are no cgroups": (
        EMPTY, accounted(row("7", "FAILED", "0:9"),
             row("7.batch", "CANCELLED by 0", "0:9", name="batch")),
        Phase.FAILED, 137, "killed (signal 9)"),
    "exit 3, and the accounts have not heard its name": (
        queued("FAILED", "NonZeroExitCode"), accounted(row("7", "FAILED", "3:0", name="allocation"),
             *steps("FAILED", "3:0")),
        Phase.FAILED, 3, "exit code 3"),
    "its script was killed, and the accounts have not heard its name": (
        queued("FAILED", "JobLaunchFailure"),
        accounted(row("7", "FAILED", "0:9", name="allocation"),
             row("7.batch", "CANCELLED", "0:9", name="batch")),
        Phase.FAILED, 137, "killed (signal 9)"),
    "its script was killed, and both words for it are there": (
        EMPTY, accounted(row("7", "FAILED", "0:9", "JobLaunchFailure")), Phase.FAILED, 137,
        "killed (signal 9)"),
    "finished, and the accounts have heard of its first step only": (
        queued("COMPLETED"), accounted(row("7", "PENDING", name="allocation"),
             row("7.batch", "RUNNING", name="batch")),
        Phase.SUCCEEDED, 0, ""),
    "what it waited for failed, and the accounts have not heard its name": (
        queued("CANCELLED", "DependencyNeverSatisfied", ""),
        accounted(row("7", "CANCELLED", nodes="None assigned", name="allocation")),
        Phase.FAILED, None, "DependencyNeverSatisfied"),
    "running, and the accounts have not heard its name": (
        EMPTY, accounted(row("7", "RUNNING", name="allocation")), Phase.ABSENT, None, ""),
    "canceled after a step ran out of memory": (
        EMPTY, accounted(row("7", "CANCELLED by 1001"),
             row("7.0", "OUT_OF_MEMORY", "0:125", name="sh")),
        Phase.CANCELED, None, "canceled"),
    "time limit after a step ran out of memory": (
        EMPTY, accounted(row("7", "TIMEOUT"), row("7.0", "OUT_OF_MEMORY", "0:125", name="sh")),
        Phase.FAILED, 137, "out of memory"),
    "canceled while pending": (EMPTY,
         accounted(row("7", "CANCELLED by 1001", nodes="None assigned")), Phase.CANCELED, None, "canceled"),
    "what it waited for failed, and the accounts have the end as its start for a while": (
        queued("CANCELLED", "DependencyNeverSatisfied", ""),
        accounted(row("7", "CANCELLED", reason="Dependency", nodes="None assigned")),
        Phase.FAILED, None, "DependencyNeverSatisfied"),
    "canceled while running": (
        EMPTY, accounted(row("7", "CANCELLED by 1001"), *steps("CANCELLED", "0:15")),
        Phase.CANCELED, None, "canceled"),
    "being ended": (queued("COMPLETING"), accounted(row("7", "CANCELLED by 1001")), Phase.RUNNING,
         None, ""),
    "time limit": (
        EMPTY, accounted(row("7", "TIMEOUT"), *steps("CANCELLED", "0:15")), Phase.FAILED, None,
        "time limit reached"),
    "node failed, not requeued": (
        EMPTY, accounted(row("7", "NODE_FAIL", "1:0"), *steps("CANCELLED", "")), Phase.FAILED, None,
        "node failed"),
    "node failed, requeued": (
        queued("PENDING", "BeginTime", ""), accounted(row("7", "NODE_FAIL", "1:0")), Phase.PENDING,
        None, "BeginTime"),
    "its deadline passed": (EMPTY, accounted(row("7", "DEADLINE", "1:0")), Phase.FAILED, None,
         "deadline"),
    "a node did not start": (EMPTY, accounted(row("7", "BOOT_FAIL")), Phase.FAILED, None,
         "could not be started"),
    "a node that was lost and is back refuses to start it again": (
        queued("FAILED", "NonZeroExitCode"), accounted(row("7", "FAILED", "1:0", "BeginTime"),
             *steps("CANCELLED", "")[:1]),
        Phase.FAILED, None, "could not start its script"),
    "a node has just refused to start it": (
        queued("FAILED", "NonZeroExitCode"), accounted(row("7", "FAILED", "1:0", "BeginTime"),
             *steps("FAILED", "0:0")[:1]),
        Phase.FAILED, None, "could not start its script"),
    "exit 3, and the accounts have not heard of its script's end": (
        EMPTY, accounted(row("7", "FAILED", "3:0"), row("7.batch", "RUNNING", name="batch")),
        Phase.FAILED, 3, "exit code 3"),
    "requeued by hand": (queued("PENDING", "BeginTime", ""), accounted(row("7", "REQUEUED")),
         Phase.PENDING, None, "BeginTime"),
    "requeued and held": (
        queued("PENDING", "job requeued in held state", ""), EMPTY, Phase.PENDING, None,
        "job requeued in held state"),
    "preempted, canceled": (EMPTY, accounted(row("7", "PREEMPTED")), Phase.CANCELED, None,
         "preempted"),
    "preempted, requeued": (queued("PENDING", "BeginTime", ""), accounted(row("7", "PENDING")),
         Phase.PENDING, None, "BeginTime"),
    "requeued and held, as a node could not start it": (
        queued("PENDING", "launch failed requeued held", "", start="N/A"),
        accounted(row("7", "PENDING", reason="JobHeldUser", nodes="None assigned")),
        Phase.PENDING, None, "launch failed requeued held"),
    "held": (queued("PENDING", "JobHeldUser", ""), EMPTY, Phase.PENDING, None, "JobHeldUser"),
    "waits for what failed": (
        queued("PENDING", "DependencyNeverSatisfied", ""), EMPTY, Phase.PENDING, None,
        "DependencyNeverSatisfied"),
    "suspended": (queued("SUSPENDED"), accounted(row("7", "SUSPENDED")), Phase.PAUSED, None, ""),
    "no folder for its output": (
        EMPTY, accounted(row("7", "FAILED", "0:53", "JobLaunchFailure")), Phase.FAILED, 181,
        "could not launch"),
    "no folder for its output, after it had waited": (
        EMPTY, accounted(row("7", "FAILED", "0:53", "BeginTime")), Phase.FAILED, 181,
        "could not launch it (0:53)"),
    "controller hangs, running": (HUNG, accounted(row("7", "RUNNING")), Phase.UNREACHABLE, None,
         "Socket timed out"),
    "controller hangs, completed": (HUNG, accounted(row("7", "COMPLETED")), Phase.SUCCEEDED, 0, ""),
    "controller hangs, perhaps requeued": (HUNG, accounted(row("7", "NODE_FAIL")),
         Phase.UNREACHABLE, None, "Socket timed out"),
    "no accounting, running": (queued("RUNNING"), NO_ACCOUNTS, Phase.RUNNING, None, ""),
    "no accounting, failed": (queued("FAILED", "NonZeroExitCode"), NO_ACCOUNTS, Phase.FAILED, None,
         ""),
    "no accounting, purged": (NO_JOB, NO_ACCOUNTS, Phase.ABSENT, None, ""),
    "accounting is down, running": (queued("RUNNING"), DBD_DOWN, Phase.RUNNING, None, ""),
    "accounting is down, purged": (NO_JOB, DBD_DOWN, Phase.UNREACHABLE, None, "Connection refused"),
    "known to nobody": (NO_JOB, EMPTY, Phase.ABSENT, None, ""),
    "lost by the controller": (NO_JOB, accounted(row("7", "RUNNING")), Phase.ABSENT, None, ""),
    "the id of someone else's job": (
        queued("RUNNING", name="theirs"), accounted(row("7", "RUNNING", name="theirs")),
        Phase.ABSENT, None, ""),
    "a state that is new to us": (queued("LEVITATING"), EMPTY, Phase.UNKNOWN, None, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_slurm_answers_is_understood_when_the_job_is(case: str) -> None:
    squeue, sacct, phase, code, reason = CASES[case]
    found = build_observation("7", NAME, seen(squeue, sacct))
    assert (found.phase, found.exit_code) == (phase, code), found
    assert reason in found.reason
    if not reason:
        assert found.reason == ""


UNTOLD = {
    "nothing": EMPTY,
    "nothing, as it is down": DBD_DOWN,
    "that it runs": accounted(row("7", "RUNNING"), row("7.0", "RUNNING", name="sh")),
    "its first step": accounted(
        row("7", "PENDING", name="allocation"), row("7.batch", "RUNNING", name="batch")
    ),
}


@pytest.mark.parametrize("heard", UNTOLD)
def test_a_failure_waits_a_while_for_the_accounts_which_alone_know_its_code_and_cause(
    heard: str,
) -> None:
    failed = queued("FAILED", "NonZeroExitCode", end="2026-11-21T09:00:00")
    soon = build_observation("7", NAME, seen(failed, UNTOLD[heard], "2026-11-21T09:00:02"))
    assert (soon.phase, soon.raw) == (Phase.RUNNING, "FAILED on n1")
    assert "not told why" in soon.reason
    late = build_observation("7", NAME, seen(failed, UNTOLD[heard], "2026-11-21T09:02:00"))
    assert (late.phase, late.exit_code) == (Phase.FAILED, None)
    told = accounted(row("7", "FAILED", "1:0"), row("7.0", "OUT_OF_MEMORY", "0:125", name="sh"))
    assert (
        "out of memory"
        in build_observation("7", NAME, seen(failed, told, "2026-11-21T09:00:03")).reason
    )


def test_a_failure_does_not_wait_for_accounts_that_nobody_keeps() -> None:
    failed = queued("FAILED", "NonZeroExitCode", end="2026-11-21T09:00:00")
    assert (
        build_observation("7", NAME, seen(failed, NO_ACCOUNTS, "2026-11-21T09:00:02")).phase
        is Phase.FAILED
    )


def test_a_script_that_was_killed_is_told_from_one_that_could_not_start_where_there_are_no_accounts() -> (
    None
):
    seen_so = build_observation("7", NAME, seen(queued("FAILED", "JobLaunchFailure"), NO_ACCOUNTS))
    assert "could not launch it" in with_record(seen_so, Record()).reason
    assert with_record(seen_so, Record(begun=True)).reason == "the batch script was killed"


def test_every_state_of_slurm_has_its_phase() -> None:
    known = """PENDING RUNNING SUSPENDED COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE OUT_OF_MEMORY
               COMPLETING CONFIGURING RESIZING REVOKED SPECIAL_EXIT STOPPED REQUEUED REQUEUE_HOLD REQUEUE_FED SIGNALING STAGE_OUT
               RESV_DEL_HOLD"""  # fmt: skip
    assert not set(known.split()) - set(PHASES)


def test_a_state_that_is_new_is_shown_as_it_is() -> None:
    assert build_observation("7", NAME, seen(queued("LEVITATING"), EMPTY)).raw == "LEVITATING on n1"


def test_the_words_of_a_cancel_keep_who_did_it() -> None:
    assert (
        "CANCELLED by 1001"
        in build_observation("7", NAME, seen(EMPTY, accounted(row("7", "CANCELLED by 1001")))).raw
    )


def test_times_are_slurms_own() -> None:
    found = build_observation("7", NAME, seen(EMPTY, accounted(row("7", "COMPLETED"))))
    assert (str(found.started_at), str(found.ended_at)) == (
        "2026-11-21 08:00:00+00:00",
        "2026-11-21 09:00:00+00:00",
    )


def test_a_job_that_never_had_a_node_has_no_start() -> None:
    canceled = accounted(row("7", "CANCELLED by 1001", nodes="None assigned"))
    assert build_observation("7", NAME, seen(EMPTY, canceled)).started_at is None


def test_an_expected_start_is_told_with_the_reason() -> None:
    found = build_observation("7", NAME, seen(queued("PENDING", "Priority", ""), EMPTY))
    assert found.reason == "Priority; expected to start 2026-11-21 08:00 UTC"
    assert (
        build_observation(
            "7", NAME, seen(queued("PENDING", "Priority", "", start="N/A"), EMPTY)
        ).reason
        == "Priority"
    )


def test_preempted_is_a_failure_only_for_a_job_that_goes_on_in_another() -> None:
    look = seen(EMPTY, accounted(row("7", "PREEMPTED")))
    assert build_observation("7", NAME, look, resumes=True).phase is Phase.FAILED
    assert build_observation("7", NAME, look).phase is Phase.CANCELED


def test_jobs_of_one_look_are_told_apart() -> None:
    text = "".join(f"{n}|RUNNING|None|{START}|N/A|n1|job.{n}\n" for n in range(1, 1001))
    one = seen((0, text, ""), EMPTY)
    assert all(
        build_observation(str(n), f"job.{n}", one).phase is Phase.RUNNING for n in range(1, 1001)
    )
    assert parse.squeue_command(["1", "2"]).endswith("--jobs=1,2")


# What the attempt itself has left


def ended(phase: Phase, code: int | None = None) -> Observation:
    return Observation(phase, "raw", code, "exit code 1" if code else "")


def test_the_trainings_own_status_has_the_last_word_on_success() -> None:
    said = '{"status": "RUNNING"}\n{"date": "1", "status": "FAILURE", "message": "no disk"}\n'
    left = read_record('{"attempt":1,"exit_code":0,"time_limit":false}', said, "", 1)
    found = with_record(ended(Phase.SUCCEEDED, 0), left)
    assert found.phase is Phase.FAILED
    assert "no disk" in found.reason
    fine = read_record("", '{"status": "SUCCESS"}\n', "", 1)
    assert with_record(ended(Phase.SUCCEEDED, 0), fine).phase is Phase.SUCCEEDED
    assert with_record(ended(Phase.FAILED, 1), fine).phase is Phase.FAILED


def test_our_own_time_limit_is_told_from_an_exit_code_124_of_the_program() -> None:
    ours = read_record('{"attempt":1,"exit_code":124,"time_limit":true}', "", "", 1)
    theirs = read_record('{"attempt":1,"exit_code":124,"time_limit":false}', "", "", 1)
    assert "time limit" in with_record(ended(Phase.FAILED, 124), ours).reason
    assert "time limit" not in with_record(ended(Phase.FAILED, 124), theirs).reason


def test_a_job_that_nobody_remembers_is_told_by_its_own_record_of_the_same_attempt() -> None:
    text = '{"attempt":2,"exit_code":3,"time_limit":false}'
    assert with_record(ended(Phase.ABSENT), read_record(text, "", "", 2)).exit_code == 3
    assert with_record(ended(Phase.ABSENT), read_record(text, "", "", 1)).phase is Phase.ABSENT
    whole = '{"attempt": 1, "whole": true, "exit_code": 0}'
    assert with_record(ended(Phase.ABSENT), read_record("", "", whole, 1)).phase is Phase.SUCCEEDED
    assert (
        with_record(
            ended(Phase.ABSENT), read_record("", "", whole.replace("true", "false"), 1)
        ).phase
        is Phase.ABSENT
    )


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"attempt":"x"}', '{"attempt":1,"exit_code":"3"}', "\x00"]
)
def test_a_record_that_was_cut_short_says_nothing(text: str) -> None:
    assert read_record(text, text, text, 1).exit_code is None
    assert with_record(ended(Phase.ABSENT), Record()).phase is Phase.ABSENT


def test_bytes_that_are_no_text_take_nothing_away_from_what_follows_them() -> None:
    said = b"=== words 0 14 4\n\xe9\xe9\xe9\xe9 last line\nerr\n=== ranks 0 3 0\nend\n\n"
    assert look.read_sections(said)["words"] == (0, "\ufffd" * 4 + " last line", "err")
    assert look.read_sections(said)["ranks"] == (0, "end", "")


def test_what_the_commands_said_is_taken_apart_whatever_they_said() -> None:
    text = (
        b"=== squeue 0 11 0\n=== a 0 1 0"
        + b"\n=== sacct 1 0 36\nSlurm accounting storage is disabled\n"
    )
    assert look.read_sections(text)["squeue"] == (0, "=== a 0 1 0", "")
    assert look.read_sections(text)["sacct"] == (1, "", "Slurm accounting storage is disabled")
    assert look.read_sections(b"")["squeue"][0] == 1


@pytest.mark.parametrize("silent", [HUNG, (124, "", "")])
def test_of_a_slurm_that_does_not_answer_no_evidence_is_had_by_which_a_job_would_be_given_up(
    silent: tuple[int, str, str],
) -> None:
    ref = Ref(
        "slurm",
        "login1",
        "/base",
        "7",
        NAME,
        Attempt("digits-0123456789", 1, "slurm", "login1", "store"),
    )
    nothing = dict.fromkeys(("queue", "idle", "words", "ranks", "image"), (0, "", ""))
    heard = {**nothing, "squeue": silent, "sacct": accounted(row("7", "NODE_FAIL", "1:0"))}
    with pytest.raises(Unreachable, match="did not answer"):
        look.build_evidence(ref, heard, look.Remains(Record()))
    answered = {**heard, "squeue": NO_JOB}
    assert look.build_evidence(ref, answered, look.Remains(Record())).reason == "node failed"


def test_the_cpu_time_of_a_running_job_is_that_of_all_tasks_of_its_steps() -> None:
    told = "cpu 1|00:00:02\ncpu 4|1-00:00:05.250\ncpu 1|\ncpu |00:00:09\nsilent 90\n"
    known = activity.read_activity(told, "ssh -t n1")
    assert (known.cpu_seconds, known.cpu_cores, known.enter) == (345622, None, "ssh -t n1")
    assert known.log_changed_at is not None
    nothing = activity.read_activity("sstat: error\nsilent 99999999999999\ncpu \u00b2|0\n", "")
    assert (nothing.cpu_seconds, nothing.log_changed_at) == (None, None)


def test_the_command_that_looks_into_a_job_takes_the_way_of_the_login() -> None:
    login = Login(("login1:2222",), "me", "/keys/a b")
    assert activity.enter_command(login, "login1:2222", "17") == (
        "ssh -t -l me -p 2222 -i '/keys/a b' login1 "
        "'srun --jobid=17 --overlap --nodes=1 --ntasks=1 --pty bash'"
    )


TRACEBACK = """[INFO] Authenticating with user: <anonymous>
Traceback (most recent call last):
  File "/usr/bin/enroot", line 70, in fetch
    names = Path("registries").read_text()
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
FileNotFoundError: [Errno 2] No such file or directory: '/usr/bin/registries'
tao: ubuntu:latest could not be converted
"""
ANONYMOUS = "[INFO] Authenticating with user: <anonymous>\n"
CONVERSIONS = [
    (TRACEBACK, "slurm.conversion_failed", "FileNotFoundError: [Errno 2]", ErrClass.INFRA),
    (
        f"{ANONYMOUS}mksquashfs: No space left on device\n",
        "slurm.conversion_failed",
        "mksquashfs: No space left",
        ErrClass.INFRA,
    ),
    ("", "slurm.conversion_failed", "the conversion of the image", ErrClass.INFRA),
    (
        f"{ANONYMOUS}[ERROR] URL https://x.io/v2/a returned error code: 404 Not Found\n",
        "slurm.image_not_found",
        "[ERROR] URL https://x.io/v2/a returned",
        ErrClass.USER,
    ),
    (
        f"{ANONYMOUS}[ERROR] Could not process JSON input\n",
        "slurm.registry_login",
        "[ERROR] Could not process",
        ErrClass.USER,
    ),
]


@pytest.mark.parametrize(("log", "rule", "line", "fault"), CONVERSIONS)
def test_a_conversion_that_failed_is_told_with_the_end_of_its_log_and_whose_fault_it_is(
    log: str, rule: str, line: str, fault: ErrClass
) -> None:
    attempt = Attempt("digits-0123456789", 1, "slurm", "login1", "store")
    ref = Ref("slurm", "login1", "/base", "7", NAME, attempt)
    heard = {
        **dict.fromkeys(("queue", "idle", "words", "ranks"), (0, "", "")),
        "image": (0, log, ""),
        "squeue": queued("CANCELLED", "DependencyNeverSatisfied", ""),
        "sacct": accounted(row("7", "CANCELLED", nodes="None assigned")),
    }
    found = rules.diagnose_job(look.build_evidence(ref, heard, look.Remains(Record())))
    assert found is not None
    assert (found.rule, found.err_class, found.retryable) == (rule, fault, False)
    assert f": {line}" in found.what
    assert "/base/jobs/digits-0123456789/attempts/1/image.log" in found.why
    assert "^" not in found.why
    if log is TRACEBACK:
        assert 'File "/usr/bin/enroot", line 70, in fetch' in found.why


@pytest.mark.parametrize(
    ("started", "wants"),
    [("14\n", "out\nthe last run\n"), ("", "out\nthe first run\nthe last run\n")],
)
def test_of_a_job_that_slurm_started_again_the_words_of_the_last_run_count(
    started: str, wants: str, tmp_path: Path
) -> None:
    (tmp_path / "slurm.out").write_text("out\n")
    (tmp_path / "slurm.err").write_text("the first run\nthe last run\n")
    (tmp_path / "started").write_text(started)
    functions = load_script("evidence").partition("capture squeue")[0]
    asked = f"attempt={tmp_path} logs={tmp_path}\n{functions}\nlast_words"
    assert (
        subprocess.run(["sh", "-c", asked], capture_output=True, text=True, check=True).stdout
        == wants
    )


# What the handover answers


@pytest.mark.parametrize(
    ("text", "word", "rest"),
    [("ID 17\n", "ID", "17"), ("noise\nREFUSED error: a\nerror: b\n", "REFUSED", "error: a\nerror: b"),
     ("NONE\n", "NONE", ""), ("", "", ""), ("tar: broken\n", "", "tar: broken")],
)  # fmt: skip
def test_a_reply_is_its_last_word_with_what_follows(text: str, word: str, rest: str) -> None:
    reply = handover.read_reply(text)
    assert (reply.word, reply.text) == (word, rest)


def test_paths_that_are_missing_are_told_by_their_numbers() -> None:
    assert handover.read_reply("MISSING 0\nMISSING 3\n").missing == (0, 3)


# Reasons and rules


@pytest.mark.parametrize(
    "reason", [*rules.REASONS, "QOSMaxGRESPerUser", "AssocGrpCpuLimit", "QOSMaxJobsPerUserLimit"]
)
def test_every_reason_for_waiting_is_put_in_words_with_what_would_start_it_sooner(
    reason: str,
) -> None:
    meaning, sooner, _ = rules.explain_reason(reason)
    assert meaning != reason
    assert sooner.endswith(".")


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("AssocGrpCPURunMinutesLimit", "your account limits the CPUs of all jobs together"),
        ("AssocGrpCPUMinutesLimit", "your account limits the CPUs of all jobs together"),
        ("QOSMaxWallDurationPerJobLimit", "the qos limits the wall time of one job; it will never"),
    ],
)
def test_a_limit_names_what_it_limits_in_plain_words(reason: str, told: str) -> None:
    """Also where SLURM counts minutes, in one of its several spellings."""
    assert rules.explain_reason(reason).what.startswith(told)


def test_a_job_that_slurm_holds_since_a_node_could_not_start_it_is_told_to_be_let_go() -> None:
    """As squeue has it; nobody else does that."""
    _, sooner, _ = rules.explain_reason("launch failed requeued held")
    assert "scontrol release" in sooner


def test_nodes_that_are_down_are_told_although_slurm_tells_it_in_a_sentence() -> None:
    """As squeue has it where every node of the partition is drained."""
    said = (
        "Nodes required for job are DOWN, DRAINED or reserved for jobs "
        "in higher priority partitions"
    )
    meaning, sooner, _ = rules.explain_reason(said)
    assert "nodes that it needs are down" in meaning
    assert "--partition" in sooner


def test_waiting_says_why_until_when_and_what_would_start_it_sooner() -> None:
    events = (NodeEvent("Idle", "Idle nodes: 4 in grizzly"),)
    start = datetime(2026, 11, 21, 14, 20, tzinfo=timezone.utc)
    evidence = Evidence(
        "pending",
        "PENDING",
        events=events,
        backend_words="Priority",
        expected_start=start,
    )
    found = rules.diagnose_job(evidence)
    assert found is not None
    assert found.cause.startswith("Priority: SLURM starts jobs of higher priority first")
    assert "Expected to start 2026-11-21 14:20 UTC." in found.cause
    assert "4 in grizzly" in found.cause


NOT_PERMITTED = [
    "Job's account not permitted to use this partition (polar4 allows a,b not c)",
    "Job's account not permitted to use this partition (polar4 denies c,d including c)",
    "Job's account not known, so it can't use this partition (polar4 allows a)",
    "Job's QOS not permitted to use this partition (polar4 allows short not normal)",
]


@pytest.mark.parametrize(
    "reason",
    [
        "PartitionTimeLimit",
        "DependencyNeverSatisfied",
        "QOSMaxWallDurationPerJobLimit",
        *NOT_PERMITTED,
    ],
)
def test_what_will_never_start_is_said_to(reason: str) -> None:
    found = rules.diagnose_job(Evidence("pending", "PENDING", backend_words=reason))
    assert found is not None
    assert found.rule == "slurm.never_starts"
    assert reason in found.cause
    assert "ancel" in found.suggestion


PROGRAM_FAILURES = [
    "RuntimeError: CUDA error: out of memory",
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
    "RuntimeError: CUDA error: device-side assert triggered",
    "n1:12:12 [0] NCCL INFO NET/IB : No device found, error ignored",
    "GPU temperature 71 C", "ValueError: bad",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
]  # fmt: skip
NODE_FAILURES = [
    "RuntimeError: No CUDA GPUs are available", "cuInit(0) failed",
    "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
    "Unable to determine the device handle for GPU 0000:3B:00.0",
    "n2:77:99 [3] NCCL WARN NET/IB : Got completion error 12, transport retry counter exceeded",
    (
        "torch.distributed.DistBackendError: NCCL error ... ncclRemoteError: A call failed "
        "possibly due to a network error"
    ),
    "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)",
]  # fmt: skip


def failed(
    log: str = "", reason: Reason = Reason.EXIT_CODE, raw: str = "FAILED on n1", *events: NodeEvent
) -> Evidence:
    return Evidence("failed", raw, 1, f"({reason})", events, log_tail=log, reason_code=reason)


@pytest.mark.parametrize("line", PROGRAM_FAILURES)
def test_a_failure_of_the_program_is_not_tried_again(line: str) -> None:
    found = rules.diagnose_job(failed(f"epoch 1\n{line}\n"))
    assert found is None or not found.retryable


@pytest.mark.parametrize("line", NODE_FAILURES)
def test_a_failure_of_a_node_or_link_is_tried_again(line: str) -> None:
    found = rules.diagnose_job(failed(f"epoch 1\n{line}\n"))
    assert found is not None
    assert found.retryable


def test_a_program_that_ran_out_of_gpu_memory_and_then_lost_its_peers_is_not_tried_again() -> None:
    found = rules.diagnose_job(
        failed("CUDA out of memory\nncclRemoteError: remote process exited\n")
    )
    assert found is None or not found.retryable


def test_a_failure_without_any_log_is_not_tried_again() -> None:
    found = rules.diagnose_job(failed())
    assert found is None or not found.retryable


def said(words: str) -> Evidence:
    return failed("", Reason.EXIT_CODE, "FAILED on n1", NodeEvent("Slurm", words))


ENDS = {
    "slurm.node_failed": failed("", Reason.NODE_FAILED, "NODE_FAIL on n1"),
    "slurm.node_failed in srun's words": said("srun: error: Node failure on n3"),
    "slurm.not_started": failed("", Reason.SCRIPT_NOT_STARTED, "FAILED on n1"),
    "slurm.boot_failed": failed("", Reason.BOOT_FAILED, "BOOT_FAIL on n1"),
    "slurm.oom": failed("", Reason.OUT_OF_MEMORY, "OUT_OF_MEMORY on n1"),
    "slurm.oom without cgroups": said("slurmstepd: error: Step 7.0 exceeded memory limit (921600 > 65536)"),
    "slurm.time_limit": failed("", Reason.TIME_LIMIT, "TIMEOUT on n1"),
    "slurm.time_limit_resumes": failed("", Reason.TIME_LIMIT, "TIMEOUT on n1",
         NodeEvent(rules.RESUMES, "")),
    "slurm.preempted_resumes": failed("", Reason.PREEMPTED, "PREEMPTED",
         NodeEvent(rules.RESUMES, "")),
    "slurm.preempted": failed("", Reason.PREEMPTED, "PREEMPTED"),
    "slurm.no_such_folder": failed("", Reason.NOT_LAUNCHED, "FAILED"),
    "slurm.no_pyxis": said("srun: unrecognized option '--container-image=x'"),
    "slurm.image_not_found": said("slurmstepd: error: pyxis: failed to import docker image: x"),
    "slurm.mount_missing": said("error: --container-mounts: source path does not exist: /nope"),
    "slurm.registry_login": said("[ERROR] Could not process JSON input"),
    "slurm.launch_failed": said(
        "srun: error: Task launch for StepId=1.0 failed on node n4: "
        "Communication connection failure"),
    "slurm.controller_away": said("srun: error: Unable to confirm allocation for job 7: Unable to contact slurm controller"),
    "slurm.script_killed": failed("", Reason.SCRIPT_KILLED),
    "slurm.srun_failed": said("srun: error: Unable to create step for job 7: Memory required by task is not available"),
    "slurm.srun_failed and lost its connection": said("srun: error: step_launch_notify_io_failure: aborting, io error with slurmstepd on node 1"),
    "slurm.container_failed": said("slurmstepd: error: pyxis: container start failed with error code: 1"),
    "slurm.container_failed and says why": said("slurmstepd: error: pyxis:     enroot-mount: failed to mount: /data at /data: No such file"),
    "slurm.container_failed by apptainer": said("FATAL:   could not open image /lustre/x.sif: failed to retrieve path"),
    "slurm.controller_away from its step": said("srun: error: Unable to create step for job 7: Unable to contact slurm controller (connect failure)"),
    "slurm.no_program": said("slurmstepd: error: execve(): python3: No such file or directory"),
}  # fmt: skip


@pytest.mark.parametrize("rule", ENDS)
def test_every_end_has_its_rule_and_only_the_clusters_own_failures_are_tried_again(
    rule: str,
) -> None:
    found = rules.diagnose_job(ENDS[rule])
    assert found is not None
    assert found.rule == rule.partition(" ")[0]
    assert found.retryable is (
        rule.startswith("slurm.node_failed")
        or rule.endswith(
            (
                "boot_failed",
                "not_started",
                "launch_failed",
                "controller_away",
                "controller_away from its step",
                "script_killed",
                "resumes",
            )
        )
    )


def told_by_slurm(*lines: str) -> Evidence:
    events = [NodeEvent("Slurm", line) for line in lines]
    return failed("", Reason.EXIT_CODE, "FAILED on n1", *events)


def test_a_failure_of_srun_is_told_with_its_line() -> None:
    line = "srun: error: Unable to create step for job 7: Invalid generic resource specification"
    found = rules.diagnose_job(told_by_slurm("srun: launching", line))
    assert found is not None
    assert line in found.cause
    assert found.err_class is ErrClass.INFRA


def test_a_program_that_failed_is_not_excused_by_what_srun_said_besides() -> None:
    ended = "srun: error: n1: task 0: Exited with exit code 1"
    late = "srun: error: Timed out waiting for job step to complete"
    assert rules.diagnose_job(told_by_slurm(ended, late)) is None
    assert rules.diagnose_job(told_by_slurm("srun: error: n[1-2]: tasks 0-1: Killed", late)) is None


def test_a_container_that_did_not_start_is_told_with_the_line_that_says_why() -> None:
    why = "slurmstepd: error: pyxis:     [ERROR] No such file or directory: /dev/nvidia0"
    found = rules.diagnose_job(
        told_by_slurm(
            "slurmstepd: error: pyxis: container start failed with error code: 1",
            "slurmstepd: error: pyxis: printing enroot log file:",
            why,
            "srun: error: n1: task 0: Exited with exit code 1",
        )
    )
    assert found is not None
    assert found.rule == "slurm.container_failed"
    assert why in found.cause


REFUSALS = [
    "sbatch: error: invalid partition specified: polar4",
    (
        "sbatch: error: Batch job submission failed: Invalid account or account/partition "
        "combination specified"
    ),
    "sbatch: error: Batch job submission failed: Invalid qos specification",
    "sbatch: error: Batch job submission failed: Requested node configuration is not available",
    (
        "sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or "
        "exceeds some limit)"
    ),
    "sbatch: error: Batch job submission failed: Node count specification invalid",
    "sbatch: error: Batch job submission failed: Invalid node name specified",
]


@pytest.mark.parametrize("words", REFUSALS)
def test_slurms_refusal_is_shown_in_its_own_words_with_the_remedy(words: str) -> None:
    refused = rules.refusal_error(words)
    assert refused.what == words
    assert refused.next != rules.refusal_error("something else").next


def test_the_machines_of_a_cluster_are_those_that_its_login_node_knows() -> None:
    text = "arch aarch64\ngres (null)\ngres gpu:a100:4(S:0),shard:2\nfree 1000\n"
    seen = parse.read_machines(text)
    assert ([gpu.name for gpu in seen.gpus], seen.archs) == (["a100"] * 4, ("arm64",))
    assert (seen.free, seen.gpus_unseen) == (1_024_000, "")
    assert parse.read_machines("unseen gres\nfree -\n").gpus_unseen
