"""A place that costs money: its price is told, and it is given back once its job has ended."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from support.places import Place, local
from support.rented import PRICE, rented_folder, rented_machines, use_rented
from support.waiting import until
from tao_sdk.backends.contract import read_plan
from tao_sdk.cli import planned as plan_text
from tao_sdk.cli.first_words import job_head
from tao_sdk.cli.look import running_cost
from tao_sdk.cli.output import Output
from tao_sdk.cli.submit import detached
from tao_sdk.client import Client
from tao_sdk.engine import letting_go
from tao_sdk.engine.look import look
from tao_sdk.engine.submit import confirm
from tao_sdk.model.job import Job
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    use_rented(monkeypatch)
    return local(tmp_path)


def submitted(client: Client, command: str, **more: int) -> Job:
    return client.submit(JobSpec(command=command, gpu_count=0, **more), "local").job


def test_the_price_is_in_the_plan_and_in_the_first_line_of_a_job(client: Client) -> None:
    planned = client.plan(JobSpec(command="true", gpu_count=0), "local")
    assert "  price    $2.50 per hour (stand-in, 1 GPU)" in plan_text.summary(planned, Output())
    job = submitted(client, "sleep 30")
    assert job_head(job) == f"{job.id}  local  $2.50 per hour"
    assert client.get_job(job.id).to_json()["backend_details"]["price_per_hour"] == 2.5
    assert running_cost(client.list_jobs()) == "$2.50 per hour"
    row = client.store.attempt(job.id)
    assert read_plan(client.engine.backend_of(job), row).price == PRICE


@pytest.mark.parametrize("command", ["echo done", "exit 3", "sleep 300"])
def test_the_look_that_sees_the_end_gives_back_and_the_next_sees_it_gone(
    client: Client, place: Place, command: str
) -> None:
    job = submitted(client, command)
    assert rented_machines(place.state) == [f"{job.id}.1"]
    if command == "sleep 300":
        assert client.cancel_job(job.id, grace=0.2) is True
    else:
        until(lambda: look(client.engine, [client.store.get(job.id)])[0].job.status.terminal)
    told = client.store.get(job.id)
    assert (told.is_still_rented, "still rented" in told.current_message) == (True, True)
    assert running_cost([told]) == "$2.50 per hour"
    with place.client() as another:
        seen = another.get_job(job.id)
    assert (seen.released, seen.is_still_rented, rented_machines(place.state)) == (True, False, [])
    assert (seen.status, running_cost([seen])) == (told.status, "")


def test_the_log_is_kept_before_its_place_goes(client: Client, place: Place) -> None:
    job = submitted(client, "echo kept")
    client.wait(job.id, timeout=300)
    assert client.store.log_copies.read(client.store.attempt(job.id).attempt, 0, 99) == b"kept\n"


def test_a_log_that_cannot_be_fetched_holds_its_place_for_some_minutes_only(
    client: Client, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submitted(client, "echo lost")
    (rented_folder(place.state) / "silent").touch()
    until(lambda: look(client.engine, [client.store.get(job.id)])[0].job.status.terminal)
    for _ in range(3):
        client.list_jobs()
    assert rented_machines(place.state) == [f"{job.id}.1"]
    monkeypatch.setattr(letting_go, "LOG_PATIENCE", timedelta(0))
    for _ in range(3):
        client.list_jobs()
    attempt = client.store.attempt(job.id).attempt
    assert rented_machines(place.state) == []
    assert client.store.log_copies.read(attempt, 0, 999) == letting_go.CUT_OFF


def test_a_retry_keeps_its_place_and_the_end_gives_back_those_of_all_attempts(
    client: Client, place: Place
) -> None:
    job = submitted(client, f"[ $TAO_ATTEMPT = 2 ] || {place.fails_by_infrastructure}", retries=1)
    until(lambda: client.get_job(job.id).waits_for_next_attempt)
    assert rented_machines(place.state) == [f"{job.id}.1"]
    client.wait(job.id, timeout=300)
    until(lambda: client.get_job(job.id).released)
    assert (client.get_job(job.id).attempt, rented_machines(place.state)) == (2, [])


def test_a_watcher_does_not_end_while_something_is_rented(client: Client, place: Place) -> None:
    job = submitted(client, "true")
    client.watch(threading.Event())
    assert (client.store.get(job.id).status, rented_machines(place.state)) == (Status.COMPLETE, [])


def test_a_job_that_is_tried_again_while_its_place_goes_pays_for_the_new_one(
    client: Client, place: Place
) -> None:
    job = submitted(client, "[ $TAO_ATTEMPT = 2 ] && sleep 300; exit 3")
    until(lambda: client.get_job(job.id).released)
    client.retry_job(job.id)
    assert rented_machines(place.state) == [f"{job.id}.2"]
    client.list_jobs()
    assert client.store.get(job.id).rented
    assert letting_go.as_released(client.store.get(job.id)).rented
    client.cancel_job(job.id, grace=0.2)
    until(lambda: client.get_job(job.id).released)
    assert rented_machines(place.state) == []


def test_a_detached_job_says_who_carries_on_a_submit_of_several_steps(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    job = submitted(client, "sleep 30")
    detached(Output(), job)
    assert "tao watch" not in capsys.readouterr().err
    ref = client.store.attempt(job.id).ref
    assert ref is not None
    detached(Output(), confirm(client.engine, job.id, replace(ref, ready=False, step="deploying")))
    assert capsys.readouterr().err.endswith("To carry it on: tao watch\n")
    assert client.store.get(job.id).message == "deploying"
    confirm(client.engine, job.id, ref)


def test_a_look_at_one_job_does_not_wait_for_the_places_of_others(
    client: Client, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    job = submitted(client, "true")
    (rented_folder(place.state) / "silent").touch()
    until(lambda: look(client.engine, [client.store.get(job.id)])[0].job.status.terminal)
    caplog.clear()
    client.engine.release_due_at.clear()
    other = client.submit(JobSpec(command="true", gpu_count=0), "local").job
    look(client.engine, [other])
    assert job.id not in client.engine.release_due_at, "it was tried"
    for _ in range(2 * letting_go.TELL_AT_TRY):
        client.engine.release_due_at.clear()
        client.list_jobs()
    told = [one.getMessage() for one in caplog.records]
    words = f"The place of {job.id} is still rented: The machine does not answer."
    assert told.count(words) == 1, told
    (rented_folder(place.state) / "silent").unlink()
    client.engine.release_due_at.clear()
    until(lambda: client.get_job(job.id).released)


def test_a_log_that_is_over_is_copied_no_further(
    client: Client, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submitted(client, "echo lost")
    monkeypatch.setattr(letting_go, "LOG_PATIENCE", timedelta(0))
    (rented_folder(place.state) / "silent").touch()
    until(lambda: look(client.engine, [client.store.get(job.id)])[0].job.status.terminal)
    row = client.store.attempt(job.id)
    (rented_folder(place.state) / "silent").unlink()
    letting_go.keep_log(client.engine, client.store.get(job.id), row)
    assert client.store.log_copies.read(row.attempt, 0, 999) == letting_go.CUT_OFF
