"""`tao run` and `tao plan`: from a job file, flags, or a command after `--`, to a job."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tao_sdk.backends.registry import endpoints, is_known, platform_at, platforms
from tao_sdk.cli import exit_codes, show
from tao_sdk.cli.command import command, platform_option
from tao_sdk.cli.failure import Detached
from tao_sdk.cli.flags import OPTION, SPEC, flags, generic, given
from tao_sdk.cli.output import Output
from tao_sdk.client.image_key import with_image
from tao_sdk.client.job_file import JobFile, options_class, read_job_file
from tao_sdk.client.set_values import with_values
from tao_sdk.model.errors import JobNotFound, SpecError, TaoError, Unreachable, UsageError, sentences
from tao_sdk.model.fields import settings_of
from tao_sdk.model.finding import Severity
from tao_sdk.model.secrets import is_secret_name
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, read_spec

if TYPE_CHECKING:
    from tao_sdk.client.client import Client
    from tao_sdk.engine.prepare import Planned
    from tao_sdk.engine.submit import Submission
    from tao_sdk.model.job import Job

DEFAULT_PLATFORM = "local"
OWN_FLAGS = frozenset({*settings_of(JobSpec), "platform", "option", "set", "detach", "json", "state_file", "help"})
NAMED = re.compile(r"""^platform:[ \t]*["']?([\w-]+)""", re.MULTILINE)  # in a job file
NEEDS_FACTS = "A plan needs an answer of the place that it is for: nothing was planned."


