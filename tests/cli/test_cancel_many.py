"""`--parent` and `--label`: jobs that are ended, waited for and removed in one go."""

from __future__ import annotations

from collections.abc import Callable

from support.tao_command import Ran, Tao
from tao_sdk.client import Client

Typed = Callable[..., Ran]


def test_all_live_jobs_that_one_started_are_ended_in_one_go_and_no_other(tao: Tao) -> None:
    parent, other = (
        tao.run_detached("sleep 60", "--name", "parent"),
        tao.run_detached("sleep 60", "--name", "other"),
    )
    with Client(tao.home / "state" / "jobs.db") as client:
        spec = {"command": "trap '' TERM; sleep 60 & wait; wait", "gpu_count": 0}
        children = {client.submit(spec, "local", parent=parent).job.id for _ in range(6)}
    ran = tao("cancel", "--json", "--parent", "parent", "--grace", "1s")
    assert ran.code == 0
    assert {job["id"]: job["status"] for job in ran.json} == dict.fromkeys(children, "Canceled")
    assert [tao("status", "--json", job).json["status"] for job in (parent, other)] == [
        "Running",
        "Running",
    ]
    again = tao("cancel", "--json", "--parent", parent)
    assert (again.code, again.json) == (0, [])


def test_a_parent_that_is_none_and_a_cancel_of_nothing_are_refused(tao: Tao) -> None:
    assert tao("cancel", "--parent", "no-such-job").code == 3
    assert tao("cancel").code == 2
    assert tao("cancel", "a-job", "--parent", "another").code == 2


def test_jobs_are_waited_for_canceled_and_removed_by_their_label(tao: Tao) -> None:
    chosen = {tao.run_detached("sleep 60", "--label", "sweep=a") for _ in range(2)}
    other = tao.run_detached("true", "--label", "sweep=b")
    ended = tao("wait", "--json", "--label", "sweep=b")
    assert (ended.code, [job["id"] for job in ended.json]) == (0, [other])

    refused = tao("rm", "--label", "sweep=a")
    assert (refused.code, {job["id"] for job in tao("ls", "--json").json}) == (2, {*chosen, other})

    canceled = tao("cancel", "--json", "--label", "sweep=a", "--grace", "1s")
    assert {job["id"]: job["status"] for job in canceled.json} == dict.fromkeys(chosen, "Canceled")
    assert tao("wait", "--label", "sweep=a").code == 6
    assert "No job with that label is live." in tao("cancel", "--label", "sweep=a").err

    assert set(tao("rm", "--json", "--label", "sweep=a").json["removed"]) == chosen
    assert [job["id"] for job in tao("ls", "--json").json] == [other]


def test_two_ways_to_choose_jobs_and_none_are_refused(typed: Typed) -> None:
    for verb in ("wait", "cancel", "rm"):
        twice = typed(verb, "a-job", "--label", "a=b")
        assert (twice.code, twice.out) == (2, "")
        assert f"tao {verb} --label NAME=VALUE" in twice.err
        assert typed(verb).code == 2


def test_a_label_that_no_job_has_is_told_as_that(tao: Tao) -> None:
    tao.run_detached("true")
    for verb in ("wait", "cancel", "rm"):
        unknown = tao(verb, "--label", "no=such")
        assert (unknown.code, unknown.out) == (3, "")
        assert "No job has the label no=such." in unknown.err
