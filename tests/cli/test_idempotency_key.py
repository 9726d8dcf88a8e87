"""`tao run --idempotency-key`: a program repeats a submit whose reply it lost."""

from __future__ import annotations

import json

from support.tao_command import Tao

ONCE = ("--gpus", "0", "--idempotency-key", "night-7")


def test_a_repeated_submit_prints_the_same_job_and_says_so(tao: Tao) -> None:
    first = tao("run", *ONCE, "--detach", "--json", "--", "echo once")
    again = tao("run", *ONCE, "--detach", "--json", "--", "echo once")
    assert (first.code, again.code) == (0, 0), again.err
    assert again.json["id"] == first.json["id"]
    assert json.loads(again.err)["repeated"] == first.json["id"]
    assert first.err == ""
    assert len(tao("ls", "--json").json) == 1


def test_without_detach_the_same_job_is_watched_to_its_end(tao: Tao) -> None:
    assert tao("run", *ONCE, "--", "echo said once; exit 3").code == 1
    again = tao("run", *ONCE, "--", "echo said once; exit 3")
    assert again.code == 1
    assert "no second job is started" in again.err
    assert "exit code 3" in again.out


def test_the_key_of_another_command_and_an_empty_one_are_refused(tao: Tao) -> None:
    job = tao("run", *ONCE, "--detach", "--json", "--", "echo once").json["id"]
    other = tao("run", *ONCE, "--json", "--", "echo other")
    assert (other.code, other.error["next"]) == (2, f"tao status {job}")
    empty = tao("run", "--gpus", "0", "--idempotency-key", "", "--", "echo once")
    assert empty.code == 2
    assert "The idempotency key is empty" in empty.err


def test_the_names_of_other_tools_lead_to_it(tao: Tao) -> None:
    ran = tao("run", "--client-token", "x", "--", "echo once")
    assert "tao run --idempotency-key KEY" in ran.err
