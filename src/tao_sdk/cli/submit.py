"""`tao run` and `tao plan`: from a job file, flags, or a command after `--`, to a job."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tao_sdk.cli import exit_codes
from tao_sdk.cli.command import command, platform_option
from tao_sdk.cli.detached import Detached
from tao_sdk.cli.first_words import FirstWords
from tao_sdk.cli.flags import MODEL, OPTION, SPEC, flags, typed_under
from tao_sdk.cli.habits import flag_instead
from tao_sdk.cli.output import Output
from tao_sdk.cli.usage_advice import (
    command_without_dashes,
    line_with_mount,
    platform_as_word,
    refuse_flag_as_command,
    split_at_dashes,
    whole_line,
)
from tao_sdk.client.job_request import (
    DEFAULT_PLATFORM,
    JobRequest,
    NotAJobFile,
    TypedJob,
    platforms_with,
    read_request,
)
from tao_sdk.client.known_jobs import last_submitted
from tao_sdk.client.model_request import MODEL_KEYS, ModelRequest
from tao_sdk.client.place_names import options_class, place_in_file, platform_of
from tao_sdk.client.typed_values import open_secrets
from tao_sdk.client.views import plan_view
from tao_sdk.model.errors import JobNotFound, Refused, SpecError, TaoError, Unreachable, UsageError
from tao_sdk.model.fields import settings_of
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.reasons import Reason
from tao_sdk.model.spec import JobSpec

if TYPE_CHECKING:
    from tao_sdk.client import Client, Planned, Submission
    from tao_sdk.model.job import Job

MOUNT_WORDS = "To mount its folder:"
Checked = TypeVar("Checked", "Submission", "Planned")
ON, OFF = "on", "off"  # automl_policy
OWN_FLAGS = frozenset(
    {
        *settings_of(JobSpec),
        *MODEL_KEYS,
        "platform",
        "option",
        "set",
        "detach",
        "fix",
        "smoke",
        "smoke_image",
        "idempotency_key",
        "automl_policy",
        "json",
        "state_file",
        "help",
    }
)


class Submitting(click.Command):
    """A command with the flags of the given platform, and with a command after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before, words = split_at_dashes(args)
        refuse_flag_as_command(str(ctx.info_name), before, words)
        ctx.meta["tao.args"] = list(before)
        ctx.meta["tao.words"] = words
        ctx.meta["tao.platform"] = platform_of(place_in(before))
        try:
            return super().parse_args(ctx, [*before])
        except click.UsageError as error:
            raise meant(error, before, words) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = [*super().get_params(ctx), *flags(ModelRequest, MODEL), *flags(JobSpec, SPEC)]
        record = options_class(ctx.meta.get("tao.platform", DEFAULT_PLATFORM))
        if record:
            params += flags(record, OPTION, OWN_FLAGS)
        return params

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND ...]"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        headings = {
            "": "Options",
            MODEL: "A model by its name",
            SPEC: "What to run",
            OPTION: f"How to run it on {ctx.meta['tao.platform']}",
        }
        groups: dict[str, list[tuple[str, str]]] = {prefix: [] for prefix in headings}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                groups[prefix_of(param)].append(record)
        for prefix, records in groups.items():
            if records:
                with formatter.section(headings[prefix]):
                    formatter.write_dl(records)


def prefix_of(param: click.Parameter) -> str:
    """SPEC for a flag of the job, MODEL for a flag of a model, OPTION for one of the platform, ""
    for one of the verb.
    """
    name = param.name or ""
    return next((prefix for prefix in (SPEC, MODEL, OPTION) if name.startswith(prefix)), "")


def meant(
    error: click.UsageError, args: Sequence[str], words: Sequence[str]
) -> click.UsageError | UsageError:
    """The error for the likely mistake: another platform's flag, or a command without `--`."""
    verb = str(error.ctx.info_name) if error.ctx else "run"
    if isinstance(error, click.NoSuchOption):
        if error.option_name == "--file" and words:
            what = "No such option: --file"
            return UsageError(what, "", "To send a file with the job: --files PATH")
        if flag_instead(verb, error.option_name):
            return error
        error = flag_of_another(error)
    if platform := platform_as_word(verb, args, words):
        return platform
    if words:
        return error
    return command_without_dashes(verb, args) or error


def flag_of_another(error: click.NoSuchOption) -> click.UsageError:
    """The error for a flag that only other platforms have."""
    name = error.option_name.removeprefix("--").replace("-", "_")
    theirs = platforms_with(name)
    if not theirs:
        return error
    return click.UsageError(
        f"{error.option_name} is for {' and '.join(theirs)} only: add --platform {theirs[0]}.",
        error.ctx,
    )


