"""The ranks of a job one by one, and why it failed, in the shapes of TAO's documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes.kube_here import Cluster, namespaced
from support.kubernetes.kube_jobs import job as kube_job
from support.kubernetes.kube_jobs import until_pods_are_refused
from support.pages import ROOT
from support.waiting import until
from tao_sdk.backends.kubernetes.backend import KubernetesBackend
from tao_sdk.backends.kubernetes.parse import Seen
from tao_sdk.backends.kubernetes.pods.replicas import replicas_of
from tao_sdk.model.job import Job
from tao_sdk.model.plan import Attempt
from tao_sdk.model.prepared_job import PreparedJob
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec, mint_id
from tao_sdk.model.status import Status
from tao_sdk.platforms.kubernetes import KubernetesSDK

IMAGE = "tests.local/python:1"
CANARY = "canary-of-a-replica"
DOCUMENTS = ROOT / "tests" / "documents" / "kubernetes"
QUOTA = {"metadata": {"name": "no-pods"}, "spec": {"hard": {"pods": "0"}}}


@pytest.fixture
def sdk(surroundings: dict[str, str]) -> Iterator[KubernetesSDK]:
    with KubernetesSDK(settings=Settings(surroundings), watch=False) as sdk:
        yield sdk
        for job in sdk.list_jobs(look=False):
            if not job.status.terminal:
                sdk.cancel_job(job.id, grace=1)
            sdk.remove(job.id)


def create(sdk: KubernetesSDK, command: str, **more: Any) -> Job:
    return sdk.create_job(**{"image": IMAGE, "command": command, "gpu_count": 0, **more})


def statuses(sdk: KubernetesSDK, job: Job) -> list[dict[str, Any]]:
    return [replica["status"] for replica in sdk.get_job_replicas(job.id)]


@pytest.mark.filterwarnings("ignore")
def test_each_rank_is_a_replica_with_its_pod_and_its_node(sdk: KubernetesSDK) -> None:
    job = create(sdk, "sleep 300", num_nodes=2)
    until(lambda: sdk.get_job(job.id).status is Status.RUNNING)
    replicas = sdk.get_job_replicas(job.id)
    assert [each["rank"] for each in replicas] == [0, 1]
    for replica in replicas:
        assert replica["name"].startswith(f"tao-job-{job.id}-{replica['rank']}-")
        assert replica["status"] == {
            "phase": "Running",
            "readiness_issue": None,
            "node": {"name": "real-node", "node_group_id": ""},
            "restarts": 0,
            "exit_code": None,
        }


@pytest.mark.filterwarnings("ignore")
def test_a_pod_that_no_node_takes_has_the_issue_that_the_document_shows(
    sdk: KubernetesSDK, capsys: pytest.CaptureFixture[str]
) -> None:
    holder = create(sdk, "sleep 300", gpu_count=8)
    until(lambda: sdk.get_job(holder.id).status is Status.RUNNING)
    job = create(sdk, "true", gpu_count=1)
    until(lambda: (statuses(sdk, job)[0]["readiness_issue"] or {}).get("message"))
    capsys.readouterr()
    snippet = (DOCUMENTS / "replicas.py").read_text(encoding="utf-8")
    exec(compile(snippet, "replicas.py", "exec"), {"sdk": sdk, "job": job})
    told = capsys.readouterr().out
    assert told.startswith("Pending 0/1 nodes are available: 1 Insufficient nvidia.com/gpu")
    assert statuses(sdk, job)[0]["node"]["name"] == ""
    diagnosis = sdk.diagnose(job.id)
    assert diagnosis is not None and diagnosis.rule == "kubernetes.unschedulable"
    assert "real-node has 0 of 8 nvidia.com/gpu left, held by " in diagnosis.what
    waits_without_a_log(sdk, job)


def waits_without_a_log(sdk: KubernetesSDK, job: Job) -> None:
    """Its status tells that it does not run, and why, and its empty log is no error."""
    assert sdk.get_job_status(job.id).status == Status.PENDING.value
    assert sdk.get_job(job.id).message
    assert sdk.get_job_logs(job.id) == ""


@pytest.mark.filterwarnings("ignore")
def test_an_image_that_cannot_be_pulled_is_an_issue_in_the_clusters_words(
    sdk: KubernetesSDK,
) -> None:
    job = create(sdk, "true", image="127.0.0.1:9/none:1")
    until(lambda: issue_of(sdk, job).get("reason") == "ImagePullBackOff")
    assert "Back-off pulling image" in issue_of(sdk, job)["message"]
    diagnosis = sdk.diagnose(job.id)
    assert diagnosis is not None and diagnosis.rule == "kubernetes.pull"
    analysis = sdk.get_failure_analysis(job.id)
    assert analysis is not None
    assert (analysis["err_class"], analysis["suggestion"]) == ("ERR_INFRA", diagnosis.next)
    waits_without_a_log(sdk, job)


# Of a node's folder that is not there.
WITH_A_LOST_FOLDER = {
    "volumes": [{"name": "lost", "hostPath": {"path": "/nowhere", "type": "Directory"}}],
    "containers": [{"name": "tao", "volumeMounts": [{"name": "lost", "mountPath": "/lost"}]}],
}


@pytest.mark.filterwarnings("ignore")
def test_a_volume_that_cannot_be_mounted_is_told_in_the_words_of_its_event(
    sdk: KubernetesSDK,
) -> None:
    native = {"spec": {"template": {"spec": WITH_A_LOST_FOLDER}}}
    job = create(sdk, "true", native=native)
    until(lambda: issue_of(sdk, job).get("reason") == "FailedMount")
    assert "hostPath type check failed: /nowhere" in issue_of(sdk, job)["message"]
    assert "FailedMount: MountVolume.SetUp failed" in sdk.get_job(job.id).message
    diagnosis = sdk.diagnose(job.id)
    assert diagnosis is not None and diagnosis.rule == "kubernetes.mount"


def with_secret(name: str, key: str) -> dict[str, Any]:
    """`native` of a job with a variable that is a key of a Secret."""
    value = {"secretKeyRef": {"name": name, "key": key}}
    container = {"name": "tao", "env": [{"name": "LOGIN", "valueFrom": value}]}
    return {"spec": {"template": {"spec": {"containers": [container]}}}}


@pytest.mark.filterwarnings("ignore")
def test_a_secret_or_a_key_of_it_that_is_missing_is_told_in_the_kubelets_words(
    sdk: KubernetesSDK, cluster: Cluster, namespace: str
) -> None:
    known = {"metadata": {"name": "known"}, "stringData": {"user": "me"}}
    cluster.api.create(f"{namespaced(namespace)}/secrets", known)
    jobs = {
        "kubernetes.no_secret": create(sdk, "true", native=with_secret("none", "user")),
        "kubernetes.no_key": create(sdk, "true", native=with_secret("known", "password")),
    }
    for rule, job in jobs.items():
        until(lambda job=job: issue_of(sdk, job).get("reason") == "CreateContainerConfigError")
        diagnosis = sdk.diagnose(job.id)
        assert diagnosis is not None and diagnosis.rule == rule
        waits_without_a_log(sdk, job)


def issue_of(sdk: KubernetesSDK, job: Job) -> dict[str, str]:
    return statuses(sdk, job)[0]["readiness_issue"] or {}


@pytest.mark.filterwarnings("ignore")
def test_a_failed_rank_has_its_exit_code_and_no_word_of_its_log(sdk: KubernetesSDK) -> None:
    job = create(sdk, f"echo {CANARY}; exit 7")
    sdk.wait(job.id, timeout=300)
    [status] = statuses(sdk, job)
    assert (status["phase"], status["exit_code"]) == ("Failed", 7)
    assert status["readiness_issue"] == {"reason": "Error", "message": "exit code 7"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("command", "event", "err_class"),
    [
        ("python3 -c 'x = bytearray(300 << 20)'", "OOMKilled", "ERR_PROGRAM"),
        ("exit 7", "Error", "ERR_PROGRAM"),
    ],
)
def test_a_failure_has_the_events_and_the_suggestion_of_the_document(
    sdk: KubernetesSDK, command: str, event: str, err_class: str
) -> None:
    job = create(sdk, command, memory="40m")
    sdk.wait(job.id, timeout=300)
    snippet = (DOCUMENTS / "failure.py").read_text(encoding="utf-8")
    names: dict[str, Any] = {"sdk": sdk, "job": job}
    exec(compile(snippet, "failure.py", "exec"), names)
    analysis = names["analysis"]
    assert analysis["err_class"] == err_class
    assert analysis["suggestion"]
    [told] = [
        each for each in analysis["job_failure_by_node_event"] if each["node_event_name"] == event
    ]
    assert "on real-node" in told["message"]
    if event == "OOMKilled":
        assert analysis["suggestion"].startswith("Container OOM-killed. Reduce batch size")


def crowd_events(cluster: Cluster, namespace: str) -> None:
    """As many events of other Jobs as one question once asked for, before all others by name."""
    events = f"{namespaced(namespace)}/events"
    for number in range(500):
        about = {"kind": "Job", "namespace": namespace, "name": "other", "uid": "other"}
        event = {"metadata": {"name": f"a-{number}"}, "involvedObject": about}
        cluster.api.create(events, {**event, "reason": "FailedCreate", "type": "Warning"})


def test_a_pod_that_a_quota_forbids_is_a_replica_without_a_name(
    surroundings: dict[str, str], cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    backend = KubernetesBackend(Settings(surroundings), tmp_path / "state")
    prepared = PreparedJob(JobSpec(image=IMAGE, command="true", gpu_count=0), "true")
    facts = backend.survey(prepared, backend.Options())
    attempt = Attempt(mint_id("quota"), 1, "kubernetes", backend.endpoint, "feedfeedfeedfeed")
    plan = backend.plan(prepared, backend.Options(), facts, attempt)
    quotas = f"{namespaced(namespace)}/resourcequotas"
    cluster.api.create(quotas, QUOTA)
    crowd_events(cluster, namespace)
    until_pods_are_refused(cluster, namespace, "exceeded quota", kube_job("one", "true"))
    ref = backend.submit(plan, {})
    suspend_for_a_moment(cluster, f"{namespaced(namespace, 'batch/v1')}/jobs/{ref.native_id}")
    until(lambda: "exceeded quota" in backend.replicas(ref)[0].issue_message)
    [replica] = backend.replicas(ref)
    assert (replica.name, replica.node, replica.issue_reason) == ("", "", "FailedCreate")
    backend.release(ref)
    backend.close()


def suspend_for_a_moment(cluster: Cluster, job: str) -> None:
    """As a busy controller sees each Job of ours, which is made suspended."""
    cluster.api.patch(job, {"spec": {"suspend": True}})
    until(lambda: cluster.api.get(job)["status"].get("conditions"))
    cluster.api.patch(job, {"spec": {"suspend": False}})


def test_a_rank_whose_pod_was_deleted_with_the_others_is_told_as_gone() -> None:
    job = {
        "metadata": {"name": "tao-job-x"},
        "spec": {"completions": 2},
        "status": {"conditions": [{"type": "Failed", "status": "True"}]},
    }
    gone, _ = replicas_of(Seen(job, [failed_pod(1)]))
    assert (gone.rank, gone.name, gone.issue_reason) == (0, "", "Deleted")


def failed_pod(rank: int) -> dict[str, Any]:
    state = {"terminated": {"exitCode": 5, "reason": "Error", "message": CANARY}}
    return {
        "metadata": {
            "name": "pod",
            "labels": {"batch.kubernetes.io/job-completion-index": str(rank)},
        },
        "spec": {"nodeName": "a"},
        "status": {"phase": "Failed", "containerStatuses": [{"name": "tao", "state": state}]},
    }


def test_what_a_container_has_printed_is_not_among_the_issues() -> None:
    job = {"metadata": {}, "spec": {}, "status": {}}
    [replica] = replicas_of(Seen(job, [failed_pod(0)]))
    assert (replica.exit_code, replica.issue_message) == (5, "exit code 5")
    assert CANARY not in str(replica.to_json())
