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
from tao_sdk.backends.containers.containers import Container, Containers
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
from tao_sdk.backends.docker.job.container_body import DEFAULT_NETWORK, container_name
from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.backends.docker.registry.images import Images
from tao_sdk.backends.docker.request import DockerRequest
from tao_sdk.backends.docker.starting import Starting
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
from tao_sdk.transports.dockerd import FRESH, Daemon, DaemonError, refuse_malformed, registry_of

FULL = 1 << 20  # bytes; a disk with less than this left is full
FAR_FILES_SECONDS = 20.0  # between looks into files elsewhere: each takes a container
STOPS = 16  # containers that are stopped at once: each waits for its own end
DOUBTED = 50  # containers that are looked at one by one in one look, because the list may be wrong


@contextmanager
def answering() -> Generator[None]:
    """What the daemon could not do, where nobody expects that of it, may be done at
    another time.
    """
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
    )
    Options = DockerOptions

    def __init__(self, settings: Settings, state_dir: Path) -> None:
        self.settings = settings
        self.address = find_address(settings)
        self.capabilities = replace(
            type(self).capabilities,
            files_seconds=0 if is_local(self.address) else FAR_FILES_SECONDS,
        )
        self.endpoint = (
            f"{self.address.url} on {this_machine()}"
            if is_local(self.address)
            else self.address.url
        )
        self.daemon = Daemon(self.address)
        self.home = state_dir / "docker"
        self.images = Images(self.daemon, settings, self.home / "pulls")
        self.turns = Turns(self.home)
        self.networks = Networks(self.daemon, self.home / "networks")
        self.containers = Containers(self.daemon)
        self.starting = Starting(self.containers, self.images, self.networks)
        self.gpu_words: Recent[str] = Recent()  # why the daemon gives no GPUs
        self.counted = -math.inf  # when the daemon was asked how many containers run

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
        wants_gpus = bool(spec.gpu_count or options.gpu_ids)
        refusals = [
            each
            for each in (self.image_refusal(spec, options, facts), self.gpu_refusal(wants_gpus))
            if each
        ]
        return replace(
            facts, refusals=tuple(refusals), login_registry=self.login_sent(spec, options, facts)
        )

    def image_refusal(
        self, spec: JobSpec, options: DockerOptions, facts: DockerFacts
    ) -> Finding | None:
        """Raises CredentialError, before anything is stored."""
        sends = self.login_sent(spec, options, facts) and facts.plaintext_address
        return (
            self.images.refusal(spec.image)
            if must_pull(spec, options, facts) and not sends
            else None
        )

    def login_sent(self, spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> str:
        """The registry that gets a login of ours, if one does."""
        sends = must_pull(spec, options, facts) and self.images.login(spec.image)[0]
        return registry_of(spec.image) if sends else ""

    def gpu_refusal(self, wanted: bool) -> Finding | None:
        if not wanted or gpus.has_runtime(self.daemon.info()):
            return None
        words = self.gpu_words.get("") or self.gpu_words.keep(
            "", gpus.refusal(self.daemon) or "none"
        )
        return None if words == "none" else Finding.of_error(rules.refused(words))

    def plan(
        self, job: PreparedJob, options: DockerOptions, facts: DockerFacts, attempt: Attempt
    ) -> Plan[DockerRequest]:
        return render.plan(job, options, facts, attempt)

    @answering()
    def plan_again(
        self, last: Plan[DockerRequest], job: PreparedJob, options: DockerOptions, attempt: Attempt
    ) -> Plan[DockerRequest]:
        """In the surroundings of the first attempt, on the daemon as it now is."""
        seen = look.survey(
            self.daemon, self.settings, job, options, self.images.seen(job.spec.image)
        )
        facts = replace(seen, **asdict(last.request.surroundings))
        return render.plan(
            job, options, replace(facts, auto_remove=last.release_when_over), attempt
        )

    def check(self, plan: Plan[DockerRequest], facts: DockerFacts) -> list[Finding]:
        return checks.check(plan, facts)

    def request_from_json(self, data: Mapping[str, Any]) -> DockerRequest:
        return DockerRequest.from_json(data)

    # Starting

    @answering()
    def submit(self, plan: Plan[DockerRequest], secrets: Mapping[str, str]) -> Ref:
        missing = missing_secret(plan.secrets, secrets)
        if missing and not self.find_ready(plan.attempt):
            raise no_value(missing)
        refuse_errors(
            checks.line_findings(self.address.url if is_open(self.address) else "", plan.secrets)
        )
        with self.turns.taken(plan.attempt.job_id):
            try:
                started = self.starting.started(plan, secrets)
            except DaemonError as error:
                raise rules.refused(error.backend_words) from error
            except CredentialError as error:
                raise Refused(error.what, error.why, error.next, error.command) from error
        if isinstance(started, str):
            return self.unready(plan.attempt, started)
        return self.ref(started, plan.attempt, ready=True)

    def find_ready(self, attempt: Attempt) -> bool:
        found = self.find(attempt)
        return found is not None and found.ready

    @answering()
    def find(self, attempt: Attempt, plan: Plan[DockerRequest] | None = None) -> Ref | None:
        found = self.containers.inspect(container_name(attempt))
        if found is None or not found.is_of(attempt):
            self.must_know(attempt, plan.request.daemon if plan else "")
            return None
        return self.ref(found, attempt, found.begun and self.starting.took_in(found))

    def ref(self, container: Container, attempt: Attempt, ready: bool) -> Ref:
        return Ref(
            platform=self.platform,
            endpoint=self.endpoint,
            namespace="",
            native_id=container_name(attempt),
            unique_id=container.id,
            attempt=attempt,
            ready=ready,
            step="" if ready else "created",
            details={
                "results_dir": parse.labels(container.seen).get("tao-sdk-results", ""),
                "daemon": identity(self.daemon),
            },
        )

    def unready(self, attempt: Attempt, step: str) -> Ref:
        """The Ref of an attempt that has no container yet."""
        name = container_name(attempt)
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
        """One list for all, and one look more at each that has newly ended, or may have without
        being listed so.
        """
        here = [ref for ref in refs if ref.endpoint == self.endpoint]
        seen = seen_elsewhere(self.endpoint, refs)
        try:
            states = self.states({ref.attempt.store_id for ref in here}) if here else {}
            if any(ref.unique_id not in states for ref in here):
                identity(
                    self.daemon, at_most=0
                )  # a container that is missing is judged by who says so now
            doubted = self.doubted(states)
            return seen | {
                ref: self.observed(ref, states.get(ref.unique_id), ref.unique_id in doubted)
                for ref in here
            }
        except (Unreachable, DaemonError) as error:
            return seen | seen_unreachable(here, error.what)

    def states(self, stores: set[str]) -> dict[str, str]:
        """Container -> the list's word for its state."""
        label = "tao-sdk-job-id" if len(stores) > 1 else f"tao-sdk-store={next(iter(stores))}"
        listed = self.daemon.ask("GET", "/containers/json", all=1, filters={"label": [label]})
        return {each["Id"]: str(each.get("State")) for each in listed}

    def doubted(self, states: Mapping[str, str]) -> set[str]:
        """Containers that are listed as running and may have ended: each of them is to be inspected
        by itself.

        When a container ends while the daemon's disk is full, the daemon goes on listing it as
        running, also after there is room again. Its own count of running containers is right. So
        when it lists more than it counts, some that are listed have ended, and it does not say
        which: DOUBTED of ours are picked at random, others at the next look. The count is asked for
        at most once in FRESH seconds, however many jobs there are.
        """
        running = [container for container, state in states.items() if state == "running"]
        if not running or time.monotonic() - self.counted < FRESH:
            return set()
        listed = len(self.daemon.ask("GET", "/containers/json"))
        said = self.daemon.info(at_most=0)
        self.counted = time.monotonic()
        counted = said.get("ContainersRunning", listed) + said.get("ContainersPaused", 0)
        return (
            set(random.sample(running, min(DOUBTED, len(running)))) if listed > counted else set()
        )

    def observed(self, ref: Ref, state: str | None, doubted: bool) -> Observation:
        if state is None and not is_the_daemon(self.daemon, ref.details.get("daemon", "")):
            return Observation(
                Phase.UNREACHABLE,
                "",
                reason=f"{another_daemon(self.daemon)}; {settled(ref.attempt)}",
            )
        if state is None:
            return Observation(Phase.ABSENT, "no such container")
        believed = not doubted and self.room_left(ref) >= FULL
        if believed and state in parse.PHASES and state != "created":
            return parse.living(state)
        return self.inspected(ref)

    def inspected(self, ref: Ref) -> Observation:
        return self.judged(ref, self.containers.inspect(ref.unique_id))

    def judged(self, ref: Ref, container: Container | None) -> Observation:
        if container is None:
            return Observation(Phase.ABSENT, "no such container")
        try:
            return parse.observation(container.seen, self.mark(ref).exists())
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

        return self.lost_for_good(ref, logs.read(self.daemon, ref.unique_id, request, has_ended))

    def lost_for_good(self, ref: Ref, chunks: Iterator[LogChunk]) -> Iterator[LogChunk]:
        """A log of which another daemon than the job's knows nothing is not gone."""
        try:
            yield from chunks
        except PathNotFound:
            self.must_know(ref.attempt, ref.details.get("daemon", ""))
            raise

    def must_know(self, attempt: Attempt, daemon: str) -> None:
        """That a container is not there is said by the job's own daemon, or by nobody."""
        must_be_the_daemon(
            self.daemon, daemon, f"Start that one, or {settled(attempt)}.", at_most=0
        )

    def container_of(self, ref: Ref) -> Container | None:
        """None when the job's own daemon has none."""
        container = self.containers.inspect(ref.unique_id or ref.native_id)
        if container is None:
            self.must_know(ref.attempt, ref.details.get("daemon", ""))
        return container

    def files(self, endpoint: str = "") -> Files:
        must_look_at(self.endpoint, endpoint)
        there = HereFiles(self.daemon) if is_local(self.address) else FarFiles(self.daemon)
        return KeptFiles(there, self.containers)

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
        if not container.begun or not (ref.ready or self.starting.took_in(container)):
            self.containers.remove(container.id)
            return self.judged(ref, None)
        if (seen := self.judged(ref, container)).phase.ended:
            return seen
        make_folders(self.home)
        self.mark(ref).touch()
        with suppress(DaemonError):  # what it could not do is seen
            self.containers.stop(container, grace.total_seconds())
        return self.judged(ref, self.containers.inspect(container.id))

    def mark(self, ref: Ref) -> Path:
        """Its being there says that the container's end was asked for."""
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
        self.mark(ref).unlink(missing_ok=True)

    # Explaining

    @answering()
    def evidence(self, ref: Ref) -> Evidence:
        must_live_at(self.endpoint, ref)
        container = self.container_of(ref)
        if (
            container is None and not ref.ready
        ):  # it waits for its image, or could not have it: the job says which
            return Evidence(phase="", raw=ref.step)
        if container is None:
            return Evidence(phase=Phase.ABSENT.value, raw="no such container")
        seen = parse.observation(container.seen, self.mark(ref).exists())
        events = parse.events(container.seen, self.containers.told(container))
        return Evidence.of_observation(seen, (*events, *self.room(ref)))

    def room(self, ref: Ref) -> Iterator[NodeEvent]:
        """Whether the daemon's disk is full: then a container's last words, which would say so,
        have no room either.
        """
        if (left := self.room_left(ref)) < FULL:
            folder = parse.folder(ref.details.get("daemon", ""))
            yield NodeEvent(
                "DiskFull", f"no space left on device: {folder} has {format_size(int(left))} free"
            )

    def room_left(self, ref: Ref) -> float:
        """Bytes free for the daemon's data, where this machine can see it.

        A daemon without room notes a container's end only where `inspect` looks: its list goes on
        saying that it runs.
        """
        folder = parse.folder(ref.details.get("daemon", ""))
        return room_left(folder) if folder and is_local(self.address) else math.inf

    def diagnose(self, evidence: Evidence) -> Diagnosis | None:
        return rules.diagnose(evidence)

    def doctor(self) -> list[Finding]:
        return doctor.examine(self.daemon, self.settings)

    def close(self) -> None:
        self.daemon.close()


def must_pull(spec: JobSpec, options: DockerOptions, facts: DockerFacts) -> bool:
    policy = options.pull or facts.pull
    return bool(spec.image) and (
        policy == "always" or (policy == "missing" and facts.image is None)
    )


def settled(attempt: Attempt) -> str:
    """What a person does about a job whose daemon never comes back: nobody else can know that."""
    return f"if that one is gone for good: tao rm --force {attempt.job_id}"
