"""`tao logs`, `wait`, `cancel`, `watch`, `rm`, `gc`: until jobs have ended, and after."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from support.tao_command import Ended, Tao
from tao_sdk.cli.output import Output
from tao_sdk.cli.results_text import missing_results
from tao_sdk.cli.wait import tell_failed_hooks
from tao_sdk.client.results import Results
from tao_sdk.model.progress import Progress


def test_logs_are_the_jobs_bytes_and_tail_is_their_end(tao: Tao) -> None:
    job = tao.run_detached("printf 'one\\ntwo\\r\\n\\377\\tthree'")
    tao("wait", job)
    assert tao.bytes("logs", job) == b"one\ntwo\r\n\xff\tthree"
    assert tao.bytes("logs", job, "--tail", "1") == b"\xff\tthree"


def test_our_own_lines_are_left_out_of_a_log_unless_asked_for(tao: Tao) -> None:
    tao.write("a.txt", "a")
    job = tao.run_detached("cat a.txt", "--files", "a.txt")
    tao("wait", job)
    assert tao("logs", job).out == "a"
    assert '@tao {"event": "stage"' in tao("logs", job, "--events").out


def test_with_json_a_log_comes_in_objects(tao: Tao) -> None:
    job = tao.run_detached("echo héllo; echo over")
    tao("wait", job)
    lines = tao("logs", "--json", job).json_lines
    assert {line["job"] for line in lines} == {job}
    assert "".join(line["text"] for line in lines) == "héllo\nover\n"


def test_following_a_log_shows_what_is_to_come_and_ends_with_the_job(tao: Tao) -> None:
    job = tao.run_detached("for i in 1 2 3; do echo $i; sleep 0.3; done")
    assert tao("logs", "-f", job).out == "1\n2\n3\n"


def test_ctrl_c_in_a_followed_log_leaves_the_job_alone(tao: Tao) -> None:
    job = tao.run_detached("echo first; sleep 30")
    following = tao.start("logs", "-f", job)
    assert following.stdout is not None
    assert following.stdout.readline() == "first\n"
    following.send_signal(signal.SIGINT)
    _, err = following.communicate(timeout=300)
    assert following.returncode == 130
    assert f"tao logs -f {job}" in err
    assert tao("status", "--json", job).json["status"] == "Running"


def take_elsewhere(tao: Tao, job: str) -> None:
    with sqlite3.connect(tao.home / "state" / "jobs.db") as db:
        db.execute("UPDATE attempts SET endpoint = 'elsewhere' WHERE job_id = ?", (job,))


def test_following_a_log_that_cannot_be_had_now_says_so_while_it_waits(tao: Tao) -> None:
    job = tao.run_detached("true")
    tao("wait", job)
    take_elsewhere(tao, job)
    following = tao.start("logs", "-f", job)
    assert following.stderr is not None
    assert following.stderr.readline().startswith(
        f"warning: {job} cannot be seen now, its log goes on once it can: "
    )
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=300)
    assert following.returncode == 130


def test_waiting_for_several_ends_with_the_worst(ended: Ended) -> None:
    assert ended.tao("wait", ended.complete).code == 0
    assert ended.tao("wait", ended.complete, ended.canceled).code == 6
    assert ended.tao("wait", ended.canceled, ended.failed, ended.complete).code == 1


def test_waiting_tells_each_end_once_when_it_comes(tao: Tao) -> None:
    first, last = (
        tao.run_detached("true"),
        tao.run_detached(f"until [ -e {tao.home}/go ]; do sleep 0.1; done"),
    )
    assert tao("wait", first).out.count(first) == 1
    waiting = tao.start("wait", last, first)
    assert waiting.stdout is not None
    told = [waiting.stdout.readline()]
    (tao.home / "go").touch()
    rest, err = waiting.communicate(timeout=300)
    told += rest.splitlines()
    assert [line.split()[:2] for line in told] == [[first, "Complete"], [last, "Complete"]]
    assert "Complete" not in err


def test_waiting_with_jsonl_prints_each_job_when_it_ends(tao: Tao) -> None:
    last, first = tao.run_detached("sleep 60"), tao.run_detached("sleep 0.5")
    waiting = tao.start("wait", "--jsonl", last, first)
    assert waiting.stdout is not None
    job = json.loads(waiting.stdout.readline())
    assert (job["id"], job["status"]) == (first, "Complete")
    assert tao("status", last, "--json").json["status"] == "Running"
    tao("cancel", last, "--grace", "0.1s")
    rest, err = waiting.communicate(timeout=300)
    assert [json.loads(line)["id"] for line in rest.splitlines()] == [last], err
    assert tao("wait", "--jsonl", last, first, last).json_lines == [json.loads(rest), job]


def test_waiting_is_given_up_with_5_and_the_job_goes_on(tao: Tao) -> None:
    job = tao.run_detached("sleep 30")
    ran = tao("wait", job, "--timeout", "0.5s", "--json")
    assert (ran.code, ran.error["code"]) == (5, "wait.timeout")
    assert tao("status", "--json", job).json["status"] == "Running"
    assert tao("wait", job, "--timeout", "soon").code == 2


def test_canceling_ends_a_job_and_its_log_stays(tao: Tao) -> None:
    job = tao.run_detached("echo started; sleep 60")
    while "started" not in tao("logs", job).out:
        time.sleep(0.1)
    ran = tao("cancel", job, "--grace", "2s")
    assert ran.code == 0
    assert "Canceled" in ran.out
    assert tao("logs", job).out == "started\n"


def test_a_job_that_cannot_be_canceled_keeps_no_other_from_it(tao: Tao) -> None:
    lost, elsewhere, other = (tao.run_detached("sleep 60") for _ in range(3))
    with sqlite3.connect(tao.home / "state" / "jobs.db") as db:
        db.execute(
            "UPDATE attempts SET endpoint = 'elsewhere' WHERE job_id IN (?, ?)", (lost, elsewhere)
        )
    ran = tao("cancel", "--grace", "0.1s", lost, "nobodys", other, elsewhere)
    assert (ran.code, ran.out.split()[:2]) == (4, [other, "Canceled"])
    assert (ran.err.count("lives on elsewhere"), ran.err.count("no such job: 'nobodys'")) == (2, 1)
    with sqlite3.connect(tao.home / "state" / "jobs.db") as db:
        db.execute(
            "UPDATE attempts SET endpoint = (SELECT endpoint FROM attempts WHERE job_id = ?)",
            (other,),
        )
    assert tao("cancel", "--grace", "0.1s", lost, elsewhere).code == 0


def test_canceling_a_job_that_is_over_changes_nothing(ended: Ended) -> None:
    assert ended.tao("cancel", "--json", ended.complete).json["status"] == "Complete"


def test_a_cancel_names_the_results_folder_only_where_it_is_there(ended: Ended) -> None:
    assert "results" not in ended.tao("cancel", ended.canceled).err
    assert "results  " in ended.tao("cancel", ended.complete).err


def test_a_log_without_a_byte_is_said_to_be_empty_on_stderr(ended: Ended, tao: Tao) -> None:
    ran = ended.tao("logs", ended.canceled)
    assert (ran.code, ran.out, ran.err) == (0, "", f"{ended.canceled} has printed nothing.\n")
    assert ended.tao("logs", ended.complete).err == ""
    live = tao.run_detached("sleep 60")
    assert f"{live} has printed nothing yet. Follow it: tao logs -f" in tao("logs", live).err


def test_watch_ends_when_no_job_is_live(tao: Tao) -> None:
    job = tao.run_detached("sleep 1")
    ran = tao("watch", "--json")
    assert (ran.code, ran.json) == (0, {"schema": 1, "live": 0})
    assert tao("status", "--json", job).json["status"] == "Complete"


def test_watch_says_whose_hooks_wait_for_their_next_try(tao: Tao) -> None:
    job = tao.run_detached("true", "--hooks", "on_complete=exit 1")
    told = tao("watch").err
    assert "Hooks have failed" in told
    assert told.splitlines()[-1] == f"  {job}"
    well = tao.run_detached("true", "--hooks", "on_complete=true")
    assert well not in tao("watch").err


def test_watch_with_nothing_to_watch_says_only_that(tao: Tao) -> None:
    tao.run_detached("true")
    tao("watch")
    assert tao("watch").err == "No job is live.\n"


def test_a_service_stops_watching_when_it_is_told_to(tao: Tao) -> None:
    watching = tao.start("watch", "--forever")
    assert watching.stderr is not None
    assert "Watching" in watching.stderr.readline()
    watching.terminate()
    assert "No job is live." in watching.communicate(timeout=300)[1]
    assert watching.returncode == 0


def test_a_watcher_that_is_told_to_stop_says_no_more_than_is_true(tao: Tao) -> None:
    tao.run_detached("sleep 60")
    watching = tao.start("watch")
    assert watching.stderr is not None
    assert "Watching 1 live job." in watching.stderr.readline()
    watching.terminate()
    assert "the jobs go on. Come back: tao watch" in watching.communicate(timeout=300)[1]


STOPPED_WHILE_IT_LOOKS = """
import signal, threading
from functools import partial
from tao_sdk.cli.wait import stop_watching

