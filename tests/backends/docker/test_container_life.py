"""The life of a container on a daemon that no DockerBackend knows: what a further backend with a
Docker daemon is made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import BUSYBOX
from tao_sdk.backends.containers import containers
from tao_sdk.backends.containers.containers import Containers, container_name
from tao_sdk.backends.containers.life import leftovers
from tao_sdk.backends.containers.life.ending import Ending
from tao_sdk.backends.containers.life.jobs import JobContainers, Place
from tao_sdk.backends.containers.life.networks import Networks
from tao_sdk.backends.containers.life.observing import Observing
from tao_sdk.backends.containers.life.starting import Starting
from tao_sdk.backends.containers.request import ContainerRequest, job_labels
from tao_sdk.backends.containers.start_script import start_script
from tao_sdk.backends.contract import LogRequest
from tao_sdk.model.observation import Observation, Phase
from tao_sdk.model.plan import Attempt, Ref
from tao_sdk.model.secrets import SecretRef
from tao_sdk.model.spec import JobSpec
from tao_sdk.transports.dockerd import Address, Daemon, DaemonError

NETWORK = "moon_default"
NO_GRACE = timedelta(0)


class ImagesThere:
    """The images of a place that has them all."""

    def __init__(self) -> None:
        self.pulling = ""

    def was_here(self, request: ContainerRequest) -> bool:
        del request
        return False

    def get_ready(self, attempt: Attempt, request: ContainerRequest) -> str | None:
        del attempt, request
        return self.pulling or None

    def user(self, name: str) -> str:
        del name
        return ""

    def forgo(self, job_id: str) -> None:
        del job_id


class Moon:
    """A place for jobs that is made of the parts alone."""

    def __init__(self, host: str, home: Path) -> None:
        daemon = Daemon(Address(host))
        self.place = Place("moon", "moon://crater", daemon, home, is_here=False)
        self.containers = Containers(daemon)
        self.images = ImagesThere()
        networks = Networks(daemon, home / "networks")
        self.jobs = JobContainers(self.place, self.containers)
        self.starting = Starting(self.jobs, self.images, networks)
        self.observing = Observing(self.jobs, lambda _: set())
        self.ending = Ending(self.observing, self.images, networks, NETWORK)

    def submit(self, attempt: Attempt, command: str) -> Ref:
        request = container_request(attempt, command)
        started = self.starting.start_attempt(attempt, request, {"TOKEN": "a-secret"})
        return self.jobs.started_ref(attempt, started)

    def look(self, ref: Ref) -> Observation:
        return self.observing.observe([ref])[ref]

    def log(self, ref: Ref) -> bytes:
        return b"".join(chunk.data for chunk in self.observing.read_log(ref, LogRequest()))

    def end(self, ref: Ref) -> Observation:
        answer = self.ending.cancel([ref], NO_GRACE)[ref]
        assert isinstance(answer, Observation)
        return answer


def container_request(attempt: Attempt, command: str) -> ContainerRequest:
    return ContainerRequest(
        name=container_name(attempt.job_id),
        container={
            "Image": BUSYBOX,
            "Cmd": ["/bin/sh", "-c", start_script(command, None, True), "moon", command],
            "Labels": job_labels(JobSpec(command=command), attempt, "", [], "moon"),
            "OpenStdin": True,
            "StdinOnce": True,
            "HostConfig": {"Init": True, "NetworkMode": NETWORK},
        },
        environment={"TAO_JOB_ID": attempt.job_id, "TAO_ATTEMPT": "1", "TOKEN": SecretRef("TOKEN")},
        command="",
        pull="never",
        folders=(),
        make_network=True,
    )


@pytest.fixture
def moon(here: dockerd_here.Daemon, tmp_path: Path) -> Moon:
    return Moon(here.host, tmp_path)


@pytest.fixture
def attempt(moon: Moon, tmp_path: Path) -> Iterator[Attempt]:
    attempt = Attempt(f"moon-{tmp_path.name[-8:]}", 1, "moon", moon.place.endpoint, "the-store")
    yield attempt
    if ref := moon.jobs.find_job(attempt):
        moon.ending.release(ref)


def test_a_job_is_started_observed_read_and_removed(
    moon: Moon, attempt: Attempt, here: dockerd_here.Daemon
) -> None:
    ref = moon.submit(attempt, 'echo "${#TOKEN} letters"; exit 3')
    assert (ref.platform, ref.endpoint, ref.ready) == ("moon", "moon://crater", True)
    dockerd_here.until(lambda: moon.look(ref).phase.ended)
    assert moon.log(ref) == b"8 letters\n"
    assert (moon.look(ref).phase, moon.look(ref).exit_code) == (Phase.FAILED, 3)
    assert NETWORK in here.docker("network", "ls").stdout
    moon.ending.release(ref)
    assert moon.look(ref).phase is Phase.ABSENT
    assert NETWORK not in here.docker("network", "ls").stdout


def test_a_job_is_canceled_and_the_next_look_says_so(moon: Moon, attempt: Attempt) -> None:
    ref = moon.submit(attempt, "sleep 600")
    assert moon.look(ref).phase is Phase.RUNNING
    assert moon.end(ref).phase is Phase.CANCELED
    assert moon.look(ref).phase is Phase.CANCELED


def test_a_second_submit_takes_over_the_container_of_the_first(
    moon: Moon, attempt: Attempt
) -> None:
    first = moon.submit(attempt, "sleep 600")
    assert moon.submit(attempt, "sleep 600") == first == moon.jobs.find_job(attempt)


def test_a_ref_is_not_ready_while_the_place_still_gets_the_image(
    moon: Moon, attempt: Attempt
) -> None:
    moon.images.pulling = "pulling it: 1 of 3 layers"
    ref = moon.submit(attempt, "true")
    assert (ref.ready, ref.step) == (False, "pulling it: 1 of 3 layers")
    moon.images.pulling = ""
    assert moon.submit(attempt, "true").ready


def test_a_job_of_another_place_is_not_looked_at(moon: Moon, attempt: Attempt) -> None:
    ref = replace(moon.submit(attempt, "true"), endpoint="moon://sea")
    assert moon.look(ref).phase is Phase.UNREACHABLE


BUSY = "unable to remove filesystem for x: unlinkat merged: device or resource busy"


@pytest.mark.parametrize("refusals", [2, 1_000_000])
def test_a_container_whose_files_are_busy_is_removed_once_they_are_not(
    moon: Moon, attempt: Attempt, monkeypatch: pytest.MonkeyPatch, refusals: int
) -> None:
    monkeypatch.setattr(containers, "REMOVALS", 3)
    ref = moon.submit(attempt, "true")
    ask, left = moon.place.daemon.ask, refusals

    def busy_ask(method: str, path: str, *given: Any, **more: Any) -> Any:
        nonlocal left
        if method == "DELETE" and left:
            left -= 1
            raise DaemonError(500, BUSY)
        return ask(method, path, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(moon.place.daemon, "ask", busy_ask)
        told = nullcontext() if refusals < 3 else pytest.raises(DaemonError, match="busy")
        with told:
            moon.containers.remove(ref.unique_id)
    found = moon.containers.inspect(ref.unique_id)
    assert (found is None) is (refusals < 3)


def test_the_next_attempt_starts_though_the_last_ones_files_are_busy_and_they_go_later(
    moon: Moon,
    attempt: Attempt,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(leftovers, "PAUSE_SECONDS", 0.0)
    first = moon.submit(attempt, "echo first")
    dockerd_here.until(lambda: moon.look(first).phase.ended)
    ask, tries = moon.place.daemon.ask, list[str]()

    def busy_ask(method: str, path: str, *given: Any, **more: Any) -> Any:
        if method == "DELETE" and first.unique_id in path:
            tries.append(path)
            raise DaemonError(500, BUSY)
        return ask(method, path, *given, **more)

    next_attempt = replace(attempt, number=2)
    with monkeypatch.context() as patched:
        patched.setattr(moon.place.daemon, "ask", busy_ask)
        second = moon.submit(next_attempt, "echo second")
        tries.clear()
        dockerd_here.until(lambda: moon.look(second).phase.ended and tries)
    assert moon.log(second) == b"second\n"
    assert len(caplog.messages) == 1 and "busy" in caplog.text
    dockerd_here.until(
        lambda: moon.look(second) and moon.containers.inspect(first.unique_id) is None
    )
    moon.ending.release(second)