class Submitting(click.Command):
    """A command whose flags depend on the platform that it is given, and that takes a command after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before, words = split_at_dashes(args)
        ctx.meta["tao.words"] = words
        ctx.meta["tao.platform"] = platform_at(place_in(before), Settings.load())
        try:
            return super().parse_args(ctx, [*before])
        except click.UsageError as error:
            raise words_of_a_command(flag_of_another(error), before, words) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        record = options_class(ctx.meta.get("tao.platform", DEFAULT_PLATFORM))
        return [*own, *flags(JobSpec, SPEC), *(flags(record, OPTION, OWN_FLAGS) if record else [])]

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND ...]"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Options": [], "What to run": [], "How to run it": []}
        groups[(how := f"How to run it on {ctx.meta['tao.platform']}")] = groups.pop("How to run it")
        for param in self.get_params(ctx):
            name = param.name or ""
            group = "What to run" if name.startswith(SPEC) else how if name.startswith(OPTION) else "Options"
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                groups[group].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def flag_of_another(error: click.UsageError) -> click.UsageError:
    """A flag that only other platforms have, told as that."""
    if not isinstance(error, click.NoSuchOption):
        return error
    name = error.option_name.removeprefix("--").replace("-", "_")
    theirs = [each for each in platforms() if (record := options_class(each)) and name in settings_of(record)]
    if not theirs:
        return error
    return click.UsageError(
        f"{error.option_name} is for {' and '.join(theirs)} only: add --platform {theirs[0]}.", error.ctx
    )


def words_of_a_command(error: click.UsageError, args: Sequence[str], words: Sequence[str]) -> click.UsageError:
    """What was typed without the dashes before it, told as that: `tao run python train.py --lr 3`."""
    alone = [index for index in range(len(args)) if not index or not args[index - 1].startswith("--")]
    typed = next((index for index in alone if shutil.which(args[index]) and not Path(args[index]).is_file()), None)
    if typed is None or words:
        return error
    meant = shlex.join([*args[:typed], "--", *args[typed:]])
    return click.UsageError(f"{args[typed]} is no job file. To run it as a command: tao run {meant}", error.ctx)


def split_at_dashes(args: Sequence[str]) -> tuple[list[str], list[str]]:
    at = list(args).index("--") if "--" in args else len(args)
    return list(args[:at]), list(args[at + 1 :])


def place_in(args: Sequence[str]) -> str:
    """The place whose flags are meant: that of --platform, else that of the job file. Quick, and only for the flags."""
    for index, word in enumerate(args):
        name, equals, value = word.partition("=")
        if name == "--platform":
            return value if equals else "".join(args[index + 1 : index + 2])
    for word in args:
        if word.endswith((".yaml", ".yml")) and Path(word).is_file():
            found = NAMED.search(Path(word).read_text(errors="replace"))
            if found and (
                is_known(found[1]) or found[1] in endpoints(Settings.load())
            ):  # else its reader tells where it is wrong
                return found[1]
    return DEFAULT_PLATFORM


def is_place(name: str) -> bool:
    """Whether it names a platform or an endpoint."""
    return is_known(name) or name in endpoints(Settings.load())


@dataclass(frozen=True)
class Asked:
    """What is to be run where, and the file it came from, if any."""

    spec: JobSpec
    platform: str  # or the name of an endpoint
    options: Mapping[str, Any]
    file: JobFile | None
    notes: tuple[str, ...] = ()

    def located(self, error: SpecError) -> SpecError:
        return self.file.located(error) if self.file else error


def asked(
    job_file: str | None,
    platform: str | None,
    option: Sequence[str],
    params: Mapping[str, Any],
    values: Sequence[str] = (),
) -> Asked:
    """The job that the command line asks for; what it says wins over the job file."""
    words: list[str] = click.get_current_context().meta.get("tao.words", [])
    changes = given(JobSpec, params, SPEC)
    if words:
        changes["command"] = words[0] if len(words) == 1 else shlex.join(words)
    refuse_nothing(job_file, changes)
    native = changes.pop("native", None)
    file = read_job_file(job_file, changes) if job_file else None
    where = platform or (file.platform if file else None) or DEFAULT_PLATFORM
    platform = platform_at(where, Settings.load())
    spec = file.spec_for(platform) if file else read_spec(changes)
    if spec.keep_results is None:
        spec = replace(spec, keep_results=True)
    changed = with_values(replace(spec, native=native) if native else spec, values)
    final, notes = with_image(changed.spec)
    return Asked(final, where, options(platform, file, option, params), file, (*changed.notes, *notes))


def options(platform: str, file: JobFile | None, option: Sequence[str], params: Mapping[str, Any]) -> dict[str, Any]:
    record = options_class(platform)
    typed = {**given(record, params, OPTION), **generic(record, option, platform)} if record else {}
    return {**(file.options_for(platform) if file else {}), **typed}


def refuse_nothing(job_file: str | None, changes: Mapping[str, Any]) -> None:
    if job_file is None and not changes.get("command"):
        raise UsageError(
            "There is nothing to run.",
            "",
            "Name a job file, or write a command after --, such as `tao run -- python train.py`.",
        )
    if job_file is not None and job_file.endswith((".py", ".sh")):
        runner = "python" if job_file.endswith(".py") else "bash"
        raise UsageError(
            f"{job_file} is not a job file.",
            "",
            f"To run it: tao run --files {job_file} -- {runner} {Path(job_file).name}",
        )
    if job_file is not None and shutil.which(job_file) and not Path(job_file).exists():
        raise UsageError(f"{job_file} is not a job file.", "", f"To run it as a command: tao run -- {job_file}")


set_option = click.option(
    "--set", "values", multiple=True, metavar="KEY=VALUE", help="One value of the specs or args: train.lr=0.1."
)


def submitting(verb: Any) -> Any:
    """The arguments that run and plan have in common."""
    verb = click.option("--option", "option", multiple=True, metavar="NAME=VALUE", help="Any option of the platform.")(
        verb
    )
    verb = set_option(verb)
    verb = platform_option(help="Where to run it. Default: as the job file says, else local.")(verb)
    return click.argument("job_file", required=False, metavar="[JOB.yaml]", type=click.Path())(verb)


@command("run", cls=Submitting, watches=True)
@submitting
@click.option("--detach", "-d", is_flag=True, help="Hand the job over and return at once.")
def run(
    client: Client,
    out: Output,
    job_file: str | None,
    platform: str | None,
    option: tuple[str, ...],
    values: tuple[str, ...],
    detach: bool,
    **params: Any,
) -> int:
    """Run a job file, or the command after --, and watch it until it has ended. Flags win over the job file.

    A flag that takes a list, or NAME=VALUE, may be given several times.

    \b
      tao run job.yaml
      tao run job.yaml --gpus 2 --time-limit 4h --set train.lr=0.1
      tao run --name try-1 --files train.py -- python train.py

    Ctrl-C leaves the job running, and says how to come back.
    """
    wanted = asked(job_file, platform, option, params, values)
    tell_notes(out, wanted.notes)
    warn_of_open_secrets(out, params)
    try:
        job = told(out, client.submit(wanted.spec, wanted.platform, wanted.options))
    except SpecError as error:
        raise wanted.located(error) from None
    except KeyboardInterrupt:
        raise interrupted(client) from None
    return detached(out, job) if detach else watched(client, out, job)


def told(out: Output, submission: Submission) -> Job:
    """The job, after what is worth knowing about it."""
    for finding in submission.findings:
        out.aside(show.finding(finding), {"finding": finding.to_json()})
    tell_notes(out, submission.notes)
    return submission.job


def tell_notes(out: Output, notes: Iterable[str]) -> None:
    for note in notes:
        out.aside(f"note: {note}", {"note": note})


def interrupted(client: Client) -> Detached:
    """Ctrl-C while the job was handed over: whoever looks next at one that is left finishes that."""
    job = client.engine.last_kept
    if not job or not client.store.named(job):
        return Detached("Interrupted; nothing was started.")
    return Detached(f"Interrupted; {job} goes on.", f"tao logs -f {job}")


def detached(out: Output, job: Job) -> int:
    out.object(job.to_json())
    out.line(f"{job.id}  {job.place}  {out.status(job.status.value)}")
    out.note(f"Come back: tao logs -f {job.id}")
    return exit_codes.DONE


def watched(client: Client, out: Output, job: Job) -> int:
    from tao_sdk.cli.watching import ended_with_events, ended_with_screen

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to be told to end is to detach, too
    try:
        ended = (ended_with_events if out.json else ended_with_screen)(client, out, job)
    except KeyboardInterrupt:
        raise Detached(f"Detached; {job.id} goes on.", f"tao attach {job.id}") from None
    except JobNotFound:  # it was removed meanwhile
        raise
    except TaoError as error:
        if not client.get_job(job.id, look=False).status.terminal:
            error.next = sentences(error.next, f"{job.id} goes on: tao logs -f {job.id}")
        raise
    return exit_codes.of_statuses([ended.status])


def warn_of_open_secrets(out: Output, params: Mapping[str, Any]) -> None:
    """A value on the command line can be read by everybody on this machine, while the command runs."""
    for text in params.get(SPEC + "env_vars") or ():
        name, equals, _ = text.partition("=")
        if equals and is_secret_name(name):
            note = f"others on this machine can read {name} in this command line; --env {name} takes it from here."
            out.aside(f"warning: {note}", {"note": note})


@command("plan", cls=Submitting)
@submitting
@click.option("--full", is_flag=True, help="Show all that would be sent: the manifest, its environment, the files.")
def plan(
    client: Client,
    out: Output,
    job_file: str | None,
    platform: str | None,
    option: tuple[str, ...],
    values: tuple[str, ...],
    full: bool,
    **params: Any,
) -> int:
    """Show what `tao run` with the same arguments would send, and what the checks say. Nothing is sent or stored.

    With --full and with --json exactly that. Secrets are shown by name. The exit code is 2 when the job would be refused.
    """
    wanted = asked(job_file, platform, option, params, values)
    tell_notes(out, wanted.notes)
    try:
        planned = client.plan(wanted.spec, wanted.platform, wanted.options)
    except SpecError as error:
        raise wanted.located(error) from None
    except Unreachable as error:
        error.next = sentences(error.next, NEEDS_FACTS)
        raise
    from tao_sdk.cli import planned as shown

    out.object(plan_json(planned))
    out.lines(
        shown.whole(planned, plan_json(planned), out) if full else [] if out.json else shown.summary(planned, out)
    )
    refused = any(finding.severity is Severity.ERROR for finding in planned.findings)
    return exit_codes.WRONG if refused else exit_codes.DONE


def plan_json(planned: Planned) -> dict[str, Any]:
    """The plan object of --json, schema 1."""
    plan = planned.plan
    return {
        "schema": 1,
        "id": plan.attempt.job_id,
        "platform": plan.attempt.platform,
        "endpoint": plan.attempt.endpoint,
        **plan.to_json(),
        "findings": [finding.to_json() for finding in planned.findings],
    }
