"""Endpoints of config.yaml: which settings each has, and what is told of a mistake in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.store_jobs import add
from tao_sdk.backends.by_name import endpoints
from tao_sdk.backends.contract import FoundAgain
from tao_sdk.backends.docker.backend import DockerBackend
from tao_sdk.client import Client
from tao_sdk.client.document import DocumentError
from tao_sdk.client.job_file import read_job_file
from tao_sdk.engine.bucket_files import results_around
from tao_sdk.engine.engine import Engine
from tao_sdk.engine.places import Places
from tao_sdk.model.errors import Unreachable, UsageError
from tao_sdk.model.settings import Settings
from tao_sdk.platforms.docker import DockerSDK
from tao_sdk.store import Store


def settings(home: Path, config: str, **environ: str) -> Settings:
    folder = home / ".config/tao"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(config)
    return Settings({"HOME": str(home), "TAO_SDK_STATE_DIR": str(home / "state"), **environ})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "jobs.db")


TWO = """
endpoints:
  gpu-box: {platform: docker, docker_host: "tcp://gpu-box:2376", docker_tls_verify: true, docker_cert_path: /certs}
  desk: {platform: docker, docker_host: "unix:///desk.sock"}
  lab: {platform: slurm, hostname: login.lab, user: me, base_results_dir: /lustre/me}
  far: {platform: slurm, hostname: login.far}
