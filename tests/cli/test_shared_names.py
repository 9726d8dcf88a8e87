"""A name that several jobs have: which of them each verb takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support import sweep
from support.tao_command import Ran, Tao
from tao_sdk import Client
from tao_sdk.model.errors import UsageError
from tao_sdk.model.settings import Settings

Typed = Callable[..., Ran]


def test_cancel_ends_the_only_live_job_of_a_name_and_says_which(tao: Tao) -> None:
    ended = tao.run_detached("true", "--name", "twin")
    live = tao.run_detached("sleep 60", "--name", "twin")
    tao("wait", ended)
    ran = tao("cancel", "twin", "--grace", "1s")
    assert ran.code == 0, ran.err
    assert ran.out.startswith(f"{live}  Canceled")
    assert f"{live}: of 2 jobs named twin, the only live one." in ran.err
    assert tao("status", "--json", ended).json["status"] == "Complete"


def test_wait_refuses_a_name_that_several_live_jobs_have_and_takes_the_only_live_one(
    tao: Tao,
) -> None:
    live = [tao.run_detached("sleep 60", "--name", "twin") for _ in range(2)]
    ran = tao("wait", "twin")
    assert ran.code == 2
    assert ran.err.splitlines()[-2:] == [
        "error: 2 live jobs are named 'twin'.",
        f"next:  To wait for all of them: tao wait {live[1]} {live[0]}",
    ]
    tao("cancel", live[1], "--grace", "1s")
    ran = tao("wait", "twin", "--timeout", "0s")
    assert (ran.code, f"{live[0]}: of 2 jobs named twin, the only live one." in ran.err) == (
        5,
        True,
    )
    tao("cancel", live[0], "--grace", "1s")


def test_a_live_job_is_taken_before_a_newer_one_that_ended(tao: Tao) -> None:
    live = tao.run_detached("sleep 60", "--name", "twin")
    tao("wait", tao.run_detached("true", "--name", "twin"))
    assert tao("cancel", "--json", "twin", "--grace", "1s").json["id"] == live


def test_cancel_lists_the_live_jobs_of_a_name_that_several_have(tao: Tao) -> None:
    tao("wait", ended := tao.run_detached("true", "--name", "twin"))
    live = [tao.run_detached("sleep 60", "--name", "twin") for _ in range(2)]
    other = tao.run_detached("sleep 60", "--name", "other")
    ran = tao("cancel", "twin", "other", "--grace", "1s")
    assert ran.code == 2
    assert ran.err.splitlines()[-3:] == [
        "error: 2 live jobs are named 'twin'.",
        f"why:   They are {live[1]}, {live[0]}.",
        f"next:  All of them: tao cancel {live[1]} {live[0]}. "
        f"The newest of them: tao cancel {live[1]}",
    ]
    assert ended not in ran.err
    statuses = [tao("status", "--json", job).json["status"] for job in (*live, other)]
    assert statuses == ["Running", "Running", "Canceled"]


def test_canceling_a_name_again_changes_nothing_and_is_no_error(tao: Tao) -> None:
    tao("wait", tao.run_detached("true", "--name", "twin"))
    newest = tao.run_detached("sleep 60", "--name", "twin")
    first, again = (tao("cancel", "twin", "--grace", "1s") for _ in range(2))
    for ran in (first, again):
        assert (ran.code, ran.out.split()[:2]) == (0, [newest, "Canceled"])
    assert f"{newest}: of 2 jobs named twin, none is live; this is the newest." in again.err


def test_retry_takes_the_only_failed_job_of_a_name(tao: Tao) -> None:
    failed = tao.run_detached("[ $TAO_ATTEMPT = 2 ]", "--name", "twin")
    assert tao("wait", failed).code == 1
    complete = tao.run_detached("true", "--name", "twin")
    assert tao("wait", complete).code == 0
    ran = tao("retry", "twin", "--json")
    assert (ran.code, ran.json_lines[-1]["id"]) == (0, failed)


def test_retry_lists_the_failed_jobs_of_a_name_that_several_have(tao: Tao) -> None:
    failed = [tao.run_detached("exit 3", "--name", "twin") for _ in range(2)]
    tao("wait", *failed)
    ran = tao("retry", "twin")
    assert (ran.code, ran.out) == (2, "")
    assert "2 failed or canceled jobs are named 'twin'." in ran.err
    assert f"They are {failed[1]}, {failed[0]}." in ran.err
    assert tao("retry", "twin", "--json").error["next"] == f"tao retry {failed[1]}"


def test_a_program_ends_the_only_live_job_of_a_name_too(tao: Tao) -> None:
    tao("wait", tao.run_detached("true", "--name", "twin"))
    live = tao.run_detached("sleep 60", "--name", "twin")
    with Client(settings=Settings(tao.env)) as client:
        assert client.cancel_job("twin", grace=1) is True
        assert client.get_job(live).status == "Canceled"
        tao.run_detached("sleep 60", "--name", "twin")
        tao.run_detached("sleep 60", "--name", "twin")
        answers = client.cancel_jobs(["twin"])
        assert isinstance(answers["twin"], UsageError)


def test_compare_takes_all_jobs_of_a_name(typed: Typed, tmp_path: Path) -> None:
    first, second, other = "rate-1111111111", "rate-2222222222", "try-3333333333"
    for job, best in ((first, 0.9), (second, 0.8), (other, 0.7)):
        sweep.add(tmp_path, job, (0.5, best))
    ran = typed("compare", "rate")
    assert ran.code == 0, ran.err
    assert [line.split()[0] for line in ran.out.splitlines()[1:3]] == [second, first]
    assert "2 jobs are named rate; all of them are compared." in ran.err
    told = typed("compare", "--json", "rate", "try").json
    assert [job["id"] for job in told["jobs"]] == [second, first, other]


def test_a_name_of_one_job_still_says_that_two_are_compared(typed: Typed, tmp_path: Path) -> None:
    sweep.add(tmp_path, "rate-1111111111", (0.5, 0.9))
    ran = typed("compare", "rate")
    assert (ran.code, ran.out) == (2, "")
    assert "Two jobs or more are compared." in ran.err


def test_a_word_that_means_several_jobs_is_told_with_the_same_command_and_an_id(
    typed: Typed, tmp_path: Path
) -> None:
    for job in ("twin-1111111111", "twin-2222222222"):
        sweep.add(tmp_path, job, (0.5, 0.6))
    ran = typed("logs", "--tail", "3", "twin-")
    assert ran.code == 2
    assert ran.err.splitlines() == [
        "error: 'twin-' can mean several jobs.",
        "why:   They are twin-1111111111, twin-2222222222.",
        "next:  Name one by its id. For example: tao logs --tail 3 twin-1111111111",
    ]


def test_a_checkpoint_of_a_shared_name_is_not_taken_from_any_of_the_jobs(
    typed: Typed, tmp_path: Path
) -> None:
    best, worse, newest = (f"rate-{number}111111111" for number in (1, 2, 3))
    for job, accuracy in ((worse, 0.7), (best, 0.9), (newest, 0.8)):
        sweep.add(tmp_path, job, (0.5, accuracy))
    ran = typed("results", "rate", "--epoch", "best")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "error: 'rate' can mean several jobs.",
        f"why:   They are {best}, {newest}, {worse}.",
        f"next:  {best} has the best accuracy. For example: tao results {best} --epoch best",
    ]
    ran = typed("results", "rate", "--fetch", "here", "--epoch", "last")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith(f"For example: tao results {newest} --fetch here --epoch last\n")


def test_which_job_of_a_name_is_taken_is_told_to_programs_too(typed: Typed, tmp_path: Path) -> None:
    first, second = "rate-1111111111", "rate-2222222222"
    for job in (first, second):
        sweep.add(tmp_path, job, (0.5, 0.6))
    ran = typed("status", "--json", "rate")
    assert ran.json["id"] == second
    assert ran.err == f'{{"note": "{second}, the newest of 2 jobs named rate."}}\n'