for _ in range(300):
    stop = threading.Event()
    signal.signal(signal.SIGALRM, partial(stop_watching, stop))
    signal.setitimer(signal.ITIMER_REAL, 0.0005)
    while not stop.wait(0):
        pass
"""


@pytest.mark.slow
def test_a_signal_stops_a_watcher_that_is_about_to_wait() -> None:
    subprocess.run([sys.executable, "-c", STOPPED_WHILE_IT_LOOKS], check=True, timeout=300)


def test_a_live_job_is_not_removed_and_an_ended_one_leaves_its_results(tao: Tao) -> None:
    job = tao.run_detached('echo kept > "$TAO_RESULTS_DIR/kept.txt"; echo written; sleep 60')
    while not tao("logs", job).out:
        time.sleep(0.1)
    ran = tao("rm", job)
    assert (ran.code, f"tao cancel {job}" in ran.err) == (2, True)
    tao("cancel", job, "--grace", "0.1s")
    folder = tao("status", "--json", job).json["results_dir"]
    assert tao("rm", "--json", job).json == {"schema": 1, "removed": [job]}
    assert tao("status", job).code == 3
    assert "kept.txt" in tao("files", folder).out


def test_a_live_job_is_ended_and_removed_when_that_is_forced(tao: Tao) -> None:
    kept = '"$TAO_RESULTS_DIR/kept.txt"'
    job = tao.run_detached(
        f"trap 'echo told > {kept}; exit' TERM; echo begun; while :; do sleep 0.1; done"
    )
    while not tao("logs", job).out:
        time.sleep(0.1)
    folder = tao("status", "--json", job).json["results_dir"]
    ran = tao("rm", "--force", job)
    assert (ran.code, ran.out) == (0, f"{job}  removed\n")
    assert tao("status", job).code == 3
    assert "kept.txt" in tao("files", folder).out


def test_gc_cleans_what_ended_long_enough_ago(tao: Tao) -> None:
    job = tao.run_detached("echo said")
    tao("wait", job)
    assert tao("gc", "--json").json["jobs"] == []
    assert tao("gc", "--json", "--older-than", "0s", "--dry-run").json["jobs"] == [job]
    assert tao("gc", "--json", "--older-than", "0s").json["jobs"] == [job]
    assert tao("logs", job).out == "said\n"
    assert tao("gc", "--json", "--older-than", "0s").json["jobs"] == []
    assert tao("gc").err == "Nothing is left of jobs that ended more than 7d ago.\n"


@pytest.mark.parametrize(
    "verb", [["wait", "--timeout", "60s"], ["logs", "--follow"], ["events", "--follow"]]
)
def test_who_waits_or_follows_carries_a_job_whose_next_attempt_is_due(
    tao: Tao, verb: list[str]
) -> None:
    mark = tao.home / "second"
    job = tao.run_detached(
        f"[ -e {mark} ] || {{ touch {mark}; kill -9 $PPID; sleep 0.1; exit 1; }}", "--retries", "1"
    )
    ended = tao(*verb, job)
    assert ended.code == 0, ended.out + ended.err
    assert tao("status", "--json", job).json["attempt"] == 2


def test_what_is_secret_in_a_webhooks_address_is_shown_nowhere(tao: Tao) -> None:
    address = (
        "on_complete=http://me:hunter-2-hunter@127.0.0.1:9/hook?token=opensesame&room=jobs with "
        "blank"
    )
    job = tao.run_detached("true", "--hooks", address)
    told = [tao("watch"), tao("watch", "--json")]
    looks = [
        ["events", job],
        ["events", "--json", job],
        ["status", "--json", job],
        ["status", job],
        ["why", job],
    ]
    told += [
        tao(*look) for look in [*looks, ["ls", "--json", "--full"], ["results", "--json", job]]
    ]
    events = [
        event for event in tao("events", "--json", job).json if event["kind"].startswith("hook-")
    ]
    assert [event["kind"] for event in events[:2]] == ["hook-due", "hook-failed"]
    assert events[0]["data"]["target"] == "http://***@127.0.0.1:9/hook?token=***&room=***"
    everything = "".join(ran.out + ran.err for ran in told)
    assert job in everything
    assert not [
        secret for secret in ("opensesame", "hunter-2", "with blank") if secret in everything
    ]


def test_a_failing_hook_is_told_in_one_line_by_the_watcher_and_among_the_events(tao: Tao) -> None:
    hook = "printf 'Traceback\\n  File x\\nOSError: no such channel\\n' >&2; exit 3"
    job = tao.run_detached("true", "--hooks", f"on_complete={hook}")
    trouble = "on_complete failed, tried again in 0:05: exit code 3: OSError: no such channel"
    warned = f"warning: the hook on_complete of {job} failed, tried again in 0:05: "
    assert f"{warned}exit code 3: OSError: no such channel\n" in tao("watch").err
    shown = [line for line in tao("events", job).out.splitlines() if "hook-failed" in line]
    assert [line.split("hook-failed")[1].strip() for line in shown] == [trouble]


def test_a_mistaken_address_of_a_webhook_is_told_without_what_is_secret_in_it(tao: Tao) -> None:
    ran = tao(
        "run", "--gpus", "0", "--hooks", "on_error=htps://host/hook?token=opensesame", "--", "true"
    )
    assert ran.code == 2
    assert "htps://host/hook?token=***" in ran.err
    assert "opensesame" not in ran.err


FAILS_TO_SAVE = """
import os, signal, time
def save(*_):
    open(os.environ["TAO_RESULTS_DIR"] + "/model_epoch_002.pth", "w").write("half")
    raise ValueError("no room")
