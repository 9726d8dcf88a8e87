"""Jobs' containers: from an attempt or a Ref to its container on one daemon, and back to a Ref."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tao_sdk.backends.containers import logs, parse
from tao_sdk.backends.containers.containers import Container, Containers, container_name
from tao_sdk.backends.containers.identity import identity, identity_in, must_be_the_daemon
from tao_sdk.backends.containers.start_script import NOT_BEGUN, NOT_WHOLE, NOT_WHOLE_BEFORE
from tao_sdk.model.errors import Unreachable
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.transports.dockerd import Daemon, DaemonError

SETTLING_SECONDS = 0.3  # for the daemon to finish the last requests of a client that died


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


@dataclass(frozen=True)
class Place:
    """One daemon as a place for jobs, however it is reached."""

    platform: str
    endpoint: str  # its name in the jobs' records; no two daemons have the same
    daemon: Daemon
    home: Path  # the folder on this machine for notes about jobs
    is_here: bool  # the daemon's folders are this machine's


class JobContainers:
    """The containers of jobs at one place."""

    def __init__(self, place: Place, containers: Containers) -> None:
        self.place, self.containers = place, containers

    def find_job(self, attempt: Attempt, daemon: str = "") -> Ref | None:
        """The attempt's Ref; None if it has no container.

        Raises Unreachable if there is none and `daemon` is the identity of another daemon than the
        one that answers.
        """
        container = self.containers.inspect(container_name(attempt.job_id))
        if container is None or not container.is_of(attempt):
            self.check_daemon(attempt, daemon)
            return None
        ready = container.begun and self.has_read_input(container)
        return self.container_ref(container, attempt, ready)

    def started_ref(self, attempt: Attempt, started: Container | str) -> Ref:
        """The Ref for the return value of Starting.start_attempt."""
        if isinstance(started, str):
            return self.waiting_ref(attempt, started)
        return self.container_ref(started, attempt, ready=True)

    def container_ref(self, container: Container, attempt: Attempt, ready: bool) -> Ref:
        return Ref(
            platform=self.place.platform,
            endpoint=self.place.endpoint,
            namespace="",
            native_id=container_name(attempt.job_id),
            unique_id=container.id,
            attempt=attempt,
            ready=ready,
            step="" if ready else "created",
            details={
                "results_dir": parse.labels_of(container.seen).get("tao-sdk-results", ""),
                "daemon": self.place.daemon.address.url,
                "daemon_identity": identity(self.place.daemon),
            },
        )

    def waiting_ref(self, attempt: Attempt, step: str) -> Ref:
        """The Ref of an attempt that has no container yet."""
        return Ref(
            platform=self.place.platform,
            endpoint=self.place.endpoint,
            namespace="",
            native_id=container_name(attempt.job_id),
            unique_id="",
            attempt=attempt,
            ready=False,
            step=step,
            retry_after=1.0,
        )

    def container_of(self, ref: Ref) -> Container | None:
        """The container of an attempt; None if the job's own daemon has none.

        Raises Unreachable if there is none and another daemon answers.
        """
        container = self.containers.inspect(ref.unique_id or ref.native_id)
        if container is None:
            self.check_daemon(ref.attempt, identity_in(ref))
        return container

    def check_daemon(self, attempt: Attempt, daemon: str) -> None:
        """Raise Unreachable unless this is the job's own daemon.

        Only that daemon can say that a container is gone.
        """
        advice = f"Start that one, or {advice_to_remove(attempt)}."
        must_be_the_daemon(self.place.daemon, daemon, advice, at_most=0)

    def has_read_input(self, container: Container) -> bool:
        """True if a started container has read its whole environment (start_script.TAKE_IN).

        If the client died in the middle, the container's standard input ends early. Then the
        container runs no command, reports NOT_WHOLE and exits with NOT_BEGUN. A running container
        gets SETTLING_SECONDS to do that before its state is trusted.
        """
        if container.running and container.seen["Config"].get("OpenStdin"):
            time.sleep(SETTLING_SECONDS)
            container = self.containers.inspect(container.id) or container
        if container.running or container.seen["State"]["ExitCode"] != NOT_BEGUN:
            return True
        return not logs.says_code(self.place.daemon, container.id, (NOT_WHOLE, NOT_WHOLE_BEFORE))

    def cancel_mark(self, ref: Ref) -> Path:
        """The path of a file that exists if somebody canceled the job."""
        return self.place.home / f"{ref.unique_id[:32]}.canceled"

    def was_canceled(self, ref: Ref) -> bool:
        return self.cancel_mark(ref).exists()


def advice_to_remove(attempt: Attempt) -> str:
    """Advice for a job whose daemon never comes back. Only a person can know that."""
    return f"if that one is gone for good: tao rm --force {attempt.job_id}"
