"""Images: pulled with progress and the right login, from a registry with TLS and a password; every
failure explained.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import BUSYBOX, PYTHON, Daemon
from support.dockerd.registry_here import PASSWORD, Registry, half_registry
from tao_sdk.backends.docker.daemon.near_images import name_alone
from tao_sdk.backends.docker.registry.pull import Layers, Pulled, split_image_name
from tao_sdk.client import Client
from tao_sdk.model.errors import CredentialError, Refused, SpecError
from tao_sdk.model.finding import Severity
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    dockerd_here.daemon()  # has the address
    registry = Registry(tmp_path_factory.mktemp("registry"))
    try:
        registry.start()
        yield registry
    finally:
        registry.stop()


@pytest.fixture
def image(registry: Registry, here: Daemon, tmp_path: Path) -> Iterator[str]:
    registry.login(here, tmp_path / "pusher")
    name = registry.push(here, BUSYBOX, "team/small:1.0", tmp_path / "pusher")
    yield name
    here.docker("rmi", "-f", name, check=False)


def run(client: Client, image: str, **options: object) -> Status:
    job = client.submit(JobSpec(image=image, command="true", gpu_count=0), "docker", options).job
    client.wait(job.id, timeout=300)
    return client.get_job(job.id).status


def test_a_private_image_without_a_login_is_refused_with_the_remedy(
    client: Client, image: str
) -> None:
    with pytest.raises(Refused, match="docker login"):
        run(client, image)
    assert client.list_jobs() == []


@pytest.mark.parametrize("before", ["https://", "docker://"])
def test_an_address_instead_of_an_images_name_is_refused_with_the_remedy(
    client: Client, before: str
) -> None:
    with pytest.raises(Refused, match="without https://"):
        run(client, f"{before}nvcr.io/nvidia/tao")
    assert client.list_jobs() == []


def test_an_image_whose_tag_was_left_empty_is_refused_and_nothing_is_pulled(
    client: Client, image: str, registry: Registry, here: Daemon, surroundings: dict[str, str]
) -> None:
    registry.login(here, Path(surroundings["HOME"]) / ".docker")
    with pytest.raises(Refused, match="no tag after its colon"):
        run(client, image.removesuffix("1.0"))
    assert here.docker("images", "-q", image.removesuffix(":1.0")).stdout == ""


def test_a_credential_helper_that_talks_nonsense_is_named_where_the_registry_wants_a_login(
    client: Client, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "docker-credential-nonsense"
    helper.write_text("#!/bin/sh\necho nonsense\n")
    helper.chmod(0o755)
    (tmp_path / "home" / ".docker").mkdir()
    (tmp_path / "home" / ".docker" / "config.json").write_text('{"credsStore": "nonsense"}')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(Refused, match="helper's answer"):
        run(client, image)


def test_a_private_image_is_pulled_with_what_docker_login_has_kept(
    client: Client, image: str, registry: Registry, here: Daemon, surroundings: dict[str, str]
) -> None:
    registry.login(here, Path(surroundings["HOME"]) / ".docker")
    assert run(client, image) is Status.COMPLETE
    assert not [path for path in Path(surroundings["TAO_SDK_STATE_DIR"]).rglob("*")
                if path.is_file() and PASSWORD.encode() in path.read_bytes()]  # fmt: skip


def test_an_image_named_by_its_digest_is_pulled(
    client: Client, image: str, registry: Registry, here: Daemon, surroundings: dict[str, str]
) -> None:
    registry.login(here, Path(surroundings["HOME"]) / ".docker")
    name = f"{image.rpartition(':')[0]}@{registry.digest}"
    assert run(client, name, pull="always") is Status.COMPLETE
    here.docker("rmi", "-f", name, check=False)


@pytest.mark.parametrize("name", ["localhost:1/no/registry:1", "no-such-registry.invalid/x:1"])
def test_a_registry_that_cannot_be_reached_is_told_so(client: Client, name: str) -> None:
    with pytest.raises(Refused) as refused:
        run(client, name)
    assert refused.value.code == "docker.registry_unreachable"


def test_an_image_whose_registry_cannot_be_reached_is_not_said_to_be_pulled(client: Client) -> None:
    spec = JobSpec(image="localhost:1/no/registry:1", command="true", gpu_count=0)
    codes = [finding.code for finding in client.plan(spec, "docker").findings]
    assert codes == ["docker.registry_unreachable"]


def test_an_image_that_the_registry_does_not_have_is_told_so(
    client: Client, registry: Registry, here: Daemon, surroundings: dict[str, str]
) -> None:
    registry.login(here, Path(surroundings["HOME"]) / ".docker")
    with pytest.raises(Refused) as refused:
        run(client, f"{registry.name}/team/nothing:1")
    assert refused.value.code == "docker.image_not_found"


def test_a_misspelt_image_is_refused_with_the_one_that_the_daemon_has(
    client: Client, here: Daemon
) -> None:
    local = "localhost:1/team/trainer:1"  # no registry is there
    here.docker("tag", BUSYBOX, local)
    wrong = local.replace("trainer", "tariner")
    try:
        for options in ({}, {"pull": "never"}):
            with pytest.raises(Refused) as refused:
                run(client, wrong, **options)
            assert f"Did you mean {local}?" in refused.value.next
        with pytest.raises(Refused) as refused:
            run(client, local, pull="always")
        assert "The daemon has it: leave out `pull`." in refused.value.next
        with pytest.raises(Refused) as refused:
            run(client, "localhost:1/something/else", pull="never")
        assert "Did you mean" not in refused.value.next
    finally:
        here.docker("rmi", local)


def test_always_pulls_what_is_there_and_missing_does_not(
    surroundings: dict[str, str], image: str, registry: Registry, here: Daemon
) -> None:
    registry.login(here, Path(surroundings["HOME"]) / ".docker")
    here.docker("tag", PYTHON, image)  # the registry has another of that name
    with Client(settings=Settings({**surroundings, "DOCKER_PULL_POLICY": "always"})) as client:
        for options, expected in (({"pull": "missing"}, PYTHON), ({}, BUSYBOX)):
            job = client.submit(
                JobSpec(image=image, command="true", gpu_count=0), "docker", options
            ).job
            client.wait(job.id, timeout=300)
            assert here.inspect(f"tao-job-{job.id}")["Image"] == here.inspect(expected)["Id"]
            client.remove(job.id)


def test_a_pull_policy_that_is_none_is_refused_with_those_that_are(
    surroundings: dict[str, str],
) -> None:
    words = "DOCKER_PULL_POLICY is 'often'.*missing, always, never"
    settings = Settings({**surroundings, "DOCKER_PULL_POLICY": "often"})
    with Client(settings=settings) as client, pytest.raises(SpecError, match=words):
        run(client, BUSYBOX)


def test_never_pulls_nothing(client: Client, image: str) -> None:
    with pytest.raises(Refused, match="pull is never"):
        run(client, image, pull="never")


@pytest.fixture(scope="module")
def with_nvcr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon to which nvcr.io is a registry of this machine."""
    dockerd_here.daemon()
    folder, address = tmp_path_factory.mktemp("nvcr"), "127.7.13.2"
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n{address} nvcr.io\n")
    within = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'mount --bind {folder}/hosts /etc/hosts && exec "$@"',
        "sh",
    ]
    there = Daemon(folder / "data", folder, "--bridge=none", within=within)
    with half_registry(address, 80):
        there.start()
        try:
            there.docker("import", str(dockerd_here.busybox_root()), BUSYBOX)
            yield there
        finally:
            dockerd_here.clear(there)
            there.stop()
            there.leave_no_mounts()