def place_in(args: Sequence[str]) -> str:
    """The place whose flags are meant: that of --platform, else that of the job file. Quick, and
    only for the flags.
    """
    for index, word in enumerate(args):
        name, equals, value = word.partition("=")
        if name == "--platform":
            if equals:
                return value
            return next(iter(args[index + 1 : index + 2]), DEFAULT_PLATFORM)
    for word in args:
        if word.endswith((".yaml", ".yml")) and Path(word).is_file():
            named = place_in_file(Path(word))
            if named:  # else its reader tells where it is wrong
                return named
    return DEFAULT_PLATFORM


def asked(
    client: Client,
    job_file: str | None,
    platform: str | None,
    option: Sequence[str],
    params: Mapping[str, Any],
    values: Sequence[str] = (),
) -> JobRequest:
    """The job that the command line asks for."""
    context = click.get_current_context()
    words: list[str] = context.meta.get("tao.words", [])
    fields, options = typed_under(SPEC, params), typed_under(OPTION, params)
    model = typed_under(MODEL, params)
    typed = TypedJob(job_file, platform, words, fields, options, option, values, model)
    try:
        return read_request(typed, client)
    except NotAJobFile as error:
        args: list[str] = context.meta["tao.args"]
        raise whole_line(error, str(context.info_name), args, words) from None


def asks_for_job(params: Mapping[str, Any]) -> bool:
    """True if the command line has flags of a job, or a command after `--`."""
    typed = [*typed_under(SPEC, params).values(), *typed_under(MODEL, params).values()]
    words: list[str] = click.get_current_context().meta.get("tao.words", [])
    return bool(words) or any(value not in (None, ()) for value in typed)


set_option = click.option(
    "--set",
    "values",
    multiple=True,
    metavar="KEY=VALUE",
    help="One value of the specs or args, or of a model: train.lr=0.1.",
)


option_option = click.option(
    "--option",
    "option",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any option of the platform.",
)


def submitting(verb: Any) -> Any:
    """The arguments that run and plan have in common."""
    verb = set_option(option_option(verb))
    verb = platform_option(help="Where to run it. Default: as the job file says, else local.")(verb)
    return click.argument("job_file", required=False, metavar="[JOB.yaml]", type=click.Path())(verb)


@command("run", cls=Submitting, watches=True)
@submitting
@click.option("--detach", "-d", is_flag=True, help="Hand the job over and return at once.")
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="A text of your own, new for each job: the same command with the same key starts no "
    "second job, and takes the first one.",
)
@click.option(
    "--automl-policy",
    "policy",
    type=click.Choice(("on", "off")),
    help="on: search the best settings, as tao automl run does. off: one plain job.",
)
def run(
    client: Client,
    out: Output,
    job_file: str | None,
    platform: str | None,
    option: tuple[str, ...],
    values: tuple[str, ...],
    detach: bool,
    idempotency_key: str | None,
    policy: str | None,
    **params: Any,
) -> int:
    """Run a job file, or the command after --, and watch it until it has ended. Flags win over the
    job file.

    A flag that takes a list, or NAME=VALUE, may be given several times.

    \b
      tao run job.yaml
      tao run job.yaml --gpus 2 --time-limit 4h --set train.lr=0.1
      tao run --name try-1 --files train.py -- python train.py
      tao run --files eval.py --inputs best.pt=PATH -- python eval.py --ckpt best.pt
      tao run --model digits --action train

    What the command writes to $TAO_RESULTS_DIR, or to a folder of --outputs, is kept.

    Jobs that belong together get one --label, which ls, compare, wait, cancel and rm take. --parent
    is for a model that continues an earlier job; in Python any job can have one.

    Ctrl-C leaves the job running, and says how to come back. --json prints a JSON object a line
    while it watches; with --detach one object, indented.

    The exit code is 0 if the job is Complete, 1 if it ended in Error, 6 if it is Canceled, 2 if it
    was refused, 130 after Ctrl-C; with --detach 0 once it is handed over. All codes: tao --help
    """
    wanted = asked(client, job_file, platform, option, params, values)
    tell_notes(out, wanted.notes)
    warn_of_open_secrets(out, params)
    policy = policy or policy_of(wanted)
    if policy == ON:
        refuse_flags_of_job(detach, idempotency_key)
        from tao_sdk.cli.automl import search_for

        return search_for(client, out, wanted)
    if policy is None:
        tell_notes(out, search_notes(wanted))
    return run_job(client, out, wanted, job_file, detach, idempotency_key)


