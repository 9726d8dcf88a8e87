"""The declaration of verbs: each has --json and --state-file, and gets its output and, if it asks
for one, a client.

@command("cancel")
@jobs_argument
def cancel(client: Client, out: Output, jobs: tuple[str, ...]) -> int | None: ...
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from tao_sdk.cli.output import Output
from tao_sdk.cli.verbs import VERBS
from tao_sdk.client.known_jobs import ids_named
from tao_sdk.model.errors import JobNotFound, NoStore, UsageError
from tao_sdk.model.status import Status
from tao_sdk.model.units import parse_duration

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tao_sdk.client import Client

Verb = Callable[..., "int | None"]
# verbs that go on for long and say meanwhile what they cannot do
WARNING = frozenset({"watch", "logs"})
# verbs that need no job: they may begin a new job store
BEGINNING = frozenset({"run", "plan", "doctor", "files", "automl"})


def command(
    name: str, cls: type[click.Command] = click.Command, watches: bool = False
) -> Callable[[Verb], click.Command]:
    """Make a function a verb. Its return value is the exit code; None counts as 0.

    With `watches`, its client carries the live jobs on for as long as the verb runs, unless it is
    told to detach.
    """

    def declare(verb: Verb) -> click.Command:
        @functools.wraps(verb)
        def carry_out(
            as_json: bool, as_lines: bool, state_file: str | None, **given: Any
        ) -> int | None:
            as_lines = as_lines or bool(before_the_verb("as_lines"))
            out = Output(as_json or as_lines or bool(before_the_verb("as_json")), as_lines)
            if "client" not in inspect.signature(verb).parameters:
                return verb(out=out, **given)
            from tao_sdk.cli.log_lines import tell_warnings
            from tao_sdk.cli.wait_lines import tell_waits

            tell_warnings(printed=name in WARNING and not out.json)
            if not out.json:
                tell_waits()
            begins = name in BEGINNING or bool(given.get("forever"))
            client = open_client(
                state_file, watch=watches and not given.get("detach"), begins=begins
            )
            with closing_whole(client):
                return verb(client=client, out=out, **given)

        made = click.command(name, cls=cls, short_help=VERBS[name].summary)(carry_out)
        made.params += [
            click.Option(["--json", "as_json"], is_flag=True, help="Print JSON, for programs."),
            click.Option(
                ["--jsonl", "as_lines"],
                is_flag=True,
                help="Print JSON, an object a line; lists come as lines.",
            ),
            click.Option(
                ["--state-file"],
                metavar="FILE",
                help="The job store to use instead of the user's own.",
            ),
        ]
        return made

    return declare


@contextmanager
def closing_whole(client: Client) -> Generator[None]:
    """Close the client after the verb. Ctrl-C cuts the closing short, and the verb's own end
    stands.
    """
    try:
        yield
    finally:
        with suppress(KeyboardInterrupt):
            client.close()


def open_client(state_file: str | None, watch: bool = False, begins: bool = True) -> Client:
    """Open the client. Raises NoStore for a named job store that is not there, unless the verb
    `begins` one.
    """
    from tao_sdk.client import opening

    named = state_file or before_the_verb("state_file")
    return opening.open_client(named, watch=watch, begins=begins)


def before_the_verb(flag: str) -> Any:
    """The value of a flag of every verb that was given before the verb; None if it was not."""
    context = click.get_current_context(silent=True)
    if context is None:
        return None
    return context.find_root().params.get(flag)


# ruff: noqa: ARG002  click calls these methods with more than they need


class JobId(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  generic since click 8.4 only
    """A job's id, its name, or the start of its id; the shell completes ids from the store."""

    name = "job"
    allowed = "the id or the name of a job"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        try:
            with open_client(ctx.params.get("state_file"), begins=False) as client:
                jobs = client.list_jobs(look=False)
        except NoStore:
            return []
        return [
            CompletionItem(job.id, help=job.status.value)
            for job in jobs
            if job.id.startswith(incomplete)
        ]


