"""`tao automl`: a search by the command, from a file to the best trial."""

from __future__ import annotations

import csv
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.tao_command import Ran, Tao
from support.tao_terminal import on_terminal
from support.toy_skill import write_skill
from tao_automl import drive
from tao_automl.report.view import view_of
from tao_automl.store import searches_of
from tao_sdk.cli import automl
from tao_sdk.cli.automl import Screen, SearchDrivers, begun, planned_search, screen_line
from tao_sdk.cli.output import Output
from tao_sdk.client import Client
from tao_sdk.client.job_request import TypedJob, read_request
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import CredentialError, Unreachable
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.job import Job
from tao_sdk.model.reasons import Reason
from tao_sdk.model.secrets import Secret
from tao_sdk.model.status import Status

FILE = """\
name: rates
command: 'test -e wait && sleep 600; echo epoch 1/1 accuracy {lr}'
gpu_count: 0
search:
  metric: accuracy
  algorithm: random
  seed: 1
  max_trials: 3
  max_concurrent: 2
  parameters:
    "{lr}": {min: 0.1, max: 0.9}
"""


def test_a_search_is_left_carried_on_extended_and_forgotten(tao: Tao) -> None:
    tao.write("search.yaml", FILE.replace("test -e wait", f"test -e {tao.home}/wait"))
    tao.write("wait", "")
    first = tao.start("automl", "run", "search.yaml")
    tao.until("rates-search-2", "ls")
    first.send_signal(signal.SIGINT)
    _, err = first.communicate()
    assert first.returncode == 130, err
    assert "waits for a driver, 2 of its jobs run" in err
    assert "tao automl run rates-search-" in err
    status = tao("automl", "status", "--json").json
    assert (status["status"], status["driven"], status["counts"]["running"]) == (
        "Running",
        False,
        2,
    )
    assert tao("automl", "rm", "rates").code == 2
    driver = tao.start("automl", "run", "rates-search")
    assert driver.stdout
    assert "random" in driver.stdout.readline()
    tao.until('"driven": true', "automl", "status", "--json")
    watcher = tao.start("automl", "run", "rates-search")
    assert watcher.stderr
    assert "this one watches" in watcher.stderr.readline()
    stopped = tao("automl", "stop", "rates", "--json")
    assert (stopped.code, stopped.json["status"]) == (0, "Stopped")
    for process in (driver, watcher):
        out, err = process.communicate()
        assert process.returncode == 6, err
        assert "stopped by tao automl stop" in out
    (tao.home / "wait").unlink()
    ran = tao("automl", "run", "rates-search")
    assert ran.code == 0, ran.err
    assert "3 complete" in ran.out
    assert ran.out.splitlines()[0].split()[1:4] == ["random", "accuracy", "(maximize)"]
    more = tao(
        "automl",
        "run",
        "rates",
        "--trials",
        "4",
        "--json",
        "--csv",
        "rates.csv",
        "--svg",
        "rates.svg",
    )
    assert more.code == 0, more.err
    assert [trial["status"] for trial in more.json["trials"]] == ["complete"] * 4
    best = more.json["best"]
    assert best["value"] == max(trial["value"] for trial in more.json["trials"])
    assert best["params"] == {"{lr}": best["value"]}
    rows = list(csv.DictReader((tao.home / "rates.csv").open()))
    assert [row["trial"] for row in rows] == ["1", "2", "3", "4"]
    assert {float(row["accuracy"]) for row in rows} == {float(row["{lr}"]) for row in rows}
    assert tao("automl", "status", "rates", "--svg", "again.svg").code == 0
    for name in ("rates.svg", "again.svg"):
        assert ElementTree.parse(tao.home / name).getroot().tag.endswith("svg")
    assert str(best["value"]) in tao("automl", "best", "--spec").out
    jobs = tao("ls", "--json", "--parent", more.json["id"]).json
    assert sorted(job["labels"]["tao-trial"] for job in jobs) == ["1", "2", "3", "4"]
    assert tao("automl", "ls", "--json").json[0]["best"] == best["value"]
    assert tao("automl", "rm", "rates").code == 0
    assert tao("automl", "status", "rates").code == 3


def test_a_search_moves_on_a_screen_and_is_carried_on_to_its_end_by_a_watcher(tao: Tao) -> None:
    slow = "for i in 1 2 3 4; do echo epoch $i/4 accuracy {lr}; sleep 0.4; done"
    tao.write(
        "search.yaml", FILE.replace("test -e wait && sleep 600; echo epoch 1/1 accuracy {lr}", slow)
    )
    code, shown = on_terminal(
        tao, "automl", "run", "search.yaml", columns=150, interrupt_after="ETA "
    )
    assert code == 130, shown
    assert "░" in shown
    assert re.search(r"trial \d epoch \d/4", shown)
    watching = tao.start("watch")
    assert watching.stderr
    while "Carries rates-search-" not in watching.stderr.readline():
        assert watching.poll() is None
    watching.terminate()
    assert watching.wait(timeout=60) == 0
    assert tao("automl", "status", "--json").json["driven"] is False
    watched = tao("watch")
    assert watched.code == 0
    assert "is Complete" in watched.err
    assert tao("automl", "status", "--json").json["counts"]["complete"] == 3


