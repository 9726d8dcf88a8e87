"""`tao automl`: a search for the best settings of a training, by jobs that are its trials."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tao_sdk.cli import exit_codes, show
from tao_sdk.cli.command import command, platform_option
from tao_sdk.cli.detached import Detached
from tao_sdk.model.errors import CredentialError, TaoError, UsageError

if TYPE_CHECKING:
    from tao_automl.report.view import SearchView
    from tao_automl.stored import StoredSearch
    from tao_sdk.cli.output import Output
    from tao_sdk.client.client import Client
    from tao_sdk.client.job_request import JobRequest
    from tao_sdk.model.finding import Finding
    from tao_sdk.model.job import Job
    from tao_sdk.model.spec import JobSpec

log = logging.getLogger(__name__)
TASKS = ("run", "status", "best", "stop", "ls", "rm")
DOCUMENTS = (".yaml", ".yml", ".json")
CODES = {"Complete": exit_codes.DONE, "Stopped": exit_codes.CANCELED, "Error": exit_codes.FAILED}
OF_RUN = ("--trials", "--concurrent", "--seed", "--algorithm", "--platform")
BAR = 16  # letters
PARAMETERS_SHOWN = 12
RUNNING_SHOWN = 2
LEAST_TRIAL_LINE = 40  # letters of it that a screen shows; it leaves out how far the trials are
LEAVE_SECONDS = 10.0  # until a search is left as it is
RETRY_SECONDS = 60.0  # until a watcher takes up a search again that an error holds up


@command("automl")
@click.argument("task", type=click.Choice(TASKS))
@click.argument("word", required=False, metavar="[FILE | SEARCH]")
@click.option("--trials", type=int, metavar="N", help="Of run: how many configurations, at most.")
@click.option("--concurrent", type=int, metavar="N", help="Of run: how many at once.")
@click.option("--seed", type=int, metavar="N", help="Of run: the same seed, the same proposals.")
@click.option("--algorithm", metavar="NAME", help="Of run: such as bayesian, asha, random or auto.")
@platform_option(help="Of run: where the trials run. Default: as the file says, else local.")
@click.option("--spec", is_flag=True, help="Of best: print the spec with its values, as YAML.")
@click.option("--csv", "table", metavar="FILE", help="Of run and status: write a row per trial.")
@click.option("--svg", "picture", metavar="FILE", help="Of run and status: draw the search.")
def automl(
    client: Client,
    out: Output,
    task: str,
    word: str | None,
    trials: int | None,
    concurrent: int | None,
    seed: int | None,
    algorithm: str | None,
    platform: str | None,
    spec: bool,
    table: str | None,
    picture: str | None,
) -> int | None:
    """Search the best settings of a training: run a file with a search: block, or carry a search
    on; show how it stands (status), its best trial (best), all searches (ls); end one (stop); and
    forget one (rm).

    \b
      tao automl run examples/digits/search.yaml
      tao automl run digits-search --trials 40
      tao automl best digits-search --spec > best.yaml

    Each trial is a job: tao ls --parent SEARCH. A search goes on wherever it was interrupted, also
    by Ctrl-C or a crash. Without SEARCH the newest is meant.

    The exit code is 0 if the search is Complete, 1 if no trial succeeded or it ended in Error, 6 if
    it was stopped, 130 after Ctrl-C. All codes: tao --help
    """
    given = (trials, concurrent, seed, algorithm, platform)
    refuse_flags_of_run(task, dict(zip(OF_RUN, given, strict=True)))
    if task == "ls":
        return list_searches(client, out)
    if task == "run":
        changes = {
            "max_trials": trials, "max_concurrent": concurrent, "seed": seed,
            "algorithm": algorithm,
        }  # fmt: skip
        named = {name: value for name, value in changes.items() if value is not None}
        return run(client, out, word, platform, named, Files(table, picture))
    stored = named_search(client, word)
    if task == "status":
        return show_status(client, out, stored, Files(table, picture))
    if task == "best":
        return show_best(client, out, stored, spec)
    if task == "stop":
        return stop(client, out, stored)
    return forget(client, out, stored)


def refuse_flags_of_run(task: str, given: dict[str, Any]) -> None:
    if task == "run":
        return
    for flag, value in given.items():
        if value is not None:
            what = f"{flag} is no flag of tao automl {task}."
            raise UsageError(what, "", f"It belongs to: tao automl run SEARCH {flag} {value}")


class Files:
    """The files that are to be written: a table, a picture."""

    def __init__(self, table: str | None, picture: str | None) -> None:
        self.table, self.picture = table, picture

    def check(self) -> None:
        """Raises UsageError for a file that cannot be written, before anything runs."""
        for path in filter(None, (self.table, self.picture)):
            refuse_unwritable(path)

    def write(self, view: SearchView) -> None:
        if self.table:
            from tao_automl.report.csv_table import trials_csv

            write_whole(self.table, trials_csv(view))
        if self.picture:
            from tao_automl.report.picture import search_svg

            write_whole(self.picture, search_svg(view))


def refuse_unwritable(path: str) -> None:
    is_there = Path(path).exists()
    try:
        with Path(path).open("a", encoding="utf-8"):
            pass
        if not is_there:
            Path(path).unlink()
    except OSError as error:
        raise not_written(path, error) from error


def write_whole(path: str, text: str) -> None:
    """Write a file. Raises UsageError where it cannot be written."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise not_written(path, error) from error


