"""A pull over a slow connection: what it says of itself, what follows it, and what ends it; and who
pulls.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import Daemon
from support.dockerd.registry_here import PASSWORD, USER, Registry
from support.dockerd.slow_link import SlowLink
from tao_sdk.backends.docker import rules
from tao_sdk.backends.docker.registry import images
from tao_sdk.backends.docker.registry.pull import Layers, Pulled
from tao_sdk.client import Client
from tao_sdk.engine import diagnose
from tao_sdk.model.diagnosis import ErrClass
from tao_sdk.model.errors import Refused
from tao_sdk.model.job import Job
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

PROGRESS = re.compile(r"pulling \S+: \d of 1 layers, \d\.\d MB of 3\.\d MB, ETA \d+:\d\d")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """With an image of 3 MB that cannot be compressed."""
    here, folder = dockerd_here.daemon(), tmp_path_factory.mktemp("registry")
    registry = Registry(folder)
    try:
        registry.start()
        busybox = Path("/bin/busybox").read_bytes()
        files = {"bin/busybox": busybox, "noise": os.urandom(2_500_000)}
        root = dockerd_here.tar(folder / "root.tar", files, {"bin/sh": "busybox"})
        here.docker("import", str(root), "tao-test-noise")
        registry.login(here, folder / "pusher")
        registry.push(here, "tao-test-noise", "team/noise:1", folder / "pusher")
        here.docker("rmi", "tao-test-noise")
        yield registry
    finally:
        registry.stop()


@pytest.fixture
def link(registry: Registry, here: Daemon, surroundings: dict[str, str]) -> Iterator[SlowLink]:
    """The registry behind 450 kB/s, and the caller logged in there."""
    link = SlowLink(registry.address, registry.port, 450_000)
    registry.trust(link.port)
    registry.login(here, Path(surroundings["HOME"]) / ".docker", link.port)
    yield link
    here.docker("rmi", "-f", image(link), check=False)
    registry.distrust(link.port)
    link.stop()


def image(link: SlowLink) -> str:
    return f"{link.host}:{link.port}/team/noise:1"


def submit(client: Client, name: str) -> Job:
    return client.submit(JobSpec(image=name, command="echo pulled", gpu_count=0), "docker").job


def has(here: Daemon, name: str) -> bool:
    return here.docker("image", "inspect", name, check=False).returncode == 0


def test_a_run_shows_how_far_the_pull_is_and_starts_when_it_is_over(
    surroundings: dict[str, str], link: SlowLink, here: Daemon
) -> None:
    words = [
        "run",
        "--platform",
        "docker",
        "--image",
        image(link),
        "--gpus",
        "0",
        "--name",
        "slow",
        "--",
        "echo pulled",
    ]
    argv = [sys.executable, "-m", "tao_sdk.cli.main", *words]
    with Client(settings=Settings(surroundings)) as client:
        running = subprocess.Popen(
            argv, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        said: set[str] = set()
        while running.poll() is None:
            said.update(job.message for job in client.list_jobs(look=False))
        assert running.returncode == 0, running.stdout and running.stdout.read()
        assert [words for words in said if PROGRESS.fullmatch(words)], said
        job = client.list_jobs()[0]
        assert (job.status, client.get_job_logs(job.id)) == (Status.COMPLETE, "pulled\n")
        client.remove(job.id)


def test_canceling_the_only_job_that_waits_for_a_pull_ends_the_pull(
    client: Client, link: SlowLink, here: Daemon
) -> None:
    job = submit(client, image(link))
    assert (job.status, PROGRESS.fullmatch(job.message) is not None) == (Status.PENDING, True), (
        job.message
    )
    assert link.busy > 0
    assert client.cancel_job(job.id) is True
    assert client.get_job(job.id).status is Status.CANCELED
    dockerd_here.until(lambda: link.busy == 0)
    assert not has(here, image(link))
    assert here.docker("ps", "-aq", "--filter", f"name=tao-job-{job.id}").stdout == ""


def test_a_pull_that_another_job_waits_for_goes_on(
    client: Client, link: SlowLink, here: Daemon
) -> None:
    jobs: list[Job] = []
    threads = [
        threading.Thread(target=lambda: jobs.append(submit(client, image(link)))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = jobs
    assert client.cancel_job(first.id) is True
    client.wait(second.id, timeout=300)
    assert [client.get_job(job.id).status for job in (first, second)] == [
        Status.CANCELED,
        Status.COMPLETE,
    ]


HELPER = """#!{python}
import json, sys
assert sys.argv[1] == "get", sys.argv
server = sys.stdin.read().strip()
open({asked!r}, "a").write(server + chr(10))
if server != {registry!r}:
    sys.exit("credentials not found in native keychain")
