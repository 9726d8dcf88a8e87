"""Drive: carries a search out, by jobs of a Client. The only part that calls one.

Here: the loop. What is known goes to `advance`, its answer is committed, and then the jobs are made
to be those that the committed search wants: each trial that runs has a job, and what is to stop is
canceled. Nothing is kept beside the store, so a driver that was killed anywhere is followed by one
that does the same. A job is submitted with an idempotency key made of its search, trial and rung,
so it is started once, whoever asks.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tao_automl import reports, template
from tao_automl.decisions import AskModel, EndStatus, Known, Outcome, TrialProgress, TrialReport
from tao_automl.endpoint import ModelUnusable, ask_model, endpoint_of
from tao_automl.job_report import ReadValues, curve_of, refusal_of, report_of
from tao_automl.search import advance, create_search, extend, standing_decision
from tao_automl.settings import SearchSettings, mistake
from tao_automl.space.space import Space
from tao_automl.state import Search
from tao_automl.store import SearchStore
from tao_automl.stored import StoredSearch
from tao_automl.template import Rung, Template
from tao_automl.trial import Prior, Trial
from tao_sdk.model.errors import (
    CredentialError,
    JobNotFound,
    PathNotFound,
    TaoError,
    Unreachable,
    UsageError,
)
from tao_sdk.model.secrets import Secret, SecretRef, split_secrets
from tao_sdk.model.spec import JobSpec, mint_id
from tao_sdk.model.status import Status

if TYPE_CHECKING:
    from tao_sdk.client import Client
    from tao_sdk.model.finding import Finding
    from tao_sdk.model.job import Job

LEASE_SECONDS = 60.0  # after them another driver may take over one that is out of sight
KEPT_SECONDS = 10.0  # of a search's time are lost at most when its driver is killed
RETRY_SECONDS = 5.0  # until a platform that could not be reached is asked again
WATCH_SECONDS = 0.5  # between two looks at a search that another process drives
EARLIER = "/tao-earlier"  # where a container sees the results of the job that it goes on from
STOP_GRACE = 10.0  # seconds that a trial's program has to save and end
LARGEST_SEED = 2**31
NO_SECRETS: Mapping[str, str] = MappingProxyType({})
OnChange = Callable[[StoredSearch, "Sequence[Job]"], None]


class SearchBusy(UsageError):
    """Another process drives the search."""

    code = "automl.busy"


@dataclass(frozen=True)
class Callbacks:
    """What a caller wants to be told, or decides itself.

    `on_change` gets the search and the jobs of its trials that run, after each look. `read_values`
    gives the metrics of a Complete job, in place of the progress reader; None: it has none.
    `read_feedback` gives what a language model should know of a job that has ended. `on_wait` gets
    the reason why a job cannot be started now, when there is a new one, and each job that has ended
    and whose log cannot be read to its end, once. `on_finding` gets what the
    check of each job has found that is started.
    """

    on_change: OnChange | None = None
    read_values: ReadValues | None = None
    read_feedback: Callable[[Job], str] | None = None
    on_wait: Callable[[str], None] | None = None
    on_finding: Callable[[Finding], None] | None = None


@dataclass(frozen=True)
class SearchRequest:
    """A search to begin: the job that trials are copies of, its place, and what is searched.

    `has_schema`: the keys of the space are those of the job's schema, in its spec or not.
    `needs_caller`: its trials are measured by functions of the caller, which no watcher has.
    """

    spec: JobSpec
    platform: str
    settings: SearchSettings
    space: Space
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    name: str = ""
    has_schema: bool = False
    needs_caller: bool = False


def create(client: Client, request: SearchRequest) -> StoredSearch:
    """Keep a new search. Nothing is started; `drive` does that.

    Raises SettingError, SpaceError, MissingExtra, SearchNotFound (for a warm start).
    """
    store = SearchStore(client.store)
    stored = new_search(client, request)
    return store.add(stored)


def new_search(client: Client, request: SearchRequest) -> StoredSearch:
    """The search that `create` would keep. Raises as it does."""
    spec = without_secrets(with_file_contents(request.spec))
    settings = request.settings
    if not request.has_schema:
        template.check_keys(spec, request.space.keys)
    space = request.space.with_defaults(template.defaults_of(spec, request.space.keys))
    epochs_key = template.epochs_key_of(spec, settings.epochs_key)
    settings = settled(replace(settings, epochs_key=epochs_key), spec, space)
    seed = secrets.randbelow(LARGEST_SEED) if settings.seed is None else settings.seed
    prior = prior_of(SearchStore(client.store), settings.warm_start)
    search = create_search(replace(settings, seed=seed), space, seed, prior)
    refuse_no_epochs(search)
    name = request.name or spec.name or "search"
    job = Template(spec, request.platform, request.options, epochs_key, resume_key_of(spec))
    search_id = mint_id(search_name(name))
    return StoredSearch(search_id, name, search, job, needs_caller=request.needs_caller)


def first_job(stored: StoredSearch) -> JobSpec:
    """The job of the first trial of a search that has not begun; of the template where a language
    model has to be asked first.
    """
    trials = advance(stored.search).search.trials
    job = stored.template
    if not trials:
        return job.spec
    first = trials[0]
    rung = Rung(first.rung, first.epochs)
    return template.trial_spec(job, stored.id, first.number, first.params, rung)


def search_name(name: str) -> str:
    """`digits-search` of `digits`."""
    ending = "-search"
    label = template.dns_label(name)
    if label.endswith(ending):
        return label
    return label[: template.NAME_LENGTH - len(ending)].rstrip("-") + ending


def settled(settings: SearchSettings, spec: JobSpec, space: Space) -> SearchSettings:
    """The settings with what follows from the job: how many trials run at once (1 with GPUs, else
    half of the cores), and whether the spec as it stands can be the first trial.
    """
    if settings.max_concurrent is None:
        at_once = 1 if spec.gpu_count else max((os.cpu_count() or 2) // 2, 1)
        settings = replace(settings, max_concurrent=at_once)
    open_places = [
        one for one in space.parameters if one.key.startswith("{") and one.default is None
    ]
    if open_places:
        settings = replace(settings, first_as_is=False)
    return settings


def refuse_no_epochs(search: Search) -> None:
    """Raises SettingError for an algorithm with rungs, and a job that cannot be told how long to
    train.
    """
    from tao_automl.algorithms import TABLE

    if TABLE[search.settings.algorithm].has_rungs and not search.settings.epochs_key:
        what = f"{search.settings.algorithm} trains in rungs, and no key says for how many epochs."
        next = "Write epochs_key: train.num_epochs, or choose an algorithm without rungs: bayesian."
        raise mistake("algorithm", what, next)


def prior_of(store: SearchStore, ids: Iterable[str]) -> list[Prior]:
    """What earlier searches found. Raises SearchNotFound."""
    return [
        Prior(trial.params, trial.results[-1].values)
        for search_id in ids
        for trial in store.get(search_id).search.trials
        if trial.is_usable
    ]


def with_file_contents(spec: JobSpec) -> JobSpec:
    """The job with the contents of files that it names by their paths."""
    from tao_sdk.client.carried_files import with_contents

    return with_contents(spec)


def resume_key_of(spec: JobSpec) -> str:
    from tao_sdk.payload.declared import resume_key_of

    return resume_key_of(spec)


def reopen(client: Client, search_id: str, settings: SearchSettings | None = None) -> StoredSearch:
    """Open a search again: after a stop or an error, or with other `settings`, such as more trials.
    What was running when it was stopped runs first.

    Raises SearchNotFound, and SearchBusy where another process changes it now.
    """
    store = SearchStore(client.store)
    stored = store.get(search_id)
    search = extend(stored.search, settings)
    opened = replace(
        stored.with_search(search),
        stop_asked="",
        round=stored.round + 1,
        again=ended_jobs(client, stored),
    )
    saved = store.save(opened, ())
    if saved is None:
        raise busy(stored.id)
    return saved


def marked(client: Client, stored: StoredSearch, needs_caller: bool) -> StoredSearch:
    """The search, kept with whether it needs its caller. Raises SearchBusy where another process
    changes it now.
    """
    if stored.needs_caller == needs_caller:
        return stored
    saved = SearchStore(client.store).save(replace(stored, needs_caller=needs_caller), ())
    if saved is None:
        raise busy(stored.id)
    return saved


def ended_jobs(client: Client, stored: StoredSearch) -> dict[int, int]:
    """The trials that run as far as the search knows, and whose jobs were ended: with the attempt
    that was the last one.
    """
    found: dict[int, int] = {}
    for trial in stored.search.running:
        job_id = job_of(client, stored.id, trial.number, trial.rung)
        job = client.get_job(job_id) if job_id else None
        if job and is_cut_short(job):
            found[trial.number] = job.attempt
    return found


def is_cut_short(job: Job) -> bool:
    """True for a job that ended because it was told to."""
    return job.status is Status.CANCELED or (job.status is Status.ERROR and job.cancel_asked)


def ask_stop(client: Client, search_id: str, reason: str) -> StoredSearch:
    """End a search and what runs of it. Returns when it is over: by this process where nobody
    drives it, else by the one that does.
    """
    store = SearchStore(client.store)
    stored = store.get(search_id)
    if stored.search.is_over:
        end_jobs(client, stored)
        return stored
    store.ask_stop(stored.id, reason)
    while not (stored := store.get(stored.id)).search.is_over:
        try:
            return drive(client, stored.id)
        except SearchBusy:
            time.sleep(WATCH_SECONDS)
    return stored


def watch(client: Client, search_id: str, on_change: OnChange | None = None) -> StoredSearch:
    """Look at a search that another process drives, until it is over or nobody drives it."""
    store = SearchStore(client.store)
    search_id = store.resolve(search_id)
    revision = -1
    while True:
        newest, _ = store.mark(search_id)
        if newest != revision:
            stored = store.get(search_id)
            revision = stored.revision
            if on_change:
                on_change(stored, ())
            if stored.search.is_over:
                return stored
        if not is_driven(client, search_id):
            return store.get(search_id)
        time.sleep(WATCH_SECONDS)


def is_driven(client: Client, search_id: str) -> bool:
    """True while a process drives the search."""
    from tao_sdk.engine.lease import is_held

    return is_held(client.store, lease_of(search_id))


def remove(client: Client, search_id: str) -> StoredSearch:
    """Forget a search; its jobs stay. Raises UsageError for one that is not over."""
    store = SearchStore(client.store)
    stored = store.get(search_id)
    if not stored.search.is_over:
        what = f"{stored.id} is not over."
        raise UsageError(what, "", "End it first:", f"tao automl stop {stored.id}")
    store.remove(stored.id)
    return stored


def jobs_of(client: Client, search_id: str) -> list[Job]:
    """All jobs of a search, the oldest first, as the store has them."""
    return client.store.list(parent=search_id)[::-1]


def job_of(client: Client, search_id: str, trial: int, rung: int) -> str | None:
    """The id of the job that trains a trial to a rung; None before it is submitted."""
    known = client.store.submitted_with(submit_key(search_id, trial, rung))
    return known[0] if known else None


def submit_key(search_id: str, trial: int, rung: int) -> str:
    return f"{search_id}/{trial}/{rung}"


def lease_of(search_id: str) -> str:
    return f"search:{search_id}"


def busy(search_id: str) -> SearchBusy:
    return SearchBusy(
        f"Another process drives {search_id}.", "", "See how it stands:",
        f"tao automl status {search_id}",
    )  # fmt: skip


def gpu_seconds(job: Job) -> float:
    """What a job has used: its GPUs, on all nodes, for as long as it ran."""
    from tao_sdk.model.clock import utc_now

    if job.started is None:
        return 0.0
    seconds = ((job.ended or utc_now()) - job.started).total_seconds()
    return max(seconds, 0.0) * max(job.gpu_count, 0) * int(job.spec.get("num_nodes") or 1)


def drive(
    client: Client,
    search_id: str,
    callbacks: Callbacks = Callbacks(),
    llm_key: str = "",
    secrets_given: Mapping[str, str] = NO_SECRETS,
) -> StoredSearch:
    """Carry a search on until it is over, and return it. A search that is over is returned at once.

    It may be interrupted anywhere, and carried on by any process that has the store. `llm_key` is
    the key of the language model; default: the environment's. `secrets_given` are secrets of the
    jobs (`secrets_of`), which win over those of the environment; nothing of them is kept.

    Raises SearchNotFound; SearchBusy where another process drives it; CredentialError for a secret
    or a credential that is not here. Then nothing has failed: it goes on where it is.
    """
    stored = SearchStore(client.store).get(search_id)
    with driving(client, stored.id):
        over = carry_out(client, stored.id, callbacks, llm_key, secrets_given)
        remove_checkpoints(client, over)
        return over


def carry_out(
    client: Client,
    search_id: str,
    callbacks: Callbacks = Callbacks(),
    llm_key: str = "",
    secrets_given: Mapping[str, str] = NO_SECRETS,
) -> StoredSearch:
    """`drive` for a caller that holds the search's lease (`driving`). Every checkpoint stays; the
    caller removes them when it has no more use for them (`remove_checkpoints`).
    """
    return Driver(client, search_id, callbacks, llm_key, secrets_given).run()


def remove_checkpoints(client: Client, over: StoredSearch) -> None:
    """Remove the checkpoints that a Complete search does not need, where it is told to; none of one
    that was opened again meanwhile.
    """
    stored = SearchStore(client.store).get(over.id)
    ended = stored.search.ended
    is_complete = ended is not None and ended.status is EndStatus.COMPLETE
    if is_complete and stored.search.settings.delete_intermediate_ckpt:
        from tao_automl import retention

        retention.remove_checkpoints(client, stored, jobs_of(client, stored.id))


@contextmanager
def driving(client: Client, search_id: str) -> Generator[None]:
    """The lease of a search's driver. Raises SearchBusy."""
    engine, name = client.engine, lease_of(search_id)
    if not engine.take_lease(name, LEASE_SECONDS):
        raise busy(search_id)
    try:
        with engine.kept_lease(name, LEASE_SECONDS):
            yield
    finally:
        engine.give_back(name)


