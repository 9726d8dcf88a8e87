"""The output of a verb that fails: what, why and what to do, in that order; for programs the error
object.
"""

from __future__ import annotations

import json
import shlex
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

import click

from tao_sdk.cli import exit_codes
from tao_sdk.cli.detached import Detached
from tao_sdk.cli.flag_words import with_flags
from tao_sdk.cli.output import cut, has_color, marked, stderr_line
from tao_sdk.cli.usage_advice import split_at_dashes, usage_error
from tao_sdk.cli.verbs import VERBS
from tao_sdk.client.crash_file import keep_crash
from tao_sdk.model.errors import SeveralJobs, TaoError, UsageError
from tao_sdk.model.secrets import Redactor, is_secret_name
from tao_sdk.model.settings import Settings

LONGEST_LINE = 1000  # characters of an error that quotes what was given; --json has all of it


def tell(error: BaseException, argv: list[str]) -> int:
    """Print the error on stderr, and return the exit code."""
    if is_interrupt(error):
        error = interrupted(argv)
    if isinstance(error, Detached) and not wants_json(argv):
        print_lines(["", str(error)])  # below the ^C of the terminal
        return exit_codes.DETACHED
    told, code = as_told(error, argv)
    redact = Redactor.of_values(secrets_around(argv))
    if wants_json(argv):
        with suppress(OSError):
            print(redact(as_json(told)), file=sys.stderr)
        return code
    print_lines(redact(as_lines(told)).splitlines())
    return code


def print_lines(lines: Iterable[str]) -> None:
    """Print on stderr, as far as it can be written: the exit code tells the rest."""
    with suppress(OSError):
        for line in lines:
            stderr_line(line)


def tell_unwritable(error: OSError) -> None:
    """Say that stdout could not be written. Jobs go on even if nothing can be printed about
    them.
    """
    print_lines(
        [
            f"error: The output cannot be written: {error.strerror}.",
            "next:  Write it elsewhere; jobs that were started go on: tao ls",
        ]
    )


def interrupted(argv: Sequence[str]) -> Detached:
    """The message after Ctrl-C. `tao run` reports a job itself as soon as there may be one."""
    verb = next((word for word in argv if word in VERBS), "")
    if verb == "run":
        return Detached("Interrupted; nothing was started.")
    return Detached("Interrupted.", "tao ls")


def is_interrupt(error: BaseException | None) -> bool:
    """True for Ctrl-C, also if Python has made another error of it (while a class was being made,
    for one).
    """
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__
    return any(isinstance(cause, KeyboardInterrupt) for cause in causes)


def as_told(error: BaseException, argv: list[str]) -> tuple[TaoError, int]:
    """The error as people see it, and its exit code."""
    if isinstance(error, click.UsageError):
        return usage_error(error, argv), exit_codes.WRONG
    if isinstance(error, click.ClickException):
        return UsageError(error.format_message()), exit_codes.WRONG
    if isinstance(error, Detached):
        return error, exit_codes.DETACHED
    if isinstance(error, SeveralJobs):
        error.add_advice("For example:", command_for_id(error, argv))
    if isinstance(error, TaoError):
        return error, exit_codes.of_error(error)
    return bug(error, argv), exit_codes.BUG


def command_for_id(error: SeveralJobs, argv: Sequence[str]) -> str:
    """The command as typed, with the id of the first job that the word means in the word's
    place.
    """
    words = [error.ids[0] if word == error.word else word for word in argv]
    return shlex.join(["tao", *words])


def as_json(error: TaoError) -> str:
    return json.dumps({"error": error.to_json()})


def as_lines(error: TaoError) -> str:
    """The error's what, why and next, a line each; for several mistakes, those of each one."""
    mistakes: Sequence[TaoError] = getattr(error, "mistakes", ())
    return "\n".join(map(lines_of_one, mistakes or [error]))


def lines_of_one(error: TaoError) -> str:
    head = "error: "
    if has_color(sys.stderr):
        head = marked(head, "red", bold=True)
    told = [(head, error.what), ("why:   ", error.why), ("next:  ", with_flags(error.next))]
    return "\n".join(f"{label}{readable(text)}" for label, text in told if text or label is head)


def readable(text: str) -> str:
    """The text's own lines, one below the other; a line that is too long is cut."""
    return "\n       ".join(cut(line, LONGEST_LINE) for line in text.splitlines())


def wants_json(argv: list[str]) -> bool:
    before, _ = split_at_dashes(argv)
    return "--json" in before or "--jsonl" in before


class Bug(TaoError):
    """An unexpected error: a bug of this program, or a system call that fails without need."""

    code = "bug"


def bug(error: BaseException, argv: list[str]) -> Bug:
    """Keep the traceback in a private file and name the file. The text of the error may hold
    anything, so it is not printed.
    """
    what, do = (
        f"tao met an error of its own ({type(error).__name__}).",
        "Please report it with this file:",
    )
    if isinstance(error, OSError) and error.strerror:
        about = f" ({error.filename})" if error.filename else ""
        what, do = f"The system refused: {error.strerror}{about}.", "What was being done is in"
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    command = " ".join(shlex.quote(word) for word in argv)
    try:
        path = keep_crash(Redactor.of_values(secrets_around(argv))(f"tao {command}\n\n{text}"))
    except OSError as unwritable:
        return Bug(what, f"The details could not be kept: {unwritable.strerror}.")
    except TaoError as nowhere:
        return Bug(
            what, f"The details could not be kept: {nowhere.what}", nowhere.next, nowhere.command
        )
    return Bug(what, "", f"{do} {path}")


def secrets_around(argv: list[str]) -> Iterator[str]:
    """The values of secrets that this process was started with."""
    settings = Settings.load()
    for source in (settings.environ, env_file(settings)):
        yield from (value for name, value in source.items() if is_secret_name(name))
    marked = set(marked_secrets(argv))
    for word in argv:
        parts = word.split("=")
        secret = [
            index for index, name in enumerate(parts[:-1]) if is_secret_name(name) or name in marked
        ]
        yield from ("=".join(parts[index + 1 :]) for index in secret)


def marked_secrets(argv: list[str]) -> Iterator[str]:
    """The names that `--secret NAME` and `--secret=NAME` mark."""
    for word, following in pairwise([*argv, ""]):
        flag, equals, name = word.partition("=")
        if flag in ("--secret", "--secrets"):
            yield name if equals else following


def env_file(settings: Settings) -> Mapping[str, str]:
    try:
        return settings.env_file
    except TaoError:
        return {}
