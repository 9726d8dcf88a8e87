"""What a new user of Kubernetes is told before the first job."""

from __future__ import annotations

import logging
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes.kube_here import Cluster, namespaced
from support.kubernetes.page_roles import role_of_the_page
from support.shellcheck import complaints_of_text
from support.waiting import until
from tao_sdk.backends.kubernetes.backend import KubernetesBackend
from tao_sdk.backends.kubernetes.cluster import doctor as examination
from tao_sdk.backends.kubernetes.job.start_script import start_script
from tao_sdk.cli.main import run
from tao_sdk.model.clock import utc_now
from tao_sdk.model.errors import CredentialError
from tao_sdk.model.finding import Finding, Severity
from tao_sdk.model.settings import Settings


def doctor(environ: dict[str, str], tmp_path: Path) -> dict[str, Finding]:
    backend = KubernetesBackend(Settings({"HOME": str(tmp_path), **environ}), tmp_path)
    return {each.code: each for each in backend.doctor()}


def test_no_kubeconfig_is_told_in_the_documents_words(tmp_path: Path) -> None:
    told = doctor({}, tmp_path)["kubernetes.no_login"]
    assert told.what == "MISSING: no kubeconfig at ~/.kube/config and not running in a pod."
    assert f"{tmp_path}/.kube/config is not there" in told.why


def test_the_command_has_exit_code_2_without_a_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TAO_SDK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(logging.getLogger("tao_sdk"), "handlers", [])
    assert run(["doctor", "kubernetes"]) == 2
    assert "MISSING: no kubeconfig at ~/.kube/config" in capsys.readouterr().out


def test_the_extra_that_is_not_installed_is_told_in_the_documents_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    told = doctor({}, tmp_path)["extra.missing"]
    assert told.severity is Severity.ERROR
    assert told.what == "MISSING: kubernetes extra not installed. Run:"
    assert "[kubernetes]" in told.command


def test_a_kubeconfig_that_is_not_where_it_should_be_is_named(tmp_path: Path) -> None:
    told = doctor({"KUBECONFIG": "/no/such/config"}, tmp_path)["kubernetes.no_login"]
    assert told.what == "MISSING: no kubeconfig at /no/such/config and not running in a pod."