class Driver:
    """One process's work on one search, whose lease it holds."""

    def __init__(
        self,
        client: Client,
        search_id: str,
        callbacks: Callbacks,
        llm_key: str,
        secrets_given: Mapping[str, str],
    ) -> None:
        self.client = client
        self.store = SearchStore(client.store)
        self.callbacks = callbacks
        self.llm_key = llm_key
        self.secrets_given = secrets_given
        self.unreachable = ""  # why a job could not be started when that was tried last
        self.retry_at = 0.0  # by time.monotonic; until then it is not tried again
        self.read_at: dict[str, float] = {}  # by time.monotonic, when an unread log is read again
        self.stored = self.store.get(search_id)
        self.question: AskModel | None = None
        self.used = {job.id: gpu_seconds(job) for job in jobs_of(client, search_id)}
        self.began = time.monotonic()

    @property
    def search(self) -> Search:
        return self.stored.search

    def run(self) -> StoredSearch:
        """Until the search is over. Then nothing of it runs."""
        known = Known()
        while not self.search.is_over:
            self.commit(self.with_sums(known))
            if self.search.is_over:
                break
            refusals = self.start_jobs()
            self.stop_jobs()
            known = Known(reports=tuple(refusals)) if refusals else self.next_news()
        self.tell(())
        if self.search.ended and self.search.ended.status is EndStatus.STOPPED:
            end_jobs(self.client, self.stored)
        return self.stored

    def commit(self, known: Known) -> None:
        """What the search makes of the news, kept before anything follows from it. If another
        process has changed the search meanwhile, its state counts and the news come again.
        """
        answer = advance(self.search, known)
        questions = [one for one in answer.decisions if isinstance(one, AskModel)]
        self.question = questions[0] if questions else None
        if answer.search == self.search:
            return
        seconds = self.wall_seconds
        changed = replace(self.stored.with_search(answer.search), seconds=seconds)
        saved = self.store.save(changed, answer.changed)
        if saved is None:
            self.reload()
            return
        self.stored = saved
        self.began = time.monotonic()

    def reload(self) -> None:
        """Take the search as the store has it. Raises SearchBusy where the lease is another's."""
        if not self.client.engine.take_lease(lease_of(self.stored.id), LEASE_SECONDS):
            raise busy(self.stored.id)
        self.stored = self.store.get(self.stored.id)
        self.began = time.monotonic()

    @property
    def wall_seconds(self) -> float:
        return self.stored.seconds + time.monotonic() - self.began

    def with_sums(self, known: Known) -> Known:
        """The news with what the search has used so far."""
        _, stop = self.store.mark(self.stored.id)
        gpu = sum(self.used.values())
        return replace(known, gpu_seconds=gpu, wall_seconds=self.wall_seconds, stop=stop)

    def job_of(self, trial: Trial) -> str | None:
        return job_of(self.client, self.stored.id, trial.number, trial.rung)

    # Jobs that the search wants

    def start_jobs(self) -> list[TrialReport]:
        """Start the job of each trial that runs and has none, and run again what a stop has ended.
        Returns the trials whose jobs cannot be started.
        """
        if time.monotonic() < self.retry_at:
            return []
        found: list[TrialReport] = []
        self.unreachable, before = "", self.unreachable
        for trial in self.search.running:
            job_id = self.job_of(trial)
            if job_id and trial.number not in self.stored.again:
                continue
            report = self.run_again(trial, job_id) if job_id else self.start_job(trial)
            if report:
                found.append(report)
        if self.unreachable not in ("", before) and self.callbacks.on_wait:
            self.callbacks.on_wait(self.unreachable)
        return found

    def start_later(self, error: Unreachable) -> None:
        """Note that a platform could not be reached. It is asked again in RETRY_SECONDS."""
        self.unreachable = str(error)
        self.retry_at = time.monotonic() + RETRY_SECONDS

    def start_job(self, trial: Trial) -> TrialReport | None:
        """Submit the job of a trial's newest rung. None also where the platform cannot be reached:
        it is asked again later. Raises CredentialError.
        """
        try:
            rung = self.rung_of(trial)
        except PathNotFound as error:
            reason = f"{error.what} {error.why}".strip()
            return TrialReport(trial.number, trial.rung, Outcome.UNAVAILABLE, reason=reason)
        except Unreachable as error:
            return self.start_later(error)
        job = self.stored.template
        spec = template.trial_spec(job, self.stored.id, trial.number, trial.params, rung)
        try:
            sent = self.client.submit(
                with_secrets(self.client, spec, self.secrets_given),
                job.platform,
                job.options,
                parent=self.stored.id,
                idempotency_key=submit_key(self.stored.id, trial.number, trial.rung),
            )
            self.warn(sent.findings)
        except Unreachable as error:
            return self.start_later(error)
        except CredentialError:
            raise  # no trial is at fault, and every other one would fail as well
        except TaoError as error:
            return refusal_of(trial, error)
        return None

    def rung_of(self, trial: Trial) -> Rung:
        """How far a trial's next job trains, and from which checkpoint. Raises PathNotFound where
        that is not there, Unreachable where nobody can say.
        """
        decision: Any = standing_decision(self.search, trial)
        if trial.results:
            return self.rung_from(trial, trial.number, decision.from_epochs)
        if decision.parent is not None:
            return self.rung_from(trial, decision.parent, decision.parent_epochs)
        return Rung(trial.rung, trial.epochs)

    def rung_from(self, trial: Trial, source: int, epochs: int | None) -> Rung:
        """From the checkpoint that the `source` had after exactly so many epochs; anew where the
        job has no key for one.
        """
        plain = Rung(trial.rung, trial.epochs)
        if not self.stored.template.resume_key or not epochs:
            return plain
        earlier = trial.results[-1].rung if source == trial.number else trial.rung - 1
        job_id = job_of(self.client, self.stored.id, source, earlier)
        if job_id is None:
            raise PathNotFound(f"The job of trial {source} was removed.")
        checkpoint = self.client.results(job_id).of_epoch(epochs)
        if not checkpoint.complete:
            raise PathNotFound(f"The checkpoint of epoch {epochs} is not whole.")
        earlier_job = self.client.store.get(job_id)
        path, mounts = seen_by_job(earlier_job, checkpoint.path)
        return replace(plain, checkpoint=path, is_folder=checkpoint.is_dir, mounts=mounts)

    def run_again(self, trial: Trial, job_id: str) -> TrialReport | None:
        """Start the next attempt of a job that a stop has ended; it goes on from its checkpoint."""
        job = self.client.store.get(job_id)
        if not is_cut_short(job) or job.attempt != self.stored.again[trial.number]:
            return None
        try:
            self.client.retry_job(job_id)
        except Unreachable as error:
            return self.start_later(error)
        except CredentialError:
            raise
        except TaoError as error:
            return refusal_of(trial, error)
        return None

    def stop_jobs(self) -> None:
        """Cancel the jobs of trials that are to end early; they save first."""
        marked = [trial for trial in self.search.running if trial.stopping]
        ids = [job_id for trial in marked if (job_id := self.job_of(trial))]
        live = [job_id for job_id in ids if not self.client.store.get(job_id).status.terminal]
        if live:
            self.client.cancel_jobs(live, STOP_GRACE)

    # News

    def next_news(self) -> Known:
        """What happens next: a job that ends, an answer, a limit, or somebody who wants an end."""
        if self.question:
            return self.answer(self.question)
        trials = {job_id: trial for trial in self.search.running if (job_id := self.job_of(trial))}
        if not trials:
            time.sleep(RETRY_SECONDS)  # no job could be started
            return Known()
        return self.news_of(trials)

    def news_of(self, trials: Mapping[str, Trial]) -> Known:
        """Look at these jobs, in one query for all, until there is something to decide."""
        epochs: dict[str, int] = {}
        try:
            for jobs in self.client.follow_jobs(list(trials)):
                self.used.update({job.id: gpu_seconds(job) for job in jobs})
                self.tell(jobs)
                found = tuple(self.reports_of(jobs, trials))
                progress = self.progress_of(jobs, trials, epochs)
                if found or progress or self.is_due(len(trials)):
                    return Known(reports=found, progress=progress)
        except JobNotFound:
            return Known()  # somebody removed it: it is submitted again
        time.sleep(RETRY_SECONDS)  # all have ended, and no log could be read to its end
        return Known()

    def reports_of(
        self, jobs: Sequence[Job], trials: Mapping[str, Trial]
    ) -> Generator[TrialReport]:
        """What those of the jobs that have ended say. One whose log cannot be read to its end is
        told, and asked again after RETRY_SECONDS; the others are not held up.
        """
        for job in jobs:
            if not job.status.terminal or time.monotonic() < self.read_at.get(job.id, 0.0):
                continue
            report = self.report(job, trials[job.id])
            if report:
                yield report
                continue
            if job.id not in self.read_at and self.callbacks.on_wait:
                self.callbacks.on_wait(f"{job.id} has ended, and its log cannot be read to its end")
            self.read_at[job.id] = time.monotonic() + RETRY_SECONDS

    def report(self, job: Job, trial: Trial) -> TrialReport | None:
        """What an ended job says of its trial; None while its log and its results cannot be read to
        their end, as where the platform cannot be reached just now.
        """
        ended = self.client.refresh_progress(job)
        if ended.status is Status.COMPLETE and not ended.reading.whole:
            return None
        settings = self.search.settings
        try:
            found = report_of(self.client, ended, trial, settings, self.callbacks.read_values)
        except Unreachable:
            return None
        if self.callbacks.read_feedback is None:
            return found
        return replace(found, feedback=self.callbacks.read_feedback(ended))

    def progress_of(
        self, jobs: Sequence[Job], trials: Mapping[str, Trial], epochs: dict[str, int]
    ) -> tuple[TrialProgress, ...]:
        """The curves of trials that have trained another epoch, where early stops want them."""
        if not self.search.settings.keeps_curves:
            return ()
        grown = [job for job in jobs if job.progress.epoch > epochs.get(job.id, 0)]
        epochs.update({job.id: job.progress.epoch for job in grown})
        goal = self.search.settings.goals[0]
        return tuple(
            TrialProgress(trials[job.id].number, curve_of(job.progress, goal)) for job in grown
        )

    def is_due(self, running: int) -> bool:
        """True where a limit is reached, somebody wants an end, or a job has not been started."""
        known = self.with_sums(Known())
        if known.stop:
            return True
        if running < len(self.search.running) and time.monotonic() >= self.retry_at:
            return True
        if self.search.closing is None:
            return bool(reports.limit_reached(self.search, known))
        wants_end = reports.ends_what_runs(self.search, known)
        return bool(wants_end) and any(not trial.stopping for trial in self.search.running)

    def answer(self, question: AskModel) -> Known:
        """Ask the language model. Jobs go on meanwhile."""
        environ = self.client.settings.environ
        endpoint = endpoint_of(self.search.settings, environ, self.llm_key)
        try:
            return Known(answer=ask_model(endpoint, question.messages))
        except ModelUnusable as error:
            return Known(model_failure=str(error))

    def warn(self, findings: Sequence[Finding]) -> None:
        if self.callbacks.on_finding:
            for finding in findings:
                self.callbacks.on_finding(finding)

    def keep_seconds(self) -> None:
        """Store how long the search has run, now and then: this process may be killed."""
        seconds = self.wall_seconds
        if seconds - self.stored.seconds < KEPT_SECONDS:
            return
        saved = self.store.save(replace(self.stored, seconds=seconds), ())
        if saved:
            self.stored, self.began = saved, time.monotonic()

    def tell(self, jobs: Sequence[Job]) -> None:
        self.keep_seconds()
        if self.callbacks.on_change:
            self.callbacks.on_change(self.stored, jobs)