print(json.dumps({{"ServerURL": server, "Username": {user!r}, "Secret": {password!r}}}))
"""


@pytest.mark.parametrize("config", ["credHelpers", "credsStore"])
def test_a_credential_helper_is_asked_for_the_login(
    surroundings: dict[str, str],
    registry: Registry,
    here: Daemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: str,
) -> None:
    name = f"{registry.name}/team/noise:1"
    helper, asked = tmp_path / "bin" / "docker-credential-tested", tmp_path / "asked"
    helper.parent.mkdir()
    values = {"asked": str(asked), "registry": registry.name, "user": USER, "password": PASSWORD}
    helper.write_text(HELPER.format(python=sys.executable, **values))
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:{os.environ['PATH']}")
    folder = Path(surroundings["HOME"]) / ".docker"
    folder.mkdir()
    helpers = {"credHelpers": {registry.name: "tested"}, "credsStore": "tested"}
    (folder / "config.json").write_text(json.dumps({config: helpers[config]}))
    with Client(settings=Settings({**surroundings, "PATH": os.environ["PATH"]})) as client:
        job = submit(client, name)
        assert client.wait(job.id, timeout=300).status is Status.COMPLETE
        client.remove(job.id)
    here.docker("rmi", "-f", name)
    assert registry.name in asked.read_text().split()
    state = Path(surroundings["TAO_SDK_STATE_DIR"])
    assert not [
        path
        for path in state.rglob("*")
        if path.is_file() and PASSWORD.encode() in path.read_bytes()
    ]


def test_a_credential_helper_that_is_not_there_is_named_when_the_registry_wants_a_login(
    client: Client, surroundings: dict[str, str], registry: Registry
) -> None:
    folder = Path(surroundings["HOME"]) / ".docker"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"credsStore": "not-there"}))
    with pytest.raises(Refused, match="docker-credential-not-there") as refused:
        submit(client, f"{registry.name}/team/noise:1")
    assert refused.value.code == "docker.pull_unauthorized"
    assert client.list_jobs() == []


class Silent:
    """A registry that takes every connection and says nothing, until it hangs up on all."""

    def __init__(self) -> None:
        self.listening = socket.create_server((dockerd_here.address(), 0))
        self.name = f"{dockerd_here.address()}:{self.listening.getsockname()[1]}"
        self.image = f"{self.name}/silent"
        self.taken: list[socket.socket] = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                self.taken.append(self.listening.accept()[0])

    def hang_up(self) -> None:
        while self.taken:
            self.taken.pop().close()

    def stop(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.hang_up()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A submit waits half a second, not ten, for a registry that says nothing."""
    monkeypatch.setattr(images, "ASKED_SECONDS", 0.25)
    monkeypatch.setattr(images, "AT_ONCE", 0.25)


@pytest.mark.usefixtures("hasty")
def test_a_pull_that_failed_for_an_earlier_job_is_tried_anew_for_a_later_one(
    client: Client, surroundings: dict[str, str]
) -> None:
    registry = Silent()
    said = Path(surroundings["TAO_SDK_STATE_DIR"]) / "docker" / "pulls"
    try:
        first = client.submit(
            JobSpec(image=registry.image, command="true", gpu_count=0), "docker"
        ).job
        dockerd_here.until(lambda: registry.taken)

        def has_failed() -> bool:
            registry.hang_up()
            return any('"error"' in each.read_text() for each in said.iterdir() if each.is_file())

        dockerd_here.until(has_failed)
        later = client.submit(
            JobSpec(image=registry.image, command="true", gpu_count=0), "docker"
        ).job
        assert "pulling" in later.message
        for job in (first, later):
            client.cancel_job(job.id)
    finally:
        registry.stop()


class Recovering(SlowLink):
    """The way to a registry: for the time being it takes connections and says nothing."""

    def __init__(self, registry: Registry) -> None:
        self.silent = True
        self.taken: list[socket.socket] = []
        super().__init__(registry.address, registry.port, 50_000_000)

    def _serve(self, near: socket.socket) -> None:
        if self.silent:
            self.taken.append(near)
        else:
            super()._serve(near)

    def hang_up(self) -> None:
        while self.taken:
            self.taken.pop().close()


@pytest.fixture
def recovering(
    registry: Registry, here: Daemon, surroundings: dict[str, str]
) -> Iterator[Recovering]:
    link = Recovering(registry)
    registry.trust(link.port)
    registry.login_at(Path(surroundings["HOME"]) / ".docker", link.port)
    yield link
    here.docker("rmi", "-f", image(link), check=False)
    registry.distrust(link.port)
    link.stop()


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(("retries", "ended"), [(1, (Status.COMPLETE, 2)), (0, (Status.ERROR, 1))])
def test_a_pull_that_fails_while_its_job_is_pending_is_tried_again_where_retries_are_asked(
    surroundings: dict[str, str], recovering: Recovering, retries: int, ended: tuple[Status, int]
) -> None:
    with Client(settings=Settings(surroundings), watch=True) as client:
        spec = JobSpec(image=image(recovering), command="echo pulled", gpu_count=0, retries=retries)
        job = client.submit(spec, "docker").job
        assert (job.status, "pulling" in job.message) == (Status.PENDING, True)

        def has_failed() -> bool:
            recovering.hang_up()
            return not client.get_job(job.id).message.startswith("pulling")

        dockerd_here.until(has_failed)
        recovering.silent = False
        why = client.diagnose(job.id)
        assert why is not None
        assert (why.rule, why.retryable) == ("docker.registry_unreachable", True)
        client.wait(job.id, timeout=300)
        now = client.get_job(job.id)
        assert (now.status, now.attempt) == ended
        client.remove(job.id)