signal.signal(signal.SIGTERM, save)
path = os.environ["TAO_RESULTS_DIR"] + "/model_epoch_001.pth"
open(path, "w").write("1")
os.utime(path, (1e9, 1e9))
print("up", flush=True)
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize(
    ("command", "words"),
    [("exec python3 t.py", "exit code 1, "), ("trap : TERM; python3 t.py & wait; wait; true", "")],
)
def test_how_a_program_failed_while_it_was_ending_is_told_by_cancel_and_why(
    tao: Tao, command: str, words: str
) -> None:
    tao.write("t.py", FAILS_TO_SAVE)
    job = tao.run_detached(command)
    while "up" not in tao("logs", job).out:
        time.sleep(0.05)
    told = [
        f"The program failed while it was ending: {words}ValueError: no room",
        "Last whole checkpoint: ",
    ]
    canceled = tao("cancel", job)
    assert all(line in canceled.err for line in told), canceled.err
    why = tao("why", job).out
    assert all(line in why for line in told), why
    assert why.splitlines()[-1].endswith("model_epoch_001.pth")


def test_of_many_jobs_whose_hooks_failed_the_first_are_named_a_line_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell_failed_hooks(Output(False), [f"job-{number}" for number in range(12)])
    assert capsys.readouterr().err.splitlines()[1:] == [
        *(f"  job-{number}" for number in range(5)),
        "  and 7 more",
    ]


