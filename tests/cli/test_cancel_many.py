"""`tao cancel --parent`: all that a job started, in one go."""

from __future__ import annotations

from support.tao_command import Tao
from tao_sdk.client import Client


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