@pytest.mark.usefixtures("hasty")
def test_a_job_that_waits_for_another_try_of_its_pull_says_why_and_can_be_canceled(
    client: Client, recovering: Recovering
) -> None:
    spec = JobSpec(image=image(recovering), command="echo pulled", gpu_count=0, retries=1)
    job = client.submit(spec, "docker").job

    def has_failed() -> bool:
        recovering.hang_up()
        return client.get_job(job.id).message == "attempt 2 waits for a watcher: tao watch"

    dockerd_here.until(has_failed)
    why = client.diagnose(job.id)
    assert why is not None
    assert (why.rule, why.suggestion) == ("docker.registry_unreachable", diagnose.FOLLOWS)
    assert client.cancel_job(job.id) is True
    assert client.get_job(job.id).status is Status.CANCELED


def test_a_registry_that_hangs_is_waited_for_in_words_and_then_named_as_infrastructure(
    surroundings: dict[str, str],
) -> None:
    registry = Silent()
    words = [
        "--platform",
        "docker",
        "--image",
        registry.image,
        "--gpus",
        "0",
        "--name",
        "hangs",
        "--",
        "true",
    ]
    argv = [sys.executable, "-m", "tao_sdk.cli.main", "run", *words]
    try:
        with Client(settings=Settings(surroundings)) as client:
            running = subprocess.Popen(
                argv, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            dockerd_here.until(
                lambda: any("pulling" in job.message for job in client.list_jobs(look=False))
            )
            [waiting] = client.list_jobs(look=False)
            why = client.diagnose(waiting.id)
            assert why is not None
            assert (why.rule, f"pulling {registry.image}" in why.cause) == ("waiting", True)
            assert client.get_job_logs(waiting.id) == ""
            said, _ = running.communicate(timeout=300)
            assert running.returncode == 1
            assert "Traceback" not in said
            why = client.diagnose(waiting.id)
            assert why is not None
            assert (why.rule, why.err_class, why.retryable) == (
                "docker.registry_unreachable",
                ErrClass.INFRA,
                True,
            )
            assert (
                why.cause.count("The registry cannot be reached"),
                why.cause.count(registry.image),
            ) == (1, 1)
            assert client.get_job_logs(waiting.id) == ""
            client.remove(waiting.id)
    finally:
        registry.stop()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that asks for a layer once."""
    data = tmp_path_factory.mktemp("impatient")
    with dockerd_here.apart(data, "--max-download-attempts=1") as there:
        yield there


@pytest.mark.parametrize(
    ("image", "rule", "retryable"),
    [
        ("breaks", "docker.registry_unreachable", True),
        ("status-503", "docker.registry_unreachable", True),
        ("status-401", "docker.pull_unauthorized", False),
        ("status-403", "docker.pull_unauthorized", False),
        ("status-418", "docker.pull_failed", True),
    ],
)
def test_what_a_registry_does_to_a_pull_has_its_rule_and_names_the_image_once(
    surroundings: dict[str, str],
    half_registry: str,
    impatient: Daemon,
    image: str,
    rule: str,
    retryable: bool,
) -> None:
    name = f"{half_registry}/{image}:1"
    settings = Settings({**surroundings, "DOCKER_HOST": impatient.host})
    with Client(settings=settings) as client:
        try:
            job = client.submit(JobSpec(image=name, command="true", gpu_count=0), "docker").job
            assert client.wait(job.id, timeout=300).status is Status.ERROR
            said = client.get_job(job.id).message
            why = client.diagnose(job.id)
            assert why is not None
            assert (why.rule, why.retryable) == (rule, retryable), why
            client.remove(job.id)
        except Refused as refused:  # within the moment in which a submit waits for it
            said = str(refused)
            assert refused.code == rule, said
    assert said.count(half_registry) == 1, said


def test_what_containerds_image_store_says_names_the_image_once() -> None:
    words = 'failed to resolve reference "docker.io/team/x:1": docker.io/team/x:1: not found'
    refused = rules.pull_refused("team/x:1", words)
    assert (refused.code, str(refused).count("team/x")) == ("docker.image_not_found", 1)


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"id": 3, "status": None},
        {"id": "a", "status": "Downloading", "progressDetail": 7},
        {"id": "a", "status": "Downloading", "progressDetail": {"current": "1", "total": []}},
        {"id": "a", "status": "Downloading", "progressDetail": {"total": 5}},
    ],
)
def test_progress_in_another_form_than_docker_has_it_is_no_progress(
    line: dict[str, object],
) -> None:
    layers = Layers()
    layers.add_line(line)
    assert (layers.sum_up().bytes, layers.sum_up().total) == (0, 0)


def test_a_pull_of_which_nothing_is_heard_says_so() -> None:
    assert (
        Pulled(1, 2).describe("x", quiet=95)
        == "pulling x: 1 of 2 layers, nothing heard of it for 1:35"
    )