def test_of_many_files_that_were_not_sent_the_first_are_named_a_line_each() -> None:
    manifest = {"unsent": [f"a/{number}.pth" for number in range(12)]}
    left = Results("/r", (), None, None, Progress(), manifest)
    assert missing_results(left) == [
        "not sent a/0.pth",
        *(f"         a/{number}.pth" for number in range(1, 5)),
        "         and 7 more",
    ]


SAVES_FOR_LONG = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: time.sleep(300))
print("up", flush=True)
while True:
    time.sleep(0.1)
"""


def test_a_save_that_the_grace_cut_off_is_told_by_cancel_and_why(tao: Tao) -> None:
    tao.write("t.py", SAVES_FOR_LONG)
    job = tao.run_detached("python3 t.py; echo more")
    while "up" not in tao("logs", job).out:
        time.sleep(0.05)
    canceled = tao("cancel", job, "--grace", "1s")
    assert "killed after its grace of 1s" in canceled.out
    assert "--grace 30s gives it longer" in canceled.err
    assert "--grace 30s gives it longer" in tao("why", job).out.replace("\n     ", "")
    assert tao("why", "--json", job).json["reason_code"] == "grace_over"


def test_a_crash_that_a_pipe_hides_is_a_warning_of_run_wait_and_why(tao: Tao) -> None:
    tao.write("t.py", "raise ValueError('no room')")
    ran = tao("run", "--gpus", "0", "--name", "hidden", "--", "python3 t.py 2>&1 | tee log")
    assert ran.code == 0
    told = "python seems to have failed: ValueError: no room."
    assert f"warning: {told}" in ran.out
    assert told in tao("wait", "hidden").err
    assert told in tao("why", "--json", "hidden").json["notes"][0]