def run_job(
    client: Client,
    out: Output,
    wanted: JobRequest,
    job_file: str | None,
    detach: bool,
    idempotency_key: str | None,
) -> int:
    """Hand a job over, and watch it unless it is detached."""
    mount_line = partial(typed_with_mount, job_file)
    first = FirstWords(out)
    on_stored = partial(tell_stored, out, None if detach else first, mount_line)
    try:
        submission = handed_over(client, wanted, idempotency_key, first, on_stored)
        if submission.repeated:
            told(out, submission)
        if detach:
            return detached(out, submission.job)
        return watched(client, out, submission.job, first=first)
    except SpecError as error:
        raise wanted.located(error) from None
    except Refused as error:
        if line := mount_line(error.next):
            raise refused_with_line(error, line) from None
        raise
    except KeyboardInterrupt:
        raise interrupted(client) from None


def policy_of(wanted: JobRequest) -> str | None:
    """`automl_policy` of the job file: ON, OFF, or None where it says nothing. YAML may read the
    words as true and false. Raises DocumentError.
    """
    node = wanted.file.nodes.get("automl_policy") if wanted.file else None
    if node is None or node.data is None:
        return None
    value: Any = node.plain()
    if value in (True, ON):
        return ON
    if value in (False, OFF):
        return OFF
    from tao_sdk.client.document import DocumentError

    raise DocumentError(
        node.place, f"automl_policy is {value!r}; it must be on or off.", "", "Write on or off."
    )


def is_search(wanted: JobRequest) -> bool:
    """True for a job whose plan is that of a search: by its block, or because its policy is on."""
    policy = policy_of(wanted)
    has_block = wanted.file is not None and "search" in wanted.file.places
    return policy == ON or (has_block and policy != OFF)


def refuse_flags_of_job(detach: bool, idempotency_key: str | None) -> None:
    """Raise UsageError for a flag that only one job can have."""
    given = {"--detach": detach, "--idempotency-key": idempotency_key}
    for flag in (name for name, value in given.items() if value):
        what = f"{flag} is for one job, and automl_policy is on: this is a search."
        why = "A search is driven; after Ctrl-C its jobs go on."
        raise UsageError(what, why, f"Leave {flag} out, or add --automl-policy off.")


def search_notes(wanted: JobRequest) -> Iterator[str]:
    """A note on a job that can be searched: it is run as one job all the same."""
    if wanted.file and "search" in wanted.file.places:
        yield f"Its search: block is left alone. To search: tao automl run {wanted.file.path}"
    elif wanted.skill and is_made_for_automl(wanted):
        yield "A search for its best settings is possible: --automl-policy on"


def is_made_for_automl(wanted: JobRequest) -> bool:
    """True for a training whose model has automl_enabled and a schema."""
    skill = wanted.skill
    if skill is None or not skill.automl_enabled:
        return False
    return (skill.folder / "schemas" / f"{wanted.action}.schema.json").is_file()


def tell_stored(
    out: Output,
    first: FirstWords | None,
    mount_line: Callable[[str], str],
    submission: Submission,
) -> None:
    """Print the findings and notes of a job that is stored now, and with `first` its head."""
    with suppress(OSError):  # nobody reads; the job is handed over all the same
        job = told(out, with_mount_lines(submission, mount_line))
        if first:
            first.tell(job)


def handed_over(
    client: Client,
    wanted: JobRequest,
    key: str | None,
    first: FirstWords,
    on_stored: Callable[[Submission], None],
) -> Submission:
    """Submit the job, and return it once its platform has it. If the platform refuses a job whose
    head was printed, say so.
    """
    try:
        return client.submit(
            wanted.spec,
            wanted.platform,
            wanted.options,
            parent=wanted.parent,
            idempotency_key=key,
            on_stored=on_stored,
        )
    except (Refused, Unreachable):
        first.tell_refused()
        raise


def typed_with_mount(job_file: str | None, advice: str) -> str:
    """The command line as it was typed, with the mount in an advice. "" if the advice has none, and
    for a job file, in which the mount belongs.
    """
    context = click.get_current_context()
    if job_file is not None:
        return ""
    verb, meta = str(context.info_name), context.meta
    return line_with_mount(advice, verb, meta["tao.args"], meta["tao.words"])


def refused_with_line(error: Refused, line: str) -> Refused:
    """The same error with the command line to type."""
    refused = Refused(error.what, error.why, MOUNT_WORDS, line)
    refused.code = error.code
    return refused


def with_mount_lines(checked: Checked, mount_line: Callable[[str], str]) -> Checked:
    """A submission or a plan with the whole command line in each finding that asks for a mount."""
    findings: list[Finding] = []
    for finding in checked.findings:
        line = mount_line(finding.next)
        findings.append(replace(finding, next=MOUNT_WORDS, command=line) if line else finding)
    return replace(checked, findings=tuple(findings))


