"""Client: every verb of the SDK over one store, for the jobs of all platforms."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from tao_sdk.backends.by_name import backend_class, platform_at, platforms
from tao_sdk.backends.contract import LogRequest
from tao_sdk.client import call_checks, listing
from tao_sdk.client.background import BackgroundWatch
from tao_sdk.client.known_jobs import live_id
from tao_sdk.engine import hooks, submit
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.place_facts import ask_or_assume
from tao_sdk.engine.side_by_side import in_threads, side_by_side, submits_at_once
from tao_sdk.model.clock import to_iso
from tao_sdk.model.errors import PathNotFound, TaoError, UsageError
from tao_sdk.model.job import Event, Job, JobStatus
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status
from tao_sdk.store import Store, open_store

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on

    from tao_sdk.backends.contract import Files
    from tao_sdk.client.results import Results
    from tao_sdk.client.waiting import Follower
    from tao_sdk.engine.logs import LogView
    from tao_sdk.engine.prepare import Planned, Request
    from tao_sdk.engine.waiting import SharedLooks
    from tao_sdk.model.activity import Activity
    from tao_sdk.model.comparison import Comparison
    from tao_sdk.model.diagnosis import Diagnosis
    from tao_sdk.model.finding import Finding
    from tao_sdk.skills.model_job import ModelJob

SHORTEST_PAUSE = 1e-9  # seconds between two looks: more than none
GRACE_MEANING = "It is the time that the command has to end."


class Client:
    """The jobs of one store, on all platforms. Cheap to make, and safe for several threads.

    >>> from tao_sdk import Client, JobSpec
    >>> with Client() as client:
    ...     spec = JobSpec(command="echo epoch 1/1 accuracy 0.9", gpu_count=0)
    ...     job = client.submit(spec, "local").job
    ...     ended = client.wait(job.id, timeout=300)
    ...     print(ended.status, client.get_job_logs(job.id).strip())
    ...     print(client.get_job(job.id).progress.best.value)
    Complete epoch 1/1 accuracy 0.9
    0.9

    To submit: `plan`, `submit`, `submit_all`, `submit_again`, `retry_job`; `prepare` makes the job
    of a model. To look: `get_job`,
    `list_jobs`, `get_job_logs`, `follow_logs`, `events`, `diagnose`, `compare`. To wait: `wait`,
    `wait_all`, `follow_jobs`. To end: `cancel_job`, `cancel_jobs`, `remove`, `gc`. What is left:
    `results`, `fetch_results`, `list_path`.

    `state_file` is the job store, a file; without it the user's own, which `tao` has too. With
    `watch`, a thread carries the live jobs to their end (retries, hooks) while the client is open.
    `poll_interval` is the pause between its looks, in seconds. `on_epoch_milestone` hooks get each
    `epoch_milestone_interval`-th epoch.

    A job is named by its id, its name, or the start of its id. A platform is named as in
    `platforms()`, or by an endpoint of config.yaml.

    Errors are TaoError, with the texts what, why and next, and a stable code. Their classes are in
    tao_sdk.model.errors: JobNotFound, SpecError, Refused, CredentialError, Unreachable,
    WaitTimeout and others.

    The attribute `platform` is meant where no platform is named; "" means all of them for jobs, and
    local for paths. `endpoint` is the endpoint that is meant.
    """

    platform = ""
    endpoint = ""

    def __init__(
        self,
        state_file: str | Path | None = None,
        *,
        settings: Settings | None = None,
        watch: bool = False,
        poll_interval: float | None = None,
        epoch_milestone_interval: int = hooks.MILESTONE,
    ) -> None:
        if epoch_milestone_interval < 1:
            raise UsageError(
                f"epoch_milestone_interval is {epoch_milestone_interval}.",
                "",
                "Give 1 or more epochs.",
            )
        if poll_interval is not None:
            pause = "It is the pause between two looks."
            call_checks.refuse_no_seconds("poll_interval", poll_interval, pause, SHORTEST_PAUSE)
        self.poll_interval = poll_interval
        self.settings = settings or Settings.load()
        self.engine = Engine(self.settings, open_store(state_file, self.settings.state_dir))
        self._callbacks = hooks.Callbacks(epoch_milestone_interval)
        self._background = BackgroundWatch(self.engine, self._callbacks, poll_interval)
        self._watch = watch
        if watch and self.store.live():
            self._background.start()

    @property
    def store(self) -> Store:
        """The store of jobs and events. Reading it asks no backend."""
        return self.engine.store

    @cached_property
    def _looks(self) -> SharedLooks:
        """The looks at single jobs, without their logs."""
        from tao_sdk.engine.waiting import SharedLooks

        return SharedLooks(self.engine, look_only)

    @cached_property
    def _readings(self) -> SharedLooks:
        """The looks at single jobs, with their logs."""
        from tao_sdk.engine.waiting import SharedLooks

        return SharedLooks(self.engine, look_and_read)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: pass a job to another process by its id."""
        raise TypeError(
            f"A {type(self).__name__} belongs to its process: make one in "
            "the other, and pass it job.id."
        )

    def close(self) -> None:
        """Stop watching, let go of every connection, and close the store. Jobs go on."""
        self._background.close()
        self.engine.close()
        self.store.close()

    # Submitting

    def submit(
        self,
        spec: JobSpec | Mapping[str, Any] | None = None,
        platform: str = "",
        options: Mapping[str, Any] | None = None,
        *,
        parent: str | None = None,
        idempotency_key: str | None = None,
        on_stored: submit.OnStored | None = None,
        **keywords: Any,
    ) -> submit.Submission:
        """Hand a job over, given as a JobSpec or as a mapping of its fields, as a job file has
        them. `platform` may be left out if the SDK is of one platform. `options` are the platform's
        options, by name: help(client.options_class("slurm")).

        Returns at once, with `job`, `findings` (warnings of the checks) and `notes`. A submit that
        is repeated with its `idempotency_key` starts no second job: `job` is the first one's, and
        `repeated` is True. `on_stored` is called with the same before the platform is asked to
        start a new job: from then on its id is known, unless this raises.

        Raises SpecError, Refused, CredentialError, Unreachable: then nothing was started. Raises
        UsageError for `keywords`, as fields belong into the spec, and for the key of another job.
        """
        if idempotency_key is not None:
            from tao_sdk.model.idempotency import check_key

            check_key(idempotency_key)
        spec = call_checks.read_job("submit", spec, keywords)
        platform = platform or self._own_place("submit")
        call_checks.refuse_no_image(spec, platform, self.settings)
        from tao_sdk.engine.prepare import Request  # not needed to look at jobs

        callables, stored = hooks.split(spec.hooks)
        request = Request(
            replace(spec, hooks=stored),
            platform,
            dict(options or {}),
            parent,
            idempotency_key=idempotency_key,
        )
        submission = self._submitted(request, on_stored)
        if callables:
            self._callbacks.of_job[submission.job.id] = callables
        if self._watch or callables:
            self._background.start()
        return submission

    def submit_all(
        self,
        specs: Iterable[JobSpec | Mapping[str, Any]],
        platform: str = "",
        options: Mapping[str, Any] | None = None,
        *,
        parent: str | None = None,
    ) -> list[submit.Submission | TaoError]:
        """Submit many jobs, several at once. Return a list in the order of `specs`: for each job
        what `submit` returned, or the error that it raised.

        Raises, with nothing started, if the platform cannot be used at all. Ctrl-C skips the jobs
        that have not begun; jobs already being submitted are handed over first.
        """
        jobs = call_checks.read_jobs("submit_all", specs)
        place = platform or self._own_place("submit_all")
        capabilities = self.engine.backend(place).capabilities
        most = submits_at_once(capabilities, map(call_checks.gpus_of, jobs))
        return in_threads(lambda job: self.submit(job, place, options, parent=parent), jobs, most)

    def _submitted(
        self, request: Request, on_stored: submit.OnStored | None = None
    ) -> submit.Submission:
        def tell_stored(submission: submit.Submission) -> None:
            if on_stored:
                on_stored(self._with_named_job(submission))

        submission = submit.submit(self.engine, request, tell_stored)
        if submission.repeated:
            return replace(submission, job=self.get_job(submission.job.id))
        return self._with_named_job(submission)

    def _with_named_job(self, submission: submit.Submission) -> submit.Submission:
        return replace(submission, job=listing.named_jobs(self.engine, [submission.job])[0])

    def plan(
        self,
        spec: JobSpec | Mapping[str, Any] | None = None,
        platform: str = "",
        options: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> Planned:
        """Return what `submit` would send, with the findings of the checks. Nothing is sent and
        nothing is stored. Raises as `submit`.

        If the cluster or the daemon does not answer, the plan has `asked` False, and a finding says
        what was not checked.
        """
        spec = call_checks.read_job("plan", spec, keywords)
        platform = platform or self._own_place("plan")
        call_checks.refuse_no_image(spec, platform, self.settings)
        from tao_sdk.engine import prepare

        request = prepare.Request(spec, platform, dict(options or {}))
        planned = prepare.plan_and_check(self.engine, request, ask_or_assume)
        return prepare.with_documents(self.engine, planned)

    def prepare(
        self,
        model: str,
        action: str,
        *,
        data: Mapping[str, str | Sequence[str]] | None = None,
        values: Mapping[str, Any] | None = None,
        parent: str = "",
        checkpoint: str = "",
        skill_bank: str | Path = "",
        **fields: Any,
    ) -> ModelJob:
        """Prepare the job of a model of the skill bank. Return `spec`, to submit; `origins`, where
        each value came from; `warnings`. Nothing is run.

        `data` are datasets by name, `values` those of the spec by full key or short name, and
        `fields` the job's other fields, such as gpu_count. The `checkpoint` is taken from a
        `parent`, which has to be Complete: best, latest, epoch:N, step:N or a path.

        Raises SpecError, SkillNotFound, ActionNotFound, BankError, JobNotFound, Unreachable.
        """
        from tao_sdk.client.model_calls import ModelCall, join_call

        call = ModelCall(model, action, data, values, parent, checkpoint, skill_bank)
        return join_call(self, call, fields).job

    def resolve_spec_param(
        self,
        job_id: str,
        param: str,
        *,
        network_arch: str = "",
        parent_job_id: str | None = None,
        checkpoint: str = "",
    ) -> str | None:
        """Return the value of a name in a skill's spec_params, for this job: the folder of its
        results (output_dir), or a checkpoint of its parent or the checkpoint's folder
        (parent_model, parent_model_folder, resume_model).

        None if the name is not known, or there is no parent. `parent_job_id` is the parent of a job
        that has none itself. `network_arch` is checked against the skill bank. Raises as `prepare`.
        """
        from tao_sdk.client import model_calls

        model_calls.check_network(self, network_arch)
        return model_calls.resolve_param(self, job_id, param, parent_job_id, checkpoint)

    def get_model_results_path(
        self, job_id: str, *, network_arch: str = "", checkpoint: str = ""
    ) -> str:
        """The path or address of a Complete job's best checkpoint, or of the one that `checkpoint`
        says. Raises as `resolve_spec_param`.
        """
        from tao_sdk.client import model_calls

        model_calls.check_network(self, network_arch)
        return model_calls.model_path(self, job_id, checkpoint)

    def _own_place(self, call: str) -> str:
        """The endpoint or the platform of this SDK. Raises UsageError if it has none."""
        if place := self.endpoint or self.platform:
            return place
        known = ", ".join(self.platforms())
        raise UsageError(f"{call}: no platform is named.", "", f"Name one of them: {known}.")

    def options_class(self, platform: str) -> type[Any]:
        """The dataclass of the platform's own options."""
        return backend_class(self.platform_at(platform)).Options

    def platforms(self) -> list[str]:
        """The names of the platforms that can be used here."""
        return platforms()

    def endpoints(self) -> list[str]:
        """The names of the endpoints in config.yaml."""
        return list(self.engine.places.endpoints)

    def platform_at(self, name: str) -> str:
        """The platform that the name of a platform or an endpoint means."""
        return platform_at(name, self.settings)

    # Looking

    def get_job(self, job: str, *, look: bool = True) -> Job:
        """The job with this id or name, or whose id starts so. Asks its backend first, and reads on
        in its log, unless told not to.

        Raises JobNotFound, and UsageError when several jobs fit.
        """
        found = self.store.get(self.store.resolve(job))
        seen = self._fired([self._readings.look(found)])[0] if look and may_change(found) else found
        return listing.named_jobs(self.engine, [seen])[0]

    def get_job_status(self, job_id: str) -> JobStatus:
        """The job's status, its message, and the time of the last look. Asks its backend first.
        Raises JobNotFound.
        """
        found = self.store.get(self.store.resolve(job_id))
        job = found if found.status.terminal else self._fired([self._looks.look(found)])[0]
        return JobStatus(
            job.id, job.status, job.current_message, to_iso(job.seen_at) or "", job.reason_code
        )

    @call_checks.suggests_arguments
    def list_jobs(
        self,
        *,
        statuses: Collection[Status | str] = (),
        platform: str | None = None,
        labels: Mapping[str, str] | None = None,
        parent: str | None = None,
        limit: int | None = None,
        look: bool = True,
        sort: str = "created",
    ) -> list[Job]:
        """List the jobs, newest first, at most `limit`; `statuses` such as ["Running"].

        `sort` is created, name, status, a metric (the best value first), or a setting or label (the
        smallest value first); jobs without it come last. Any other word is a UsageError.

        The live jobs are looked at first, in one query per endpoint, and the new parts of their
        logs are read. If each log costs a question to a server, logs that another process reads are
        left to it.
        """
        place = platform or self.endpoint or self.platform
        query = listing.JobQuery(statuses, place, labels or {}, parent, limit, sort)
        return listing.list_jobs(self.engine, query, self._see_all if look else None)

    def compare(self, jobs: Sequence[str], metric: str | None = None) -> Comparison:
        """Compare jobs: the settings in which they differ, and the best and last value of `metric`,
        or of the metric that most of them have.

        Raises UsageError for fewer than two jobs, and for a metric that none of them has.
        """
        from tao_sdk.model.comparison import compare_jobs

        call_checks.refuse_one_text("jobs", jobs)
        ids = dict.fromkeys(map(self.store.resolve, jobs))
        if len(ids) < 2:
            several = "Name two or more: tao compare JOB JOB, or tao compare --label NAME=VALUE"
            what = named_jobs_words(list(ids), len(jobs))
            raise UsageError(what, "Two jobs or more are compared.", several)
        found = {job_id: self.store.get(job_id) for job_id in ids}
        # one query per endpoint
        seen = self._see([job for job in found.values() if may_change(job)])
        return compare_jobs(list({**found, **{job.id: job for job in seen}}.values()), metric)

    def events(
        self, job: str | None = None, since: int = 0, follow: bool = False
    ) -> Iterator[Event]:
        """Yield the events after number `since`, in order. With follow, go on until the job has
        ended, or without end if no job is given. To get only events to come, give the
        `newest_event_number` of now.
        """
        job_id = self.store.resolve(job) if job else None
        if follow:
            yield from self._follower.follow_events(job_id, since)
        else:
            yield from self.store.events(job_id, since)

    def newest_event_number(self) -> int:
        """The number of the newest event of all jobs; 0 without events."""
        return self.store.newest_event_number()

    @property
    def _follower(self) -> Follower:
        from tao_sdk.client.waiting import Follower

        return Follower(self.engine, self._background, self._fired)

    def refresh_progress(self, job: Job) -> Job:
        """Read the new part of the job's log, and return the job with its progress as of now."""
        from tao_sdk.engine import progress

        return progress.scan(self.engine, job, math.inf)

    def _see_all(self, jobs: Sequence[Job]) -> list[Job]:
        from tao_sdk.engine.reading import look_and_read_due

        return self._fired(look_and_read_due(self.engine, jobs))

    def _see(self, jobs: Sequence[Job]) -> list[Job]:
        return self._fired(look_and_read(self.engine, jobs))

    def _fired(self, seen: list[Job]) -> list[Job]:
        """The same jobs, after calling their callbacks that are due."""
        for job in seen:
            if job.id in self._callbacks.of_job:
                self._callbacks.fire(self.engine, job)
        return seen

    # Waiting

    def wait(self, job_id: str, timeout: float | None = None) -> JobStatus:
        """Wait until the job has ended, and return the status it ended with. A failed job raises
        nothing: its `status` is Error.

        Raises JobNotFound, and WaitTimeout after `timeout` seconds; the job goes on.
        """
        job = self.wait_all([job_id], timeout)[0]
        return JobStatus(
            job.id, job.status, job.current_message, to_iso(job.seen_at) or "", job.reason_code
        )

    def wait_all(
        self,
        ids: Sequence[str],
        timeout: float | None = None,
        on_change: Callable[[Job], None] | None = None,
    ) -> list[Job]:
        """Wait until every job has ended. `on_change` is called with each job whose status, message
        or epoch changed.
        """
        call_checks.refuse_one_text("ids", ids)
        jobs = [self.store.get(self.store.resolve(job_id)) for job_id in ids]
        for now in self.follow_jobs(ids, timeout):
            for job, was in zip(now, jobs, strict=True):
                if on_change and (job.standing, job.progress.epoch) != (
                    was.standing,
                    was.progress.epoch,
                ):
                    on_change(job)
            jobs = now
        return jobs

    def follow_jobs(self, ids: Sequence[str], timeout: float | None = None) -> Iterator[list[Job]]:
        """Yield the jobs as they now are, again and again until all have ended, as often as is
        polite to ask.

        Starts a further attempt that is due if no other process watches.

        Raises WaitTimeout after `timeout` seconds, UsageError if it is no number.
        """
        call_checks.refuse_one_text("ids", ids)
        return self._follower.follow_jobs(ids, timeout)

    def polite_seconds(self, job: Job) -> float:
        """The shortest polite interval, in seconds, between two queries of the job's backend."""
        from tao_sdk.engine.waiting import endpoint_of, polite_seconds

        return polite_seconds(self.engine, endpoint_of(job))

    # Logs

    def follow_logs(
        self,
        job_id: str,
        *,
        tail: int | None = None,
        follow: bool = True,
        events: bool = False,
        stream: str = "",
        rank: int | None = None,
        from_attempt: int = 1,
    ) -> Iterator[bytes]:
        """Yield the log's bytes, unchanged, over all attempts, or over those from `from_attempt`
        on. `events` keeps the runner's own lines.

        For a job of several ranks, all ranks are read, with a line `==> rank 1 <==` at each change
        of rank; or `rank` alone, without such lines. With follow, a further attempt that is due is
        started if no other process watches. `stream` reads stdout or stderr alone, on a platform
        that keeps them apart and still has the log.
        """
        from tao_sdk.engine.logs import LogView, refuse_stream

        request = LogRequest(
            rank=0 if rank is None else call_checks.rank_number(rank),
            stream=stream,
            tail=call_checks.line_count(tail),
            follow=follow,
        )
        found = self.store.resolve(job_id)
        refuse_stream(self.engine, found, stream)
        view = LogView(request, events, every_rank=rank is None, first_attempt=max(from_attempt, 1))
        return self._logs(found, view)

    def _logs(self, job_id: str, view: LogView) -> Iterator[bytes]:
        from tao_sdk.engine.logs import read

        with self._background.carrying() as carry:
            yield from read(self.engine, job_id, replace(view, carry=carry))

    def get_job_logs(
        self, job_id: str, tail: int | None = None, *, stream: str = "", rank: int | None = None
    ) -> str:
        """The log as text; with `tail`, the last lines of each rank. For a log of many megabytes,
        follow_logs is better.
        """
        data = b"".join(self.follow_logs(job_id, tail=tail, follow=False, stream=stream, rank=rank))
        return data.decode("utf-8", "replace")

    # Acting

    def cancel_job(self, job_id: str, grace: float = 10.0) -> bool:
        """End a job. True when it is over, by this call or before it; False when the end was not
        seen in time. If several jobs have that name, the only live one is meant.
        """
        call_checks.refuse_no_seconds("grace", grace, GRACE_MEANING)
        known = live_id(self, job_id)
        answer = self._end_jobs([known], grace)[known]
        if isinstance(answer, TaoError):
            raise answer
        return answer

    def retry_job(self, job_id: str) -> Job:
        """Start the next attempt of a job that ended in Error or was canceled, at once.

        A spec with a resume key gets the newest whole checkpoint; any other job begins anew.

        The attempt does not count towards `retries`. Raises UsageError for a live or Complete job;
        CredentialError, SpecError and Unreachable, then nothing has changed; Refused.
        """
        from tao_sdk.engine import try_again

        job = try_again.retry(self.engine, self.get_job(job_id).id)
        if self._watch:
            self._background.start()
        return listing.named_jobs(self.engine, [job])[0]

    def submit_again(self, job_id: str) -> submit.Submission:
        """Hand over a new job that is the same as this one. Raises as `submit`."""
        from tao_sdk.engine import try_again

        request = try_again.request_anew(self.engine, self.get_job(job_id, look=False))
        submission = self._submitted(request)
        if self._watch:
            self._background.start()
        return submission

    def cancel_jobs(
        self, job_ids: Sequence[str], grace: float = 10.0
    ) -> dict[str, bool | TaoError]:
        """Cancel many jobs in one go. Return for each given id what `cancel_job` returns, or the
        error that it raises.
        """
        call_checks.refuse_one_text("job_ids", job_ids)
        call_checks.refuse_no_seconds("grace", grace, GRACE_MEANING)
        named = list(dict.fromkeys(job_ids))
        find_id = partial(live_id, self)
        meant = dict(zip(named, side_by_side(find_id, named), strict=True))
        ids = list(dict.fromkeys(job for job in meant.values() if isinstance(job, str)))
        answers = self._end_jobs(ids, grace)
        return {name: answers[job] if isinstance(job, str) else job for name, job in meant.items()}

    def _end_jobs(self, job_ids: Sequence[str], grace: float) -> dict[str, bool | TaoError]:
        from tao_sdk.engine import cancel

        answers = cancel.cancel_all(self.engine, job_ids, timedelta(seconds=float(grace)))
        for job_id in job_ids:
            self._fire_for(job_id)
        return answers

    def _fire_for(self, job_id: str) -> None:
        """Call the callbacks that the job's end has made due."""
        if job_id in self._callbacks.of_job:
            job = self.store.get(job_id)
            wanted = self._callbacks.want_epochs(job_id)
            self._fired([self.refresh_progress(job) if wanted else job])

    def live_children(self, parent: str) -> list[Job]:
        """The jobs that `parent` started and that have not ended. Raises JobNotFound if there is no
        such parent.
        """
        if not self.list_jobs(parent=parent, limit=1, look=False):
            self.store.resolve(parent)
        live = [status for status in Status if not status.terminal]
        return self.list_jobs(parent=parent, statuses=live, look=False)

    def remove(self, job_id: str, *, force: bool = False) -> bool:
        """Forget an ended job, and remove what the backend still has of it. Its results stay in
        place.

        `force` ends a live job first. It also forgets a job whose backend cannot be asked, which
        may be gone for good, or does not end the job in time. Then False is returned: the backend
        may still have parts of the job.
        """
        from tao_sdk.client import cleaning

        job = self.get_job(job_id)
        released = True
        if force:
            released = self._end_and_release(job)
        else:
            cleaning.refuse_live(job)
            cleaning.release(self.engine, job)
        self.store.remove(job.id)
        return released

    def _end_and_release(self, job: Job) -> bool:
        """End the job and remove it from its backend. False if the backend cannot be asked or has
        not ended it, or if only the published SDK may ask it.
        """
        from tao_sdk.client import cleaning

        if job.imported_from:
            return job.status.terminal
        try:
            has_ended = self.cancel_job(job.id)
            if has_ended:
                cleaning.release(self.engine, self.store.get(job.id))
            return cleaning.force_away(self.engine, job, has_ended)
        except TaoError:
            return False

    def gc(self, *, older_than: timedelta, dry_run: bool = False) -> list[str]:
        """Remove what ended jobs left at the backends, after keeping their logs, and what crashes
        left in the store.

        Rows and results stay. A job that cannot be cleaned now keeps no other from it: its error is
        raised once all are done.
        """
        from tao_sdk.client import cleaning

        if not isinstance(older_than, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                f"older_than is {older_than!r}.",
                "It is a timedelta.",
                "Three days: timedelta(days=3)",
            )
        return cleaning.clean_old_jobs(self.engine, older_than, dry_run)

    def watch(self, stop: threading.Event | None = None) -> None:
        """Carry the live jobs to their end, in this thread. Returns when none is live, or `stop` is
        set.
        """
        self._background.watch(stop)

    def jobs_with_failed_hooks(self) -> list[str]:
        """The ids of jobs with undelivered hooks. Between two watches, these are the hooks that
        failed.
        """
        return hooks.undelivered(self.engine)

    # Explaining

    def diagnose(self, job_id: str) -> Diagnosis | None:
        """Explain why the job waits or failed, and what to do; None for a job that is well."""
        from tao_sdk.engine import diagnose

        return diagnose.diagnose(self.engine, self.get_job(job_id))

    def activity(self, job_id: str) -> Activity | None:
        """Return what a running job does now, for a job that may hang. None if its platform cannot
        tell.
        """
        from tao_sdk.engine import diagnose

        return diagnose.activity(self.engine, self.get_job(job_id))

    def known_cause(self, job: Job) -> str:
        """The stored one-line cause of a failed job; "" when none was found. No platform is
        asked.
        """
        from tao_sdk.engine import diagnose

        return diagnose.known_cause(self.engine, job)

    def lost_results(self, job_id: str) -> str:
        """The job's own report of results that it could not keep; "" when it reported none."""
        from tao_sdk.engine import diagnose

        return diagnose.lost_results(self.engine, self.store.get(job_id))

    def failure_while_ending(self, job_id: str) -> str:
        """The failure of the job's program after it was told to end: `exit code 1, ValueError: no
        room`. "" if it is not known to have failed.
        """
        from tao_sdk.engine import diagnose

        job = self.store.get(job_id)
        if not job.status.terminal or not diagnose.was_told_to_end(job):
            return ""
        return diagnose.failure_while_ending(job, diagnose.log_end(self.engine, job))

    def notes(self, job_id: str) -> list[str]:
        """Notes on the job beside its status and its diagnosis. Examples: it was killed when its
        grace was over; a pipe hides a failure or holds back what is printed.
        """
        from tao_sdk.engine.notes import notes

        return notes(self.engine, self.store.get(self.store.resolve(job_id)))

    def get_failure_analysis(self, job_id: str) -> dict[str, Any] | None:
        """The diagnosis as a dictionary: err_class, suggestion, job_failure_by_node_event, ... It
        is for a job that failed, or is Pending for a reason that its platform names; None for any
        other.
        """
        from tao_sdk.engine import diagnose

        found = diagnose.find_cause(self.engine, self.get_job(job_id))
        return found.to_json() if found else None

    def doctor(self, platform: str) -> list[Finding]:
        """Check the platform. Return the problems that a job would meet on it, each with the
        command that mends it.
        """
        return self.engine.backend(platform).doctor()

    # Files and results

    def get_job_results_dir(self, job_id: str) -> str:
        """The path of the job's results directory, as the backend sees it."""
        return self.get_job(job_id, look=False).results_dir

    def results(self, job_id: str) -> Results:
        """Return the results: their directory (`dir`), what is there (`files`, `checkpoints`), and
        the paths of the best and the newest whole checkpoint (`best`, `newest`, each a path or
        None).
        """
        from tao_sdk.client import results

        job = self.get_job(job_id)
        self.engine.results_read_at.pop(job.id, None)  # results must be read anew
        return results.results(self.engine, self.refresh_progress(job))

    def fetch_results(
        self,
        job_id: str,
        into: str | Path,
        *,
        on_file: Callable[[str, int], None] | None = None,
        on_skip: Callable[[str, str], None] | None = None,
        only: str | Sequence[str] = (),
    ) -> list[Path]:
        """Copy the results below `into`. Each file appears under its name only once it is whole.

        `only` is one pattern or several, such as `*.pth` or `train/*`. Raises PathNotFound if no
        file fits any of them.

        `on_file` is called with the name and the size of each copied file, `on_skip` with the name
        of a file that cannot be copied, and why.
        """
        from tao_sdk.client import results

        patterns = [only] if isinstance(only, str) else only
        job = self.get_job(job_id)
        return results.fetch(self.engine, job, Path(into), on_file, on_skip, patterns)

    def files(self, platform: str, path: str = "") -> Files:
        """The `stat`, `list` and `read` of paths, as the platform sees them; for a `path` in a
        bucket, as this machine does.
        """
        from tao_sdk.engine.bucket_files import files_at

        return files_at(self.engine, path, platform)

    def path_at(self, uri: str, platform: str) -> str:
        """The path of an address as `files` of the platform take it. Raises UsageError for an
        address that cannot be looked at there.
        """
        from tao_sdk.client import results

        return results.path_at(self.engine, uri, platform)

    @property
    def _here(self) -> str:
        """The place of a path that is given without one: the SDK's endpoint or platform, else
        local.
        """
        return self.endpoint or self.platform or "local"

    def check_path(self, remote_path: str, platform: str | None = None) -> bool:
        """True if the path is there, as the backend sees it. Raises Unreachable if it could not
        look.
        """
        place = platform or self._here
        path = self.path_at(remote_path, place)
        try:
            self.files(place, remote_path).stat(path)
        except PathNotFound:
            return False
        return True

    def list_path(self, remote_path: str, platform: str | None = None) -> list[str]:
        """The names in a folder, sorted. Raises PathNotFound, Unreachable."""
        place = platform or self._here
        path = self.path_at(remote_path, place)
        found = self.files(place, remote_path).list(path)
        return sorted(stat.path.rstrip("/").rpartition("/")[2] for stat in found)


def named_jobs_words(ids: Sequence[str], words: int) -> str:
    """The error text for a comparison of fewer than two jobs."""
    if not ids:
        return "No job is named."
    return "One job is named." if words == 1 else f"All the words name one job, {ids[0]}."


def look_only(engine: Engine, jobs: Sequence[Job]) -> list[Job]:
    from tao_sdk.engine.look import look

    return [one.job for one in look(engine, jobs)]


def look_and_read(engine: Engine, jobs: Sequence[Job]) -> list[Job]:
    from tao_sdk.engine import reading

    return reading.look_and_read(engine, jobs)


def may_change(job: Job) -> bool:
    """True for a live job, for one whose log may still grow, and for one that still rents its
    place.
    """
    from tao_sdk.engine.reading import may_have_news

    return not job.status.terminal or may_have_news(job) or job.is_still_rented
