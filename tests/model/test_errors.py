"""Errors, as a program prints and passes them on."""

from __future__ import annotations

import inspect
import pickle
import traceback

import pytest

from tao_sdk.client.document import DocumentError, Place
from tao_sdk.model import errors
from tao_sdk.model.errors import TaoError, install_command
from tao_sdk.model.fields import FieldError

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.TaoError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_last_line_of_a_traceback_reads_as_sentences(kind: type[errors.TaoError]) -> None:
    error = kind("The input /data is not there: /nope", "No such file or directory", "Check the path.")
    last = traceback.format_exception_only(error)[-1]
    assert last.endswith(": The input /data is not there: /nope. No such file or directory. Check the path.\n")


def test_a_text_that_ends_by_itself_gets_no_second_end() -> None:
    assert str(errors.TaoError("It is gone.", "", "Did you mean a?")) == "It is gone. Did you mean a?"
    assert str(errors.TaoError("No room", "", "Run: df")) == "No room. Run: df"
    assert str(errors.TaoError("job a-1")) == "job a-1"


@pytest.mark.parametrize(
    "error",
    [*(kind("what", "why", "next") for kind in KINDS), FieldError("cpus", "what", "why", "next"),
     DocumentError(Place("job.yaml", 3, 5), "what", "why", "next")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_an_error_comes_whole_out_of_another_process(error: errors.TaoError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("advice", "command"),
    [
        ("End it first: tao cancel digits-1a2b3c4d5e", "tao cancel digits-1a2b3c4d5e"),
        ("tao wait digits-1a2b3c4d5e", "tao wait digits-1a2b3c4d5e"),
        ("Run: chmod 600 /home/me/.env", "chmod 600 /home/me/.env"),
        (install_command("docker"), install_command("docker")),
        ("Did you mean tao retry?", ""),
        ("Did you mean gpu_count?", ""),
        ("Its log: tao logs -f JOB", ""),
        ("Write --set key: tao run --set KEY=VALUE", ""),
        ("To see what would be sent: tao plan, with the same arguments.", ""),
        ("It goes on; wait again, or look with tao status.", ""),
        ("Use another file: tao init a.yaml; rm -r x", ""),
        ("Use another file: tao init a\ntao rm x", ""),
        ("", ""),
    ],
)
def test_for_programs_next_is_a_command_that_can_be_run_or_nothing(advice: str, command: str) -> None:
    told = TaoError("What.", "Why.", advice).to_json()
    assert told["next"] == command
    assert told["hint"] == ("" if command == advice else advice)