def test_a_search_without_a_success_fails(tao: Tao) -> None:
    tao.write("search.yaml", FILE.replace("accuracy {lr}", "accuracy {lr}; exit 3"))
    ran = tao("automl", "run", "search.yaml", "--trials", "1", "--csv", "none/rates.csv")
    assert ran.code == 2
    assert "none/rates.csv cannot be written" in ran.err
    assert tao("automl", "ls").out == ""
    ran = tao("automl", "run", "search.yaml", "--trials", "1")
    assert ran.code == 1
    assert "Error" in ran.out
    assert "no trial succeeded" in ran.out


def test_plain_run_of_a_search_file_says_that_it_searches_nothing(tao: Tao) -> None:
    tao.write("search.yaml", FILE.replace("{lr};", "0.5;").replace("accuracy {lr}'", "x 1'"))
    ran = tao("run", "search.yaml")
    assert ran.code == 0
    assert "To search: tao automl run search.yaml" in ran.err


@pytest.mark.slow
def test_the_plan_of_a_search_shows_what_is_searched_and_the_first_trial(
    typed: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "search.yaml").write_text(FILE)
    ran = typed("plan", "search.yaml")
    assert ran.code == 0
    assert "random  accuracy (maximize)  3 trials" in ran.out
    assert '"{lr}": a number from 0.1 to 0.9' in ran.out
    assert "accuracy {lr}" not in ran.out
    shown = typed("plan", "search.yaml", "--json").json
    assert shown["search"]["parameters"][0]["key"] == "{lr}"
    assert "No searches yet" in typed("automl", "ls").err


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("metric: accuracy", "metrik: accuracy", ["search.yaml:5:3", "'metrik'", "metric"]),
        ("max_trials: 3", "max_trials: none", ["search.yaml:8:", "whole number"]),
        ("algorithm: random", "algorithm: baysian", ["search.yaml:6:", "Did you mean bayesian?"]),
        ("max: 0.9", "mx: 0.9", ["search.yaml:11:5", "Did you mean max?"]),
        ('"{lr}":', '"{rate}":', ["search.yaml:11:5", "{rate} does not stand in the command"]),
        ("search:", "serch:", ["search.yaml:4:1", "Did you mean search?"]),
        ("algorithm: random", "algorithm: asha", ["search.yaml:6:", "epochs_key"]),
    ],
)
def test_a_mistake_in_a_search_has_its_line_and_what_was_meant(
    typed: Callable[..., Ran], tmp_path: Path, before: str, after: str, words: list[str]
) -> None:
    (tmp_path / "search.yaml").write_text(FILE.replace(before, after))
    ran = typed("automl", "run", "search.yaml")
    assert ran.code == 2
    for word in words:
        assert word in ran.err
    assert "No searches yet" in typed("automl", "ls").err


def test_a_flag_of_run_at_another_task_and_a_search_that_is_not_there(
    typed: Callable[..., Ran],
) -> None:
    ran = typed("automl", "status", "--trials", "3")
    assert (ran.code, "is no flag of tao automl status" in ran.err) == (2, True)
    assert typed("automl", "best").code == 3
    assert typed("automl", "run", "nothing").code == 3


MODEL = """\
model: toy
action: train
skill_bank: bank
gpu_count: 0
set: {num_epochs: 1}
automl_policy: on
search: {metric: kpi, max_trials: 2, algorithm: random, seed: 2}
"""


def test_a_model_is_searched_by_its_schema_where_the_run_says_so(tao: Tao) -> None:
    write_skill(tao.home / "bank")
    tao.write("model.yaml", MODEL)
    ran = tao("run", "model.yaml")
    assert ran.code == 0, ran.err
    assert "random  accuracy (maximize)  2 trials" in ran.out
    assert '"train.optim.lr": a number from 0.01 to 0.4' in ran.out
    assert "2 complete" in ran.out
    trials = tao("automl", "status", "--json").json["trials"]
    assert [list(trial["params"]) for trial in trials] == [["train.optim.lr"]] * 2
    tao.write("plain.yaml", MODEL.partition("automl_policy")[0])
    plain = tao("run", "plain.yaml")
    assert plain.code == 0
    assert "A search for its best settings is possible: --automl-policy on" in plain.err
    assert len(tao("automl", "ls", "--json").json) == 1


