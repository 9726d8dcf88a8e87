"""LeptonBackend: the verbs of the contract for jobs of one DGX Cloud Lepton workspace.

Here: the calls to the workspace. Not here: the decisions (render.py for a submit, parse.py for what
was observed).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tao_sdk.backends.contract import (
    Backend,
    CancelAnswer,
    Capabilities,
    Files,
    LogChunk,
    LogRequest,
    MiB,
    cancel_side_by_side,
)
from tao_sdk.backends.lepton import parse, render, rules
from tao_sdk.backends.lepton.facts import LeptonFacts
from tao_sdk.backends.lepton.files import JobFiles
from tao_sdk.backends.lepton.job import names
from tao_sdk.backends.lepton.logs import RankLog
from tao_sdk.backends.lepton.look import Look, no_answer_if_refused, start_ns
from tao_sdk.backends.lepton.options import LeptonOptions
from tao_sdk.backends.lepton.parse import Object
from tao_sdk.backends.lepton.request import LeptonRequest
from tao_sdk.backends.lepton.workspace import site
from tao_sdk.backends.refusals import (
    adopted,
    missing_secret,
    must_live_at,
    must_look_at,
    no_value,
    seen_elsewhere,
    seen_unreachable,
)
from tao_sdk.model.diagnosis import Diagnosis, Evidence
from tao_sdk.model.errors import TaoError, Unreachable
from tao_sdk.model.finding import Finding
from tao_sdk.model.observation import Observation, Outcome, Phase
from tao_sdk.model.plan import Attempt, Plan, Ref
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.replica import Replica
from tao_sdk.model.settings import Settings
from tao_sdk.transports.rest import Rest, RestRefusal
from tao_sdk.transports.silence import within

CANCELS = 8  # jobs that are ended at once
SURVEY_SECONDS, SUBMIT_SECONDS, OBSERVE_SECONDS = 25.0, 25.0, 25.0
READERS = 4  # logs read at once; the workspace answers 429 to those who ask much


@contextmanager
def answering() -> Generator[None]:
    """Turn a RestRefusal into CredentialError for the token, else into Unreachable."""
    try:
        yield
    except RestRefusal as refused:
        if refused.status == 401:
            raise site.refused_token(refused.what) from refused
        fix = "Check your rights in the workspace: tao doctor lepton"
        raise Unreachable(f"The workspace refused {refused.why}.", refused.what, fix) from refused


class LeptonBackend(Backend[LeptonOptions, LeptonFacts, LeptonRequest]):
    """Jobs of one workspace."""

    platform = "lepton"
    capabilities = Capabilities(
        multi_node=True,
        log_goes=True,
        max_command=MiB,
        max_payload=MiB,
        payload_advice="Put large files on a volume (mounts: volume/folder:/data) or in a bucket, "
        "and name them under inputs (/data/file, s3://bucket/file).",
        poll_seconds=3.0,
        files_seconds=20.0,
        files_on_demand=True,
        readers=READERS,
        log_seconds=10.0,
        logs_per_look=READERS,
        lag_seconds=5.0,
    )
    Options = LeptonOptions

    def __init__(self, settings: Settings, state_dir: Path) -> None:  # noqa: ARG002
        self.settings = settings

    @cached_property
    def endpoint(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The workspace's id. Raises CredentialError if none is set."""
        return site.workspace_id(self.settings)

    @cached_property
    def rest(self) -> Rest:
        return Rest(site.server(self.settings), self.settings.environ)

    @cached_property
    def look(self) -> Look:
        return Look(self.rest)

    @cached_property
    def surveys(self) -> Any:
        from tao_sdk.backends.lepton.workspace.survey import Survey

        return Survey(self.rest)

    @property
    def way(self) -> Mapping[str, str]:
        return site.way(self.settings)

    # Planning

    @answering()
    def survey(self, job: PreparedJob, options: LeptonOptions) -> LeptonFacts:
        with within(SURVEY_SECONDS):
            return self.surveys.facts(job, options, self.endpoint, self.settings)

    def plan(
        self, job: PreparedJob, options: LeptonOptions, facts: LeptonFacts, attempt: Attempt
    ) -> Plan[LeptonRequest]:
        return render.plan(job, options, facts, attempt)

    def plan_again(
        self,
        last: Plan[LeptonRequest],
        job: PreparedJob,
        options: LeptonOptions,
        attempt: Attempt,
    ) -> Plan[LeptonRequest]:
        """The plan of a further attempt, with the decisions of the first."""
        return render.build(last.request.decisions, job, options, attempt)

    def check(self, plan: Plan[LeptonRequest], facts: LeptonFacts) -> list[Finding]:
        from tao_sdk.backends.lepton.job import checks

        return checks.check(plan, facts)

    def request_from_json(self, data: Mapping[str, Any]) -> LeptonRequest:
        return LeptonRequest.from_json(data)

    # Starting

    def submit(self, plan: Plan[LeptonRequest], secrets: Mapping[str, str]) -> Ref:
        from tao_sdk.backends.lepton.job import starting

        missing = missing_secret(plan.secrets, secrets)
        if missing:
            return adopted(self.find(plan.attempt, plan), no_value(missing))
        key = self.settings.get("NGC_KEY") or ""
        if plan.request.decisions.pull_secret and not key:
            return adopted(self.find(plan.attempt, plan), rules.missing_key())
        try:
            with within(SUBMIT_SECONDS):
                job = starting.start_attempt(self.look, plan, secrets, key)
        except RestRefusal as refused:
            if refused.status == 401:
                raise site.refused_token(refused.what) from refused
            raise rules.refused(refused.what, refused.why) from refused
        return self.ref(job, plan.attempt)

    @answering()
    def find(self, attempt: Attempt, plan: Plan[LeptonRequest] | None = None) -> Ref | None:  # noqa: ARG002
        from tao_sdk.backends.lepton.job import starting

        job = starting.find_surely(self.look, attempt)
        return self.ref(job, attempt) if job else None

    def ref(self, job: Object, attempt: Attempt) -> Ref:
        name = parse.job_id(job)
        return Ref(
            platform=self.platform,
            endpoint=self.endpoint,
            namespace=self.endpoint,
            native_id=name,
            unique_id=name,
            attempt=attempt,
            details={
                "job_name": name,
                "created": parse.created_at(job),
                "num_nodes": parse.nodes_of(job),
                "secrets": parse.secrets_of(job, names.secret_prefix(attempt)),
            },
        )

    # Looking

    def observe(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        """The observation of each attempt: one list, and one question for each that newly ended."""
        here = [ref for ref in refs if ref.endpoint == self.endpoint]
        answers = seen_elsewhere(self.endpoint, refs)
        if not here:
            return answers
        try:
            with within(OBSERVE_SECONDS), answering():
                return answers | self.look.observed(here)
        except TaoError as error:
            return answers | seen_unreachable(here, error.what)

    def outcome(self, ref: Ref) -> Outcome | None:  # noqa: ARG002
        """None: what a job leaves on a volume cannot be read from outside the workspace."""
        return None

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        must_live_at(self.endpoint, ref)
        with answering():
            yield from self.rank_log(ref, request.rank).read(request)

    def rank_log(self, ref: Ref, rank: int) -> RankLog:
        return RankLog(
            rest=self.rest,
            job=ref.native_id,
            find_replica=partial(self.replica_id, ref, rank),
            start=start_ns(float(ref.details.get("created") or 0)),
            mark=names.end_mark(ref.attempt),
            is_over=partial(self.is_over, ref),
        )

    def replica_id(self, ref: Ref, rank: int) -> str | None:
        """The replica of a rank; None while there is none. "" for that of a job with one node,
        which need not be asked for.
        """
        if int(ref.details.get("num_nodes") or 1) == 1:
            return ""
        return parse.replica_id(self.look.replicas(ref.native_id), ref.native_id, rank) or None

    def is_over(self, ref: Ref) -> bool:
        """True once nothing of the attempt runs any more. Raises RestRefusal, Unreachable."""
        job = self.look.job(ref.native_id)
        return job is None or self.look.observation(ref, job).phase.over

    def files(self, endpoint: str = "") -> Files:
        must_look_at(self.endpoint, endpoint)
        return JobFiles()

    # Ending

    def cancel(self, refs: Sequence[Ref], grace: timedelta) -> dict[Ref, CancelAnswer]:
        return cancel_side_by_side(refs, partial(self.ended, grace=grace), CANCELS)

    @answering()
    def ended(self, ref: Ref, grace: timedelta) -> Observation:
        from tao_sdk.backends.lepton.job import ending

        must_live_at(self.endpoint, ref)
        return ending.end_attempt(self.look, ref, grace)

    @answering()
    def release(self, ref: Ref) -> None:
        """Delete the job, its log and its secrets."""
        from tao_sdk.backends.lepton.job import ending

        must_live_at(self.endpoint, ref)
        ending.release_attempt(self.look, ref)

    # Explaining

    @answering()
    def replicas(self, ref: Ref) -> Sequence[Replica]:
        must_live_at(self.endpoint, ref)
        job = self.look.job(ref.native_id)
        if job is None:
            return ()
        found = self.look.replicas(ref.native_id)
        return parse.replicas_of(found, ref.native_id, parse.nodes_of(job))

    @answering()
    def evidence(self, ref: Ref) -> Evidence:
        must_live_at(self.endpoint, ref)
        job = self.look.job(ref.native_id)
        if job is None:
            return Evidence(phase=Phase.ABSENT.value, raw="no such job")
        seen = self.look.observation(ref, job)
        events = [*self.node_events(ref), *self.replica_events(ref)]
        return Evidence.of_observation(seen, events)

    def node_events(self, ref: Ref) -> Iterator[Any]:
        """The events of nodes in the workspace's own analysis; none if it has no analysis."""
        found: Object = {}
        with no_answer_if_refused():
            found = self.rest.ask("GET", f"/jobs/{ref.native_id}/failure-analysis") or {}
        for event in found.get("job_failure_by_node_event") or ():
            yield rules.node_event(str(event.get("node_event_name")), str(event.get("message")))

    def replica_events(self, ref: Ref) -> Iterator[Any]:
        """Why replicas do not run, as events; none if the workspace does not tell."""
        from tao_sdk.model.diagnosis import NodeEvent

        found: Sequence[Object] = ()
        with no_answer_if_refused():
            found = self.look.replicas(ref.native_id)
        for replica in parse.replicas_of(found, ref.native_id, max(len(found), 1)):
            if replica.issue_reason:
                yield NodeEvent(replica.issue_reason, replica.issue_message)

    def diagnose(self, evidence: Evidence) -> Diagnosis | None:
        return rules.diagnose(evidence)

    def doctor(self) -> list[Finding]:
        from tao_sdk.backends.lepton.workspace import doctor

        try:
            return doctor.examine(self.look, self.surveys)
        except TaoError as trouble:
            return [Finding.of_error(trouble, f"MISSING: {trouble.what}")]

    def close(self) -> None:
        if "rest" in vars(self):  # else no connection was opened
            self.rest.close()
