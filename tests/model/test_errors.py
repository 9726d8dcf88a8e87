"""Errors, as a program prints and passes them on."""

from __future__ import annotations

import inspect
import pickle
import shlex
import traceback
from pathlib import Path

import pytest

from tao_sdk.client.document import DocumentError, Place
from tao_sdk.model import errors
from tao_sdk.model.errors import TaoError
from tao_sdk.model.fields import FieldError
from tao_sdk.store.private_files import make_directory

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.TaoError)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_last_line_of_a_traceback_reads_as_sentences(kind: type[errors.TaoError]) -> None:
    error = kind(
        "The input /data is not there: /nope", "No such file or directory", "Check the path."
    )
    last = traceback.format_exception_only(error)[-1]
    assert last.endswith(
        ": The input /data is not there: /nope. No such file or directory. Check the path.\n"
    )


def test_a_text_that_ends_by_itself_gets_no_second_end() -> None:
    assert (
        str(errors.TaoError("It is gone.", "", "Did you mean a?")) == "It is gone. Did you mean a?"
    )
    assert str(errors.TaoError("No room", "", "Run: df")) == "No room. Run: df"
    assert str(errors.TaoError("job a-1")) == "job a-1"


@pytest.mark.parametrize(
    "error",
    [*(kind("what", "why", "next", "command") for kind in KINDS), FieldError("cpus", "what", "why", "next", "command"),
     DocumentError(Place("job.yaml", 3, 5), "what", "why", "next", "command")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_an_error_comes_whole_out_of_another_process(error: errors.TaoError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_for_programs_next_is_the_command_alone_and_the_hint_all_of_the_advice() -> None:
    told = TaoError("It is live.", "", "End it first:", "tao cancel a-1").to_json()
    assert (told["next"], told["hint"]) == ("tao cancel a-1", "End it first: tao cancel a-1")


def test_a_command_without_words_needs_no_hint() -> None:
    told = TaoError("It is live.", command="tao cancel a-1").to_json()
    assert (told["next"], told["hint"]) == ("tao cancel a-1", "")


@pytest.mark.parametrize(
    "advice", ["Did you mean tao retry?", "Its log: tao logs -f JOB", "Run: chmod 600 .env", ""]
)
def test_words_are_never_taken_for_a_command(advice: str) -> None:
    told = TaoError("What.", "Why.", advice).to_json()
    assert (told["next"], told["hint"]) == ("", advice)


def test_people_read_the_command_at_the_end_of_the_advice() -> None:
    assert (
        TaoError("It is live.", "", "End it first:", "tao cancel a-1").next
        == "End it first: tao cancel a-1"
    )


def test_further_advice_comes_last_and_the_first_command_stays() -> None:
    error = TaoError("It is away.", "", "Try:", "ssh node true")
    error.add_advice("It goes on:", "tao logs -f a-1")
    assert (error.next, error.command) == (
        "Try: ssh node true. It goes on: tao logs -f a-1",
        "ssh node true",
    )


def test_a_secret_in_a_command_is_redacted() -> None:
    error = TaoError("What.", command="chmod 600 /secret").redacted(
        lambda text: text.replace("secret", "***")
    )
    assert error.to_json()["next"] == "chmod 600 /***"


@pytest.mark.parametrize("name", ["a b", "a;touch x", "$(touch x)", "a\nb"])
def test_a_name_within_a_command_is_one_word_of_the_shell(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(errors.StoreError) as raised:
        make_directory(folder)
    assert shlex.split(raised.value.command) == ["chmod", "go-w", str(folder)]