"""


def test_each_endpoint_is_a_place_of_its_own(tmp_path: Path, store: Store) -> None:
    shared = {
        "SLURM_USER": "us",
        "SLURM_BASE_RESULTS_DIR": "/shared",
        "DOCKER_HOST": "unix:///env.sock",
    }
    places = Places(settings(tmp_path, TWO, **shared), store)
    assert places.named("gpu-box").endpoint == "tcp://gpu-box:2376"
    assert places.named("desk").endpoint.startswith("unix:///desk.sock")
    assert places.named("docker").endpoint.startswith("unix:///env.sock")
    assert [places.named(name).endpoint for name in ("lab", "far")] == [
        "me@login.lab",
        "us@login.far",
    ]
    assert places.named("lab") is places.named("lab")
    assert places.name_of("slurm", "us@login.far") == "far"


def test_what_is_true_of_one_place_is_not_taken_from_the_settings_of_another(
    tmp_path: Path, store: Store
) -> None:
    of_another = {
        "DOCKER_CERT_PATH": "/other", "DOCKER_TLS_VERIFY": "1", "DOCKER_CONTEXT": "other",
        "SLURM_CLUSTER_NAME": "other",
        "SLURM_USER": "us",
    }  # fmt: skip
    config = (
        "endpoints: {box: {platform: docker, docker_host: 'tcp://box:1'}, far: "
        "{platform: slurm, hostname: far}}"
    )
    places = Places(settings(tmp_path, config, **of_another), store)
    box = places.named("box")
    assert isinstance(box, DockerBackend)
    assert box.address.certificates == ""
    assert places.named("far").endpoint == "us@far"


def test_a_job_is_reached_by_the_way_that_the_store_remembers(tmp_path: Path, store: Store) -> None:
    by_name = Places(settings(tmp_path, TWO), store)
    for name in ("gpu-box", "lab"):
        by_name.remember(by_name.named(name))
    later = Places(settings(tmp_path, "", DOCKER_HOST="unix:///env.sock"), store)
    box = later.at("docker", "tcp://gpu-box:2376")
    assert isinstance(box, DockerBackend)
    assert (box.address.certificates, box.address.verify) == ("/certs", True)
    assert later.at("slurm", "me@login.lab").endpoint == "me@login.lab"
    with pytest.raises(
        Unreachable, match=r"lives on tcp://nowhere:1, and docker here means unix:///env\.sock"
    ):
        later.at("docker", "tcp://nowhere:1")


def test_the_settings_of_now_count_before_those_that_are_remembered(
    tmp_path: Path, store: Store
) -> None:
    old = Places(settings(tmp_path, "", DOCKER_HOST="tcp://box:1"), store)
    old.remember(old.named("docker"))
    config = (
        "endpoints: {box: {platform: docker, docker_host: 'tcp://box:1', docker_cert_path: /new}}"
    )
    found = Places(settings(tmp_path, config), store).at("docker", "tcp://box:1")
    assert isinstance(found, DockerBackend)
    assert found.address.certificates == "/new"


def test_an_endpoint_that_says_too_little_keeps_nobody_from_the_others(
    tmp_path: Path, store: Store
) -> None:
    places = Places(settings(tmp_path, TWO), store)  # nobody has said who logs in at far
    assert places.at("slurm", "me@login.lab").endpoint == "me@login.lab"


def test_what_a_gc_finds_no_job_for_is_forgotten(tmp_path: Path, store: Store) -> None:
    places = Places(settings(tmp_path, TWO), store)
    places.remember(places.named("gpu-box"))
    store.sweep()
    assert store.way_to(("docker", "tcp://gpu-box:2376")) == {}


def test_settings_that_share_a_part_may_say_it_once(tmp_path: Path, store: Store) -> None:
    config = (
        "endpoints:\n  a: &a {platform: slurm, hostname: a, user: me}\n  b: {<<: *a, hostname: b}\n"
    )
    places = Places(settings(tmp_path, config), store)
    assert [places.named(name).endpoint for name in "ab"] == ["me@a", "me@b"]


def test_two_contexts_of_one_kubeconfig_are_two_places(tmp_path: Path, store: Store) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        """
apiVersion: v1
kind: Config
clusters:
- {name: east, cluster: {server: "https://east.example.com:6443"}}
- {name: west, cluster: {server: "https://west.example.com:6443"}}
users: [{name: me, user: {token: sesame}}]
contexts:
- {name: east-1, context: {cluster: east, user: me}}
- {name: west-1, context: {cluster: west, user: me, namespace: theirs}}
current-context: east-1
"""
    )
    config = (
        "endpoints:\n  west: {platform: kubernetes, context: west-1, namespace: training}\n"
        "  east: {platform: kubernetes, tao_k8s_context: east-1}\n"
    )
    places = Places(settings(tmp_path, config, KUBECONFIG=str(kubeconfig)), store)
    west, east = places.named("west"), places.named("east")
    assert west.endpoint != east.endpoint
    assert east.endpoint == places.named("kubernetes").endpoint
    assert isinstance(west, FoundAgain)
    assert west.way["TAO_K8S_CONTEXT"] == "west-1"
    assert "sesame" not in repr(west.way)

    chosen = places.chosen("k8s", {"context": "west-1"})
    assert chosen.endpoint == west.endpoint
    assert places.at("kubernetes", west.endpoint) is chosen
    assert places.chosen("west", {"context": "east-1", "gang": "wait"}).endpoint == east.endpoint
    assert places.chosen("west", {"context": "", "gang": "wait"}) is west
    add(store, "digits-1", platform="kubernetes", endpoint=chosen.endpoint)
    places.remember(chosen)
    later = settings(tmp_path, "", KUBECONFIG=str(kubeconfig))
    wrong = settings(tmp_path, "", KUBECONFIG=str(kubeconfig), TAO_K8S_CONTEXT="north")
    for own in (later, wrong):
        found = Places(own, store).at("kubernetes", chosen.endpoint)
        assert isinstance(found, FoundAgain)
        assert found.way["TAO_K8S_CONTEXT"] == "west-1"
    with (
        Client(settings=later, watch=False) as client,
        pytest.raises(UsageError, match=r"north(.|\n)*east-1, west-1"),
    ):
        client.plan({"image": "a:1", "command": "true"}, "kubernetes", {"context": "north"})


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            "endpoints:\n  lab: {platform: slrum, hostname: a}",
            r"config\.yaml:2: unknown platform 'slrum'\. Did you mean slurm",
        ),
        (
            "endpoints:\n  lab:\n    platform: slurm\n    hostnam: a",
            r"config\.yaml:4: unknown key 'hostnam' .*mean hostname",
        ),
        ("endpoints:\n  lab:\n    hostname: a", r"config\.yaml:2: endpoint lab names no platform"),
        (
            "endpoints:\n  lab: {platform: slurm}",
            r"config\.yaml:2: endpoint lab does not say where it is.*Give its hostname",
        ),
        (
            "endpoints:\n  docker: {platform: docker, docker_host: a}",
            r"config\.yaml:2: docker is the name of a platform",
        ),
        (
            "endpoints:\n  'a b': {platform: local}",
            r"config\.yaml:2: invalid endpoint name: 'a b'",
        ),
        (
            "endpoints:\n  a: {platform: local}\n  a: {platform: local}",
            r"config\.yaml:3: there are two endpoints a",
        ),
        (
            "endpoints:\n  a: {platform: slurm, hostname: x, SLURM_HOSTNAME: y}",
            r"config\.yaml:2: .* a second time",
        ),
        (
            "endpoints:\n  a: {platform: docker, docker_host: [x]}",
            r"config\.yaml:2: docker_host is not a text",
        ),
        (
            "endpoints:\n  a: {platform: docker, ngc_key: hunter2}",
            r"config\.yaml:2: ngc_key is a secret",
        ),
        ("endpoints: {a: {platform: docker, docker_host: 'hunter2", r"config\.yaml:1 is not YAML"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_without_a_value(
    tmp_path: Path, config: str, told: str
) -> None:
    with pytest.raises(UsageError, match=told) as refused:
        endpoints(settings(tmp_path, config))
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_sdk_is_of_an_endpoint_of_its_platform(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no docker endpoint 'lab'.* has: gpu-box, desk"):
        DockerSDK(endpoint="lab", settings=settings(tmp_path, TWO))


def test_a_name_that_is_neither_a_platform_nor_an_endpoint_is_told_with_the_nearest(
    tmp_path: Path,
) -> None:
    with Client(settings=settings(tmp_path, TWO)) as client:
        with pytest.raises(UsageError, match="Did you mean gpu-box"):
            client.list_jobs(platform="gpubox")
        with pytest.raises(UsageError, match="Did you mean gpu-box"):
            client.plan({"command": "true"}, "gpubox")
        with pytest.raises(UsageError, match="Did you mean gpu-box"):
            client.options_class("gpubox")


def test_a_job_file_names_an_endpoint_and_gets_the_options_of_its_platform(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "platform: lab\ncommand: x\noptions: {slurm: {partition: gpu}}\n"
    )
    file = read_job_file(tmp_path / "job.yaml", settings=settings(tmp_path, TWO))
    assert (file.platform, file.options_for("lab")) == ("lab", {"partition": "gpu"})
    (tmp_path / "job.yaml").write_text("platform: labb\ncommand: x\n")
    with pytest.raises(
        DocumentError, match=r"job\.yaml:1:11: unknown platform 'labb'.* Did you mean lab"
    ):
        read_job_file(tmp_path / "job.yaml", settings=settings(tmp_path, TWO))


def test_a_jobs_results_are_known_as_such_by_an_endpoints_name_too(
    tmp_path: Path, store: Store
) -> None:
    """Inside a job's results no link is followed out of them, so they have to be told apart."""
    job_id, folder = "digits-0123456789", "/lustre/me/digits-0123456789"
    add(store, job_id, platform="slurm", endpoint="me@login.lab", results_dir=folder)
    engine = Engine(settings(tmp_path, TWO), store)
    assert results_around(engine, f"{folder}/out/key", "lab") == folder
    assert results_around(engine, "/lustre/me/out/key", "lab") == ""
