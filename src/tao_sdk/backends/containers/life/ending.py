"""Ending: stop the containers of jobs, and remove what is left of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial

from tao_sdk.backends.containers.containers import Container
from tao_sdk.backends.containers.life.images import Images
from tao_sdk.backends.containers.life.jobs import answering
from tao_sdk.backends.containers.life.networks import Networks
from tao_sdk.backends.containers.life.observing import Observing
from tao_sdk.backends.containers.start_script import GRACE
from tao_sdk.backends.contract import CancelAnswer, cancel_side_by_side
from tao_sdk.backends.refusals import must_live_at, still_runs
from tao_sdk.model.observation import Observation
from tao_sdk.model.plan import Ref
from tao_sdk.store.private_files import make_folders
from tao_sdk.transports.dockerd import DaemonError

STOPS = 16  # containers stopped in parallel: each stop waits for its container's end


class Ending:
    """Ends the jobs of one place. `network` is the name of the network that we make for jobs."""

    def __init__(
        self, observing: Observing, images: Images, networks: Networks, network: str
    ) -> None:
        self.observing, self.jobs, self.place = observing, observing.jobs, observing.place
        self.containers = observing.containers
        self.images, self.networks, self.network = images, networks, network

    def cancel(self, refs: Sequence[Ref], grace: timedelta) -> dict[Ref, CancelAnswer]:
        """Cancel the attempts, with one request per container: the API cannot stop several."""
        return cancel_side_by_side(refs, partial(self.end_job, grace=grace), STOPS)

    @answering()
    def end_job(self, ref: Ref, grace: timedelta) -> Observation:
        """Cancel one attempt and return its observation afterwards.

        The whole process group gets SIGTERM and, after the grace, SIGKILL.
        """
        must_live_at(self.place.endpoint, ref)
        self.images.forgo(ref.attempt.job_id)
        container = self.jobs.container_of(ref)
        if container is None or not container.is_of(ref.attempt):
            return self.observing.judge_container(ref, None)
        if not self.runs_command(ref, container):
            self.containers.remove(container.id)
            return self.observing.judge_container(ref, None)
        last = self.observing.judge_container(ref, container)
        if last.phase.ended:
            return last
        make_folders(self.place.home)
        self.jobs.cancel_mark(ref).touch()
        if grace.total_seconds() == GRACE:  # the default: a write would take as long as the stop
            grace = container.own_grace
        else:
            self.containers.write_grace(container, grace)
        with suppress(DaemonError):  # the next inspect shows a stop that failed
            self.containers.stop(container, grace.total_seconds())
        return self.observing.judge_container(ref, self.containers.inspect(container.id))

    def runs_command(self, ref: Ref, container: Container) -> bool:
        """True if the container was started and has all that its command needs."""
        if not container.begun:
            return False
        return ref.ready or self.jobs.has_read_input(container)

    @answering()
    def release(self, ref: Ref) -> None:
        """Remove the container, and our network if this was the last container in it."""
        must_live_at(self.place.endpoint, ref)
        self.images.forgo(ref.attempt.job_id)
        container = self.jobs.container_of(ref)
        if container is not None and container.is_of(ref.attempt):
            if container.begun and not self.end_job(ref, timedelta(seconds=GRACE)).phase.over:
                raise still_runs(ref.native_id)
            self.containers.remove(container.id)
            self.networks.remove_unused(self.network)
        self.jobs.cancel_mark(ref).unlink(missing_ok=True)