def not_written(path: str, error: OSError) -> UsageError:
    what = f"{path} cannot be written: {error.strerror}."
    return UsageError(what, "", "Name a file that can be.")


def named_search(client: Client, word: str | None) -> StoredSearch:
    """The search of that word, else the newest. Raises SearchNotFound."""
    from tao_automl.store import SearchNotFound, searches_of

    store = searches_of(client)
    if word is not None:
        return store.get(word)
    newest = store.newest()
    if newest is None:
        raise SearchNotFound("No searches yet.", "", "Start one:", "tao automl run search.yaml")
    return newest


def run(
    client: Client,
    out: Output,
    word: str | None,
    platform: str | None,
    changes: dict[str, Any],
    files: Files,
) -> int:
    from tao_sdk.client.job_request import TypedJob, read_request

    files.check()
    if word is not None and is_file(word):
        request = read_request(TypedJob(word, platform), client)
        return search_for(client, out, request, changes, files)
    stored = carried_on(client, named_search(client, word), changes)
    return driven(client, out, stored, {}, files)


def search_for(
    client: Client,
    out: Output,
    request: JobRequest,
    changes: dict[str, Any] | None = None,
    files: Files | None = None,
) -> int:
    """Start the search of a job that was asked for, and drive it to its end."""
    stored, secrets = begun(client, request, changes or {})
    return driven(client, out, stored, secrets, files or Files(None, None))


def driven(
    client: Client, out: Output, stored: StoredSearch, secrets: dict[str, str], files: Files
) -> int:
    from tao_automl.views import view_of_stored

    out.lines(head_lines(stored))
    screen = Screen(client, out)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to be told to end is to detach, too
    try:
        stored = followed(client, out, stored.id, screen, secrets)
    except KeyboardInterrupt:
        raise detached(client, stored.id) from None
    except TaoError as error:
        error.add_advice(f"{stored.id} waits:", f"tao automl run {stored.id}")
        raise
    view = view_of_stored(client, stored)
    tell_standing(client, out, stored, view)
    files.write(view)
    out.note(cost_words(client, stored))
    return code_of(stored)


def is_file(word: str) -> bool:
    return word.endswith(DOCUMENTS) or "/" in word or Path(word).is_file()


def begun(
    client: Client, request: JobRequest, changes: dict[str, Any]
) -> tuple[StoredSearch, dict[str, str]]:
    """The search of a job, kept, and the secrets that stand in the job. Nothing of it runs yet."""
    from tao_automl.drive import create, secrets_of
    from tao_automl.search_file import locate, search_of
    from tao_automl.settings import SettingError
    from tao_automl.space.mistake import SpaceError

    wanted = search_of(request, changes)
    try:
        return create(client, wanted), secrets_of(wanted.spec)
    except (SettingError, SpaceError) as error:
        if request.file is None:
            raise
        raise locate(request.file.path, error) from None


def carried_on(client: Client, stored: StoredSearch, changes: dict[str, Any]) -> StoredSearch:
    """The search, opened again where it is over or has other settings now."""
    from tao_automl.drive import is_driven, reopen

    for name in ("seed", "algorithm"):
        if name in changes:
            what = f"--{name} of a search that has begun stays as it is."
            raise UsageError(what, "", "Start another search from its file.")
    if changes and is_driven(client, stored.id):
        raise UsageError(
            f"{stored.id} is driven by another process.", "", "Stop it first:",
            f"tao automl stop {stored.id}",
        )  # fmt: skip
    settings = replace(stored.search.settings, **changes) if changes else None
    was_cut = stored.status in ("Stopped", "Error")
    return reopen(client, stored.id, settings) if settings or was_cut else stored


