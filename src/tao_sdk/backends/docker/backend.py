"""DockerBackend: the verbs of the contract for jobs as containers of one daemon.

What is decided is decided in render.py and parse.py; here they are joined to the daemon.
"""

from __future__ import annotations

import math
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tao_sdk.backends.contract import Capabilities, Files, LogChunk, LogRequest, MiB
from tao_sdk.backends.docker import checks, doctor, logs, parse, render, rules
from tao_sdk.backends.docker import survey as look
from tao_sdk.backends.docker.address import find_address, is_local
from tao_sdk.backends.docker.facts import DockerFacts
from tao_sdk.backends.docker.files import FarFiles, HereFiles
from tao_sdk.backends.docker.images import Images
from tao_sdk.backends.docker.networks import UNSETTLED, Networks
from tao_sdk.backends.docker.options import DockerOptions
from tao_sdk.backends.docker.turns import Turns
from tao_sdk.backends.outcome import read_outcome
from tao_sdk.backends.this_machine import this_machine
from tao_sdk.model.diagnosis import Diagnosis, Evidence, NodeEvent
from tao_sdk.model.errors import CredentialError, Refused, Unreachable
from tao_sdk.model.finding import Finding
from tao_sdk.model.observation import Observation, Outcome, Phase
from tao_sdk.model.plan import Attempt, Plan, Ref
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.units import format_size
from tao_sdk.transports import dockerd
from tao_sdk.transports.dockerd import FRESH, Daemon, DaemonError, ignored

ASKED_FOR = 0.3  # seconds in which a daemon has taken what a client that died had sent
FULL = 1 << 20  # bytes; a disk with less than this left is full
FAR_FILES_SECONDS = 20.0  # between looks into files elsewhere: each takes a container
DOUBTED = 50  # containers that are looked at one by one in one look, because the list may be wrong
STARTS = 5  # that a start may be tried again for our network's sake
MARGIN = 30.0  # seconds beyond the grace for a stop to be answered


@dataclass(frozen=True)
class Container:
    """A container as it was inspected."""

    seen: Mapping[str, Any]

    @property
    def id(self) -> str:
        return self.seen["Id"]

    @property
    def begun(self) -> bool:
        return self.seen["State"]["Status"] != "created"

    @property
    def running(self) -> bool:
        return self.seen["State"]["Status"] == "running"


