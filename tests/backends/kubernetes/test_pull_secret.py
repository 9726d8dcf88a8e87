"""Private images: the Secret that a job gets with its caller's login to the registry."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes import kube_images
from support.kubernetes.kube_here import Cluster, namespaced
from support.waiting import until
from tao_sdk.backends.kubernetes.backend import KubernetesBackend
from tao_sdk.backends.kubernetes.cluster import pull_login
from tao_sdk.backends.kubernetes.options import KubernetesOptions
from tao_sdk.model.errors import Refused
from tao_sdk.model.plan import Attempt
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.reasons import Reason
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, mint_id

IMAGE = f"nvcr.io/{kube_images.PULLED}"
PASSWORD = kube_images.REGISTRY_PASSWORD
SEEN_BY_MANY = ("pods", "configmaps", "events", "services")


@pytest.fixture
def backend(surroundings: dict[str, str], tmp_path: Path) -> Iterator[KubernetesBackend]:
    settings = Settings({**surroundings, "NGC_KEY": PASSWORD})
    backend = KubernetesBackend(settings, tmp_path / "state")
    yield backend
    backend.close()


def planned(backend: KubernetesBackend, image: str = IMAGE, **options: Any) -> Any:
    prepared = PreparedJob(JobSpec(image=image, command="true", gpu_count=0), "true")
    given = backend.Options(**options)
    attempt = Attempt(mint_id("pull"), 1, "kubernetes", backend.endpoint, "feedfeedfeedfeed")
    return backend.plan(prepared, given, backend.survey(prepared, given), attempt)


def pull_secrets(plan: Any) -> Any:
    return plan.request.job["spec"]["template"]["spec"].get("imagePullSecrets")


def test_a_private_image_is_pulled_with_ngc_key_which_is_in_one_secret_alone(
    backend: KubernetesBackend, cluster: Cluster, namespace: str
) -> None:
    kube_images.registry(cluster)
    plan = planned(backend)
    ref = backend.submit(plan, {})
    until(lambda: backend.observe([ref])[ref].phase.ended)
    assert backend.observe([ref])[ref].reason_code is not Reason.PULL_FAILED
    name = f"{plan.request.name}-pull"
    secrets = cluster.api.get(f"{namespaced(namespace)}/secrets")["items"]
    holders = [each["metadata"]["name"] for each in secrets if holds_password(each)]
    assert holders == [name]
    paths = [f"{namespaced(namespace)}/{kind}" for kind in SEEN_BY_MANY]
    paths.append(f"{namespaced(namespace, 'batch/v1')}/jobs")
    told = b"".join(cluster.api.read(path) for path in paths)
    assert name.encode() in told
    assert PASSWORD.encode() not in told
    assert PASSWORD not in json.dumps(plan.to_json())
    assert PASSWORD not in "".join(cluster.audit())
    backend.release(ref)
    until(lambda: name not in secret_names(cluster, namespace))


def holds_password(secret: dict[str, Any]) -> bool:
    values = [base64.b64decode(value) for value in (secret.get("data") or {}).values()]
    return any(PASSWORD in opened(value) for value in values)


def opened(value: bytes) -> str:
    """A Secret's value; of a login, with the pair of name and password readable."""
    text = value.decode(errors="replace")
    if not text.startswith('{"auths"'):
        return text
    pairs = [each["auth"] for each in json.loads(text)["auths"].values()]
    return "".join(base64.b64decode(pair).decode() for pair in pairs)


def secret_names(cluster: Cluster, namespace: str) -> list[str]:
    found = cluster.api.get(f"{namespaced(namespace)}/secrets")["items"]
    return [each["metadata"]["name"] for each in found]


def test_a_secret_of_the_callers_own_wins_and_none_makes_none(
    backend: KubernetesBackend,
) -> None:
    assert pull_secrets(planned(backend, image_pull_secret="mine")) == [{"name": "mine"}]
    assert pull_secrets(planned(backend, pull_secret="none")) is None
    assert pull_secrets(planned(backend, image="tests.local/python:1")) is None


def test_a_job_that_was_planned_with_a_login_is_not_started_without_it(
    backend: KubernetesBackend, surroundings: dict[str, str], tmp_path: Path
) -> None:
    plan = planned(backend)
    keyless = KubernetesBackend(Settings(surroundings), tmp_path / "state")
    with pytest.raises(Refused, match="no login to nvcr.io"):
        keyless.submit(plan, {})
    assert keyless.find(plan.attempt, plan) is None


def test_an_image_of_nvcr_io_without_a_login_is_warned_about_with_the_namespace(
    backend: KubernetesBackend, surroundings: dict[str, str], namespace: str, tmp_path: Path
) -> None:
    keyless = KubernetesBackend(Settings(surroundings), tmp_path / "state")
    prepared = PreparedJob(JobSpec(image=IMAGE, command="true", gpu_count=0), "true")
    found = keyless.survey(prepared, keyless.Options()).refusals
    advice = next(each for each in found if each.code == "kubernetes.pull_secret")
    assert "kubectl create secret docker-registry" in advice.next
    assert f"-n {namespace}" in advice.next
    told = backend.survey(prepared, backend.Options()).refusals
    assert "kubernetes.pull_secret" not in [each.code for each in told]


def test_what_docker_login_has_kept_is_used_for_its_registry_alone(tmp_path: Path) -> None:
    auth = base64.b64encode(b"me:word").decode()
    (tmp_path / ".docker").mkdir()
    kept = {"auths": {"registry.example": {"auth": auth}}}
    (tmp_path / ".docker" / "config.json").write_text(json.dumps(kept))
    settings = Settings({"HOME": str(tmp_path)})
    options = KubernetesOptions()
    assert pull_login.pull_registry("registry.example/a:1", options, settings) == "registry.example"
    assert pull_login.find_password("registry.example", settings)["password"] == "word"
    assert pull_login.pull_registry("other.example/a:1", options, settings) == ""
    mine = replace(options, image_pull_secret="mine")
    assert pull_login.pull_registry("registry.example/a:1", mine, settings) == ""


def test_a_broken_file_of_docker_stops_no_job(tmp_path: Path) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text("{")
    settings = Settings({"HOME": str(tmp_path)})
    assert pull_login.pull_registry("registry.example/a:1", KubernetesOptions(), settings) == ""