def followed(
    client: Client, out: Output, search_id: str, screen: Screen, secrets: dict[str, str]
) -> StoredSearch:
    """Drive the search. While another process does, watch it, and take over when that goes away."""
    from tao_automl import drive

    callbacks = drive.Callbacks(screen.show, on_wait=screen.wait, on_finding=screen.warn)
    while True:
        try:
            return drive.drive(client, search_id, callbacks, secrets_given=secrets)
        except drive.SearchBusy:
            out.note(f"Another process drives {search_id}; this one watches.")
            stored = drive.watch(client, search_id, screen.show)
            if stored.search.is_over:
                return stored


def detached(client: Client, search_id: str) -> Detached:
    from tao_automl.drive import is_driven, jobs_of

    live = sum(not job.status.terminal for job in jobs_of(client, search_id))
    goes_on = "goes on" if is_driven(client, search_id) else "waits for a driver"
    return Detached(
        f"Detached; {search_id} {goes_on}, {live} of its jobs run.", f"tao automl run {search_id}"
    )


def planned_search(
    client: Client, request: JobRequest
) -> tuple[list[str], JobSpec, dict[str, Any]]:
    """Of a job with a search: what is searched, in lines and as JSON, and the job of its first
    trial. Nothing is kept or started.
    """
    from tao_automl.drive import first_job, new_search, secrets_of, with_given_secrets
    from tao_automl.report.view import view_of
    from tao_automl.search_file import locate, search_of
    from tao_automl.settings import SettingError
    from tao_automl.space.mistake import SpaceError

    wanted = search_of(request)
    try:
        stored = new_search(client, wanted)
    except (SettingError, SpaceError) as error:
        if request.file is None:
            raise
        raise locate(request.file.path, error) from None
    view = view_of(stored.search, stored.id, stored.name).to_json()
    shown = ("algorithm", "metric", "direction", "objectives", "seed", "counts")
    space = {"parameters": stored.search.space.to_json()}
    head = {name: view[name] for name in shown} | space
    first = with_given_secrets(first_job(stored), secrets_of(wanted.spec))
    return head_lines(stored), first, head


def head_lines(stored: StoredSearch) -> list[str]:
    """What is searched, and how, before it starts."""
    from tao_automl.propose.language import parameter_text
    from tao_automl.report.summary import head_line
    from tao_automl.report.view import view_of

    parameters = stored.search.space.parameters
    lines = [head_line(view_of(stored.search, stored.id, stored.name))]
    lines += [f"  {parameter_text(one)}" for one in parameters[:PARAMETERS_SHOWN]]
    if len(parameters) > PARAMETERS_SHOWN:
        lines.append(f"  and {len(parameters) - PARAMETERS_SHOWN} more")
    lines.append(f"  seed {stored.search.seed}, on {stored.template.platform}")
    if stored.search.settings.epochs_key and not stored.template.resume_key and has_rungs(stored):
        lines.append("  no key takes a checkpoint: each rung is trained from the beginning")
    return lines


def has_rungs(stored: StoredSearch) -> bool:
    from tao_automl.algorithms import TABLE

    return TABLE[stored.search.settings.algorithm].has_rungs


