"""Why jobs wait in vain, or were ended by the cluster: many on one cluster, each told what to change. The
caller has the Role of docs/kubernetes.md and no other right; the nodes are simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes.kube_claims import make_claim
from support.kubernetes.kube_here import Cluster, namespaced
from support.kubernetes.kube_jobs import job as kube_job
from support.kubernetes.kube_jobs import until_pods_are_refused
from support.kubernetes.page_roles import role_of_the_page
from support.waiting import until
from tao_sdk.backends.kubernetes import look
from tao_sdk.client import Client
from tao_sdk.model.diagnosis import Diagnosis
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
LOW_ON_MEMORY = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 40Mi."
LIMITS = {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}
# Of pods with a deadline of their own alone, so that the other jobs do not meet it.
QUOTA = {"hard": {"limits.cpu": "1"}, "scopes": ["Terminating"]}
WITH_DEADLINE = {"spec": {"template": {"spec": {"activeDeadlineSeconds": 600}}}}


@dataclass(frozen=True)
class Stuck:
    """A job, the rule that explains it, and some of the cluster's words for it."""

    rule: str
    words: str
    spec: dict[str, Any] = field(default_factory=dict[str, Any])
    options: dict[str, Any] = field(default_factory=dict[str, Any])


def played(**says: str) -> dict[str, Any]:
    """Options of a job whose pod lives as the annotations say."""
    return {"annotations": {f"simulated/{name.replace('_', '-')}": says[name] for name in says}}


def held(why: str, message: str) -> dict[str, Any]:
    return played(waiting=why, message=message)


def labeled(gate: str) -> dict[str, Any]:
    return {"native": {"spec": {"template": {"metadata": {"labels": {"gate": gate}}}}}}


def of_runtime(name: str) -> dict[str, Any]:
    return {"native": {"spec": {"template": {"spec": {"runtimeClassName": name}}}}}


CONFIG = "CreateContainerConfigError"
NOT_FOUND = "rpc error: code = NotFound desc = failed to pull image: registry.test/a:9: not found"
NO_LOGIN = "failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized"
# What waits for ever.
WAITING = [
    Stuck("quota_asks", "must specify limits.cpu", {"native": WITH_DEADLINE}),
    Stuck("quota", "exceeded quota: short", {"native": WITH_DEADLINE, "cpus": 2}),
    Stuck("limit_range", "maximum memory usage per Container is 1Gi", {"memory": "2g"}),
    Stuck("pod_security", 'violates PodSecurity "baseline', {"mounts": ["/srv/data:/data"]}),
    Stuck("webhook", "no team may use this gate", labeled("policy")),
    Stuck("webhook_down", "failed calling webhook", labeled("webhook")),
    Stuck("unknown_name", 'serviceaccount "nobody" not found', {}, {"service_account": "nobody"}),
    Stuck("unknown_name", "no PriorityClass with name none", {}, {"priority_class": "none"}),
    Stuck("unknown_name", 'RuntimeClass "none" not found', of_runtime("none")),
    Stuck("no_claim", 'persistentvolumeclaim "none" not found', {"mounts": ["pvc://none:/data"]}),
    Stuck("no_claim", "unbound immediate PersistentVolumeClaims", {"mounts": ["pvc://late:/data"]}),
    Stuck("no_secret", 'secret "none" not found', {}, held(CONFIG, 'secret "none" not found')),
    Stuck("no_key", "find key a in", {}, held(CONFIG, "couldn't find key a in Secret team/b")),
    Stuck("no_image", "registry.test/a:9: not found", {}, held("ErrImagePull", NOT_FOUND)),
    Stuck("pull_login", "401 Unauthorized", {}, held("ErrImagePull", NO_LOGIN)),
]
# What the cluster ends.
ENDED = [
    Stuck("evicted", LOW_ON_MEMORY, {}, played(evicted=LOW_ON_MEMORY)),
    Stuck(
        "deadline",
        "time limit",
        {"native": {"spec": {"activeDeadlineSeconds": 1}}},
        played(seconds="600"),
    ),
]


@pytest.fixture
def team(simulation: Cluster) -> Iterator[str]:
    """A namespace with a pod security level, a quota, limits and an unbound claim."""
    simulation.simulate_nodes({"stuck-1": {"gpus": 0}})
    name = simulation.make_namespace()
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    simulation.api.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})
    for kind, called, spec in (
        ("limitranges", "small", LIMITS),
        ("resourcequotas", "short", QUOTA),
    ):
        simulation.api.create(
            f"{namespaced(name)}/{kind}", {"metadata": {"name": called}, "spec": spec}
        )
    make_claim(simulation, name, "late")
    with gates(simulation, name):
        yield name
        simulation.clear_namespace(name)


