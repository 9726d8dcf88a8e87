"""DockerBackend: the verbs of the contract for jobs as containers of one daemon.

What is decided is decided in render.py and parse.py; here they are joined to the daemon.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from tao_sdk.backends.containers import logs, parse
from tao_sdk.backends.containers.containers import Container, Containers, container_name
from tao_sdk.backends.containers.files import FarFiles, HereFiles
from tao_sdk.backends.containers.identity import (
    another_daemon,
    identity,
    is_the_daemon,
    must_be_the_daemon,
)
from tao_sdk.backends.containers.kept_files import KeptFiles
from tao_sdk.backends.containers.start_script import GRACE, MAX_ARGUMENT
from tao_sdk.backends.contract import (
    AssumedFacts,
    Backend,
    CancelAnswer,
    Capabilities,
    Files,
    LogChunk,
    LogRequest,
    MiB,
    cancel_side_by_side,
)
from tao_sdk.backends.docker import render, rules
from tao_sdk.backends.docker.daemon import doctor, gpus
from tao_sdk.backends.docker.daemon import survey as look
from tao_sdk.backends.docker.daemon.address import find_address, is_local, is_open, way_to
from tao_sdk.backends.docker.daemon.networks import Networks
from tao_sdk.backends.docker.daemon.recent import Recent
from tao_sdk.backends.docker.daemon.turns import Turns
from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.job import checks
from tao_sdk.backends.docker.job.container_body import DEFAULT_NETWORK
from tao_sdk.backends.docker.news import ContainerEvents, DockerNews
from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.backends.docker.registry.images import Images
from tao_sdk.backends.docker.request import DockerRequest
from tao_sdk.backends.docker.starting import Starting
from tao_sdk.backends.image_name import refuse_malformed, registry_of
from tao_sdk.backends.outcome import read_outcome
from tao_sdk.backends.refusals import (
    missing_secret,
    must_live_at,
    must_look_at,
    no_value,
    seen_elsewhere,
    seen_unreachable,
    still_runs,
)
from tao_sdk.backends.this_machine import room_left, this_machine
from tao_sdk.model.diagnosis import Diagnosis, Evidence, NodeEvent
from tao_sdk.model.errors import CredentialError, PathNotFound, Refused, Unreachable
from tao_sdk.model.finding import Finding, refuse_errors
from tao_sdk.model.observation import Observation, Outcome, Phase
from tao_sdk.model.plan import Attempt, Plan, Ref
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.units import format_size
from tao_sdk.store.private_files import make_folders
from tao_sdk.transports.dockerd import (
    FRESH,
    Address,
    Daemon,
    DaemonError,
)

FULL_DISK = MiB  # a disk with less room left is full
REMOTE_FILES_SECONDS = 20.0  # between looks into files elsewhere: each takes a container
STOPS = 16  # containers that are stopped at once: each waits for its own end
UNCHECKED = (
    "the Docker daemon did not answer. Its image, GPUs and network, the mounts and the inputs are "
    "not checked."
)
DOUBTED = 50  # containers that are looked at one by one in one look, because the list may be wrong


@contextmanager
def answering() -> Generator[None]:
    """Turn an unexpected error of the daemon into Unreachable: another try may succeed."""
    try:
        yield
    except DaemonError as error:
        fix = "Try again; if that stays so, the daemon's own log says more: journalctl -u docker"
        raise Unreachable(
            "The Docker daemon could not do what it was asked.", error.what, fix
        ) from error


class DockerBackend(Backend[DockerOptions, DockerFacts, DockerRequest]):
    """Jobs as containers of the daemon that DOCKER_HOST or the docker context names."""

    platform = "docker"
    capabilities = Capabilities(
        streams_apart=True,
        log_goes=True,
        max_command=MAX_ARGUMENT,
        max_payload=64 * MiB,
        poll_seconds=2.0,
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
        self.turns = Turns(self.home)
        self.networks = Networks(self.daemon, self.home / "networks")
        self.containers = Containers(self.daemon)
        self.starting = Starting(self.containers, self.images, self.networks)
        self.gpu_words: Recent[str] = Recent()  # why the daemon gives no GPU; "" if it does
        self.counted_at = -math.inf  # when the daemon was asked how many containers run

    @property
    def way(self) -> Mapping[str, str]:
        """The daemon's address itself, also where a docker context has named it."""
        return way_to(self.address)

    @answering()
    def survey(self, job: PreparedJob, options: DockerOptions) -> DockerFacts:
        spec = job.spec
        if spec.image:
            refuse_malformed(spec.image)
        facts = look.survey(self.daemon, self.settings, job, options, self.images.seen(spec.image))
        pulls = must_pull(spec, options, facts)
        registry = self.login_registry(spec) if pulls else ""
        refusals: list[Finding | None] = []
        if pulls and not (registry and facts.plaintext_address):
            refusals.append(self.images.refusal(spec.image))
        if spec.gpu_count or options.gpu_ids:
            refusals.append(self.gpu_refusal())
        return replace(
            facts,
            refusals=tuple(refusal for refusal in refusals if refusal),
            login_registry=registry,
        )

    def assume_facts(self, job: PreparedJob, options: DockerOptions) -> AssumedFacts:
        if job.spec.image:
            refuse_malformed(job.spec.image)
        facts = look.assumed_facts(self.daemon, self.settings, job, options)
        return AssumedFacts(facts, UNCHECKED)

    def login_registry(self, spec: JobSpec) -> str:
        """The registry of the image if a pull logs in there, else ""."""
        login, _ = self.images.login(spec.image)
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
        """A plan for the caller of the first attempt, and for the daemon as it now is."""
        image = self.images.seen(job.spec.image)
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
        with self.turns.taken(plan.attempt.job_id):
            try:
                started = self.starting.start_attempt(plan, secrets)
            except DaemonError as error:
                raise rules.refused(error.backend_words) from error
            except CredentialError as error:
                raise Refused(error.what, error.why, error.next, error.command) from error
        if isinstance(started, str):
            return self.waiting_ref(plan.attempt, started)
        return self.ref(started, plan.attempt, ready=True)

    def has_started(self, attempt: Attempt) -> bool:
        found = self.find(attempt)
        return found is not None and found.ready

    @answering()
    def find(self, attempt: Attempt, plan: Plan[DockerRequest] | None = None) -> Ref | None:
        found = self.containers.inspect(container_name(attempt.job_id))
        if found is None or not found.is_of(attempt):
            self.check_daemon(attempt, plan.request.daemon if plan else "")
            return None
        return self.ref(found, attempt, found.begun and self.starting.has_read_input(found))

    def ref(self, container: Container, attempt: Attempt, ready: bool) -> Ref:
        return Ref(
            platform=self.platform,
            endpoint=self.endpoint,
            namespace="",
            native_id=container_name(attempt.job_id),
            unique_id=container.id,
            attempt=attempt,
            ready=ready,
            step="" if ready else "created",
            details={
                "results_dir": parse.labels(container.seen).get("tao-sdk-results", ""),
                "daemon": identity(self.daemon),
            },
        )

    def waiting_ref(self, attempt: Attempt, step: str) -> Ref:
        """The Ref of an attempt that has no container yet."""
        name = container_name(attempt.job_id)
        return Ref(
            self.platform,
            self.endpoint,
            "",
            name,
            "",
            attempt,
            ready=False,
            step=step,
            retry_after=1.0,
        )

    # Looking

    def observe(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        """List all containers in one question, and inspect those that have ended since the last
        look, or may have.
        """
        here = [ref for ref in refs if ref.endpoint == self.endpoint]
        elsewhere = seen_elsewhere(self.endpoint, refs)
        try:
            return elsewhere | self.observe_here(here)
        except (Unreachable, DaemonError) as error:
            return elsewhere | seen_unreachable(here, error.what)

    def observe_here(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        if not refs:
            return {}
        states = self.list_states({ref.attempt.store_id for ref in refs})
        if any(ref.unique_id not in states for ref in refs):
            identity(self.daemon, at_most=0)  # only the job's own daemon can say that it is gone
        doubted = self.doubted_containers(states)
        return {
            ref: self.observed(ref, states.get(ref.unique_id), ref.unique_id in doubted)
            for ref in refs
        }

    def list_states(self, stores: set[str]) -> dict[str, str]:
        """Container id -> the list's word for its state, for the jobs of these stores."""
        label = "tao-sdk-job-id" if len(stores) > 1 else f"tao-sdk-store={next(iter(stores))}"
        listed = self.daemon.ask("GET", "/containers/json", all=1, filters={"label": [label]})
        return {container["Id"]: str(container.get("State")) for container in listed}

    def doubted_containers(self, states: Mapping[str, str]) -> set[str]:
        """Containers that are listed as running and may have ended. Each is to be inspected.

        When a container ends while the daemon's disk is full, the daemon goes on listing it as
        running, also after there is room again. Its own count of running containers is right. So
        when it lists more than it counts, some that are listed have ended, and it does not say
        which: DOUBTED of ours are picked at random, others at the next look. The count is asked for
        at most once in FRESH seconds, however many jobs there are.
        """
        running = [container for container, state in states.items() if state == "running"]
        if not running or time.monotonic() - self.counted_at < FRESH:
            return set()
        if not self.lists_ended_containers():
            return set()
        return set(random.sample(running, min(DOUBTED, len(running))))

    def lists_ended_containers(self) -> bool:
        """True if the daemon lists more running containers than it counts."""
        listed = len(self.daemon.ask("GET", "/containers/json"))
        info = self.daemon.info(at_most=0)
        self.counted_at = time.monotonic()
        counted = info.get("ContainersRunning", listed) + info.get("ContainersPaused", 0)
        return listed > counted

    def observed(self, ref: Ref, state: str | None, doubted: bool) -> Observation:
        """`state`: the list's word, None for a container that is not in it."""
        if state is None:
            return self.unlisted(ref)
        believed = not doubted and self.room_left(ref) >= FULL_DISK
        if believed and state in parse.PHASES and state != "created":
            return parse.living(state)
        return self.inspected(ref)

    def unlisted(self, ref: Ref) -> Observation:
        """Gone if the job's own daemon says so, else unreachable."""
        if is_the_daemon(self.daemon, ref.details.get("daemon", "")):
            return Observation(Phase.ABSENT, "no such container")
        reason = f"{another_daemon(self.daemon)}; {advice_to_remove(ref.attempt)}"
        return Observation(Phase.UNREACHABLE, "", reason=reason)

    def inspected(self, ref: Ref) -> Observation:
        return self.judged(ref, self.containers.inspect(ref.unique_id))

    def judged(self, ref: Ref, container: Container | None) -> Observation:
        if container is None:
            return Observation(Phase.ABSENT, "no such container")
        try:
            return parse.observation(container.seen, self.cancel_mark(ref).exists())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = (
                "what the daemon says of its container cannot be understood "
                f"({type(error).__name__}: {error})"
            )
            return Observation(Phase.UNREACHABLE, "", reason=reason)

    @answering()
    def outcome(self, ref: Ref) -> Outcome | None:
        return read_outcome(
            self.files(ref.endpoint), ref.details.get("results_dir", ""), ref.attempt.number
        )

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        must_live_at(self.endpoint, ref)
        if not ref.unique_id:  # it has no container yet
            return iter(())

        def has_ended() -> bool:
            return self.inspected(ref).phase.over

        return self.checked_log(ref, logs.read(self.daemon, ref.unique_id, request, has_ended))

    def checked_log(self, ref: Ref, chunks: Iterator[LogChunk]) -> Iterator[LogChunk]:
        """The log; PathNotFound of it only from the job's own daemon."""
        try:
            yield from chunks
        except PathNotFound:
            self.check_daemon(ref.attempt, ref.details.get("daemon", ""))
            raise

    def check_daemon(self, attempt: Attempt, daemon: str) -> None:
        """Raise Unreachable unless this is the job's own daemon, which alone knows what is gone."""
        advice = f"Start that one, or {advice_to_remove(attempt)}."
        must_be_the_daemon(self.daemon, daemon, advice, at_most=0)

    def container_of(self, ref: Ref) -> Container | None:
        """None when the job's own daemon has none."""
        container = self.containers.inspect(ref.unique_id or ref.native_id)
        if container is None:
            self.check_daemon(ref.attempt, ref.details.get("daemon", ""))
        return container

    def files(self, endpoint: str = "") -> Files:
        """The files of the daemon's machine, and those that lie in a container alone."""
        must_look_at(self.endpoint, endpoint)
        files = HereFiles(self.daemon) if is_local(self.address) else FarFiles(self.daemon)
        return KeptFiles(files, self.containers)

    # Ending

    def cancel(self, refs: Sequence[Ref], grace: timedelta) -> dict[Ref, CancelAnswer]:
        return cancel_side_by_side(refs, partial(self.ended, grace=grace), STOPS)

    @answering()
    def ended(self, ref: Ref, grace: timedelta) -> Observation:
        """One stop: the daemon sends SIGTERM to the whole group and, when the grace is over,
        SIGKILL.
        """
        must_live_at(self.endpoint, ref)
        self.images.forgo(ref.attempt.job_id)
        container = self.container_of(ref)
        if container is None or not container.is_of(ref.attempt):
            return self.judged(ref, None)
        if not container.begun or not (ref.ready or self.starting.has_read_input(container)):
            self.containers.remove(container.id)
            return self.judged(ref, None)
        if (seen := self.judged(ref, container)).phase.ended:
            return seen
        make_folders(self.home)
        self.cancel_mark(ref).touch()
        with suppress(DaemonError):  # what it could not do is seen
            self.containers.stop(container, grace.total_seconds())
        return self.judged(ref, self.containers.inspect(container.id))

    def cancel_mark(self, ref: Ref) -> Path:
        """The file that is there if somebody canceled the job."""
        return self.home / f"{ref.unique_id[:32]}.canceled"

    @answering()
    def release(self, ref: Ref) -> None:
        must_live_at(self.endpoint, ref)
        self.images.forgo(ref.attempt.job_id)
        container = self.container_of(ref)
        if container is not None and container.is_of(ref.attempt):
            if container.begun and not self.ended(ref, timedelta(seconds=GRACE)).phase.over:
                raise still_runs(ref.native_id)
            self.containers.remove(container.id)
            self.networks.release(DEFAULT_NETWORK)
        self.cancel_mark(ref).unlink(missing_ok=True)

    # Explaining

    @answering()
    def evidence(self, ref: Ref) -> Evidence:
        must_live_at(self.endpoint, ref)
        container = self.container_of(ref)
        if container is None and ref.ready:
            return Evidence(phase=Phase.ABSENT.value, raw="no such container")
        if container is None:  # it waits for its image, or could not have it: the job says which
            return Evidence(phase="", raw=ref.step)
        seen = parse.observation(container.seen, self.cancel_mark(ref).exists())
        events = parse.events(container.seen, self.containers.recorded_events(container))
        return Evidence.of_observation(seen, (*events, *self.full_disk_events(ref)))

    def full_disk_events(self, ref: Ref) -> Iterator[NodeEvent]:
        """An event if the daemon's disk is full: then the log's end, which would say so, had no
        room either.
        """
        left = self.room_left(ref)
        if left >= FULL_DISK:
            return
        folder = parse.folder(ref.details.get("daemon", ""))
        what = f"no space left on device: {folder} has {format_size(int(left))} free"
        yield NodeEvent("DiskFull", what)

    def room_left(self, ref: Ref) -> float:
        """Bytes free for the daemon's data; infinite where this machine cannot see that.

        A daemon without room lists a container as running that has ended. Only inspecting it tells.
        """
        folder = parse.folder(ref.details.get("daemon", ""))
        if not folder or not is_local(self.address):
            return math.inf
        return room_left(folder)

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
    """The daemon's address. A socket's path needs the name of its machine to be one of a kind."""
    if is_local(address):
        return f"{address.url} on {this_machine()}"
    return address.url


def must_pull(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> bool:
    """True if submit pulls the job's image."""
    policy = options.pull or facts.pull
    if not spec.image or policy == "never":
        return False
    return policy == "always" or facts.image is None


def advice_to_remove(attempt: Attempt) -> str:
    """What a person does about a job whose daemon never comes back: nobody else can know that."""
    return f"if that one is gone for good: tao rm --force {attempt.job_id}"