@pytest.mark.parametrize("status", ["status-401", "status-403"])
def test_an_image_of_nvcr_that_is_refused_without_a_key_names_the_variable(
    surroundings: dict[str, str], with_nvcr: Daemon, status: str
) -> None:
    with Client(settings=Settings({**surroundings, "DOCKER_HOST": with_nvcr.host})) as client:
        with pytest.raises(CredentialError, match="NGC_KEY"):
            run(client, f"nvcr.io/{status}:1")
        assert client.list_jobs() == []


def test_an_image_of_nvcr_that_anybody_may_have_needs_no_key(
    surroundings: dict[str, str], with_nvcr: Daemon
) -> None:
    spec = JobSpec(image="nvcr.io/public:1", command="true", gpu_count=0)
    with Client(settings=Settings({**surroundings, "DOCKER_HOST": with_nvcr.host})) as client:
        found = client.plan(spec, "docker").findings
    assert [(each.code, each.severity) for each in found] == [("image.pulled", Severity.OK)]


@pytest.mark.parametrize(
    ("named", "user"), [({}, "$oauthtoken"), ({"DOCKER_USERNAME": "me"}, "me")]
)
def test_the_ngc_key_is_the_login_of_nvcr(
    surroundings: dict[str, str], named: dict[str, str], user: str
) -> None:
    with Client(
        settings=Settings({**surroundings, "NGC_KEY": "nvapi-not-real", **named})
    ) as client:
        login, _ = client.engine.backend("docker").images.find_login("nvcr.io/nvidia/tao:1")  # pyright: ignore
    assert login == {"username": user, "password": "nvapi-not-real", "serveraddress": "nvcr.io"}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a", ("a", "latest")),
        ("a:1", ("a", "1")),
        ("host:5000/a", ("host:5000/a", "latest")),
        ("host:5000/a:1", ("host:5000/a", "1")),
        ("a@sha256:00", ("a@sha256:00", "")),
    ],
)
def test_a_port_is_no_tag_and_a_digest_stays(name: str, parts: tuple[str, str]) -> None:
    assert split_image_name(name) == parts


def test_progress_counts_layers_and_bytes_and_says_when() -> None:
    layers = Layers()
    for line in (
        {"status": "Pulling from team/small", "id": "1.0"},
        {"status": "Pulling fs layer", "id": "aa", "progressDetail": {}},
        {"status": "Already exists", "id": "bb", "progressDetail": {}},
        {
            "status": "Downloading",
            "id": "aa",
            "progressDetail": {"current": 1_000_000, "total": 4_000_000},
        },
    ):
        layers.add_line(line)
    seen = layers.sum_up()
    assert (seen.layers, seen.known, seen.bytes, seen.total) == (1, 2, 1_000_000, 4_000_000)
    assert (
        Pulled(1, 2, 1_000_000, 4_000_000, 10.0).describe("x")
        == "pulling x: 1 of 2 layers, 1.0 MB of 4.0 MB, ETA 0:30"
    )


def test_an_image_of_that_name_from_another_registry_is_near() -> None:
    assert name_alone("nvcr.io/nvidia/pytorch:24.01-py3") == name_alone("pytorch") == "pytorch"
    assert name_alone("localhost:5000/pytorch@sha256:0a") == "pytorch"
