"""Observing: the state of jobs, by listing a daemon's containers and inspecting some of them."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from tao_sdk.backends.containers import logs, parse
from tao_sdk.backends.containers.containers import Container
from tao_sdk.backends.containers.identity import (
    another_daemon,
    identity,
    identity_in,
    is_the_daemon,
)
from tao_sdk.backends.containers.life.jobs import JobContainers, advice_to_remove, answering
from tao_sdk.backends.containers.life.leftovers import Leftovers
from tao_sdk.backends.containers.start_script import NOT_BEGUN, mark_paths
from tao_sdk.backends.containers.window import Window
from tao_sdk.backends.contract import LogChunk, LogRequest, MiB
from tao_sdk.backends.refusals import must_live_at, seen_elsewhere, seen_unreachable
from tao_sdk.backends.this_machine import room_left
from tao_sdk.model.diagnosis import Evidence, NodeEvent
from tao_sdk.model.errors import PathNotFound, Unreachable
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Ref
from tao_sdk.model.reasons import Reason
from tao_sdk.model.units import format_size
from tao_sdk.transports.dockerd import FRESH, Daemon, DaemonError

FULL_DISK = MiB  # a disk with less free space is full
OPEN = 0o7  # bits of a folder's mode: everybody may make files in it
DOUBTED = 50  # the most containers inspected per look because the list may be wrong

STARTS = 8  # the most containers inspected per look for their start time, which the list lacks


class Observing:
    """Looks at the jobs of one place: their states, their logs, the evidence for a failure."""

    def __init__(
        self, jobs: JobContainers, take_unseen: Callable[[Sequence[str]], set[str]]
    ) -> None:
        """`take_unseen`: which containers had an event that no look has followed."""
        self.take_unseen = take_unseen
        self.jobs, self.place, self.containers = jobs, jobs.place, jobs.containers
        self.daemon = jobs.place.daemon
        self.leftovers = Leftovers(jobs.containers)
        self.starts: dict[str, datetime] = {}  # container id -> its start time, as far as asked
        self.counted_at = -math.inf  # time of the last question how many containers run

    def observe(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        """List all containers in one request, and inspect those that have ended or may have, and
        those that had an event.
        """
        endpoint = self.place.endpoint
        here = [ref for ref in refs if ref.endpoint == endpoint]
        elsewhere = seen_elsewhere(endpoint, refs)
        try:
            return elsewhere | self.observe_here(here)
        except (Unreachable, DaemonError) as error:
            return elsewhere | seen_unreachable(here, error.what)

    def observe_here(self, refs: Sequence[Ref]) -> dict[Ref, Observation]:
        if not refs:
            return {}
        states = self.list_states({ref.attempt.store_id for ref in refs})
        unseen = self.take_unseen([ref.unique_id for ref in refs])
        if any(ref.unique_id not in states for ref in refs):
            identity(self.daemon, at_most=0)  # only the job's own daemon knows that a job is gone
        doubted = unseen | self.doubted_containers(states)
        self.learn_starts([ref.unique_id for ref in refs if is_listed_alive(states, ref)])
        return {
            ref: self.observe_listed(ref, states.get(ref.unique_id), ref.unique_id in doubted)
            for ref in refs
        }

    def list_states(self, stores: set[str]) -> dict[str, str]:
        """Container id -> its state in the daemon's list, for the jobs of these stores.

        Also starts the removal of leftovers.
        """
        label = "tao-sdk-job-id" if len(stores) > 1 else f"tao-sdk-store={next(iter(stores))}"
        listed = self.daemon.ask("GET", "/containers/json", all=1, filters={"label": [label]})
        self.leftovers.remove_listed(listed)
        return {container["Id"]: str(container.get("State")) for container in listed}

    def learn_starts(self, containers: Sequence[str]) -> None:
        """Ask for the start time of up to STARTS containers. A later look asks for the others."""
        unknown = [container for container in containers if container not in self.starts]
        for name in unknown[:STARTS]:
            container = self.containers.inspect(name)
            started = parse.start_of(container.seen) if container else None
            if started is not None:
                self.starts[name] = started

    def doubted_containers(self, states: Mapping[str, str]) -> set[str]:
        """Containers that are listed as running but may have ended. Inspect each of them.

        If a container ends while the daemon's disk is full, the daemon still lists it as running,
        even after there is space again. Its own count of running containers is right. So if it
        lists more than it counts, some listed containers have ended, and it does not say which.
        Then DOUBTED of ours are picked at random, and others at the next look. The count is asked
        for at most once in FRESH seconds, however many jobs there are.
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

    def observe_listed(self, ref: Ref, state: str | None, doubted: bool) -> Observation:
        """The observation of an attempt. `state`: its state in the list; None if not listed."""
        if state is None:
            return self.observe_unlisted(ref)
        believed = not doubted and self.room_left(ref) >= FULL_DISK
        if believed and state in parse.PHASES and state != "created":
            return parse.living(state, self.starts.get(ref.unique_id))
        return self.inspect_job(ref)

    def observe_unlisted(self, ref: Ref) -> Observation:
        """ABSENT if the job's own daemon answers, else UNREACHABLE."""
        if is_the_daemon(self.daemon, identity_in(ref)):
            return Observation(Phase.ABSENT, "no such container")
        reason = f"{another_daemon(self.daemon)}; {advice_to_remove(ref.attempt)}"
        return Observation(Phase.UNREACHABLE, "", reason=reason)

    def inspect_job(self, ref: Ref) -> Observation:
        return self.judge_container(ref, self.containers.inspect(ref.unique_id))

    def judge_container(self, ref: Ref, container: Container | None) -> Observation:
        """The observation of a job, by its container's inspect answer."""
        if container is None:
            return Observation(Phase.ABSENT, "no such container")
        try:
            return self.ended_or_not_begun(ref, container)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = (
                "what the daemon says of its container cannot be understood "
                f"({type(error).__name__}: {error})"
            )
            return Observation(Phase.UNREACHABLE, "", reason=reason)

    def ended_or_not_begun(self, ref: Ref, container: Container) -> Observation:
        """The observation of a container.

        A container that ended before the start script began has failed, whatever its exit code: its
        ENTRYPOINT did not run the job's command.
        """
        seen = parse.observation(container.seen, self.jobs.was_canceled(ref))
        if not ended_by_itself(seen) or not parse.may_end_unbegun(container.seen):
            return seen
        if self.may_have_begun(ref, container):
            return seen
        return parse.not_begun(seen, container.seen)

    def may_have_begun(self, ref: Ref, container: Container) -> bool:
        """True unless the start script surely did not begin.

        That is sure if the container is there without the script's mark, and the script could have
        left the mark: as root, or in a /tmp that is open to everybody.
        """
        try:
            if not parse.is_roots(container.seen) and not has_open_tmp(self.daemon, container.id):
                return True
            for path in mark_paths(ref.attempt):
                if self.daemon.read_file(container.id, path) is not None:
                    return True
        except DaemonError:
            return True
        left = self.containers.inspect(container.id)
        return left is None or left.seen["State"]["Status"] != "exited"

    # The log

    def read_log(self, ref: Ref, request: LogRequest) -> Iterator[LogChunk]:
        must_live_at(self.place.endpoint, ref)
        if not ref.unique_id:  # it has no container yet
            return iter(())

        def has_ended() -> bool:
            return self.inspect_job(ref).phase.over

        return self.checked_log(ref, logs.read(self.daemon, ref.unique_id, request, has_ended))

    def checked_log(self, ref: Ref, chunks: Iterator[LogChunk]) -> Iterator[LogChunk]:
        """Yield the log. Raises PathNotFound only if the job's own daemon says so."""
        try:
            yield from chunks
        except PathNotFound:
            self.jobs.check_daemon(ref.attempt, identity_in(ref))
            raise

    # Evidence for a failure

    @answering()
    def evidence(self, ref: Ref) -> Evidence:
        must_live_at(self.place.endpoint, ref)
        container = self.jobs.container_of(ref)
        if container is None and ref.ready:
            return Evidence(phase=Phase.ABSENT.value, raw="no such container")
        if container is None:  # it waits for its image, or cannot get it: the job says which
            return Evidence(phase="", raw=ref.step)
        seen = self.ended_or_not_begun(ref, container)
        events = parse.node_events(container.seen, self.containers.recorded_events(container))
        return Evidence.of_observation(seen, (*events, *self.full_disk_events(ref)))

    def full_disk_events(self, ref: Ref) -> Iterator[NodeEvent]:
        """Yield an event if the daemon's disk is full.

        The end of the log would say so, but it found no space on the disk either.
        """
        left = self.room_left(ref)
        if left >= FULL_DISK:
            return
        folder = parse.folder(identity_in(ref))
        what = f"no space left on device: {folder} has {format_size(int(left))} free"
        yield NodeEvent("DiskFull", what)

    def room_left(self, ref: Ref) -> float:
        """Bytes free for the daemon's data; infinite if this machine cannot see that.

        A daemon without space may list an ended container as running. Only inspecting it tells.
        """
        folder = parse.folder(identity_in(ref))
        if not folder or not self.place.is_here:
            return math.inf
        return room_left(folder)


def has_open_tmp(daemon: Daemon, container: str) -> bool:
    """True if the container has a /tmp in which every user may make files."""
    there = Window(daemon, container, "").stat_path("/tmp")
    return there is not None and there[1]["mode"] & OPEN == OPEN


def ended_by_itself(seen: Observation) -> bool:
    """True if a program of the container ended it, and no signal, limit or daemon did."""
    if seen.phase is Phase.SUCCEEDED:
        return True
    code = seen.exit_code or 0
    return seen.reason_code is Reason.EXIT_CODE and code < 128 and code != NOT_BEGUN


def is_listed_alive(states: Mapping[str, str], ref: Ref) -> bool:
    """True if the list has the attempt's container as running or paused."""
    return states.get(ref.unique_id) in ("running", "paused")