class StatusName(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]
    """The name of a status, in any case."""

    name = "status"
    NAMES = tuple(status.value.lower() for status in Status)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in self.NAMES if name.startswith(incomplete.lower())]

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Status:
        name = str(value).lower()
        if name in self.NAMES:
            return Status(name.capitalize())
        raise UsageError(f"invalid status: {value!r}", "", self.advice(name))

    def advice(self, word: str) -> str:
        """Name the status that was meant by the word; else list all of them."""
        from tao_sdk.client.status_words import meant_status

        meant = meant_status(word)
        if meant:
            return f"Did you mean {meant.value.lower()}?"
        return f"Known are: {', '.join(self.NAMES)}."


class Duration(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]
    """`30s`, `5m`, `4h`. A bare number is seconds; with `unit` it is refused, as it could be taken
    for days.
    """

    name = "duration"

    def __init__(self, unit: bool = False) -> None:
        self.unit = unit

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if self.unit and isinstance(value, str) and value.isdigit() and int(value):
            self.fail(f"{value!r} has no unit: {value}d are days, {value}h are hours.", param, ctx)
        try:
            duration = value if isinstance(value, timedelta) else seconds_or_duration(value)
        except ValueError as error:
            self.fail(f"{value!r} is not {error}.", param, ctx)
        except OverflowError:
            self.fail(f"{value!r} is longer than time can be counted.", param, ctx)
        if duration < timedelta(0):
            self.fail(f"{value!r} is negative.", param, ctx)
        return duration


def seconds_or_duration(text: str) -> timedelta:
    try:
        seconds = float(text)
    except ValueError:
        return parse_duration(text)
    if math.isnan(seconds):
        return parse_duration(text)
    return timedelta(seconds=seconds)


class Platform(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]
    """The name of a platform, or of an endpoint of config.yaml."""

    name = "platform"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from tao_sdk.client.place_names import place_names

        return [CompletionItem(name) for name in place_names() if name.startswith(incomplete)]


def platform_option(**more: Any) -> Callable[[Verb], Verb]:
    return click.option("--platform", type=Platform(), metavar="NAME", **more)


job_argument = click.argument("job", type=JobId())


jobs_argument = click.argument("jobs", nargs=-1, type=JobId(), metavar="[JOB...]")


def labels_option(text: str) -> Callable[[Verb], Verb]:
    """The option --label of a verb that takes many jobs. Given several times, a job must have all
    of them.
    """
    return click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help=text)


def refuse_two_choices(verb: str, choices: Sequence[str], *given: object) -> None:
    """Raise UsageError unless the jobs are chosen in exactly one way."""
    if sum(map(bool, given)) == 1:
        return
    ways = " or ".join(f"tao {verb} {choice}" for choice in choices)
    raise UsageError(f"{verb} takes {' or '.join(choices)}.", "", ways)


optional_job_argument = click.argument("job", required=False, type=JobId())


def job_or_newest(client: Client, out: Output, job: str | None) -> str:
    """The job for a verb that only looks. If none is named, it is the newest of all, and a note
    says so.
    """
    if job is not None:
        return newest(client, out, job)
    jobs = client.list_jobs(limit=1, look=False)
    if not jobs:
        raise JobNotFound("No jobs yet.", "", "Start one:", "tao run job.yaml")
    note = f"{jobs[0].id}, the newest job."
    out.aside(note, {"note": note})
    return jobs[0].id


def newest(client: Client, out: Output, job: str) -> str:
    """The job for a verb that only looks. If several jobs have the name, it is the newest of them,
    and a note says so.
    """
    named = ids_named(client, job)
    if len(named) < 2:
        return job
    note = f"{named[0]}, the newest of {len(named)} jobs named {job}."
    out.aside(note, {"note": note})
    return named[0]


def all_named(client: Client, out: Output, job: str) -> list[str]:
    """The jobs for a verb that compares jobs: all jobs of that name. A note says how many."""
    named = ids_named(client, job)
    if len(named) < 2:
        return [job]
    out.note(f"{len(named)} jobs are named {job}; all of them are compared.")
    return named


def one_or_list(values: list[Any], asked: int) -> Any:
    """The value that --json prints: the object when one was asked for, else the list."""
    if asked == 1 and len(values) == 1:
        return values[0]
    return values