class Screen:
    """What is printed while a search runs: a line for each trial that ends; on a screen one line
    that is drawn over, with what runs and the time that is left.
    """

    def __init__(self, client: Client, out: Output) -> None:
        self.client, self.out = client, out
        self.told: set[tuple[int, int]] = set()
        self.drawn = ""  # the line that is on the screen
        self.revision = -1
        self.changed_at = 0.0  # by time.monotonic, of that revision
        self.warned: set[str] = set()  # the codes of findings that were told
        self.waits: set[tuple[str, str]] = set()  # (job, reason) that were told
        self.view: SearchView | None = None

    def show(self, stored: StoredSearch, jobs: Sequence[Job]) -> None:
        if self.out.json:
            return
        self.tell_waits(jobs)
        if stored.revision != self.revision:
            self.revision, self.changed_at = stored.revision, time.monotonic()
            self.view = None
            if not self.out.screen:
                self.tell(stored)
        if self.out.screen:
            self.draw(stored, jobs)

    def warn(self, finding: Finding) -> None:
        """Print a finding about a job, once for all jobs."""
        if finding.code in self.warned:
            return
        self.warned.add(finding.code)
        self.drawn = ""
        self.out.aside(show.finding(finding), {"finding": finding.to_json()})

    def tell_waits(self, jobs: Sequence[Job]) -> None:
        """Say what each job waits for, once for each reason."""
        from tao_automl.report.summary import wait_text
        from tao_automl.template import TRIAL_LABEL

        for job in jobs:
            mark = (job.id, str(job.reason_code))
            why = wait_text(job)
            if not why or mark in self.waits:
                continue
            self.waits.add(mark)
            self.drawn = ""
            self.out.note(f"trial {job.labels[TRIAL_LABEL]} waits: {why}  (tao why {job.id})")

    def wait(self, why: str) -> None:
        """Say what holds the search up."""
        self.drawn = ""
        self.out.note(f"The search waits: {why}")

    def draw(self, stored: StoredSearch, jobs: Sequence[Job]) -> None:
        from tao_automl.report.view import view_of

        self.view = self.view or view_of(stored.search, stored.id, stored.name)
        left = eta_text(self.view, stored.seconds, time.monotonic() - self.changed_at)
        line = screen_line(self.view, running_text(jobs), left, self.out.width or 80)
        if line == self.drawn:
            return
        if self.drawn:
            self.out.clear_line_above()
        self.out.line(line)
        self.drawn = line

    def tell(self, stored: StoredSearch) -> None:
        from tao_automl.report.view import view_of

        over = [(one.number, one.rung) for one in stored.search.trials if not one.is_running]
        untold = [mark for mark in over if mark not in self.told]
        if not untold:
            return
        self.told.update(untold)
        view = view_of(stored.search, stored.id, stored.name)
        for number, _ in untold:
            self.out.line(trial_text(view, number))


def screen_line(view: SearchView, running: str, left: str, width: int) -> str:
    """`trial 3/12  accuracy 0.97  best 0.98 (...)  trial 4 epoch 2/9  ████░░░░  ETA 0:12`, in one
    row of the screen.
    """
    from tao_automl.report.summary import trial_line
    from tao_sdk.cli.output import cut

    done = view.counts["complete"] + view.counts["failed"] + view.counts["stopped"]
    full = round(BAR * done / max(view.counts["total"], 1))
    bar = "  ".join(filter(None, ["█" * full + "░" * (BAR - full), left]))
    end = f"{running}  {bar}" if running else bar
    if width - len(end) - 3 < LEAST_TRIAL_LINE:
        end = bar
    line = f"{cut(trial_line(view), max(width - len(end) - 3, 0))}  {end}"
    return cut(line, width - 1)


def eta_text(view: SearchView, seconds: float, since: float) -> str:
    """`ETA 0:12`, `since` seconds after the pace was measured; "" while it is not known."""
    from tao_automl.report.summary import eta_seconds
    from tao_sdk.model.units import format_clock

    left = eta_seconds(view, seconds)
    return "" if left is None else f"ETA {format_clock(max(left - since, 0.0))}"


def running_text(jobs: Sequence[Job]) -> str:
    """`trial 4 epoch 2/9`, of the first jobs that tell how far they are."""
    from tao_automl.template import TRIAL_LABEL

    counted = [job for job in jobs if not job.status.terminal and job.progress.is_counted]
    return ", ".join(
        f"trial {job.labels[TRIAL_LABEL]} {done.unit} {done.number}/{done.total}"
        for job in counted[:RUNNING_SHOWN]
        if (done := job.progress).total
    )


class StopDriving(Exception):
    """This process drives the search no more."""