def told(out: Output, submission: Submission) -> Job:
    """Print the findings and notes of a submission, and return its job."""
    for finding in submission.findings:
        from tao_sdk.cli import show

        out.aside(show.finding(finding), {"finding": finding.to_json()})
    if submission.repeated:
        note = " ".join(submission.notes)
        out.aside(f"note: {note}", {"note": note, "repeated": submission.job.id})
    else:
        tell_notes(out, submission.notes)
    return submission.job


def tell_notes(out: Output, notes: Iterable[str]) -> None:
    for note in notes:
        out.aside(f"note: {note}", {"note": note})


def interrupted(client: Client) -> Detached:
    """The message for Ctrl-C while a job was handed over. If one is left, the next process that
    looks at it finishes that.
    """
    job = last_submitted(client)
    if not job:
        return Detached("Interrupted; nothing was started.")
    return Detached(f"Detached; {job} goes on.", f"tao attach {job}")


def detached(out: Output, job: Job) -> int:
    out.object(job.to_json())
    out.line(f"{job.id}  {job.place}  {out.status(job.status.value)}")
    out.note(f"Come back: tao logs -f {job.id}")
    if job.reason_code is Reason.STARTING:
        out.note("It is not started yet; each look takes its next step. To carry it on: tao watch")
    return exit_codes.DONE


def watched(
    client: Client, out: Output, job: Job, since: int = 0, first: FirstWords | None = None
) -> int:
    """Watch the job until it has ended. With --json its events after number `since` are printed.
    `first` are the lines that were printed about it before.
    """
    from tao_sdk.cli.watching import ended_with_events, ended_with_screen

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to be told to end is to detach, too
    try:
        if out.json:
            ended = ended_with_events(client, out, job, since)
        else:
            ended = ended_with_screen(client, out, job, first or FirstWords(out))
    except KeyboardInterrupt:
        raise Detached(f"Detached; {job.id} goes on.", f"tao attach {job.id}") from None
    except JobNotFound:  # it was removed meanwhile
        raise
    except TaoError as error:
        if not has_ended(client, job):
            error.add_advice(f"{job.id} goes on:", f"tao logs -f {job.id}")
        raise
    return exit_codes.of_statuses([ended.status])


def has_ended(client: Client, job: Job) -> bool:
    """True if the store knows that the job has ended; False also when the store cannot be read."""
    try:
        return client.get_job(job.id, look=False).status.terminal
    except TaoError:
        return False


def warn_of_open_secrets(out: Output, params: Mapping[str, Any]) -> None:
    """Warn of secrets on the command line: everybody on this machine can read them while the
    command runs.
    """
    for name in open_secrets(params.get(SPEC + "env_vars") or ()):
        note = (
            f"others on this machine can read {name} in this command line; "
            f"--env {name} takes it from here."
        )
        out.aside(f"warning: {note}", {"note": note})


@command("plan", cls=Submitting)
@submitting
@click.option(
    "--full",
    is_flag=True,
    help="Show all that would be sent: the manifest, its environment, the files.",
)
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
    """Show what `tao run` with the same arguments would send, and what the checks say. Nothing is
    sent or stored.

    With --full and with --json exactly that. Secrets are shown by name. The exit code is 2 when the
    job would be refused. Where the cluster or daemon does not answer, the plan says what was not
    checked.
    """
    wanted = asked(client, job_file, platform, option, params, values)
    tell_notes(out, wanted.notes)
    head: dict[str, Any] = {}
    if is_search(wanted):
        from tao_sdk.cli.automl import planned_search

        lines, spec, search = planned_search(client, wanted)
        out.lines([*lines, "  the first trial:"])
        wanted, head = replace(wanted, spec=spec), {"search": search}
    try:
        planned = client.plan(wanted.spec, wanted.platform, wanted.options)
    except SpecError as error:
        raise wanted.located(error) from None
    planned = with_mount_lines(planned, partial(typed_with_mount, job_file))
    from tao_sdk.cli import planned as shown

    view = {**plan_view(planned, wanted.origins), **head}
    out.object(view)
    if planned.documents:
        out.lines(shown.documents(planned, out))
    elif full:
        out.lines(shown.whole(planned, view, out))
    elif not out.json:
        out.lines(shown.summary(planned, out, wanted.origins))
    refused = any(finding.severity is Severity.ERROR for finding in planned.findings)
    if refused:
        return exit_codes.WRONG
    return exit_codes.DONE
