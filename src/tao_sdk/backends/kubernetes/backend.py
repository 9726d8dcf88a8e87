"""KubernetesBackend: the verbs of the contract for jobs as Jobs of one cluster.

Here: the calls to the API server. Not here: the decisions (render.py for a submit, parse.py for
what was observed). Methods that only a submit or the doctor calls import their own modules, so
that a short command that looks at jobs starts fast.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
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
    PlanDocuments,
    cancel_side_by_side,
)
from tao_sdk.backends.kubernetes import look, parse, render, rules, starting
from tao_sdk.backends.kubernetes.claims.claim_files import unknown_claim
from tao_sdk.backends.kubernetes.claims.known_claims import (
    ClaimUnreadable,
    KnownClaims,
    claim_address,
)
from tao_sdk.backends.kubernetes.claims.reader import START_SECONDS, Reader
from tao_sdk.backends.kubernetes.cluster import rights, site
from tao_sdk.backends.kubernetes.cluster.watch import (
    LOG_SECONDS,
    LOGS_PER_LOOK,
    KubernetesNews,
    Watches,
)
from tao_sdk.backends.kubernetes.facts import KubernetesFacts
from tao_sdk.backends.kubernetes.job import names
from tao_sdk.backends.kubernetes.job.manifests import registry_of
from tao_sdk.backends.kubernetes.many.gang_steps import due_steps
from tao_sdk.backends.kubernetes.many.recent_pods import RecentPods
from tao_sdk.backends.kubernetes.options import KubernetesOptions
from tao_sdk.backends.kubernetes.parse import Object, Seen
from tao_sdk.backends.kubernetes.pods import pulls
from tao_sdk.backends.kubernetes.pods.ending import Ending
from tao_sdk.backends.kubernetes.pods.events import node_events
from tao_sdk.backends.kubernetes.pods.files import PodFiles
from tao_sdk.backends.kubernetes.pods.kept_log import KeptLogs
from tao_sdk.backends.kubernetes.pods.logs import PodLog
from tao_sdk.backends.kubernetes.pods.lost_node import GONE, read_log, remove_stuck_job
from tao_sdk.backends.kubernetes.pods.parking import ParkedLogs, Parking, cursor_in
from tao_sdk.backends.kubernetes.pods.replicas import look_into, replica_of_pod, replicas_of
from tao_sdk.backends.kubernetes.pods.room import with_room_words
from tao_sdk.backends.kubernetes.request import KubernetesRequest
from tao_sdk.backends.outcome import read_outcome
from tao_sdk.backends.refusals import (
    adopted,
    missing_secret,
    must_live_at,
    must_look_at,
    no_value,
    seen_elsewhere,
    seen_unreachable,
    still_runs,
)
from tao_sdk.model.activity import Activity
from tao_sdk.model.diagnosis import Diagnosis, Evidence
from tao_sdk.model.errors import PathNotFound, TaoError, Unreachable
from tao_sdk.model.finding import Finding
from tao_sdk.model.machines import Machines, image_archs, labelled_gpus, most_gpus
from tao_sdk.model.observation import Observation, Outcome, Phase
from tao_sdk.model.plan import Attempt, Plan, Ref
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.replica import Replica
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.turns import Turns
from tao_sdk.transports.kube import Kube, KubeError
from tao_sdk.transports.kubeconfig import Cluster
from tao_sdk.transports.silence import within

CANCELS = 8  # jobs that are ended at once
GANGS_PER_LOOK = 4  # jobs with `gang: wait` that one look parks or resumes
SURVEY_SECONDS, SUBMIT_SECONDS = 25.0, 25.0  # a submit gives up within a minute
OBSERVE_SECONDS = 25.0  # a status gives up within half a minute
POD_SECONDS = 1.0  # between looks for a pod whose log is followed
OUTCOME_SECONDS = 15.0  # for the pod that reads a removed job's outcome: a user waits for it
LOST_POD: Object = {}
LOST_LOG = "tao: {what} of rank {rank} was removed with its pod when another rank failed\n"


@contextmanager
def answering() -> Generator[None]:
    """Turn a KubeError into Unreachable (the state is unknown, a retry may succeed), or into the
    error for a missing right.
    """
    try:
        yield
    except KubeError as error:
        fix = "Try again; your rights: tao doctor kubernetes"
        refused = Unreachable("The cluster refused the question.", error.what, fix)
        raise rights.refused_right(error) or refused from error


class KubernetesBackend(Backend[KubernetesOptions, KubernetesFacts, KubernetesRequest]):
    """Jobs of one cluster: that of the kubeconfig, or of the pod in which this process runs."""

    platform = "kubernetes"
    capabilities = Capabilities(
        multi_node=True,
        log_goes=True,
        log_rotates=True,
        max_command=render.LONGEST_ARGUMENT,
        max_payload=8 * MiB,
        payload_advice="Put large files on a claim (mounts: pvc://claim:/data) or in a bucket, and "
        "name them under inputs (/data/file, s3://bucket/file).",
        poll_seconds=3.0,
        files_seconds=20.0,
        files_on_demand=True,
        path_schemes=frozenset({"pvc"}),
        host_setup="kubernetes",
        readers=LOGS_PER_LOOK,
        log_seconds=LOG_SECONDS,
        logs_per_look=LOGS_PER_LOOK,
    )
    Options = KubernetesOptions

    def __init__(self, settings: Settings, state_dir: Path) -> None:
        self.settings = settings
        self.kept = KeptLogs(state_dir / "kubernetes" / "logs")
        self.parked = ParkedLogs(state_dir / "kubernetes" / "parked-logs")
        self.claims = KnownClaims(state_dir / "kubernetes" / "claims")
        self.recent_pods = RecentPods()
        self.gang_turns: Turns[Ref] = Turns()

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster of the settings. Raises CredentialError, UsageError if there is none."""
        return site.cluster(self.settings)

    @cached_property
    def endpoint(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The cluster's identity, the same under each of its addresses. Raises as `cluster`."""
        return self.cluster.identity

    @cached_property
    def kube(self) -> Kube:
        return Kube(self.cluster, self.settings.environ)

    @cached_property
    def parking(self) -> Parking:
        return Parking(self.kube, self.parked)

    @cached_property
    def watches(self) -> Watches:
        return Watches(self.kube)

    @property
    def way(self) -> Mapping[str, str]:
        return site.way(self.cluster, self.settings)

    # Planning

    def with_mounted_inputs(self, spec: JobSpec) -> JobSpec:
        from tao_sdk.backends.kubernetes.claims.claim_inputs import with_claim_inputs

        return with_claim_inputs(spec)

    @answering()
    def survey(self, job: PreparedJob, options: KubernetesOptions) -> KubernetesFacts:
        from tao_sdk.backends.kubernetes.cluster import pull_login, survey

        facts = KubernetesFacts(
            namespace=site.namespace(self.settings),
            cluster=self.endpoint,
            context=self.cluster.context,
            pull_registry=pull_login.pull_registry(job.spec.image, options, self.settings),
        )
        with within(SURVEY_SECONDS):
            return survey.survey(self.kube, job, options, facts)

    def plan(
        self, job: PreparedJob, options: KubernetesOptions, facts: KubernetesFacts, attempt: Attempt
    ) -> Plan[KubernetesRequest]:
        return render.plan(job, options, facts, attempt)

    def plan_again(
        self,
        last: Plan[KubernetesRequest],
        job: PreparedJob,
        options: KubernetesOptions,
        attempt: Attempt,
    ) -> Plan[KubernetesRequest]:
        """The plan of a further attempt, with the decisions of the first."""
        return render.build(last.request.decisions, job, options, attempt)

    def check(self, plan: Plan[KubernetesRequest], facts: KubernetesFacts) -> list[Finding]:
        from tao_sdk.backends.kubernetes.job import checks

        return checks.check(plan, facts)

    @answering()
    def machines(self, plan: Plan[KubernetesRequest]) -> Machines:
        """The nodes that the pods' selector and tolerations allow."""
        from tao_sdk.backends.kubernetes.cluster import doctor, survey
        from tao_sdk.backends.kubernetes.cluster.nodes import list_nodes
        from tao_sdk.backends.kubernetes.job import checks

        try:
            nodes = list_nodes(self.kube)
        except KubeError:
            return Machines(gpus_unseen="Your role may not list the cluster's nodes.")
        usable = survey.usable_nodes(plan.request, KubernetesFacts(nodes=nodes))
        resource = next(filter(checks.is_device, checks.asked_of(plan.request.job)), doctor.GPU)
        gpus = most_gpus(
            labelled_gpus(node.labels, int(node.allocatable.get(resource, 0))) for node in usable
        )
        archs = image_archs(node.labels.get("kubernetes.io/arch", "") for node in usable)
        images = frozenset(name for node in usable for name in node.images)
        return Machines(tuple(gpus), archs=archs, images=images)

    def private_image_findings(
        self,
        plan: Plan[KubernetesRequest],
        registry: str,
    ) -> list[Finding]:
        """A finding that the job has no login to the registry; none if it brings a login. A look
        at the image from here may have used that same login.
        """
        from tao_sdk.backends.kubernetes.cluster import pull_login

        pod: Mapping[str, Any] = plan.request.job["spec"]["template"]["spec"]
        if plan.request.decisions.pull_registry or pod.get("imagePullSecrets"):
            return []
        return [pull_login.unused_login(registry)]

    def documents(self, plan: Plan[KubernetesRequest]) -> PlanDocuments:
        from tao_sdk.backends.kubernetes.job.documents import plan_documents

        return plan_documents(plan)

    def request_from_json(self, data: Mapping[str, Any]) -> KubernetesRequest:
        return KubernetesRequest.from_json(data)

    # Starting

    def submit(self, plan: Plan[KubernetesRequest], secrets: Mapping[str, str]) -> Ref:
        from tao_sdk.backends.kubernetes.cluster import pull_login

        missing = missing_secret(plan.secrets, secrets)
        if missing:
            return adopted(self.find(plan.attempt, plan), no_value(missing))
        registry = plan.request.decisions.pull_registry
        login = pull_login.find_password(registry, self.settings)
        if registry and not login:
            return adopted(self.find(plan.attempt, plan), pull_login.no_login(registry))
        self.claims.remember(plan)
        try:
            with within(SUBMIT_SECONDS):
                job = starting.start_attempt(self.kube, plan, secrets, login)
        except KubeError as error:
            raise rules.refused(error.what, plan.request.namespace) from error
        if plan.attempt.number > 1:
            last = replace(plan.attempt, number=plan.attempt.number - 1)
            remove_stuck_job(self.kube, plan.request.namespace, last)
        return self.ref(job, plan.attempt, ready=True)

    @answering()
    def find(self, attempt: Attempt, plan: Plan[KubernetesRequest] | None = None) -> Ref | None:
        namespace = plan.request.namespace if plan else site.namespace(self.settings)
        job = look.find_job(self.kube, namespace, attempt)
        if job is None:
            return None
        waits = names.is_second(job) or parse.is_parked(job)
        waits = waits or (plan is not None and plan.request.waits_in_queue)
        return self.ref(job, attempt, ready=waits or not job["spec"].get("suspend"))

    def ref(self, job: Object, attempt: Attempt, ready: bool) -> Ref:
        metadata = job["metadata"]
        return Ref(
            platform=self.platform,
            endpoint=self.endpoint,
            namespace=metadata["namespace"],
            native_id=names.job_name(attempt),
            unique_id=metadata["uid"],
            attempt=attempt,
            ready=ready,
            step="" if ready else "created",
            details={
                "results_dir": parse.part(metadata, "annotations").get(names.RESULTS, ""),
                "namespace": metadata["namespace"],
                "job_name": names.job_name(attempt),
                "context": self.cluster.context,
                "created": metadata.get("creationTimestamp"),
                "pull_timeout": parse.part(metadata, "annotations").get(names.PULL_TIMEOUT),
                "gang_timeout": parse.part(metadata, "annotations").get(names.GANG_TIMEOUT),
                "ttl": job["spec"].get("ttlSecondsAfterFinished"),
            },
        )

    # Looking

    def observe(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        """The observation of each attempt, from two lists a namespace for any number of attempts.

        Also restarts attempts whose image has no bash. Attempts with room for only some ranks are
        parked and later resumed, a few at each look.
        """
        here = [ref for ref in refs if ref.endpoint == self.endpoint]
        answers = seen_elsewhere(self.endpoint, refs)
        try:
            with within(OBSERVE_SECONDS):
                return answers | self._observed(here)
        except KubeError as error:
            refused = rights.refused_right(error)
            words = f"{refused.what} {refused.next}" if refused else error.what
            return answers | seen_unreachable(here, words)
        except TaoError as error:
            return answers | seen_unreachable(here, error.what)

    def _observed(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        found = look.look(self.kube, refs)
        self.recent_pods.note(found)
        looked = look.observations(self.kube, found)
        seen = {ref: self.or_told_end(ref, said) for ref, said in looked.items()}
        pulls.end_overdue(self.kube, seen)
        stepping = self.gang_turns.take(due_steps(found), GANGS_PER_LOOK)
        self.parking.attend({ref: seen[ref] for ref in stepping})
        return seen | starting.restart_without_bash(self.kube, seen)

    def or_told_end(self, ref: Ref, said: Observation) -> Observation:
        """The observation as it is. If the attempt is gone, the end that the watches reported,
        if they did.
        """
        if said.phase is not Phase.ABSENT:
            return said
        return self.watches.ends.end_of(ref) or said

    def news(self) -> KubernetesNews:
        return KubernetesNews(self.watches)

    @answering()
    def outcome(self, ref: Ref) -> Outcome | None:
        results = ref.details.get("results_dir", "")
        with suppress(ClaimUnreadable):  # then the outcome is unknown
            files = PodFiles(partial(self.claim_reader, patience=OUTCOME_SECONDS))
            return read_outcome(files, results, ref.attempt.number)
        return None

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        must_live_at(self.endpoint, ref)
        with answering():
            yield from self.rank_log(ref, request)

    def rank_log(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        for chunk in self.earlier_log(ref, request):
            yield chunk
            request = replace(request, cursor=chunk.cursor)
        if self.kept.is_whole(ref.unique_id, request.rank):
            yield from self.kept.read(ref.unique_id, request.rank, request)
            return
        try:
            for chunk in self.live_log(ref, request):
                yield chunk
                request = replace(request, cursor=chunk.cursor, tail=None)
        except PathNotFound:
            if not self.kept.finish(ref.unique_id, request.rank):
                raise
            yield from self.kept.read(ref.unique_id, request.rank, request)

    def live_log(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        """The log of a pod. If an unfinished copy has its start, that comes first.

        Raises PathNotFound if the pod is gone.
        """
        if request.cursor == GONE:
            return
        if request.tail is None and self.kept.has(ref.unique_id, request.rank):
            for chunk in self.kept.read(ref.unique_id, request.rank, request):
                yield chunk
                request = replace(request, cursor=chunk.cursor)
        if recent := self.recent_pod(ref, request):
            try:
                for chunk in read_log(
                    self.kube, recent, request, partial(self.pod_log, ref, recent)
                ):
                    yield chunk
                    request = replace(request, cursor=chunk.cursor, tail=None)
            except PathNotFound:  # another pod may have taken its place
                self.recent_pods.forget(ref, request.rank)
            else:
                return
        pod = self.awaited_pod(ref, request)
        if pod is None:
            return
        if pod is LOST_POD:
            yield from self.lost_log(ref, request)
            return
        yield from self.read_pod(ref, pod, request)

    def read_pod(self, ref: Ref, pod: Object, request: LogRequest) -> Iterator[LogChunk]:
        return read_log(self.kube, pod, request, partial(self.pod_log, ref, pod))

    def pod_log(self, ref: Ref, pod: Object, request: LogRequest) -> Iterator[LogChunk]:
        begun = parse.moment(parse.begun_at(pod))
        log = PodLog(
            self.kube,
            ref.namespace,
            pod["metadata"]["name"],
            partial(self.has_ended, ref),
            request.rank,
            begun,
        )
        source = replica_of_pod(request.rank, pod).source
        for chunk in log.read(replace(request, cursor=cursor_in(request.cursor, begun))):
            yield replace(chunk, source=source)

    def lost_log(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        """The saved log of a rank whose pod was removed before the others'; without one, a line
        that says so.
        """
        if self.kept.finish(ref.unique_id, request.rank):
            yield from self.kept.read(ref.unique_id, request.rank, request)
            return
        what = "the rest of the log" if request.cursor else "the log"
        yield LogChunk(LOST_LOG.format(what=what, rank=request.rank).encode(), GONE)

    def earlier_log(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        """The rank's log from before its job was parked. Nothing for a tail if it runs again."""
        if not self.parked.keys(ref, request.rank):
            return
        if request.tail is None or self.pod_of(ref, request) is None:
            yield from self.parked.read(ref, request)

    def awaited_pod(self, ref: Ref, request: LogRequest) -> Object | None:
        """The rank's pod as `pod_of`. With follow, wait for it while it can still come."""
        pod = self.pod_of(ref, request)
        while pod is None and request.follow:
            time.sleep(POD_SECONDS)
            self.observe([ref])  # restarts an attempt without bash
            pod = self.pod_of(ref, request)
        return pod

    def recent_pod(self, ref: Ref, request: LogRequest) -> Object | None:
        """The rank's pod from a recent look. None if the request follows the log: then ask the
        cluster.
        """
        return None if request.follow else self.recent_pods.find(ref, request.rank)

    def pod_of(self, ref: Ref, request: LogRequest) -> Object | None:
        """The rank's pod; None while it has not begun, LOST_POD if only other ranks' pods are left.

        Raises PathNotFound if the attempt has ended and no pod is left.
        """
        pods = look.pods_of(self.kube, ref.namespace, ref.attempt)
        found = next((pod for pod in pods if parse.rank_of(pod) == request.rank), None)
        if found is not None and parse.may_have_log(found):
            return found
        job = look.find_job(self.kube, ref.namespace, ref.attempt)
        if job is not None and not parse.observation(Seen(job, pods)).phase.ended:
            return None
        if pods:
            return found or LOST_POD
        raise PathNotFound(
            f"The pod of rank {request.rank} of {ref.native_id} is gone, and its log with it.",
            "",
            "See what the job left:",
            f"tao results {ref.attempt.job_id}",
        )

    def has_ended(self, ref: Ref) -> bool:
        return self.observe([ref])[ref].phase.over

    def files(self, endpoint: str = "") -> Files:
        must_look_at(self.endpoint, endpoint)
        return PodFiles(self.claim_reader)

    def file_address(self, plan: Plan[KubernetesRequest], path: str) -> str:
        """The `pvc://` address of a path in the job's pods; "" for a job in another namespace
        than that of the settings: its claims cannot be read.
        """
        if plan.request.namespace != site.namespace(self.settings):
            return ""
        return claim_address(plan.request, path)

    def claim_reader(self, address: str, patience: float = START_SECONDS) -> Reader:
        """A reader for an address on a claim. Raises Unreachable if no image is known for it."""
        from tao_sdk.backends.kubernetes.cluster import pull_login

        namespace = site.namespace(self.settings)
        known = self.claims.find(address, namespace)
        if known is None:
            raise unknown_claim(address, namespace)
        login = partial(pull_login.find_password, settings=self.settings)
        return Reader(self.kube, known, login, patience)

    # Ending

    def cancel(self, refs: Sequence[Ref], grace: timedelta) -> dict[Ref, CancelAnswer]:
        return cancel_side_by_side(refs, partial(self.ended, grace=grace), CANCELS)

    @answering()
    def ended(self, ref: Ref, grace: timedelta) -> Observation:
        must_live_at(self.endpoint, ref)
        return self.or_told_end(ref, Ending(self.kube, self.kept, ref).end(grace))

    @answering()
    def release(self, ref: Ref) -> None:
        """Delete the Job and everything that it owns."""
        must_live_at(self.endpoint, ref)
        ending = Ending(self.kube, self.kept, ref)
        if not ending.end(timedelta(seconds=10)).phase.over:
            raise still_runs(ref.native_id)
        job = look.find_job(self.kube, ref.namespace, ref.attempt)
        if job is not None:
            ending.delete(job, [], 0)
        self.kept.forget(ref.unique_id)
        self.parked.forget(ref)

    @answering()
    def force_away(self, ref: Ref) -> bool:
        must_live_at(self.endpoint, ref)
        return Ending(self.kube, self.kept, ref).force()

    # Explaining

    @answering()
    def replicas(self, ref: Ref) -> Sequence[Replica]:
        must_live_at(self.endpoint, ref)
        seen = look.see(self.kube, ref)
        return replicas_of(seen) if seen else ()

    @answering()
    def evidence(self, ref: Ref) -> Evidence:
        must_live_at(self.endpoint, ref)
        seen = look.see(self.kube, ref)
        if seen is None:
            return Evidence(phase=Phase.ABSENT.value, raw="no such Job")
        seen = with_room_words(self.kube, seen)
        found = Evidence.of_observation(parse.observation(seen), node_events(self.kube, ref, seen))
        registry = registry_of(parse.image_of(seen.job))
        return replace(found, names=rules.names_for(registry, ref.namespace))

    @answering()
    def activity(self, ref: Ref) -> Activity:
        must_live_at(self.endpoint, ref)
        pods = look.pods_of(self.kube, ref.namespace, ref.attempt)
        return look_into(self.kube, ref.namespace, pods, self.cluster.context)

    def diagnose(self, evidence: Evidence) -> Diagnosis | None:
        return rules.diagnose(evidence)

    def doctor(self) -> list[Finding]:
        from tao_sdk.backends.kubernetes.cluster import doctor

        try:
            kube = self.kube
        except TaoError as trouble:
            return doctor.without_cluster(trouble, self.settings)
        return doctor.examine(kube, self.settings, site.namespace(self.settings))

    def close(self) -> None:
        if "kube" in vars(self):  # else no connection was opened
            self.watches.close()
            self.kube.close()