class SearchDrivers:
    """Drives the searches that nobody drives, each in a thread and with a client of its own, until
    they are over or `stop` is set. One that an error holds up is taken up again after
    RETRY_SECONDS, or never if only its user can mend the error.
    """

    def __init__(self, client: Client, out: Output, stop: threading.Event) -> None:
        self.client, self.out, self.stop = client, out, stop
        self.threads: dict[str, threading.Thread] = {}
        self.refused: set[str] = set()  # searches that cannot go on here
        self.errors: dict[str, str] = {}  # what holds a search up, as it was told
        self.retry_at: dict[str, float] = {}  # by time.monotonic, when such a one is taken up again

    @property
    def is_busy(self) -> bool:
        """True while a search is driven here, or waits to be taken up again."""
        return bool(self.retry_at) or any(thread.is_alive() for thread in self.threads.values())

    def begin(self) -> None:
        """Take up each search that waits for a driver."""
        from tao_automl.drive import is_driven
        from tao_automl.store import searches_of

        unended = searches_of(self.client).unended()
        for removed in set(self.retry_at).difference(unended):
            self.retry_at.pop(removed, None)
        for search_id in unended:
            if self.is_held_up(search_id) or is_driven(self.client, search_id):
                continue
            self.retry_at.pop(search_id, None)
            thread = threading.Thread(target=self.carry, args=(search_id,), daemon=True)
            self.threads[search_id] = thread
            if search_id not in self.errors:
                self.out.note(f"Carries {search_id} on.")
            thread.start()

    def is_held_up(self, search_id: str) -> bool:
        """True for a search that a thread here drives, that is refused, or that waits."""
        thread = self.threads.get(search_id)
        if search_id in self.refused or (thread is not None and thread.is_alive()):
            return True
        return time.monotonic() < self.retry_at.get(search_id, 0.0)

    def carry(self, search_id: str) -> None:
        """Drive a search, and say how it ends or what holds it up. Raises nothing: it is a thread's
        end.
        """
        from tao_automl.drive import SearchBusy

        try:
            self.drive(search_id)
        except (StopDriving, SearchBusy):
            pass
        except (CredentialError, UsageError) as error:
            self.refused.add(search_id)
            self.out.note(f"{search_id} waits: {error}")
        except TaoError as error:
            self.retry_later(search_id, str(error))
        except Exception:  # the end of a thread: the others go on
            self.refused.add(search_id)
            log.exception("%s is left alone after an unexpected error", search_id)

    def drive(self, search_id: str) -> None:
        """Drive a search to its end. Raises as drive.drive does, and StopDriving."""
        from tao_automl import drive
        from tao_sdk.client import Client

        callbacks = drive.Callbacks(self.leave_if_stopped, on_wait=self.out.note)
        with Client(self.client.store.path, settings=self.client.settings) as own:
            over = drive.drive(own, search_id, callbacks)
        self.out.note(f"{search_id} is {over.status}: {over.message}")

    def retry_later(self, search_id: str, why: str) -> None:
        """Note when the search is taken up again. The same error is told once."""
        self.retry_at[search_id] = time.monotonic() + RETRY_SECONDS
        if self.errors.get(search_id) != why:
            self.errors[search_id] = why
            self.out.note(f"{search_id} waits, and is tried again: {why}")

    def leave_if_stopped(self, _stored: StoredSearch, _jobs: Sequence[Job]) -> None:
        if self.stop.is_set():
            raise StopDriving

    def end(self) -> None:
        """Leave the searches as they are, for another driver."""
        self.stop.set()
        for thread in self.threads.values():
            thread.join(LEAVE_SECONDS)


def trial_text(view: SearchView, number: int) -> str:
    """`trial 3  complete  accuracy 0.97  learning_rate 0.004`."""
    from tao_automl.report.summary import params_text, value_text

    trial = view.trials[number - 1]
    value = value_text(view, trial) if trial.value is not None else trial.reason
    return f"trial {number}  {trial.status}  {value}  {params_text(view, trial.params)}"


def tell_standing(client: Client, out: Output, stored: StoredSearch, view: SearchView) -> None:
    """Print how the search ended, or where it stands, and its best trial."""
    from tao_automl.drive import is_driven
    from tao_automl.report.summary import end_line
    from tao_automl.views import status_json

    if out.json:
        out.object(status_json(client, stored))
        return
    out.line(end_line(view, stored.seconds))
    out.lines(best_lines(client, view))
    if not stored.search.is_over and not is_driven(client, stored.id):
        out.note(f"Nobody drives it. To carry it on: tao automl run {stored.id}")


def cost_words(client: Client, stored: StoredSearch) -> str:
    """What the next trials would cost, where a limit has ended the search; else ""."""
    from tao_automl.drive import jobs_of
    from tao_automl.views import budget_of

    budget = budget_of(stored, jobs_of(client, stored.id))
    cost = budget["next_10_trials"]
    if not budget["used_up"] or not cost:
        return ""
    gpu_hours = cost["gpu_seconds"] / 3600
    return f"10 more trials would take about {cost['seconds']:.0f} s and {gpu_hours:.2g} GPU hours."


