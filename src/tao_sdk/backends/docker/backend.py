"""DockerBackend: the verbs of the contract for jobs as containers of one daemon.

Here: the calls to the daemon. Not here: the decisions (render.py, containers/parse.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tao_sdk.backends.containers.containers import Containers, container_name
from tao_sdk.backends.containers.files import FarFiles, HereFiles
from tao_sdk.backends.containers.kept_files import KeptFiles
from tao_sdk.backends.containers.life.ending import Ending
from tao_sdk.backends.containers.life.jobs import JobContainers, Place, answering
from tao_sdk.backends.containers.life.name_locks import NameLocks
from tao_sdk.backends.containers.life.networks import Networks
from tao_sdk.backends.containers.life.observing import Observing
from tao_sdk.backends.containers.life.recent import Recent
from tao_sdk.backends.containers.life.starting import Starting
from tao_sdk.backends.containers.start_script import MAX_ARGUMENT
from tao_sdk.backends.contract import (
    AssumedFacts,
    Backend,
    CancelAnswer,
    Capabilities,
    Files,
    LogChunk,
    LogRequest,
    MiB,
)
from tao_sdk.backends.docker import render, rules
from tao_sdk.backends.docker.daemon import activity, doctor, gpus
from tao_sdk.backends.docker.daemon import survey as look
from tao_sdk.backends.docker.daemon.address import find_address, is_local, is_open, way_to
from tao_sdk.backends.docker.daemon.near_images import near_images
from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.job import checks
from tao_sdk.backends.docker.job.container_body import DEFAULT_NETWORK
from tao_sdk.backends.docker.news import ContainerEvents, DockerNews
from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.backends.docker.registry.images import Images
from tao_sdk.backends.docker.request import DockerRequest
from tao_sdk.backends.image_name import refuse_malformed, registry_of
from tao_sdk.backends.outcome import read_outcome
from tao_sdk.backends.refusals import (
    missing_secret,
    must_look_at,
    no_value,
)
from tao_sdk.backends.this_machine import free_here, this_machine
from tao_sdk.model.activity import Activity
from tao_sdk.model.diagnosis import Diagnosis, Evidence
from tao_sdk.model.errors import CredentialError, Refused
from tao_sdk.model.finding import Finding, refuse_errors
from tao_sdk.model.machines import Machines, image_archs
from tao_sdk.model.observation import Observation, Outcome
from tao_sdk.model.plan import Attempt, Plan, Ref
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.transports.dockerd import (
    Address,
    Daemon,
    DaemonError,
)

REMOTE_FILES_SECONDS = 20.0  # between reads of a remote machine's files: each needs a container
UNCHECKED = (
    "the Docker daemon did not answer. Its image, GPUs and network, the mounts and the inputs are "
    "not checked."
)


class DockerBackend(Backend[DockerOptions, DockerFacts, DockerRequest]):
    """Jobs as containers of the daemon that DOCKER_HOST or the docker context names."""

    platform = "docker"
    capabilities = Capabilities(
        streams_apart=True,
        log_goes=True,
        max_command=MAX_ARGUMENT,
        max_payload=64 * MiB,
        poll_seconds=2.0,
        host_setup="docker",
        readers=8,
        submits=4,
        picks_gpus=True,
    )
    Options = DockerOptions

    def __init__(self, settings: Settings, state_dir: Path) -> None:
        self.settings = settings
        self.address = find_address(settings)
        self.capabilities = replace(
            type(self).capabilities,
            files_seconds=0 if is_local(self.address) else REMOTE_FILES_SECONDS,
        )
        self.endpoint = name_endpoint(self.address)
        self.daemon = Daemon(self.address)
        self.events = ContainerEvents(self.daemon)
        self.home = state_dir / "docker"
        self.images = Images(self.daemon, settings, self.home / "pulls")
        self.locks = NameLocks(self.home)
        self.gpu_words: Recent[str] = Recent()  # the daemon's reason to give no GPU; "" for none
        self.containers = Containers(self.daemon)
        place = Place(
            self.platform, self.endpoint, self.daemon, self.home, is_here=is_local(self.address)
        )
        networks = Networks(self.daemon, self.home / "networks")
        self.jobs = JobContainers(place, self.containers)
        self.starting = Starting(self.jobs, self.images, networks)
        self.observing = Observing(self.jobs, self.events.take_unseen)
        self.ending = Ending(self.observing, self.images, networks, DEFAULT_NETWORK)

    @property
    def way(self) -> Mapping[str, str]:
        """The daemon's address as settings, even if a docker context named it."""
        return way_to(self.address)

    @answering()
    def survey(self, job: PreparedJob, options: DockerOptions) -> DockerFacts:
        spec = job.spec
        if spec.image:
            refuse_malformed(spec.image)
        image = self.images.find_image(spec.image)
        facts = look.survey(self.daemon, self.settings, job, options, image)
        pulls = must_pull(spec, options, facts)
        registry = self.login_registry(spec) if pulls else ""
        refusals: list[Finding | None] = []
        if pulls and not (registry and facts.plaintext_address):
            refusals.append(self.images.find_refusal(spec.image))
        if spec.gpu_count or options.gpu_ids:
            refusals.append(self.gpu_refusal())
        return replace(
            facts,
            refusals=tuple(refusal for refusal in refusals if refusal),
            login_registry=registry,
            near_images=self.near_images(spec, options, facts),
        )

    def near_images(
        self, spec: JobSpec, options: DockerOptions, facts: DockerFacts
    ) -> tuple[str, ...]:
        """The daemon's images with similar names, if the image is missing and is not pulled."""
        missing = spec.image and facts.image is None
        if not missing or (options.pull or facts.pull) != "never":
            return ()
        return near_images(self.daemon, spec.image)

    def assume_facts(self, job: PreparedJob, options: DockerOptions) -> AssumedFacts:
        if job.spec.image:
            refuse_malformed(job.spec.image)
        facts = look.assumed_facts(self.daemon, self.settings, job, options)
        return AssumedFacts(facts, UNCHECKED)

    @answering()
    def machines(self, plan: Plan[DockerRequest]) -> Machines:  # noqa: ARG002
        """Describe the daemon's machine: its architecture as the daemon says, its GPUs if it is
        this machine or one that ssh leads to, and its disk if it is this machine.
        """
        info = self.daemon.info()
        archs = image_archs([str(info.get("Architecture") or "")])
        found, unseen = gpus.gpus_of_machine(self.address, self.settings.environ)
        root = str(info.get("DockerRootDir") or "")
        free = free_here(root) if is_local(self.address) else None
        return Machines(found, unseen, archs, free=free, asks_registries=True)

    def private_image_findings(self, plan: Plan[DockerRequest], registry: str) -> list[Finding]:  # noqa: ARG002
        """Return no findings: submit sends the daemon the same login that a check here uses."""
        return []

    def login_registry(self, spec: JobSpec) -> str:
        """The registry of the image if a pull logs in there, else ""."""
        login, _ = self.images.find_login(spec.image)
        return registry_of(spec.image) if login else ""

    def gpu_refusal(self) -> Finding | None:
        """Why the daemon gives no GPU to a container; None if it does."""
        if gpus.has_runtime(self.daemon.info()):
            return None
        reason = self.gpu_words.get("")
        if reason is None:
            reason = self.gpu_words.keep("", gpus.refusal(self.daemon))
        return Finding.of_error(rules.refused(reason)) if reason else None

    def plan(
        self, job: PreparedJob, options: DockerOptions, facts: DockerFacts, attempt: Attempt
    ) -> Plan[DockerRequest]:
        return render.plan(job, options, facts, attempt)

    @answering()
    def plan_again(
        self, last: Plan[DockerRequest], job: PreparedJob, options: DockerOptions, attempt: Attempt
    ) -> Plan[DockerRequest]:
        """Plan a retry with the first attempt's surroundings and the daemon's current state."""
        image = self.images.find_image(job.spec.image)
        now = look.survey(self.daemon, self.settings, job, options, image)
        first_caller = asdict(last.request.surroundings)
        facts = replace(now, **first_caller, auto_remove=last.release_when_over)
        return render.plan(job, options, facts, attempt)

    def check(self, plan: Plan[DockerRequest], facts: DockerFacts) -> list[Finding]:
        return checks.check(plan, facts)

    def request_from_json(self, data: Mapping[str, Any]) -> DockerRequest:
        return DockerRequest.from_json(data)

    # Starting

    @answering()
    def submit(self, plan: Plan[DockerRequest], secrets: Mapping[str, str]) -> Ref:
        missing = missing_secret(plan.secrets, secrets)
        if missing and not self.has_started(plan.attempt):
            raise no_value(missing)
        if is_open(self.address):
            refuse_errors(checks.line_findings(self.address.url, plan.secrets))
        with self.locks.hold(plan.attempt.job_id):
            try:
                started = self.starting.start_attempt(plan.attempt, plan.request, secrets)
            except DaemonError as error:
                raise rules.refused(error.backend_words) from error
            except CredentialError as error:
                raise Refused(error.what, error.why, error.next, error.command) from error
        return self.jobs.started_ref(plan.attempt, started)

    def has_started(self, attempt: Attempt) -> bool:
        ref = self.find(attempt)
        return ref is not None and ref.ready

    @answering()
    def find(self, attempt: Attempt, plan: Plan[DockerRequest] | None = None) -> Ref | None:
        return self.jobs.find_job(attempt, plan.request.daemon if plan else "")

    # Looking

    def observe(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        return self.observing.observe(refs)

    @answering()
    def outcome(self, ref: Ref) -> Outcome | None:
        return read_outcome(
            self.files(ref.endpoint), ref.details.get("results_dir", ""), ref.attempt.number
        )

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        return self.observing.read_log(ref, request)

    def files(self, endpoint: str = "") -> Files:
        """The files of the daemon's machine, and those that lie only in a container."""
        must_look_at(self.endpoint, endpoint)
        files = HereFiles(self.daemon) if is_local(self.address) else FarFiles(self.daemon)
        return KeptFiles(files, self.containers)

    # Ending

    def cancel(self, refs: Sequence[Ref], grace: timedelta) -> dict[Ref, CancelAnswer]:
        return self.ending.cancel(refs, grace)

    def release(self, ref: Ref) -> None:
        self.ending.release(ref)

    # Explaining

    def evidence(self, ref: Ref) -> Evidence:
        return self.observing.evidence(ref)

    @answering()
    def activity(self, ref: Ref) -> Activity:
        container = self.jobs.container_of(ref)
        if container is None or not container.running:
            return Activity()
        name = container_name(ref.attempt.job_id)
        return activity.look_into(self.daemon, name, is_local(self.address))

    def diagnose(self, evidence: Evidence) -> Diagnosis | None:
        return rules.diagnose(evidence)

    def doctor(self) -> list[Finding]:
        return doctor.examine(self.daemon, self.settings)

    def news(self) -> DockerNews:
        return DockerNews(self.events)

    def close(self) -> None:
        self.events.close()
        self.daemon.close()


def name_endpoint(address: Address) -> str:
    """The daemon's address. A socket's path gets the machine's name too, to be unique."""
    if is_local(address):
        return f"{address.url} on {this_machine()}"
    return address.url


def must_pull(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> bool:
    """True if submit pulls the job's image."""
    policy = options.pull or facts.pull
    if not spec.image or policy == "never":
        return False
    return policy == "always" or facts.image is None
