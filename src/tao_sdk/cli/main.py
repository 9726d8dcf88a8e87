"""The entry point: finds the verb, runs it, and turns any error into a few lines and an exit code.

A verb's module is loaded when the verb is used, so that `tao --help` and `tao ls` are quick. No
traceback is ever printed.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn, TextIO

import click

from tao_sdk.cli import exit_codes
from tao_sdk.cli.habits import FIRST_WORDS, INSTEAD, MEANT
from tao_sdk.cli.verbs import VERBS

COMPLETE = "_TAO_COMPLETE"
PRINTING = frozenset({"tao_sdk.cli.output", "click.utils"})  # the modules that print
# the similarity from which a word is a mistyped verb: "lgos" is one, "resume" is not "results"
LIKE = 0.7


# ruff: noqa: ARG002  click calls these methods with more than they need


class Tao(click.Group):
    """The command with its verbs, none of them loaded before it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        return getattr(import_module(f"tao_sdk.cli.{VERBS[cmd_name].module}"), cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] == "help":
            return self.help_on(ctx, args[1:])
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise unknown_verb(args)
        return super().resolve_command(ctx, args)

    def help_on(
        self, ctx: click.Context, words: Sequence[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Carry out `help` and `help run`: --help of the command, or of the verb."""
        names = [word for word in words if not word.startswith("-")]
        if names:
            return self.resolve_command(ctx, [names[0], "--help"])
        click.echo(ctx.get_help())
        ctx.exit()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), what) for code, what in exit_codes.MEANINGS.items()])


def unknown_verb(args: Sequence[str]) -> Exception:
    """The error for a word that is no verb, with the verb that was meant or does the same here."""
    from tao_sdk.model.errors import UsageError

    name = args[0]
    if name.endswith((".yaml", ".yml")):
        return UsageError(f"unknown verb: {name!r}", "", "To run a job file:", f"tao run {name}")
    what = f"unknown verb: {name!r}"
    if name.endswith((".py", ".sh")):
        command = shlex.join(["tao", "run", "--", program_of(name), name])
        return UsageError(what, "", "To run a program:", command)
    name = verb_word(args)
    if name in VERBS:
        return UsageError(what, "", f"Did you mean tao {name}?")
    if name in INSTEAD:
        return UsageError(what, "", INSTEAD[name])
    if verb := MEANT.get(name) or near_verb(name):
        return UsageError(what, "", f"Did you mean tao {verb}?")
    return UsageError(what, "", "Help:", "tao --help")


def program_of(script: str) -> str:
    """The program that runs a script with this name."""
    return "python3" if script.endswith(".py") else "bash"


def verb_word(args: Sequence[str]) -> str:
    """The word that names the action: the first, or the second after `job` or another tool's name,
    as in `job ls`.
    """
    from tao_sdk.client.place_names import PLATFORM_TOOLS

    first, *rest = args
    if first not in FIRST_WORDS | PLATFORM_TOOLS:
        return first
    return next((word for word in rest if not word.startswith("-")), "job")


def near_verb(name: str) -> str:
    """The verb that the word is like; "" if it is like none."""
    import difflib

    return next(iter(difflib.get_close_matches(name, VERBS, n=1, cutoff=LIKE)), "")


def print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        import json

        from tao_sdk import __version__

        click.echo(
            json.dumps({"schema": 1, "version": __version__})
            if wants_json(ctx)
            else f"tao {__version__}"
        )
        ctx.exit()


def wants_json(ctx: click.Context) -> bool:
    """True if --json was given before the verb. It is read before everything else."""
    return bool(ctx.params.get("as_json") or ctx.params.get("as_lines"))


@click.group(
    cls=Tao, context_settings={"help_option_names": ["-h", "--help"]}, subcommand_metavar="VERB ..."
)
@click.option(
    "--state-file", metavar="FILE", help="The job store to use instead of the user's own."
)
@click.option("--json", "as_json", is_flag=True, is_eager=True, help="Print JSON, for programs.")
@click.option(
    "--jsonl", "as_lines", is_flag=True, is_eager=True, help="Print JSON, an object a line."
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    expose_value=False,
    callback=print_version,
    help="Show the version.",
)
def tao(**_: Any) -> None:
    """Run training jobs, and lose no job, log or result: as processes of this machine, as
    containers or on a cluster. `tao run --help` names the platforms.

    \b
      tao run job.yaml                               run it and watch
      tao run --files train.py -- python train.py    run a program
      tao why JOB                                    why it waits or failed

    A JOB is an id, a name, or the start of an id, while only one job is meant.
    """


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit. `python -m tao_sdk.cli.main` runs this, and so does the script
    `tao` once it is loaded.
    """
    stand_in_for_closed_streams()
    code = run(list(sys.argv[1:] if argv is None else argv))
    if refused := write_error(sys.stdout):
        code = code or end_output(refused)
    if write_error(sys.stderr):
        drop_rest(sys.stderr)
    raise SystemExit(code)


def run(argv: list[str]) -> int:
    """Run the command and return its exit code. All errors have been printed on stderr."""
    speak_any_language()
    if COMPLETE in os.environ:
        from click.shell_completion import shell_complete

        return shell_complete(tao, {}, "tao", COMPLETE, os.environ[COMPLETE])
    try:
        return invoke(argv)
    except click.exceptions.Exit as end:  # --help and --version: nothing is to be told
        return end.exit_code
    except BrokenPipeError as error:
        return end_output(error)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  one of the two ends of the process
        if isinstance(error, OSError) and is_of_output(error):
            return end_output(error)
        from tao_sdk.cli.failure import tell

        return tell(error, argv)


def is_of_output(error: OSError) -> bool:
    """True for an error of writing the command's output, not of a file or a store."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__") in PRINTING


def write_error(stream: TextIO) -> OSError | None:
    """The error with which printed output cannot be written; None if it can."""
    try:
        stream.flush()
    except OSError as error:
        return error
    return None


def end_output(error: OSError) -> int:
    """The exit code of a command whose output cannot be written. If the reader has gone, nothing is
    printed.
    """
    drop_rest(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return exit_codes.BROKEN_PIPE
    from tao_sdk.cli.failure import tell_unwritable

    tell_unwritable(error)
    return exit_codes.UNWRITABLE


def invoke(argv: list[str]) -> int:
    with tao.make_context("tao", [*argv] or ["--help"]) as context:
        result: Any = tao.invoke(context)
    if isinstance(result, int):
        return result
    return exit_codes.DONE


def stand_in_for_closed_streams() -> None:
    """Open the null device for each stream that the caller has closed (`>&-`). Otherwise the next
    file that is opened would get its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def speak_any_language() -> None:
    """Print job names and paths even if the terminal's encoding has no letters for them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def drop_rest(stream: TextIO) -> None:
    """Send what Python still holds for the stream to the null device, so that it does not raise
    again at exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()