def best_lines(client: Client, view: SearchView) -> list[str]:
    from tao_automl.views import checkpoint_of

    if view.best is None:
        return []
    checkpoint = show.path(checkpoint_of(client, view.best.job or None) or "")
    spec = f"tao automl best {view.id} --spec > best.yaml"
    return ["  ".join(filter(None, [f"  best  {view.best.job}", checkpoint, spec]))]


def code_of(stored: StoredSearch) -> int:
    if stored.status == "Complete" and not stored.has_result:
        return exit_codes.FAILED
    return CODES.get(stored.status, exit_codes.DONE)


def show_status(client: Client, out: Output, stored: StoredSearch, files: Files) -> None:
    from tao_automl.drive import jobs_of
    from tao_automl.report.summary import wait_text
    from tao_automl.views import view_of_stored

    view = view_of_stored(client, stored)
    files.write(view)
    out.lines(head_lines(stored))
    waits = {job.id: wait_text(job) for job in jobs_of(client, stored.id)}
    rows = [
        (str(one.number), "waiting" if waits.get(one.job) else one.status, one.job,
         "" if one.value is None else f"{one.value:.4g}", trial_params(view, one.number),
         waits.get(one.job) or one.reason)
        for one in view.trials
    ]  # fmt: skip
    out.table(("TRIAL", "STATUS", "JOB", view.goal.metric, "PARAMETERS", "REASON"), rows)
    tell_standing(client, out, stored, view)


def trial_params(view: SearchView, number: int) -> str:
    from tao_automl.report.summary import params_text

    return params_text(view, view.trials[number - 1].params)


def show_best(client: Client, out: Output, stored: StoredSearch, spec: bool) -> int:
    from tao_automl.views import best_spec, status_json, view_of_stored

    view = view_of_stored(client, stored)
    if view.best is None:
        what = f"{stored.id} has no trial with a result yet."
        raise UsageError(
            what, stored.message, "See how it stands:", f"tao automl status {stored.id}"
        )
    found = status_json(client, stored)["best"]
    if spec:
        print_spec(out, best_spec(stored), found)
        return exit_codes.DONE
    out.object(found)
    out.line(trial_text(view, view.best.number))
    out.lines(best_lines(client, view))
    return exit_codes.DONE


def print_spec(out: Output, spec: dict[str, Any] | None, found: dict[str, Any]) -> None:
    """The spec as YAML; its parameters where the job has no spec."""
    if out.json:
        out.object(spec or found["params"])
        return
    import yaml

    out.lines(yaml.safe_dump(spec or found["params"], sort_keys=False).splitlines())


def stop(client: Client, out: Output, stored: StoredSearch) -> int:
    from tao_automl.drive import ask_stop
    from tao_automl.views import view_of_stored

    over = ask_stop(client, stored.id, "stopped by tao automl stop")
    tell_standing(client, out, over, view_of_stored(client, over))
    if over.status == "Stopped":
        out.note(f"To carry it on: tao automl run {over.id}")
    return exit_codes.DONE


def list_searches(client: Client, out: Output) -> None:
    from tao_automl.store import searches_of
    from tao_automl.views import row_json

    rows = [row_json(client, stored) for stored in searches_of(client).list()]
    out.object(rows)
    if out.json:
        return
    if not rows:
        out.note("No searches yet. Start one: tao automl run search.yaml")
        return
    out.table(
        ("ID", "STATUS", "ALGORITHM", "TRIALS", "METRIC", "BEST"), [cells(row) for row in rows]
    )


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    counts = row["counts"]
    done = counts["complete"] + counts["failed"] + counts["stopped"]
    best = "" if row["best"] is None else f"{row['best']:.4g}"
    waits = row["status"] == "Running" and not row["driven"]
    status = f"{row['status']}{' (nobody drives it)' if waits else ''}"
    return (
        row["id"], status, row["algorithm"], f"{done}/{counts['total']}", row["metric"], best,
    )  # fmt: skip


def forget(client: Client, out: Output, stored: StoredSearch) -> None:
    from tao_automl.drive import remove

    remove(client, stored.id)
    out.object({"removed": [stored.id]})
    out.line(f"{stored.id}  removed; its jobs stay")
    out.note(f"To delete them as well: tao rm --label tao-search={stored.id}")
