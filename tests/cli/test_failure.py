"""What is told when something goes wrong: never a traceback, always an exit code that a script can
go by.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from support.tao_command import COMMAND, Ran, Tao
from tao_sdk import Client
from tao_sdk.cli import exit_codes
from tao_sdk.cli.detached import Detached
from tao_sdk.cli.failure import tell
from tao_sdk.cli.log_lines import tell_warnings
from tao_sdk.model import errors
from tao_sdk.model.status import Status


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAO_SDK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("MY_TOKEN", "tok-0123456789")
    return tmp_path / "state"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("x"), 2),
        (errors.SpecError("x"), 2),
        (errors.Refused("x"), 2),
        (errors.CredentialError("x"), 2),
        (errors.MissingExtra("x"), 2),
        (errors.JobNotFound("x"), 3),
        (errors.PathNotFound("x"), 3),
        (errors.Unreachable("x"), 4),
        (errors.WaitTimeout("x"), 5),
        (click.UsageError("x"), 2),
        (ZeroDivisionError("x"), 70),
        (KeyboardInterrupt(), 130),
        (Detached("x", "y"), 130),
    ],
)
def test_the_kind_of_error_decides_the_exit_code(error: BaseException, code: int) -> None:
    assert tell(error, []) == code


def test_of_several_jobs_an_error_outweighs_a_cancel() -> None:
    assert exit_codes.of_statuses([Status.COMPLETE, Status.CANCELED, Status.ERROR]) == 1
    assert exit_codes.of_statuses([Status.CANCELED, Status.COMPLETE]) == 6
    assert exit_codes.of_statuses([]) == 0


def test_an_error_is_what_why_and_next_in_that_order(capsys: pytest.CaptureFixture[str]) -> None:
    tell(errors.Refused("It cannot run.", "There is no room.", "Make some."), [])
    assert capsys.readouterr().err.splitlines() == [
        "error: It cannot run.",
        "why:   There is no room.",
        "next:  Make some.",
    ]
    tell(errors.Refused("It cannot run."), [])
    assert capsys.readouterr().err.splitlines() == ["error: It cannot run."]


def test_with_json_an_error_is_an_object_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    tell(errors.Refused("It cannot run.", "There is no room.", "Make some."), ["run", "--json"])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert json.loads(printed.err) == {
        "error": {
            "code": "job.refused",
            "message": "It cannot run.",
            "cause": "There is no room.",
            "next": "",
            "hint": "Make some.",
        }
    }


def test_with_json_leaving_a_job_is_told_as_an_object_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert tell(Detached("a-1 goes on.", "tao wait a-1"), ["wait", "--json", "a-1"]) == 130
    assert json.loads(capsys.readouterr().err)["error"] == {
        "code": "detached", "message": "a-1 goes on.", "cause": "", "next": "tao wait a-1",
        "hint": "Come back: tao wait a-1",
    }  # fmt: skip


def test_a_json_flag_of_the_jobs_own_command_is_not_ours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell(errors.Refused("x"), ["run", "--", "tool", "--json"])
    assert capsys.readouterr().err == "error: x\n"


def test_a_secret_of_the_environment_is_in_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    tell(errors.Unreachable("The server said: bad token tok-0123456789"), [])
    tell(errors.Unreachable("bad tok-9876543210"), ["run", "--env", "OTHER_TOKEN=tok-9876543210"])
    tell(errors.Unreachable("bad tok-5555555555"), ["run", "--env=OTHER_TOKEN=tok-5555555555"])
    tell(
        errors.Unreachable("bad tok-7777777777"),
        ["run", "--secret", "LOGIN", "--env", "LOGIN=tok-7777777777"],
    )
    tell(
        errors.Unreachable("bad tok-8888888888"),
        ["run", "--secret=LOGIN", "--env", "LOGIN=tok-8888888888"],
    )
    assert "tok-" not in capsys.readouterr().err


def test_an_error_nobody_foresaw_keeps_its_traceback_in_a_private_file(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        raise ZeroDivisionError("with tok-0123456789")
    except ZeroDivisionError as error:
        assert tell(error, ["ls", "two words"]) == 70
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert "tok-" not in told
    [kept] = (state / "crashes").iterdir()
    assert str(kept) in told
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE((state / "crashes").stat().st_mode) == 0o700
    text = kept.read_text()
    assert "tao ls 'two words'" in text
    assert "ZeroDivisionError: with ***" in text


def test_an_error_is_told_also_where_its_traceback_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TAO_SDK_STATE_DIR", str(tmp_path / "file"))
    assert tell(ZeroDivisionError("x"), []) == 70
    assert "could not be kept" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ("nonsense",),
        ("run", "--nonsense"),
        ("ls", "--limit", "many"),
        ("retry",),
        ("wait", "--timeout", "soon", "x"),
        ("completion", "csh"),
        ("run", "no/such/job.yaml"),
        ("--state-file", "/dev/null/x", "ls"),
        ("ls", "--label", "novalue"),
    ],
)
def test_wrong_usage_ends_with_2_and_few_lines(
    typed: Callable[..., Ran], args: tuple[str, ...]
) -> None:
    ran = typed(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert len(ran.err.splitlines()) <= 3
    shown = typed(*args, "--json")
    assert set(shown.error) >= {"code", "message", "cause", "next", "hint"}


def test_a_verb_that_was_mistyped_is_told_with_what_was_meant(typed: Callable[..., Ran]) -> None:
    assert "Did you mean tao status?" in typed("statsu").err
    assert "tao run job.yaml" in typed("job.yaml").err


def test_a_state_folder_that_is_not_absolute_is_told(tao: Tao) -> None:
    ran = tao("ls", TAO_SDK_STATE_DIR="relative")
    assert (ran.code, "TAO_SDK_STATE_DIR" in ran.err) == (2, True)
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_our_letters_gets_others(tao: Tao, encoding: str) -> None:
    ran = tao("run", "--gpus", "0", "--", "echo é✓", PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert ran.code == 0, ran.err
    assert "+ Complete in" in ran.out


def test_state_file_is_taken_before_and_after_the_verb(tao: Tao) -> None:
    one = str(tao.home / "one.db")
    job = tao("--state-file", one, "run", "-d", "--json", "--gpus", "0", "--", "true").json["id"]
    assert [each["id"] for each in tao("ls", "--json", "--state-file", one).json] == [job]
    assert tao("ls", "--json").json == []
    assert Path(one).exists()
    assert tao("--state-file", one, "wait", job).code == 0


def test_a_warning_of_the_watcher_is_a_line_and_its_traceback_a_private_file(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("tao_sdk")
    monkeypatch.setattr(logger, "handlers", list(logger.handlers))
    monkeypatch.setattr(logger, "propagate", True)
    tell_warnings(printed=True)
    logger.warning("watching goes on after: %s", "no answer")
    try:
        raise ZeroDivisionError("with tok-0123456789")
    except ZeroDivisionError:
        logger.exception("watching goes on after an unexpected error")
    first, second = capsys.readouterr().err.splitlines()
    [kept] = (state / "crashes").iterdir()
    assert first == "warning: watching goes on after: no answer"
    assert second.startswith(
        "warning: watching goes on after an unexpected error. Please report it"
    )
    assert str(kept) in second
    tell_warnings(printed=False)
    logger.warning("not in the middle of a screen")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("args", "code"), [("ls --json", 0), ("status none", 3), ("run --gpus 0 -- exit 3", 1)]
)
def test_a_stream_that_the_caller_has_closed_changes_no_exit_code(
    tao: Tao, closed: str, args: str, code: int
) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *args.split()],
        cwd=tao.home, env=tao.env, capture_output=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, b"Traceback" in done.stdout + done.stderr) == (code, False)


def test_an_interrupt_that_python_made_another_error_of_is_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = RuntimeError("Error calling __set_name__")
    error.__cause__ = KeyboardInterrupt()
    assert tell(error, ["logs"]) == exit_codes.DETACHED
    assert "tao ls" in capsys.readouterr().err


@pytest.mark.parametrize("ignored", [False, True])
def test_an_interrupt_while_the_program_is_loaded_ends_it_without_a_word(
    tmp_path: Path, ignored: bool
) -> None:
    """What is loaded first is a module of ours, which interrupts its own process."""
    (tmp_path / "click").mkdir()
    (tmp_path / "click/__init__.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise SystemExit(7)\n"
    )
    before = "signal.signal(signal.SIGINT, signal.SIG_IGN); " if ignored else ""
    script = f"import signal; {before}from tao_sdk.cli.start import main; main()"
    argv = [sys.executable, "-c", script]
    ran = subprocess.run(
        argv,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (7 if ignored else -signal.SIGINT, "")


@pytest.mark.parametrize(
    "verb", ["ls", "status", "logs", "why", "wait", "results", "events", "cancel", "watch", "gc"]
)
def test_a_named_job_store_that_is_not_there_is_told_and_not_made(
    typed: Callable[..., Ran], tmp_path: Path, verb: str
) -> None:
    named = tmp_path / "jobz.db"
    ran = typed("--state-file", str(named), verb, *(["x"] if verb in ("wait", "cancel") else []))
    assert (ran.code, ran.out) == (2, "")
    assert f"There is no job store {named}." in ran.err
    assert not any(tmp_path.glob("jobz*"))


def test_a_watcher_that_stays_may_be_started_before_the_first_job(tao: Tao) -> None:
    named = tao.home / "later.db"
    watching = tao.start("--state-file", str(named), "watch", "--forever")
    try:
        assert "Watching 0 live jobs" in watching.stderr.readline()
        assert named.exists()
    finally:
        watching.terminate()
        watching.communicate(timeout=300)


def test_the_shell_completes_no_job_of_a_store_that_is_not_there(tao: Tao) -> None:
    words = {
        "_TAO_COMPLETE": "bash_complete",
        "COMP_WORDS": "tao status --state-file no.db ",
        "COMP_CWORD": "4",
    }
    ran = tao(**words)
    assert (ran.code, ran.out.strip(), ran.err) == (0, "", "")
    assert not (tao.home / "no.db").exists()


def test_a_results_folder_that_became_a_link_is_told_and_the_job_is_over(tao: Tao) -> None:
    ran = tao(
        "run", "--gpus", "0", "--", 'mv "$TAO_RESULTS_DIR" kept; ln -s /tmp "$TAO_RESULTS_DIR"'
    )
    assert ran.code == 0, ran.err
    assert (
        "is a link now; the results of a job are not looked for behind one. "
        "See where it leads: readlink "
    ) in ran.out
    assert "goes on" not in ran.out + ran.err
    assert "Complete" in ran.out


@pytest.mark.network
def test_a_host_of_docker_that_does_not_answer_ssh_is_named_while_it_is_waited_for(
    tao: Tao,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ssh://somebody@127.0.0.1:{silent.getsockname()[1]}"
        command = ("run", "--platform", "docker", "--image", "none", "--gpus", "0", "--", "true")
        running = tao.start(*command, DOCKER_HOST=url)
        assert running.stderr is not None
        told = iter(running.stderr.readline, "")
        assert f"Waiting for the Docker daemon at {url}, for at most 60 s.\n" in told
    said = running.communicate(timeout=300)[1]
    assert running.returncode == 4
    assert "does not answer ssh" in said


def test_ctrl_c_before_a_job_is_handed_over_says_that_nothing_was_started(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert tell(KeyboardInterrupt(), ["--state-file", "jobs.db", "run", "job.yaml"]) == 130
    assert capsys.readouterr().err == "\nInterrupted; nothing was started.\n"
    tell(KeyboardInterrupt(), ["ls", "--label", "run"])
    assert "Come back: tao ls" in capsys.readouterr().err


def test_ctrl_c_while_the_store_is_closed_changes_nothing(
    typed: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Client.close

    def close_interrupted(client: Client) -> None:
        close(client)
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "close", close_interrupted)
    ran = typed("run", "--gpus", "0", "--detach", "--", "true")
    assert (ran.code, "nothing was started" in ran.err) == (0, False)