class DockerBackend:
    """Jobs as containers of the daemon that DOCKER_HOST or the docker context names."""

    platform = "docker"
    capabilities = Capabilities(
        streams_apart=True, max_command=render.MAX_ARGUMENT, max_payload=64 * MiB, poll_seconds=2.0
    )
    Options = DockerOptions

    def __init__(self, settings: Settings, state_dir: Path) -> None:
        self.settings = settings
        self.address = find_address(settings)
        self.capabilities = replace(
            type(self).capabilities, files_seconds=0 if is_local(self.address) else FAR_FILES_SECONDS
        )
        self.endpoint = f"{self.address.url} on {this_machine()}" if is_local(self.address) else self.address.url
        self.daemon = Daemon(self.address)
        self.home = state_dir / "docker"
        self.images = Images(self.daemon, settings, self.home / "pulls")
        self.turns = Turns(self.home)
        self.networks = Networks(self.daemon, self.home / "networks")
        self.counted = -math.inf  # when the daemon was asked how many containers run

    def survey(self, spec: JobSpec, options: DockerOptions) -> DockerFacts:
        facts = look.survey(self.daemon, self.settings, spec, options, self.images.seen(spec.image))
        if spec.image and facts.image is None and (options.pull or facts.pull) != "never":
            self.images.login(spec.image)  # raises now, before anything is stored, when a key is needed and missing
        return facts

    def plan(self, spec: JobSpec, options: DockerOptions, facts: DockerFacts, attempt: Attempt) -> Plan:
        return render.plan(spec, options, facts, attempt)

    def plan_again(self, last: Plan, spec: JobSpec, options: DockerOptions, attempt: Attempt) -> Plan:
        """In the surroundings of the first attempt, on the daemon as it now is."""
        seen = look.survey(self.daemon, self.settings, spec, options, self.images.seen(spec.image))
        facts = replace(seen, **last.request["surroundings"])
        return render.plan(spec, options, replace(facts, auto_remove=last.release_when_over), attempt)

    def check(self, plan: Plan, facts: DockerFacts) -> list[Finding]:
        return checks.check(plan, facts)

    # Starting

    def submit(self, plan: Plan, secrets: Mapping[str, str]) -> Ref:
        missing = [name for name in plan.secrets if name not in secrets]
        if missing and not self.find_ready(plan.attempt):
            raise Refused(f"The secret {missing[0]} has no value.", "", f"Export {missing[0]}, or give it in env_vars.")
        with self.turns.taken(plan.attempt.job_id):
            try:
                return self.started(plan, secrets)
            except DaemonError as error:
                raise rules.refused(error.what) from error
            except CredentialError as error:
                raise Refused(error.what, error.why, error.next) from error

    def find_ready(self, attempt: Attempt) -> bool:
        found = self.find(attempt)
        return found is not None and found.ready

    def started(self, plan: Plan, secrets: Mapping[str, str]) -> Ref:
        """The attempt's container, started: the one that is there, or a new one."""
        if new := self.made_at_once(plan):
            return self.ref(self.made(plan, secrets, new), plan.attempt, ready=True)
        found = self.inspect(render.container_name(plan.attempt))
        container = self.adopted(found, plan.attempt)
        if container is None:
            self.must_be_the_daemon(plan.request.get("daemon", ""))
            pulling = self.images.ready(plan)
            if pulling is not None:
                return self.unready(plan.attempt, pulling)
            self.make_way(found, plan.attempt)
            container = self.made(plan, secrets)
        return self.ref(container, plan.attempt, ready=True)

    def adopted(self, found: Container | None, attempt: Attempt) -> Container | None:
        """The one that has the job's name, if it is this attempt's and was told all that it needs."""
        if found is None or not self.is_of(found, attempt):
            return None
        container = found if found.begun else self.begun_after_all(found)
        return container if container and self.took_in(container) else None

    def made_at_once(self, plan: Plan) -> Container | None:
        """A new container, made without looking first: the name decides whether there is one, or an earlier attempt's."""
        if self.images.was_here(plan):
            self.must_be_the_daemon(plan.request.get("daemon", ""))
            with ignored(404, 409):
                return self.create(plan)
        return None

    def made(self, plan: Plan, secrets: Mapping[str, str], new: Container | None = None) -> Container:
        """A new container, started; again, a few times, while others remove or make our network."""
        again = STARTS if plan.request["make_network"] else 0
        while True:
            container, new, again = new or self.create(plan), None, again - 1
            try:
                self.start(container, plan, secrets)
                return container
            except DaemonError as error:
                if again < 0 or not UNSETTLED.search(error.what):
                    raise
                self.networks.forget(network_name(plan))

    def begun_after_all(self, container: Container) -> Container | None:
        """A container that a client left unstarted goes: half of something may wait at its standard input.

        Unless its start is under way, or was asked for a moment ago: the daemon answers only when a start is over, and
        removes nothing that runs when it is not forced to.
        """
        for _ in range(30):
            time.sleep(ASKED_FOR)
            left = self.inspect(container.id)
            if left is None or left.begun:
                return left
            with ignored(404, 409):
                self.daemon.ask("DELETE", f"/containers/{container.id}", v=1)
        raise Unreachable(f"{container.id} neither starts nor can be removed.", "", "Try again.")

    def took_in(self, container: Container) -> bool:
        """Whether it was told its environment whole. If not it has run nothing, and ends as soon as nobody types."""
        if container.running and container.seen["Config"].get("OpenStdin"):
            time.sleep(ASKED_FOR)
            container = self.inspect(container.id) or container
        if container.running or container.seen["State"]["ExitCode"] != render.NOT_BEGUN:
            return True
        return render.NOT_WHOLE.encode() not in logs.tail(self.daemon, container.id, "stderr", 1)[1]

    def make_way(self, found: Container | None, attempt: Attempt) -> None:
        """An earlier attempt of the same job gives its name to this one; a stranger's container does not."""
        if found is None:
            return
        job_id, number, store = parse.names(found.seen)
        if (job_id, store) != (attempt.job_id, attempt.store_id) or int(number) > attempt.number:
            name = render.container_name(attempt)
            raise Refused(
                f"The name {name} is taken by a container that is not of this job.", "", f"docker rm -f {name}"
            )
        self.remove(found.id)

    def create(self, plan: Plan) -> Container:
        for folder in plan.request["folders"]:
            Path(folder).mkdir(parents=True, exist_ok=True)
        body = dict(plan.request["container"])
        if plan.request["make_network"]:
            body["HostConfig"] = {**body["HostConfig"], "NetworkMode": self.networks.made(network_name(plan))}
        made = self.daemon.ask("POST", "/containers/create", body, name=plan.request["name"])
        return Container(
            {"Id": made["Id"], "State": {"Status": "created"}, "Config": body, "HostConfig": body["HostConfig"]}
        )

    def start(self, container: Container, plan: Plan, secrets: Mapping[str, str]) -> None:
        """Deliver what is too long, and what must not be seen, and start. What cannot start is removed."""
        try:
            if command := plan.request["command"]:
                file = ("command", command.encode("utf-8", "surrogateescape"), 0o600)
                self.daemon.put_archive(
                    container.id, "/", dockerd.archive([file], self.owner(container), render.FOLDER)
                )
            with self.daemon.typing(container.id, typed(plan, secrets)):
                self.daemon.ask("POST", f"/containers/{container.id}/start")
        except DaemonError:
            self.remove(container.id)
            raise

    def owner(self, container: Container) -> tuple[int, int]:
        """Who the command runs as, and so who may read what is delivered."""
        user = container.seen["Config"].get("User") or ""
        if not user or user in ("0", "root"):
            return 0, 0
        uid, _, gid = user.partition(":")
        if uid.isdigit() and gid.isdigit():
            return int(uid), int(gid)
        passwd, group = (self.daemon.file(container.id, path) or b"" for path in ("/etc/passwd", "/etc/group"))
        return parse.owner(user, passwd.decode("utf-8", "replace"), group.decode("utf-8", "replace"))

    def find(self, attempt: Attempt, plan: Plan | None = None) -> Ref | None:  # noqa: ARG002
        found = self.inspect(render.container_name(attempt))
        if found is None or not self.is_of(found, attempt):
            return None
        return self.ref(found, attempt, found.begun and self.took_in(found))

    def ref(self, container: Container, attempt: Attempt, ready: bool) -> Ref:
        return Ref(
            platform=self.platform,
            endpoint=self.endpoint,
            namespace="",
            native_id=render.container_name(attempt),
            unique_id=container.id,
            attempt=attempt,
            ready=ready,
            step="" if ready else "created",
            details={
                "results_dir": parse.labels(container.seen).get("tao-sdk-results", ""),
                "daemon": self.identity(),
            },
        )

    def unready(self, attempt: Attempt, step: str) -> Ref:
        """The Ref of an attempt that has no container yet."""
        name = render.container_name(attempt)
        return Ref(self.platform, self.endpoint, "", name, "", attempt, ready=False, step=step, retry_after=1.0)

    def is_of(self, container: Container, attempt: Attempt) -> bool:
        return parse.belongs(container.seen, attempt.job_id, attempt.number, attempt.store_id)

    # Looking

    def observe(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        """One list for all, and one look more at each that has newly ended, or may have without being listed so."""
        here = [ref for ref in refs if ref.endpoint == self.endpoint]
        reason = f"it runs on another daemon, this is {self.endpoint}"
        seen = {ref: Observation(Phase.UNREACHABLE, "", reason=reason) for ref in refs if ref.endpoint != self.endpoint}
        try:
            states = self.states({ref.attempt.store_id for ref in here}) if here else {}
            if any(ref.unique_id not in states for ref in here):
                self.identity(at_most=0)  # a container that is missing is judged by who says so now
            doubted = self.doubted(states)
            return seen | {ref: self.observed(ref, states.get(ref.unique_id), ref.unique_id in doubted) for ref in here}
        except (Unreachable, DaemonError) as error:
            doubt = Observation(Phase.UNREACHABLE, "", reason=error.what)
            return seen | dict.fromkeys(here, doubt)

    def states(self, stores: set[str]) -> dict[str, str]:
        """Container -> the list's word for its state."""
        label = "tao-sdk-job-id" if len(stores) > 1 else f"tao-sdk-store={next(iter(stores))}"
        listed = self.daemon.ask("GET", "/containers/json", all=1, filters={"label": [label]})
        return {each["Id"]: each["State"] for each in listed}

    def doubted(self, states: Mapping[str, str]) -> set[str]:
        """Those that the list may call running although they have ended: it has more such containers than the daemon counts.

        A daemon without room on its disk keeps an end to itself, also when it has room again. That is asked now and then,
        however many jobs there are, and so many are doubted at once.
        """
        running = [container for container, state in states.items() if state == "running"]
        if not running or time.monotonic() - self.counted < FRESH:
            return set()
        listed = len(self.daemon.ask("GET", "/containers/json"))
        said = self.daemon.info(at_most=0)
        self.counted = time.monotonic()
        counted = said.get("ContainersRunning", listed) + said.get("ContainersPaused", 0)
        return set(random.sample(running, min(DOUBTED, len(running)))) if listed > counted else set()

    def observed(self, ref: Ref, state: str | None, doubted: bool) -> Observation:
        if state is None and not self.is_the_daemon(ref.details.get("daemon", "")):
            return Observation(Phase.UNREACHABLE, "", reason=f"{self.another_daemon()}; {settled(ref.attempt)}")
        if state is None:
            return Observation(Phase.ABSENT, "no such container")
        believed = not doubted and self.room_left(ref) >= FULL
        if believed and state in parse.PHASES and state != "created":
            return parse.living(state)
        return self.inspected(ref)

    def inspected(self, ref: Ref) -> Observation:
        return self.judged(ref, self.inspect(ref.unique_id))

    def judged(self, ref: Ref, container: Container | None) -> Observation:
        if container is None:
            return Observation(Phase.ABSENT, "no such container")
        return parse.observation(container.seen, self.mark(ref).exists())

    def inspect(self, name: str) -> Container | None:
        try:
            return Container(self.daemon.get(f"/containers/{name}/json"))
        except DaemonError as error:
            if error.status == 404:
                return None
            raise

    def outcome(self, ref: Ref) -> Outcome | None:
        return read_outcome(self.files(ref.endpoint), ref.details.get("results_dir", ""), ref.attempt.number)

    def logs(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        self.must_be_here(ref)

        def has_ended() -> bool:
            return self.inspected(ref).phase.over

        return logs.read(self.daemon, ref.unique_id, request, has_ended)

    def files(self, endpoint: str = "") -> Files:
        if endpoint and endpoint != self.endpoint:
            raise Unreachable(f"The files are on {endpoint}, this is {self.endpoint}.", "", "Look from there.")
        return HereFiles(self.daemon) if is_local(self.address) else FarFiles(self.daemon)

    # Ending

    def cancel(self, ref: Ref, grace: timedelta) -> Observation:
        """One stop: the daemon sends SIGTERM to the whole group and, when the grace is over, SIGKILL."""
        self.must_be_here(ref)
        self.images.forgo(ref.attempt.job_id)
        container = self.inspect(ref.unique_id or ref.native_id)
        if container is None:
            self.must_be_the_daemon(ref.details.get("daemon", ""), f"Start that one, or {settled(ref.attempt)}.")
        if container is None or not self.is_of(container, ref.attempt):
            return self.judged(ref, None)
        if not container.begun or not (ref.ready or self.took_in(container)):
            self.remove(container.id)
            return self.judged(ref, None)
        if (seen := self.judged(ref, container)).phase.ended:
            return seen
        self.home.mkdir(0o700, parents=True, exist_ok=True)
        self.mark(ref).touch()
        with suppress(DaemonError):  # what it could not do is seen
            self.stop(container, grace.total_seconds())
        return self.judged(ref, self.inspect(container.id))

    def stop(self, container: Container, seconds: float) -> None:
        if container.seen["State"].get("Paused"):
            self.daemon.ask("POST", f"/containers/{container.id}/unpause")
        if seconds % 1:
            self.end_within(container, seconds)
        left = 0 if seconds % 1 else int(seconds)
        self.daemon.ask("POST", f"/containers/{container.id}/stop", timeout=left + MARGIN, t=left)

    def end_within(self, container: Container, seconds: float) -> None:
        """SIGTERM, and the time to end. The daemon's own stop counts in whole seconds."""
        until = time.monotonic() + seconds
        with ignored(409):  # it has ended
            self.daemon.ask("POST", f"/containers/{container.id}/kill", signal="SIGTERM")
            while time.monotonic() < until and self.lives(container):
                time.sleep(min(0.05, seconds / 10))

    def lives(self, container: Container) -> bool:
        left = self.inspect(container.id)
        return left is not None and not parse.observation(left.seen).phase.ended

    def mark(self, ref: Ref) -> Path:
        """Its being there says that the container's end was asked for."""
        return self.home / f"{ref.unique_id[:32]}.canceled"

    def release(self, ref: Ref) -> None:
        self.must_be_here(ref)
        self.images.forgo(ref.attempt.job_id)
        container = self.inspect(ref.unique_id or ref.native_id)
        if container is not None and self.is_of(container, ref.attempt):
            if container.begun and not self.cancel(ref, timedelta(seconds=render.GRACE)).phase.over:
                raise Unreachable(f"{ref.native_id} still runs.", "It could not be ended in time.", "Try again.")
            self.remove(container.id)
            self.networks.release(render.DEFAULT_NETWORK)
        self.mark(ref).unlink(missing_ok=True)

    def remove(self, container: str) -> None:
        """Remove a container with its anonymous volumes. One that is being removed is waited for."""
        for _ in range(100):
            try:
                self.daemon.ask("DELETE", f"/containers/{container}", force=1, v=1)
                return
            except DaemonError as error:
                if error.status == 404:
                    return
                if error.status != 409:
                    raise
            time.sleep(0.1)

    # Explaining

    def evidence(self, ref: Ref) -> Evidence:
        self.must_be_here(ref)
        container = self.inspect(ref.unique_id or ref.native_id)
        if container is None:
            return Evidence(phase=Phase.ABSENT.value, raw="no such container")
        seen = parse.observation(container.seen, self.mark(ref).exists())
        return Evidence(
            phase=seen.phase.value,
            raw=seen.raw,
            exit_code=seen.exit_code,
            reason=seen.reason,
            events=(*parse.events(container.seen, self.told(container)), *self.room(ref)),
        )

    def room(self, ref: Ref) -> Iterator[NodeEvent]:
        """Whether the daemon's disk is full: then a container's last words, which would say so, have no room either."""
        if (left := self.room_left(ref)) < FULL:
            folder = parse.folder(ref.details.get("daemon", ""))
            yield NodeEvent("DiskFull", f"no space left on device: {folder} has {format_size(int(left))} free")

    def room_left(self, ref: Ref) -> float:
        """Bytes free for the daemon's data, where this machine can see it.

        A daemon without room notes a container's end only where `inspect` looks: its list goes on saying that it runs.
        """
        folder = parse.folder(ref.details.get("daemon", ""))
        try:
            return shutil.disk_usage(folder).free if folder and is_local(self.address) else math.inf
        except OSError:
            return math.inf

    def told(self, container: Container) -> list[Mapping[str, Any]]:
        """What the daemon still remembers of what happened to a container."""
        began = parse.moment(container.seen.get("Created"))
        since = f"{began.timestamp():.6f}" if began else "0"
        wanted = {"container": [container.id], "event": ["kill", "oom", "die", "stop"]}
        return list(self.daemon.lines("GET", "/events", {}, since=since, until=f"{time.time():.6f}", filters=wanted))

    def diagnose(self, evidence: Evidence) -> Diagnosis | None:
        return rules.diagnose(evidence)

    def doctor(self) -> list[Finding]:
        return doctor.examine(self.daemon, self.settings)

    def close(self) -> None:
        self.daemon.close()

    def identity(self, at_most: float = FRESH) -> str:
        """Which daemon answers here: behind one address it may be replaced."""
        return parse.identity(self.daemon.info(at_most))

    def is_the_daemon(self, identity: str) -> bool:
        return not identity or identity == self.identity()

    def must_be_the_daemon(self, identity: str, fix: str = "Start that one.") -> None:
        if not self.is_the_daemon(identity):
            raise Unreachable(f"{self.another_daemon()}.", "What the job's one has cannot be known.", fix)

    def another_daemon(self) -> str:
        return f"Another Docker daemon than the job's answers at {self.address.url}"

    def must_be_here(self, ref: Ref) -> None:
        if ref.endpoint != self.endpoint:
            raise Unreachable(f"The job lives on {ref.endpoint}, this is {self.endpoint}.", "", "Ask from there.")


def settled(attempt: Attempt) -> str:
    """What a person does about a job whose daemon never comes back: nobody else can know that."""
    return f"if that one is gone for good: tao rm --force {attempt.job_id}"


def network_name(plan: Plan) -> str:
    return plan.request["container"]["HostConfig"]["NetworkMode"]


def typed(plan: Plan, secrets: Mapping[str, str]) -> bytes:
    """What the container is told through its standard input; the secrets' values go nowhere else."""
    environment = plan.request["environment"]
    values = {
        name: value if isinstance(value, str) else secrets[value["secret"]] for name, value in environment.items()
    }
    return render.statements(values).encode("utf-8", "surrogateescape") if values else b""