def test_the_policy_of_a_model_is_planned_noted_and_checked(
    typed: Callable[..., Ran], tmp_path: Path
) -> None:
    write_skill(tmp_path / "bank")
    file = tmp_path / "model.yaml"
    file.write_text(MODEL.replace("search: {", "search: {parameters: [train.batch_size], "))
    ran = typed("plan", "model.yaml")
    assert ran.code == 0, ran.err
    assert '"train.batch_size": a whole number from 1 to 64' in ran.out
    file.write_text(MODEL.replace("policy: on", "policy: off"))
    ran = typed("plan", "model.yaml")
    assert (ran.code, "(maximize)" in ran.out) == (0, False)
    for before, after, words in (
        ("automl_policy: on", "automl_policy: maybe", "must be on or off"),
        ("metric: kpi", "parameters: [train.batch_sise]", "train.batch_size"),
        ("metric: kpi", "parameters: train.batch_size", "parameters is a text; it must be a list"),
        ("metric: kpi", "parameters: 5", "parameters is a number; it must be a list"),
    ):
        file.write_text(MODEL.replace(before, after))
        ran = (
            typed("run", "model.yaml", "--automl-policy", "on")
            if "maybe" not in after
            else typed("run", "model.yaml")
        )
        assert ran.code == 2
        assert words in ran.err
    ran = typed("run", "model.yaml", "--automl-policy", "on", "--detach")
    assert ran.code == 2
    assert "--detach is for one job" in ran.err
    assert "No searches yet" in typed("automl", "ls").err


def test_the_plan_of_a_search_is_checked_with_the_secrets_of_its_file(tmp_path: Path) -> None:
    """A bucket that only the file's keys open is no finding."""
    file = tmp_path / "search.yaml"
    file.write_text(f"{FILE}env_vars: {{AWS_SECRET_ACCESS_KEY: opensesame, WORD: open}}\n")
    client = Client(tmp_path / "jobs.db")
    _, spec, _ = planned_search(client, read_request(TypedJob(str(file), "local"), client))
    assert spec.env_vars == {"AWS_SECRET_ACCESS_KEY": Secret("opensesame"), "WORD": "open"}


def test_a_watcher_takes_up_a_search_again_after_an_error_that_may_pass(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It tells the error once. What its user has to mend, and what nobody foresaw, it leaves."""
    monkeypatch.setattr(automl, "RETRY_SECONDS", 0.0)
    file = tmp_path / "search.yaml"
    file.write_text(FILE)
    client = Client(tmp_path / "jobs.db")
    for last in (CredentialError("no key"), ValueError("nobody foresaw it")):
        stored, _ = begun(client, read_request(TypedJob(str(file), "local"), client), {})
        errors = [Unreachable("no route"), Unreachable("no route"), last]
        monkeypatch.setattr(drive, "drive", lambda *_, errors=errors: raises(errors.pop(0)))
        drivers = SearchDrivers(client, Output(False), threading.Event())
        for is_busy in (True, True, False, False):
            drivers.begin()
            drivers.threads[stored.id].join()
            assert drivers.is_busy is is_busy
        notes = [line for line in capsys.readouterr().err.splitlines() if stored.id in line]
        assert notes[:2] == [
            f"Carries {stored.id} on.", f"{stored.id} waits, and is tried again: no route",
        ]  # fmt: skip
        assert len(notes) == (3 if isinstance(last, CredentialError) else 2)
        searches_of(client).remove(stored.id)
    assert caplog.text.count("nobody foresaw it") == 1


def raises(error: Exception) -> None:
    raise error


def test_the_line_of_a_search_is_one_row_of_every_screen(tmp_path: Path) -> None:
    """And shows how far the trials are where there is room for it."""
    file = tmp_path / "search.yaml"
    file.write_text(FILE)
    client = Client(tmp_path / "jobs.db")
    stored, _ = begun(client, read_request(TypedJob(str(file), "local"), client), {})
    view, running = view_of(stored.search, stored.id), "trial 4 epoch 2/9, trial 5 epoch 1/9"
    lines = {width: screen_line(view, running, "ETA 0:12", width) for width in (20, 60, 80, 150)}
    assert all(len(line) < width for width, line in lines.items())
    assert [running in line for line in lines.values()] == [False, False, False, True]
    assert "ETA 0:12" in lines[60]


def test_what_trials_wait_for_and_what_their_checks_find_is_printed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(
        id="t-abcdefghij", name="t", platform="local", status=Status.PENDING, created=utc_now(),
        labels={"tao-trial": "2"}, reason_code=Reason.PULL_FAILED, message="401\nUnauthorized",
    )  # fmt: skip
    sent = replace(job, reason_code=Reason.SUBMITTED, message="submitted")
    screen = Screen(Client(tmp_path / "jobs.db"), Output(False))
    finding = Finding(Severity.WARNING, "output.ephemeral", "The results are lost.")
    for _ in range(2):
        screen.tell_waits([sent, replace(job, status=Status.RUNNING)])
        screen.tell_waits([job])
        screen.warn(finding)
    assert capsys.readouterr().err.splitlines() == [
        "trial 2 waits: 401 Unauthorized  (tao why t-abcdefghij)",
        "warning: The results are lost.",
    ]