def test_a_kubeconfig_without_a_context_is_told_how_to_choose_one(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("contexts:\n- name: the lab\n  context: {cluster: a, user: b}\n")
    told = doctor({"KUBECONFIG": str(config)}, tmp_path)["kubernetes.no_context"]
    assert told.what == "MISSING: Could not authenticate to a Kubernetes cluster."
    assert "(its contexts are: the lab)" in told.why
    assert told.command == "kubectl config use-context 'the lab'"


@pytest.mark.parametrize("text", ["a: [", "no mapping", "clusters: 3"])
def test_a_kubeconfig_that_cannot_be_read_is_to_be_mended(tmp_path: Path, text: str) -> None:
    config = tmp_path / "config"
    config.write_text(text)
    told = doctor({"KUBECONFIG": str(config)}, tmp_path)["kubernetes.bad_config"]
    assert str(config) in told.why
    assert told.next.startswith("Mend that file.")


def test_a_job_without_a_cluster_is_refused_with_each_place_that_was_looked_at(
    tmp_path: Path,
) -> None:
    backend = KubernetesBackend(Settings({"HOME": str(tmp_path)}), tmp_path)
    with pytest.raises(CredentialError, match="Could not authenticate to a Kubernetes cluster"):
        _ = backend.endpoint


def test_a_cluster_that_is_ready_has_no_error(surroundings: dict[str, str], tmp_path: Path) -> None:
    told = doctor(surroundings, tmp_path)
    assert told["kubernetes.cluster"].severity is Severity.OK
    assert told["kubernetes.gpus"].severity is Severity.OK
    assert [each for each in told.values() if each.severity is Severity.ERROR] == []


def test_a_cluster_that_does_not_answer_is_missing(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    text = Path(surroundings["KUBECONFIG"]).read_text()
    server = KubernetesBackend(Settings(surroundings), tmp_path).cluster.server
    (tmp_path / "silent").write_text(text.replace(server, "https://127.0.0.1:9"))
    told = doctor({"KUBECONFIG": str(tmp_path / "silent")}, tmp_path)["backend.unreachable"]
    assert told.what.startswith("MISSING: The API server https://127.0.0.1:9")


QUOTA = {"metadata": {"name": "team"}, "spec": {"hard": {"pods": "7", "cpu": "20"}}}


def test_the_role_of_the_page_is_enough_and_each_right_that_is_missing_is_an_error(
    simulation: Cluster, tmp_path: Path
) -> None:
    namespace = simulation.make_namespace()
    quotas = f"{namespaced(namespace)}/resourcequotas"
    simulation.api.create(quotas, QUOTA)
    until(lambda: simulation.api.get(f"{quotas}/team").get("status", {}).get("hard"))
    rules = role_of_the_page()["rules"]

    def told_to(name: str, *granted: Any) -> dict[str, Finding]:
        token = simulation.make_user(namespace, name, [*granted]) if granted else ""
        kubeconfig = simulation.write_kubeconfig(tmp_path / name, namespace, token)
        environ = {"KUBECONFIG": str(kubeconfig), "TAO_K8S_NAMESPACE": namespace}
        return doctor(environ, tmp_path)

    bare = told_to("bare", *rules)
    assert not [each for each in bare.values() if each.severity is Severity.ERROR]
    assert bare["kubernetes.nodes_unseen"].severity is Severity.WARNING
    assert not bare.keys() & {"kubernetes.right", "kubernetes.quota", "kubernetes.gpus"}
    helpless = told_to("helpless", *(rule for rule in rules if rule["apiGroups"] != ["batch"]))
    missing = helpless["kubernetes.right"]
    assert missing.severity is Severity.ERROR
    assert f"list, patch, delete or watch jobs in namespace {namespace}" in missing.what
    assert 'resources: ["jobs"], verbs: ["create"]' in missing.next
    quota = told_to("admin")["kubernetes.quota"].what
    assert quota == f"The quota team of namespace {namespace}: cpu 0 of 20, pods 0 of 7."


SLICES = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"


@pytest.mark.parametrize(
    ("ready", "severity"), [(True, Severity.OK), (False, Severity.WARNING)], ids=["up", "down"]
)
def test_whether_the_clusters_dns_has_a_server_is_told(
    cluster: Cluster, surroundings: dict[str, str], tmp_path: Path, ready: bool, severity: Severity
) -> None:
    body = {
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {"name": f"dns-{ready}".lower(), "labels": {"k8s-app": "kube-dns"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": ready}}],
    }
    cluster.api.create(SLICES, body)
    try:
        assert doctor(surroundings, tmp_path)["kubernetes.dns"].severity is severity
    finally:
        cluster.api.delete(f"{SLICES}/{body['metadata']['name']}")


def test_a_clock_that_is_wrong_is_told(
    surroundings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "kubernetes.clock" not in doctor(surroundings, tmp_path)
    late = utc_now() + timedelta(minutes=10)
    monkeypatch.setattr(examination, "utc_now", lambda: late)
    told = doctor(surroundings, tmp_path)["kubernetes.clock"]
    assert re.fullmatch(r"This machine's clock is \d+ s ahead of the cluster's.", told.what)


def test_a_login_for_private_images_is_told_and_how_to_make_one(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    bare = doctor(surroundings, tmp_path)["kubernetes.pull_login"]
    assert bare.severity is Severity.WARNING
    assert "kubectl create secret docker-registry ngc-pull-secret" in bare.next
    assert f"-n {surroundings['TAO_K8S_NAMESPACE']}" in bare.next
    ready = doctor({**surroundings, "NGC_KEY": "nvapi-of-the-doctor"}, tmp_path)
    assert ready["kubernetes.pull_login"].severity is Severity.OK
    assert "nvapi-of-the-doctor" not in str(ready)


@pytest.mark.network
def test_shellcheck_has_nothing_to_say_of_the_start_script() -> None:
    text = start_script(limit=60, grace=30, rank0="job-0.job", in_parts=True)
    assert complaints_of_text(f"#!/bin/sh\n{text}") == []
