"""`tao retry`: what it prints, and what it refuses."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.tao_command import Ended, Tao
from tao_sdk.model.clock import from_iso

FAILS_ONCE = "echo attempt $TAO_ATTEMPT; [ $TAO_ATTEMPT = 2 ]"


def test_a_failed_job_is_tried_again_and_watched_to_its_end(tao: Tao) -> None:
    job = tao.run_detached(FAILS_ONCE, "--name", "stumbles")
    assert tao("wait", job).code == 1
    ran = tao("retry", "stumbles", "--json")
    assert ran.code == 0, ran.err
    last = ran.json_lines[-1]
    assert (last["id"], last["status"], last["attempt"]) == (job, "Complete", 2)
    told = [line["status"] for line in ran.json_lines[:-1] if line["status"]]
    assert "Error" not in told  # that was the end of attempt 1
    assert tao("logs", job).out == "attempt 1\nattempt 2\n"


def test_how_long_a_job_took_is_told_of_its_newest_attempt(tao: Tao) -> None:
    job = tao.run_detached("[ $TAO_ATTEMPT = 2 ] || { sleep 4; exit 3; }")
    assert tao("wait", job).code == 1
    retried = tao("retry", job)
    assert retried.code == 0
    told = tao("status", job, "--json").json
    attempt_started = from_iso(told["backend_details"]["attempt_started"])
    first_started, ended = from_iso(told["started"]), from_iso(told["ended"])
    assert first_started and attempt_started and ended
    assert attempt_started - first_started >= timedelta(seconds=4)
    seconds = int((ended - attempt_started).total_seconds())
    assert f"Complete after 0:{seconds:02d}" in tao("why", job).out
    assert f"Complete in 0:{seconds:02d}" in retried.out
    assert "attempt began" in tao("status", job).out


def test_a_live_job_is_refused_with_the_command_that_ends_it(tao: Tao) -> None:
    tao.write("a.py", "")
    job = tao.run_detached("sleep 60", "--files", "a.py")
    ran = tao("retry", job)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")  # and nothing of what the next attempt would run
    assert f"End it first: tao cancel {job}" in ran.err


def test_anew_makes_a_new_job_of_the_same(tao: Tao) -> None:
    job = tao.run_detached("echo $TAO_ATTEMPT; exit 3", "--name", "same")
    assert tao("wait", job).code == 1
    ran = tao("retry", job, "--anew", "--detach", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["id"] != job
    assert (ran.json["name"], ran.json["attempt"]) == ("same", 1)
    assert tao("wait", ran.json["id"]).code == 1
    assert tao("status", job, "--json").json["attempt"] == 1


@pytest.mark.parametrize("flags", [[], ["--anew"]])
def test_a_job_with_files_says_that_it_runs_those_that_were_sent(
    tao: Tao, flags: list[str]
) -> None:
    script = tao.home / "train.py"
    script.write_text("raise SystemExit(3)")
    job = tao.run_detached("python3 train.py", "--files", f"train.py={script}")
    assert tao("wait", job).code == 1
    script.write_text("print('mended')")
    ran = tao("retry", job, *flags)
    assert ran.code == 1
    assert "It runs train.py as sent at first. To send what is here now: tao run" in ran.err
    assert "as sent at first" not in tao("retry", job, "--json").err


BEGINS_ANEW = "It begins anew, in the same results folder"


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ((), "A job without specs or args has no resume key."),
        (("--args", "lr=0.1"), "No resume_key is set"),
        (("--args", "lr=0.1", "--args", "ckpt=null", "--resume-key", "ckpt"), ""),
    ],
)
def test_a_retry_says_when_it_goes_on_from_no_checkpoint(
    tao: Tao, flags: tuple[str, ...], why: str
) -> None:
    job = tao.run_detached("false", *flags)
    assert tao("wait", job).code == 1
    ran = tao("retry", job, "--detach")
    assert ran.code == 0, ran.err
    assert (BEGINS_ANEW in ran.err) is bool(why)
    assert why in ran.err
    assert tao("wait", job).code == 1
    assert BEGINS_ANEW not in tao("retry", job, "--anew", "--detach").err


def test_a_retry_says_that_an_input_is_read_again(tao: Tao) -> None:
    data = tao.home / "data.txt"
    data.write_text("1")
    job = tao.run_detached("exit 3", "--inputs", f"in/data.txt={data}")
    assert tao("wait", job).code == 1
    ran = tao("retry", job)
    assert ran.code == 1
    assert "It reads in/data.txt again, as it is now." in ran.err
    without = tao.run_detached("exit 3")
    assert tao("wait", without).code == 1
    assert "again, as it is now" not in tao("retry", without).err


def test_a_job_with_files_is_run_anew_beside_a_file_of_its_inputs_name(tao: Tao) -> None:
    source = tao.home / "source"
    source.write_text("the input")
    (tao.home / "show.sh").write_text("cat in.txt; exit 3")
    given = ["--files", f"show.sh={tao.home / 'show.sh'}", "--inputs", f"in.txt={source}"]
    job = tao.run_detached("sh show.sh", *given)
    assert tao("wait", job).code == 1
    (tao.home / "in.txt").write_text("mine")
    ran = tao("retry", job, "--anew")
    assert (ran.code, "the input" in ran.out) == (1, True), ran.err
    assert (tao.home / "in.txt").read_text() == "mine"


@pytest.mark.parametrize("named", ["none-such", ""])
def test_what_is_no_job_is_not_found(ended: Ended, named: str) -> None:
    assert ended.tao("retry", named).code == 3


def test_the_screen_of_a_retry_shows_its_own_attempt_alone(tao: Tao) -> None:
    epochs = "for i in 1 2; do echo epoch $i/3 loss 0.${TAO_ATTEMPT}00; done"
    command = f"{epochs}; test $TAO_ATTEMPT = 2 && echo epoch 3/3 loss 0.200"
    job = tao("run", "--json", "--gpus", "0", "--", command).json_lines[-1]["id"]
    for told in (tao("retry", job), tao("attach", job)):
        lines = told.out.splitlines()
        assert lines[0].endswith("attempt 2")
        assert [line for line in lines if line.startswith("epoch")] == [
            "epoch 1/3  loss 0.200",
            "epoch 2/3  loss 0.200",
            "epoch 3/3  loss 0.200",
        ]
    log = tao("logs", job)
    assert "what is new" not in tao("attach", job).err
    assert log.out.count("epoch 1/3") == 2
    assert "the logs of 2 attempts" in log.err