def seen_by_job(earlier: Job, path: str) -> tuple[str, tuple[str, ...]]:
    """The path of an earlier job's file as a further job sees it, and the mounts that it needs for
    that: a container has other paths than its host.
    """
    from tao_sdk.backends.by_name import backend_class
    from tao_sdk.client.model_request import results_in_container

    below = path.removeprefix(earlier.results_dir.rstrip("/") + "/")
    in_container = backend_class(earlier.platform).capabilities.needs_image
    inside = results_in_container(earlier)
    if not in_container or below == path or earlier.results_dir == inside or "://" in path:
        return path, ()
    return f"{EARLIER}/{below}", (f"{earlier.results_dir}:{EARLIER}:ro",)


def end_jobs(client: Client, stored: StoredSearch) -> None:
    """Cancel what still runs of a search that was stopped."""
    live = [job.id for job in jobs_of(client, stored.id) if not job.status.terminal]
    if live:
        client.cancel_jobs(live, STOP_GRACE)


def secrets_of(spec: JobSpec) -> dict[str, str]:
    """The values of a job's secrets, by name, where they stand in it."""
    return split_secrets(spec.env_vars, spec.secrets)[1]


def without_secrets(spec: JobSpec) -> JobSpec:
    """The job as it is kept: its secrets by their names alone."""
    return replace(spec, env_vars=split_secrets(spec.env_vars, spec.secrets)[0])


def with_secrets(client: Client, spec: JobSpec, given: Mapping[str, str]) -> JobSpec:
    """The job with the values of its secrets: those `given`, else those of the environment now.
    Raises CredentialError naming one that is neither given nor here.
    """
    from tao_sdk.engine.try_again import secrets_now

    spec = with_given_secrets(spec, given)
    names = [name for name, value in spec.env_vars.items() if isinstance(value, SecretRef)]
    return with_given_secrets(spec, secrets_now(client.engine, spec, names, NO_SECRETS))


def with_given_secrets(spec: JobSpec, given: Mapping[str, str]) -> JobSpec:
    """The job with the values of those secrets that are given; the others stay names."""
    values = {
        name: Secret(given[name])
        for name, value in spec.env_vars.items()
        if isinstance(value, SecretRef) and name in given
    }
    return replace(spec, env_vars={**spec.env_vars, **values})