@contextmanager
def gates(cluster: Cluster, namespace: str) -> Iterator[None]:
    """A policy that refuses pods with one label, and a webhook for those with another, at whose
    address nobody answers.
    """
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    pods = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]
    rules = [{**each, "operations": ["CREATE"]} for each in pods]
    policy = {
        "matchConstraints": {
            "resourceRules": rules,
            "namespaceSelector": here,
            "objectSelector": {"matchLabels": {"gate": "policy"}},
        },
        "validations": [{"expression": "false", "message": "no team may use this gate"}],
    }
    webhook = {
        "name": "gate.tests.local",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "rules": rules,
        "namespaceSelector": here,
        "objectSelector": {"matchLabels": {"gate": "webhook"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    named = {"metadata": {"name": namespace}}
    binding = {"policyName": namespace, "validationActions": ["Deny"]}
    made = {
        "validatingadmissionpolicies": {**named, "spec": policy},
        "validatingadmissionpolicybindings": {**named, "spec": binding},
        "validatingwebhookconfigurations": {**named, "webhooks": [webhook]},
    }
    for kind, body in made.items():
        cluster.api.create(f"{ADMISSION}/{kind}", body)
    try:
        refuse_at_once(cluster, namespace)
        yield
    finally:
        for kind in made:
            cluster.api.delete(f"{ADMISSION}/{kind}/{namespace}")


def refuse_at_once(cluster: Cluster, namespace: str) -> None:
    """A policy, a webhook and a quota hold a while after they were made."""
    manifest = kube_job("try", "true")
    spec = manifest["spec"]["template"]["spec"]
    spec["activeDeadlineSeconds"] = 600
    until_pods_are_refused(cluster, namespace, "must specify limits.cpu", manifest)
    for gate, words in (("policy", "no team may use"), ("webhook", "failed calling webhook")):
        until_pods_are_refused(cluster, namespace, words, manifest, {"gate": gate})


@pytest.fixture
def client(simulation: Cluster, team: str, tmp_path: Path) -> Iterator[Client]:
    """Of a caller with the Role of the page."""
    token = simulation.make_user(team, "caller", role_of_the_page()["rules"])
    with opened(simulation, team, tmp_path, token) as client:
        yield client


@contextmanager
def opened(cluster: Cluster, namespace: str, folder: Path, token: str = "") -> Iterator[Client]:
    kubeconfig = cluster.write_kubeconfig(folder / f"caller-{bool(token)}", namespace, token)
    environ = {"KUBECONFIG": str(kubeconfig), "TAO_K8S_NAMESPACE": namespace}
    environ |= {"HOME": str(folder), "TAO_SDK_STATE_DIR": str(folder / "state")}
    with Client(settings=Settings(environ)) as client:
        yield client


def submit(client: Client, stuck: Stuck) -> str:
    return client.submit(spec_of(stuck), "kubernetes", stuck.options).job.id


def spec_of(stuck: Stuck) -> JobSpec:
    return JobSpec(image="registry.test/a:9", command="true", gpu_count=0, **stuck.spec)


def explained(client: Client, job_id: str, stuck: Stuck) -> Diagnosis:
    """The diagnosis, once the cluster has told what it is about."""

    def found() -> Diagnosis | None:
        told = client.diagnose(job_id)
        return told if told is not None and told.rule == f"kubernetes.{stuck.rule}" else None

    return until(found, words=lambda: f"{stuck}: {client.diagnose(job_id)}")


def test_each_job_that_waits_in_vain_or_was_ended_by_the_cluster_says_why_and_what_to_change(
    simulation: Cluster,
    client: Client,
    team: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who may create pods as well is told before the submit."""
    with opened(simulation, team, tmp_path) as admin:
        is_refused_before_the_submit(admin)
    jobs = [(submit(client, stuck), stuck) for stuck in (*WAITING, *ENDED)]
    for job_id, stuck in jobs:
        told = explained(client, job_id, stuck)
        assert stuck.words in f"{told.what} {told.why}"
        assert not told.next.startswith("Wait.")
        analysis = client.get_failure_analysis(job_id)
        assert analysis is not None, stuck
        assert (analysis["err_class"], analysis["suggestion"]) == (told.err_class.value, told.next)
        status = Status.PENDING if stuck in WAITING else Status.ERROR
        assert client.get_job(job_id).status is status
        if stuck.rule == "pull_login":
            assert "--docker-server=registry.test " in told.next
            assert f"-n {team}" in told.next
    monkeypatch.setattr(look, "MOUNT_SECONDS", 0.0)
    says_each_step_of_its_node(client, simulation, team)


# The events of a pod whose container is being created, one after the other -> the rule of each.
STEPS = [
    ("FailedCreatePodSandBox", "plugin type=bridge failed: no address left", "sandbox"),
    ("FailedMount", "MountVolume.SetUp failed: timed out", "mount"),
    ("Pulling", 'Pulling image "registry.test/a:9"', "pulling"),
]


def says_each_step_of_its_node(client: Client, cluster: Cluster, team: str) -> None:
    stuck = Stuck("preparing", "prepares it: volumes", {}, held("ContainerCreating", ""))
    job_id = submit(client, stuck)
    assert stuck.words in explained(client, job_id, stuck).what
    selector = f"labelSelector=tao-sdk-job-id={job_id}"
    [pod] = cluster.api.get(f"{namespaced(team)}/pods?{selector}")["items"]
    for second, (reason, message, rule) in enumerate(STEPS):
        event = {
            "metadata": {"generateName": "step-"},
            "involvedObject": {"kind": "Pod", "namespace": team, "uid": pod["metadata"]["uid"]},
            "reason": reason,
            "message": message,
            "type": "Normal" if reason == "Pulling" else "Warning",
            "lastTimestamp": f"2026-01-01T00:00:{second:02}Z",
        }
        cluster.api.create(f"{namespaced(team)}/events", event)
        told = explained(client, job_id, Stuck(rule, ""))
        assert message.removeprefix("Pulling image ").strip('"') in told.what
        assert client.get_job(job_id).message.startswith(f"{reason}: ")


def is_refused_before_the_submit(admin: Client) -> None:
    [stuck] = [each for each in WAITING if each.rule == "pod_security"]
    found = {each.code: each for each in admin.plan(spec_of(stuck), "kubernetes").findings}
    assert stuck.words in found["kubernetes.refused"].what
    assert "pvc://" in found["kubernetes.refused"].next
